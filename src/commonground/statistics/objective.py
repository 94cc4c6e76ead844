"""The plain least-squares objective of the shared embedding, for the baseline without privacy."""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.statistics.directions import solve_in_place
from commonground.statistics.kernels.chunks import over_chunks


@kernel(error_model="numpy")
def _residuals(X, y, offsets, U, w, local_intercept):  # type: ignore[no-untyped-def]
    """Per person: Xᵀ r and v with r the residual of her least-squares head v, and ‖r‖²; zeros where a number is not finite."""
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    pulled, heads, losses = np.zeros((n, d)), np.zeros((n, k)), np.zeros(n)
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        A, r = np.zeros((m, k)), np.empty(m)
        for i in range(m):
            r[i] = y[lo + i]
            for a in range(d):
                r[i] -= X[lo + i, a] * w[a]
                for c in range(k):
                    A[i, c] += X[lo + i, a] * U[a, c]
        if local_intercept:
            r -= r.mean()
            for c in range(k):
                A[:, c] -= A[:, c].mean()
        gram, v = A.T @ A, A.T @ r
        trace = np.trace(gram)
        for c in range(k):
            gram[c, c] += 1e-9 * trace
        if not solve_in_place(gram, v):
            continue
        r -= A @ v
        loss, g = 0.0, np.zeros(d)
        for i in range(m):
            loss += r[i] * r[i]
            for a in range(d):
                g[a] += r[i] * X[lo + i, a]
        if loss < math.inf and (v * v).sum() * (g * g).sum() < math.inf:
            losses[j], pulled[j], heads[j] = loss, g, v
    return pulled, heads, losses


def loss_and_gradient(
    block: Block, embedding: np.ndarray, mean: np.ndarray, local_intercept: bool
) -> tuple[float, np.ndarray, np.ndarray]:
    """Σ_j min_v ‖y_j − X_j (w₀ + U v)‖² and its gradients in U and w₀.

    The heads are at their minimum, so by the envelope theorem they add nothing to the gradients.
    """
    pulled, heads, losses = over_chunks(
        block, lambda some: _residuals(some.X, some.y, some.offsets, embedding, mean, local_intercept)
    )
    return float(losses.sum()), -2.0 * pulled.T @ heads, -2.0 * pulled.sum(axis=0)
