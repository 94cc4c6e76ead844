"""What was spent: one frozen record for each passage through the gate, and what many of them cost together.

Each kind of event is a dataclass that answers for itself:

    kind            how it is told apart in files (``as_dict``, ``event_from_dict``)
    cost            what it takes from a budget, and ``loss()``, its privacy loss distribution
    supported       whether the noise is large enough for that cost; ``makes_sense``: whether the numbers are numbers
    unit, relation  whom it protects, among which neighbours; an empty unit: a person, or whom the statement names
    for_share(…)    what it costs somebody who moves it less; ``sampler_room``: what the sampler's rounding adds to that
    charged()       what a ledger writes down of it
    noise           what people are told of it; ``chooses``: one of its entries is published, not all of them

A new kind joins ``Event`` and ``EVENTS``; the type checker finds the answer that it lacks. Where costs add up in a measure that
is not there yet, it is a class in ``costs.py``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from commonground.accounting.base_event import BaseEvent
from commonground.accounting.costs import GaussianCost, PureCost, epsilon_of_mixture, is_size, kind_of
from commonground.accounting.costs import epsilon_by_pld as epsilon_by_pld
from commonground.accounting.gaussian import gaussian_dominating
from commonground.accounting.sampled import REPLACE, SampledGaussianEvent
from commonground.accounting.selection import RepeatedSelectionEvent


@dataclass(frozen=True)
class GaussianEvent(BaseEvent):
    """One Gaussian release; its meaning never changes once written.

    Parameters
    ----------
    name : str
        What was released.
    mu : float
        An upper bound on sensitivity / noise_std.
    sensitivity : float
        L2, when one person is replaced by any other.
    noise_std : float
        Standard deviation of the noise on each number.
    entries : int
        Numbers released.
    simulated : bool
        The noise can be recomputed from a seed: no protection.
    """

    kind: ClassVar[str] = "gaussian"
    unit: ClassVar[str] = ""
    relation: ClassVar[str] = REPLACE
    name: str
    mu: float
    sensitivity: float
    noise_std: float
    entries: int
    simulated: bool

    @property
    def cost(self) -> GaussianCost:
        return GaussianCost(self.mu)

    @property
    def supported(self) -> bool:
        return is_size(self.mu) and self.sensitivity <= self.mu * self.noise_std

    @property
    def noise(self) -> str:
        return f"Gaussian, std {self.noise_std:.4g}"

    @property
    def noise_scale(self) -> float:
        return self.noise_std

    @property
    def sampler_room(self) -> float:
        """What rounding to the sampler's grid adds to anybody's cost, as a share of the release's."""
        return 2.0**-39 * math.sqrt(self.entries) / self.mu

    def for_share(self, share: float) -> Self:
        return replace(self, mu=self.mu * share)

    def charged(self) -> dict[str, Any]:
        return {"mu": float(self.mu), "noise_std": float(self.noise_std)}

    def loss(self) -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        # μ is already the sensitivity under *replacement* over σ.
        return privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=1.0 / self.mu)


@dataclass(frozen=True)
class PureEvent(BaseEvent):
    """One release that is ε-differentially private with δ = 0: a candidate chosen by the exponential mechanism, or a subclass.

    Parameters
    ----------
    name : str
        What was released.
    epsilon : float
        An upper bound on 2 · sensitivity / scale.
    sensitivity : float
        The most by which replacing one person moves any candidate's score.
    scale : float
        A candidate is chosen with probability ∝ exp(−score / scale).
    entries : int
        Candidates to choose from.
    simulated : bool
        The draw can be recomputed from a seed: no protection.
    """

    kind: ClassVar[str] = "pure"
    chooses: ClassVar[bool] = True
    unit: ClassVar[str] = ""
    relation: ClassVar[str] = REPLACE
    name: str
    epsilon: float
    sensitivity: float
    scale: float
    entries: int
    simulated: bool

    @property
    def cost(self) -> PureCost:
        return PureCost(self.epsilon)

    @property
    def supported(self) -> bool:
        return is_size(self.epsilon) and 2 * self.sensitivity <= self.epsilon * self.scale

    @property
    def noise(self) -> str:
        return f"Gumbel, scale {self.scale:.4g}"

    @property
    def noise_scale(self) -> float:
        return self.scale

    def for_share(self, share: float) -> Self:
        return replace(self, epsilon=self.epsilon * share)

    def charged(self) -> dict[str, Any]:
        # With the μ that it costs where δ > 0.
        return {"epsilon": float(self.epsilon), "scale": float(self.scale), "mu": gaussian_dominating(self.epsilon)}

    def loss(self) -> Any:
        from dp_accounting.pld import common, privacy_loss_distribution

        # The largest loss that ε allows, that of randomised response: it dominates every ε-private mechanism.
        return privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(self.epsilon, 0.0)
        )


@dataclass(frozen=True)
class LaplaceEvent(PureEvent):
    """One vector released with L2-Laplace noise, density ∝ exp(−‖z‖/scale): ε is at least sensitivity / scale, in L2 norm.

    Parameters
    ----------
    name : str
        What was released.
    epsilon : float
        An upper bound on sensitivity / scale.
    sensitivity : float
        L2, when one person is replaced by any other.
    scale : float
        Of the noise.
    entries : int
        Numbers released.
    simulated : bool
        The noise can be recomputed from a seed: no protection.
    """

    kind: ClassVar[str] = "l2-laplace"
    chooses: ClassVar[bool] = False

    @property
    def supported(self) -> bool:
        return is_size(self.epsilon) and self.sensitivity <= self.epsilon * self.scale

    @property
    def noise(self) -> str:
        return f"L2-Laplace, scale {self.scale:.4g}"


Event = GaussianEvent | PureEvent | SampledGaussianEvent | RepeatedSelectionEvent
EVENTS: dict[str, type[Event]] = {
    kind.kind: kind for kind in (GaussianEvent, PureEvent, LaplaceEvent, SampledGaussianEvent, RepeatedSelectionEvent)
}


def event_from_dict(document: Mapping[str, Any]) -> Event:
    """The inverse of ``as_dict``.

    Parameters
    ----------
    document : mapping
        What ``as_dict`` made of an event of any kind.

    Returns
    -------
    Event

    Examples
    --------
    >>> event = PureEvent("choice", epsilon=0.5, sensitivity=1.0, scale=4.0, entries=9, simulated=False)
    >>> event_from_dict(event.as_dict()) == event
    True
    """
    return EVENTS[document.get("kind", "gaussian")].from_dict(document)


def epsilon_spent(events: Iterable[Event], delta: float) -> float:
    """The ε of all these releases together at δ, rounded up.

    Releases of one kind of cost compose as that kind says: Gaussian ones exactly, pure ones by addition, equal sampled steps by
    their number, so n at once cost what n one by one cost. The ε of a mixture is the smaller of two true bounds
    (``costs.epsilon_of_mixture``).

    Parameters
    ----------
    events : iterable of Event
        Releases on the same people.
    delta : float
        From 0 to 1; at 0 only pure releases cost a finite ε.

    Returns
    -------
    float
    """
    events = tuple(events)
    kind = kind_of(events)
    return epsilon_of_mixture(events, delta) if kind is None else kind.epsilon_of(events, delta)
