"""A private value with the most that one person can move it: what the gate takes, and nothing else."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from commonground.clipping.grid import CHUNK


@dataclass(frozen=True, repr=False)
class BoundedSum:
    """A private sum over people and the most that replacing one person can move it (L2).

    It may not be printed, logged or saved: only ``gate.release`` turns it into something public. ``relation`` is another one
    only in sums over a random sample, for ``gate.SampledReleases``.
    """

    value: np.ndarray
    sensitivity: float
    name: str
    relation: str = "replace-one"

    def __repr__(self) -> str:
        return f"<BoundedSum {self.name!r}: private, sensitivity {self.sensitivity:.6g}>"


def rounding_margin(n_users: int) -> float:
    """Relative room for floating-point addition, which does not commute.

    Replacing one person can change the rounding of every partial sum after her. Sums are taken in chunks of CHUNK people,
    over the chunks of a block, over the blocks of a partition as a tree and over partitions as another one (``engines``), so an
    entry passes through at most CHUNK + n/CHUNK + 64 additions, each wrong by at most 2⁻⁵³ of a partial sum of norm at most
    n·C, for both neighbours, wherever people are. Where people are added several at a time (moments, by at most 64 rows), there
    are as many additions fewer, and the few inside a group are of partial sums of at most 64·C. The 1e-9 covers the rounding
    inside one contribution.
    """
    return 1e-9 + 2.0**-52 * n_users * (CHUNK + n_users / CHUNK + 64)


SCORE_UNIT = 2**30  # what a score of one is counted as


@njit(inline="always")
def score_units(score, weight):  # type: ignore[no-untyped-def]
    """A score between 0 and 1 of a person who counts ``weight``, as a whole number.

    Larger scores and what is not a number count 1, negative ones 0; then the weight, rounded down.
    """
    units = SCORE_UNIT if not score < 1.0 else round(score * SCORE_UNIT) if score > 0.0 else 0  # NaN is not below 1
    return math.floor(units * weight)


@dataclass(frozen=True, repr=False)
class BoundedScores:
    """For each of some candidates the sum of people's losses, in whole units; the smallest is the best. Private.

    It may not be printed, logged or saved: only ``gate.select`` turns it into something public.
    """

    value: np.ndarray  # (candidates,) int64
    sensitivity: int  # the most by which replacing one person can move any entry
    name: str

    def __repr__(self) -> str:
        return f"<BoundedScores {self.name!r}: private, sensitivity {self.sensitivity}>"
