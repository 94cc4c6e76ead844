"""What one person's rows say about her own class intercepts, given the prior of such intercepts: their mean and covariance.

A row has one score for each of K classes, and class c the probability exp(s_c)/Σ exp(s). Only differences of scores matter, so
what is shared and what is hers live in K − 1 contrasts (``statistics.classes.contrasts``). Her part is h = L ξ with ξ ~ N(0, 1);
in scores it is A ξ, the same for all of her rows. Sums run in one fixed order, one person at a time.
"""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.statistics.kernels.posterior import factor_of_precision, inverse_from_factor
from commonground.statistics.kernels.posterior_sums import (
    FEWEST_FREE,
    NOISE_WEIGHT,
    as_good_as_positive,
    moments_in_place,
)

MOST_STEPS = 60  # of Newton's; about ten are needed
_LONGEST = 2.0  # change of a difference of scores in one step: beyond, the curvature is another
_AT_REST = 1e-9


@kernel(error_model="numpy")
def are_classes(y, m, n_classes):  # type: ignore[no-untyped-def]
    """Whether each of the first m labels is the place of a class: 0, 1, … K − 1."""
    astray = 0
    for i in range(m):
        if not (y[i] >= 0.0 and y[i] < n_classes and y[i] == math.floor(y[i])):  # NaN is none, either
            astray += 1
    return astray == 0


@kernel(error_model="numpy")
def class_posterior_in_place(scores, y, m, A, r, L, inverse, xi):  # type: ignore[no-untyped-def]
    """Mode ξ and Laplace's covariance, in ``inverse``, of one person's part, from her m rows of shared scores (m, K).

    ``r``: what is left of her labels, 1 − p for the class that a row has, −p for others.
    Returns whether there is a posterior.
    """
    n_classes, q = A.shape
    g, change, mean, off = np.empty(q), np.empty(q), np.empty(q), np.empty(q)
    for a in range(q):
        xi[a] = 0.0
    for step in range(MOST_STEPS):
        for a in range(q):
            g[a] = -xi[a]
            for b in range(a + 1):
                L[a, b] = 1.0 if b == a else 0.0
        for i in range(m):
            highest = -math.inf
            for c in range(n_classes):
                r[i, c] = scores[i, c]
                for a in range(q):
                    r[i, c] += A[c, a] * xi[a]
                highest = max(highest, r[i, c])
            total = 0.0
            for c in range(n_classes):
                r[i, c] = math.exp(r[i, c] - highest)
                total += r[i, c]
            for a in range(q):
                mean[a] = 0.0
                for c in range(n_classes):
                    mean[a] += r[i, c] / total * A[c, a]
            for c in range(n_classes):
                p = r[i, c] / total
                for a in range(q):
                    off[a] = math.sqrt(p) * (A[c, a] - mean[a])
                for a in range(q):
                    for b in range(a + 1):
                        L[a, b] += off[a] * off[b]
                r[i, c] = (1.0 if y[i] == c else 0.0) - p
                for a in range(q):
                    g[a] += r[i, c] * A[c, a]
        if not factor_of_precision(L, q, 1.0):
            return False
        inverse_from_factor(L, q, inverse)
        if step == MOST_STEPS - 1:
            break
        moved, lowest, highest = 0.0, math.inf, -math.inf
        for a in range(q):
            change[a] = 0.0
            for b in range(q):
                change[a] += inverse[a, b] * g[b]
            moved = max(moved, abs(change[a]))
        for c in range(n_classes):
            along = 0.0
            for a in range(q):
                along += A[c, a] * change[a]
            lowest, highest = min(lowest, along), max(highest, along)
        if not moved < math.inf:
            return False
        shorter = min(1.0, _LONGEST / max(highest - lowest, 1e-300))
        for a in range(q):
            xi[a] += shorter * change[a]
        if moved < _AT_REST:
            break
    return True


@kernel(error_model="numpy")
def softmax_in_place(scores, A, xi, p):  # type: ignore[no-untyped-def]
    """(K,) probabilities of a row's classes at scores + A ξ; returns the logarithm of what they were divided by."""
    highest, total = -math.inf, 0.0
    for c in range(A.shape[0]):
        p[c] = scores[c]
        for a in range(A.shape[1]):
            p[c] += A[c, a] * xi[a]
        highest = max(highest, p[c])
    for c in range(A.shape[0]):
        p[c] = math.exp(p[c] - highest)
        total += p[c]
    for c in range(A.shape[0]):
        p[c] /= total
    return highest + math.log(total)


