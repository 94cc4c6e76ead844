"""P4's convex contributions: against a loop over rows, and against every strange unit."""

import numpy as np
import pytest

from commonground.clipping.sums import SampledSum
from commonground.owners.gradients import (
    classification_errors,
    clipped_records,
    clipped_units,
    distance_counts,
    regression_errors,
    unit_means,
)
from populations import strange_people

D, CLIP = 6, 0.4
U = np.random.default_rng(2).standard_normal((3, D))
CENTRE = np.random.default_rng(3).standard_normal(3 * D)
EDGES = 2.0 ** np.arange(-6, 4)


def rows(seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)), rng.integers(0, 3, n), rng.integers(0, 8, n)


def test_sums_against_a_loop(seed: int) -> None:
    X, y, unit = rows(seed)
    errors = classification_errors(X @ U.T, y)
    gradients = []
    for x, label in zip(X, y, strict=True):
        p = np.exp(U @ x) / np.exp(U @ x).sum()
        gradients.append(np.outer(p - np.eye(3)[label], x).ravel())
    clipped = [g * min(1.0, CLIP / np.linalg.norm(g)) for g in gradients]
    np.testing.assert_allclose(clipped_records(errors, X, CLIP).value, np.sum(clipped, axis=0), atol=1e-12)
    means = np.array(
        [np.mean([g for g, k in zip(gradients, unit, strict=True) if k == u], axis=0) for u in np.unique(unit)]
    )
    found = unit_means(errors, X, np.unique(unit, return_inverse=True)[1], len(means))
    np.testing.assert_allclose(found, means, atol=1e-12)
    away = [m - CENTRE for m in means]
    expected = np.sum([a * min(1.0, CLIP / np.linalg.norm(a)) for a in away], axis=0)
    np.testing.assert_allclose(clipped_units(found, CENTRE, CLIP).value, expected, atol=1e-12)
    assert distance_counts(found, CENTRE, EDGES).value.sum() == len(means)


def statistic(name: str, X: np.ndarray, y: np.ndarray, unit: np.ndarray, n_units: int) -> SampledSum:
    with np.errstate(all="ignore"):
        scores = X @ U.T
        errors = (
            classification_errors(scores, y) if "class" in name else regression_errors(scores[:, :1], y.astype(float))
        )
        if "records" in name:
            return clipped_records(errors, X, CLIP)
        means = unit_means(errors, X, unit, n_units)
        centre = CENTRE[: means.shape[1]]
        return distance_counts(means, centre, EDGES) if "distances" in name else clipped_units(means, centre, CLIP)


NAMES = ["records", "records, class", "units", "units, class", "distances", "distances, class"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_a_unit_moves_the_sum_by_at_most_its_sensitivity(name: str, seed: int) -> None:
    X, y, _ = rows(seed, 12)
    unit = np.arange(12)
    whole = statistic(name, X, y, unit, 12)
    there, replaced = (whole.bounded("s", relation).sensitivity for relation in ("add-or-remove-one", "replace-one"))

    def without(keep: np.ndarray) -> SampledSum:
        return statistic(name, X[keep], y[keep], unit[: len(keep)], len(keep))

    largest = np.linalg.norm(whole.value - without(np.delete(unit, 3)).value)
    assert 0 < largest <= there
    for kind, (strange, _) in strange_people(D).items():
        changed = X.copy()
        changed[3] = strange[0]
        after = statistic(name, changed, y, unit, 12)
        assert np.isfinite(after.value).all(), kind
        assert np.linalg.norm(whole.value - after.value) <= replaced, kind
        assert np.linalg.norm(after.value - without(np.delete(unit, 3)).value) <= there, kind


@pytest.mark.parametrize("clip_norm", [1e-12, 1e-6, 1.0])
def test_clips_hold_for_numbers_of_every_size(clip_norm: float) -> None:
    """Squares of small numbers lose their digits: what is below the grid of sizes is nothing, what is on it stays."""
    sizes = [5e-324, 1e-310, 1e-200, 1e-162, 3e-160, 1e-20, 1.0, 1e100, 1e153, 1e300]
    rng = np.random.default_rng(0)
    for error_size in sizes:
        for size in sizes:
            with np.errstate(all="ignore"):
                e, x = error_size * rng.standard_normal((1, 3)), size * rng.standard_normal((1, D))
                true = np.abs(np.outer(e, x).ravel()).astype(np.longdouble)
                for sent in (
                    clipped_records(e, x, clip_norm).value,
                    clipped_units(np.outer(e, x).reshape(1, -1), 0.0, clip_norm).value,
                ):
                    assert np.linalg.norm(sent) <= SampledSum.contribution(clip_norm)
                    whole = 1e-25 < error_size < 1e25 and 1e-25 < size < 1e25 and error_size * size > 2.0**-55
                    if whole and np.sqrt((true**2).sum()) < clip_norm / 2:
                        np.testing.assert_allclose(sent, np.outer(e, x).ravel(), rtol=1e-3)
