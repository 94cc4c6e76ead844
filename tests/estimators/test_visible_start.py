"""A start that noise hides is looked at again, from the rounds' budget; single features do not pass for shared directions."""

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.accounting.gaussian import compose
from commonground.clipping import BoundedSum, symmetric_half
from commonground.estimators.rounds import Door
from commonground.estimators.visible_start import release_visible_start, without_single_features
from commonground.gate import Release, randomness_from
from commonground.ledger import InMemoryLedger


def names(board: cg.Billboard) -> list[str]:
    return [event.name for event in board.statement.events]


@pytest.mark.parametrize(("noise", "again"), [(0.01, False), (4.0, True)])
def test_a_second_look_is_paid_from_the_rounds(noise: float, again: bool) -> None:
    users, _ = cg.datasets.make_shared_subspace(3000, n_features=20, noise=noise, seed=1)
    book = InMemoryLedger(Budget(1.0, 1e-6))
    board = cg.PrivateFedRep(2, 1.0, n_rounds=4, keep_heads=False, simulation_seed=1).fit(users, ledger=book).billboard_
    assert ("initial embedding, again" in names(board)) == again
    assert compose(event.mu for event in book.events) == pytest.approx(Budget(1.0, 1e-6).mu, rel=1e-6)
    assert board.statement.epsilon_spent <= 1.0


def test_sampled_rounds_go_without() -> None:
    """Their costs are no μ², of which a release may decide how the rest is divided."""
    users, _ = cg.datasets.make_shared_subspace(3000, n_features=20, noise=4.0, seed=1)
    model = cg.PrivateFedRep(2, 1.0, n_rounds=2, sample_rate=0.4, keep_heads=False, simulation_seed=1)
    assert "initial embedding, again" not in names(model.fit(users).billboard_)


def start(users: cg.Users, mu: float, mu_again: float, seed: int) -> tuple[np.ndarray, float]:
    door = Door(InMemoryLedger(Budget(50.0, 1e-6)), randomness_from(seed))
    return release_visible_start(users, 2, None, False, door, mu, mu_again)


def test_two_looks_are_as_good_as_one_of_both_costs() -> None:
    """Of the directions found, over 20 seeds; weights that favour either look are worse by more than the margin."""
    users, truth = cg.datasets.make_shared_subspace(2000, n_features=20, noise=1.0, seed=3)
    distances = []
    for seed in range(20):
        found, spent = start(users, mu=0.03, mu_again=0.06, seed=seed)
        assert spent == 0.06
        whole, _ = start(users, mu=0.067, mu_again=1e-9, seed=100 + seed)
        distances.append([cg.metrics.subspace_distance(U, truth.embedding) for U in (found, whole)])
    in_two, at_once = np.mean(distances, axis=0)
    assert in_two == pytest.approx(at_once, rel=0.15)


@pytest.mark.parametrize(("strength", "again"), [(1e3, False), (0.0, True)])
def test_the_first_release_decides_and_nothing_else(strength: float, again: bool) -> None:
    """A gate that gives back what it likes: a moment with two directions, or nothing, whatever people have."""
    told = symmetric_half(np.diag([strength, strength] + [0.0] * 18))

    class Gate(Door):
        def release(self, bounded_sum: BoundedSum, mu: float) -> Release:  # type: ignore[override]
            return Release(told, GaussianEvent(bounded_sum.name, mu, 1.0, 1.0, told.size, simulated=True))

    for noise in (0.01, 4.0):
        users, _ = cg.datasets.make_shared_subspace(3000, n_features=20, noise=noise, seed=1)
        door = Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(0))
        assert release_visible_start(users, 2, None, False, door, 0.1, 0.2)[1] == (0.2 if again else 0.0)


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
    found, _ = start(users, mu=5.0, mu_again=5.0, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cg.estimators.visible_start, "without_single_features", lambda moment, *_: moment)
        plain, _ = start(users, mu=5.0, mu_again=5.0, seed=2)
    assert cg.metrics.subspace_distance(found, U) < 0.7 * cg.metrics.subspace_distance(plain, U)


def test_a_direction_may_be_a_single_feature() -> None:
    moment = np.diag([90.0, 3.0, 80.0, 1.0, 9.0, 2.0])
    Q = np.linalg.eigh(without_single_features(moment, rank=2, noise_std=0.1))[1][:, -2:]
    assert set(np.abs(Q).argmax(axis=0)) == {0, 2}


def test_alike_features_keep_their_diagonal() -> None:
    rng = np.random.default_rng(0)
    moment = np.diag(50.0 + rng.standard_normal(40))
    np.testing.assert_array_equal(without_single_features(moment, rank=2, noise_std=1.0), moment)
