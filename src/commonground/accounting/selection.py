"""What it costs to repeat a fit with its score a secret random number of times and to publish the best alone.

Papernot and Steinke, *Hyperparameter Tuning with Renyi Differential Privacy*, 2021 (arXiv 2110.03620): Theorem 2 for numbers of
repetitions of the truncated negative binomial distribution, Theorem 6 for Poisson ones. A repetition is a Gaussian mechanism
here, or several, of cost μ together: it satisfies Rényi privacy of λμ²/2 at every order λ, and its (ε, δ) curve is known exactly,
where dp-accounting's ``RepeatAndSelectDpEvent`` has to read it off the Rényi curve.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from commonground.accounting.base_event import BaseEvent
from commonground.accounting.costs import Cost, PureCost, is_size
from commonground.accounting.gaussian import gaussian_delta
from commonground.accounting.sampled import REPLACE
from commonground.errors import BudgetError, InputError

POISSON = math.inf  # the shape
_ORDERS = np.concatenate([1.0 + np.logspace(-2, 0, 60), np.linspace(2.05, 40, 300), np.logspace(1.61, 4, 120)])
_MARGIN = 1e-9  # relative, for the rounding of these formulas


@dataclass(frozen=True)
class RepeatedSelection:
    """The best of a random number of repetitions, each of Gaussian cost μ; one event by itself.

    Parameters
    ----------
    mu : float
        Of one repetition, its fit and its score together.
    mean : float
        Expected number of repetitions, at least 1.
    shape : float, default=1.0
        η of the truncated negative binomial distribution: 1 is geometric, 0 logarithmic; infinite: Poisson, where with
        probability e^−mean nothing is run, and the outcome must not depend on data.

    Examples
    --------
    >>> once = RepeatedSelection(mu=0.3, mean=1.0, shape=1.0).epsilon(1e-6)
    >>> often = RepeatedSelection(mu=0.3, mean=10.0, shape=1.0).epsilon(1e-6)
    >>> 1.0 < once < often < 4.0
    True
    """

    mu: float
    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.mu < math.inf and 1 <= self.mean < math.inf and self.shape >= 0):
            raise InputError(f"repetitions need μ > 0, a mean of at least 1 and a shape of at least 0; got {self}.")

    @property
    def stop(self) -> float:
        """γ of the truncated negative binomial distribution with this mean; rounded down, which costs more."""
        if self.shape == 1.0:
            return 1.0 / self.mean
        low, high = 0.0, 1.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if mean_repetitions(middle, self.shape) >= self.mean else (low, middle)
        return max(low, 1e-300)

    def renyi(self, orders: np.ndarray) -> np.ndarray:
        """Rényi privacy at each order above 1: Theorem 2, or Theorem 6 for Poisson."""
        own = orders * self.mu**2 / 2 + math.log(self.mean) / (orders - 1.0)
        if self.shape == POISSON:
            # e^ε̂ = 1 + 1/(λ − 1), at which a repetition has δ̂.
            delta = [gaussian_delta(self.mu, math.log1p(1.0 / (order - 1.0))) for order in orders]
            return own + self.mean * np.array(delta)
        # (1 − 1/λ̂)·λ̂μ²/2 + log(1/γ)/λ̂ is least at λ̂ = √(2 log(1/γ))/μ.
        unlikely = -math.log(self.stop)
        other = max(1.0, math.sqrt(2.0 * unlikely) / self.mu)
        return own + (1.0 + self.shape) * ((other - 1.0) * self.mu**2 / 2 + unlikely / other)

    def epsilon(self, delta: float) -> float:
        """ε at δ, rounded up: the best order's, by the conversion of Canonne, Kamath and Steinke (arXiv 2004.00010, Prop. 12)."""
        if not 0.0 < delta < 1.0:
            return math.inf
        orders = _ORDERS
        found = self.renyi(orders) + np.log1p(-1.0 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1.0)
        return max(0.0, float(found.min())) * (1.0 + _MARGIN)

    def delta(self, epsilon: float) -> float:
        """δ at ε, rounded up: the inverse of ``epsilon``."""
        orders = _ORDERS
        logs = (orders - 1.0) * (self.renyi(orders) - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)
        return min(1.0, math.exp(min(0.0, float(logs.min()))) * (1.0 + 1e-6))


