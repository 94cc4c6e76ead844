"""What one person sends: a frozen dataclass of public values, whose ``of(block)`` adds up the contributions of whole people.

No randomness, no budget. Every field has a name, and a type that says what it may be (`Frame`, `WindowStart`, …). From these
follow a statistic's form on a wire and the check of one that came over it. The bounds are those of the public grid of sizes: a
threshold beside the grid would clip nobody, and the sum would move by more than is said.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType
from typing import Annotated, Any, ClassVar, Generic, Self, get_args, get_type_hints

import numpy as np

from commonground.clipping.grid import N_BINS, lower_edge
from commonground.data.population import Block, Sum
from commonground.losses import LOSSES
from commonground.statistics.kernels.coordinates import Coordinates

WINDOW = 16  # bins (8 octaves) around the expected size for which sums are kept
MOST_NESTED = 3  # statistics within statistics

# ---- what a field may be: (value, number of features) → whether it is that ------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What a public value may be."""

    name: str
    allows: Callable[[Any, int], bool]


def _array(value: Any, *shape: int) -> bool:
    """Compiled code reads arrays without looking at their length, so one of another shape must not get there."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and value.flags.c_contiguous
        and bool(np.isfinite(value).all())
    )


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else ()


def _columns(value: Any, d: int, fewest: int) -> bool:
    shape = _shape(value)
    return len(shape) == 2 and fewest <= shape[1] <= d and _array(value, d, shape[1])


def _square(value: Any, d: int) -> bool:
    shape = _shape(value)
    return len(shape) == 2 and shape[0] <= d + 1 and _array(value, shape[0], shape[0])


def _window_start(value: Any, d: int) -> bool:
    return type(value) is int and 1 <= value <= N_BINS - WINDOW


Flag = Annotated[bool, Kind("flag", lambda value, d: type(value) is bool)]
Number = Annotated[float, Kind("number", lambda value, d: type(value) in (int, float) and math.isfinite(value))]
Positive = Annotated[float, Kind("positive", lambda value, d: type(value) is float and 0.0 < value < math.inf)]
Vector = Annotated[np.ndarray, Kind("vector", lambda value, d: _array(value, d))]
Frame = Annotated[np.ndarray, Kind("frame", lambda value, d: _columns(value, d, 1))]
Embedding = Annotated[np.ndarray, Kind("embedding", lambda value, d: _columns(value, d, 0))]
Transform = Annotated[np.ndarray, Kind("transform", lambda value, d: _array(value, d) or _array(value, d, d))]
Square = Annotated[np.ndarray, Kind("square", _square)]
LossName = Annotated[str, Kind("loss", lambda value, d: type(value) is str and value in LOSSES)]
# The first bin of a window that lies on the grid; bin 0 is for those who contribute nothing.
WindowStart = Annotated[int, Kind("window_start", _window_start)]
ClipNorm = Annotated[
    float, Kind("clip_norm", lambda value, d: type(value) is float and lower_edge(1) <= value <= lower_edge(N_BINS - 1))
]


# ---- what is asked -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SharedModel:
    """What rounds improve and statistics read: x → <coef + embedding v, x> + intercept, v a person's own."""

    embedding: Embedding  # (n_features, rank)
    coef: Vector | None = None  # (n_features,): w₀; None where people have no common mean
    intercept: Number = 0.0
    own_intercept: Flag = False  # whether everybody has an intercept of her own beside it
    # (q, q): S, the covariance of people's own parts: their intercepts first, where they have one, then their v. None: not
    # known
    spread: Square | None = None
    # s², the variance of labels about a person's own model; of use with ``spread`` only. One for log-odds, which have none
    noise: Number = 1.0
    log_odds: Flag = False  # whether the model gives the log-odds of a label above zero, in place of the label

    @property
    def rank(self) -> int:
        return self.embedding.shape[1]

    @property
    def has_usable_prior(self) -> bool:
        """Whether the spread, if there is one, is of the right size, and the noise above zero: one, for log-odds."""
        if self.log_odds and self.noise != 1.0:
            return False
        return self.spread is None or (len(self.spread) == self.rank + self.own_intercept and self.noise > 0.0)

    @property
    def slopes(self) -> np.ndarray:
        """w₀, or zero."""
        return np.zeros(len(self.embedding)) if self.coef is None else self.coef


