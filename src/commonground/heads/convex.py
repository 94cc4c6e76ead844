"""Heads for other losses than the square: logistic for yes-or-no labels, Huber's for labels with outliers.

Like ridge heads these are functions of the billboard and of a person's own rows, so every choice here is free of budget.
"""

import math

import numpy as np
from numba import njit, prange

from commonground.data.users import Block
from commonground.losses import HUBER, LOGISTIC, LOSSES
from commonground.statistics.directions import solve_in_place

_NEWTON_STEPS = 12
# Of the mean squared projected feature: an own log-odds of about ±1.4 per direction is expected. Rows that can be separated
# would otherwise have infinite heads.
_LOGISTIC_RIDGE = 0.5
_HUBER_RIDGE = 1e-6
_HUBER_CORNER = 1.345 * 1.4826  # median absolute residuals: 95 % efficient for Gaussian noise


@njit(cache=True, error_model="numpy")
def pull(loss, label, score, corner):  # type: ignore[no-untyped-def]
    """−dℓ/dscore: how strongly one row asks for a larger score."""
    if loss == LOGISTIC:  # label ±1
        return label / (1.0 + math.exp(min(label * score, 700.0)))
    return min(max(label - score, -corner), corner)


@njit(cache=True, error_model="numpy")
def convex_head(A, labels, offset, m, local_intercept, loss, v, score):  # type: ignore[no-untyped-def]
    """Minimise the loss over (v, intercept) by Newton steps; scores of the m rows in ``score``.

    ``offset`` is what the shared part predicts. Returns (intercept, corner of Huber's loss, whether all is finite).
    """
    k = v.shape[0]
    size = k + local_intercept
    hessian, step = np.empty((size, size)), np.empty(size)
    trace = 0.0
    for i in range(m):
        for a in range(k):
            trace += A[i, a] * A[i, a]
    if not (trace > 0.0 and trace < math.inf):
        return 0.0, 0.0, False
    ridge = (_LOGISTIC_RIDGE if loss == LOGISTIC else _HUBER_RIDGE * m) * trace / (m * k)
    v[:] = 0.0
    intercept, corner = 0.0, math.inf
    for i in range(m):
        score[i] = offset[i]
    for _ in range(_NEWTON_STEPS):
        hessian[:] = 0.0
        step[:] = 0.0
        for i in range(m):
            if loss == LOGISTIC:
                p = 1.0 / (1.0 + math.exp(min(max(-score[i], -700.0), 700.0)))
                curvature = max(p * (1.0 - p), 1e-3)
            else:  # reweighting: a majoriser, so every step goes down
                curvature = min(1.0, corner / max(abs(labels[i] - score[i]), 1e-300))
            g = pull(loss, labels[i], score[i], corner)
            for a in range(size):
                left = A[i, a] if a < k else 1.0
                step[a] += left * g
                for b in range(a + 1):
                    hessian[a, b] += curvature * left * (A[i, b] if b < k else 1.0)
        for a in range(size):
            if a < k:
                step[a] -= ridge * v[a]
            hessian[a, a] += ridge if a < k else 1e-9 * m
        if not solve_in_place(hessian, step):
            return 0.0, 0.0, False
        for a in range(k):
            v[a] += step[a]
        if local_intercept:
            intercept += step[k]
        for i in range(m):
            score[i] = offset[i] + intercept
            for a in range(k):
                score[i] += A[i, a] * v[a]
        if loss == HUBER:
            corner = _HUBER_CORNER * np.median(np.abs(labels[:m] - score[:m])) + 1e-300
    return intercept, corner, math.isfinite(v.sum() + intercept)


@njit(cache=True, nogil=True, error_model="numpy")
def _fit_one(X, y, U, w, intercepts, loss, head):  # type: ignore[no-untyped-def]
    """One person's head, in place; returns her intercept. Where there is none, both stay zero."""
    (m, d), k = X.shape, U.shape[1]
    shared_intercept, local_intercept = intercepts
    A, labels, offset, score, v = np.zeros((m, k)), np.empty(m), np.empty(m), np.empty(m), np.empty(k)
    for i in range(m):
        labels[i], offset[i] = y[i], shared_intercept
        if loss == LOGISTIC:
            labels[i] = 1.0 if labels[i] > 0.0 else -1.0
        for c in range(d):
            x = np.float64(X[i, c])
            offset[i] += x * w[c]
            for a in range(k):
                A[i, a] += x * U[c, a]
    intercept, _, finite = convex_head(A, labels, offset, m, local_intercept, loss, v, score)
    if not finite:
        return 0.0
    head[:] = v
    return intercept


@njit(parallel=True, cache=True, nogil=True)
def _fit(X, y, offsets, U, w, intercepts, loss):  # type: ignore[no-untyped-def]
    n = offsets.shape[0] - 1
    heads, own = np.zeros((n, U.shape[1])), np.zeros(n)
    for j in prange(n):
        mine = slice(offsets[j], offsets[j + 1])
        own[j] = _fit_one(X[mine], y[mine], U, w, intercepts, loss, heads[j])
    return heads, own


def fit_convex_heads(
    block: Block,
    embedding: np.ndarray,
    mean: np.ndarray | None,
    shared_intercept: float,
    local_intercept: bool,
    loss: str,
) -> tuple[np.ndarray, np.ndarray]:
    """(people, k) heads and (people,) local intercepts; for the logistic loss a label above zero is a yes."""
    w = np.zeros(block.X.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64)
    X, y = np.asarray(block.X, dtype=np.float64), np.asarray(block.y, dtype=np.float64)
    return _fit(
        X, y, block.offsets, np.ascontiguousarray(embedding, dtype=np.float64), w,
        (shared_intercept, int(local_intercept)), LOSSES.index(loss),
    )  # fmt: skip
