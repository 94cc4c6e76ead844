"""Where rounds start from: popular features do not pass for shared directions, and single ones that are shared stay."""

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.denoise.spectra import without_single_features
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.steps.noisy_start import release_noisy_start
from populations import mean_model


def start(users: cg.Users, seed: int) -> np.ndarray:
    gate = Gate(InMemoryLedger(Budget(50.0, 1e-6)), randomness_from(seed))
    return release_noisy_start(users, 2, mean_model(np.zeros(users.n_features)), gate, mu=5.0)


def ratings(popular: np.ndarray, seed: int) -> tuple[cg.Users, np.ndarray]:
    """One-hot items, of which everybody has some, the popular ones more often; and the two shared directions."""
    rng = np.random.default_rng(seed)
    n, d = 3000, len(popular)
    U = np.linalg.qr(rng.standard_normal((d, 2)))[0]
    person, item = np.nonzero(rng.random((n, d)) < popular)
    y = ((d**0.5 * U)[item] * rng.standard_normal((n, 2))[person]).sum(axis=1) / 4 + rng.standard_normal(len(item))
    return cg.Users.from_arrays(np.eye(d)[item], y, person), U


def test_popular_items_do_not_pass_for_directions() -> None:
    users, U = ratings(np.where(np.arange(30) < 4, 0.95, 0.4), seed=2)
    found = start(users, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cg.steps.noisy_start, "without_single_features", lambda moment, *_: moment)
        plain = start(users, seed=2)
    assert cg.metrics.subspace_distance(found, U) < 0.7 * cg.metrics.subspace_distance(plain, U)


def test_a_direction_may_be_a_single_feature() -> None:
    moment = np.diag([90.0, 3.0, 80.0, 1.0, 9.0, 2.0])
    Q = np.linalg.eigh(without_single_features(moment, rank=2, noise_std=0.1))[1][:, -2:]
    assert set(np.abs(Q).argmax(axis=0)) == {0, 2}


def test_alike_features_keep_their_diagonal() -> None:
    rng = np.random.default_rng(0)
    moment = np.diag(50.0 + rng.standard_normal(40))
    np.testing.assert_array_equal(without_single_features(moment, rank=2, noise_std=1.0), moment)
