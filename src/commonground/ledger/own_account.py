"""What one person is shown of a ledger, and what is told of all accounts together."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.accounting.gaussian import gaussian_epsilon
from commonground.ledger.shares import UNIT

_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class Payment:
    """One fit that she took part in."""

    reservation: str
    purpose: str
    at: str
    open: bool  # booked in full until it is settled
    share: float  # of what the fit costs those who count in full, in μ, with room for rounding
    units: int  # of μ², in parts of 2⁻⁵²


@dataclass(frozen=True)
class PersonalAccount:
    """One person's limit, payments and what is left; ε at the population's δ, rounded against the spender."""

    population: str
    delta: float
    limit_units: int
    payments: tuple[Payment, ...]
    left_out: bool

    @property
    def used_units(self) -> int:
        return sum(payment.units for payment in self.payments)

    @property
    def limit(self) -> float:
        return epsilon_down(self.limit_units, self.delta)

    @property
    def spent(self) -> float:
        return epsilon_up(self.used_units, self.delta)

    @property
    def left(self) -> float:
        """0 for who is left out, too: nothing more is taken from her."""
        return 0.0 if self.left_out else epsilon_down(self.limit_units - self.used_units, self.delta)

    def summary(self) -> dict[str, Any]:
        """For machines."""
        return {
            "population": self.population,
            "delta": self.delta,
            "epsilon": self.limit,
            "epsilon_spent": self.spent,
            "epsilon_left": self.left,
            "left_out": self.left_out,
            "mu_squared_limit": self.limit_units / UNIT,
            "mu_squared_spent": self.used_units / UNIT,
            "fits": [
                {
                    "reservation": one.reservation,
                    "purpose": one.purpose,
                    "at": one.at,
                    "open": one.open,
                    "share": one.share,
                    "epsilon": epsilon_up(one.units, self.delta),
                    "mu_squared": one.units / UNIT,
                }
                for one in self.payments
            ],
        }


def epsilon_up(units: int, delta: float) -> float:
    return gaussian_epsilon(math.nextafter(math.sqrt(units / UNIT), math.inf), delta) if units else 0.0


def epsilon_down(units: int, delta: float) -> float:
    """Six digits, rounded down: never promise more than is left (the factor: a whole 2 must not read 1.99999)."""
    if units <= 0:
        return 0.0
    epsilon = gaussian_epsilon(math.sqrt(units / UNIT), delta) * (1 + 1e-8)
    digits = 5 - math.floor(math.log10(epsilon)) if epsilon else 0
    return math.floor(epsilon * 10.0**digits) / 10.0**digits


def quantiles_left(left: np.ndarray, delta: float) -> dict[str, float]:
    """ε that people have left, smallest first; empty where nobody has any."""
    if not len(left):
        return {}
    values = np.quantile(left, _SHARES, method="lower")
    return {f"{share:g}": epsilon_down(int(value), delta) for share, value in zip(_SHARES, values, strict=True)}
