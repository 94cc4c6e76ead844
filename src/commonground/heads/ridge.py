"""Ridge heads: each person's coefficients on the shared embedding, her ridge strength chosen on her own rows.

Given the billboard, a person's head reads nobody's rows but her own, so every choice here is free of budget. With more
rows than coefficients the strength is k σ̂²/‖v̂‖² (Hoerl, Kennard and Baldwin): next to nothing when her rows fit well, strong
when they are noise. With fewer there is no residual to judge by, and the strength is picked from a grid by leave-one-out
error, exact through the hat matrix. So everybody gets a head, also with a single row.

Where the billboard has a prior, a ridge matrix Λ that suits people in general, heads are solved for in the coordinates in which
it is the identity. Who has too few rows to judge by takes its strength, one; others a mixture of it and their own.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit, prange
from scipy import sparse

from commonground.errors import InputError
from commonground.users import Block

# Relative to the mean eigenvalue of a person's own Gram matrix; a larger strength must lower the error by a twentieth.
STRENGTHS = np.array([1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4])
_WORTHWHILE = 0.95
_PRIOR_ROWS = 4  # what the prior's strength counts for, against a person's rows beyond k
_SMALLEST = 1e-13  # of the mean eigenvalue: collinear rows must not divide by zero


@njit(cache=True)
def leave_one_out_ridge(left, eigenvalues, projected, r, base_leverage, candidates):  # type: ignore[no-untyped-def]
    """The candidate ridge with the smallest sum of squared leave-one-out residuals."""
    best, chosen = math.inf, candidates[-1]
    for s in range(candidates.shape[0]):
        error = 0.0
        for i in range(r.shape[0]):
            leverage, residual = base_leverage, r[i]
            for c in range(eigenvalues.shape[0]):
                kept = left[i, c] * eigenvalues[c] / (eigenvalues[c] + candidates[s])
                leverage += kept * left[i, c]
                residual -= kept * projected[c]
            error += (residual / (1.0 - leverage)) ** 2 if leverage < 1.0 - 1e-9 else math.inf
        if error < best * (_WORTHWHILE if best < math.inf else 1.0):
            best, chosen = error, candidates[s]
    return chosen


@njit(parallel=True, cache=True, nogil=True)
def _fit(X, y, offsets, U, w, shared_intercept, local_intercept, has_prior, strengths):  # type: ignore[no-untyped-def]
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    heads = np.zeros((n, k))
    intercepts = np.zeros(n)
    for j in prange(n):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        A = np.zeros((m, k))
        r = np.empty(m)
        for i in range(m):
            r[i] = y[lo + i] - shared_intercept
            for a in range(d):
                x = np.float64(X[lo + i, a])
                r[i] -= x * w[a]
                for c in range(k):
                    A[i, c] += x * U[a, c]
        column_means = np.zeros(k)
        if local_intercept:
            intercepts[j] = r.mean()
            for c in range(k):
                column_means[c] = A[:, c].mean()
                A[:, c] -= column_means[c]
            r -= intercepts[j]
        dual = m <= k  # the smaller of A Aᵀ and Aᵀ A has the same non-zero eigenvalues
        gram = A @ A.T if dual else A.T @ A
        mean_eigenvalue = np.trace(gram) / k
        if m - local_intercept < 1 or not (mean_eigenvalue > 0.0 and mean_eigenvalue < math.inf):
            continue
        eigenvalues, Q = np.linalg.eigh(gram)
        Q = np.ascontiguousarray(Q)
        for c in range(eigenvalues.shape[0]):
            eigenvalues[c] = max(eigenvalues[c], _SMALLEST * mean_eigenvalue)
        left = Q if dual else (A @ Q) / np.sqrt(eigenvalues)  # left singular vectors of A
        projected = left.T @ r
        dof = m - k - local_intercept
        if dof > 0:
            noise = max((r * r).sum() - (projected * projected).sum(), 0.0) / dof
            signal = (projected * projected / eigenvalues).sum()
            ridge = k * noise / signal if signal > 0.0 else mean_eigenvalue
            if has_prior:
                ridge **= dof / (dof + _PRIOR_ROWS)
        elif has_prior:
            ridge = 1.0
        elif m == 1:  # nothing is left when one is left out: believe half of it
            ridge = np.trace(gram)
        else:
            base_leverage = 1.0 / m if local_intercept else 0.0
            ridge = leave_one_out_ridge(left, eigenvalues, projected, r, base_leverage, strengths * mean_eigenvalue)
        # v = Aᵀ (A Aᵀ + ridge)⁻¹ r, on the span of A's rows
        heads[j] = A.T @ (left @ (projected / (eigenvalues + ridge)))
        if local_intercept:
            for c in range(k):
                intercepts[j] -= column_means[c] * heads[j, c]
    return heads, intercepts


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
    w = np.zeros(block.X.shape[1]) if mean is None else np.asarray(mean, dtype=np.float64)
    U = np.asarray(embedding, dtype=np.float64)
    to_own = np.eye(U.shape[1]) if prior is None else np.linalg.inv(np.linalg.cholesky(prior)).T
    U = U if prior is None else U @ to_own
    if (
        block.sparse
    ):  # the same heads, on k + 1 dense features: her rows' coordinates, and what the shared mean predicts
        k = U.shape[1]
        block = replace(block, X=np.column_stack([block.X @ U, block.X @ w]))
        U, w = np.eye(k + 1, k), np.eye(k + 1)[k]
    heads, intercepts = _fit(
        block.X, block.y, block.offsets, np.ascontiguousarray(U), w, shared_intercept, local_intercept, prior is not None,
        STRENGTHS,
    )  # fmt: skip
    return heads if prior is None else heads @ to_own.T, intercepts


@dataclass(frozen=True)
class Head:
    """One person's own model x → <coef, x> + intercept. Private: it belongs to that person alone."""

    coef: np.ndarray  # (d,) the shared mean plus embedding · own coefficients
    intercept: float
    weights: np.ndarray  # (k,) own coefficients on the embedding

    def __repr__(self) -> str:
        return "<Head: private>"

    def predict(self, X: Any) -> np.ndarray:
        X = X if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        if X.ndim != 2 or X.shape[1] != len(self.coef):
            raise InputError(f"expected rows of {len(self.coef)} features, got an array of shape {X.shape}.")
        return X @ self.coef + self.intercept


def fit_head(
    X: np.ndarray,
    y: np.ndarray,
    embedding: np.ndarray,
    mean: np.ndarray | None,
    shared_intercept: float,
    local_intercept: bool,
) -> Head:
    """One person's head from her own rows."""
    block = Block(np.ascontiguousarray(X), y, np.array([0, len(y)]), first=0)
    heads, intercepts = fit_heads(block, embedding, mean, shared_intercept, local_intercept)
    return head_from(embedding, mean, shared_intercept, heads[0], float(intercepts[0]))


def head_from(
    embedding: np.ndarray, mean: np.ndarray | None, shared_intercept: float, weights: np.ndarray, own_intercept: float
) -> Head:
    """Put shared and own parts together."""
    coef = embedding @ weights + (0.0 if mean is None else mean)
    return Head(coef, shared_intercept + own_intercept, weights)
