"""Each person's gradient of a convex loss: what P1's line 6 asks for when the loss is not the square."""

import math

import numpy as np
from numba import njit, prange

from commonground.clipping import CHUNK, N_BINS, BinnedSums, bin_of
from commonground.contributions.gradients import WINDOW
from commonground.contributions.kernels import LARGEST, SMALLEST
from commonground.heads.convex import LOSSES, convex_head, pull
from commonground.users import Block


@njit(parallel=True, cache=True, nogil=True)
def _gradients(X, y, offsets, weights, U, w, shared_intercept, local_intercept, loss, of_mean, lowest, window):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    n_chunks = (n + CHUNK - 1) // CHUNK
    columns = 1 if of_mean else k
    counts = np.zeros((n_chunks, N_BINS))
    raw, unit = np.zeros((n_chunks, window, columns, d)), np.zeros((n_chunks, window, columns, d))
    for chunk in prange(n_chunks):
        v, g, factors = np.empty(k), np.empty(d), np.ones(columns)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = m - k - local_intercept
            if dof <= 0:
                counts[chunk, 0] += weights[j]
                continue
            A, labels, offset, score = np.zeros((m, k)), np.empty(m), np.empty(m), np.empty(m)
            for i in range(m):
                labels[i], offset[i] = y[lo + i], shared_intercept
                for c in range(d):
                    x = np.float64(X[lo + i, c])
                    offset[i] += x * w[c]
                    for a in range(k):
                        A[i, a] += x * U[c, a]
            _, corner, finite = convex_head(A, labels, offset, m, local_intercept, loss, v, score)
            vv = (v * v).sum()
            g[:] = 0.0
            for i in range(m):
                r = pull(loss, labels[i], score[i], corner)
                for c in range(d):
                    g[c] += r * X[lo + i, c]
            gg = (g * g).sum()
            scale = 1.0 / dof if of_mean else 1.0 / (dof * vv)
            if not of_mean:
                factors[:] = v
            squared = gg * scale * scale * (factors * factors).sum()
            if not (finite and SMALLEST < vv < LARGEST and SMALLEST < gg < LARGEST):
                squared = math.nan
            b = bin_of(squared)
            counts[chunk, b] += weights[j]
            if b > 0:
                at = min(max(b - lowest, 0), window - 1)
                for a in range(columns):
                    raw[chunk, at, a] += weights[j] * scale * factors[a] * g
                    unit[chunk, at, a] += weights[j] * scale * factors[a] / math.sqrt(squared) * g
    return counts, raw, unit


def convex_gradient_sums(
    block: Block,
    embedding: np.ndarray,
    mean: np.ndarray | None,
    intercept: float,
    local_intercept: bool,
    loss: str,
    of_mean: bool,
    lowest: int,
) -> BinnedSums:
    """Person j sends (X_jᵀ ψ_j) v_jᵀ / (dof_j ‖v_j‖²), ψ_j the pull −ℓʹ of each of her rows at her best head v_j.

    ``of_mean``: X_jᵀ ψ_j / dof_j instead, the gradient for w₀. Labels are ±1 for the logistic loss.
    """
    w = np.zeros(len(embedding)) if mean is None else mean
    counts, raw, unit = _gradients(
        block.X, block.y, block.offsets, block.person_weights, np.ascontiguousarray(embedding), w, intercept,
        int(local_intercept), LOSSES.index(loss), of_mean, lowest, WINDOW,
    )  # fmt: skip
    return BinnedSums(counts.sum(axis=0), raw.sum(axis=0), unit.sum(axis=0), lowest, block.n_users)