@kernel(error_model="numpy")
def principal_root(covariance, root):  # type: ignore[no-untyped-def]
    """R with R Rᵀ the covariance, its columns along principal axes: these turn with classes, in whatever order they are."""
    q = covariance.shape[0]
    for a in range(q):
        for b in range(q):
            if not abs(covariance[a, b]) < math.inf:
                root[:] = 0.0
                return
    values, axes = np.linalg.eigh(covariance)
    for a in range(q):
        for b in range(q):
            root[b, a] = axes[b, a] * math.sqrt(max(values[a], 0.0))


@kernel(error_model="numpy")
def average_in_place(scores, y, m, A, covariance, xi, r):  # type: ignore[no-untyped-def]
    """From the mode, the mean of ξ and of what is left of her labels: of few labels the posterior is skewed.

    By 2 (K − 1) points about the mode that have Laplace's covariance, each weighing its posterior density. At the mode alone,
    shared slopes and people's spread would come out too small.
    """
    n_classes, q = A.shape
    points, weights, p, root = np.empty((2 * q, q)), np.empty(2 * q), np.empty(n_classes), np.empty((q, q))
    principal_root(covariance, root)
    highest, total = -math.inf, 0.0
    for at in range(2 * q):
        reach = math.sqrt(float(q)) * (1.0 if at % 2 else -1.0)
        weights[at] = 0.0
        for c in range(q):
            points[at, c] = xi[c] + reach * root[c, at // 2]
            weights[at] -= points[at, c] * points[at, c] / 2.0
        for i in range(m):
            mine, divided = int(y[i]), softmax_in_place(scores[i], A, points[at], p)
            weights[at] += scores[i, mine] - divided
            for a in range(q):
                weights[at] += A[mine, a] * points[at, a]
        highest = max(highest, weights[at])
    for at in range(2 * q):
        weights[at] = math.exp(weights[at] - highest)
        total += weights[at]
    if not (total > 0.0 and total < math.inf):
        return
    for a in range(q):
        xi[a] = 0.0
        for at in range(2 * q):
            xi[a] += weights[at] / total * points[at, a]
    for i in range(m):
        for c in range(n_classes):
            r[i, c] = 1.0 if y[i] == c else 0.0
        for at in range(2 * q):
            softmax_in_place(scores[i], A, points[at], p)
            for c in range(n_classes):
                r[i, c] -= weights[at] / total * p[c]


@kernel(error_model="numpy")
def class_factors(scores, y, offsets, B, L, factors, moments):  # type: ignore[no-untyped-def]
    """For each row the factors f that its person's gradient Σ f xᵀ is made of; and everybody's moments.

    ``scores``: (rows, K) of the shared part. ``factors``, zeros, (rows, K − 1): what is left of a label, by contrasts, over her
    degrees of freedom; they stay zero for a person who has nothing to say, or a label that is no class. ``moments``, zeros, as
    ``posterior_sums.posterior_factors`` has them.
    """
    (n_classes, q), n, most = B.shape, offsets.shape[0] - 1, 0
    half, A = q * (q + 1) // 2, np.zeros((n_classes, q))
    for c in range(n_classes):
        for a in range(q):
            for b in range(a, q):
                A[c, a] += B[c, b] * L[b, a]
    for j in range(n):
        most = max(most, offsets[j + 1] - offsets[j])
    r, xi = np.empty((most, n_classes)), np.empty(q)
    factor, inverse, H = np.empty((q, q)), np.empty((q, q)), np.empty((q, q))
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        mine = y[lo : lo + m]
        if m == 0 or not are_classes(mine, m, n_classes):
            continue
        if not class_posterior_in_place(scores[lo : lo + m], mine, m, A, r, factor, inverse, xi):
            continue
        average_in_place(scores[lo : lo + m], mine, m, A, inverse, xi, r)
        used = 0.0
        for a in range(q):
            used += 1.0 - inverse[a, a]
        if as_good_as_positive(inverse, 1.0, H, factor):
            moments_in_place(xi, H, moments[j])
            moments[j, 3 * half + q] = NOISE_WEIGHT
            moments[j, 3 * half + q + 1] = NOISE_WEIGHT
        free = m - used / q
        if not free > FEWEST_FREE:
            continue
        for i in range(m):
            for a in range(q):
                for c in range(n_classes):
                    factors[lo + i, a] += r[i, c] * B[c, a] / free
