"""What everybody's features say about scales and correlations, and rows in coordinates that take them out.

Both statistics are scale-free: a person with huge rows, or many, says no more than any other.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange

from commonground.clipping.grid import CHUNK, LARGEST, SMALLEST
from commonground.clipping.sums import BinnedSums, PositiveSums
from commonground.data.population import Block
from commonground.statistics.embedding_moments import add_moment, moment_norm_squared
from commonground.statistics.kernels.lanes import LANES
from commonground.statistics.statistic import WINDOW, Flag, Statistic, Transform, Vector, WindowStart

_PIECE = 16 * CHUNK  # people whose rows are transformed at once: a whole block would be copied


@dataclass(frozen=True, eq=False)
class InCoordinates(Statistic[Any]):
    """Another statistic for rows z = T x; T is a (d, d) matrix, or a (d,) vector of scales."""

    transform: Transform
    statistic: Statistic

    @property
    def innermost(self) -> Statistic[Any]:
        return self.statistic.innermost

    def of(self, block: Block) -> Any:
        columns = np.ascontiguousarray(self.transform.T, dtype=block.X.dtype)
        total = None
        for start in range(0, block.n_users, _PIECE):
            end = min(start + _PIECE, block.n_users)
            rows = slice(block.offsets[start], block.offsets[end])
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is nobody's contribution
                Z = block.X[rows] * columns if columns.ndim == 1 else _transformed(block.X[rows], columns)
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


@njit(parallel=True, cache=True, nogil=True)
def _transformed(X, columns):  # type: ignore[no-untyped-def]
    """X @ columns, each row by the same additions wherever it stands: a library may round by place, which others decide."""
    Z = np.zeros_like(X)
    for i in prange(X.shape[0]):
        for a in range(X.shape[1]):
            x = X[i, a]
            if x != 0.0:  # one-hot rows: one of d
                for c in range(X.shape[1]):
                    Z[i, c] += x * columns[a, c]
    return Z


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _profiles(X, offsets, guess, local_intercept):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    profiles = np.zeros((n, 1, d))
    for j in prange(n):
        lo, hi = offsets[j], offsets[j + 1]
        energies, sums, seen = np.zeros(d), np.zeros(d), 0
        for i in range(lo, hi):
            for a in range(d):
                x = np.float64(X[i, a])
                sums[a] += x
                energies[a] += x * x
        known = np.empty(d)
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
            own = np.median(known[:seen])
            for a in range(d):
                if not math.isnan(energies[a]):
                    profiles[j, 0, a] = energies[a] - own
    return profiles


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
        profiles = _profiles(block.X, block.offsets, self.octaves, self.own_intercept)
        return BinnedSums.of(profiles, block.person_weights, self.lowest, WINDOW)


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _moments(X, offsets, weights, local_intercept, max_rows):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    width = (d + LANES - 1) // LANES * LANES
    n_chunks = (n + CHUNK - 1) // CHUNK
    sums = np.zeros((n_chunks, 1, width, width))
    for chunk in prange(n_chunks):
        R, factor, factors = np.zeros((max_rows, width)), np.empty(1), np.empty(1)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
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
                add_moment(sums[chunk], R, m, factor, factors)
    return sums


@dataclass(frozen=True, eq=False)
class FeatureMoments(Statistic[PositiveSums]):
    """Person j sends X_jᵀX_j, scaled to Frobenius norm one; about its mean when she has an intercept of her own."""

    gives = PositiveSums
    own_intercept: Flag

    def of(self, block: Block) -> PositiveSums:
        max_rows = int(np.diff(block.offsets).max())
        sums = _moments(block.X, block.offsets, block.person_weights, self.own_intercept, max_rows).sum(axis=0)[0]
        d = block.X.shape[1]
        upper = np.triu(sums[:d, :d])
        return PositiveSums(upper + np.triu(upper, 1).T, 1.0, block.n_users)
