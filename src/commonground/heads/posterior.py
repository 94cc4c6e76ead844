"""Posterior heads: what the billboard says of people in general, and a person's own rows, weighed against each other.

With no rows a head is the shared prediction, with few it is pulled to it, with many it is least squares: the posterior mean of
her own part given the released prior (``statistics.kernels.posterior``). It is a function of the billboard and of her rows,
summed in one fixed order; who has numbers too large or too small for it keeps the shared prediction. What is not known about her part,
the posterior's covariance, gives the intervals of her predictions.
"""

import numpy as np
from numba import njit, prange

from commonground.data.users import Block
from commonground.statistics.kernels.posterior import posterior_in_place, prior_factor
from commonground.statistics.kernels.products import row_products

# Rows that the common noise counts for against a person's own residuals. Chosen on half of Jester: 100 and more cost nothing
# there, 30 costs 0.03 %; and a person with one wild label needs it small.
NOISE_ROWS = 100.0


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _fit(products, y, offsets, own_intercept, intercept, L, noise, noise_rows):  # type: ignore[no-untyped-def]
    """Everybody's part h, the lower half of its covariance row by row, and her noise; ``products``: X (U, w₀)."""
    n, q = offsets.shape[0] - 1, L.shape[0]
    k = q - own_intercept
    parts, doubts, noises = np.zeros((n, q)), np.zeros((n, q * (q + 1) // 2)), np.full(n, noise)
    for j in prange(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        W, r = np.zeros((m, q)), np.empty(m)
        for i in range(m):
            r[i] = y[lo + i] - (products[lo + i, k] + intercept)
            for c in range(q):
                for b in range(c, q):
                    z = 1.0 if b < own_intercept else products[lo + i, b - own_intercept]
                    W[i, c] += z * L[b, c]
        factor, inverse, xi = np.empty((q, q)), np.empty((q, q)), np.empty(q)
        own = posterior_in_place(W, r, m, noise, noise_rows, factor, inverse, xi)
        if np.isnan(own):  # the prior alone
            xi[:] = 0.0
            inverse[:] = 0.0
            for c in range(q):
                inverse[c, c] = 1.0
            own = 1.0
        else:
            noises[j] = own
        at = 0
        for a in range(q):
            for c in range(a + 1):
                parts[j, a] += L[a, c] * xi[c]
            for b in range(a + 1):
                for c in range(a + 1):
                    for e in range(b + 1):
                        doubts[j, at] += own * L[a, c] * inverse[c, e] * L[b, e]
                at += 1
    return parts, doubts, noises


def fit_posterior_heads(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, own_intercept: bool,
    spread: np.ndarray, noise: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """(people, k) heads, (people,) own intercepts, (people, q(q + 1)/2) halves of their covariances, (people,) noises."""
    w = np.zeros(len(embedding)) if mean is None else mean
    with np.errstate(over="ignore", invalid="ignore"):
        products = row_products(block.X, np.column_stack([embedding, w]))
    parts, doubts, noises = _fit(
        products, block.y.astype(np.float64, copy=False), block.offsets, int(own_intercept), float(intercept),
        prior_factor(spread), float(noise), NOISE_ROWS,
    )  # fmt: skip
    if own_intercept:
        return np.ascontiguousarray(parts[:, 1:]), parts[:, 0].copy(), doubts, noises
    return parts, np.zeros(len(parts)), doubts, noises


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _variances(products, position, own_intercept, doubts, noises, prior_doubt, noise):  # type: ignore[no-untyped-def]
    n, q = products.shape[0], products.shape[1] + own_intercept
    variances = np.empty(n)
    for i in prange(n):
        j, at, total = position[i], 0, noise if position[i] < 0 else noises[position[i]]
        for a in range(q):
            x = 1.0 if a < own_intercept else products[i, a - own_intercept]
            for b in range(a + 1):
                z = 1.0 if b < own_intercept else products[i, b - own_intercept]
                doubt = prior_doubt[at] if j < 0 else doubts[j, at]
                total += (1.0 if a == b else 2.0) * x * z * doubt
                at += 1
        variances[i] = total
    return variances


def prediction_variances(
    X: np.ndarray, embedding: np.ndarray, own_intercept: bool, position: np.ndarray, doubts: np.ndarray, noises: np.ndarray,
    spread: np.ndarray, noise: float,
) -> np.ndarray:  # fmt: skip
    """Of a fresh label of each row, by its person's posterior; by the prior where ``position`` is -1."""
    products = row_products(X, embedding)
    half = spread[np.tril_indices(len(spread))]
    place = np.ascontiguousarray(position, dtype=np.int64)
    return np.asarray(_variances(products, place, int(own_intercept), doubts, noises, half, float(noise)))
