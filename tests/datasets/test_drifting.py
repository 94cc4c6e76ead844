"""People who change: what they are drawn from is what they are."""

import numpy as np
import pytest

from commonground.datasets.drifting import DriftingPeople
from commonground.metrics import subspace_distance


def world(drift: float = 0.0) -> DriftingPeople:
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0]
    return DriftingPeople(U, np.array([[0.5, 0.1, 0.0], [0.1, 1.0, 0.2], [0.0, 0.2, 0.7]]), 0.3, np.ones(5), 2.0, drift)


def test_directions_turn_by_so_much_a_year_and_stay_orthonormal() -> None:
    people = world(drift=0.8)
    for time in (0.0, 0.25, 1.0):
        now = people.embedding_at(time)
        np.testing.assert_allclose(now.T @ now, np.eye(2), atol=1e-12)
        assert subspace_distance(now, people.embedding) == pytest.approx(np.sin(0.8 * time))


def test_own_parts_have_the_spread_and_rows_the_noise() -> None:
    """40,000 people: every number within five standard errors (false alarm below 10⁻⁵)."""
    people = world()
    parts = people.own_parts(40_000, 3)
    np.testing.assert_allclose(np.cov(parts.T), people.spread, atol=5 * 2 / 200)
    users = people.rows(parts, 0.0, 2, 4)
    theta, intercepts = people.coefficients(parts, 0.0)
    rest = []
    for block in users.blocks():
        whose = np.repeat(np.arange(block.first, block.first + block.n_users), 2)
        rest.append(block.y - np.einsum("ij,ij->i", block.X, theta[whose]) - intercepts[whose])
    assert np.concatenate(rest).var() == pytest.approx(0.3, rel=5 * (2 / 80_000) ** 0.5)
