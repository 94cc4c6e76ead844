"""What one person's rows say about her own part, given the prior of such parts: a normal posterior, in a few flops.

Her labels, less the shared prediction, are r = Z h + e with h ~ N(0, S) her own part (the intercept first, then the coefficients
on the embedding) and e ~ N(0, s²). With S = L Lᵀ and W = Z L it is h = L ξ, where ξ has the posterior mean (s² + WᵀW)⁻¹ Wᵀr and
covariance s² (s² + WᵀW)⁻¹. Nothing is divided by S or s², so a prior that leaves no room in some direction is one like any other.
Sums run in one fixed order, one person at a time.
"""

import math

import numpy as np

from commonground.compiled import kernel, subkernel

MOST_STEPS = 40  # of Newton's; fewer than ten are needed
_LONGEST = 3.0  # change of log-odds in one step: beyond, the curvature is another
_AT_REST = 1e-9
LEAST_NOISE = 1e-13  # of the sum of squares: the least noise
_FAR = 40.0  # log-odds beyond which a probability is 0 or 1


@kernel(error_model="numpy", inline="always")
def precision_factor(W, m, q, noise, L):  # type: ignore[no-untyped-def]
    """Cholesky's L of s² + WᵀW, from the first m rows and q columns of W; False where there is none."""
    for c in range(q):
        for b in range(c + 1):
            L[c, b] = noise if b == c else 0.0
    for i in range(m):
        for c in range(q):
            for b in range(c + 1):
                L[c, b] += W[i, c] * W[i, b]
    return factor_of_precision(L, q, noise)


@kernel(error_model="numpy", inline="always")
def factor_of_precision(L, q, noise):  # type: ignore[no-untyped-def]
    """Cholesky's L, in place of the lower half of the first q rows and columns; False where there is none."""
    largest = 0.0
    for c in range(q):
        largest += L[c, c]
    for c in range(q):  # beside huge rows the noise would be lost to rounding, and with it whoever has them
        L[c, c] += max(LEAST_NOISE * largest - noise, 0.0)
    for c in range(q):
        for b in range(c):
            L[c, c] -= L[c, b] * L[c, b]
        if not (L[c, c] > 0.0 and L[c, c] < math.inf):
            return False
        L[c, c] = math.sqrt(L[c, c])
        for a in range(c + 1, q):
            for b in range(c):
                L[a, c] -= L[a, b] * L[c, b]
            L[a, c] /= L[c, c]
    return True


@kernel(error_model="numpy", inline="always")
def inverse_from_factor(L, q, inverse):  # type: ignore[no-untyped-def]
    """(L Lᵀ)⁻¹ of the first q rows and columns, column by column."""
    for column in range(q):
        for c in range(q):
            x = 1.0 if c == column else 0.0
            for b in range(c):
                x -= L[c, b] * inverse[b, column]
            inverse[c, column] = x / L[c, c]
        for c in range(q - 1, -1, -1):
            x = inverse[c, column]
            for b in range(c + 1, q):
                x -= L[b, c] * inverse[b, column]
            inverse[c, column] = x / L[c, c]


@subkernel(error_model="numpy")
def posterior_in_place(W, r, m, q, noise, own_noise_after, L, inverse, xi):  # type: ignore[no-untyped-def]
    """ξ, and (s² + WᵀW)⁻¹ in ``inverse``, for one person's m rows of q numbers; returns her noise s², NaN where there is none.

    ``own_noise_after``: so many rows the common noise counts for, against her own residuals: whose labels are far noisier than
    other people's is pulled to the shared prediction all the more. 0: the common noise is hers.
    """
    own = noise
    for _ in range(4 if own_noise_after > 0.0 else 1):
        if not precision_factor(W, m, q, own, L):
            return math.nan
        inverse_from_factor(L, q, inverse)
        for c in range(q):
            xi[c] = 0.0
        for i in range(m):
            for c in range(q):
                xi[c] += W[i, c] * r[i]
        for c in range(q):  # forward, then backward
            for b in range(c):
                xi[c] -= L[c, b] * xi[b]
            xi[c] /= L[c, c]
        for c in range(q - 1, -1, -1):
            for b in range(c + 1, q):
                xi[c] -= L[b, c] * xi[b]
            xi[c] /= L[c, c]
        if own_noise_after == 0.0:
            break
        squares = own_noise_after * noise
        for i in range(m):
            missed, doubt = r[i], 0.0
            for c in range(q):
                missed -= W[i, c] * xi[c]
                for b in range(q):
                    doubt += W[i, c] * inverse[c, b] * W[i, b]
            squares += missed * missed + own * doubt
        own = squares / (own_noise_after + m)
    finite = own < math.inf
    for c in range(q):
        finite = finite and abs(xi[c]) < math.inf
    return own if finite else math.nan


@subkernel(error_model="numpy")
def logistic_posterior_in_place(W, offsets, labels, m, q, V, r, curvature, L, inverse, g, xi):  # type: ignore[no-untyped-def]
    """The same for yes-or-no labels (yes: above zero) of log-odds offset + W ξ: mode and Laplace's covariance of ξ ~ N(0, 1).

    Also what is left of the labels, r = y − p, and the curvature p (1 − p) of each row. Returns whether there is a posterior.
    """
    for c in range(q):
        xi[c] = 0.0
    for step in range(MOST_STEPS):
        for i in range(m):
            score = offsets[i]
            for c in range(q):
                score += W[i, c] * xi[c]
            p = 1.0 / (1.0 + math.exp(-min(max(score, -_FAR), _FAR)))
            r[i] = (1.0 if labels[i] > 0.0 else 0.0) - p
            curvature[i] = p * (1.0 - p)
            for c in range(q):
                V[i, c] = math.sqrt(curvature[i]) * W[i, c]
        if not precision_factor(V, m, q, 1.0, L):
            return False
        inverse_from_factor(L, q, inverse)
        if step == MOST_STEPS - 1:
            break
        moved = 0.0
        for c in range(q):
            g[c] = -xi[c]
            for i in range(m):
                g[c] += W[i, c] * r[i]
        longest = 0.0
        for i in range(m):
            along = 0.0
            for c in range(q):
                for b in range(q):
                    along += W[i, c] * inverse[c, b] * g[b]
            longest = max(longest, abs(along))
        shorter = min(1.0, _LONGEST / max(longest, 1e-300))
        for c in range(q):
            change = 0.0
            for b in range(q):
                change += inverse[c, b] * g[b]
            xi[c] += shorter * change
            moved = max(moved, abs(change))
        if not moved < math.inf:
            return False
        if moved < _AT_REST:
            break
    return True


def prior_factor(spread: np.ndarray) -> np.ndarray:
    """Cholesky's L with S = L Lᵀ, lower triangular, for any covariance S; what is not positive counts as nothing."""
    q = len(spread)
    values, Q = np.linalg.eigh(spread) if q else (np.zeros(0), np.zeros((0, 0)))
    root = Q * np.sqrt(np.maximum(values, 0.0))
    L = np.tril(np.linalg.qr(root.T)[1].T)
    return np.ascontiguousarray(L * np.where(np.diag(L) < 0.0, -1.0, 1.0))
