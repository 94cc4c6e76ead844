"""What the records of all kinds of releases have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, Self

from commonground.accounting.costs import Cost, is_count, is_size

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