@dataclass(frozen=True, eq=False)
class Statistic(Generic[Sum]):
    """Base of all that can be asked of people; ``gives`` is the kind of sum that it adds up to."""

    gives: ClassVar[type]
    takes_no_directions: ClassVar[bool] = False  # whether its model may be one without any
    needs_spread: ClassVar[bool] = False  # whether its model must have one
    sees_through_coordinates: ClassVar[bool] = False  # whether ``of_coordinates`` is all it has

    def of(self, block: Block) -> Sum:
        """The sum over the people of a block."""
        return self.of_coordinates(block, Coordinates())

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> Sum:
        """The same for rows z = T (x − centre), without making them (``coordinates.InCoordinates``)."""
        raise NotImplementedError

    @property
    def inner(self) -> "Statistic[Any] | None":
        """The statistic that is asked for on changed rows or labels; None where this one is asked for itself."""
        return None

    @property
    def innermost(self) -> "Statistic[Any]":
        """The statistic whose sum it is."""
        return self if self.inner is None else self.inner.innermost

    def on_the_wire(self) -> dict[str, Any]:
        """Its public values by name, with dots for those within others; None is left out."""
        return _flat(self, "")

    @classmethod
    def from_the_wire(cls, given: dict[str, Any], d: int, catalogue: dict[str, "type[Statistic[Any]]"]) -> Self:
        """The inverse of ``on_the_wire``, for people with ``d`` features; ValueError where a value is not what it may be."""
        left = dict(given)
        made = _made(cls, left, "", d, catalogue, 1)
        if left:
            raise ValueError(f"{cls.__name__} takes other values")
        return made


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in vars(value).items():
        if isinstance(one, Statistic):
            found[prefix + name] = type(one).__name__
        if is_dataclass(one):
            found |= _flat(one, f"{prefix}{name}.")
        elif one is not None:
            found[prefix + name] = one.item() if isinstance(one, np.generic) else one
    return found


def _made(kind: Any, left: dict[str, Any], prefix: str, d: int, catalogue: Any, depth: int) -> Any:
    """``kind`` of the values whose names begin with ``prefix``, which are taken out of ``left``."""
    if depth > MOST_NESTED:
        raise ValueError("more within another than is allowed")
    values: dict[str, Any] = {}
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        name, hint, at = field.name, hints[field.name], prefix + field.name
        if hint is SharedModel:
            values[name] = _made(SharedModel, left, f"{at}.", d, catalogue, depth)
        elif isinstance(hint, type) and issubclass(hint, Statistic):
            inner = left.pop(at, None)
            if type(inner) is not str or inner not in catalogue:
                raise ValueError(f"{at} is not a statistic that is known")
            values[name] = _made(catalogue[inner], left, f"{at}.", d, catalogue, depth + 1)
        else:
            allowed, value = _kind_of(hint), left.pop(at, None)
            if not (value is None and NoneType in get_args(hint)) and not allowed.allows(value, d):
                raise ValueError(f"{at} of {kind.__name__} is not a {allowed.name} that it allows")
            values[name] = float(value) if allowed.name == "number" else value
    model = values.get("model")
    if model is not None and (not model.has_usable_prior or (kind.needs_spread and model.spread is None)):
        raise ValueError(f"{prefix}model.spread of {kind.__name__} is not that of its embedding")
    if model is not None and model.rank < 1 and not kind.takes_no_directions:
        raise ValueError(f"{prefix}model.embedding of {kind.__name__} is not a frame that it allows")
    return kind(**values)


def _kind_of(hint: Any) -> Kind:
    """Of ``Vector`` and of ``Vector | None``, what a vector may be."""
    annotated = hint if hasattr(hint, "__metadata__") else next(each for each in get_args(hint) if each is not NoneType)
    (kind,) = annotated.__metadata__
    return kind
