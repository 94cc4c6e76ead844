"""What is left for the shared mean once everybody has her best head: each person's mean gradient after her head."""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import N_BINS, bin_of
from commonground.clipping.sums import BinnedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.linear import centre_in_place, solve_in_place
from commonground.statistics.kernels.person import TINY_RIDGE
from commonground.statistics.statistic import WINDOW, SharedModel, Statistic, WindowStart


@kernel(error_model="numpy")
def _residual_gradients(  # type: ignore[no-untyped-def]
    X, y, offsets, weights, U, w, shared_intercept, local_intercept, lowest, counts, raw, unit, A, r
):
    n, (d, k), window = offsets.shape[0] - 1, U.shape, raw.shape[0]
    gram, v, g = np.empty((k, k)), np.empty(k), np.empty(d)
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        dof = m - k - local_intercept
        if dof <= 0:
            counts[0] += weights[j]
            continue
        for i in range(m):
            r[i] = y[lo + i] - shared_intercept
            for c in range(k):
                A[i, c] = 0.0
            for a in range(d):
                r[i] -= X[lo + i, a] * w[a]
                for c in range(k):
                    A[i, c] += X[lo + i, a] * U[a, c]
        if local_intercept:
            centre_in_place(A, r, m)
        energy = 0.0
        for i in range(m):
            for c in range(k):
                energy += A[i, c] * A[i, c]
        for c in range(k):
            v[c] = 0.0
            for i in range(m):
                v[c] += A[i, c] * r[i]
            for b in range(k):
                gram[c, b] = 0.0
                for i in range(m):
                    gram[c, b] += A[i, c] * A[i, b]
            gram[c, c] += TINY_RIDGE * energy
        if not solve_in_place(gram, v):
            counts[0] += weights[j]
            continue
        for a in range(d):
            g[a] = 0.0
        for i in range(m):
            for c in range(k):
                r[i] -= A[i, c] * v[c]
            for a in range(d):
                g[a] += r[i] * X[lo + i, a]
        squared = 0.0
        for a in range(d):
            g[a] /= dof
            squared += g[a] * g[a]
        b = bin_of(squared)
        counts[b] += weights[j]
        if b > 0:
            at = min(max(b - lowest, 0), window - 1)
            for a in range(d):
                raw[at, a] += weights[j] * g[a]
                unit[at, a] += weights[j] / math.sqrt(squared) * g[a]


@dataclass(frozen=True, eq=False)
class ResidualGradients(Statistic[BinnedSums]):
    """Person j sends X_jᵀ r_j / dof_j, r_j the residual of the shared mean and her best head."""

    gives = BinnedSums
    model: SharedModel
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model = self.model
        U, max_rows = np.ascontiguousarray(model.embedding), int(np.diff(block.offsets).max())
        how = U, model.slopes, float(model.intercept), int(model.own_intercept), self.lowest

        def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            counts, raw, unit = np.zeros((1, N_BINS)), np.zeros((1, WINDOW, len(U))), np.zeros((1, WINDOW, len(U)))
            room = np.empty((max_rows, U.shape[1])), np.empty(max_rows)
            _residual_gradients(*some.for_kernels, *how, counts[0], raw[0], unit[0], *room)
            return counts, raw[:, :, None], unit[:, :, None]

        return BinnedSums.of_chunks(over_chunks(block, of_chunk), self.lowest, block.n_users)
