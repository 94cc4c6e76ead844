"""Objective perturbation and descent with personal weights: the law of what is released, and that no neighbour exceeds her ε."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from commonground.accounting.gaussian import gaussian_mu
from commonground.reproduce.p3_settings import noise_of_rate_one
from commonground.reproduce.p3_wishes import (
    RESULT,
    Scaled,
    descent_noise,
    gradient_descent,
    moments,
    objective_perturbation,
    objective_rate,
    output_perturbation,
)


def _people(x: list[float], y: list[float], r: float = 1.0) -> Scaled:
    X, labels = np.array(x)[:, None], np.array(y)
    return Scaled(X, labels, X, labels, r, 1.0)


def _log_density(data: Scaled, epsilons: np.ndarray, alpha: float, radius: float, thetas: np.ndarray) -> np.ndarray:
    """Of θ inside the ball, d = 1, by the change of variables of the proof; written apart from the code under test."""
    rate = objective_rate(data, epsilons, alpha, radius)
    gram, rhs = moments(data, epsilons / epsilons.sum())
    b = rhs[0] - (gram[0, 0] + alpha) * thetas
    return math.log(rate / 2) - rate * np.abs(b) + math.log(gram[0, 0] + alpha)


@pytest.mark.statistical
def test_what_is_released_has_the_density_of_the_proof() -> None:
    """Kolmogorov-Smirnov of the draws inside the ball; false alarm 1e-6."""
    data, epsilons, alpha, radius = _people([1.0, 0.4, 0.8], [0.9, -0.2, 0.5]), np.array([4.0, 9.0, 7.0]), 0.3, 0.6
    drawn = objective_perturbation(data, epsilons, alpha, noise_of_rate_one(5_000, 1, 3), radius)[:, 0]
    assert np.abs(drawn).max() <= radius * (1 + 1e-9)
    inside = drawn[np.abs(drawn) < radius * (1 - 1e-9)]
    grid = np.linspace(-radius, radius, 20_001)
    cdf = np.cumsum(np.exp(_log_density(data, epsilons, alpha, radius, grid)))
    assert cdf[-1] * (grid[1] - grid[0]) == pytest.approx(len(inside) / len(drawn), abs=0.02)
    assert kstest(inside, lambda at: np.interp(at, grid, cdf / cdf[-1])).pvalue > 1e-6


def test_no_neighbour_makes_an_outcome_likelier_than_her_own_epsilon_allows() -> None:
    """Exact densities on a grid, everybody replaced in turn by the ends of the bounds; without r²/λ in η it would be exceeded."""
    closest = 0.0
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, alpha, radius = int(rng.integers(1, 4)), float(10 ** rng.uniform(-1.5, 0.5)), float(10 ** rng.uniform(-3, 0))
        epsilons = rng.uniform(0.1, 3.0, n)
        x, y = rng.uniform(0, 1, n), rng.uniform(-1, 1, n)
        thetas = np.linspace(-radius, radius, 41)
        if objective_rate(_people([0.0] * n, [0.0] * n), epsilons, alpha, radius) <= 0:
            continue
        for i in range(n):
            logs = []
            for mine in ((1.0, 1.0), (1.0, -1.0), (0.0, 0.0), (x[i], y[i])):
                x[i], y[i] = mine
                logs.append(_log_density(_people(list(x), list(y)), epsilons, alpha, radius, thetas))
            apart = max(float(np.abs(one - other).max()) for one in logs for other in logs)
            assert apart <= epsilons[i] * (1 + 1e-9)
            closest = max(closest, apart / epsilons[i])
    assert closest > 0.9


def test_on_the_sphere_the_volume_is_that_of_the_proof() -> None:
    """(θ, κ) → b in three dimensions by finite differences, against B · det Tᵀ(M/2 + κI)T."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((3, 3))
    half, rhs, B, kappa = root @ root.T + 0.2 * np.eye(3), rng.standard_normal(3), 0.7, 0.4
    n = rng.standard_normal(3)
    n /= np.linalg.norm(n)
    T = np.linalg.svd(n[None])[2][1:].T

    def b(t: np.ndarray) -> np.ndarray:
        theta = B * n + T @ t[:2]
        theta *= B / np.linalg.norm(theta)
        return rhs - half @ theta - (kappa + t[2]) * theta

    step = 1e-6
    jacobian = np.column_stack([(b(step * e) - b(-step * e)) / (2 * step) for e in np.eye(3)])
    assert abs(np.linalg.det(jacobian)) == pytest.approx(
        B * np.linalg.det(T.T @ (half + kappa * np.eye(3)) @ T), rel=1e-5
    )


def test_with_large_budgets_all_find_the_ridge_solution() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (200, 3))
    data = Scaled(X, X @ [0.3, -0.2, 0.1], X, X @ [0.3, -0.2, 0.1], math.sqrt(3) / 2, 0.5)
    epsilons, noise = np.full(200, 1e6), noise_of_rate_one(3, 3, 0)
    gram, rhs = moments(data, epsilons / epsilons.sum())
    exact = np.linalg.solve(gram + 0.05 * np.eye(3), rhs)
    for found in (
        output_perturbation(data, epsilons, 0.05, noise),
        objective_perturbation(data, epsilons, 0.05, noise),
    ):
        np.testing.assert_allclose(found, np.tile(exact, (3, 1)), atol=1e-5)
    descended = gradient_descent(data, np.full(200, 1e4), 0.05, 300, 1.0, 1.0, np.random.default_rng(1))
    np.testing.assert_allclose(descended[0], exact, atol=0.05)
    assert np.isnan(objective_perturbation(data, np.full(200, 1e-6), 0.05, noise)).all(), "nothing is private there"


def test_descent_pays_for_all_steps() -> None:
    """T sums, each moved by 2C: together μ."""
    mu = gaussian_mu(1.0, 1e-6)
    steps = [2 * 0.3 / descent_noise(mu, 25, 0.3)] * 25
    assert math.hypot(*steps) == pytest.approx(mu)


def test_a_fast_run_judges_nothing_about_the_wishes() -> None:
    outcome = RESULT.outcome(fast=True, show=False)
    assert outcome.rows
    assert not outcome.claims
