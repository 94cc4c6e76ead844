"""Compiled per-person work: one pass over a person's rows while they are in the cache.

Rows may be float32 or float64 and are used as they are; what is clipped, compared with a bound or added up over
people is float64. People are handled in fixed chunks, each with its own accumulators, so the result does not depend
on the number of threads. ``FAST`` leaves out "nnan" and "ninf": a NaN must stay visible to the checks below.
"""

import math

import numpy as np
from numba import njit, prange

from commonground.clipping import CHUNK, N_BINS, bin_of

FAST = {"reassoc", "contract", "arcp", "nsz"}
TINY_RIDGE = 1e-6  # of the Gram matrix's trace: keeps the head of a person with collinear rows finite


@njit(fastmath=FAST)
def _project(X, lo, m, W, P):
    """P[c, i] = <x_i, W[c]> for the rows of one person; W is (columns padded to 2 or a multiple of 4, d)."""
    d = X.shape[1]
    zero = X.dtype.type(0)
    if W.shape[0] == 2:
        w0, w1 = W[0], W[1]
        for i in range(m):
            x = X[lo + i]
            s0 = s1 = zero
            for a in range(d):
                s0 += x[a] * w0[a]
                s1 += x[a] * w1[a]
            P[0, i], P[1, i] = s0, s1
        return
    for i in range(m):
        x = X[lo + i]
        for c in range(0, W.shape[0], 4):
            w0, w1, w2, w3 = W[c], W[c + 1], W[c + 2], W[c + 3]
            s0 = s1 = s2 = s3 = zero
            for a in range(d):
                s0 += x[a] * w0[a]
                s1 += x[a] * w1[a]
                s2 += x[a] * w2[a]
                s3 += x[a] * w3[a]
            P[c, i], P[c + 1, i], P[c + 2, i], P[c + 3, i] = s0, s1, s2, s3


@njit(fastmath=FAST)
def _centre(values, m):
    """Take one person's mean out of her values: the local intercept, partialled out."""
    total = 0.0
    for i in range(m):
        total += values[i]
    mean = values.dtype.type(total / m)
    for i in range(m):
        values[i] -= mean


@njit(fastmath=FAST)
def _least_squares(P, r, m, k, gram, inverse_diagonal, v):
    """v = argmin ‖r − Pᵀv‖² with a tiny ridge, by Cholesky in float64. False when the rows say nothing."""
    for c in range(k):
        pc = P[c]
        for b in range(c + 1):
            pb = P[b]
            s = 0.0
            for i in range(m):
                s += pc[i] * pb[i]
            gram[c, b] = s
        s = 0.0
        for i in range(m):
            s += pc[i] * r[i]
        v[c] = s
    ridge = 0.0
    for c in range(k):
        ridge += TINY_RIDGE * gram[c, c]
    for c in range(k):
        pivot = gram[c, c] + ridge
        rhs = v[c]
        for b in range(c):
            pivot -= gram[c, b] * gram[c, b]
            rhs -= gram[c, b] * v[b]
        if not pivot > 0.0:
            return False
        inverse = 1.0 / math.sqrt(pivot)
        inverse_diagonal[c] = inverse
        v[c] = rhs * inverse
        for q in range(c + 1, k):
            s = gram[q, c]
            for b in range(c):
                s -= gram[q, b] * gram[c, b]
            gram[q, c] = s * inverse
    for c in range(k - 1, -1, -1):
        s = v[c]
        for b in range(c + 1, k):
            s -= gram[b, c] * v[b]
        v[c] = s * inverse_diagonal[c]
    return True


@njit(fastmath=FAST)
def _pull_back(X, lo, m, r, g):
    """g = Xᵀ r over one person's rows."""
    d = X.shape[1]
    for a in range(d):
        g[a] = 0
    for i in range(0, m - 1, 2):
        x0, x1, r0, r1 = X[lo + i], X[lo + i + 1], r[i], r[i + 1]
        for a in range(d):
            g[a] += r0 * x0[a] + r1 * x1[a]
    if m % 2:
        x0, r0 = X[lo + m - 1], r[m - 1]
        for a in range(d):
            g[a] += r0 * x0[a]


@njit(fastmath=FAST)
def _squared_norm(g):
    s = 0.0
    for a in range(g.shape[0]):
        s += g[a] * np.float64(g[a])
    return s


@njit(fastmath=FAST)
def _add_outer(raw, unit, g, v, scale, inverse_norm):
    """raw += scale·v gᵀ and unit += scale·v gᵀ / norm, in float64."""
    for c in range(v.shape[0]):
        f = v[c] * scale
        h = f * inverse_norm
        for a in range(g.shape[0]):
            ga = np.float64(g[a])
            raw[c, a] += f * ga
            unit[c, a] += h * ga


