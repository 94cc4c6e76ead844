"""One budget in parts: each fit of a search has its own declared budget, and all of them are charged to one book."""

import math
from dataclasses import dataclass, replace

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget
from commonground.accounting.events import Event
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.errors import InputError
from commonground.ledger import InMemoryLedger, Ledger


def part_of(budget: Budget, share: float) -> Budget:
    """The budget whose μ² is this share, from 0 to 1, of the whole's; rounded down.

    >>> whole = Budget(2.0, 1e-6)
    >>> 0.4999 < (part_of(whole, 0.25).mu / whole.mu) < 0.5
    True
    """
    epsilon = gaussian_epsilon(budget.mu * math.sqrt(share) * (1 - 1e-7), budget.delta) * (1 - 1e-7)
    if epsilon < SMALLEST_EPSILON:
        raise InputError(
            f"a part of ε = {budget.epsilon:g} for each candidate would be below {SMALLEST_EPSILON:g}. Give fewer candidates."
        )
    return Budget(epsilon, budget.delta)


@dataclass(frozen=True)
class Part:
    """The ledger of one fit of a search: its own budget, and the book that all of them are charged to."""

    own: InMemoryLedger  # refuses what is above this fit's part
    book: Ledger  # pays
    paid: list[Event]  # everything that this search has charged so far
    what: str  # said before the name of every release

    def charge(self, event: Event) -> None:
        """Both, or neither: nothing is released where one refuses."""
        self.own.charge(event)
        self.book.charge(event)
        self.paid.append(replace(event, name=f"{self.what}: {event.name}"))
