"""Rounds for few people: against the slow formula, and where the ordinary rounds drown in their noise."""

import numpy as np
import pytest

import commonground as cg
from commonground.clipping import lower_edge
from commonground.contributions.whitened import _RIDGE, whitened_gradient_sums
from commonground.estimators.few_people import FEW, SIZES_EVERY, SPREAD, fit_sizes, information
from populations import ragged_block


@pytest.mark.parametrize("local_intercept", [False, True])
@pytest.mark.parametrize("d", [4, 9])  # people with more rows than features, and with fewer
def test_whitened_gradients_against_the_slow_formula(d: int, local_intercept: bool, seed: int) -> None:
    block = ragged_block(seed, d=d)
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, 2)))[0]
    total = np.zeros((2, d))
    for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True):
        X, y = block.X[lo:hi], block.y[lo:hi]
        seen = min(len(y) - local_intercept, d) - 2
        if seen <= 0:
            continue
        if local_intercept:
            X, y = X - X.mean(axis=0), y - y.mean()
        v = np.linalg.lstsq(X @ U, y, rcond=None)[0]
        smaller = X @ X.T if len(y) <= d else X.T @ X
        ridge = _RIDGE * np.trace(smaller) / len(smaller)
        g = np.linalg.solve(X.T @ X + ridge * np.eye(d), X.T @ (y - X @ U @ v))
        total += d * (1 + _RIDGE) / (seen * v @ v) * np.outer(v, g)
    sums = whitened_gradient_sums(block, U, local_intercept, lowest=100)
    np.testing.assert_allclose(sums.raw.sum(axis=0), total, rtol=1e-3, atol=1e-3 * np.abs(total).max())
    assert sums.counts.sum() == block.n_users


def test_a_bell_of_sizes_is_found_in_noise() -> None:
    """1,000 people, noise of 70 in each bin: within half a bin in nearly all of 200 draws."""
    rng = np.random.default_rng(0)
    bins = np.arange(16)
    off = []
    for _ in range(200):
        place = rng.uniform(6, 9)
        bell = np.exp(-((bins - place) ** 2) / (2 * SPREAD**2)) / (SPREAD * np.sqrt(2 * np.pi))
        found, share = fit_sizes(1000 * bell + 70 * rng.standard_normal(16), 100, 70.0, 1000.0, 107.0, doubt=2.0)
        off.append(found - 100 - place)
        assert 0.3 < share < 1.7
    assert np.quantile(np.abs(off), 0.9) < 0.5
    assert lower_edge(102) == 2 * lower_edge(100)  # a bin is half an octave


def test_where_many_rounds_are_chosen() -> None:
    mu = cg.accounting.gaussian.gaussian_mu(1.0, 1e-6)
    assert information(1000, 50, 2, mu) == pytest.approx(0.16 * (1000 * mu) ** 2 / (4 * 2 * 96), rel=1e-9)
    assert information(1500, 50, 2, mu) < FEW < information(2000, 50, 2, mu)


@pytest.mark.parametrize(("n", "most"), [(1000, 200.0), (1500, 2.0)])
def test_few_people_suffice(n: int, most: float) -> None:
    """Ordinary rounds end at 4 × the floor with 1,500 people, and at 4,000 × with 1,000."""
    users, truth = cg.datasets.make_shared_subspace(n, seed=1001)
    model = cg.PrivateFedRep(2, 1.0, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=1)
    board = model.fit(users).billboard_
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    assert cg.metrics.population_mse(board, users, truth) < most * floor
    statement = board.statement
    assert statement.epsilon_spent <= 1.0
    assert sum(": sizes" in event.name for event in statement.events) == 96 // SIZES_EVERY


def test_the_number_of_rounds_can_be_given() -> None:
    users, _ = cg.datasets.make_shared_subspace(300, n_features=10, seed=1)
    model = cg.PrivateFedRep(2, n_rounds=5, fit_intercept=False, shared_mean=False, simulation_seed=1).fit(users)
    names = [event.name for event in model.billboard_.statement.events]
    assert sum(name.startswith("round") and ": clipped sum" in name for name in names) == 5
