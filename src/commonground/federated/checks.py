"""Is an answer possible? What every honest node's sum satisfies, whatever its people's rows are.

The bounds follow from how sums are made (``clipping``), so an honest node is never refused for what its data are. They catch a
node that is broken, or lies beyond what its people could, and stop the training: nothing is published that says which sums a
node was left out of. A lie within the bounds costs accuracy, never
privacy: the noise is for the people at the other nodes, whose sums it cannot change.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from commonground.clipping.grid import N_BINS, lower_edge
from commonground.clipping.sums import BinnedSums, ConeSums, DirectionSums, PositiveSums, SizeCounts
from commonground.data.users import Block
from commonground.federated.questions import arrays_in

ROUNDING_FACTOR = 1.01  # rounding is far below; a bound that is off by this much changes nothing
NOISE_ROOM = 12.0  # standard deviations: the norm of normal noise exceeds √p by that much with probability below e⁻⁷²


class ImpossibleError(Exception):
    """No people can have this sum. The reason is a fixed text: it holds no number out of the answer."""


def nobody(n_features: int) -> Block:
    """A made-up person with one empty row: what the answer to a question looks like, without anybody's data."""
    return Block(np.zeros((1, n_features)), np.zeros(1), np.array([0, 1]), first=0)


def for_people(sums: Any, n_users: int) -> Any:
    """Sums that leave room for the rounding of so many people; exact ones leave none."""
    return replace(sums, n_users=n_users) if hasattr(sums, "n_users") else sums


def checked_sums(template: Any, arrays: dict[str, np.ndarray], people: int) -> Any:
    """The node's sums, of the same kind as ``template``, of which it keeps all that is public (clips, windows)."""
    expected = arrays_in(vars(template))
    if set(arrays) != set(expected):
        raise ImpossibleError("other arrays than were asked for")
    for name, value in expected.items():
        if arrays[name].shape != value.shape or arrays[name].dtype != value.dtype:
            raise ImpossibleError("an array of the wrong shape or type")
        if not np.isfinite(arrays[name]).all():
            raise ImpossibleError("a number that is not finite")
    sums = for_people(replace(template, **arrays), people)
    _CHECKS[type(sums)](sums, people)
    return sums


def _check_counts(counts: np.ndarray, people: int) -> None:
    if (counts < 0).any() or (counts != np.rint(counts)).any() or counts.sum() != people:
        raise ImpossibleError("counts that are not those of its people")


def _check_norm(value: np.ndarray, most: float) -> None:
    _check_norms(value[None], np.array([most]))


def _check_norms(values: np.ndarray, most: np.ndarray) -> None:
    """Of several sums, each against its own bound."""
    flat = values.reshape(len(values), -1)
    largest = np.maximum(np.abs(flat).max(axis=1, initial=0.0), 1e-300)  # squares of very large numbers would overflow
    norms = largest * np.linalg.norm(flat / largest[:, None], axis=1)
    if not (norms <= ROUNDING_FACTOR * most + 1e-290).all():
        raise ImpossibleError("a sum larger than people × threshold")


def _check_positive(matrix: np.ndarray) -> None:
    scale = ROUNDING_FACTOR * 1e-6 * max(float(np.abs(matrix).max()), 1e-300)
    if np.abs(matrix - matrix.T).max() > scale:
        raise ImpossibleError("a matrix that is not symmetric")
    if np.linalg.eigvalsh(matrix)[0] < -len(matrix) * scale:
        raise ImpossibleError("a matrix that is not positive")


# Of sizes from 1 on; the last bin holds whatever has a finite square.
_UPPER_EDGES = np.array([lower_edge(b + 1) for b in range(1, N_BINS - 1)] + [math.sqrt(np.finfo(np.float64).max)])


def _check_binned(sums: BinnedSums, people: int) -> None:
    _check_counts(sums.counts, people)
    if ((sums.counted < 0.0) | (sums.counted > sums.counts)).any():
        raise ImpossibleError("people who count for more than one")
    window = len(sums.raw)
    at = np.clip(np.arange(1, N_BINS) - sums.lowest, 0, window - 1)  # in which bin of the window each size is kept
    inside = sums.counts[1:]
    most = np.bincount(at, inside * _UPPER_EDGES, minlength=window)
    here = np.bincount(at, inside, minlength=window)
    _check_norms(sums.raw, most)
    _check_norms(sums.unit, here)


def _check_directions(sums: DirectionSums, people: int) -> None:
    _check_positive(sums.value)
    _check_norm(np.atleast_1d(np.trace(sums.value)), people)


def _check_moments(sums: PositiveSums, people: int) -> None:
    _check_norm(sums.value, people * sums.clip_norm)
    _check_positive(sums.value)


_CHECKS: dict[type, Any] = {
    BinnedSums: _check_binned,
    ConeSums: lambda sums, people: _check_norm(sums.value, people * sums.clip_norm),
    DirectionSums: _check_directions,
    PositiveSums: _check_moments,
    SizeCounts: lambda sums, people: _check_counts(sums.counts, people),
}


def checked_value(
    arrays: dict[str, np.ndarray], shape: tuple[int, ...], people: int, sensitivity: float, noise_std: float
) -> np.ndarray:
    """An answer with the node's own noise. A person moves it by no more than its sensitivity, so they by that many times it."""
    value = arrays.get("value")
    if value is None or value.shape != shape or value.dtype != np.float64 or len(arrays) != 1:
        raise ImpossibleError("an array of the wrong shape or type")
    if not np.isfinite(value).all():
        raise ImpossibleError("a number that is not finite")
    _check_norm(value, people * sensitivity + noise_std * (math.sqrt(value.size) + NOISE_ROOM))
    return value
