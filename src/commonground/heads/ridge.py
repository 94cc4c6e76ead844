"""Ridge heads: each person's coefficients on the shared embedding, her ridge strength chosen on her own rows.

Given the billboard, a person's head reads nobody's rows but her own, so every choice here is free of budget. With more
rows than coefficients the strength is k σ̂²/‖v̂‖² (Hoerl, Kennard and Baldwin): next to nothing when her rows fit well, strong
when they are noise. With fewer there is no residual to judge by, and the strength is picked from a grid by leave-one-out
error, exact through the hat matrix. So everybody gets a head, also with a single row; a person with numbers too large or too
small for one keeps the shared prediction.

Where the billboard has a prior, a ridge matrix Λ that suits people in general, heads are solved for in the coordinates in which
it is the identity. People with too few rows to judge by take its strength, one; others take a mixture of it and their own.
"""

import math
from dataclasses import replace

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.errors import InputError
from commonground.heads.arithmetic import backward, centre, factor, factor_of_any, forward, gram_of, rescale
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.products import row_products

# Relative to the mean eigenvalue of a person's own Gram matrix; a larger strength must lower the error by a twentieth.
STRENGTHS = np.array([1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4])
_WORTHWHILE = 0.95
_PRIOR_ROWS = 4  # what the prior's strength counts for, against a person's rows beyond k


@kernel(error_model="numpy")
def leave_one_out_ridge(K, r, base_leverage, candidates):  # type: ignore[no-untyped-def]
    """The candidate s with the smallest sum of squared leave-one-out residuals, given K = A Aᵀ (its lower half).

    With C = (K + s)⁻¹ the residuals are s C r, and 1 − leverage is the diagonal of s C less what the intercept takes.
    """
    m = r.shape[0]
    best, chosen = math.inf, candidates[-1]
    L, residual, column = np.empty((m, m)), np.empty(m), np.empty(m)
    for s in range(candidates.shape[0]):
        if not factor(K, candidates[s], L):
            continue
        residual[:] = r
        forward(L, residual)
        backward(L, residual)
        error = 0.0
        for i in range(m):
            free = 0.0  # the i-th diagonal of C: the squared norm of column i of L⁻¹
            for c in range(i, m):
                column[c] = 1.0 if c == i else 0.0
                for b in range(i, c):
                    column[c] -= L[c, b] * column[b]
                column[c] /= L[c, c]
                free += column[c] * column[c]
            free = candidates[s] * free - base_leverage
            error += (candidates[s] * residual[i] / free) ** 2 if free > 1e-9 else math.inf
        if error < best * (_WORTHWHILE if best < math.inf else 1.0):
            best, chosen = error, candidates[s]
    return chosen


@kernel(error_model="numpy")
def ridge_in_place(A, r, local_intercept, given, has_prior, exponent, strengths, v):  # type: ignore[no-untyped-def]
    """One person's ridge coefficients ``v`` and intercept on rows A (m, k) and labels r, both of usual size, both used up.

    ``given`` is the strength, or negative: then it is chosen, with a prior (for A · 2^exponent) or without. Returns the
    intercept and the strength.
    """
    m, k = A.shape
    v[:] = 0.0
    if m == 0:
        return 0.0, given
    means = np.zeros(k)
    intercept = centre(A, r, means) if local_intercept else 0.0
    energy = 0.0
    for i in range(m):
        for c in range(k):
            energy += A[i, c] * A[i, c]
    if m - local_intercept < 1 or not energy > 0.0:
        return intercept, given
    dof, mean_eigenvalue, ridge = m - k - local_intercept, energy / k, given
    dual = dof <= 0  # A Aᵀ is then the smaller matrix, and has the same non-zero eigenvalues as Aᵀ A
    rows = np.ascontiguousarray(A.T) if dual else A
    gram = gram_of(rows)
    size = gram.shape[0]
    L = np.empty((size, size))
    right = np.zeros(size)
    if dual:
        right[:] = r
    else:
        for i in range(m):
            for c in range(k):
                right[c] += A[i, c] * r[i]
    if ridge < 0.0 and dof > 0:
        if not factor_of_any(gram, 0.0, mean_eigenvalue, L):
            return intercept, given
        v[:] = right
        forward(L, v)
        backward(L, v)
        noise, signal = 0.0, 0.0
        for i in range(m):
            residual = r[i]
            for c in range(k):
                residual -= A[i, c] * v[c]
            noise += residual * residual
        for c in range(k):
            signal += v[c] * v[c]
        ridge = k * (noise / dof) / signal if signal > 0.0 else mean_eigenvalue
        if has_prior:  # in the prior's own unit, which is one
            share = dof / (dof + _PRIOR_ROWS)
            ridge = ridge**share * 2.0 ** (2.0 * exponent * (share - 1.0))
    elif ridge < 0.0 and has_prior:
        ridge = math.ldexp(1.0, -2 * exponent)
    elif ridge < 0.0 and m == 1:  # nothing is left when one is left out: believe half of it
        ridge = energy
    elif ridge < 0.0:
        ridge = leave_one_out_ridge(gram, r, 1.0 / m if local_intercept else 0.0, strengths * mean_eigenvalue)
    v[:] = 0.0
    if not (ridge < math.inf and factor_of_any(gram, ridge, mean_eigenvalue, L)):
        return intercept, ridge
    forward(L, right)
    backward(L, right)
    if dual:  # v = Aᵀ (A Aᵀ + ridge)⁻¹ r
        for i in range(m):
            for c in range(k):
                v[c] += A[i, c] * right[i]
    else:
        v[:] = right
    for c in range(k):
        intercept -= means[c] * v[c]
    return intercept, ridge


