"""What one release costs, and what the records of all kinds of releases have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

from commonground.accounting.gaussian import gaussian_dominating, gaussian_epsilon

StepKind = tuple[float, float, str, int]  # sampling probability, noise multiplier, relation, group size


def is_size(value: object) -> bool:
    """Whether it is a finite number > 0. NaN and negative numbers would make every later comparison pass."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def is_count(value: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return type(value) is int and value >= 1


@dataclass(frozen=True)
class Cost:
    """What one release takes from a budget, in the measure that adds up for its kind; the other two are empty."""

    mu: float = 0.0  # of Gaussian noise: μ² adds
    epsilon: float = 0.0  # of a release with δ = 0: ε adds
    # of training on Poisson samples: steps of one kind are counted, and composed in the end
    steps: Mapping[StepKind, int] = field(default_factory=dict)
    repeated: bool = False  # of the best of a random number of fits: it adds up with nothing

    def __str__(self) -> str:
        return f"μ = {self.mu:.4g}" if self.mu else f"ε = {self.epsilon:.4g}" if self.epsilon else "–"

    @property
    def covering_mu(self) -> float:
        """μ of a Gaussian release that costs at least as much; steps have none."""
        assert not self.steps
        assert not self.repeated
        return gaussian_dominating(self.epsilon) if self.epsilon else self.mu

    def at_least(self, delta: float) -> float:
        """The least ε that it costs by itself, where that has a formula; with others it costs at least as much."""
        if self.mu:
            return gaussian_epsilon(self.mu, delta) if delta else math.inf
        if self.epsilon and delta < 0.5:  # randomised response: δ = (e^ε − e^ε') / (1 + e^ε)
            return self.epsilon + math.log1p(-2.0 * delta)
        return 0.0


_FITS: dict[Any, Callable[[object], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: is_count,
    float: is_size,
}


@dataclass(frozen=True)
class BaseEvent(ABC):
    """A record of one passage through the gate, as it is written and read, and what every kind of it answers."""

    kind: ClassVar[str]
    chooses: ClassVar[bool] = False  # one of its entries is published, not all of them

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """What it takes from a budget."""

    @property
    @abstractmethod
    def supported(self) -> bool:
        """Whether the noise is large enough for that cost."""

    @property
    @abstractmethod
    def noise(self) -> str:
        """What people are told of the noise."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """How large the noise is: its standard deviation or scale."""

    @property
    def sampler_room(self) -> float:
        """What the sampler's rounding adds to anybody's cost, as a share of the release's."""
        return 0.0

    @abstractmethod
    def for_share(self, share: float) -> Self:
        """What it costs a person who moves the release by at most this share of its sensitivity.

        Parameters
        ----------
        share : float
            From 0 to 1.
        """

    @abstractmethod
    def charged(self) -> dict[str, Any]:
        """What a ledger writes down of it.

        Returns
        -------
        dict
        """

    @abstractmethod
    def loss(self) -> Any:
        """Its privacy loss distribution, as dp-accounting has them.

        Returns
        -------
        dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        """

    @property
    def makes_sense(self) -> bool:
        """Whether every field holds what it is declared to: sizes are positive and finite, counts at least one."""
        return all(_FITS[field.type](vars(self)[field.name]) for field in fields(self))

    def as_dict(self) -> dict[str, Any]:
        """As it stands in files, with its kind.

        Returns
        -------
        dict
        """
        return {"kind": self.kind, **asdict(self)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``as_dict``; files from before there were kinds hold Gaussian releases.

        Parameters
        ----------
        document : mapping
            What ``as_dict`` made.

        Returns
        -------
        Self
        """
        values = dict(document)
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        if values.pop("kind", "gaussian") != cls.kind or not needed <= set(values) <= {
            field.name for field in fields(cls)
        }:
            raise ValueError(f"not a {cls.kind} event: {sorted(document)}")
        return cls(**values)
