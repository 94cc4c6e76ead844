"""What everybody's features say about scales and correlations, and rows in coordinates that take them out.

Both statistics are scale-free: a person with huge rows, or many, says no more than any other.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.clipping.grid import CHUNK, LARGEST, SMALLEST
from commonground.clipping.sums import BinnedSums, PositiveSums
from commonground.compiled import kernel, subkernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import sum_over_chunks
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.lanes import LANES, pointer, shifted
from commonground.statistics.kernels.linear import add_moment, moment_norm_squared
from commonground.statistics.kernels.person import FAST, gram_of
from commonground.statistics.statistic import WINDOW, Flag, Statistic, Transform, Vector, WindowStart
from commonground.threads import each

_ROWS_PER_PRODUCT = 64  # rows of people whose moments are added at once
_ROWS = 4096  # that one thread transforms at a time
# People whose rows are transformed at once: a whole block would be copied, and not stay in the cache
_PIECE = 4 * CHUNK


@dataclass(frozen=True, eq=False)
class InCoordinates(Statistic[Any]):
    """Another statistic for rows z = T (x − centre); T is a (d, d) matrix, or a (d,) vector of scales."""

    transform: Transform
    statistic: Statistic
    centre: Vector | None = None

    @property
    def inner(self) -> Statistic[Any]:
        return self.statistic

    def of(self, block: Block) -> Any:
        coordinates = Coordinates(self.transform, self.centre)
        if self.statistic.sees_through_coordinates and not block.sparse:
            return self.statistic.of_coordinates(block, coordinates)
        total = None
        for start in range(0, block.n_users, _PIECE):
            end = min(start + _PIECE, block.n_users)
            rows = slice(block.offsets[start], block.offsets[end])
            piece = Block(
                _in_threads(block.X[rows], coordinates),
                block.y[rows],
                block.offsets[start : end + 1] - block.offsets[start],
                block.first + start,
                None if block.weights is None else block.weights[start:end],
            )
            part = self.statistic.of(piece)
            total = part if total is None else total + part
        assert total is not None  # a block has people
        return total


def _in_threads(X: np.ndarray, coordinates: Coordinates) -> np.ndarray:
    made = each(lambda start: coordinates.rows(X[start : start + _ROWS]), range(0, len(X), _ROWS))
    return np.concatenate(made) if made else np.zeros_like(X)


@subkernel(fastmath=FAST, error_model="numpy")
def _in_order(values, n, k):  # type: ignore[no-untyped-def]
    """The largest of the first n values that at most k are smaller than; only those between what is known are counted."""
    low, high = -math.inf, math.inf
    for i in range(n):
        value, smaller = values[i], 0.0
        if low < value < high:
            for other in range(n):
                smaller += 1.0 if values[other] < value else 0.0
            if smaller <= k:
                low = value
            else:
                high = value
    return low


@subkernel(fastmath=FAST, error_model="numpy")
def _median(values, n):  # type: ignore[no-untyped-def]
    """Of the first n values."""
    lower = _in_order(values, n, (n - 1) // 2)
    if n % 2:
        return lower
    up_to, above = 0.0, math.inf
    for i in range(n):
        up_to += 1.0 if values[i] <= lower else 0.0
        above = min(above, values[i] if values[i] > lower else math.inf)
    return lower if up_to > n // 2 else (lower + above) / 2.0


@kernel(error_model="numpy")
def _profiles(X, offsets, guess, local_intercept, energies, sums, known, profiles):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    for j in range(n):
        lo, hi, seen = offsets[j], offsets[j + 1], np.int64(0)  # a literal 0 would be a type of its own
        for a in range(d):
            energies[a], sums[a] = 0.0, 0.0
        for i in range(lo, hi):
            for a in range(d):
                x = np.float64(X[i, a])
                sums[a] += x
                energies[a] += x * x
        for a in range(d):
            if local_intercept:
                spread = energies[a] - sums[a] * sums[a] / (hi - lo)
                energies[a] = spread if spread > 1e-10 * energies[a] else 0.0  # what is left of a constant is rounding
            if SMALLEST < energies[a] < LARGEST:
                energies[a] = math.log2(energies[a]) - guess[a]
                known[seen] = energies[a]
                seen += 1
            else:
                energies[a] = math.nan
        if seen > 1:
            own = _median(known, seen)
            for a in range(d):
                if not math.isnan(energies[a]):
                    profiles[j, a] = energies[a] - own


@dataclass(frozen=True, eq=False)
class ScaleProfiles(Statistic[BinnedSums]):
    """Person j sends log₂ of each feature's energy in her rows, less ``octaves`` and her own median over features.

    A feature that does not vary in her rows says nothing, and is left at zero.
    """

    gives = BinnedSums
    sees_through_coordinates = True
    octaves: Vector
    own_intercept: Flag
    lowest: WindowStart

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:

        def of_chunk(some: Block) -> BinnedSums:
            profiles = np.zeros((some.n_users, some.X.shape[1]))
            room = np.empty((3, some.X.shape[1]))
            _profiles(some.X, some.offsets, self.octaves, int(self.own_intercept), *room, profiles)
            return BinnedSums.of(profiles[:, None, :], some.person_weights, self.lowest, WINDOW)

        return sum_over_chunks(block, of_chunk, coordinates)


@kernel(fastmath=FAST, error_model="numpy")
def _moments(X, offsets, weights, local_intercept, R, centre, gram, one, factors, sums):  # type: ignore[no-untyped-def]
    """Rows of several people at a time, each person's times one factor: a sum of many rows is added to ``sums`` at once."""
    n, d, width, height = offsets.shape[0] - 1, X.shape[1], R.shape[1], gram.shape[1]
    rows, used = pointer(R), np.int64(0)  # a literal 0 would be a type of its own, and functions compiled for it
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m == 0 or weights[j] == 0.0:
            continue
        if used + m > _ROWS_PER_PRODUCT:  # whoever else is in the chunk: R is as long as the longest of them needs
            add_moment(sums, R, used, one, factors)
            used = np.int64(0)
        for i in range(m):
            for c in range(d):
                R[used + i, c] = X[lo + i, c]
        if local_intercept:
            for c in range(width):
                centre[c] = 0.0
            for i in range(used, used + m):
                for c in range(width):
                    centre[c] += R[i, c]
            for c in range(width):
                centre[c] /= m
            for i in range(used, used + m):
                for c in range(width):
                    R[i, c] -= centre[c]
        squared = 0.0
        if m <= d:
            gram_of(shifted(rows, used * width), width, d, m - 1, pointer(gram), height)
            for i in range(m):
                for q in range(i + 1):
                    squared += gram[i, q] * gram[i, q] * (1.0 if q == i else 2.0)
        else:
            squared = moment_norm_squared(R[used : used + m], m, d)
        if SMALLEST < squared < LARGEST:
            factor = math.sqrt(weights[j] / math.sqrt(squared))
            for i in range(used, used + m):
                for c in range(d):
                    R[i, c] *= factor
            used += m
    add_moment(sums, R, used, one, factors)


@dataclass(frozen=True, eq=False)
class FeatureMoments(Statistic[PositiveSums]):
    """Person j sends X_jᵀX_j, scaled to Frobenius norm one; about its mean when she has an intercept of her own."""

    gives = PositiveSums
    sees_through_coordinates = True
    own_intercept: Flag

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> PositiveSums:
        d = block.X.shape[1]
        width = -(-d // LANES) * LANES

        def of_chunk(some: Block) -> PositiveSums:
            most = int(np.diff(some.offsets).max())
            height = -(-(min(most, d) + 1) // 4) * 4
            rows, sums = np.zeros((max(most, _ROWS_PER_PRODUCT) + 4, width)), np.zeros((1, width, width))
            room = rows, np.empty(width), np.empty((height, height)), np.ones(1), np.empty(1)
            _moments(some.X, some.offsets, some.person_weights, int(self.own_intercept), *room, sums)
            upper = np.triu(sums[0, :d, :d])
            return PositiveSums(upper + np.triu(upper, 1).T, 1.0, some.n_users)

        return sum_over_chunks(block, of_chunk, coordinates)
