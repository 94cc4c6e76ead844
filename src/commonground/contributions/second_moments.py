"""The dk × dk statistic of alternating minimisation, built from per-person moments.

With heads v_j fixed, the embedding that fits everybody best solves a linear system whose matrix is

    Σ_j Σ_i vec(x_ij v_jᵀ) vec(x_ij v_jᵀ)ᵀ  =  Σ_j (v_j v_jᵀ) ⊗ X_jᵀX_j.

So a person's d × d moment is computed once, in the cache, and added to k(k+1)/2 blocks: never a dk × dk product for each row
(as P1's Algorithm 2 is written), nor one for each person. Only blocks a ≤ b and entries c ≤ e are added up; the rest follows
by symmetry.
"""

import math

import numpy as np
from numba import njit, prange

from commonground.clipping import CHUNK, N_BINS, PositiveSums, SizeCounts, bin_of
from commonground.contributions.directions import solve_in_place
from commonground.contributions.kernels import FAST, LARGEST, SMALLEST, TINY_RIDGE
from commonground.contributions.lanes import LANES, item, load, multiply_add, pointer, splat, store
from commonground.users import Block


@njit(cache=True, fastmath=FAST, error_model="numpy")
def head_in_place(R, r, m, U, A, gram, v):  # type: ignore[no-untyped-def]
    """v = argmin ‖r − R U v‖² over the first m rows, with a tiny ridge; False where there is none. A = R U."""
    d, k = U.shape
    for i in range(m):
        row = R[i]
        for a in range(k):
            total = 0.0
            for c in range(d):
                total += row[c] * U[c, a]
            A[i, a] = total
    trace = 0.0
    for a in range(k):
        v[a] = 0.0
        for i in range(m):
            v[a] += A[i, a] * r[i]
        for b in range(k):
            gram[a, b] = 0.0
            for i in range(m):
                gram[a, b] += A[i, a] * A[i, b]
        trace += gram[a, a]
    for a in range(k):
        gram[a, a] += TINY_RIDGE * trace
    return solve_in_place(gram, v)


