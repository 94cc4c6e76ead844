"""What a release tells about the budgets themselves (P3's appendix A leaves it open).

Weights and noise follow from everybody's ε, and the statement says how large the noise is. So who knows all budgets but one
reads the last one off the statement: budgets are public in this package, as docs/limitations.md says. ``read_off`` shows it.
"""

import numpy as np

from commonground.billboard.board import Billboard
from commonground.clipping.ridge import ridge_sensitivity
from commonground.errors import InputError
from commonground.estimators.personal_ridge import coefficient_radius


def read_off(board: Billboard, alpha: float, others: np.ndarray, fit_intercept: bool = True) -> float:
    """The one ε that is not among ``others``, from the statement of ``PersonalBudgetRidge(method="reweight")``.

    ``alpha`` is a public parameter. Up to the rounding of weights and of the stated sensitivity.
    """
    if board.statement.recipe != "reweight" or len(others) != board.statement.n_users - 1:
        raise InputError(
            f"read_off needs a board of method='reweight' and {board.statement.n_users - 1} other budgets, got recipe "
            f"{board.statement.recipe!r} and {len(others)}."
        )
    (event,) = board.statement.events
    d = board.statement.n_features + int(fit_intercept)
    total_weight = ridge_sensitivity(d, alpha, 1.0, coefficient_radius(alpha, d)) / event.sensitivity
    return float(total_weight * board.statement.epsilon - np.sum(others))  # weights are ε_i over the largest ε
