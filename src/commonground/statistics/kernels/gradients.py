"""Compiled per-person work: one pass over a person's rows while they are in the cache.

Rows may be float32 or float64 and are used as they are; what is solved, clipped, compared with a bound or added up over
people is float64. People are handled in fixed chunks, each with its own accumulators, so the result does not depend
on the number of threads. What one person does is in ``person``. Numba's cache of compiled code looks at this file only: after
a change in ``person.py``, ``lanes.py`` or ``clipping.bin_of`` remove ``__pycache__``.
"""

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from commonground.clipping.grid import CHUNK, LARGEST, N_BINS, SMALLEST, bin_of
from commonground.compiled import kernel, subkernel
from commonground.statistics.kernels.lanes import (
    LANES,
    doubles,
    item,
    load,
    multiply_add,
    pointer,
    put,
    shifted,
    splat,
    store,
)
from commonground.statistics.kernels.person import (
    FAST,
    LINE_BYTES,
    centre_values,
    gram_of,
    least_squares,
    padded,
    project,
    pull_back,
    residuals_of,
)

QUEUE = 4  # contributions to a bin that are added at once: the accumulators are loaded and stored a quarter as often
BATCH_BYTES = 32768  # of rows: a batch of people ends here, so that its rows are still cached when they are read again

# ---- the sums over people -------------------------------------------------------------------------------------------

# Pointers to one chunk's accumulators and to the contributions v gᵀ that wait to be added to them, QUEUE for each bin: vectors
# g, the slot of each place in a queue, factors v, how many wait. There is one more slot than places: the spare one takes the g
# of the person at work, and is swapped into her bin's queue.
Sums = namedtuple("Sums", ["counts", "raw", "unit", "g", "slots", "factors", "n_waiting"])


@subkernel(fastmath=FAST, error_model="numpy")
def _count_and_queue(sums, v, k, width, scale, squared, weight, lowest, window):
    """Count the contribution scale·v gᵀ of this squared norm, g in the spare slot, and queue it for its bin's sums.

    The person counts ``weight`` in all three: the size of her contribution is taken before, so that hers is clipped like
    everybody's.
    """
    b = bin_of(squared)
    put(sums.counts, b, item(sums.counts, b) + weight)
    if b == 0:
        return
    w = min(max(b - lowest, 0), window - 1)
    q = item(sums.n_waiting, w)
    inverse_norm = 1.0 / math.sqrt(squared)
    for c in range(k):
        factor = item(v, c * LANES) * scale * weight
        at = (w * k + c) * 2 * QUEUE + q
        put(sums.factors, at, factor)
        put(sums.factors, at + QUEUE, factor * inverse_norm)
    spare = item(sums.slots, window * QUEUE)
    put(sums.slots, window * QUEUE, item(sums.slots, w * QUEUE + q))
    put(sums.slots, w * QUEUE + q, spare)
    put(sums.n_waiting, w, q + 1)
    if q + 1 == QUEUE:
        _add_waiting(sums, w, k, width)


@subkernel(fastmath=FAST, error_model="numpy")
def _add_waiting(sums, w, k, width):
    """raw += Σ scale·v gᵀ and unit += Σ scale·v gᵀ / norm over the contributions that wait for bin w, in float64."""
    g0 = shifted(sums.g, item(sums.slots, w * QUEUE) * width)
    g1 = shifted(sums.g, item(sums.slots, w * QUEUE + 1) * width)
    g2 = shifted(sums.g, item(sums.slots, w * QUEUE + 2) * width)
    g3 = shifted(sums.g, item(sums.slots, w * QUEUE + 3) * width)
    for c in range(k):
        f = shifted(sums.factors, (w * k + c) * 2 * QUEUE)
        f0, f1, f2, f3 = splat(item(f, 0)), splat(item(f, 1)), splat(item(f, 2)), splat(item(f, 3))
        h0, h1, h2, h3 = splat(item(f, 4)), splat(item(f, 5)), splat(item(f, 6)), splat(item(f, 7))
        raw, unit = shifted(sums.raw, (w * k + c) * width), shifted(sums.unit, (w * k + c) * width)
        for a in range(0, width, LANES):
            x0, x1, x2, x3 = doubles(load(g0, a)), doubles(load(g1, a)), doubles(load(g2, a)), doubles(load(g3, a))
            s = multiply_add(f0, x0, multiply_add(f1, x1, load(raw, a)))
            store(raw, a, multiply_add(f2, x2, multiply_add(f3, x3, s)))
            s = multiply_add(h0, x0, multiply_add(h1, x1, load(unit, a)))
            store(unit, a, multiply_add(h2, x2, multiply_add(h3, x3, s)))
    put(sums.n_waiting, w, 0)