@njit(cache=True, fastmath=FAST, error_model="numpy")
def upper_moment(R, m, G):  # type: ignore[no-untyped-def]
    """G = RᵀR over the first m rows, upper triangle (in whole LANES), four rows at a time; R is followed by rows of zeros.

    The width of R and G is a multiple of LANES, the columns behind the features are zero.
    """
    d, width = G.shape
    for i in range(m, (m + 3) // 4 * 4):
        R[i] = 0.0
    G[:] = 0.0
    rows, to = pointer(R), pointer(G)
    for i in range(0, m * width, 4 * width):
        i1, i2, i3 = i + width, i + 2 * width, i + 3 * width
        for c in range(d):
            s0, s1 = splat(item(rows, i + c)), splat(item(rows, i1 + c))
            s2, s3 = splat(item(rows, i2 + c)), splat(item(rows, i3 + c))
            for e in range(c // LANES * LANES, width, LANES):
                total = multiply_add(
                    s0, load(rows, i + e), multiply_add(s1, load(rows, i1 + e), load(to, c * width + e))
                )
                total = multiply_add(s2, load(rows, i2 + e), multiply_add(s3, load(rows, i3 + e), total))
                store(to, c * width + e, total)


@njit(cache=True, fastmath=FAST, error_model="numpy")
def upper_norm_squared(G):  # type: ignore[no-untyped-def]
    """The squared Frobenius norm of the symmetric matrix whose upper triangle is G."""
    total = 0.0
    for c in range(G.shape[0]):
        row, off = G[c], 0.0
        for e in range(c + 1, G.shape[1]):
            off += row[e] * row[e]
        total += row[c] * row[c] + 2.0 * off
    return total


@njit(cache=True, fastmath=FAST, error_model="numpy")
def add_to_blocks(blocks, v, G, weight):  # type: ignore[no-untyped-def]
    """blocks[a, b] += weight · v_a v_b · G for a ≤ b, upper triangles (in whole LANES)."""
    d, width = G.shape
    to, rows, at = pointer(blocks), pointer(G), 0
    for a in range(v.shape[0]):
        for b in range(a, v.shape[0]):
            s = splat(weight * v[a] * v[b])
            for c in range(d):
                for e in range(c * width + c // LANES * LANES, (c + 1) * width, LANES):
                    store(to, at + e, multiply_add(s, load(rows, e), load(to, at + e)))
            at += d * width


def whole_matrix(blocks: np.ndarray, k: int) -> np.ndarray:
    """(dk, dk) from the upper triangles of the blocks a ≤ b; index a·d + c is that of vec(U), columns one after another."""
    d = blocks.shape[1]
    matrix = np.zeros((k, d, k, d))
    for block, a, b in zip(blocks, *np.triu_indices(k), strict=True):
        upper = np.triu(block[:, :d])
        matrix[a, :, b, :] = matrix[b, :, a, :] = upper + np.triu(upper, 1).T
    return matrix.reshape(k * d, k * d)


@njit(parallel=True, cache=True, nogil=True, fastmath=FAST, error_model="numpy")
def _moments(X, y, offsets, weights, U, w, shared_intercept, local_intercept, clip_norm, max_rows):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    n_chunks = (n + CHUNK - 1) // CHUNK
    width = (d + LANES - 1) // LANES * LANES
    counts = np.zeros((n_chunks, N_BINS))
    sums = np.zeros((n_chunks if clip_norm > 0.0 else 0, k * (k + 1) // 2, d, width))
    for chunk in prange(n_chunks):
        R, r, A = np.zeros((max_rows + 4, width)), np.empty(max_rows), np.empty((max_rows, k))
        gram, v, G = np.empty((k, k)), np.empty(k), np.empty((d, width))
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            if m - k - local_intercept <= 0:  # her head fits any embedding: she says nothing about it
                counts[chunk, 0] += weights[j]
                continue
            for i in range(m):
                row, shared = R[i], shared_intercept
                for c in range(d):
                    row[c] = X[lo + i, c]
                    shared += row[c] * w[c]
                r[i] = y[lo + i] - shared
            if local_intercept:
                r[:m] -= r[:m].sum() / m
                for c in range(d):
                    centre = 0.0
                    for i in range(m):
                        centre += R[i, c]
                    for i in range(m):
                        R[i, c] -= centre / m
            solved = head_in_place(R, r, m, U, A, gram, v)
            vv = (v * v).sum()
            upper_moment(R, m, G)
            scale = 1.0 / (m - local_intercept)
            squared = upper_norm_squared(G) * scale * scale  # v vᵀ/‖v‖² has norm one
            if not (solved and SMALLEST < vv < LARGEST and SMALLEST < squared < LARGEST):
                counts[chunk, 0] += weights[j]
                continue
            counts[chunk, bin_of(squared)] += weights[j]
            if clip_norm > 0.0:
                clip = min(1.0, clip_norm / math.sqrt(squared))
                add_to_blocks(sums[chunk], v, G, weights[j] * clip * scale / vv)
    return counts, sums


def _run(
    block: Block, U: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool, clip_norm: float
) -> tuple[np.ndarray, np.ndarray]:
    return _moments(
        block.X, block.y, block.offsets, block.person_weights, np.ascontiguousarray(U),
        np.zeros(len(U)) if mean is None else mean, intercept, local_intercept, clip_norm,
        int(np.diff(block.offsets).max()),
    )  # fmt: skip


def moment_sizes(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool
) -> SizeCounts:
    """How many people send a moment of which Frobenius norm; those who have no say in the embedding are in bin 0."""
    return SizeCounts(_run(block, embedding, mean, intercept, local_intercept, 0.0)[0].sum(axis=0))


def moment_sums(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool,
    clip_norm: float,
) -> PositiveSums:  # fmt: skip
    """Person j sends (v_j v_jᵀ/‖v_j‖²) ⊗ X_jᵀX_j/m_j, clipped as a whole to Frobenius norm ``clip_norm``.

    v_j is her best head under ``embedding``. Divided by ‖v_j‖², like gradients: people with large heads are not worth more.
    With an intercept of her own, X_j is taken about its mean.
    """
    sums = _run(block, embedding, mean, intercept, local_intercept, clip_norm)[1].sum(axis=0)
    return PositiveSums(whole_matrix(sums, embedding.shape[1]), clip_norm, block.n_users)
