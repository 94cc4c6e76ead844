"""What everybody's features say about scales and correlations, and rows in coordinates that take them out.

Both statistics are scale-free: a person with huge rows, or many, says no more than any other.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.clipping.grid import CHUNK, LARGEST, SMALLEST
from commonground.clipping.sums import BinnedSums, PositiveSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.embedding_moments import add_moment, moment_norm_squared
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.lanes import LANES
from commonground.statistics.statistic import WINDOW, Flag, Statistic, Transform, Vector, WindowStart
from commonground.threads import each

_ROWS = 16384  # that one thread transforms at a time
_PIECE = 16 * CHUNK  # people whose rows are transformed at once: a whole block would be copied


@dataclass(frozen=True, eq=False)
class InCoordinates(Statistic[Any]):
    """Another statistic for rows z = T (x − centre); T is a (d, d) matrix, or a (d,) vector of scales."""

    transform: Transform
    statistic: Statistic
    centre: Vector | None = None

    @property
    def innermost(self) -> Statistic[Any]:
        return self.statistic.innermost

    def of(self, block: Block) -> Any:
        if self.statistic.sees_through_coordinates and not block.sparse:
            return self.statistic.of_coordinates(block, Coordinates(self.transform, self.centre))
        columns = np.ascontiguousarray(self.transform.T, dtype=block.X.dtype)
        total = None
        for start in range(0, block.n_users, _PIECE):
            end = min(start + _PIECE, block.n_users)
            rows = slice(block.offsets[start], block.offsets[end])
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is nobody's contribution
                X = block.X[rows] if self.centre is None else block.X[rows] - self.centre.astype(block.X.dtype)
                Z = X * columns if columns.ndim == 1 else _in_threads(X, columns)
            piece = Block(
                Z,
                block.y[rows],
                block.offsets[start : end + 1] - block.offsets[start],
                block.first + start,
                None if block.weights is None else block.weights[start:end],
            )
            part = self.statistic.of(piece)
            total = part if total is None else total + part
        assert total is not None  # a block has people
        return total


def _in_threads(X: np.ndarray, columns: np.ndarray) -> np.ndarray:
    pieces = each(lambda start: _transformed(X[start : start + _ROWS], columns), range(0, len(X), _ROWS))
    return np.concatenate(pieces) if pieces else np.zeros_like(X)


@kernel()
def _transformed(X, columns):  # type: ignore[no-untyped-def]
    """X @ columns, each row by the same additions wherever it stands: a library may round by place, which others decide."""
    Z = np.zeros_like(X)
    for i in range(X.shape[0]):
        for a in range(X.shape[1]):
            x = X[i, a]
            if x != 0.0:  # one-hot rows: one of d
                for c in range(X.shape[1]):
                    Z[i, c] += x * columns[a, c]
    return Z


@kernel(error_model="numpy", inline="always")
def _median(values, n):  # type: ignore[no-untyped-def]
    """Of the first n values, which it sorts: a person has few features."""
    for i in range(1, n):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2.0


@kernel(error_model="numpy")
def _profiles(X, offsets, guess, local_intercept, profiles):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    energies, sums, known = np.empty(d), np.empty(d), np.empty(d)
    for j in range(n):
        lo, hi, seen = offsets[j], offsets[j + 1], 0
        for a in range(d):
            energies[a], sums[a] = 0.0, 0.0
        for i in range(lo, hi):
            for a in range(d):
                x = X[i, a]
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
    octaves: Vector
    own_intercept: Flag
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:

        def of_chunk(some: Block) -> np.ndarray:
            profiles = np.zeros((some.n_users, some.X.shape[1]))
            _profiles(some.X, some.offsets, self.octaves, int(self.own_intercept), profiles)
            return profiles

        profiles = over_chunks(block, of_chunk)
        return BinnedSums.of(profiles[:, None, :], block.person_weights, self.lowest, WINDOW)


@kernel(error_model="numpy")
def _moments(X, offsets, weights, local_intercept, R, sums):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    factor, factors = np.empty(1), np.empty(1)
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        for i in range(m):
            for c in range(d):
                R[i, c] = X[lo + i, c]
        if local_intercept:
            for c in range(d):
                centre = 0.0
                for i in range(m):
                    centre += R[i, c]
                for i in range(m):
                    R[i, c] -= centre / m
        squared = moment_norm_squared(R, m, d)
        if SMALLEST < squared < LARGEST:
            factor[0] = math.sqrt(weights[j] / math.sqrt(squared))
            add_moment(sums, R, m, factor, factors)


@dataclass(frozen=True, eq=False)
class FeatureMoments(Statistic[PositiveSums]):
    """Person j sends X_jᵀX_j, scaled to Frobenius norm one; about its mean when she has an intercept of her own."""

    gives = PositiveSums
    own_intercept: Flag

    def of(self, block: Block) -> PositiveSums:
        d, max_rows = block.X.shape[1], int(np.diff(block.offsets).max())
        width = -(-d // LANES) * LANES

        def of_chunk(some: Block) -> np.ndarray:
            R, sums = np.zeros((max_rows, width)), np.zeros((1, width, width))
            _moments(some.X, some.offsets, some.person_weights, int(self.own_intercept), R, sums)
            return sums

        sums = over_chunks(block, of_chunk).sum(axis=0)
        upper = np.triu(sums[:d, :d])
        return PositiveSums(upper + np.triu(upper, 1).T, 1.0, block.n_users)
