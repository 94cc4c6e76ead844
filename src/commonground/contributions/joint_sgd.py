"""Gradients of linear models for P4's convex learners: what one record, or one user, sends for the shared coefficients.

A record's gradient is its error times its features, e_i ⊗ x_i, so its norm is ‖e_i‖·‖x_i‖ and a clipped sum is one product.
"""

import numpy as np

from commonground.clipping import SampledSum


def regression_errors(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d ½(score − y)² / d score, (n, 1)."""
    return scores - y[:, None]


def classification_errors(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """d cross-entropy / d scores: probabilities less the one-hot label, (n, classes)."""
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    probabilities[np.arange(len(y)), y] -= 1.0
    return probabilities


def unit_means(errors: np.ndarray, X: np.ndarray, unit: np.ndarray, n_units: int) -> np.ndarray:
    """(units, classes · d): the mean gradient of each unit's rows; zero for a unit without rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = (errors[:, :, None] * X[:, None, :]).reshape(
            len(X), errors.shape[1] * X.shape[1]
        )  # a sample may be empty
        sums = np.zeros((n_units, rows.shape[1]))
        np.add.at(sums, unit, rows)
    return sums / np.maximum(np.bincount(unit, minlength=n_units), 1)[:, None]


def clipped_records(errors: np.ndarray, X: np.ndarray, clip_norm: float) -> SampledSum:
    """Σ clip(e_i ⊗ x_i; C) over records, never built row by row."""
    (error_directions, error_norms), (directions, norms) = _directions(errors), _directions(X)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        sizes = _clipped_sizes(error_norms * norms, clip_norm)
    return SampledSum(((error_directions * sizes[:, None]).T @ directions).ravel(), clip_norm)


def clipped_units(means: np.ndarray, centre: np.ndarray, clip_norm: float) -> SampledSum:
    """Σ over units of clip(mean gradient − centre; C); the centre is public."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = means - centre
    directions, norms = _directions(away)
    return SampledSum(_clipped_sizes(norms, clip_norm) @ directions, clip_norm)


def _clipped_sizes(norms: np.ndarray, clip_norm: float) -> np.ndarray:
    return np.where(np.isfinite(norms), np.minimum(norms, clip_norm), 0.0)


def _directions(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows of norm one, their norms). A row that is not finite has the direction zero and the norm NaN.

    Brought to a largest entry of one first: squares of entries below 1e-154 have lost their digits, and a norm that is too small
    would let a contribution pass unclipped.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.where(finite[:, None], rows / np.where(largest > 0, largest, 1.0)[:, None], 0.0)
        lengths = np.linalg.norm(scaled, axis=1)
        norms = np.where(finite, largest * lengths, np.nan)
    return scaled / np.maximum(lengths, 1.0)[:, None], norms


def distance_counts(means: np.ndarray, centre: np.ndarray, edges: np.ndarray) -> SampledSum:
    """How many units lie between which distances from the centre: each counts once, so it moves the counts by 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.linalg.norm(means - centre, axis=1)
    distances = np.where(np.isfinite(distances), distances, np.inf)
    at = np.minimum(np.searchsorted(edges, distances), len(edges) - 1)
    return SampledSum(np.bincount(at, minlength=len(edges)).astype(np.float64), 1.0)
