"""What one person sends in P2's Algorithms 1 and 2, as printed: fixed batches of rows, plain gradients."""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import CHUNK, bin_of, clip_factors, squared_norms_of_products
from commonground.clipping.sums import ClippedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.statistic import Statistic


@kernel(error_model="numpy")
def _clipped_pairs(X, y, offsets, clip_norm):  # type: ignore[no-untyped-def]
    d = X.shape[1]
    sums = np.zeros((1, d, d))
    Z, s, a = np.empty((d, d)), np.empty(d), np.empty(d)
    for j in range(offsets.shape[0] - 1):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m // 2 < 2:
            continue
        Z[:], s[:] = 0.0, 0.0
        for i in range(m // 2):  # Σ_{i≠l} aᵢ aₗᵀ, row by row: what came before with what comes now
            for c in range(d):
                a[c] = np.float64(y[lo + i]) * X[lo + i, c]
            for c in range(d):
                for b in range(d):
                    Z[c, b] += s[c] * a[b] + a[c] * s[b]
            for c in range(d):
                s[c] += a[c]
        # The norm is that of the very matrix that is added: a norm from a formula could miss its rounding.
        scale = 2.0 / (m * (m - 1.0))  # as printed, although only half of the rows are summed
        Z *= scale
        squared = (Z * Z).sum()
        if bin_of(squared) > 0:
            sums[0] += Z * min(1.0, clip_norm / math.sqrt(squared))
    return sums


@dataclass(frozen=True, eq=False)
class Pairs(Statistic[ClippedSums]):
    """Σ_j clip(Z_j, ψ_init), Z_j = 2/(m(m−1)) Σ_{i≠l} y_i y_l x_i x_lᵀ over her first half (Alg. 2, line 4)."""

    gives = ClippedSums
    clip_norm: float

    def of(self, block: Block) -> ClippedSums:
        sums = over_chunks(block, lambda some: _clipped_pairs(some.X, some.y, some.offsets, self.clip_norm))
        return ClippedSums(sums.sum(axis=0), self.clip_norm, block.n_users)


@kernel(error_model="numpy")
def _batch_gradients(X, y, offsets, U, batch, shift):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    pulled, heads = np.zeros((n, d)), np.zeros((n, k))
    for j in range(n):
        lo, half = offsets[j], (offsets[j + 1] - offsets[j]) // 2
        b = min(batch, half // 2)
        if b < 1:
            continue
        A, labels = np.zeros((b, k)), np.empty(b)
        finite = True
        for i in range(b):
            at = lo + (shift + i) % half
            labels[i] = y[at]
            for c in range(d):
                for q in range(k):
                    A[i, q] += X[at, c] * U[c, q]
            for q in range(k):
                finite = finite and math.isfinite(A[i, q])
        if not (finite and np.isfinite(labels).all()):
            continue
        v = np.linalg.lstsq(A, labels)[0]  # least squares; the shortest solution where b < k
        for i in range(b):
            at = lo + (shift + b + i) % half
            residual = np.float64(y[at])
            for c in range(d):
                for q in range(k):
                    residual -= X[at, c] * U[c, q] * v[q]
            for c in range(d):
                pulled[j, c] -= residual * X[at, c] / b
        heads[j] = v
    return pulled, heads


@dataclass(frozen=True, eq=False)
class BatchGradients(Statistic[ClippedSums]):
    """Σ_j clip(∇_j, ψ): head from one batch of b rows, gradient on the next, disjoint one (Alg. 1, lines 5 to 8).

    Batches are taken from the first half of a person's rows, at a place that moves on from round to round.
    """

    gives = ClippedSums
    embedding: np.ndarray
    batch: int
    shift: int
    clip_norm: float

    def of(self, block: Block) -> ClippedSums:
        pulled, heads = over_chunks(
            block, lambda some: _batch_gradients(some.X, some.y, some.offsets, self.embedding, self.batch, self.shift)
        )
        factors = clip_factors(squared_norms_of_products(pulled, heads), self.clip_norm)
        pulled[factors == 0] = 0.0
        heads[factors == 0] = 0.0
        clipped = pulled * factors[:, None]
        chunks = (slice(start, start + CHUNK) for start in range(0, len(factors), CHUNK))
        return ClippedSums(sum(clipped[some].T @ heads[some] for some in chunks), self.clip_norm, block.n_users)
