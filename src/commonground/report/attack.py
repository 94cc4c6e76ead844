"""What an attacker can gain: the trade-off between accusing the innocent and finding those who were there.

An attacker holds two possible data of one person, one of which was used, and says which. Of all tests that accuse a share ``fpr``
of the innocent, none finds more than ``curve.power(fpr)`` of the others. For Gaussian releases that is exact, from μ alone
(Φ(Φ⁻¹(fpr) + μ), the convention of arXiv 2503.10945); for pure ones from ε alone; for mixtures and sampled training it is an
upper bound, from the composed privacy loss distributions. Formulas only.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from commonground.accounting.costs import GaussianCost, PureCost, kind_of
from commonground.accounting.events import Event
from commonground.accounting.gaussian import compose

FALSE_POSITIVES = (0.1, 0.01, 0.001)  # of which reports tell
_EPSILONS = np.concatenate([np.linspace(0.0, 20.0, 801), np.linspace(20.5, 100.0, 160)])  # where loss curves are taken


class Curve(Protocol):
    """What the best test finds."""

    @property
    def how(self) -> str: ...

    @property
    def mu(self) -> float | None: ...

    @property
    def epsilon(self) -> float: ...  # by more than e^this odds never grow

    def power(self, fpr: Any) -> Any: ...


@dataclass(frozen=True)
class GaussianCurve:
    """Of releases with Gaussian noise, together μ-Gaussian-DP: exact.

    >>> curve = GaussianCurve(1.0)
    >>> round(float(curve.power(0.01)), 4), float(GaussianCurve(0.0).power(0.25))
    (0.0924, 0.25)
    """

    mu: float
    epsilon: ClassVar[float] = math.inf

    @property
    def how(self) -> str:
        return f"exact, from μ = {self.mu:.4g}"

    def power(self, fpr: Any) -> Any:
        return ndtr(ndtri(fpr) + self.mu)


@dataclass(frozen=True)
class PureCurve:
    """Of anything that is ε-private with δ = 0: what randomised response would allow.

    >>> round(float(PureCurve(1.0).power(0.01)), 4)
    0.0272
    """

    epsilon: float
    mu: ClassVar[None] = None

    @property
    def how(self) -> str:
        return f"an upper bound, from ε = {self.epsilon:.4g} with δ = 0"

    def power(self, fpr: Any) -> Any:
        fpr = np.asarray(fpr, dtype=float)
        return np.minimum(math.exp(self.epsilon) * fpr, 1.0 - math.exp(-self.epsilon) * (1.0 - fpr))


@dataclass(frozen=True, eq=False)
class LossCurve:
    """Of anything whose δ is known at many ε: all of these lines hold at once."""

    epsilons: np.ndarray
    deltas: np.ndarray
    mu: ClassVar[None] = None
    epsilon: ClassVar[float] = math.inf

    @property
    def how(self) -> str:
        return "an upper bound, from the composed privacy loss distributions"

    def power(self, fpr: Any) -> Any:
        fpr, growth = np.asarray(fpr, dtype=float)[..., None], np.exp(self.epsilons)
        lines = np.minimum(self.deltas + growth * fpr, 1.0 - (1.0 - self.deltas - fpr) / growth)
        return np.minimum(lines.min(axis=-1), 1.0)


def curve_of(events: Iterable[Event]) -> Curve:
    """Of all these releases together, for the person who moves each of them most."""
    events = tuple(events)
    kind = kind_of(events)
    if kind is GaussianCost:
        return GaussianCurve(compose(event.cost.mu for event in events))
    if kind is PureCost:
        return PureCurve(math.fsum(event.cost.epsilon for event in events))
    together = reduce(lambda one, other: one.compose(other), (event.loss() for event in events))
    return LossCurve(_EPSILONS, np.asarray(together.get_delta_for_epsilon(_EPSILONS)))


def suspicion(curve: Curve, fpr: float) -> float:
    """How far a suspicion of one half rises when a test raises the alarm that does so for this share of the innocent.

    >>> round(suspicion(GaussianCurve(1.0), 0.01), 3), suspicion(GaussianCurve(0.0), 0.01)
    (0.902, 0.5)
    """
    found = float(curve.power(fpr))
    return found / (found + fpr)


def chance_of_more(curve: Curve, epsilon: float) -> float:
    """No more than this is the probability with which odds grow by more than e^ε, for whoever was there.

    Where the odds grow so much, the test "they do" finds p people for every p·e^−ε that it accuses: p ≤ power(p·e^−ε).

    >>> chance_of_more(PureCurve(1.0), 1.0), round(chance_of_more(GaussianCurve(1.0), 2.0), 4)
    (0.0, 0.1428)
    """
    if epsilon >= curve.epsilon:
        return 0.0
    low, high, shrink = 0.0, 1.0, math.exp(-epsilon)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if float(curve.power(middle * shrink)) >= middle else (low, middle)
    return high
