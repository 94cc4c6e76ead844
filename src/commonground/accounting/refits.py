"""One budget for many fits on the same people: equal parts of μ², which add up to it exactly."""

from fractions import Fraction

from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.errors import check_count

_STEP = 1e-10  # relative, by which ε is lowered until the parts fit


def budget_of_each(epsilon: float, delta: float, fits: int) -> Budget:
    """What each of so many fits may cost, so that all of them stay within (ε, δ) for a person who is in all of them; the same δ.

    Gaussian costs add as squares, so the ε of each is about ε/√fits, not ε/fits.

    >>> [round(budget_of_each(2.0, 1e-6, fits).epsilon, 3) for fits in (1, 4, 52)]
    [2.0, 0.943, 0.239]
    """
    check_count("the number of fits", fits)
    whole = Budget(epsilon, delta)
    if fits == 1:
        return whole
    limit, each = Fraction(whole.mu) ** 2, gaussian_epsilon(whole.mu / fits**0.5, delta)
    while fits * Fraction(Budget(each, delta).mu) ** 2 > limit:
        each *= 1 - _STEP
    return Budget(each, delta)


def fits_within(mu_squared: Fraction | float, each: Budget) -> int:
    """How many fits of this budget so much μ², which is left, pays for."""
    return int(Fraction(mu_squared) / Fraction(each.mu) ** 2)
