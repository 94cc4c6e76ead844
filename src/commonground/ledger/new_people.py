"""People about to get accounts of their own."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from sqlalchemy import Connection

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget, PureBudget
from commonground.accounting.costs import cost_of
from commonground.accounting.gaussian import gaussian_mus
from commonground.errors import InputError
from commonground.ledger.columns import PEOPLE_IN_PIECE, store
from commonground.ledger.digests import Directory, digests, listed
from commonground.ledger.persons import piece_sizes
from commonground.ledger.shares import LARGEST_COST, units_within


class NewPeople:
    """Digests and limits, in the order of the digests."""

    def __init__(self, found: np.ndarray, limits: np.ndarray) -> None:
        self.digests, self.limits = found, limits

    def stored(self, connection: Connection, population: str) -> dict[str, Any]:
        sizes = piece_sizes(len(self.limits), PEOPLE_IN_PIECE)
        return {
            "people": len(self.limits),
            "in_piece": PEOPLE_IN_PIECE,
            "digests": store(connection, population, self.digests.astype("<u8"), sizes),
            "limits": store(connection, population, self.limits.astype("<i8"), sizes),
        }


def batch_of(ids: Iterable[Any], epsilons: np.ndarray | float, budget: Budget | PureBudget, salt: bytes) -> NewPeople:
    """Limits of people within the population's budget; each person once."""
    if not budget.delta:
        raise InputError("personal accounts are kept of Gaussian fits: open the population with a delta above 0.")
    ids = listed(ids)
    own = np.broadcast_to(np.asarray(epsilons, dtype=np.float64), (len(ids),))
    if not len(ids):
        raise InputError("there is nobody to open an account for; give at least one person.")
    allowed = (own == 0) | ((own >= SMALLEST_EPSILON) & (own <= budget.epsilon))
    if not allowed.all():
        raise InputError(
            f"a personal ε must be 0, or from {SMALLEST_EPSILON:g} to the population's {budget.epsilon:g}, got "
            f"{own[~allowed][0]:g} for {int((~allowed).sum()):,} people. Open the population with the largest personal ε."
        )
    if cost_of(budget.mu) > LARGEST_COST:
        raise InputError(f"personal accounts do not reach to ε = {budget.epsilon:g}; open the population with less.")
    found = digests(ids, salt)
    directory = Directory.of(found)
    if repeated := directory.repeated():
        raise InputError(f"{repeated:,} people are named more than once; each has one account and one ε.")
    distinct, which = np.unique(own, return_inverse=True)
    limits = units_within(gaussian_mus(distinct, budget.delta))[which]
    return NewPeople(found[directory.position], limits[directory.position])
