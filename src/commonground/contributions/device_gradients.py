"""Everybody's gradient for the shared part on a GPU: rows are read once, gradients stay until the clip is known.

What `kernels.embedding_gradients` does on the processor. There sums are kept for every bin of sizes, as nobody's gradient can be
kept; here memory is fast and plenty, and a gradient is as long as one row. Needs torch and Triton.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

CHUNK = 2048  # people added up together before their sum is added to the others': clipping.CHUNK
MOST_NUMBERS = 2048  # of a tile of rows, which stays in registers
WARPS = 1
PEOPLE = 8  # one after the other in a program, so that the embedding is loaded once for all of them


class PersonGradients(NamedTuple):
    """Person j sends factors[j] g[j]ᵀ, of this squared norm; NaN where she has nothing to send."""

    g: torch.Tensor  # (n, d) as precise as the rows
    factors: torch.Tensor  # (n, k) float64: v_j / (dof_j ‖v_j‖²)
    squared: torch.Tensor  # (n,) float64


def person_gradients(
    X: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor, most_rows: int, W: torch.Tensor, k: int, intercept: float,
    local_intercept: bool,
) -> PersonGradients:  # fmt: skip
    """(X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²) for each person; W holds the k columns of the embedding, then perhaps the shared mean."""
    n, d = len(offsets) - 1, X.shape[1]
    width = triton.next_power_of_2(d)
    rows = min(triton.next_power_of_2(most_rows), max(MOST_NUMBERS // width, 1))
    shift = torch.tensor([intercept], dtype=torch.float64, device=X.device)  # as an argument it would become float32
    g = torch.empty((n, d), dtype=X.dtype, device=X.device)
    factors = torch.empty((n, k), dtype=torch.float64, device=X.device)
    squared = torch.empty(n, dtype=torch.float64, device=X.device)
    _person_gradients[(triton.cdiv(n, PEOPLE),)](
        X, y, offsets, W.contiguous(), shift, g, factors, squared, n, d,
        K=k, KP=triton.next_power_of_2(k), HAS_MEAN=len(W) > k, CENTRED=local_intercept, ROWS=rows, D=width,
        ONE_TILE=most_rows <= rows, N_PEOPLE=PEOPLE, num_warps=WARPS,
    )  # fmt: skip
    return PersonGradients(g, factors, squared)


def weighted_sum(people: PersonGradients, weights: torch.Tensor) -> torch.Tensor:
    """Σ_j weights[j] factors[j] g[j]ᵀ, (k, d) in float64; who has weight zero adds nothing, whatever she holds."""
    (n, k), d = people.factors.shape, people.g.shape[1]
    width = triton.next_power_of_2(d)
    chunks = triton.cdiv(n, CHUNK)
    parts = torch.empty((chunks, k, d), dtype=torch.float64, device=weights.device)
    _weighted_sum[(chunks,)](
        people.g, people.factors, weights, parts, n, d,
        K=k, KP=triton.next_power_of_2(k), D=width, BATCH=max(1024 // width, 1), N_PEOPLE=CHUNK, num_warps=4,
    )  # fmt: skip
    return parts.sum(dim=0)


@triton.jit
def _tile(X, y, W, lo, m, first, d, shift, K: tl.constexpr, KP: tl.constexpr, HAS_MEAN: tl.constexpr, ROWS: tl.constexpr,
          D: tl.constexpr):  # fmt: skip
    """Some of a person's rows, their projections P (ROWS, KP) on the embedding, and labels less the shared prediction."""
    row, column, head = first + tl.arange(0, ROWS), tl.arange(0, D), tl.arange(0, KP)
    x = tl.load(
        X + (lo + row)[:, None] * d + column[None, :], mask=(row < m)[:, None] & (column < d)[None, :], other=0.0
    )
    own = tl.load(y + lo + row, mask=row < m, other=0.0).to(tl.float64) - tl.load(shift)
    P = tl.zeros((ROWS, KP), dtype=tl.float64)
    for c in tl.static_range(K):
        w = tl.load(W + c * d + column, mask=column < d, other=0.0)
        along = tl.sum(x * w[None, :], axis=1).to(tl.float64)
        P = tl.where((head == c)[None, :], along[:, None], P)
    if HAS_MEAN:
        w = tl.load(W + K * d + column, mask=column < d, other=0.0)
        own -= tl.sum(x * w[None, :], axis=1).to(tl.float64)
    return x, P, tl.where(row < m, own, 0.0)


@triton.jit
def _centred(P, own, mean_P, mean_own, first, m, ROWS: tl.constexpr):
    inside = first + tl.arange(0, ROWS) < m
    return tl.where(inside[:, None], P - mean_P[None, :], 0.0), tl.where(inside, own - mean_own, 0.0)


@triton.jit
def _gram(P, K: tl.constexpr, KP: tl.constexpr):
    head = tl.arange(0, KP)
    gram = tl.zeros((KP, KP), dtype=tl.float64)
    for c in tl.static_range(K):
        along = tl.sum(tl.where((head == c)[None, :], P, 0.0), axis=1)
        gram = tl.where((head == c)[None, :], tl.sum(P * along[:, None], axis=0)[:, None], gram)
    return gram


