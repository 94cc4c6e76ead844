"""The papers' heads: from the second half of a person's rows, as the first half has had its say in the embedding."""

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.heads.arithmetic import least_squares, rescale
from commonground.heads.ridge import back_to_scale
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.margins import best_head, signed_projections


@kernel(error_model="numpy")
def _least_squares_heads(X, y, offsets, U):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    heads = np.zeros((n, k))
    for j in range(n):
        hi = offsets[j + 1]
        lo = offsets[j] + (hi - offsets[j]) // 2
        A, labels = np.zeros((hi - lo, k)), np.empty(hi - lo)
        for i in range(hi - lo):
            labels[i] = y[lo + i]
            for c in range(d):
                for q in range(k):
                    A[i, q] += X[lo + i, c] * U[c, q]
        rows_exponent, rows_finite = rescale(A)
        labels_exponent, labels_finite = rescale(labels)
        if rows_finite and labels_finite:  # not by LAPACK, which raises and whose rounding is its own
            least_squares(A, labels, heads[j])
            if not back_to_scale(heads[j], 0.0, rows_exponent, labels_exponent)[1]:
                heads[j] = 0.0
    return heads


def second_half_heads(block: Block, U: np.ndarray) -> np.ndarray:
    """Plain least squares on each person's second half of rows (P2 Alg. 1, line 14; P1 Alg. 4, line 4)."""
    return np.asarray(over_chunks(block, lambda some: _least_squares_heads(some.X, some.y, some.offsets, U)))


@kernel()
def _margin_heads(X, y, offsets, P, length, radius):  # type: ignore[no-untyped-def]
    n, k = offsets.shape[0] - 1, P.shape[0]
    heads = np.zeros((n, k))
    for j in range(n):
        lo = offsets[j] + (offsets[j + 1] - offsets[j]) // 2
        best_head(signed_projections(X, y, lo, offsets[j + 1], P, radius), 0.0, length, heads[j])
    return heads


def second_half_margin_heads(block: Block, P: np.ndarray, length: float, radius: float) -> np.ndarray:
    """For each person the head of norm ``length`` with the fewest errors on the second half of her rows (P2 Alg. 3, line 6)."""

    def of_chunk(some: Block) -> np.ndarray:
        return np.asarray(_margin_heads(some.X, some.y, some.offsets, P, length, radius))

    return np.asarray(over_chunks(block, of_chunk, doubles=False, enlarge=False))