@subkernel()
def _add_remaining(sums, k, width, window):
    for w in range(window):
        n_waiting = item(sums.n_waiting, w)
        if n_waiting > 0:
            for row in range(w * k * 2, (w + 1) * k * 2):
                for q in range(n_waiting, QUEUE):
                    put(sums.factors, row * QUEUE + q, 0.0)  # the g of an earlier, finite contribution: adds zero
            _add_waiting(sums, w, k, width)


# ---- rounds over all people -----------------------------------------------------------------------------------------
# The loops over chunks get all their arrays from the caller: to compile an allocation takes longer than to make a thousand.


class Room(NamedTuple):
    """Arrays for one thread at work: those of a person or a batch, and the queues."""

    P: np.ndarray
    r: np.ndarray
    gram: np.ndarray
    G: np.ndarray
    inverse_diagonal: np.ndarray
    v: np.ndarray
    batch: np.ndarray
    g: np.ndarray
    slots: np.ndarray
    factors: np.ndarray
    n_waiting: np.ndarray

    @classmethod
    def of(cls, k: int, places: int, rows: int, width: int, window: int, dtype: Any) -> "Room":
        height = padded(k + 1, 4)  # a person's projections on k columns and her labels, four by four
        return cls(
            np.empty(height * places), np.empty(rows, dtype), np.empty((k + 2, height)), np.empty((k + 1, k + 1, LANES)),
            np.empty((k, LANES)), np.ones((k, LANES)), np.empty((LANES, 4), np.int64),
            np.zeros((window * QUEUE + 1, width), dtype), np.arange(window * QUEUE + 1),
            np.zeros((window, k, 2, QUEUE)), np.zeros(window, np.int64),
        )  # fmt: skip


