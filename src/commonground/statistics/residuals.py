"""What is left for the shared mean once everybody has her best head: each person's mean gradient after her head."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from commonground.clipping.grid import CHUNK, N_BINS, bin_of
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Block
from commonground.statistics.directions import solve_in_place
from commonground.statistics.kernels.gradients import TINY_RIDGE
from commonground.statistics.statistic import WINDOW, SharedModel, Statistic, WindowStart


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _residual_gradients(X, y, offsets, weights, U, w, shared_intercept, local_intercept, lowest, window):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    n_chunks = (n + CHUNK - 1) // CHUNK
    counts = np.zeros((n_chunks, N_BINS))
    raw = np.zeros((n_chunks, window, 1, d))
    unit = np.zeros((n_chunks, window, 1, d))
    for chunk in prange(n_chunks):
        gram, v, g = np.empty((k, k)), np.empty(k), np.empty(d)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = m - k - local_intercept
            if dof <= 0:
                counts[chunk, 0] += weights[j]
                continue
            A, r = np.zeros((m, k)), np.empty(m)
            for i in range(m):
                r[i] = y[lo + i] - shared_intercept
                for a in range(d):
                    r[i] -= X[lo + i, a] * w[a]
                    for c in range(k):
                        A[i, c] += X[lo + i, a] * U[a, c]
            if local_intercept:
                r -= r.mean()
                for c in range(k):
                    A[:, c] -= A[:, c].mean()
            ridge = TINY_RIDGE * (A * A).sum()
            for c in range(k):
                v[c] = (A[:, c] * r).sum()
                for b in range(k):
                    gram[c, b] = (A[:, c] * A[:, b]).sum()
                gram[c, c] += ridge
            if not solve_in_place(gram, v):
                counts[chunk, 0] += weights[j]
                continue
            g[:] = 0.0
            for i in range(m):
                for c in range(k):
                    r[i] -= A[i, c] * v[c]
                for a in range(d):
                    g[a] += r[i] * X[lo + i, a]
            g /= dof
            squared = (g * g).sum()
            b = bin_of(squared)
            counts[chunk, b] += weights[j]
            if b > 0:
                at = min(max(b - lowest, 0), window - 1)
                raw[chunk, at, 0] += weights[j] * g
                unit[chunk, at, 0] += weights[j] / math.sqrt(squared) * g
    return counts, raw, unit


@dataclass(frozen=True, eq=False)
class ResidualGradients(Statistic[BinnedSums]):
    """Person j sends X_jᵀ r_j / dof_j, r_j the residual of the shared mean and her best head."""

    gives = BinnedSums
    model: SharedModel
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model = self.model
        counts, raw, unit = _residual_gradients(
            block.X, block.y, block.offsets, block.person_weights, model.embedding, model.slopes, model.intercept,
            model.own_intercept, self.lowest, WINDOW,
        )  # fmt: skip
        return BinnedSums(counts.sum(axis=0), raw.sum(axis=0), unit.sum(axis=0), self.lowest, block.n_users)
