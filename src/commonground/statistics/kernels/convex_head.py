"""Convex losses other than the square: their formulas, and the head of one person that minimises the loss of her rows.

Shared by what people send (``convex_gradients``) and by the heads they keep (``heads.convex``).
"""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.losses import HUBER, LOGISTIC
from commonground.statistics.kernels.linear import solve_in_place

_NEWTON_STEPS = 12
# Of the mean squared projected feature: an own log-odds of about ±1.4 per direction is expected. Rows that can be separated
# would otherwise have infinite heads.
_LOGISTIC_RIDGE = 0.5
_RIDGE = 1e-6  # of other losses, for each row
_HUBER_CORNER = 1.345 * 1.4826  # median absolute residuals: 95 % efficient for Gaussian noise


@kernel(error_model="numpy")
def pull(loss, label, score, corner):  # type: ignore[no-untyped-def]
    """−dℓ/dscore: how strongly one row asks for a larger score."""
    if loss == LOGISTIC:  # label ±1
        return label / (1.0 + math.exp(min(label * score, 700.0)))
    return min(max(label - score, -corner), corner)


@kernel(error_model="numpy")
def _curvature(loss, label, score, corner):  # type: ignore[no-untyped-def]
    """d²ℓ/dscore², or the curvature of a parabola above the loss."""
    if loss == LOGISTIC:
        p = 1.0 / (1.0 + math.exp(min(max(-score, -700.0), 700.0)))
        return max(p * (1.0 - p), 1e-3)
    return min(1.0, corner / max(abs(label - score), 1e-300))  # reweighting: a majoriser, so every step goes down


@kernel(error_model="numpy")
def _corner_among(loss, labels, score):  # type: ignore[no-untyped-def]
    """From which residual on rows are outliers; infinite for losses that know none."""
    if loss == HUBER:
        return _HUBER_CORNER * np.median(np.abs(labels - score)) + 1e-300
    return math.inf


@kernel(error_model="numpy")
def convex_head(A, labels, offset, m, local_intercept, loss, v, score):  # type: ignore[no-untyped-def]
    """Minimise the loss over (v, intercept) by Newton steps; scores of the m rows in ``score``.

    ``offset`` is what the shared part predicts. Returns (intercept, corner of the loss, whether all is finite).
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
    ridge = (_LOGISTIC_RIDGE if loss == LOGISTIC else _RIDGE * m) * trace / (m * k)
    v[:] = 0.0
    intercept, corner = 0.0, math.inf
    for i in range(m):
        score[i] = offset[i]
    for _ in range(_NEWTON_STEPS):
        hessian[:] = 0.0
        step[:] = 0.0
        for i in range(m):
            curvature = _curvature(loss, labels[i], score[i], corner)
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
        corner = _corner_among(loss, labels[:m], score[:m])
    return intercept, corner, math.isfinite(v.sum() + intercept)
