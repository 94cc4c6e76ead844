"""What a node can be asked: the sum of one of these functions over its people, and nothing else.

A question names a function of ``commonground.contributions`` and gives the public numbers and arrays it takes. No code and no
pickle travels: a node looks the name up in the one table here, ``CATALOGUE``, which says what every argument may be, and what
may be made of the sum. ``checked`` holds a question against it; what the table does not know is refused. The bounds are those
of the public grid of sizes: a threshold beside the grid would clip nobody, and the sum would move by more than is said.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from commonground.clipping.grid import N_BINS, lower_edge
from commonground.clipping.sums import BinnedSums, DirectionSums, PositiveSums, SizeCounts
from commonground.statistics.convex_gradients import convex_gradient_sums, signed_block_sum
from commonground.statistics.coordinates import feature_moment_sums, in_coordinates, scale_profile_sums
from commonground.statistics.directions import direction_sums, direction_sums_within, energy_counts
from commonground.statistics.embedding_moments import embedding_moment_sizes, embedding_moment_sums
from commonground.statistics.gradients import WINDOW, embedding_gradient_sums, mean_feature_sums, mean_gradient_sums
from commonground.statistics.losses import LOSSES
from commonground.statistics.own_heads import head_direction_sums, head_noise_counts
from commonground.statistics.residuals import residual_gradient_sums
from commonground.statistics.whitened import whitened_gradient_sums

MOST_ARGUMENTS = 16  # of a question, those of functions within functions included
MOST_ENTRIES = 2**26  # of an answer: half a gigabyte
MOST_PEOPLE = 10**12  # at all nodes together
MOST_LETTERS = 200  # of the name of a release
COSTS = (1e-9, 1e3)  # the least and the most μ of an answer; its ledger allows far less
_DEPTH = 3  # functions within functions


class QuestionError(Exception):
    """A question that nodes do not know. The reason is a fixed text and goes to the server."""


@dataclass(frozen=True)
class Noised:
    """The node's answer passes its own gate first."""

    method: str  # of the sum, one of METHODS
    arguments: tuple[int, ...]  # public
    name: str  # of the release, for ledgers
    mu: float  # what the node's release costs
    people: int  # at all nodes together: sums of so many are rounded


@dataclass(frozen=True)
class Question:
    """``noised=None`` asks for the exact sum."""

    function: str  # one of CATALOGUE
    public: tuple[Any, ...] = field(repr=False)
    noised: Noised | None = None