def _accumulators(n: int, window: int, k: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_chunks = -(-n // CHUNK)
    return np.zeros((n_chunks, N_BINS)), np.zeros((n_chunks, window, k, width)), np.zeros((n_chunks, window, k, width))


def embedding_gradients(
    X: np.ndarray, y: np.ndarray, offsets: np.ndarray, weights: np.ndarray, U: np.ndarray, mean: np.ndarray | None,
    shared_intercept: float, local_intercept: bool, lowest: int, window: int, max_rows: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Sums over people of (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²), kept apart by the size of each person's contribution.

    Returns, chunk by chunk, how many people fall in each of N_BINS bins, and for the ``window`` bins from ``lowest`` on the
    sums of their contributions as they are (raw) and scaled to norm one (unit). Non-finite or empty contributions count in bin
    0 and add nothing.
    """
    (d, k), dtype = U.shape, X.dtype
    columns = np.zeros((padded(k + (mean is not None), 2), d), dtype)
    columns[:k] = U.T
    if mean is not None:
        columns[k] = mean
    width, rows, batch_rows = padded(d, LANES), padded(max_rows, LANES), BATCH_BYTES // (d * dtype.itemsize)
    most_rows = min(LANES * rows, batch_rows + rows + LANES * LANES)  # a batch ends with who exceeds batch_rows
    room = Room.of(k, most_rows, rows, width, window, dtype)
    counts, raw, unit = _accumulators(len(offsets) - 1, window, k, width)
    intercepts = float(shared_intercept), int(local_intercept)
    how = columns, k, int(mean is not None), *intercepts, lowest, batch_rows
    _embedding_chunks(X, y, offsets, weights, *how, counts, raw, unit, *room)
    return counts, raw[:, :, :, :d], unit[:, :, :, :d]


@kernel(fastmath=FAST, error_model="numpy")
def _embedding_chunks(
    X, y, offsets, weights, columns, k, has_mean, shared_intercept, local_intercept, lowest, batch_rows, counts, raw, unit,
    P_, r_, gram_, G_, inverse_diagonal_, v_, batch, g_, slots_, factors_, n_waiting_,
):  # fmt: skip
    """The people of each chunk, in batches: project each; solve their heads side by side; pull each back and queue."""
    n, d, line = offsets.shape[0] - 1, X.shape[1], LINE_BYTES // X.itemsize
    window, width, height = raw.shape[1], raw.shape[3], gram_.shape[1]
    x, labels, w, n_columns = pointer(X), pointer(y), pointer(columns), columns.shape[0]
    projections, r, gram, G = pointer(P_), pointer(r_), pointer(gram_), pointer(G_)
    inverse_diagonal, heads = pointer(inverse_diagonal_), pointer(v_)
    at_counts, at_raw, at_unit = pointer(counts), pointer(raw), pointer(unit)
    g, slots, factors, n_waiting = pointer(g_), pointer(slots_), pointer(factors_), pointer(n_waiting_)
    for chunk in range(counts.shape[0]):
        place = chunk * window * k * width
        counts_here, raw_here = shifted(at_counts, chunk * N_BINS), shifted(at_raw, place)
        sums = Sums(counts_here, raw_here, shifted(at_unit, place), g, slots, factors, n_waiting)
        size = n_rows = used = 0
        end = min(n, (chunk + 1) * CHUNK)
        for j in range(chunk * CHUNK, end):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            if m - k - local_intercept > 0 and weights[j] > 0.0:
                project(x, d, lo, m, None, w, n_columns, shifted(projections, used), padded(m, LANES), line)
                batch[size, 0], batch[size, 1], batch[size, 2], batch[size, 3] = lo, m, used, j
                size, n_rows, used = size + 1, n_rows + m, used + height * padded(m, LANES)
            else:  # the head fits these rows exactly, so nothing is left to learn from; or she takes no part at all
                counts[chunk, 0] += weights[j]
            if size < LANES and n_rows < batch_rows and j + 1 < end:
                continue
            for lane in range(size):
                lo, m, P = batch[lane, 0], batch[lane, 1], shifted(projections, batch[lane, 2])
                rows = padded(m, LANES)
                own = shifted(P, k * rows)  # her labels, less what the shared mean predicts
                for i in range(m):
                    put(own, i, item(labels, lo + i) - shared_intercept - (item(own, i) if has_mean else 0.0))
                if local_intercept:
                    for c in range(k + 1):
                        centre_values(shifted(P, c * rows), m)
                gram_of(P, rows, m, k, gram, height)
                for c in range(k + 1):
                    for b in range(c + 1):
                        put(G, (c * (k + 1) + b) * LANES + lane, item(gram, c * height + b))
            least_squares(G, k, inverse_diagonal, heads)
            for lane in range(size):
                lo, m, P, v = batch[lane, 0], batch[lane, 1], shifted(projections, batch[lane, 2]), shifted(heads, lane)
                vv = 0.0
                for c in range(k):
                    vv += item(v, c * LANES) * item(v, c * LANES)
                residuals_of(P, padded(m, LANES), m, k, v, r)
                squared_g = pull_back(x, d, lo, m, None, r, shifted(g, item(slots, window * QUEUE) * width))
                scale = 1.0 / ((m - k - local_intercept) * vv)
                squared = squared_g * vv * scale * scale
                if not (SMALLEST < vv < LARGEST and SMALLEST < squared_g < LARGEST):
                    squared = math.nan  # the norm's factors may be denormal, and it not the norm of what is added
                _count_and_queue(sums, v, k, width, scale, squared, weights[batch[lane, 3]], lowest, window)
            size = n_rows = used = 0
        _add_remaining(sums, k, width, window)


def mean_gradients(
    X: np.ndarray, y: np.ndarray, offsets: np.ndarray, weights: np.ndarray, w: np.ndarray, intercept: float, centred: bool,
    constant: float, lowest: int, window: int, max_rows: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """The same sums for the linear model x → <w, x> + intercept: each person sends (X_jᵀ r_j, constant·Σ r_j) / m_j.

    ``centred`` takes each person's own mean out of X and r for the slopes (she has a local intercept), not out of the
    last coordinate, which is her mean residual times ``constant`` and is there unless that is zero: the intercept is the
    coefficient of one more feature, as large as the others.
    """
    d = X.shape[1]
    size, rows = d + (constant != 0.0), padded(max_rows, LANES)
    width = padded(size, LANES)
    columns = np.zeros((2, d), X.dtype)
    columns[0] = w
    room = Room.of(1, rows, rows, width, window, X.dtype)
    counts, raw, unit = _accumulators(len(offsets) - 1, window, 1, width)
    how = columns, 1, float(intercept), int(centred), float(constant), lowest, rows
    queues = room.g, room.slots, room.factors, room.n_waiting
    _mean_chunks(X, y, offsets, weights, *how, counts, raw, unit, room.P, room.r, room.v, *queues)
    return counts, raw[:, :, :, :size], unit[:, :, :, :size]


@kernel(fastmath=FAST, error_model="numpy")
def _mean_chunks(
    X, y, offsets, weights, columns, k, intercept, centred, constant, lowest, rows, counts, raw, unit,
    P_, r_, v_, g_, slots_, factors_, n_waiting_,
):  # fmt: skip
    """``k`` is 1, and ``v`` a one: what is queued for an embedding's gradient, here for one column."""
    n, d, line = offsets.shape[0] - 1, X.shape[1], LINE_BYTES // X.itemsize
    window, width, n_columns = raw.shape[1], raw.shape[3], columns.shape[0]
    x, labels, w = pointer(X), pointer(y), pointer(columns)
    P, r, v = pointer(P_), pointer(r_), pointer(v_)
    at_counts, at_raw, at_unit = pointer(counts), pointer(raw), pointer(unit)
    queued, slots, factors, n_waiting = pointer(g_), pointer(slots_), pointer(factors_), pointer(n_waiting_)
    for chunk in range(counts.shape[0]):
        place = chunk * window * width
        counts_here, raw_here = shifted(at_counts, chunk * N_BINS), shifted(at_raw, place)
        sums = Sums(counts_here, raw_here, shifted(at_unit, place), queued, slots, factors, n_waiting)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            if weights[j] == 0.0:  # she takes no part, not even in how the others' sums are rounded
                continue
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = max(m - centred, 1)
            project(x, d, lo, m, None, w, n_columns, P, rows, line)
            sum_r = 0.0
            for i in range(m):
                put(P, i, item(labels, lo + i) - item(P, i) - intercept)
                sum_r += item(P, i)
            if centred:
                centre_values(P, m)
            for i in range(0, m, LANES):
                store(r, i, load(P, i))
            g = shifted(queued, item(slots, window * QUEUE) * width)
            squared_g = pull_back(x, d, lo, m, None, r, g)
            if constant != 0.0:
                last = X.dtype.type(constant * sum_r / m * dof)  # rounded like the rest of g, of which this is the norm
                put(g, d, last)
                squared_g += np.float64(last) * np.float64(last)
            scale = 1.0 / dof
            _count_and_queue(sums, v, 1, width, scale, squared_g * scale * scale, weights[j], lowest, window)
        _add_remaining(sums, k, width, window)


@kernel(error_model="numpy")
def mean_rows(X, offsets, means):
    """Everybody's mean row; zero for a person without rows."""
    for j in range(offsets.shape[0] - 1):
        m = offsets[j + 1] - offsets[j]
        for i in range(offsets[j], offsets[j + 1]):
            for c in range(X.shape[1]):
                means[j, c] += X[i, c]
        for c in range(X.shape[1]):
            if m > 0:
                means[j, c] /= m
