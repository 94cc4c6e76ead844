"""One budget in parts, all charged to one book: each fit of a search has its own; which way of searching leaves each more."""

import math
from dataclasses import dataclass, replace

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget
from commonground.accounting.events import Event
from commonground.accounting.gaussian import epsilon_within
from commonground.accounting.selection import largest_mu
from commonground.errors import InputError
from commonground.ledger import InMemoryLedger, Ledger

CHOICE = 0.06  # of μ², for the choice
LAST = 0.6  # of the rest, for the last fit, where there is one; chosen by `benchmarks/tuning.py --choose`
TRIES = 3  # expected repetitions for each group: a given one is left out with probability 1/4
# Times μ that repetitions must leave to each fit: they have no last one, and may leave out the best setting. At 2.7 times (16
# fits) split was still better (`benchmarks/tuning.py --ways`).
REPEAT_PAYS_FROM = 4.0


def part_of(budget: Budget, share: float) -> Budget:
    """The budget whose μ² is this share, from 0 to 1, of the whole's; rounded down.

    >>> whole = Budget(2.0, 1e-6)
    >>> 0.4999 < (part_of(whole, 0.25).mu / whole.mu) < 0.5
    True
    """
    epsilon = epsilon_within(budget.mu * math.sqrt(share), budget.delta)
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


@dataclass(frozen=True)
class Shares:
    """What split divides μ² into."""

    each: float  # for each fit that is compared
    choice: float
    last: float  # for fitting the winner again on all rows; 0: its fit is kept

    @classmethod
    def of(cls, n_groups: int, refit: bool) -> "Shares":
        """With one fit there is nothing that a last one would add."""
        last = LAST * (1.0 - CHOICE) if refit else 0.0
        return cls((1.0 - CHOICE - last) / n_groups, CHOICE, last)


def repeated_mu(budget: Budget, n_groups: int) -> float:
    """μ of one repetition, so that the best of them stays within the budget."""
    return largest_mu(budget.epsilon, budget.delta, float(TRIES * n_groups), 1.0)


def is_repeated(way: str, budget: Budget, n_groups: int, shares: Shares, possible: bool) -> bool:
    """Whether to repeat and select; ``possible``: nobody watches or fits again, and no durable ledger adds up μ²."""
    if way not in ("auto", "split", "repeat"):
        raise InputError(f"way must be 'auto', 'split' or 'repeat', got {way!r}.")
    if way == "repeat" and not possible:
        raise InputError("repeat-and-select goes with neither a durable ledger, which adds up μ², nor refit= or gate=.")
    if way != "auto" or not possible or n_groups == 1:
        return way == "repeat"
    return repeated_mu(budget, n_groups) > REPEAT_PAYS_FROM * budget.mu * shares.each**0.5
