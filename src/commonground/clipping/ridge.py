"""The sensitivity of ridge coefficients themselves (P3, Theorems 2.1 and 2.3)."""

import math

import numpy as np

from commonground.clipping.bounded import BoundedSum, rounding_margin
from commonground.clipping.sums import PositiveSums


def bounded_ridge(moments: PositiveSums, alpha: float, total_weight: float, radius: float, name: str) -> BoundedSum:
    """The ridge coefficients of Σ_j w_j · mean_i z_ij z_ijᵀ, z = (x, y) with x in [0, 1]^d and |y| ≤ 1.

    θ minimises Σ_j w_j mean_i (y − θᵀx)² / total_weight + α‖θ‖² over ‖θ‖ ≤ radius. ``total_weight`` is public: it does not
    depend on who was drawn. A person's gradient at such a θ is at most 2√d(1 + √d·radius), hers is replaced by another's,
    and the objective is 2α-strongly convex: θ moves by at most 4√d(1 + √d·radius) / (2α·total_weight). Twice the margin:
    the solver's rounding, about 50 · 2⁻⁵³ · (1 + d/α) of θ, is below that of the sums.
    """
    assert radius > 0
    gram, d = moments.value / total_weight, len(moments.value) - 1
    theta = ridge_in_ball(gram[:d, :d], gram[:d, d], alpha, radius)
    sensitivity = ridge_sensitivity(d, alpha, total_weight, radius)
    return BoundedSum(theta, sensitivity * (1.0 + 2.0 * rounding_margin(moments.n_users)), name)


def ridge_sensitivity(d: int, alpha: float, total_weight: float, radius: float) -> float:
    return 2.0 * math.sqrt(d) * (1.0 + math.sqrt(d) * radius) / (alpha * total_weight)


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
