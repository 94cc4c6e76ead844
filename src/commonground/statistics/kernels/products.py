"""Rows times a few columns, each by the same additions wherever it stands: a library may round by place, which others decide."""

from typing import Any

import numpy as np
from scipy import sparse

from commonground.compiled import kernel
from commonground.threads import each

ROWS = 1 << 14  # that a thread takes at a time


# Partial sums may be taken side by side: of every row the same ones, as all have the same length.
@kernel(error_model="numpy", fastmath={"reassoc", "contract"})
def _dense_products(X, Wt, products):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        for a in range(Wt.shape[0]):
            total = 0.0
            for c in range(X.shape[1]):
                total += X[i, c] * Wt[a, c]
            products[i, a] = total


@kernel(error_model="numpy")
def _sparse_products(data, indices, indptr, W, products):  # type: ignore[no-untyped-def]
    for i in range(indptr.shape[0] - 1):
        for a in range(W.shape[1]):
            products[i, a] = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            x = data[at]
            for a in range(W.shape[1]):
                products[i, a] += x * W[indices[at], a]


def chunk_products(X: Any, W: np.ndarray) -> np.ndarray:
    """X W for dense or sparse rows (n, d) and W (d, k): each row from its own numbers, by the same additions; on this thread."""
    W, products = np.asarray(W, dtype=np.float64), np.empty((X.shape[0], W.shape[1]))
    if sparse.issparse(X):
        values = X.data.astype(np.float64, copy=False)
        _sparse_products(values, X.indices, X.indptr, np.ascontiguousarray(W), products)
    else:
        _dense_products(np.ascontiguousarray(X), np.ascontiguousarray(W.T), products)
    return products


def row_products(X: Any, W: np.ndarray) -> np.ndarray:
    """The same on several threads."""
    return np.concatenate(
        each(lambda start: chunk_products(X[start : start + ROWS], W), range(0, max(X.shape[0], 1), ROWS))
    )
