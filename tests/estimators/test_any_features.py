"""Features of any scales and correlations, with the defaults: as good as if they were alike."""

import numpy as np
import pytest

import commonground as cg
from commonground.denoise.spectra import differ, true_variances
from commonground.heads.ridge import fit_heads
from commonground.statistics.coordinates import FeatureMoments
from commonground.steps.coordinates import coefficients_for_features, seen_in_coordinates

D = 20


def stretched(S: np.ndarray, seed: int, n: int = 6000) -> tuple[cg.Users, np.ndarray]:
    """People whose features are S x, and the embedding that is true for them."""
    users, truth = cg.datasets.make_shared_subspace(n, n_features=D, seed=seed)
    block = next(users.blocks(max_bytes=2**40))
    X = (block.X @ S.T).astype(np.float32)
    U = np.linalg.qr(np.linalg.solve(S.T, truth.embedding))[0]
    return cg.Users.from_arrays(X, block.y, np.repeat(users.ids, 10)), np.ascontiguousarray(U)


def squared_residuals(users: cg.Users, U: np.ndarray) -> float:
    block = next(users.blocks(max_bytes=2**40))
    heads = fit_heads(block, U, None, 0.0, False)[0]
    own = np.repeat(heads, np.diff(block.offsets), axis=0)
    return float((((block.X @ U) * own).sum(axis=1) - block.y).std())


def correlated(spread: float) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(7).standard_normal((D, D)))[0] * np.logspace(0, -np.log10(spread), D)


@pytest.mark.parametrize(
    "S",
    [correlated(10.0), np.diag(np.where(np.arange(D) % 2, 1e6, 1.0)), np.diag(np.logspace(-3, 3, D)) @ correlated(3.0)],
    ids=["condition number 100", "two units", "units and correlations"],
)
def test_stretched_features_cost_nothing(S: np.ndarray) -> None:
    users, U = stretched(S, seed=3)
    model = cg.PrivateFedRep(2, 1.0, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=3)
    board = model.fit(users).billboard_
    assert squared_residuals(users, board.embedding) < 1.02 * squared_residuals(users, U)
    np.testing.assert_allclose(board.embedding.T @ board.embedding, np.eye(2), atol=1e-9)
    assert board.statement.epsilon_spent <= 1.0


def test_a_shared_mean_comes_back_to_the_features_own_units() -> None:
    rng = np.random.default_rng(5)
    users, _ = cg.datasets.make_shared_subspace(6000, n_features=D, noise=0.1, seed=5)
    block, scales = next(users.blocks(max_bytes=2**40)), np.logspace(-2, 2, D)
    w, ids = rng.standard_normal(D) / scales, np.repeat(users.ids, 10)
    X = block.X * scales
    model = cg.PrivateFedRep(2, 2.0, keep_heads=False, simulation_seed=5).fit(X, block.y + X @ w + 1.0, users=ids)
    mean = model.billboard_.mean
    assert mean is not None
    assert np.linalg.norm((mean - w) * scales) < 0.1 * np.linalg.norm(w * scales)


def test_alike_features_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(
        cg.estimators.fedrep.many_people, "seen_in_coordinates", lambda users, T: seen.append(T) or users
    )
    for seed in range(3):
        users, _ = cg.datasets.make_shared_subspace(3000, n_features=D, seed=seed)
        cg.PrivateFedRep(
            2, n_rounds=1, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=seed
        ).fit(users)
    assert seen == [None] * 3


@pytest.mark.parametrize("noise", [0.02, 0.1])
def test_variances_along_noisy_directions(noise: float) -> None:
    """Against the true ones: uᵀ Σ u for the eigenvectors u of Σ + noise; up to what is raised to the noise."""
    d = 300
    rng = np.random.default_rng(1)
    truth, half = np.diag(np.logspace(1, -1, d)), noise / 2 * rng.standard_normal((d, d))
    eigenvalues, Q = np.linalg.eigh(truth + half + half.T)
    expected = np.maximum(((Q.T @ truth) * Q.T).sum(axis=1), 0.5 * noise * (d / 2) ** 0.5)
    found = true_variances(eigenvalues, noise)
    assert np.abs(found - expected).mean() < 0.4 * np.abs(eigenvalues - expected).mean()


def test_pure_noise_does_not_differ() -> None:
    """False alarms: 4 standard deviations."""
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((30, 30)) / 2
    assert not differ(np.linalg.eigvalsh(100 * np.eye(30) + noise + noise.T), noise_std=1.0)
    assert differ(np.linalg.eigvalsh(np.diag(np.linspace(90, 110, 30)) + noise + noise.T), noise_std=1.0)


def test_who_takes_no_part_in_a_sum_takes_none_in_other_coordinates() -> None:
    """A sample of people that was paid for as a sample must stay one."""
    users, _ = cg.datasets.make_shared_subspace(60, n_features=D, seed=1)
    T, weights = np.diag(np.arange(1.0, D + 1)), (np.arange(60) % 3 == 0).astype(float)
    some = seen_in_coordinates(users, T).weighted(weights)
    expected = seen_in_coordinates(users.weighted(weights), T)
    sums = [each.sum(FeatureMoments(False)) for each in (some, expected, seen_in_coordinates(users, T))]
    assert [one.n_users for one in sums] == [20, 20, 60]
    np.testing.assert_array_equal(sums[0].value, sums[1].value)


def test_coefficients_in_both_coordinates_predict_alike() -> None:
    rng = np.random.default_rng(3)
    x, coefficients = rng.standard_normal(4), rng.standard_normal((4, 2))
    for T in (rng.standard_normal((4, 4)), rng.uniform(1, 2, 4), None):
        z = x if T is None else T @ x if T.ndim == 2 else T * x
        np.testing.assert_allclose(x @ coefficients_for_features(T, coefficients), z @ coefficients)
        np.testing.assert_allclose(x @ coefficients_for_features(T, coefficients[:, 0]), z @ coefficients[:, 0])
