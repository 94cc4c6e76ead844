"""What posteriors of people's own parts give for shared parameters: factors of each row, and moments of each person."""

import math

import numpy as np

from commonground.clipping.grid import CHUNK, N_BINS, bin_of
from commonground.compiled import kernel
from commonground.statistics.kernels.posterior import logistic_posterior_in_place, posterior_in_place

FEWEST_FREE = 0.25  # rows' worth of residual that her own part must leave her, for what she sends to say anything
NOISE_WEIGHT = 2.0  # of the two numbers about noise beside those about heads, so that the gate's noise hides them less
LANES = 4  # sums over sparse rows are kept in so many fixed parts, whatever the number of threads


@kernel(error_model="numpy")
def posterior_factors(products, y, offsets, own, intercept, L, noise, log_odds, of_mean, scaled, factors, moments):  # type: ignore[no-untyped-def]
    """For each row the factors f that its person's gradient Σ f xᵀ is made of; and everybody's moments.

    ``products``: X (U, w₀). ``factors``, zeros, are (rows, k), or (rows, 1) ``of_mean``, and stay zero for a person who has
    nothing to say. ``scaled``: by her degrees of freedom and the size of her head, so that no person says more than another.
    ``moments``, zeros, (people, 3·q(q+1)/2 + q + 2): ξξᵀ, H and H² by their halves, ξ, her noise against the common one, and a
    one, these two times ``NOISE_WEIGHT``. ``log_odds``: 1, or None, not False: what a None decides is settled before compiling,
    and the half that is not needed left out.
    """
    n, q = offsets.shape[0] - 1, L.shape[0]
    k, half, most = q - own, q * (q + 1) // 2, 0
    for j in range(n):
        most = max(most, offsets[j + 1] - offsets[j])
    Z, W, V, r, curvature = np.empty((most, q)), np.empty((most, q)), np.empty((most, q)), np.empty(most), np.ones(most)
    factor, inverse, xi, g, shared = np.empty((q, q)), np.empty((q, q)), np.empty(q), np.empty(q), np.empty(most)
    v, doubt, H = np.empty(k), np.empty((q, k)), np.empty((q, q))
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m == 0:
            continue
        for i in range(m):
            r[i] = y[lo + i] - (products[lo + i, k] + intercept)
            for b in range(q):
                Z[i, b] = 1.0 if b < own else products[lo + i, b - own]
                W[i, b] = 0.0
            for b in range(q):
                for c in range(b + 1):
                    W[i, c] += Z[i, b] * L[b, c]
        used, squares = 0.0, 0.0
        if log_odds is None:
            if math.isnan(posterior_in_place(W, r, m, q, noise, 0.0, factor, inverse, xi)):
                continue
            for i in range(m):
                for c in range(q):
                    r[i] -= W[i, c] * xi[c]
                squares += r[i] * r[i]
        else:
            for i in range(m):
                shared[i] = products[lo + i, k] + intercept
            labels = y[lo : lo + m]
            if not logistic_posterior_in_place(W, shared, labels, m, q, V, r, curvature, factor, inverse, g, xi):
                continue
        for c in range(q):
            used += 1.0 - noise * inverse[c, c]
        if as_good_as_positive(inverse, noise, H, factor):
            moments_in_place(xi, H, moments[j])
            residual = squares / (m * noise) + used / m if log_odds is None else 1.0
            moments[j, 3 * half + q] = NOISE_WEIGHT * max(residual, 0.0)
            moments[j, 3 * half + q + 1] = NOISE_WEIGHT
        free = m - used if scaled else 1.0
        if not free > FEWEST_FREE:
            continue
        if of_mean:
            for i in range(m):
                factors[lo + i, 0] = r[i] / free
            continue
        size = 0.0
        for a in range(k):
            v[a] = 0.0
            for c in range(own + a + 1):
                v[a] += L[own + a, c] * xi[c]
            for b in range(q):
                doubt[b, a] = 0.0
                for c in range(b + 1):
                    for e in range(own + a + 1):
                        doubt[b, a] += noise * L[b, c] * inverse[c, e] * L[own + a, e]
            size += v[a] * v[a] + doubt[own + a, a]
        if not (size > 0.0 and size < math.inf):
            continue
        scale = k / (free * size) if scaled else 1.0
        for i in range(m):
            for a in range(k):
                total = r[i] * v[a]
                for b in range(q):
                    total -= curvature[i] * Z[i, b] * doubt[b, a]
                factors[lo + i, a] = total * scale
        if own and scaled:  # less their mean: what all of her rows have in common is her intercept's
            for a in range(k):
                mean = 0.0
                for i in range(m):
                    mean += factors[lo + i, a] / m
                for i in range(m):
                    factors[lo + i, a] -= mean


@kernel(error_model="numpy", inline="always")
def as_good_as_positive(inverse, noise, H, L):  # type: ignore[no-untyped-def]
    """H = 1 − s² (s² + WᵀW)⁻¹, and whether it is as it should be but for rounding: H + 1/q positive, of trace at most q.

    Rows of huge numbers along nearly one line make it anything. Of two matrices that pass, tr(HG) ≥ −2 − 1/q ≥ −3, which the
    product 2·2 of the last moments outweighs along with the −1/4 of ξᵀζ: people's moments keep to a right angle.
    """
    q = H.shape[0]
    trace = 0.0
    for a in range(q):
        for b in range(a + 1):
            H[a, b] = (1.0 if a == b else 0.0) - noise * (inverse[a, b] + inverse[b, a]) / 2.0
            H[b, a] = H[a, b]
        trace += H[a, a]
    if not trace <= q * (1.0 + 1e-9):
        return False
    for c in range(q):
        for b in range(c + 1):
            L[c, b] = H[c, b] + (1.0 / q if b == c else 0.0)
            for a in range(b):
                L[c, b] -= L[c, a] * L[b, a]
            if b < c:
                L[c, b] /= L[b, b]
        if not (L[c, c] > 0.0 and L[c, c] < math.inf):
            return False
        L[c, c] = math.sqrt(L[c, c])
    return True


