"""What one person sends in P2's Algorithms 1 and 2, as printed: fixed batches of rows, plain gradients."""

import math

import numpy as np
from numba import njit, prange

from commonground.clipping import ClippedSums, clip_factors
from commonground.users import Block


@njit(parallel=True, cache=True, nogil=True)
def _pair_factors(X, y, offsets):  # type: ignore[no-untyped-def]
    """s_j = Σ y x over the first half of a person's rows, and the Frobenius norm of Z_j from the rows' Gram matrix."""
    n, d = offsets.shape[0] - 1, X.shape[1]
    sums, norms, scales = np.zeros((n, d)), np.zeros(n), np.zeros(n)
    for j in prange(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        half = m // 2
        if half < 2:
            continue
        a = np.empty((half, d))
        for i in range(half):
            for c in range(d):
                a[i, c] = np.float64(y[lo + i]) * X[lo + i, c]
                sums[j, c] += a[i, c]
        products = a @ a.T
        # ‖s sᵀ − Σ a aᵀ‖² = ‖s‖⁴ − 2 Σ (aᵢ·s)² + Σ (aᵢ·aₗ)², all from the Gram matrix
        total = products.sum()
        squared = total * total
        for i in range(half):
            squared -= 2.0 * products[i].sum() ** 2
        squared += (products * products).sum()
        scales[j] = 2.0 / (m * (m - 1.0))  # as printed, although only half of the rows are summed
        norms[j] = scales[j] * math.sqrt(max(squared, 0.0))
    return sums, norms, scales


def pair_sums(block: Block, clip_norm: float) -> ClippedSums:
    """Σ_j clip(Z_j, ψ_init), Z_j = 2/(m(m−1)) Σ_{i≠l} y_i y_l x_i x_lᵀ over her first half (Alg. 2, line 4)."""
    sums, norms, scales = _pair_factors(block.X, block.y, block.offsets)
    weights = clip_factors(norms, clip_norm) * scales
    sums[~np.isfinite(norms)] = 0.0
    sizes = np.diff(block.offsets)
    row = np.arange(block.n_rows) - np.repeat(block.offsets[:-1], sizes)
    person = np.repeat(np.arange(block.n_users), sizes)
    used = (row < sizes[person] // 2) & (weights[person] > 0)
    a = block.X[used].astype(np.float64) * block.y[used, None]
    value = (sums * weights[:, None]).T @ sums - (a * weights[person[used], None]).T @ a
    return ClippedSums(value, clip_norm, block.n_users)


@njit(parallel=True, cache=True, nogil=True)
def _batch_gradients(X, y, offsets, U, batch, shift):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    pulled, heads = np.zeros((n, d)), np.zeros((n, k))
    for j in prange(n):
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


def batch_gradient_sums(block: Block, embedding: np.ndarray, batch: int, shift: int, clip_norm: float) -> ClippedSums:
    """Σ_j clip(∇_j, ψ): head from one batch of b rows, gradient on the next, disjoint one (Alg. 1, lines 5 to 8).

    Batches are taken from the first half of a person's rows, at a place that moves on from round to round.
    """
    pulled, heads = _batch_gradients(block.X, block.y, block.offsets, embedding, batch, shift)
    norms = np.linalg.norm(pulled, axis=1) * np.linalg.norm(heads, axis=1)
    factors = clip_factors(norms, clip_norm)
    pulled[factors == 0] = 0.0
    heads[factors == 0] = 0.0
    return ClippedSums((pulled * factors[:, None]).T @ heads, clip_norm, block.n_users)


@njit(parallel=True, cache=True, nogil=True)
def second_half_heads(X, y, offsets, U):  # type: ignore[no-untyped-def]
    """Plain least squares on each person's second half of rows (Alg. 1, line 14)."""
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    heads = np.zeros((n, k))
    for j in prange(n):
        hi = offsets[j + 1]
        lo = offsets[j] + (hi - offsets[j]) // 2
        A, labels = np.zeros((hi - lo, k)), np.empty(hi - lo)
        for i in range(hi - lo):
            labels[i] = y[lo + i]
            for c in range(d):
                for q in range(k):
                    A[i, q] += X[lo + i, c] * U[c, q]
        heads[j] = np.linalg.lstsq(A, labels)[0]
    return heads
