"""The declared budget, and how an estimator divides it."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from commonground.accounting.costs import GaussianCost, PureCost
from commonground.accounting.gaussian import epsilon_within, gaussian_mu
from commonground.errors import InputError, PrivacyWarning

# Below, the rounding of the exact curve is no longer far inside its margins; nor would there be any use.
SMALLEST_EPSILON = 1e-4


@dataclass(frozen=True)
class Budget:
    """One (ε, δ) for everything that is published.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.0001.
    delta : float
        Strictly between 0 and 1; well below 1/(number of people).

    Examples
    --------
    >>> Budget(epsilon=0, delta=1e-6)
    Traceback (most recent call last):
    commonground.errors.InputError: epsilon must be a finite number > 0 (at least 0.0001), got 0. ...
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        if not (_is_number(self.delta) and 0 < self.delta < 1):
            raise InputError(
                f"delta must lie strictly between 0 and 1, got {self.delta!r}. It should be well below 1/(number of "
                "people), for example 1e-6."
            )
        # Plain floats: NumPy's shorter ones would round away the margins that keep calibration on the private side.
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter of the whole budget."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def whole(self) -> GaussianCost:
        """All of it, as what a ledger books."""
        return GaussianCost(self.mu)

    def after(self, mu: float) -> "Budget":
        """What is left at the same δ once Gaussian releases have cost μ; rounded down.

        Parameters
        ----------
        mu : float
            Below that of the budget.

        Returns
        -------
        Budget

        Examples
        --------
        >>> whole = Budget(1.0, 1e-6)
        >>> 0.8 * whole.mu < whole.after(0.6 * whole.mu).mu * (1 + 1e-5) < 0.8 * whole.mu * (1 + 1e-5)
        True
        """
        left = math.sqrt(max(self.mu**2 - mu**2, 0.0))
        return Budget(epsilon_within(left, self.delta), self.delta)

    def split(self, shares: Mapping[str, float]) -> dict[str, float]:
        """μ for each named share of μ²; rounded down, so that together they stay within the budget.

        Parameters
        ----------
        shares : mapping of str to float
            Of the budget; together at most 1.

        Returns
        -------
        dict of str to float
            By the same names.

        Examples
        --------
        >>> parts = Budget(1.0, 1e-6).split({"init": 0.25, "rounds": 0.75})
        >>> parts["init"] ** 2 + parts["rounds"] ** 2 < Budget(1.0, 1e-6).mu ** 2
        True
        """
        assert math.fsum(shares.values()) <= 1 + 1e-12
        return {name: self.mu * math.sqrt(share) * (1 - 1e-9) for name, share in shares.items()}


@dataclass(frozen=True)
class PureBudget:
    """An ε with δ = 0, for what is published by the exponential mechanism alone: no Gaussian noise fits into it.

    Parameters
    ----------
    epsilon : float
        Finite, at least 0.0001.

    Examples
    --------
    >>> PureBudget(2.0).split({"first": 0.25, "second": 0.75})["second"] <= 1.5
    True
    """

    epsilon: float
    delta: ClassVar[float] = 0.0
    mu: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def whole(self) -> PureCost:
        """All of it, as what a ledger books."""
        return PureCost(self.epsilon)

    def split(self, shares: Mapping[str, float]) -> dict[str, float]:
        """ε for each named share; rounded down, so that together they stay within the budget.

        Parameters
        ----------
        shares : mapping of str to float
            Of the budget; together at most 1.

        Returns
        -------
        dict of str to float
            By the same names.
        """
        assert math.fsum(shares.values()) <= 1 + 1e-12
        return {name: self.epsilon * share * (1 - 1e-9) for name, share in shares.items()}


def budget_of(epsilon: float, delta: float) -> Budget | PureBudget:
    """The budget (ε, δ); pure for δ = 0.

    Parameters
    ----------
    epsilon, delta : float

    Returns
    -------
    Budget or PureBudget
    """
    return PureBudget(epsilon) if delta == 0 else Budget(epsilon, delta)


def warn_of_a_large_delta(delta: float, n_units: int, unit: str = "person", stacklevel: int = 2) -> None:
    """Warn where δ is so large that publishing the data of one of them would be within the guarantee.

    Parameters
    ----------
    delta : float
    n_units : int
        How many there are of those whom the guarantee protects.
    unit : str, default="person"
        What one of them is called.
    stacklevel : int, default=2
        Whose warning it is, as ``warnings.warn`` has it, counted from the caller.
    """
    if delta > 1 / n_units:
        units = "people" if unit == "person" else f"{unit}s"
        warnings.warn(
            f"delta = {delta:g} is larger than 1/(number of {units}) = {1 / n_units:g}: the guarantee would allow one "
            f"{unit}'s data to be published outright. Choose a delta well below that, for example 1e-6.",
            PrivacyWarning,
            stacklevel=stacklevel + 1,
        )


def _check_epsilon(epsilon: object) -> None:
    if not (_is_number(epsilon) and SMALLEST_EPSILON <= epsilon < math.inf):  # type: ignore[operator]
        raise InputError(
            f"epsilon must be a finite number > 0 (at least {SMALLEST_EPSILON:g}), got {epsilon!r}. "
            "Common choices lie between 0.1 and 8; "
            "a model without privacy is NonPrivateFedRep."
        )


def _is_number(value: object) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or (
        hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0
    )
