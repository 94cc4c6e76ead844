"""Everybody alone: ridge regression on each person's own rows, the baseline that sharing must beat."""

from typing import Any

import numpy as np

from commonground.accounting.events import Event
from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.data.population import Block, Population
from commonground.defaults import FIT_INTERCEPT
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.gate import Gate
from commonground.statistics.statistic import SharedModel

# Rows with such numbers are left out of the pooled model: their squares would be all there is, or overflow.
TOO_LARGE = 1e140


class OwnDataOnly(PersonalModel):
    """Ridge regression for each person on her own rows.

    Parameters
    ----------
    towards : Billboard, "pooled" or None, default=None
        What the coefficients are pulled to. None: zero; nothing is shared and no budget is needed. A ``Billboard``: its shared
        mean, for example that of a private ``SingleModel``. "pooled": the least-squares model of all rows together, which is
        **not private**; a strong baseline all the same.
    fit_intercept : bool
        Give each person an intercept of her own.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=50, n_features=5, seed=1)
    >>> print(cg.OwnDataOnly().fit(users).billboard_.statement)
    Own data only (recipe 'zero'), trained on 50 people. Nothing that depends on anybody's data is published.
    """

    def __init__(
        self, towards: "Billboard | str | None" = None, *, fit_intercept: bool = FIT_INTERCEPT, user: Any = None
    ) -> None:
        self.towards = towards
        self.fit_intercept = fit_intercept
        self.user = user

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        d = users.n_features
        mean, intercept, origin, epsilon, delta = np.zeros(d), 0.0, "zero", 0.0, 0.0
        events: tuple[Event, ...] = ()
        simulated, noise = False, "none needed"
        if isinstance(self.towards, Billboard):
            given = self.towards
            if given.n_features != d:
                raise InputError(f"towards has {given.n_features} features, the users have {d}; they must agree.")
            mean, intercept = (np.zeros(d) if given.mean is None else given.mean), given.intercept
            origin, epsilon, delta = "billboard", given.statement.epsilon, given.statement.delta
            events, simulated, noise = given.statement.events, given.statement.simulated, given.statement.noise
        elif self.towards == "pooled":
            mean, intercept = pooled_least_squares(users, self.fit_intercept)
            origin, epsilon, noise = "pooled", np.inf, "none"
        elif self.towards is not None:
            raise InputError(f"towards of OwnDataOnly must be None, 'pooled' or a Billboard, got {self.towards!r}.")
        statement = Statement(
            algorithm="Own data only",
            recipe=origin,
            epsilon=epsilon,
            delta=delta,
            n_users=users.n_users,
            n_features=d,
            simulated=simulated,
            noise=noise,
            events=events,
        )
        return self._board(users, SharedModel(np.eye(d), mean, intercept, self.fit_intercept), statement)


def pooled_least_squares(users: Population, with_intercept: bool) -> tuple[np.ndarray, float]:
    """Least squares over all rows of all people, from its normal equations; reads the rows once."""
    d = users.n_features
    moment = np.zeros((d + 2, d + 2))

    def augmented(block: Block) -> np.ndarray:
        return np.column_stack([block.X, np.full(block.n_rows, float(with_intercept)), block.y]).astype(np.float64)

    for block in users.blocks():
        rows = augmented(block)
        rows = rows[(np.abs(rows) < TOO_LARGE).all(axis=1)]
        moment += rows.T @ rows
    solution = np.linalg.lstsq(moment[:-1, :-1], moment[:-1, -1], rcond=None)[0]
    return solution[:d], float(solution[d]) if with_intercept else 0.0
