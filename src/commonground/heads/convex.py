"""Heads for other losses than the square: logistic for yes-or-no labels, Huber's for labels with outliers.

Like ridge heads these are functions of the billboard and of a person's own rows, so every choice here is free of budget.
"""

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.losses import LOSSES, NUMBERS
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.convex_head import convex_head


@kernel(error_model="numpy")
def _fit_one(X, y, U, w, intercepts, loss, head):  # type: ignore[no-untyped-def]
    """One person's head, in place; returns her intercept. Where there is none, both stay zero."""
    (m, d), k = X.shape, U.shape[1]
    shared_intercept, local_intercept = intercepts
    A, labels, offset, score, v = np.zeros((m, k)), np.empty(m), np.empty(m), np.empty(m), np.empty(k)
    for i in range(m):
        labels[i], offset[i] = y[i], shared_intercept
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


@kernel()
def _fit(X, y, offsets, U, w, intercepts, loss):  # type: ignore[no-untyped-def]
    n = offsets.shape[0] - 1
    heads, own = np.zeros((n, U.shape[1])), np.zeros(n)
    for j in range(n):
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
    """(people, k) heads and (people,) local intercepts; for log-odds a label above zero is a yes."""
    w = np.zeros(block.X.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64)
    U, intercepts = np.ascontiguousarray(embedding, dtype=np.float64), (float(shared_intercept), int(local_intercept))
    how = U, w, intercepts, NUMBERS[loss]
    seen = block.signed if LOSSES[loss].log_odds else block
    heads, own = over_chunks(seen, lambda some: _fit(some.X, some.y, some.offsets, *how))
    return heads, own