@kernel(error_model="numpy", inline="always")
def moments_in_place(xi, H, moments):  # type: ignore[no-untyped-def]
    """The halves, off-diagonals times √2, of ξξᵀ, H and H²; and ξ."""
    q = xi.shape[0]
    half, at = q * (q + 1) // 2, 0
    for a in range(q):
        moments[3 * half + a] = xi[a]
        for b in range(a, q):
            root = 1.0 if a == b else math.sqrt(2.0)
            moments[at] = root * xi[a] * xi[b]
            moments[half + at] = root * H[a, b]
            for c in range(q):
                moments[2 * half + at] += root * H[a, c] * H[c, b]
            at += 1


@kernel(error_model="numpy")
def dense_sums(  # type: ignore[no-untyped-def]
    X, offsets, factors, constant, weights, credits, lowest, turn, scales, centre, of_x, g, counts, raw, unit
):
    """Sums by size of everybody's (columns, d) gradient Σ f xᵀ, with an entry for the intercept when ``constant``.

    x is seen as z = T (x − centre), T the transpose of ``turn`` or, where that has no size, ``scales``.
    ``of_x`` and ``g`` are room for one gradient each. What is added to: ``counts`` (2, N_BINS) of people's weights and of their
    ``credits``, ``raw`` and ``unit`` (window, columns, width).
    """
    n, d, columns = offsets.shape[0] - 1, X.shape[1], factors.shape[1]
    width, window = raw.shape[2], raw.shape[0]
    for j in range(n):
        for a in range(columns):
            total = 0.0
            for c in range(width):
                of_x[a, c], g[a, c] = 0.0, 0.0
            for i in range(offsets[j], offsets[j + 1]):
                f = factors[i, a]
                total += f
                for c in range(d):
                    of_x[a, c] += f * X[i, c]
            for c in range(d):
                of_x[a, c] -= total * centre[c]
            if turn.shape[0] == 0:
                for c in range(d):
                    g[a, c] = scales[c] * of_x[a, c]
            else:
                for b in range(d):
                    for c in range(d):
                        g[a, c] += of_x[a, b] * turn[b, c]
            if constant != 0.0:
                g[a, d] = total * constant
        squared = 0.0
        for a in range(columns):
            for c in range(width):
                squared += g[a, c] * g[a, c]
        b = bin_of(squared)
        counts[0, b] += weights[j]
        counts[1, b] += credits[j]
        if b > 0:
            at, inverse_norm = min(max(b - lowest, 0), window - 1), 1.0 / math.sqrt(squared)
            for a in range(columns):
                for c in range(width):
                    value = weights[j] * g[a, c]
                    raw[at, a, c] += value
                    unit[at, a, c] += value * inverse_norm


@kernel(error_model="numpy")
def sparse_sums(lane, indptr, indices, data, d, offsets, factors, constant, weights, credits, lowest, window):  # type: ignore[no-untyped-def]
    """The same for sparse rows, one row for each feature, of the people of one lane."""
    n, columns, width = offsets.shape[0] - 1, factors.shape[1], d + (1 if constant != 0.0 else 0)
    counts = np.zeros((2, N_BINS))
    raw, unit = np.zeros((window, width, columns)), np.zeros((window, width, columns))
    chunk_raw, chunk_unit = np.zeros((window, width, columns)), np.zeros((window, width, columns))
    most = 0
    for j in range(n):
        most = max(most, indptr[offsets[j + 1]] - indptr[offsets[j]])
    g, touched, last_seen_by = np.zeros((width, columns)), np.empty(most + 1, np.int64), np.full(width, -1)
    for first in range(lane * CHUNK, n, LANES * CHUNK):
        for j in range(first, min(n, first + CHUNK)):
            n_touched, squared = 0, 0.0
            if constant != 0.0:
                touched[0], n_touched = d, 1
                for a in range(columns):
                    g[d, a] = 0.0
            for i in range(offsets[j], offsets[j + 1]):
                for at in range(indptr[i], indptr[i + 1]):
                    c = indices[at]
                    if last_seen_by[c] != j:
                        last_seen_by[c], touched[n_touched] = j, c
                        n_touched += 1
                        for a in range(columns):
                            g[c, a] = 0.0
                    for a in range(columns):
                        g[c, a] += factors[i, a] * data[at]
                if constant != 0.0:
                    for a in range(columns):
                        g[d, a] += factors[i, a] * constant
            for t in range(n_touched):
                for a in range(columns):
                    squared += g[touched[t], a] * g[touched[t], a]
            b = bin_of(squared)
            counts[0, b] += weights[j]
            counts[1, b] += credits[j]
            if b > 0:
                into, inverse_norm = min(max(b - lowest, 0), window - 1), 1.0 / math.sqrt(squared)
                for t in range(n_touched):
                    for a in range(columns):
                        value = weights[j] * g[touched[t], a]
                        chunk_raw[into, touched[t], a] += value
                        chunk_unit[into, touched[t], a] += value * inverse_norm
        for into in range(window):  # small sums to small ones: what rounding may add is bounded by the number of chunks
            for c in range(width):
                for a in range(columns):
                    raw[into, c, a] += chunk_raw[into, c, a]
                    unit[into, c, a] += chunk_unit[into, c, a]
                    chunk_raw[into, c, a], chunk_unit[into, c, a] = 0.0, 0.0
    return counts, raw, unit
