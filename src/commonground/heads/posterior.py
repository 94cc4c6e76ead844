"""Posterior heads: what the billboard says of people in general, and a person's own rows, weighed against each other.

With no rows a head is the shared prediction, with few it is pulled to it, with many it is least squares: the posterior mean of
her own part given the released prior (``statistics.kernels.posterior``). It is a function of the billboard and of her rows,
summed in one fixed order; who has numbers too large or too small for it keeps the shared prediction. What is not known about
her part, the posterior's covariance, gives the intervals of her predictions.
"""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.posterior import logistic_posterior_in_place, posterior_in_place, prior_factor
from commonground.statistics.kernels.products import chunk_products, row_products

# Rows that the common noise counts for against a person's own residuals. Chosen on half of Jester: 100 and more cost nothing
# there, 30 costs 0.03 %; and a person with one wild label needs it small.
NOISE_ROWS = 100.0
PEOPLE = 2048  # that a thread takes at a time


@kernel(error_model="numpy")
def _fit(products, y, offsets, own_intercept, intercept, L, noise, noise_rows, log_odds, parts, doubts, noises):  # type: ignore[no-untyped-def]
    """Everybody's part h, the lower half of its covariance row by row, and her noise; ``products``: X (U, w₀)."""
    n, q, most = offsets.shape[0] - 1, L.shape[0], 0
    k = q - own_intercept
    for j in range(n):
        most = max(most, offsets[j + 1] - offsets[j])
    W, V, r, shared, curvature = (
        np.empty((most, q)),
        np.empty((most, q)),
        np.empty(most),
        np.empty(most),
        np.empty(most),
    )
    factor, inverse, g, xi = np.empty((q, q)), np.empty((q, q)), np.empty(q), np.empty(q)
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        for i in range(m):
            shared[i] = products[lo + i, k] + intercept
            r[i] = y[lo + i] - shared[i]
            for c in range(q):
                W[i, c] = 0.0
                for b in range(c, q):
                    z = 1.0 if b < own_intercept else products[lo + i, b - own_intercept]
                    W[i, c] += z * L[b, c]
        if log_odds:
            mine = y[lo : lo + m]
            found = logistic_posterior_in_place(W, shared, mine, m, V, r, curvature, factor, inverse, g, xi)
            own = 1.0 if found else math.nan
        else:
            own = posterior_in_place(W, r, m, noise, noise_rows, factor, inverse, xi)
        noises[j] = own
        if math.isnan(own):  # the prior alone
            for c in range(q):
                xi[c] = 0.0
                for b in range(q):
                    inverse[c, b] = 1.0 if b == c else 0.0
            own, noises[j] = 1.0, noise
        at = 0
        for a in range(q):
            parts[j, a] = 0.0
            for c in range(a + 1):
                parts[j, a] += L[a, c] * xi[c]
            for b in range(a + 1):
                doubts[j, at] = 0.0
                for c in range(a + 1):
                    for e in range(b + 1):
                        doubts[j, at] += own * L[a, c] * inverse[c, e] * L[b, e]
                at += 1


def fit_posterior_heads(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, own_intercept: bool,
    spread: np.ndarray, noise: float, log_odds: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """(people, k) heads, (people,) own intercepts, (people, q(q + 1)/2) halves of their covariances, (people,) noises."""
    w = np.zeros(len(embedding)) if mean is None else mean
    columns, L, q = np.column_stack([embedding, w]), prior_factor(spread), len(spread)
    how = int(own_intercept), float(intercept), L, float(noise), NOISE_ROWS, bool(log_odds)

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = np.empty((some.n_users, q)), np.empty((some.n_users, q * (q + 1) // 2)), np.empty(some.n_users)
        with np.errstate(over="ignore", invalid="ignore"):
            products = chunk_products(some.X, columns)
        _fit(products, some.y.astype(np.float64, copy=False), some.offsets, *how, *found)
        return found

    parts, doubts, noises = over_chunks(block, of_chunk, people=PEOPLE, doubles=False, enlarge=False)
    if log_odds:
        noises[:] = 0.0  # log-odds have none
    if own_intercept:
        return np.ascontiguousarray(parts[:, 1:]), parts[:, 0].copy(), doubts, noises
    return parts, np.zeros(len(parts)), doubts, noises


@kernel(error_model="numpy")
def _variances(products, position, own_intercept, doubts, noises, prior_doubt, noise, variances):  # type: ignore[no-untyped-def]
    q = products.shape[1] + own_intercept
    for i in range(products.shape[0]):
        j, at, total = position[i], 0, noise if position[i] < 0 else noises[position[i]]
        for a in range(q):
            x = 1.0 if a < own_intercept else products[i, a - own_intercept]
            for b in range(a + 1):
                z = 1.0 if b < own_intercept else products[i, b - own_intercept]
                doubt = prior_doubt[at] if j < 0 else doubts[j, at]
                total += (1.0 if a == b else 2.0) * x * z * doubt
                at += 1
        variances[i] = total


def prediction_variances(
    X: np.ndarray, embedding: np.ndarray, own_intercept: bool, position: np.ndarray, doubts: np.ndarray, noises: np.ndarray,
    spread: np.ndarray, noise: float,
) -> np.ndarray:  # fmt: skip
    """Of a fresh label of each row, by its person's posterior; by the prior where ``position`` is -1."""
    products = row_products(X, embedding)
    half = spread[np.tril_indices(len(spread))]
    place = np.ascontiguousarray(position, dtype=np.int64)
    variances = np.empty(len(place))
    _variances(products, place, int(own_intercept), doubts, noises, half, float(noise), variances)
    return variances