@dataclass(frozen=True)
class SelectionCost(Cost):
    """Of the best of a random number of fits: it adds up with nothing."""

    alone: ClassVar[str] = (
        "the best of a random number of fits does not add up with other releases: it needs its own budget."
    )
    selection: RepeatedSelection

    def in_tally(self, delta: float) -> PureCost:
        """Its ε at δ, as if that were all."""
        return PureCost(self.selection.epsilon(delta))

    @classmethod
    def epsilon_of(cls, events: Sequence[BaseEvent], delta: float) -> float:
        if len(events) > 1:
            raise BudgetError(cls.alone)
        return float(events[0].loss().get_epsilon_for_delta(delta))

    @classmethod
    def composition(cls, delta: float) -> str:
        return "by the bound for the best of a random number of fits (arXiv 2110.03620)"


@dataclass(frozen=True)
class RepeatedSelectionEvent(BaseEvent):
    """The best of a geometric number of repetitions, of fits with their scores; nothing else of them is published."""

    kind: ClassVar[str] = "repeat-and-select"
    chooses: ClassVar[bool] = True
    unit: ClassVar[str] = ""
    relation: ClassVar[str] = REPLACE
    name: str  # what was repeated
    mu: float  # of one repetition: all of its releases together
    mean: float  # expected number of repetitions
    entries: int  # settings to choose from
    simulated: bool  # the noise, or the number of repetitions, can be recomputed from a seed: no protection

    @property
    def selection(self) -> RepeatedSelection:
        """What it costs."""
        return RepeatedSelection(self.mu, self.mean, 1.0)

    @property
    def cost(self) -> Cost:
        """What it takes from a budget: all of it, as it adds up with nothing."""
        return SelectionCost(self.selection)

    @property
    def supported(self) -> bool:
        """Whether the numbers have a bound; the noise of repetitions is not in the record."""
        return is_size(self.mu) and is_size(self.mean) and self.mean >= 1.0

    @property
    def sensitivity(self) -> float:
        """Of one repetition, over its noise."""
        return self.mu

    @property
    def noise(self) -> str:
        return f"Gaussian, best of about {self.mean:.3g}"

    @property
    def noise_scale(self) -> float:
        """How large the noise is, over the sensitivity of one repetition."""
        return 1.0 / self.mu

    def for_share(self, share: float) -> Self:
        return replace(self, mu=self.mu * share)

    def charged(self) -> dict[str, Any]:
        """An error: a ledger adds up μ², ε or steps, and this is none of them."""
        raise BudgetError(
            f"{self.name!r} is the best of a random number of fits, which a durable ledger cannot add up. Search by split."
        )

    def loss(self) -> Any:
        """Itself: it knows δ at every ε. It composes with nothing (``epsilon_spent`` refuses)."""
        return self

    def get_delta_for_epsilon(self, epsilon: Any) -> Any:
        """δ at each ε, as dp-accounting's distributions are asked."""
        return np.vectorize(self.selection.delta)(np.asarray(epsilon, dtype=np.float64))

    def get_epsilon_for_delta(self, delta: float) -> float:
        """ε at δ, as dp-accounting's distributions are asked."""
        return self.selection.epsilon(delta)


def mean_repetitions(stop: float, shape: float) -> float:
    """The mean of the truncated negative binomial distribution: γ = ``stop`` above 0 and at most 1, η = ``shape`` at least 0.

    >>> mean_repetitions(0.25, 1.0)
    4.0
    """
    if stop >= 1.0:
        return 1.0
    if shape == 0.0:
        return (1.0 / stop - 1.0) / math.log(1.0 / stop)
    return shape * (1.0 / stop - 1.0) / -math.expm1(shape * math.log(stop)) if stop > 0.0 else math.inf


def largest_mu(epsilon: float, delta: float, mean: float, shape: float) -> float:
    """The largest μ of a repetition whose selection stays within (ε, δ), rounded down; 0 where there is none."""
    low, high = 0.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        within = RepeatedSelection(middle, mean, shape).epsilon(delta) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return low * (1.0 - 1e-9)
