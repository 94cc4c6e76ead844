"""A release as a ledger writes it down, and what it takes from a reservation.

Costs are exact fractions: a Gaussian release of cost μ takes μ² from the budget, μ is a float, floats are fractions, and
fractions add without rounding, in any order. What is left of a budget therefore does not depend on who came first.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from commonground.accounting.costs import is_size
from commonground.accounting.events import EVENTS, Event
from commonground.accounting.gaussian import gaussian_dominating
from commonground.errors import BudgetError


def as_charged(event: Event) -> dict[str, Any]:
    """A release as it is written down; what cannot be accounted for is refused."""
    if type(event) not in EVENTS.values():
        raise BudgetError(
            f"a ledger knows what Gaussian, pure and sampled releases cost, not a {type(event).__name__}. Nothing released."
        )
    if event.simulated is not False:
        raise BudgetError(
            f"{event.name!r} has simulated noise, which protects nobody, so it must not touch real people's budget. "
            "Fit without simulation_seed, or without a ledger."
        )
    try:
        supported = event.supported
    except TypeError:  # what is no number
        supported = False
    if not supported:
        raise BudgetError(
            f"{event.name!r} claims a cost that its noise does not support ({event}). Nothing was released."
        )
    return {
        "kind": event.kind,
        "name": str(event.name),
        "sensitivity": float(event.sensitivity),
        "entries": int(event.entries),
        "simulated": False,
        **event.charged(),
    }


def mu_of(cost: Fraction) -> float:
    return math.nextafter(math.sqrt(cost), math.inf) if cost else 0.0


def cost_of(mu: float) -> Fraction:
    """μ² exactly.

    >>> cost_of(0.5) * 4 == cost_of(1.0)
    True
    """
    if not is_size(mu):
        raise ValueError(f"μ must be a finite number > 0, got {mu!r}")
    return Fraction(mu) ** 2


def as_decimal(epsilon: float) -> Fraction:
    """ε as the decimal that people wrote, so that ten times 0.1 is 1. The gate's noise is wider than this rounding.

    >>> 10 * as_decimal(0.1) == as_decimal(1.0)
    True
    """
    if not is_size(epsilon):
        raise ValueError(f"ε must be a finite number > 0, got {epsilon!r}")
    return Fraction(repr(float(epsilon)))


def taken_by(release: Mapping[str, Any], pure: bool) -> tuple[Fraction, Fraction]:
    """(μ², pure ε) that a recorded release takes from a reservation, which is pure where it was booked with δ = 0.

    Elsewhere a pure release costs what the Gaussian release that dominates it would cost.
    """
    if release["simulated"] is not False:
        raise ValueError("not a private release")
    if release["kind"] == "gaussian":
        return cost_of(release["mu"]), Fraction(0)
    if release["kind"] not in ("pure", "l2-laplace"):
        raise ValueError(f"a release of unknown kind {release['kind']!r}")
    if pure:
        return Fraction(0), as_decimal(release["epsilon"])
    if not release["mu"] >= gaussian_dominating(release["epsilon"]) * (1 - 1e-9):
        raise ValueError(f"μ = {release['mu']} does not cover a pure ε = {release['epsilon']}")
    return cost_of(release["mu"]), Fraction(0)
