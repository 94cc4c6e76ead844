"""Posterior heads: what the billboard says of people in general, and a person's own rows, weighed against each other.

With no rows a head is the shared prediction, with few it is pulled to it, with many it is least squares: the posterior mean of
her own part given the released prior (``statistics.kernels.posterior``). It is a function of the billboard and of her rows,
summed in one fixed order; a person with numbers too large or too small for it keeps the shared prediction. What is not known
about her part, the posterior's covariance, and how far her own labels lie from her model give the intervals of her predictions.
"""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.posterior import logistic_posterior_in_place, posterior_in_place, prior_factor
from commonground.statistics.kernels.products import chunk_products, row_products
from commonground.statistics.statistic import SharedModel

# Rows that the common noise counts for against a person's own residuals. Chosen on half of Jester: 100 and more cost nothing
# there, 30 costs 0.03 %; and a person with one wild label needs it small.
NOISE_ROWS = 100.0
# Standard deviations: whose mean is further from what the prior expects gets more room for an intercept. Labels of few people, or
# of unusual ones, may lie where no noisy release tells; of those who are as the prior says one in 400 is concerned, and hardly.
# At 2, simulated students who answer everything right, or nothing, were taken for people of another kind. Log-odds have none of
# this: where answers are rare, whoever gave one of them would be unusual.
USUAL = 3.0
PRIOR_ROWS = 4.0  # that the common noise counts for in how precise her mean is
# Rows that the common noise counts for in intervals. Noise may hide how far labels spread, and her own residuals tell it. Chosen
# on simulated people whose board was wrong by a factor of 1/4 to 4: with 2, intervals of people with 2 or 4 rows held for 92 to
# 93 % of labels where it was right; with 8 and more, those of people with 4 or 8 rows for 66 to 78 % where it was a quarter.
INTERVAL_ROWS = 4.0
PEOPLE = 2048  # that a thread takes at a time


@kernel(error_model="numpy", inline="always")
def label_noise(noise, squares, rows):  # type: ignore[no-untyped-def]
    """The variance of her labels about her model, given that its squared errors on so many free rows add up to ``squares``.

    The common noise counts for ``INTERVAL_ROWS`` rows. Were it right, the mean of both would vary as χ² of t²/rows degrees of
    freedom does, t being all rows that count; they are never fewer than four times ``INTERVAL_ROWS``. So the last factor makes it
    the variance of Student's t, and mean ± 1.645 standard deviations hold nine labels of ten, be her rows many, few or none.
    """
    told = INTERVAL_ROWS + rows
    return (INTERVAL_ROWS * noise + squares) / told * (told * told / (told * told - 2.0 * rows))


@kernel(error_model="numpy", inline="always")
def _own_doubt(W, r, m, size, noise, own, inverse, xi, doubt):  # type: ignore[no-untyped-def]
    """Her ``label_noise`` v, and in ``doubt`` the covariance of ξ's error with labels of that noise.

    ``xi`` is the posterior mean for another noise, s² (``own``), by A = (s² + WᵀW)⁻¹ (``inverse``): its error is A Wᵀe − s² A ξ,
    of covariance v A WᵀW A + s⁴ A², which is v A − (v − s²) s² A².
    """
    squares, rows = 0.0, float(m)
    for i in range(m):
        missed = r[i]
        for c in range(size):
            missed -= W[i, c] * xi[c]
            for b in range(size):
                rows -= W[i, c] * inverse[c, b] * W[i, b]  # what her part uses up
        squares += missed * missed
    variance = label_noise(noise, squares, max(rows, 0.0))
    for a in range(size):
        for c in range(size):
            twice = 0.0
            for b in range(size):
                twice += own * inverse[a, b] * inverse[b, c]
            doubt[a, c] = variance * inverse[a, c] - (variance - own) * twice
    return variance


@kernel(error_model="numpy", inline="always")
def _surprise(W, r, m, q, noise):  # type: ignore[no-untyped-def]
    """The variance that the prior of her intercept lacks to explain the mean of her residuals; 0 where it is a usual one."""
    mean, squares = 0.0, 0.0
    for i in range(m):
        mean += r[i] / m
    for i in range(m):
        squares += (r[i] - mean) ** 2
    expected = max((PRIOR_ROWS * noise + squares) / (PRIOR_ROWS + m - 1.0), squares / (m - 1.0)) / m
    for c in range(q):
        along = 0.0
        for i in range(m):
            along += W[i, c] / m
        expected += along * along
    lacking = mean * mean - USUAL * USUAL * expected
    return lacking if 0.0 < lacking < math.inf else 0.0


