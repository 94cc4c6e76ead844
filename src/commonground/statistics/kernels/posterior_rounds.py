"""Rounds with posterior heads over dense rows, compiled: each person's rows are read from memory once.

All that a posterior needs of a person is the Gram matrix of (Z, ρ): of what her own part is multiplied with, a one where she has
an intercept, then her rows on the embedding; and of ρ, what the shared prediction leaves of her labels. And the factors of her
rows, of which a gradient is made, are the same few columns times few numbers. So people are taken in batches of LANES: projected
one by one, solved side by side, pulled back one by one while their rows are in the cache. ``posterior_sums`` has the same in
plain loops, for sparse rows and for log-odds; tests compare the two.

Rows are used as they are, float32 or float64; what is solved, clipped, compared with a bound or added up is float64.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from commonground.clipping.grid import N_BINS, bin_of
from commonground.compiled import kernel, subkernel
from commonground.data.population import Block
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.eight_people import heads_and_doubts, moments_of, posteriors, row_factors
from commonground.statistics.kernels.lanes import (
    LANES,
    doubles,
    item,
    load,
    multiply,
    multiply_add,
    pointer,
    put,
    shifted,
    splat,
    store,
    total,
)
from commonground.statistics.kernels.person import (
    FAST,
    LINE_BYTES,
    gram_of,
    inner_products,
    padded,
    project,
    pull_two_back,
)
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.kernels.posterior_sums import FEWEST_FREE, NOISE_WEIGHT
from commonground.statistics.statistic import WINDOW, SharedModel

BATCH_BYTES = 32768  # of rows: a batch of people ends here, so that its rows are still cached when they are read again
MOMENTS, MEAN, EMBEDDING = 0, 1, 2  # what is asked of people: how their parts vary; a gradient of w₀, or of U


# ---- one person --------------------------------------------------------------------------------------------------------------


@subkernel(fastmath=FAST, error_model="numpy")
def _is_finite(xi, q, used, lane):
    finite = abs(used) < math.inf
    for c in range(q):
        finite = finite and abs(item(xi, c * LANES + lane)) < math.inf
    return finite


@subkernel(fastmath=FAST, error_model="numpy")
def _add_clipped_moments(moments, lane, size, residual, clip_norm, weight, sums):
    """Add the moments of the person in this lane, with her noise and a one at their end, clipped."""
    put(moments, (size - 2) * LANES + lane, NOISE_WEIGHT * max(residual, 0.0))
    put(moments, (size - 1) * LANES + lane, NOISE_WEIGHT)
    squared = 0.0
    for e in range(size):
        squared += item(moments, e * LANES + lane) * item(moments, e * LANES + lane)
    if bin_of(squared) > 0:
        factor = weight * min(1.0, clip_norm / math.sqrt(squared))
        for e in range(size):
            put(sums, e, item(sums, e) + factor * item(moments, e * LANES + lane))


@subkernel(fastmath=FAST, error_model="numpy")
def _factors(P, rows, m, q, C, columns, lane, r):
    """r = (Z, ρ) C for one column of C, which begins at this place, of the person in this lane."""
    for i in range(0, m, LANES):
        s = splat(0.0)
        for c in range(q + 1):
            s = multiply_add(splat(item(C, c * columns * LANES + lane)), load(P, c * rows + i), s)
        store(r, i, s)


@subkernel(fastmath=FAST, error_model="numpy")
def _turn(g, columns, width, T, d, eight, turned):
    """turned = g Tᵀ, four columns of a gradient and two of its features at a time; the entry behind features stays as it is."""
    for a in range(columns):
        put(turned, a * width + d, item(g, a * width + d))
    for a in range(0, columns, 4):
        a1, a2, a3 = min(a + 1, columns - 1), min(a + 2, columns - 1), min(a + 3, columns - 1)
        for c in range(0, d, 2):
            two = min(c + 1, d - 1)
            s = inner_products(g, a * width, a1 * width, a2 * width, a3 * width, None, T, c * d, two * d, d)
            store(eight, 0, s)
            for e in range(min(4, columns - a)):
                put(turned, (a + e) * width + c, item(eight, e))
                put(turned, (a + e) * width + two, item(eight, 4 + e))


@subkernel(fastmath=FAST, error_model="numpy")
def _squared_norm(g, size):
    s = splat(0.0)
    for at in range(0, size, LANES):
        values = doubles(load(g, at))
        s = multiply_add(values, values, s)
    return total(s)


@subkernel(fastmath=FAST, error_model="numpy")
def _add(g, size, weight, inverse_norm, raw, unit):
    for at in range(0, size, LANES):
        value = multiply(splat(weight), doubles(load(g, at)))
        store(raw, at, multiply_add(splat(1.0), value, load(raw, at)))
        store(unit, at, multiply_add(splat(inverse_norm), value, load(unit, at)))


# ---- all people of a chunk -----------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """What is asked of everybody: public values, in the form that the loop takes."""

    asked: int
    own: int
    columns: np.ndarray  # (even, d) of z, and of the kind of numbers that rows have
    intercept: float
    L: np.ndarray
    noise: float
    constant: float
    clip_norm: float  # of moments
    lowest: int
    centre: np.ndarray  # whole LANES
    scales: np.ndarray  # and a one for the intercept, whole LANES, or of no size
    T: np.ndarray  # (d, d), or of no size

    @classmethod
    def of(
        cls,
        asked: int,
        model: SharedModel,
        coordinates: Coordinates,
        constant: float,
        clip_norm: float,
        lowest: int,
        dtype: Any,
    ) -> "Question":
        assert model.spread is not None
        columns = coordinates.columns_for(np.column_stack([model.embedding, model.slopes]))[0].T
        n_columns, d = columns.shape
        even, centre = np.zeros((n_columns + n_columns % 2, d), dtype), np.zeros(padded(d, LANES), dtype)
        even[:n_columns] = columns
        if coordinates.centre is not None:
            centre[:d] = coordinates.centre
        scales, T = np.empty(0, dtype), np.empty((0, 0), dtype)
        if coordinates.transform is not None and coordinates.transform.ndim == 2:
            T = np.ascontiguousarray(coordinates.transform, dtype)
        elif coordinates.transform is not None:
            scales = np.zeros(padded(d + 1, LANES), dtype)
            scales[:d], scales[d] = coordinates.transform, 1.0
        of_model = (
            int(model.own_intercept),
            even,
            float(model.intercept),
            prior_factor(model.spread),
            float(model.noise),
        )
        return cls(asked, *of_model, constant, clip_norm, lowest, centre, scales, T)


def chunk_sums(some: Block, question: Question, shares: np.ndarray, credits: np.ndarray) -> tuple[np.ndarray, ...]:
    """Counts of people by size, raw and unit sums of their gradients by size, and the sum of their clipped moments.

    ``shares``: what each person's gradient is multiplied by; ``credits``: what she counts by.
    """
    q, d, dtype = len(question.L), some.X.shape[1], some.X.dtype
    k = q - question.own
    columns = {MOMENTS: 0, MEAN: 1, EMBEDDING: k}[question.asked]
    width, rows = padded(d + 1, LANES), padded(max(int(np.diff(some.offsets).max()), 1), LANES)
    height, batch_rows = padded(q + 2, 4), BATCH_BYTES // (d * dtype.itemsize)
    most_rows = min(LANES * rows, batch_rows + rows + LANES * LANES)  # a batch ends with who exceeds batch_rows
    counts, size = np.zeros((1, 2, N_BINS)), 3 * (q * (q + 1) // 2) + q + 2
    raw, unit = np.zeros((1, WINDOW, columns, width)), np.zeros((1, WINDOW, columns, width))
    moments = np.zeros((1, size))
    y, lanes = some.y.astype(np.float64, copy=False), np.zeros((8 * (q + 1) ** 2 + 3 * q + 6 + size, LANES))
    of_rows = np.empty(height * most_rows), np.empty((2, rows), dtype), np.empty((q + 3, height))
    of_gradients = np.zeros((2, max(columns, 1), width), dtype), np.empty(LANES, dtype)
    room = *of_rows, lanes, np.empty((LANES, 4), np.int64), *of_gradients
    people = some.offsets, some.person_weights, shares, credits
    people_of_chunk(some.X, y, *people, *question, *room, counts, raw, unit, moments)
    entries = d + (question.constant != 0.0)
    return counts, raw[..., :entries], unit[..., :entries], moments


@kernel(fastmath=FAST, error_model="numpy")
def people_of_chunk(
    X, y, offsets, weights, shares, credits, asked, own, columns_, intercept, L_, noise, constant, clip_norm, lowest, centre_,
    scales_, T_, P_, r_, gram_, room_, batch, g_, eight_, counts, raw_, unit_, moments_,
):  # fmt: skip
    n, d, line, q = offsets.shape[0] - 1, X.shape[1], LINE_BYTES // X.itemsize, L_.shape[0]
    (_, window, columns, width), height, size = raw_.shape, gram_.shape[1], moments_.shape[1]
    x, labels, w, L = pointer(X), pointer(y), pointer(columns_), pointer(L_)
    centre, T_of = pointer(centre_), pointer(T_)
    projections, r, gram, g, eight = pointer(P_), pointer(r_), pointer(gram_), pointer(g_), pointer(eight_)
    raw, unit, sums, scales = pointer(raw_), pointer(unit_), pointer(moments_), pointer(scales_)
    other_r = shifted(r, r_.shape[1])
    turned, k, square = shifted(g, g_.shape[1] * width), q - own, (q + 1) * (q + 1) * LANES
    G = pointer(room_)
    M, A, T, inverse = shifted(G, square), shifted(G, 2 * square), shifted(G, 3 * square), shifted(G, 4 * square)
    H, doubt, C, xi = shifted(G, 5 * square), shifted(G, 6 * square), shifted(G, 7 * square), shifted(G, 8 * square)
    h, facts = shifted(xi, q * LANES), shifted(xi, 2 * q * LANES)
    scale, moments = shifted(facts, 4 * LANES), shifted(facts, 5 * LANES)
    n_batch = n_rows = used_rows = 0
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m > 0 and weights[j] > 0.0:
            P, rows = shifted(projections, used_rows), padded(m, LANES)
            project(x, d, lo, m, centre, w, columns_.shape[0], shifted(P, own * rows), rows, line)
            batch[n_batch, 0], batch[n_batch, 1], batch[n_batch, 2], batch[n_batch, 3] = lo, m, used_rows, j
            n_batch, n_rows, used_rows = n_batch + 1, n_rows + m, used_rows + height * rows
        else:  # she has nothing to say, or takes no part at all, not even in how others' sums are rounded
            counts[0, 0, 0] += weights[j]
            counts[0, 1, 0] += credits[j]
        if n_batch == 0 or (n_batch < LANES and n_rows < BATCH_BYTES // (d * X.itemsize) and j + 1 < n):
            continue
        for lane in range(n_batch):
            lo, m, P = batch[lane, 0], batch[lane, 1], shifted(projections, batch[lane, 2])
            rows = padded(m, LANES)
            for i in range(m):
                put(P, q * rows + i, item(labels, lo + i) - (item(P, q * rows + i) + intercept))
                if own:
                    put(P, i, 1.0)
            gram_of(P, rows, m, q, gram, height)
            for c in range(q + 1):
                for b in range(c + 1):
                    put(G, (c * (q + 1) + b) * LANES + lane, item(gram, c * height + b))
        posteriors(G, q, L, noise, M, A, T, inverse, xi, facts)
        if asked == MOMENTS:
            moments_of(q, noise, inverse, xi, facts, A, T, H, moments)
            for lane in range(n_batch):
                m, j_, used = batch[lane, 1], batch[lane, 3], item(facts, lane)
                trace, positive = item(facts, 2 * LANES + lane), item(facts, 3 * LANES + lane)
                good = trace <= q * (1.0 + 1e-9) and positive < math.inf  # NaN is neither
                if good and _is_finite(xi, q, used, lane):
                    residual = item(facts, LANES + lane) / (m * noise) + used / m
                    _add_clipped_moments(moments, lane, size, residual, clip_norm, weights[j_], sums)
            n_batch = n_rows = used_rows = 0
            continue
        heads_and_doubts(q, own, L, noise, inverse, xi, A, h, doubt, facts)
        for lane in range(n_batch):
            free, head_size = batch[lane, 1] - item(facts, lane), item(facts, 2 * LANES + lane)
            sends = free > FEWEST_FREE and _is_finite(xi, q, item(facts, lane), lane)
            if asked == EMBEDDING:  # of one row, less its mean, nothing is left
                sends = sends and head_size > 0.0 and head_size < math.inf and batch[lane, 1] > own
            factor = k / head_size if asked == EMBEDDING else 1.0
            put(scale, lane, shares[batch[lane, 3]] * factor / free if sends else 0.0)
        row_factors(G, q, own, asked == MEAN, h, doubt, scale, C)
        for lane in range(n_batch):
            lo, m, P, j_ = batch[lane, 0], batch[lane, 1], shifted(projections, batch[lane, 2]), batch[lane, 3]
            b, squared = 0, 0.0
            if item(scale, lane) > 0.0:
                for a in range(0, columns, 2):
                    other = min(a + 1, columns - 1)
                    _factors(P, padded(m, LANES), m, q, shifted(C, a * LANES), columns, lane, r)
                    _factors(P, padded(m, LANES), m, q, shifted(C, other * LANES), columns, lane, other_r)
                    pull_two_back(x, d, lo, m, centre, r, other_r, shifted(g, a * width), shifted(g, other * width))
                    if constant != 0.0:
                        sum_r = other_sum = 0.0
                        for i in range(m):
                            sum_r += item(r, i)
                            other_sum += item(other_r, i)
                        put(g, a * width + d, X.dtype.type(sum_r * constant))
                        put(g, other * width + d, X.dtype.type(other_sum * constant))
                sent = g
                if T_.shape[0] > 0:
                    _turn(g, columns, width, T_of, d, eight, turned)
                    sent = turned
                if scales_.shape[0] > 0:
                    for at in range(0, columns * width, LANES):
                        store(g, at, multiply(load(g, at), load(scales, at % width)))
                squared = _squared_norm(sent, columns * width)
                b = bin_of(squared)
                if b > 0:
                    place = min(max(b - lowest, 0), window - 1) * columns * width
                    how = weights[j_], 1.0 / math.sqrt(squared)
                    _add(sent, columns * width, how[0], how[1], shifted(raw, place), shifted(unit, place))
            counts[0, 0, b] += weights[j_]
            counts[0, 1, b] += credits[j_]
        n_batch = n_rows = used_rows = 0
