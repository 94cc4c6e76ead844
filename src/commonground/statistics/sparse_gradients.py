"""The contributions of people with sparse rows: the same numbers as from dense rows, in time and memory of the non-zeros.

A person touches only the features that are not zero in her rows, and her gradient is added to those entries of the sums
alone. Sums are kept in fixed lanes, each of which takes every LANES-th chunk of people: the result does not depend on the
number of threads, memory does not grow with the people, and an entry passes through no more additions than
``clipping.rounding_margin`` allows for.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from commonground.clipping.grid import CHUNK, LARGEST, N_BINS, SMALLEST, bin_of
from commonground.clipping.sums import BinnedSums, SymmetricSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.directions import solve_in_place
from commonground.statistics.kernels.gradients import TINY_RIDGE
from commonground.statistics.statistic import WINDOW, Flag, SharedModel, Statistic, WindowStart
from commonground.threads import each

LANES = 4


@njit(error_model="numpy")
def _residuals(rows, y, lo, m, model, A, r, v):  # type: ignore[no-untyped-def]
    """Her labels less the shared part, less her own least-squares head v on the columns of U, into r.

    Returns her mean residual before the head, NaN where no head can be found.
    """
    indptr, indices, data = rows
    U, w, shared_intercept, centred = model
    k, mean = U.shape[1], 0.0
    for i in range(m):
        r[i] = y[lo + i] - shared_intercept
        A[i] = 0.0
        for at in range(indptr[lo + i], indptr[lo + i + 1]):
            r[i] -= data[at] * w[indices[at]]
            for c in range(k):
                A[i, c] += data[at] * U[indices[at], c]
        mean += r[i] / m
    if centred:
        r[:m] -= mean
        for c in range(k):
            A[:m, c] -= A[:m, c].mean()
    if k == 0:
        return mean
    gram = np.zeros((k, k))
    v[:] = 0.0
    for i in range(m):
        for c in range(k):
            v[c] += A[i, c] * r[i]
            for b in range(k):
                gram[c, b] += A[i, c] * A[i, b]
    ridge = TINY_RIDGE * np.trace(gram)
    for c in range(k):
        gram[c, c] += ridge
    if not solve_in_place(gram, v):
        return math.nan
    for i in range(m):
        for c in range(k):
            r[i] -= A[i, c] * v[c]
    return mean


@njit(error_model="numpy")
def _gradient_lane(rows, y, offsets, weights, model, outer, with_intercept, lowest, lane, counts, raw, unit):  # type: ignore[no-untyped-def]
    """The people of one lane: fit each one's head, pull her residuals back, add them up by their size."""
    indptr, indices, data = rows
    n, (d, k), centred = offsets.shape[0] - 1, model[0].shape, model[3]
    most_rows, most_values = 0, 0
    for j in range(n):
        most_rows = max(most_rows, offsets[j + 1] - offsets[j])
        most_values = max(most_values, indptr[offsets[j + 1]] - indptr[offsets[j]])
    A, r, v, factor = np.empty((most_rows, k)), np.empty(most_rows), np.empty(k), np.ones(raw.shape[2])
    g, touched, last_seen_by = np.zeros(d + 1), np.empty(most_values + 1, np.int64), np.full(d + 1, -1)
    chunk_raw, chunk_unit = np.zeros_like(raw), np.zeros_like(unit)
    for first in range(lane * CHUNK, n, LANES * CHUNK):
        for j in range(first, min(n, first + CHUNK)):
            lo, m = offsets[j], offsets[j + 1] - offsets[j]
            dof = m - k - centred
            if k > 0 and dof <= 0:  # the head fits these rows exactly, so nothing is left to learn from
                counts[0] += weights[j]
                continue
            mean = _residuals(rows, y, lo, m, model, A, r, v)
            n_touched = 0
            for i in range(m):
                for at in range(indptr[lo + i], indptr[lo + i + 1]):
                    a = indices[at]
                    if last_seen_by[a] != j:
                        last_seen_by[a], g[a], touched[n_touched] = j, 0.0, a
                        n_touched += 1
                    g[a] += data[at] * r[i]
            scale = 1.0 / max(dof, 1)
            if with_intercept:
                g[d], touched[n_touched] = mean / scale, d
                n_touched += 1
            squared_g, vv = 0.0, 1.0
            for t in range(n_touched):
                squared_g += g[touched[t]] * g[touched[t]]
            if outer:
                vv = (v * v).sum()
                scale /= vv
                factor[:] = v
            squared = squared_g * vv * scale * scale
            if not (math.isfinite(mean) and SMALLEST < vv < LARGEST and SMALLEST < squared_g < LARGEST):
                squared = 0.0  # outside of these bounds it may not be the norm of what would be added
            b = bin_of(squared)
            counts[b] += weights[j]
            if b > 0:
                at = min(max(b - lowest, 0), WINDOW - 1)
                inverse_norm = 1.0 / math.sqrt(squared)
                for t in range(n_touched):
                    a = touched[t]
                    for c in range(len(factor)):
                        value = g[a] * factor[c] * scale * weights[j]
                        chunk_raw[at, a, c] += value
                        chunk_unit[at, a, c] += value * inverse_norm
        raw += chunk_raw
        unit += chunk_unit
        chunk_raw[:] = 0.0
        chunk_unit[:] = 0.0


