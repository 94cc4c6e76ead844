"""What a release tells about the budgets themselves (P3's appendix A leaves it open).

Weights and noise follow from everybody's ε, and the statement says how large the noise is. So who knows all budgets but one
reads the last one off the statement: budgets are public in this package, as docs/limitations.md says.
"""

import numpy as np
import pytest

import commonground as cg
from commonground.clipping.ridge import ridge_sensitivity
from commonground.estimators.personal_ridge import coefficient_radius


def read_off(board: cg.Billboard, alpha: float, others: np.ndarray) -> float:
    """The one ε that is not among ``others``, up to the rounding of weights and of the stated sensitivity."""
    (event,) = board.statement.events
    d = board.statement.n_features + 1  # the constant feature
    total_weight = ridge_sensitivity(d, alpha, 1.0, coefficient_radius(alpha, d)) / event.sensitivity
    return float(total_weight * board.statement.epsilon - np.sum(others))  # weights are ε_i over the largest ε


@pytest.mark.parametrize("hers", [0.05, 0.7, 2.0])
def test_the_last_budget_is_read_off_the_statement(hers: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    y = X @ [0.2, 0.3, 0.1]
    budgets = np.r_[rng.uniform(0.1, 2.0, 58), 2.0, hers]
    model = cg.PersonalBudgetRidge(
        "reweight", alpha=1.0, feature_bounds=(0, 1), label_bounds=(0, 1), budgets=budgets, simulation_seed=0
    ).fit(X, y)
    assert read_off(model.billboard_, 1.0, budgets[:-1]) == pytest.approx(hers, abs=1e-3)
