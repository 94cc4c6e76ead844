"""What was spent: one frozen record for each passage through the gate, and what many of them cost together.

Each kind of event is one dataclass below with three things of its own: ``kind`` (how it is told apart in files), and its
two descriptions ``noise`` and ``loss``. A new kind joins ``Event`` and ``EVENTS``; unless its composition has a closed form
in ``epsilon_spent``, its privacy loss distribution is all the accounting needs.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from typing import Any, ClassVar

from commonground.accounting.gaussian import compose, gaussian_epsilon
from commonground.accounting.sampled import (
    SampledGaussianEvent,
    epsilon_of_sampled,
)
from commonground.errors import BudgetError


@dataclass(frozen=True)
class GaussianEvent:
    """One Gaussian release; its meaning never changes once written."""

    kind: ClassVar[str] = "gaussian"
    name: str
    mu: float  # an upper bound on sensitivity / noise_std
    sensitivity: float  # L2, when one person is replaced by any other
    noise_std: float
    entries: int  # numbers released
    simulated: bool  # the noise can be recomputed from a seed: no protection

    @property
    def noise(self) -> str:
        return f"Gaussian, std {self.noise_std:.4g}"

    @property
    def supported(self) -> bool:
        """Whether the noise is large enough for the stated cost."""
        return self.sensitivity <= self.mu * self.noise_std

    def for_share(self, share: float) -> "GaussianEvent":
        """What it costs a person who moves the release by at most this share of its sensitivity."""
        return replace(self, mu=self.mu * share)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    def loss(self) -> Any:
        """dp-accounting's privacy loss distribution. μ is already the sensitivity under *replacement* over σ."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=1.0 / self.mu)


@dataclass(frozen=True)
class PureEvent:
    """One release that is ε-differentially private with δ = 0: a candidate chosen by the exponential mechanism, or a subclass."""

    kind: ClassVar[str] = "pure"
    name: str
    epsilon: float  # an upper bound on 2 · sensitivity / scale
    sensitivity: float  # the most by which replacing one person moves any candidate's score
    scale: float  # a candidate is chosen with probability ∝ exp(−score / scale)
    entries: int  # candidates to choose from
    simulated: bool  # the draw can be recomputed from a seed: no protection

    @property
    def noise(self) -> str:
        return f"Gumbel, scale {self.scale:.4g}"

    @property
    def supported(self) -> bool:
        return 2 * self.sensitivity <= self.epsilon * self.scale

    def for_share(self, share: float) -> "PureEvent":
        return replace(self, epsilon=self.epsilon * share)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}

    def loss(self) -> Any:
        """The largest loss that ε allows, that of randomised response: it dominates every ε-private mechanism."""
        from dp_accounting.pld import common, privacy_loss_distribution

        return privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(self.epsilon, 0.0)
        )


@dataclass(frozen=True)
class LaplaceEvent(PureEvent):
    """One vector released with L2-Laplace noise, density ∝ exp(−‖z‖/scale): ε is at least sensitivity / scale, in L2 norm."""

    kind: ClassVar[str] = "l2-laplace"

    @property
    def noise(self) -> str:
        return f"L2-Laplace, scale {self.scale:.4g}"

    @property
    def supported(self) -> bool:
        return self.sensitivity <= self.epsilon * self.scale


Event = GaussianEvent | PureEvent | SampledGaussianEvent
EVENTS: dict[str, type[GaussianEvent] | type[PureEvent] | type[SampledGaussianEvent]] = {
    kind.kind: kind for kind in (GaussianEvent, PureEvent, LaplaceEvent, SampledGaussianEvent)
}


def event_from_dict(document: dict[str, Any]) -> Event:
    """The inverse of ``as_dict``; files from before there were kinds hold Gaussian releases.

    >>> event = PureEvent("choice", epsilon=0.5, sensitivity=1.0, scale=4.0, entries=9, simulated=False)
    >>> event_from_dict(event.as_dict()) == event
    True
    """
    values = dict(document)
    kind = EVENTS[values.pop("kind", "gaussian")]
    names = {field.name for field in fields(kind)}
    if not names - {"unit"} <= set(values) <= names:
        raise ValueError(f"a {kind.kind} event with the fields {sorted(values)}")
    return kind(**values)


def epsilon_spent(events: Iterable[Event], delta: float) -> float:
    """The ε of all these releases together at δ, rounded up.

    Gaussian releases compose exactly, and pure ones by addition. The ε of a mixture is the smaller of two true bounds: the
    Gaussian part's ε plus all pure ε, and what the composed privacy loss distributions say.
    """
    events = tuple(events)
    sampled = [event for event in events if isinstance(event, SampledGaussianEvent)]
    if sampled:
        if len(sampled) < len(events):
            raise BudgetError("sampled and other releases do not add up: give each kind a ledger of its own.")
        return epsilon_of_sampled(sampled, delta) if delta > 0 else math.inf
    mu = compose(event.mu for event in events if isinstance(event, GaussianEvent))
    if all(isinstance(event, GaussianEvent) for event in events):
        return gaussian_epsilon(mu, delta) if delta > 0 or not mu else math.inf
    added = math.fsum(event.epsilon for event in events if isinstance(event, PureEvent))
    if len(events) == 1:
        return added
    if delta == 0:
        return math.nextafter(added, math.inf) if all(isinstance(event, PureEvent) for event in events) else math.inf
    added = math.nextafter(added + gaussian_epsilon(mu, delta), math.inf)
    return min(added, epsilon_by_pld(events, delta))


def epsilon_by_pld(events: Iterable[Event], delta: float) -> float:
    """The same by dp-accounting's privacy loss distributions: slower, and independent of our formulas.

    Sensitivities are already those under *replacement*, so the losses are composed as they are: under its REPLACE_ONE
    relation dp-accounting would double a Gaussian's sensitivity a second time. Its estimates are pessimistic.
    """
    events = tuple(events)
    if not events:
        return 0.0
    together = reduce(lambda one, other: one.compose(other), (event.loss() for event in events))
    return float(together.get_epsilon_for_delta(delta))
