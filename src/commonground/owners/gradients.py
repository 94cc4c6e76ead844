"""Gradients of linear models for P4's convex learners: what one record, or one user, sends for the shared coefficients.

A record's gradient is its error times its features, e_i ⊗ x_i, so its norm is ‖e_i‖·‖x_i‖ and a clipped sum is one product.
"""

import numpy as np

from commonground.clipping.grid import clip_factors, squared_norms, squared_norms_of_products
from commonground.clipping.sums import SampledSum


def regression_errors(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d ½(score − y)² / d score, (n, 1)."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is clipped to nothing
        return scores - y[:, None]


def classification_errors(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d cross-entropy / d scores: probabilities less the one-hot label, (n, classes)."""
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    probabilities[np.arange(len(y)), y] -= 1.0
    return probabilities


def unit_means(errors: np.ndarray, X: np.ndarray, unit: np.ndarray, n_units: int) -> np.ndarray:
    """(units, classes · d): the mean gradient of each unit's rows; zero for a unit without rows."""
    sums = np.zeros((n_units, errors.shape[1] * X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (errors[:, :, None] * X[:, None, :]).reshape(len(X), sums.shape[1])  # a sample may be empty
        np.add.at(sums, unit, rows)
    return sums / np.maximum(np.bincount(unit, minlength=n_units), 1)[:, None]


def clipped_records(errors: np.ndarray, X: np.ndarray, clip_norm: float) -> SampledSum:
    """Σ clip(e_i ⊗ x_i; C) over records, never built row by row."""
    factors = clip_factors(squared_norms_of_products(errors, X), clip_norm)
    kept = factors > 0
    return SampledSum(((errors[kept] * factors[kept, None]).T @ X[kept]).ravel(), clip_norm)


def clipped_units(means: np.ndarray, centre: np.ndarray, clip_norm: float) -> SampledSum:
    """Σ over units of clip(mean gradient − centre; C); the centre is public."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = means - centre
    factors = clip_factors(squared_norms(away), clip_norm)
    return SampledSum(factors @ np.where(factors[:, None] > 0.0, away, 0.0), clip_norm)


def distance_counts(means: np.ndarray, centre: np.ndarray, edges: np.ndarray) -> SampledSum:
    """How many units lie between which distances from the centre: each counts once, so it moves the counts by 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.linalg.norm(means - centre, axis=1)
    distances = np.where(np.isfinite(distances), distances, np.inf)
    at = np.minimum(np.searchsorted(edges, distances), len(edges) - 1)
    return SampledSum(np.bincount(at, minlength=len(edges)).astype(np.float64), 1.0)
