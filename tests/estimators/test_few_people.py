"""Rounds for few people: against the slow formula, and where the ordinary rounds drown in their noise."""

from types import SimpleNamespace

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.grid import N_BINS, bin_of, lower_edge
from commonground.denoise.spectra import log_likelihood
from commonground.estimators.fedrep.few_people import (
    LOOKS,
    MANY_PEOPLE_FROM,
    N_ROUNDS,
    SIZES_EVERY,
    SPREAD,
    fit_sizes,
    information,
    plan_for_few,
    rounds_for_few,
)
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.metrics import subspace_distance
from commonground.statistics.directions import Directions, DirectionsWithin
from commonground.statistics.statistic import SharedModel
from commonground.statistics.whitened import _FREE, _RIDGE, BestGuesses, MissedSizes
from commonground.steps.initial_embedding import release_embedding_in_looks, release_initial_embedding
from populations import mean_model, ragged_block


@pytest.mark.parametrize("local_intercept", [False, True])
@pytest.mark.parametrize("d", [4, 9])  # people with more rows than features, and with fewer
def test_best_guesses_against_the_slow_formula(d: int, local_intercept: bool, seed: int) -> None:
    block = ragged_block(seed, d=d)
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, 2)))[0]
    total, counts = np.zeros((d, d)), np.zeros(N_BINS)
    for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True):
        X, y = block.X[lo:hi], block.y[lo:hi]
        seen = min(len(y) - local_intercept, d) - 2
        if seen <= 0:
            counts[0] += 1
            continue
        if local_intercept:
            X, y = X - X.mean(axis=0), y - y.mean()
        ridge = _RIDGE * (X**2).sum() / min(len(y), d)
        penalty = np.eye(d) - _FREE / (1 + _FREE) * U @ U.T  # on what is outside the span of U, and hardly on the rest
        theta = np.linalg.solve(X.T @ X + ridge * penalty, X.T @ y)
        held, missed = U @ U.T @ theta, theta - U @ U.T @ theta
        z = held / np.linalg.norm(held) + missed / np.linalg.norm(missed)
        total += np.outer(z, z) / 2
        counts[bin_of((d * (1 + _RIDGE) / seen) ** 2 * (missed @ missed) / (held @ held))] += 1
    model = SharedModel(U, own_intercept=local_intercept)
    np.testing.assert_allclose(BestGuesses(model).of(block).value, total, atol=1e-6 * block.n_users)
    np.testing.assert_array_equal(MissedSizes(model).of(block).counts, counts)


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


def test_sizes_that_label_noise_holds_up_are_found() -> None:
    """Followed down six bins too far, but no higher than they were."""
    bell = np.exp(-((np.arange(16) - 12.0) ** 2) / (2 * SPREAD**2)) / (SPREAD * np.sqrt(2 * np.pi))
    noisy = 1000 * bell + 70 * np.random.default_rng(0).standard_normal(16)
    assert fit_sizes(noisy, 100, 70.0, 1000.0, 106.0, 0.5, highest=113.0)[0] == pytest.approx(112.0, abs=0.5)
    assert fit_sizes(noisy, 100, 70.0, 1000.0, 106.0, 0.5, highest=106.0)[0] <= 107.5


def test_where_many_rounds_are_chosen() -> None:
    mu = cg.accounting.gaussian.gaussian_mu(1.0, 1e-6)
    assert information(1000, 50, 2, mu) == pytest.approx(0.16 * (1000 * mu) ** 2 / (4 * 2 * 96), rel=1e-9)
    assert information(2000, 50, 2, mu) < MANY_PEOPLE_FROM < information(2500, 50, 2, mu)


def test_guesses_see_more_than_gradients() -> None:
    """The cos² of e_j with what is missed is (m − k)/(d − k); that of Xᵀr about (m − k)/(m + d)."""
    users, truth = cg.datasets.make_shared_subspace(2000, noise=0.0, seed=3)
    block = next(iter(users.blocks()))
    tilt = np.linalg.qr(np.random.default_rng(3).standard_normal((50, 2)))[0]
    U = np.linalg.qr(truth.embedding + 0.02 * tilt)[0]
    outside = np.eye(50) - U @ U.T
    missed = outside @ truth.embedding
    guesses = 2.0 * BestGuesses(SharedModel(U, own_intercept=False)).of(block).value
    signal = float((outside @ guesses @ U * (missed @ truth.embedding.T @ U)).sum())
    signal /= 2000 * float(np.linalg.norm(missed, axis=0).mean())  # people of one length each: mean cosine
    assert signal == pytest.approx((8 / 48) ** 0.5, rel=0.05)
    # And beside the head: where anything is missed, people's guesses point there by that cos² more often than elsewhere.
    directions = np.linalg.qr(missed)[0]
    there = float(np.trace(directions.T @ guesses @ directions)) / 2000
    assert there == pytest.approx(8 / 48 + 40 / 48 * 2 / 50, rel=0.1)
    assert float(np.trace(outside @ guesses @ outside)) == pytest.approx(2000.0)