@kernel(error_model="numpy")
def _gradients(  # type: ignore[no-untyped-def]
    lane, indptr, indices, data, y, offsets, weights, U, w, intercept, centred, outer, with_intercept, lowest
):
    """Sums by size of X_jᵀ r_j / dof_j, or of (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²) when ``outer``, one row per feature.

    With ``with_intercept`` the last row is her mean residual. Of one lane: people per bin, sums as they are, sums
    of contributions scaled to norm one.
    """
    counts = np.zeros(N_BINS)
    raw = np.zeros((WINDOW, U.shape[0] + with_intercept, U.shape[1] if outer else 1))
    unit = np.zeros_like(raw)
    rows, model = (indptr, indices, data), (U, w, intercept, centred)
    _gradient_lane(rows, y, offsets, weights, model, outer, with_intercept, lowest, lane, counts, raw, unit)
    return counts, raw, unit


def _arrays(block: Block) -> tuple[np.ndarray, ...]:
    """What the kernels read; values in float64, so that they are compiled once."""
    X: Any = block.X.astype(np.float64, copy=False)
    y = block.y.astype(np.float64, copy=False)
    return X.indptr, X.indices, X.data, y, block.offsets, block.person_weights


@dataclass(frozen=True, eq=False)
class SparseGradients(Statistic[BinnedSums]):
    """What ``EmbeddingGradients`` (``outer``), ``MeanGradients`` (an embedding without columns) and ``ResidualGradients`` give,
    for sparse rows; ``with_intercept``: with an entry for the shared intercept."""

    gives = BinnedSums
    model: SharedModel
    outer: Flag
    with_intercept: Flag
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model = self.model
        arrays, U = _arrays(block), np.ascontiguousarray(model.embedding)
        lanes = each(
            lambda lane: _gradients(
                lane, *arrays, U, model.slopes, model.intercept, model.own_intercept, self.outer, self.with_intercept,
                self.lowest,
            ),
            range(LANES),
        )  # fmt: skip
        counts, raw, unit = (np.stack(parts).sum(axis=0) for parts in zip(*lanes, strict=True))
        raw, unit = (np.ascontiguousarray(sums.transpose(0, 2, 1)) for sums in (raw, unit))
        return BinnedSums(counts, raw, unit, self.lowest, block.n_users)


@kernel(error_model="numpy")
def _pairs(indptr, indices, data, y, offsets, weights, w, intercept, centred, place_of, size):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, w.shape[0]
    rows, model = (indptr, indices, data), (np.empty((d, 0)), w, intercept, centred)
    total, chunk, number_of = np.zeros((size, size)), np.zeros((size, size)), np.full(size, -1)
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        r, places = np.empty(m), np.empty(indptr[lo + m] - indptr[lo], np.int64)
        _residuals(rows, y, lo, m, model, np.empty((m, 0)), r, np.empty(0))
        n_touched = 0
        for at in range(indptr[lo], indptr[lo + m]):
            place = place_of[indices[at]]
            if place >= 0 and number_of[place] < 0:
                number_of[place], places[n_touched] = n_touched, place
                n_touched += 1
        z, Z = np.zeros(n_touched), np.zeros((n_touched, n_touched))  # z: of the rows before
        for i in range(m):
            for at in range(indptr[lo + i], indptr[lo + i + 1]):
                a = place_of[indices[at]]
                if a >= 0:
                    Z[number_of[a]] += data[at] * r[i] * z
            for at in range(indptr[lo + i], indptr[lo + i + 1]):
                a = place_of[indices[at]]
                if a >= 0:
                    z[number_of[a]] += data[at] * r[i]
        Z = Z + Z.T
        squared = (Z * Z).sum()
        for s in range(n_touched):
            number_of[places[s]] = -1
            if SMALLEST < squared < LARGEST:
                for t in range(n_touched):
                    chunk[places[s], places[t]] += weights[j] / math.sqrt(squared) * Z[s, t]
        if j % CHUNK == CHUNK - 1 or j == n - 1:
            total += chunk
            chunk[:] = 0.0
    return total


@dataclass(frozen=True, eq=False)
class PairDirections(Statistic[SymmetricSums]):
    """Person j sends Σ_{i≠l} r_i r_l x_i x_lᵀ over pairs of her rows, on some features only, scaled to norm one (P2, Alg. 2).

    Of one-hot rows a pair is two different items: the diagonal, which says how popular items are, is left out.
    """

    gives = SymmetricSums
    model: SharedModel
    features: np.ndarray  # positions

    def of(self, block: Block) -> SymmetricSums:
        model, size = self.model, len(self.features)
        place_of = np.full(block.X.shape[1], -1)
        place_of[self.features] = np.arange(size)
        sums = _pairs(*_arrays(block), model.slopes, model.intercept, model.own_intercept, place_of, size)
        return SymmetricSums(sums, 1.0, block.n_users)
