"""Algorithm 2 of P4 as written: it learns where its noise allows, and its result says what it costs."""

import numpy as np

from commonground.reproduce.p4_smooth import RESULT, SmoothSteps, algorithm_2


def _owners(n: int, users: int, rows: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    u = rng.standard_normal(d)
    X = rng.standard_normal((n, users, rows, d)) / np.sqrt(d)
    return X, X @ u + 0.1 * rng.standard_normal((n, users, rows)), u


def test_with_little_noise_it_finds_the_shared_part() -> None:
    X, y, u = _owners(3, 50, 20, 4)
    settings = SmoothSteps(400, 1e3, 0.5, 10.0, 1.0, 5.0)
    found = algorithm_2(X, y, settings, np.random.default_rng(1))
    assert np.linalg.norm(found - u) < 0.1 * np.linalg.norm(u)


def test_its_first_step_is_the_slow_one() -> None:
    """One owner, no noise, a wide range: u and x_0 each move by the rate times the mean gradient of the users."""
    X, y, _ = _owners(1, 7, 5, 3)
    settings = SmoothSteps(1, 1e12, 50.0, 100.0, 0.5, 100.0)
    slow = np.mean([np.mean([-y[0, k, i] * X[0, k, i] for i in range(5)], axis=0) for k in range(7)], axis=0)
    np.testing.assert_allclose(algorithm_2(X, y, settings, np.random.default_rng(0)), -2 * 0.5 * slow, atol=1e-6)


def test_a_fast_run_judges_nothing() -> None:
    outcome = RESULT.outcome(fast=True, show=False)
    assert outcome.rows
    assert not outcome.claims
