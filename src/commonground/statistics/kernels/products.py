"""Rows times a few columns, each by the same additions wherever it stands: a library may round by place, which others decide."""

from typing import Any

import numpy as np
from numba import njit, prange
from scipy import sparse


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _dense_products(X, W):  # type: ignore[no-untyped-def]
    products = np.zeros((X.shape[0], W.shape[1]))
    for i in prange(X.shape[0]):
        for c in range(X.shape[1]):
            x = np.float64(X[i, c])
            for a in range(W.shape[1]):
                products[i, a] += x * W[c, a]
    return products


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _sparse_products(data, indices, indptr, W):  # type: ignore[no-untyped-def]
    products = np.zeros((indptr.shape[0] - 1, W.shape[1]))
    for i in prange(indptr.shape[0] - 1):
        for at in range(indptr[i], indptr[i + 1]):
            x = np.float64(data[at])
            for a in range(W.shape[1]):
                products[i, a] += x * W[indices[at], a]
    return products


def row_products(X: Any, W: np.ndarray) -> np.ndarray:
    """X W for dense or sparse rows (n, d) and W (d, k): each row from its own numbers, column after column."""
    W = np.ascontiguousarray(W, dtype=np.float64)
    if sparse.issparse(X):
        return _sparse_products(X.data, X.indices, X.indptr, W)
    return _dense_products(X, W)