def test_looks_within_a_subspace(seed: int) -> None:
    block = ragged_block(seed, d=9)
    model = mean_model(np.zeros(9))
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((9, 4)))[0]
    one_by_one = np.zeros((4, 4))
    for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True):
        alone = cg.data.users.Block(block.X[lo:hi], block.y[lo:hi], np.array([0, hi - lo]), 0)
        within = Q.T @ Directions(model).of(alone).value @ Q
        one_by_one += within / np.trace(within)
    np.testing.assert_allclose(DirectionsWithin(model, Q).of(block).value, one_by_one, atol=1e-9)


def test_looks_add_up_as_likelihoods_do() -> None:
    """Σ u uᵀ = λ U Uᵀ + c I + noise: λ is found, though noise raises the largest eigenvalues, and c does not matter."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((200, 2)))[0]
    noise = rng.standard_normal((200, 200))
    noise = (noise + noise.T) / 2  # entries of variance ½, as a unit of noise on the symmetric half makes them
    moment = 25.0 * U @ U.T + 3.0 * np.eye(200) + noise
    weighted = log_likelihood(moment, 2, noise_std=1.0, n_people=0.0)
    assert (weighted / (moment - 3.0 * np.eye(200)))[0, 1] == pytest.approx(2 * 25.0, rel=0.05)


def test_several_looks_find_more_than_one() -> None:
    users, truth = cg.datasets.make_shared_subspace(1000, seed=1003)
    mu = 0.09  # a seventh of the μ² of ε = 1
    distances = []
    for seed in range(4):
        gate = Gate(InMemoryLedger(Budget(10.0, 1e-6)), randomness_from(seed))
        one = release_initial_embedding(users, 2, mean_model(np.zeros(50)), gate, mu)
        three = release_embedding_in_looks(users, 2, mean_model(np.zeros(50)), gate, mu)
        eight = release_embedding_in_looks(users, 2, mean_model(np.zeros(50)), gate, mu, looks=LOOKS)
        distances.append([subspace_distance(U, truth.embedding) ** 2 for U in (one, three, eight)])
    mean = np.mean(distances, axis=0)
    assert max(mean[1], mean[2]) < mean[0] - 0.1
    assert mean[2] < mean[1]


class FixedGate:
    """Lets nothing through: what it releases is drawn without a look at the sum."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.costs: list[float] = []

    def release(self, bounded_sum: BoundedSum, mu: float) -> SimpleNamespace:
        self.costs.append(mu)
        return SimpleNamespace(value=self.rng.standard_normal(bounded_sum.value.shape), noise_std=1.0)


def test_everything_is_made_of_releases() -> None:
    """Two populations behind one gate that tells nothing of them end in the same embedding, and μ² is spent to the end."""
    found, shares = [], {s.name: (s.part / s.repeats) ** 0.5 for s in plan_for_few(12.0)}
    for seed in (1, 2):
        users, _ = cg.datasets.make_shared_subspace(60, n_features=8, seed=seed)
        gate = FixedGate()
        U = release_embedding_in_looks(users, 2, mean_model(np.zeros(8)), gate, shares["init"], looks=LOOKS)  # type: ignore[arg-type]
        found.append(rounds_for_few(users, SharedModel(U), gate, shares, lambda: None).embedding)  # type: ignore[arg-type]
        assert len(gate.costs) == len(LOOKS) + N_ROUNDS + N_ROUNDS // SIZES_EVERY
        assert sum(mu**2 for mu in gate.costs) == pytest.approx(1.0)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(("n", "most"), [(1000, 6.0), (1500, 2.0)])
def test_few_people_suffice(n: int, most: float) -> None:
    """Ordinary rounds end at 4 × the floor with 1,500 people, and at 4,000 × with 1,000."""
    users, truth = cg.datasets.make_shared_subspace(n, seed=1001)
    model = cg.PrivateFedRep(2, 1.0, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=1)
    board = model.fit(users).billboard_
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    assert cg.metrics.population_mse(board, users, truth) < most * floor
    statement = board.statement
    assert 0.999 < statement.epsilon_spent <= 1.0
    assert sum(": best guesses" in event.name for event in statement.events) == N_ROUNDS
    assert sum("sizes" in event.name for event in statement.events) == N_ROUNDS // SIZES_EVERY


def test_the_number_of_rounds_can_be_given() -> None:
    users, _ = cg.datasets.make_shared_subspace(300, n_features=10, seed=1)
    model = cg.PrivateFedRep(2, n_rounds=5, fit_intercept=False, shared_mean=False, simulation_seed=1).fit(users)
    names = [event.name for event in model.billboard_.statement.events]
    assert sum(name.startswith("round") and ": clipped sum" in name for name in names) == 5
