"""What releases take from a budget: one class for each measure in which costs add up.

A kind of cost answers for itself, for whoever adds, tells or books it: releases in memory (``epsilon_of``), statements
(``composition``), reports (``measure``, ``amount``), the process's tally (``in_tally``), audits (``pure``, ``covering_mu``), and
durable ledgers (``AddingCost``, exact fractions). Costs that are single numbers are listed in ``MEASURES``; sampled steps are
counted (``sampled.py``), and the best of a random number of fits adds up with nothing (``selection.py``).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from commonground.accounting.gaussian import compose, gaussian_dominating, gaussian_epsilon
from commonground.errors import BudgetError

if TYPE_CHECKING:
    from commonground.accounting.base_event import BaseEvent


def is_size(value: object) -> bool:
    """Whether it is a finite number > 0. NaN and negative numbers would make every later comparison pass."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def is_count(value: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return type(value) is int and value >= 1


class Cost(ABC):
    """What one release takes from a budget."""

    measure: ClassVar[str] = ""  # what adds up; a ledger's events name it so
    alone: ClassVar[str] = ""  # why such costs add up with no others; empty: they do
    pure: ClassVar[bool] = False  # whether it is an ε with δ = 0
    mu: float = 0.0  # of Gaussian noise
    epsilon: float = 0.0  # of a release with δ = 0

    def __str__(self) -> str:
        return "–"

    @property
    def amount(self) -> float:
        """How much of the measure; 0 where there is none."""
        return 0.0

    @property
    def covering_mu(self) -> float | None:
        """μ of a Gaussian release that costs at least as much; None: it has no formula."""
        return None

    def at_least(self, delta: float) -> float:
        """The least ε that it costs by itself, where that has a formula; with others it costs at least as much."""
        return 0.0

    def in_tally(self, delta: float) -> "AddingCost | None":
        """What is remembered of it where δ is not known yet; None: nothing, as it does not add up so."""
        return None

    @classmethod
    @abstractmethod
    def epsilon_of(cls, events: Sequence["BaseEvent"], delta: float) -> float:
        """ε of releases that all have such a cost together, rounded up."""

    @classmethod
    def composition(cls, delta: float) -> str:
        """How it was found, for a statement."""
        return "by composition of their privacy loss distributions"


class AddingCost(Cost):
    """A number, which adds up. A ledger adds exact fractions, so what is left of a budget does not depend on who came first."""

    word: ClassVar[str]  # what such fits are called
    remark: ClassVar[str] = ""  # on an ε that is left for such fits
    limit_is_computed: ClassVar[bool] = True  # by formulas, of which a later version's may differ in the last digits

    def in_tally(self, delta: float) -> "AddingCost":
        """Itself."""
        return self

    @property
    def exact(self) -> Fraction:
        """The amount as a ledger adds it."""
        return exact(self.amount, self.measure)

    @classmethod
    @abstractmethod
    def limit(cls, epsilon: float, delta: float, mu_squared: Fraction) -> Fraction:
        """The most that a population affords, by its (ε, δ) and the μ² that was written down for it."""

    @classmethod
    @abstractmethod
    def epsilon_of_amount(cls, amount: Fraction, delta: float) -> float:
        """An amount as ε at δ, rounded up."""

    @classmethod
    def told(cls, amount: Fraction) -> str:
        """An amount, for people."""
        return f"{cls.measure} = {float(amount):.4g}"

    def as_booking(self) -> dict[str, Any]:
        """What a reservation in a ledger says of it, beside its ε and δ."""
        return {"measure": self.measure, "amount": self.amount}

    @classmethod
    def of_booking(cls, event: Mapping[str, Any]) -> Fraction:
        """The inverse; ValueError where it makes no sense."""
        return exact(event["amount"], cls.measure)

    @classmethod
    def of_release(cls, release: Mapping[str, Any]) -> Fraction:
        """What a release, as a ledger wrote it down, takes from such a reservation; ValueError where it cannot be told."""
        if release.get("measure") != cls.measure:
            raise ValueError(f"a release of kind {release['kind']!r} has no cost in {cls.measure}")
        return exact(release["amount"], cls.measure)


