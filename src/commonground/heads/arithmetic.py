"""Sums in an order of their own: what a person's head and predictions are computed by.

A head may depend on the billboard and on her own rows, bit by bit. A matrix product over a block rounds by where a row stands in
it, and so by how many rows the people before her have; the libraries behind it also by memory and threads. So everything
here adds up in one fixed order, one row and one person at a time, compiled without any licence to reorder. Nothing raises:
what is too large or too small for floats is reported to the caller, which answers for that person in another way.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse

from commonground.compiled import kernel
from commonground.threads import each

_ROWS = 1 << 14  # that a thread answers at a time
_FAR = 300  # binary orders of magnitude beyond which squares come near the ends of the float range
_NULL = 1e-13  # of the mean eigenvalue: collinear rows must not divide by zero
_SWEEPS = 40  # of plane rotations; fewer than ten are needed


# ---- rows ------------------------------------------------------------------------------------------------------------


def coefficients(mean: np.ndarray, U: np.ndarray, head: np.ndarray) -> np.ndarray:
    """mean + U · head, one product after another."""
    coef = np.array(mean, dtype=np.float64)
    for a in range(len(head)):
        coef += U[:, a] * head[a]
    return coef


@kernel(error_model="numpy")
def _dense_scores(X, mean, U, heads, own, head_of, own_of, scores):  # type: ignore[no-untyped-def]
    n, d = X.shape
    for i in range(n):
        head, alone, score = head_of[i], own_of[i], 0.0
        for c in range(d):
            coef = own[alone, c] if alone >= 0 else mean[c]
            if alone < 0 and head >= 0:
                for a in range(U.shape[1]):
                    coef += U[c, a] * heads[head, a]
            score += np.float64(X[i, c]) * coef
        scores[i] = score


@kernel(error_model="numpy")
def _sparse_scores(data, indices, indptr, mean, U, heads, own, head_of, own_of, scores):  # type: ignore[no-untyped-def]
    for i in range(indptr.shape[0] - 1):
        head, alone, score = head_of[i], own_of[i], 0.0
        for at in range(indptr[i], indptr[i + 1]):
            c = indices[at]
            coef = own[alone, c] if alone >= 0 else mean[c]
            if alone < 0 and head >= 0:
                for a in range(U.shape[1]):
                    coef += U[c, a] * heads[head, a]
            score += np.float64(data[at]) * coef
        scores[i] = score


def row_scores(
    X: Any, mean: np.ndarray | None, U: np.ndarray, heads: np.ndarray, head_of: np.ndarray, own: np.ndarray, own_of: np.ndarray
) -> np.ndarray:  # fmt: skip
    """<x, mean + U · head> for each row by the head that ``head_of`` names (-1: none); <x, own> where ``own_of`` names one."""
    w = np.zeros(X.shape[1]) if mean is None else np.ascontiguousarray(mean, dtype=np.float64)
    U, heads, own = (np.ascontiguousarray(array, dtype=np.float64) for array in (U, heads, own))
    whose = [np.ascontiguousarray(people, dtype=np.int64) for people in (head_of, own_of)]
    X = X if sparse.issparse(X) else np.ascontiguousarray(X)
    scores = np.empty(X.shape[0])

    def answer(start: int) -> None:
        some = slice(start, start + _ROWS)
        rows, asked = X[some], (w, U, heads, own, *(people[some] for people in whose), scores[some])
        if sparse.issparse(X):
            _sparse_scores(rows.data, rows.indices, rows.indptr, *asked)
        else:
            _dense_scores(rows.astype(np.float64, copy=False), *asked)

    each(answer, range(0, len(scores), _ROWS))
    return scores


def shared_scores(X: Any, coef: np.ndarray | None, intercept: float) -> np.ndarray:
    """<x, coef> + intercept for each row; the intercept alone without coefficients."""
    nobody = np.full(X.shape[0], -1)
    nothing = np.zeros((0, 0))
    with np.errstate(over="ignore", invalid="ignore"):  # a huge row has a huge answer
        return np.asarray(row_scores(X, coef, np.zeros((X.shape[1], 0)), nothing, nobody, nothing, nobody) + intercept)


# ---- one person ------------------------------------------------------------------------------------------------------


@kernel(error_model="numpy")
def rescale(values):  # type: ignore[no-untyped-def]
    """Divide by 2^e where squares would be too large or too small, in place; returns e (0 for usual numbers), and whether finite.

    A power of two changes no digit.
    """
    flat, largest = values.ravel(), 0.0
    for i in range(flat.shape[0]):
        if not abs(flat[i]) < math.inf:
            return 0, False
        largest = max(largest, abs(flat[i]))
    exponent = math.frexp(largest)[1]
    if largest == 0.0 or abs(exponent) < _FAR:
        return 0, True
    for i in range(flat.shape[0]):
        flat[i] = math.ldexp(flat[i], -exponent)
    return exponent, True


@kernel(error_model="numpy")
def centre(A, r, means):  # type: ignore[no-untyped-def]
    """Take the columns' means from A, into ``means``, and r's from r; returns the latter."""
    m, k = A.shape
    level = 0.0
    for i in range(m):
        level += r[i]
        for c in range(k):
            means[c] += A[i, c]
    level /= m
    for c in range(k):
        means[c] /= m
    for i in range(m):
        r[i] -= level
        for c in range(k):
            A[i, c] -= means[c]
    return level


@kernel(error_model="numpy")
def gram_of(A):  # type: ignore[no-untyped-def]
    """The lower half of AᵀA."""
    m, k = A.shape
    gram = np.zeros((k, k))
    for i in range(m):
        for a in range(k):
            x = A[i, a]
            for b in range(a + 1):
                gram[a, b] += x * A[i, b]
    return gram


@kernel(error_model="numpy")
def factor(gram, ridge, L):  # type: ignore[no-untyped-def]
    """Cholesky's L of gram + ridge, from lower halves; False where there is none."""
    size = gram.shape[0]
    for c in range(size):
        for q in range(c, size):
            L[q, c] = gram[q, c]
        L[c, c] += ridge
        for b in range(c):
            x = L[c, b]
            for q in range(c, size):
                L[q, c] -= L[q, b] * x
        if not (L[c, c] > 0.0 and L[c, c] < math.inf):
            return False
        L[c, c] = math.sqrt(L[c, c])
        for q in range(c + 1, size):
            L[q, c] /= L[c, c]
    return True


