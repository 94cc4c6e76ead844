"""The sensitivity of ridge coefficients themselves (P3, Theorems 2.1 and 2.3, tightened)."""

import math

import numpy as np

from commonground.clipping.bounded import BoundedSum, rounding_margin
from commonground.clipping.sums import PositiveSums


def bounded_ridge(moments: PositiveSums, alpha: float, total_weight: float, radius: float, name: str) -> BoundedSum:
    """The ridge coefficients of Σ_j w_j · mean_i z_ij z_ijᵀ, z = (x, y) with x in [0, 1]^d and |y| ≤ 1.

    θ minimises Σ_j w_j mean_i (y − θᵀx)² / total_weight + α‖θ‖² over ‖θ‖ ≤ radius. ``total_weight`` is public: it does not
    depend on who was drawn. The objective is 2α-strongly convex, so θ moves by at most 1/(2α) of what a replaced person moves
    its gradient by at such a θ (``gradient_gap``). Twice the margin: the solver's rounding, about 50 · 2⁻⁵³ · (1 + d/α) of θ, is
    below that of the sums.
    """
    assert radius > 0
    gram, d = moments.value / total_weight, len(moments.value) - 1
    theta = ridge_in_ball(gram[:d, :d], gram[:d, d], alpha, radius)
    sensitivity = ridge_sensitivity(d, alpha, total_weight, radius)
    return BoundedSum(theta, sensitivity * (1.0 + 2.0 * rounding_margin(moments.n_users)), name)


def ridge_sensitivity(d: int, alpha: float, total_weight: float, radius: float) -> float:
    """The most that one person moves the ridge coefficients, x in [0, 1]^d and |y| ≤ 1 (L2)."""
    return gradient_gap(math.sqrt(d), 1.0, radius) / (alpha * total_weight)


def gradient_gap(feature_norm: float, label_size: float, radius: float) -> float:
    """max ‖(y − θᵀx)x − (y' − θᵀx')x'‖ over ‖x‖, ‖x'‖ ≤ r, |y|, |y'| ≤ c, ‖θ‖ ≤ B: half of what a person moves a gradient by.

    P3 bounds the two halves apart, by 2r(c + rB) in all. Together: let p = x + x', q = x − x'. A person whose x and y change
    sign sends the same, so x·x' ≥ 0 may be assumed, ‖q‖ ≤ ‖p‖. Then ‖yx − y'x'‖ ≤ c‖p‖, as it is convex in (y, y'). And
    xxᵀ − x'x'ᵀ = (pqᵀ + qpᵀ)/2, whose largest eigenvalue is (|p·q| + ‖p‖‖q‖)/2, p·q = ‖x‖² − ‖x'‖². With A = ‖x‖² + ‖x'‖² and
    e = 2x·x', |p·q| ≤ 2r² − A, so the sum of both is at most c√(A + e) + B(2r² − A + √(A² − e²))/2, which does not fall as A
    grows to 2r². There it is c‖p‖ + B‖p‖‖q‖/2 with ‖p‖² + ‖q‖² = 4r²: 2r√(1 − s²)(c + rBs) for some s = ‖q‖/(2r), and the best
    s is the root of rB(1 − 2s²) = cs. Means over a person's rows are means of such differences, whichever way rows are paired.
    Attained by y = c, y' = −c and θ along −q: nothing smaller holds for all x within r.

    >>> gradient_gap(1.0, 1.0, 0.0)  # no θ: two labels apart
    2.0
    >>> bool(gradient_gap(2.0, 1.0, 3.0) < 0.54 * 2 * 2.0 * (1 + 2.0 * 3.0))  # little more than half of P3's
    True
    """
    slope = feature_norm * radius / label_size
    s = 2.0 * slope / (1.0 + math.hypot(1.0, math.sqrt(8.0) * slope))
    return 2.0 * feature_norm * math.sqrt(1.0 - s * s) * (label_size + feature_norm * radius * s)


def printed_radius(alpha: float, d: int) -> float:
    """P3's B(λ), which no ridge solution on x in [0, 1]^d, |y| ≤ 1 exceeds; the package's own is at most as large."""
    return min(1.0 / math.sqrt(alpha), math.sqrt(d) / alpha)


def ridge_in_ball(gram: np.ndarray, rhs: np.ndarray, alpha: float, radius: float) -> np.ndarray:
    """argmin θᵀ gram θ − 2 rhsᵀθ + α‖θ‖² over ‖θ‖ ≤ radius.

    >>> ridge_in_ball(np.eye(2), np.array([3.0, 4.0]), alpha=0.0, radius=1.0).round(6).tolist()
    [0.6, 0.8]
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    eigenvalues, along = np.maximum(eigenvalues, 0.0) + alpha, vectors.T @ rhs
    low, high = 0.0, float(np.linalg.norm(rhs)) / radius  # the constraint's multiplier
    if np.linalg.norm(along / eigenvalues) <= radius:
        high = 0.0
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if np.linalg.norm(along / (eigenvalues + middle)) > radius else (low, middle)
    return vectors @ (along / (eigenvalues + high))
