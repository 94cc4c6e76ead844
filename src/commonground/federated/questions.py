"""The table of statistics that a node can be asked for: the sum of one of them over its people, and nothing else.

A question names a statistic and gives the public values that it takes. No code and no pickle travels: a node looks the name up
in the one table here, ``CATALOGUE``, and the statistic's own types say what every value may be (`statistics.statistic`). What
the table does not know is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from commonground.clipping.sums import BinnedSums, ConeSums, DirectionSums, PositiveSums, SizeCounts
from commonground.statistics.answers import AnswerShares, ToldShares
from commonground.statistics.convex_gradients import ConvexGradients, SignedLabels
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.statistics.directions import Directions, DirectionsWithin, FeatureEnergies
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.gradients import EmbeddingGradients, MeanFeatures, MeanGradients
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces, LabelsInUnit
from commonground.statistics.own_heads import HeadDirections, HeadNoise, LabelNoise
from commonground.statistics.posterior import PosteriorGradients, PosteriorMoments
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.rows import RowCounts
from commonground.statistics.statistic import WINDOW, Statistic
from commonground.statistics.whitened import BestGuesses, MissedSizes

MOST_VALUES = 20  # of a question, those of statistics within statistics included
MOST_ENTRIES = 2**26  # of an answer: half a gigabyte
MOST_PEOPLE = 10**12  # at all nodes together
MOST_LETTERS = 200  # of the name of a release
COSTS = (1e-9, 1e3)  # the least and the most μ of an answer; its ledger allows far less

CATALOGUE: dict[str, type[Statistic[Any]]] = {
    statistic.__name__: statistic
    for statistic in (
        AnswerShares, BestGuesses, ConvexGradients, Directions, DirectionsWithin, EmbeddingGradients, EmbeddingMoments,
        EmbeddingMomentSizes, FeatureEnergies, FeatureMoments, HeadDirections, HeadNoise, InCoordinates, LabelEnergies,
        LabelMeans, LabelNoise, LabelPlaces, LabelsInUnit, MeanFeatures, MeanGradients, MissedSizes, PosteriorGradients,
        PosteriorMoments, ResidualGradients, RowCounts, ScaleProfiles, SignedLabels, ToldShares,
    )
}  # fmt: skip
METHODS: dict[type, tuple[str, ...]] = {  # what a node that adds its own noise makes of a sum
    BinnedSums: ("whole_histogram", "histogram", "clipped_at"),
    ConeSums: ("bounded",),
    DirectionSums: ("bounded",),
    PositiveSums: ("bounded",),
    SizeCounts: ("bounded",),
}


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

    statistic: Statistic[Any]
    noised: Noised | None = None


def known(statistic: Any) -> bool:
    """Whether nodes can be asked for this statistic, and for what it has within."""
    if CATALOGUE.get(type(statistic).__name__) is not type(statistic):
        return False
    return statistic.inner is None or known(statistic.inner)


def arrays_in(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Those of some named values that are arrays."""
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def question_from(name: Any, values: dict[str, Any], noised: Noised | None, n_features: int, people: int) -> Question:
    """The question that came in a message, held against the table; one that a node does not know is an error.

    ``people``: how many the node has.
    """
    if type(name) is not str or name not in CATALOGUE or len(values) > MOST_VALUES:
        raise QuestionError("it does not know this question")
    try:
        statistic = CATALOGUE[name].from_the_wire(values, n_features, CATALOGUE)
    except ValueError as reason:  # of fixed text: names of fields, no values
        raise QuestionError(str(reason)) from None
    if _entries(statistic.innermost, n_features) > MOST_ENTRIES:
        raise QuestionError(f"the answer would have more than {MOST_ENTRIES:,} entries")
    if noised is not None:
        _check_noised(noised, statistic.innermost, people)
    return Question(statistic, noised)


def _entries(statistic: Statistic[Any], d: int) -> int:
    """How large the answer is, roughly."""
    k = max((columns for columns in _widths(statistic)), default=1)
    if statistic.gives is BinnedSums:
        return 2 * WINDOW * max(k, 1) * d
    if statistic.gives is ConeSums:  # a chunk of people's moments
        return 256 * 2 * k * k
    return (k * d) ** 2 if statistic.gives is PositiveSums and k else d * d


def _widths(public: Any) -> list[int]:
    """The columns of all matrices in it."""
    own = [array.shape[1] for array in arrays_in(vars(public)).values() if array.ndim == 2]
    return own + [width for value in vars(public).values() if is_dataclass(value) for width in _widths(value)]


def _check_noised(wanted: Noised, statistic: Any, people: int) -> None:
    if wanted.method not in METHODS[statistic.gives]:
        raise QuestionError("it does not know this question")
    if wanted.method == "clipped_at":
        first = statistic.lowest
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


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high
