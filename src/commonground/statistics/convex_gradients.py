"""Each person's gradient of a convex loss: what P1's line 6 asks for when the loss is not the square."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.clipping.grid import LARGEST, N_BINS, SMALLEST, bin_of
from commonground.clipping.sums import BinnedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.losses import NUMBERS
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.convex_head import convex_head, pull
from commonground.statistics.statistic import WINDOW, Flag, LossName, SharedModel, Statistic, WindowStart


@kernel(error_model="numpy")
def _add_gradients(X, y, offsets, weights, U, w, intercepts, loss, of_mean, lowest, max_rows, counts, raw, unit):  # type: ignore[no-untyped-def]
    """Add people's gradients to ``raw`` and ``unit``, bin by bin, and their sizes to ``counts``."""
    d, k = X.shape[1], U.shape[1]
    shared_intercept, local_intercept = intercepts
    v, g, factors = np.empty(k), np.empty(d), np.ones(raw.shape[1])
    A, labels, offset, score = np.empty((max_rows, k)), np.empty(max_rows), np.empty(max_rows), np.empty(max_rows)
    for j in range(offsets.shape[0] - 1):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        dof = m - k - local_intercept
        if dof <= 0 or weights[j] == 0.0:
            counts[0] += weights[j]
            continue
        for i in range(m):
            labels[i], offset[i] = y[lo + i], shared_intercept
            for a in range(k):
                A[i, a] = 0.0
            for c in range(d):
                x = np.float64(X[lo + i, c])
                offset[i] += x * w[c]
                for a in range(k):
                    A[i, a] += x * U[c, a]
        _, corner, finite = convex_head(A, labels, offset, m, local_intercept, loss, v, score)
        vv, gg, ff = 0.0, 0.0, 0.0
        for a in range(k):
            vv += v[a] * v[a]
        for c in range(d):
            g[c] = 0.0
        for i in range(m):
            r = pull(loss, labels[i], score[i], corner)
            for c in range(d):
                g[c] += r * X[lo + i, c]
        for c in range(d):
            gg += g[c] * g[c]
        scale = 1.0 / dof if of_mean else 1.0 / (dof * vv)
        for a in range(raw.shape[1]):
            if not of_mean:
                factors[a] = v[a]
            ff += factors[a] * factors[a]
        squared = gg * scale * scale * ff
        if not (finite and SMALLEST < vv < LARGEST and SMALLEST < gg < LARGEST):
            squared = math.nan
        b = bin_of(squared)
        counts[b] += weights[j]
        if b > 0:
            at = min(max(b - lowest, 0), raw.shape[0] - 1)
            for a in range(raw.shape[1]):
                factor = weights[j] * scale * factors[a]
                for c in range(d):
                    raw[at, a, c] += factor * g[c]
                    unit[at, a, c] += factor / math.sqrt(squared) * g[c]


@dataclass(frozen=True, eq=False)
class ConvexGradients(Statistic[BinnedSums]):
    """Person j sends (X_jᵀ ψ_j) v_jᵀ / (dof_j ‖v_j‖²), ψ_j the pull −ℓʹ of each of her rows at her best head v_j.

    ``of_mean``: X_jᵀ ψ_j / dof_j instead, the gradient for w₀. Labels are ±1 for the logistic loss.
    """

    gives = BinnedSums
    model: SharedModel
    loss: LossName
    of_mean: Flag
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model = self.model
        U, intercepts = np.ascontiguousarray(model.embedding), (model.intercept, int(model.own_intercept))
        how = U, model.slopes, intercepts, NUMBERS[self.loss], self.of_mean, self.lowest
        max_rows, shape = int(np.diff(block.offsets).max()), (1, WINDOW, 1 if self.of_mean else U.shape[1], len(U))

        def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            counts, raw, unit = np.zeros((1, N_BINS)), np.zeros(shape), np.zeros(shape)
            _add_gradients(*some.for_kernels, *how, max_rows, counts[0], raw[0], unit[0])
            return counts, raw, unit

        return BinnedSums.of_chunks(over_chunks(block, of_chunk), self.lowest, block.n_users)


@dataclass(frozen=True, eq=False)
class SignedLabels(Statistic[Any]):
    """Another statistic of the same people, after labels are written ±1."""

    statistic: Statistic

    @property
    def inner(self) -> Statistic[Any]:
        return self.statistic

    def of(self, block: Block) -> Any:
        return self.statistic.of(block.signed)