@triton.jit
def _least_squares(gram, right, K: tl.constexpr, KP: tl.constexpr):
    """Gauss and Jordan with a tiny ridge; NaN where a pivot is not positive."""
    head = tl.arange(0, KP)
    diagonal = head[:, None] == head[None, :]
    ridge = 1e-6 * tl.sum(tl.sum(tl.where(diagonal, gram, 0.0), axis=1), axis=0)
    gram += tl.where(diagonal, tl.where((head < K)[:, None], ridge, 1.0), 0.0)
    smallest = ridge
    for c in tl.static_range(K):
        row = tl.sum(tl.where((head == c)[:, None], gram, 0.0), axis=0)
        column = tl.sum(tl.where((head == c)[None, :], gram, 0.0), axis=1)
        pivot = tl.sum(tl.where(head == c, row, 0.0), axis=0)
        smallest = tl.minimum(smallest, pivot)
        share = tl.where(head == c, 0.0, column / pivot)
        right -= share * tl.sum(tl.where(head == c, right, 0.0), axis=0)
        gram -= share[:, None] * row[None, :]
    v = right / tl.sum(tl.where(diagonal, gram, 0.0), axis=1)
    return tl.where(head < K, tl.where(smallest > 0.0, v, float("nan")), 0.0)


@triton.jit
def _pulled_back(x, P, own, v, KP: tl.constexpr):
    """xᵀ r over the rows of a tile."""
    residual = own - tl.sum(P * v[None, :], axis=1)
    return tl.sum(x * residual.to(x.dtype)[:, None], axis=0)


@triton.jit
def _person_gradients(
    X, y, offsets, W, shift, g_out, factors_out, squared_out, n, d,
    K: tl.constexpr, KP: tl.constexpr, HAS_MEAN: tl.constexpr, CENTRED: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    ONE_TILE: tl.constexpr, N_PEOPLE: tl.constexpr,
):  # fmt: skip
    column, head = tl.arange(0, D), tl.arange(0, KP)
    for p in range(N_PEOPLE):
        j = tl.program_id(0).to(tl.int64) * N_PEOPLE + p
        if j < n:
            lo = tl.load(offsets + j)
            m = tl.load(offsets + j + 1) - lo
            rows = tl.maximum(m, 1).to(tl.float64)
            g = tl.zeros((D,), dtype=X.dtype.element_ty)
            if ONE_TILE:
                x, P, own = _tile(X, y, W, lo, m, 0, d, shift, K, KP, HAS_MEAN, ROWS, D)
                if CENTRED:
                    P, own = _centred(P, own, tl.sum(P, axis=0) / rows, tl.sum(own, axis=0) / rows, 0, m, ROWS)
                right = tl.sum(P * own[:, None], axis=0)
                v = _least_squares(_gram(P, K, KP), right, K, KP)
                g = _pulled_back(x, P, own, v, KP)
            else:
                mean_P, mean_own = tl.zeros((KP,), dtype=tl.float64), 0.0 * rows
                if CENTRED:
                    for first in range(0, m, ROWS):
                        x, P, own = _tile(X, y, W, lo, m, first, d, shift, K, KP, HAS_MEAN, ROWS, D)
                        mean_P, mean_own = mean_P + tl.sum(P, axis=0) / rows, mean_own + tl.sum(own, axis=0) / rows
                gram, right = tl.zeros((KP, KP), dtype=tl.float64), tl.zeros((KP,), dtype=tl.float64)
                for first in range(0, m, ROWS):
                    x, P, own = _tile(X, y, W, lo, m, first, d, shift, K, KP, HAS_MEAN, ROWS, D)
                    P, own = _centred(P, own, mean_P, mean_own, first, m, ROWS)
                    gram, right = gram + _gram(P, K, KP), right + tl.sum(P * own[:, None], axis=0)
                v = _least_squares(gram, right, K, KP)
                for first in range(0, m, ROWS):
                    x, P, own = _tile(X, y, W, lo, m, first, d, shift, K, KP, HAS_MEAN, ROWS, D)
                    P, own = _centred(P, own, mean_P, mean_own, first, m, ROWS)
                    g += _pulled_back(x, P, own, v, KP)
            freedom = (m - K).to(tl.float64)
            if CENTRED:
                freedom -= 1.0
            wide = g.to(tl.float64)
            gg, vv = tl.sum(wide * wide, axis=0), tl.sum(v * v, axis=0)
            scale = 1.0 / (freedom * vv)
            fit = (freedom > 0.0) & (vv > 1e-60) & (vv < 1e60) & (gg > 1e-60) & (gg < 1e60)
            tl.store(g_out + j * d + column, g, mask=column < d)
            tl.store(factors_out + j * K + head, v * scale, mask=head < K)
            tl.store(squared_out + j, tl.where(fit, gg * vv * scale * scale, float("nan")))


@triton.jit
def _weighted_sum(g, factors, weights, parts, n, d, K: tl.constexpr, KP: tl.constexpr, D: tl.constexpr, BATCH: tl.constexpr,
                  N_PEOPLE: tl.constexpr):  # fmt: skip
    chunk = tl.program_id(0).to(tl.int64)
    column, head = tl.arange(0, D), tl.arange(0, KP)
    total = tl.zeros((KP, D), dtype=tl.float64)
    for first in range(0, N_PEOPLE, BATCH):
        j = chunk * N_PEOPLE + first + tl.arange(0, BATCH)
        weight = tl.load(weights + j, mask=j < n, other=0.0)
        part = weight != 0.0
        values = tl.load(g + j[:, None] * d + column[None, :], mask=part[:, None] & (column < d)[None, :], other=0.0)
        values = values.to(tl.float64)
        for c in tl.static_range(K):
            factor = tl.load(factors + j * K + c, mask=part, other=0.0) * weight
            sent = tl.sum(values * factor[:, None], axis=0)
            total = tl.where((head == c)[:, None], total + sent[None, :], total)
    at = parts + chunk * K * d + head[:, None] * d + column[None, :]
    tl.store(at, total, mask=(head < K)[:, None] & (column < d)[None, :])