@njit(parallel=True, fastmath=FAST, cache=True, nogil=True)
def embedding_gradients(X, y, offsets, W, k, has_mean, shared_intercept, local_intercept, lowest, window, max_rows):
    """Sums over people of (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²), kept apart by the size of each person's contribution.

    W holds the columns of the embedding U, then the shared mean w₀ when ``has_mean``. Returns, chunk by chunk, how many
    people fall in each of N_BINS bins, and for the ``window`` bins from ``lowest`` on the sums of their contributions
    as they are (raw) and scaled to norm one (unit). Non-finite or empty contributions count in bin 0 and add nothing.
    """
    n, d = offsets.shape[0] - 1, X.shape[1]
    n_chunks = (n + CHUNK - 1) // CHUNK
    counts = np.zeros((n_chunks, N_BINS), np.int64)
    raw = np.zeros((n_chunks, window, k, d))
    unit = np.zeros((n_chunks, window, k, d))
    for chunk in prange(n_chunks):
        P = np.empty((W.shape[0], max_rows), X.dtype)
        r = np.empty(max_rows, X.dtype)
        g = np.empty(d, X.dtype)
        gram, inverse_diagonal, v = np.empty((k, k)), np.empty(k), np.empty(k)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = m - k - local_intercept
            if dof <= 0:  # the head fits these rows exactly: nothing is left to learn the embedding from
                counts[chunk, 0] += 1
                continue
            _project(X, lo, m, W, P)
            for i in range(m):
                r[i] = y[lo + i] - shared_intercept
            if has_mean:
                for i in range(m):
                    r[i] -= P[k, i]
            if local_intercept:
                _centre(r, m)
                for c in range(k):
                    _centre(P[c], m)
            if not _least_squares(P, r, m, k, gram, inverse_diagonal, v):
                counts[chunk, 0] += 1
                continue
            vv = 0.0
            for c in range(k):
                vv += v[c] * v[c]
                vc = X.dtype.type(v[c])
                for i in range(m):
                    r[i] -= vc * P[c, i]
            _pull_back(X, lo, m, r, g)
            scale = 1.0 / (dof * vv)
            squared = _squared_norm(g) * vv * scale * scale
            b = bin_of(squared)
            counts[chunk, b] += 1
            if b > 0:
                w = min(max(b - lowest, 0), window - 1)
                _add_outer(raw[chunk, w], unit[chunk, w], g, v, scale, 1.0 / math.sqrt(squared))
    return counts, raw, unit


@njit(parallel=True, fastmath=FAST, cache=True, nogil=True)
def mean_gradients(X, y, offsets, w, intercept, centred, with_intercept, lowest, window, max_rows):
    """The same sums for the linear model x → <w, x> + intercept: each person sends (X_jᵀ r_j, Σ r_j) / m_j.

    ``centred`` takes each person's own mean out of X and r for the slopes (she has a local intercept), not out of the
    last coordinate, which is her mean residual and is there when ``with_intercept``.
    """
    n, d = offsets.shape[0] - 1, X.shape[1]
    n_chunks = (n + CHUNK - 1) // CHUNK
    counts = np.zeros((n_chunks, N_BINS), np.int64)
    raw = np.zeros((n_chunks, window, 1, d + with_intercept))
    unit = np.zeros((n_chunks, window, 1, d + with_intercept))
    W = np.zeros((2, d), X.dtype)
    W[0] = w
    for chunk in prange(n_chunks):
        P = np.empty((2, max_rows), X.dtype)
        r = np.empty(max_rows, X.dtype)
        g = np.empty(d + with_intercept, X.dtype)
        one = np.ones(1)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = m - centred
            _project(X, lo, m, W, P)
            total = 0.0
            for i in range(m):
                r[i] = y[lo + i] - P[0, i] - intercept
                total += r[i]
            if centred:
                _centre(r, m)
            _pull_back(X, lo, m, r, g[:d])
            for a in range(d):
                g[a] /= max(dof, 1)
            if with_intercept:
                g[d] = total / m
            squared = _squared_norm(g)
            b = bin_of(squared)
            counts[chunk, b] += 1
            if b > 0:
                at = min(max(b - lowest, 0), window - 1)
                _add_outer(raw[chunk, at], unit[chunk, at], g, one, 1.0, 1.0 / math.sqrt(squared))
    return counts, raw, unit
