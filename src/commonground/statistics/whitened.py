"""Each person's best guess at what the embedding misses, given her rows.

She fits θ_j = argmin ‖y_j − X_j θ‖² + λ‖θ − U Uᵀθ‖²: ridge that leaves the span of U free and pays for what is outside. Her
head is v_j = Uᵀθ_j, and e_j = θ_j − U v_j, with few rows, is the projection of the missing part onto what her rows can see beside
the head: for m rows in d dimensions its cos² with the truth is (m − k)/(d − k). A gradient X_jᵀr_j points partly along the
rows' own scatter, and reaches (m − k)/(m + d). It costs a small solve per person, so it is used where people are few and every
bit of signal counts.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import N_BINS, bin_of
from commonground.clipping.sums import BinnedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.linear import solve_in_place
from commonground.statistics.statistic import WINDOW, SharedModel, Statistic, WindowStart

_RIDGE = 0.1  # of the mean eigenvalue
_FREE = 1e6  # how much more the span of U may vary than what is outside of it


@kernel(error_model="numpy")
def _whitened_gradients(X, y, offsets, weights, U, local_intercept, lowest, window):  # type: ignore[no-untyped-def]
    d, k = X.shape[1], U.shape[1]
    counts, raw, unit = np.zeros((1, N_BINS)), np.zeros((1, window, k, d)), np.zeros((1, window, k, d))
    v, G = np.empty(k), np.empty((k, d))
    for j in range(offsets.shape[0] - 1):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        seen = min(m - local_intercept, d) - k
        if seen <= 0 or weights[j] == 0.0:
            counts[0, 0] += weights[j]
            continue
        rows, r = X[lo:hi].astype(np.float64), y[lo:hi].astype(np.float64)
        if local_intercept:
            r -= r.mean()
            for a in range(d):
                rows[:, a] -= rows[:, a].mean()
        A = rows @ U
        size = min(m, d)
        ridge = _RIDGE * (rows * rows).sum() / size
        if m <= d:  # the prior covariance I + FREE·U Uᵀ, seen by the rows
            inner = rows @ rows.T + _FREE * (A @ A.T)
            for i in range(m):
                inner[i, i] += ridge
            solved = solve_in_place(inner, r)
            e = rows.T @ r
        else:
            inner = rows.T @ rows - ridge * _FREE / (1.0 + _FREE) * (U @ U.T)
            for a in range(d):
                inner[a, a] += ridge
            e = rows.T @ r
            solved = solve_in_place(inner, e)
        for c in range(k):
            v[c] = (U[:, c] * e).sum()
            for a in range(d):
                e[a] -= U[a, c] * v[c]
        if m <= d:
            v *= 1.0 + _FREE
        scale = d * (1.0 + _RIDGE) / (seen * (v * v).sum())
        for c in range(k):
            for a in range(d):
                G[c, a] = scale * v[c] * e[a]
        squared = (G * G).sum()  # of the very matrix that is added
        b = bin_of(squared if solved else math.nan)
        counts[0, b] += weights[j]
        if b > 0:
            at = min(max(b - lowest, 0), window - 1)
            raw[0, at] += weights[j] * G
            unit[0, at] += weights[j] / math.sqrt(squared) * G
    return counts, raw, unit


@dataclass(frozen=True, eq=False)
class WhitenedGradients(Statistic[BinnedSums]):
    """Person j sends e_j v_jᵀ / ‖v_j‖², scaled up by the share of all directions that her rows can see."""

    gives = BinnedSums
    model: SharedModel
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model = self.model
        how = model.embedding, model.own_intercept, self.lowest, WINDOW
        parts = over_chunks(block, lambda some: _whitened_gradients(*some.for_kernels, *how))
        return BinnedSums.of_chunks(parts, self.lowest, block.n_users)
