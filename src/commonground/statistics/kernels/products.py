"""Rows times a few columns, each by the same additions wherever it stands: a library may round by place, which others decide."""

from typing import Any

import numpy as np
from scipy import sparse

from commonground.compiled import kernel
from commonground.threads import each

ROWS = 1 << 14  # that a thread takes at a time


@kernel(error_model="numpy")
def _dense_products(X, W, products):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        for a in range(W.shape[1]):
            products[i, a] = 0.0
        for c in range(X.shape[1]):
            x = X[i, c]
            for a in range(W.shape[1]):
                products[i, a] += x * W[c, a]


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
    """X W for dense or sparse rows (n, d) and W (d, k): each row from its own numbers, column after column; on this thread."""
    W, products = np.ascontiguousarray(W, dtype=np.float64), np.empty((X.shape[0], W.shape[1]))
    if sparse.issparse(X):
        _sparse_products(X.data.astype(np.float64, copy=False), X.indices, X.indptr, W, products)
    else:
        _dense_products(X.astype(np.float64, copy=False), W, products)
    return products


def row_products(X: Any, W: np.ndarray) -> np.ndarray:
    """The same on several threads."""
    return np.concatenate(
        each(lambda start: chunk_products(X[start : start + ROWS], W), range(0, max(X.shape[0], 1), ROWS))
    )