@kernel(error_model="numpy")
def back_to_scale(v, intercept, rows_exponent, labels_exponent):  # type: ignore[no-untyped-def]
    """Undo ``rescale`` in place; returns the intercept and whether all is finite."""
    finite = True
    for c in range(v.shape[0]):
        v[c] = math.ldexp(v[c], labels_exponent - rows_exponent)
        finite = finite and abs(v[c]) < math.inf
    intercept = math.ldexp(intercept, labels_exponent)
    return intercept, finite and abs(intercept) < math.inf


@kernel(error_model="numpy")
def seen_by_the_shared_part(X, y, U, w, shared_intercept, A, r):  # type: ignore[no-untyped-def]
    """Her rows' coordinates A = X U, and what the shared prediction leaves of her labels."""
    for i in range(X.shape[0]):
        score = 0.0
        for c in range(X.shape[1]):
            x = np.float64(X[i, c])
            score += x * w[c]
            for a in range(U.shape[1]):
                A[i, a] += x * U[c, a]
        r[i] = y[i] - (score + shared_intercept)


@kernel(error_model="numpy")
def _fit_one(X, y, U, w, intercepts, L, strengths, head):  # type: ignore[no-untyped-def]
    """One person's head, in place; returns her intercept. Where there is none that is finite, both are zero."""
    shared_intercept, local_intercept = intercepts
    A, r = np.zeros((X.shape[0], U.shape[1])), np.empty(X.shape[0])
    seen_by_the_shared_part(X, y, U, w, shared_intercept, A, r)
    rows_exponent, rows_finite = rescale(A)
    labels_exponent, labels_finite = rescale(r)
    has_prior = L.shape[0] > 0
    intercept, finite = 0.0, rows_finite and labels_finite
    if finite:
        intercept, _ = ridge_in_place(A, r, local_intercept, -1.0, has_prior, rows_exponent, strengths, head)
        if has_prior:
            backward(L, head)
        intercept, finite = back_to_scale(head, intercept, rows_exponent, labels_exponent)
    if not finite:
        head[:] = 0.0
        return 0.0
    return intercept


@kernel(error_model="numpy")
def _fit(X, y, offsets, U, w, intercepts, L, strengths):  # type: ignore[no-untyped-def]
    n = offsets.shape[0] - 1
    heads, own = np.zeros((n, U.shape[1])), np.zeros(n)
    for j in range(n):
        mine = slice(offsets[j], offsets[j + 1])
        own[j] = _fit_one(X[mine], y[mine], U, w, intercepts, L, strengths, heads[j])
    return heads, own


def in_coordinates_of(prior: np.ndarray | None, embedding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The embedding in coordinates in which the prior Λ = L Lᵀ is the identity, U L⁻ᵀ; and L, of size 0 without a prior."""
    U = np.array(embedding, dtype=np.float64, order="C")
    if prior is None:
        return U, np.zeros((0, 0))
    L = np.zeros(prior.shape)
    if not factor(np.ascontiguousarray(prior, dtype=np.float64), 0.0, L):
        raise InputError("the billboard's prior for heads is not a positive definite matrix. Get a fresh copy.")
    for row in U:
        forward(L, row)
    return U, L


def fit_heads(
    block: Block,
    embedding: np.ndarray,
    mean: np.ndarray | None,
    shared_intercept: float,
    local_intercept: bool,
    prior: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(people, k) heads and (people,) local intercepts, the latter on top of the shared one."""
    if embedding.shape[1] == 0:  # one model for everybody: no heads to fit
        return np.zeros((block.n_users, 0)), np.zeros(block.n_users)
    w = np.zeros(block.X.shape[1]) if mean is None else np.ascontiguousarray(mean, dtype=np.float64)
    U, L = in_coordinates_of(prior, embedding)
    if block.sparse:  # the same, on k + 1 dense features: her rows' coordinates, and what the shared mean predicts
        k = U.shape[1]
        block = replace(block, X=row_products(block.X, np.column_stack([U, w])))
        U, w = np.eye(k + 1, k), np.eye(k + 1)[k]
    intercepts = float(shared_intercept), int(local_intercept)
    how = U, w, intercepts, L, STRENGTHS
    heads, own = over_chunks(block, lambda some: _fit(some.X, some.y, some.offsets, *how))
    return heads, own
