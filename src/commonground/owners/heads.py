"""Owners' own coefficients x_j beside the shared u (P4, convex): functions of u and of one owner's rows, in fixed order."""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.heads.arithmetic import rescale
from commonground.heads.ridge import STRENGTHS, back_to_scale, ridge_in_place
from commonground.threads import each

_ROWS = 16384  # that one thread answers at a time


@kernel(error_model="numpy")
def _ridge_change(X, y, towards, ridge, strengths, change):  # type: ignore[no-untyped-def]
    A, r = X.copy(), np.empty(len(y))
    for i in range(len(y)):
        score = 0.0
        for c in range(len(towards)):
            score += X[i, c] * towards[c]
        r[i] = y[i] - score
    rows_exponent, rows_finite = rescale(A)
    labels_exponent, labels_finite = rescale(r)
    finite = rows_finite and labels_finite
    if finite:
        ridge_in_place(A, r, 0, math.ldexp(ridge, -2 * rows_exponent), False, 0, strengths, change)
        finite = back_to_scale(change, 0.0, rows_exponent, labels_exponent)[1]
    if not finite:
        change[:] = 0.0


def ridge_fit(X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
    """argmin over θ of ½‖y − Xθ‖² + ridge/2 ‖θ − towards‖²; ``towards`` where numbers are too large for one."""
    change = np.zeros(len(towards))
    _ridge_change(np.ascontiguousarray(X, dtype=np.float64), y, towards, float(ridge), STRENGTHS, change)
    return towards + change


@kernel(error_model="numpy")
def cross_entropy(X, y, W):  # type: ignore[no-untyped-def]
    """The sum over rows of the cross-entropy of scores W x with the classes y, and its slope, of W's shape."""
    (m, d), n_classes = X.shape, W.shape[0]
    loss, slope, scores = 0.0, np.zeros_like(W), np.empty(n_classes)
    for i in range(m):
        top, total = -math.inf, 0.0
        for k in range(n_classes):
            scores[k] = 0.0
            for c in range(d):
                scores[k] += X[i, c] * W[k, c]
            top = max(top, scores[k])
        for k in range(n_classes):
            total += math.exp(scores[k] - top)
        loss += top + math.log(total) - scores[y[i]]
        for k in range(n_classes):
            error = math.exp(scores[k] - top) / total - (1.0 if k == y[i] else 0.0)
            for c in range(d):
                slope[k, c] += error * X[i, c]
    return loss, slope


def cross_entropy_fit(X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
    """argmin over flat W of the cross-entropy + ridge/2 ‖W − towards‖²; ``towards`` where numbers are too large for one."""
    from scipy.optimize import minimize  # a tenth of a second to load, and for owners' classes alone

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = cross_entropy(X, y, flat.reshape(-1, X.shape[1]))
        away = flat - towards
        return loss + ridge / 2 * float((away**2).sum()), slope.ravel() + ridge * away

    with np.errstate(all="ignore"):  # numbers too large for exp
        found = minimize(objective, towards, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    return np.asarray(found) if np.isfinite(found).all() else towards.copy()


@kernel(error_model="numpy")
def _scores(X, shared, personal, owner_of):  # type: ignore[no-untyped-def]
    n, n_outputs = X.shape[0], shared.shape[0]
    scores = np.zeros((n, n_outputs))
    for i in range(n):
        owner = owner_of[i]
        for k in range(n_outputs):
            for c in range(X.shape[1]):
                coef = shared[k, c] + personal[owner, k, c] if owner >= 0 else shared[k, c]
                scores[i, k] += X[i, c] * coef
    return scores


def owner_scores(X: np.ndarray, shared: np.ndarray, personal: np.ndarray, owner_of: np.ndarray) -> np.ndarray:
    """(n, outputs): each row by u + x_j of its owner (-1: by u alone), of (outputs, d) and (owners, outputs, d)."""
    X, shared, personal = (np.ascontiguousarray(array) for array in (X, shared, personal))
    pieces = [slice(start, start + _ROWS) for start in range(0, max(len(X), 1), _ROWS)]
    return np.concatenate(each(lambda some: _scores(X[some], shared, personal, owner_of[some]), pieces))