@kernel(error_model="numpy")
def _fit(  # type: ignore[no-untyped-def]
    products, y, offsets, own_intercept, intercept, L, noise, noise_rows, log_odds, parts, doubts, noises,
    W, V, r, shared, curvature, root, factor, inverse, g, xi, doubt,
):  # fmt: skip
    """Everybody's part h, the lower half of its error's covariance row by row, and her noise; ``products``: X (U, w₀).

    ``log_odds``: 1, or None, which is settled before compiling, so that one kind of posterior is compiled. The rest is room.
    """
    n, q = offsets.shape[0] - 1, L.shape[0]
    k = q - own_intercept
    for a in range(q):
        for c in range(q):
            root[a, c] = L[a, c]
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
        lacking = 0.0
        if (
            log_odds is None and own_intercept and m > 1
        ):  # shares of yes lie within known bounds: no level of them is far off
            lacking = _surprise(W, r, m, q, noise)
        size = q + 1 if lacking > 0.0 else q
        if lacking > 0.0:
            root[0, q] = math.sqrt(lacking)
            for i in range(m):
                W[i, q] = root[0, q]
        if log_odds is None:
            own = posterior_in_place(W, r, m, size, noise, noise_rows, factor, inverse, xi)
        else:
            mine = y[lo : lo + m]
            found = logistic_posterior_in_place(W, shared, mine, m, size, V, r, curvature, factor, inverse, g, xi)
            own = 1.0 if found else math.nan
        if math.isnan(own):  # the prior alone
            size, noises[j] = q, noise
            for c in range(q):
                xi[c] = 0.0
                for b in range(q):
                    doubt[c, b] = 1.0 if b == c else 0.0
        elif log_odds is None:
            noises[j] = _own_doubt(W, r, m, size, noise, own, inverse, xi, doubt)
        else:
            noises[j] = 0.0  # log-odds have none
            for c in range(size):
                for b in range(size):
                    doubt[c, b] = inverse[c, b]
        at = 0
        for a in range(q):
            parts[j, a] = 0.0
            for c in range(size):
                parts[j, a] += root[a, c] * xi[c]
            for b in range(a + 1):
                doubts[j, at] = 0.0
                for c in range(size):
                    for e in range(size):
                        doubts[j, at] += root[a, c] * doubt[c, e] * root[b, e]
                at += 1


def fit_posterior_heads(block: Block, model: SharedModel) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(people, k) heads, (people,) own intercepts, (people, q(q + 1)/2) halves of their covariances, (people,) noises."""
    assert model.spread is not None
    own_intercept, log_odds = int(model.own_intercept), bool(model.log_odds)
    columns, q = np.column_stack([model.embedding, model.slopes]), len(model.spread)
    L = prior_factor(model.spread)
    how = own_intercept, float(model.intercept), L, float(model.noise), NOISE_ROWS, 1 if log_odds else None

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = np.empty((some.n_users, q)), np.empty((some.n_users, q * (q + 1) // 2)), np.empty(some.n_users)
        with np.errstate(over="ignore", invalid="ignore"):
            products = chunk_products(some.X, columns)
        # One column more than the prior has, for an intercept that it did not expect.
        most, wide = int(np.diff(some.offsets).max()), q + 1
        of_rows = *np.empty((2, most, wide)), *np.empty((3, most))
        of_parts = np.zeros((q, wide)), *np.empty((2, wide, wide)), *np.empty((2, wide)), np.empty((wide, wide))
        _fit(products, some.y.astype(np.float64, copy=False), some.offsets, *how, *found, *of_rows, *of_parts)
        return found

    parts, doubts, noises = over_chunks(block, of_chunk, people=PEOPLE, doubles=False, enlarge=False)
    if log_odds:
        noises[:] = 0.0  # also of those who have the prior alone
    if own_intercept:
        return np.ascontiguousarray(parts[:, 1:]), parts[:, 0].copy(), doubts, noises
    return parts, np.zeros(len(parts)), doubts, noises


def doubt_without_heads(doubts: np.ndarray, noises: np.ndarray, missed: np.ndarray, rows: np.ndarray) -> None:
    """Put in place, of those who keep something else, how far off that is; ``missed``: its mean square on rows left out, or NaN.

    These errors have in them what is not known of the model, so all of it is noise. The board's noise is about heads and has no
    say; as few rows tell it, the variance is Student's t's.
    """
    people = ~np.isnan(missed)
    doubts[people] = 0.0
    with np.errstate(over="ignore"):
        noises[people] = missed[people] * (rows[people] / np.maximum(rows[people] - 2.0, 1.0))


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
    X: np.ndarray, model: SharedModel, position: np.ndarray, doubts: np.ndarray, noises: np.ndarray
) -> np.ndarray:
    """Of a fresh label of each row (of its log-odds), by its person's posterior; by the prior where ``position`` is -1."""
    assert model.spread is not None
    products = row_products(X, model.embedding)
    half = model.spread[np.tril_indices(len(model.spread))]
    place = np.ascontiguousarray(position, dtype=np.int64)
    variances, noise = np.empty(len(place)), 0.0 if model.log_odds else float(model.noise)
    _variances(products, place, int(model.own_intercept), doubts, noises, half, noise, variances)
    return variances
