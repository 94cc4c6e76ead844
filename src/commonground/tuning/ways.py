"""The two ways to search within one budget, and which leaves each fit more of it: by public numbers alone."""

from dataclasses import dataclass

from commonground.accounting.budgets import Budget
from commonground.accounting.selection import largest_mu
from commonground.errors import InputError

CHOICE = 0.06  # of μ², for the choice
LAST = 0.6  # of the rest, for the last fit, where there is one; chosen by `benchmarks/tuning.py --choose`
TRIES = 3  # expected repetitions for each group: a given one is left out with probability 1/4
# Times μ that repetitions must leave to each fit: they have no last one, and may leave out the best setting. At 2.7 times (16
# fits) split was still better (`benchmarks/tuning.py --ways`).
MUCH_MORE = 4.0


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
    return repeated_mu(budget, n_groups) > MUCH_MORE * budget.mu * shares.each**0.5