@kernel(error_model="numpy")
def forward(L, x):  # type: ignore[no-untyped-def]
    """L⁻¹ x, in place."""
    for c in range(x.shape[0]):
        for b in range(c):
            x[c] -= L[c, b] * x[b]
        x[c] /= L[c, c]


@kernel(error_model="numpy")
def backward(L, x):  # type: ignore[no-untyped-def]
    """L⁻ᵀ x, in place."""
    for c in range(x.shape[0] - 1, -1, -1):
        for b in range(c + 1, x.shape[0]):
            x[c] -= L[b, c] * x[b]
        x[c] /= L[c, c]


@kernel(error_model="numpy")
def factor_of_any(gram, ridge, mean_eigenvalue, L):  # type: ignore[no-untyped-def]
    """L of gram + ridge, of a little more where rows are collinear; False where nothing helps."""
    little = _NULL * mean_eigenvalue
    for _ in range(5):
        if factor(gram, ridge + little, L):
            return True
        little *= 100.0  # as little as rounding asks for
    return False


@kernel(error_model="numpy")
def least_squares(A, b, v):  # type: ignore[no-untyped-def]
    """The shortest v that minimises ‖A v − b‖, by plane rotations of A's columns (Hestenes); A (m, k) and b are of usual size."""
    m, k = A.shape
    W, V = np.empty((k, m)), np.zeros((k, k))
    for c in range(k):
        V[c, c] = 1.0
        for i in range(m):
            W[c, i] = A[i, c]
    for _ in range(_SWEEPS):
        at_rest = True
        for p in range(k - 1):
            for q in range(p + 1, k):
                alpha, beta, gamma = 0.0, 0.0, 0.0
                for i in range(m):
                    alpha += W[p, i] * W[p, i]
                    beta += W[q, i] * W[q, i]
                    gamma += W[p, i] * W[q, i]
                if not abs(gamma) > 1e-15 * math.sqrt(alpha) * math.sqrt(beta):
                    continue
                at_rest = False
                zeta = (beta - alpha) / (2.0 * gamma)
                t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
                cosine = 1.0 / math.sqrt(1.0 + t * t)
                sine = cosine * t
                for i in range(m):
                    W[p, i], W[q, i] = cosine * W[p, i] - sine * W[q, i], sine * W[p, i] + cosine * W[q, i]
                for a in range(k):
                    V[p, a], V[q, a] = cosine * V[p, a] - sine * V[q, a], sine * V[p, a] + cosine * V[q, a]
        if at_rest:
            break
    v[:] = 0.0
    squares = np.zeros(k)
    for c in range(k):
        for i in range(m):
            squares[c] += W[c, i] * W[c, i]
    smallest = (max(m, k) * 2.2e-16) ** 2 * squares.max()  # what is shorter is rounding
    for c in range(k):
        if squares[c] > smallest:
            along = 0.0
            for i in range(m):
                along += W[c, i] * b[i]
            for a in range(k):
                v[a] += along / squares[c] * V[c, a]


@kernel(error_model="numpy")
def shorten(heads, length):  # type: ignore[no-untyped-def]
    """Bring longer heads to this norm, in place."""
    for j in range(heads.shape[0]):
        largest, total = 0.0, 0.0
        for a in range(heads.shape[1]):
            largest = max(largest, abs(heads[j, a]))
        if not (largest > 0.0 and largest < math.inf):
            continue
        for a in range(heads.shape[1]):
            total += (heads[j, a] / largest) ** 2
        factor_down = length / largest / math.sqrt(total)
        if factor_down < 1.0:
            for a in range(heads.shape[1]):
                heads[j, a] *= factor_down