_EPSILON_PRIVATE = "pure", "l2-laplace"  # kinds of releases that ledgers have by their ε


@dataclass(frozen=True)
class GaussianCost(AddingCost):
    """Of Gaussian noise: μ² adds."""

    measure: ClassVar[str] = "μ²"
    word: ClassVar[str] = "Gaussian"
    remark: ClassVar[str] = " (Gaussian costs add as squares, so these ε do not subtract)"
    mu: float = field()

    def __str__(self) -> str:
        return f"μ = {self.mu:.4g}"

    @property
    def amount(self) -> float:
        return self.mu**2

    @property
    def covering_mu(self) -> float:
        return self.mu

    @property
    def exact(self) -> Fraction:
        """μ is a float, floats are fractions: no rounding."""
        return cost_of(self.mu)

    def at_least(self, delta: float) -> float:
        return gaussian_epsilon(self.mu, delta) if delta else math.inf

    @classmethod
    def epsilon_of(cls, events: Sequence["BaseEvent"], delta: float) -> float:
        mu = compose(event.cost.mu for event in events)
        return gaussian_epsilon(mu, delta) if delta > 0 or not mu else math.inf

    @classmethod
    def composition(cls, delta: float) -> str:
        return "by exact Gaussian composition"

    @classmethod
    def limit(cls, epsilon: float, delta: float, mu_squared: Fraction) -> Fraction:
        return mu_squared

    @classmethod
    def epsilon_of_amount(cls, amount: Fraction, delta: float) -> float:
        if amount and not delta:
            return math.inf
        return gaussian_epsilon(mu_of(amount), delta) if amount else 0.0

    @classmethod
    def told(cls, amount: Fraction) -> str:
        return f"μ = {mu_of(amount):.4g}"

    def as_booking(self) -> dict[str, Any]:
        return {"mu": self.mu}

    @classmethod
    def of_booking(cls, event: Mapping[str, Any]) -> Fraction:
        return cost_of(event["mu"])

    @classmethod
    def of_release(cls, release: Mapping[str, Any]) -> Fraction:
        """An ε-private release among Gaussian ones costs what the Gaussian release that dominates it would cost."""
        if release["kind"] in _EPSILON_PRIVATE:
            if not release["mu"] >= gaussian_dominating(release["epsilon"]) * (1 - 1e-9):
                raise ValueError(f"μ = {release['mu']} does not cover a pure ε = {release['epsilon']}")
        elif release["kind"] != "gaussian":
            return super().of_release(release)
        return cost_of(release["mu"])


@dataclass(frozen=True)
class PureCost(AddingCost):
    """Of a release with δ = 0: ε adds."""

    measure: ClassVar[str] = "ε"
    word: ClassVar[str] = "pure"
    remark: ClassVar[str] = ", for fits with δ = 0"
    pure: ClassVar[bool] = True
    limit_is_computed: ClassVar[bool] = False
    epsilon: float = field()

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.4g}"

    @property
    def amount(self) -> float:
        return self.epsilon

    @property
    def covering_mu(self) -> float:
        return gaussian_dominating(self.epsilon)

    @property
    def exact(self) -> Fraction:
        return as_decimal(self.epsilon)

    def at_least(self, delta: float) -> float:
        """By randomised response: δ = (e^ε − e^ε') / (1 + e^ε)."""
        return self.epsilon + math.log1p(-2.0 * delta) if delta < 0.5 else 0.0

    @classmethod
    def epsilon_of(cls, events: Sequence["BaseEvent"], delta: float) -> float:
        added = math.fsum(event.cost.epsilon for event in events)
        if len(events) == 1:
            return added
        added = math.nextafter(added, math.inf)
        return min(added, epsilon_by_pld(events, delta)) if delta else added

    @classmethod
    def composition(cls, delta: float) -> str:
        return "by addition of their ε" if delta == 0 else "by composition of pure ε"

    @classmethod
    def limit(cls, epsilon: float, delta: float, mu_squared: Fraction) -> Fraction:
        return as_decimal(epsilon)

    @classmethod
    def epsilon_of_amount(cls, amount: Fraction, delta: float) -> float:
        return math.nextafter(float(amount), math.inf) if amount else 0.0

    def as_booking(self) -> dict[str, Any]:
        return {"mu": 0.0}

    @classmethod
    def of_booking(cls, event: Mapping[str, Any]) -> Fraction:
        return as_decimal(event["epsilon"])

    @classmethod
    def of_release(cls, release: Mapping[str, Any]) -> Fraction:
        if release["kind"] == "gaussian":
            raise ValueError("it has Gaussian noise, but its fit reserved an ε with δ = 0. Declare a delta above 0")
        return as_decimal(release["epsilon"]) if release["kind"] in _EPSILON_PRIVATE else super().of_release(release)