# ---- what an argument may be: (value, number of features) → whether it is that -----------------------------------------


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _array(value: Any, *shape: int) -> bool:
    """Compiled code reads arrays without looking at their length, so one of another shape must not get there."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and value.flags.c_contiguous
        and bool(np.isfinite(value).all())
    )


def flag(value: Any, d: int) -> bool:
    return type(value) is bool


def number(value: Any, d: int) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def vector(value: Any, d: int) -> bool:
    return _array(value, d)


def vector_or_none(value: Any, d: int) -> bool:
    return value is None or vector(value, d)


def frame(value: Any, d: int) -> bool:
    """An embedding or a subspace: a few columns."""
    return (
        isinstance(value, np.ndarray)
        and value.ndim == 2
        and 1 <= value.shape[1] <= d
        and _array(value, d, value.shape[1])
    )


def transform(value: Any, d: int) -> bool:
    return _array(value, d) or _array(value, d, d)


def loss(value: Any, d: int) -> bool:
    return type(value) is str and value in LOSSES


def window_start(value: Any, d: int) -> bool:
    """The first bin of a window that lies on the grid; bin 0 is for those who contribute nothing."""
    return _whole(value, 1, N_BINS - WINDOW)


def clip_norm(value: Any, d: int) -> bool:
    return type(value) is float and lower_edge(1) <= value <= lower_edge(N_BINS - 1)


def contribution(value: Any, d: int) -> bool:
    """Another function of the catalogue; what follows are its arguments."""
    return known(value)


# ---- the table ------------------------------------------------------------------------------------------------------------

METHODS: dict[type, tuple[str, ...]] = {  # what a node that adds its own noise makes of a sum
    BinnedSums: ("whole_histogram", "histogram", "clipped_at"),
    DirectionSums: ("bounded",),
    PositiveSums: ("bounded",),
    SizeCounts: ("bounded",),
}
Kind = Callable[[Any, int], bool]


@dataclass(frozen=True)
class Entry:
    function: Callable[..., Any]
    gives: type | None  # None: what the function within gives
    takes: tuple[Kind, ...]
    optional: int = 0  # how many of the last arguments may be missing


_MODEL = (frame, vector_or_none, number, flag)  # embedding, shared mean, intercept, whether people have their own
CATALOGUE: dict[str, Entry] = {
    entry.function.__name__: entry
    for entry in (
        Entry(convex_gradient_sums, BinnedSums, (*_MODEL, loss, flag, window_start)),
        Entry(direction_sums, DirectionSums, (vector, number, flag)),
        Entry(direction_sums_within, DirectionSums, (frame, vector, number, flag)),
        Entry(embedding_gradient_sums, BinnedSums, (*_MODEL, window_start)),
        Entry(embedding_moment_sizes, SizeCounts, _MODEL),
        Entry(embedding_moment_sums, PositiveSums, (*_MODEL, clip_norm)),
        Entry(energy_counts, SizeCounts, (flag,)),
        Entry(feature_moment_sums, PositiveSums, (flag,)),
        Entry(head_direction_sums, DirectionSums, _MODEL),
        Entry(head_noise_counts, SizeCounts, _MODEL),
        Entry(in_coordinates, None, (transform, contribution)),
        Entry(mean_feature_sums, BinnedSums, (window_start,)),
        Entry(mean_gradient_sums, BinnedSums, (vector, number, flag, number, window_start, vector_or_none), optional=1),
        Entry(residual_gradient_sums, BinnedSums, (frame, vector, number, flag, window_start)),
        Entry(scale_profile_sums, BinnedSums, (vector, flag, window_start)),
        Entry(signed_block_sum, None, (contribution,)),
        Entry(whitened_gradient_sums, BinnedSums, (frame, flag, window_start)),
    )
}
CONTRIBUTIONS = {name: entry.function for name, entry in CATALOGUE.items()}


def known(function: Any) -> bool:
    """Whether this is a function that nodes can be asked for."""
    return callable(function) and CONTRIBUTIONS.get(getattr(function, "__name__", "")) is function


# ---- a question against the table -----------------------------------------------------------------------------------------


def checked(question: Question, n_features: int, people: int) -> Question:
    """The question, with numbers in the types that its functions take; one that a node does not know is an error.

    ``people``: how many the node has.
    """
    if type(question.function) is not str or question.function not in CATALOGUE:
        raise QuestionError("it does not know this question")
    entry, arguments, public = _innermost(CATALOGUE[question.function], question.public, n_features)
    if _entries(entry, arguments, n_features) > MOST_ENTRIES:
        raise QuestionError(f"the answer would have more than {MOST_ENTRIES:,} entries")
    if question.noised is not None:
        _check_noised(question.noised, entry, arguments, people)
    return replace(question, public=public)


def _innermost(
    entry: Entry, public: tuple[Any, ...], d: int, depth: int = 1
) -> tuple[Entry, tuple[Any, ...], tuple[Any, ...]]:
    """The entry whose sum it is, its arguments, and all arguments; each is what the table says."""
    if depth > _DEPTH or len(public) > MOST_ARGUMENTS:
        raise QuestionError("it does not know this question")
    own, rest = public[: len(entry.takes)], public[len(entry.takes) :]
    if len(own) < len(entry.takes) - entry.optional or (rest and entry.gives is not None):
        raise QuestionError(f"{entry.function.__name__} takes another number of arguments")
    for at, (value, kind) in enumerate(zip(own, entry.takes, strict=False)):
        if not kind(value, d):
            raise QuestionError(
                f"argument {at + 1} of {entry.function.__name__} is not a {kind.__name__} that it allows"
            )
    own = tuple(float(value) if kind is number else value for value, kind in zip(own, entry.takes, strict=False))
    if entry.gives is not None:
        return entry, own, own
    inner, arguments, more = _innermost(CATALOGUE[own[-1].__name__], rest, d, depth + 1)
    return inner, arguments, (*own, *more)


def _argument(entry: Entry, arguments: tuple[Any, ...], kind: Kind) -> Any:
    return next((value for value, of in zip(arguments, entry.takes, strict=False) if of is kind), None)


def _entries(entry: Entry, arguments: tuple[Any, ...], d: int) -> int:
    """How large the answer is, roughly."""
    columns = _argument(entry, arguments, frame)
    k = 1 if columns is None else columns.shape[1]
    if entry.gives is BinnedSums:
        return 2 * WINDOW * k * d
    return (k * d) ** 2 if entry.gives is PositiveSums else d * d


def _check_noised(wanted: Noised, entry: Entry, arguments: tuple[Any, ...], people: int) -> None:
    assert entry.gives is not None
    if wanted.method not in METHODS[entry.gives]:
        raise QuestionError("it does not know this question")
    if wanted.method == "clipped_at":
        first = _argument(entry, arguments, window_start)
        inside = len(wanted.arguments) == 1 and _whole(wanted.arguments[0], first + 1, first + WINDOW - 1)
    else:
        inside = wanted.arguments == ()
    if not inside:
        raise QuestionError("it clips at an edge within the window, and takes no other arguments")
    if type(wanted.name) is not str or not (1 <= len(wanted.name) <= MOST_LETTERS and wanted.name.isprintable()):
        raise QuestionError(f"a release has a name of up to {MOST_LETTERS} letters")
    if not (type(wanted.mu) is float and COSTS[0] <= wanted.mu <= COSTS[1]):
        raise QuestionError("it will not answer at that cost")
    if not _whole(wanted.people, people, MOST_PEOPLE):
        raise QuestionError("there are not so many people at all nodes")