MEASURES: dict[str, type[AddingCost]] = {kind.measure: kind for kind in (GaussianCost, PureCost)}


def kind_of(events: Sequence["BaseEvent"]) -> type[Cost] | None:
    """The kind of cost that all of these releases have; None: they have several. None at all cost μ = 0."""
    kinds: set[type[Cost]] = {type(event.cost) for event in events} or {GaussianCost}
    return kinds.pop() if len(kinds) == 1 else None


def kind_of_booking(event: Mapping[str, Any]) -> type[AddingCost]:
    """The kind of cost in which a reservation in a ledger was booked."""
    if "measure" in event:
        return MEASURES[event["measure"]]
    return GaussianCost if event["delta"] > 0 else PureCost


def epsilon_of_mixture(events: Sequence["BaseEvent"], delta: float) -> float:
    """ε of releases whose costs are of several kinds, rounded up.

    The smaller of two true bounds: all pure ε plus the ε of the others, where these are of one kind; and what the composed
    privacy loss distributions say.
    """
    if reasons := {event.cost.alone for event in events} - {""}:
        raise BudgetError(" ".join(sorted(reasons)))
    if delta == 0:
        return math.inf
    others = [event for event in events if not event.cost.pure]
    by_pld, kind = epsilon_by_pld(events, delta), kind_of(others)
    if kind is None:
        return by_pld
    added = math.fsum(event.cost.epsilon for event in events) + kind.epsilon_of(others, delta)
    return min(math.nextafter(added, math.inf), by_pld)


def epsilon_by_pld(events: Sequence["BaseEvent"], delta: float) -> float:
    """The same by dp-accounting's privacy loss distributions: slower, and independent of our formulas.

    Sensitivities are already those under *replacement*, so the losses are composed as they are: under its REPLACE_ONE
    relation dp-accounting would double a Gaussian's sensitivity a second time. Its estimates are pessimistic.

    Parameters
    ----------
    events : sequence of Event
        Releases on the same people.
    delta : float
        Above 0.

    Returns
    -------
    float
    """
    if not events:
        return 0.0
    together = reduce(lambda one, other: one.compose(other), (event.loss() for event in events))
    return float(together.get_epsilon_for_delta(delta))


def mu_of(cost: Fraction) -> float:
    """μ of a sum of μ², rounded up."""
    return math.nextafter(math.sqrt(cost), math.inf) if cost else 0.0


def cost_of(mu: float) -> Fraction:
    """μ² exactly.

    >>> cost_of(0.5) * 4 == cost_of(1.0)
    True
    """
    return exact(mu, "μ") ** 2


def as_decimal(epsilon: float) -> Fraction:
    """ε as the decimal that people wrote, so that ten times 0.1 is 1. The gate's noise is wider than this rounding.

    >>> 10 * as_decimal(0.1) == as_decimal(1.0)
    True
    """
    exact(epsilon, "ε")
    return Fraction(repr(float(epsilon)))


def exact(amount: float, what: str) -> Fraction:
    """A finite number > 0 as a fraction."""
    if not is_size(amount):
        raise ValueError(f"{what} must be a finite number > 0, got {amount!r}")
    return Fraction(amount)
