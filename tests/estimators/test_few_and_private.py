"""Few people at a small ε: noise hides nearly all, and nobody is worse off than with the mean of her own labels."""

import itertools

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.denoise.places import Place
from commonground.estimators.fedrep import default_plan
from commonground.estimators.fedrep.default import with_idle_directions
from commonground.estimators.fedrep.first_model import release_better_level
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.statistics.statistic import SharedModel


def rated(seed: int, n_people: int = 150, rows: int = 12, d: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratings about 5, by people who differ by 1.3, with more noise than signal."""
    rng = np.random.default_rng(seed)
    ids, X = np.repeat(np.arange(n_people), rows), rng.standard_normal((n_people * rows, d))
    y = 5.0 + 1.3 * rng.standard_normal(n_people)[ids] + 0.2 * X.sum(axis=1) + 2.2 * rng.standard_normal(len(ids))
    return X, y, ids


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize("rank", [0, 2])
def test_nobody_is_worse_off_than_with_her_own_mean(rank: int) -> None:
    for seed in range(6):
        X, y, ids = rated(seed)
        held = np.arange(len(ids)) % 12 == 0
        own = (np.bincount(ids[~held], y[~held]) / np.bincount(ids[~held]))[ids[held]]
        model = cg.PrivateFedRep(rank, 0.1, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        error, by_own_mean = (
            float(np.sqrt(np.mean((answers - y[held]) ** 2)))
            for answers in (model.predict(X[held], users=ids[held]), own)
        )
        assert error < 1.005 * by_own_mean


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_what_counts_as_hidden_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same releases for the same numbers of people, whatever their rows; and a shared model of nothing but a level."""
    boards = [
        cg.PrivateFedRep(1, 0.1, simulation_seed=1).fit(*rated(seed)[:2], users=rated(seed)[2]).billboard_
        for seed in (0, 1)
    ]
    assert boards[0].statement.events == boards[1].statement.events
    assert not any(board.mean.any() for board in boards)  # type: ignore[union-attr]
    monkeypatch.setattr(default_plan, "LEVELS_ONLY_BELOW", 0.0)
    X, y, ids = rated(0)
    seen = cg.PrivateFedRep(1, 0.1, simulation_seed=1).fit(X, y, users=ids).billboard_
    assert len(seen.statement.events) > len(boards[0].statement.events)


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_where_noise_hides_nearly_all_own_levels_are_left_and_all_is_spent() -> None:
    """Directions are there, as many as were asked for, and do nothing; who has rows keeps the level that these tell."""
    X, y, ids = rated(0)
    for seed in range(8):
        board = cg.PrivateFedRep(2, 0.1, simulation_seed=seed).fit(X, y, users=ids).billboard_
        assert board.embedding.shape == (8, 2)
        np.testing.assert_allclose(board.embedding.T @ board.embedding, np.eye(2), atol=1e-12)
        assert np.abs(board.spread[1:, 1:]).max() < 1e-6 * board.spread[0, 0]  # type: ignore[index]
        # Whether or not a first look has shown where labels lie.
        assert 0.0999 < board.statement.epsilon_spent <= 0.1


def test_idle_directions_stand_beside_those_that_were_learned() -> None:
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0]
    learned = SharedModel(U, np.ones(6), 5.0, True, np.eye(3), 2.0)
    wider = with_idle_directions(learned, 4)
    np.testing.assert_array_equal(wider.embedding[:, :2], U)
    np.testing.assert_allclose(wider.embedding.T @ wider.embedding, np.eye(4), atol=1e-12)
    assert wider.spread is not None
    np.testing.assert_allclose(wider.spread, np.diag([1.0, 1.0, 1.0, 2e-9, 2e-9]))
    assert with_idle_directions(learned, 2) is with_idle_directions(learned, "auto") is learned


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize(("widest", "worse"), [(10, 1.0), (100, 1.01), (10_000, 1.1)])
def test_a_public_range_of_labels_is_no_harm_to_few_people_however_wide(widest: float, worse: float) -> None:
    """Once own means were drawn to the middle of a range that was ten times too wide: errors of three times the own mean's."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    label = cg.Column("y", "label", range=(0, widest))
    schema = cg.Schema((cg.Column("who", "person"), label, *map(cg.Column, "abcdefgh")))
    for seed, epsilon in itertools.product(range(6), (0.1, 0.3)):
        X, y, ids = rated(seed, rows=6)
        y, held = np.clip(y, 0, 10), np.arange(len(ids)) % 6 < 2
        for declared in errors:
            people = cg.Users.from_arrays(X[~held], y[~held], ids[~held], schema=schema if declared else None)
            model = cg.PrivateFedRep(0, epsilon, simulation_seed=seed).fit(people)
            errors[declared].append(float(np.mean((model.predict(X[held], users=ids[held]) - y[held]) ** 2)))
    assert np.mean(errors[True]) < worse * np.mean(errors[False])


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_where_centred_labels_lie_is_not_read_off_noise() -> None:
    """800 people at ε = 1, labels about zero: one fit in a hundred took a bell of noise for them and was off by any factor."""
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(800), 10), rng.standard_normal((8_000, 6))
    y = 0.8 * rng.standard_normal(800)[ids] + 0.3 * X.sum(axis=1) + rng.standard_normal(8_000)
    seen = cg.Users.from_arrays(X, y, ids)
    off = [
        cg.PrivateFedRep(0, 1.0, keep_heads=False, simulation_seed=10_000 + seed).fit(seen).billboard_.intercept
        for seed in range(150)
    ]
    assert max(map(abs, off)) < y.std()


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 30.0, 1e6])
def test_labels_of_any_size_are_learned_alike_where_their_range_is_public(factor: float) -> None:
    """Up to rounding, where the factor is none of two."""
    X, y, ids = rated(0, n_people=300)
    found = []
    for size in (1.0, factor):
        label = cg.Column("y", "label", range=(-10 * size, 20 * size))
        schema = cg.Schema((cg.Column("who", "person"), label, *map(cg.Column, "abcdefgh")))
        people = cg.Users.from_arrays(X, size * y, ids, schema=schema)
        for model in (cg.PrivateFedRep(1, 2.0), cg.SingleModel(2.0), cg.PrivateAltMin(1, 2.0)):
            fitted = model.set_params(simulation_seed=1).fit(people)
            found.append(fitted.predict(X[:200], users=ids[:200]) / size)
    for one, other in zip(found[:3], found[3:], strict=True):
        assert np.corrcoef(one, other)[0, 1] > 0.9
        assert 0.8 < one.std() / other.std() < 1.25


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_sizes_that_histograms_hide_are_expected_and_not_read_off_noise() -> None:
    """180 people at ε = 1: noise had chosen the clips, and slopes that everybody shares were lost in some fits."""
    found = []
    for seed in range(6):
        X, y, ids = rated(seed, n_people=180)
        y = y + X[:, 0] - X[:, 1]
        board = cg.PrivateFedRep(0, 1.0, simulation_seed=seed).fit(X, y, users=ids).billboard_
        assert not any(
            event.name.startswith("shared mean") and "sizes" in event.name for event in board.statement.events
        )
        true = 0.2 + np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        found.append(float(board.mean @ true / (true @ true)))  # type: ignore[operator]
    assert np.mean(found) > 0.5
    assert max(found) < 1.3


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize(("n_people", "epsilon"), [(1_500, 0.1), (3_000, 0.1), (500, 0.5)])
def test_few_noisy_answers_do_not_make_a_model_far_worse_than_a_constant(n_people: int, epsilon: float) -> None:
    """Noise filled up histograms of sizes, so that the level was half of the truth: errors were 2.5 times the constant's."""
    rng = np.random.default_rng(3)
    ids, X = np.repeat(np.arange(n_people), 3), rng.standard_normal((3 * n_people, 12))
    y = 3.5 + 0.1 * rng.standard_normal(n_people)[ids] + 0.03 * X.sum(axis=1) + rng.standard_normal(len(ids))
    held, errors = np.arange(len(ids)) % 3 == 0, []
    for seed in range(6):
        model = cg.PrivateFedRep(1, epsilon, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        errors.append(float(np.sqrt(np.mean((model.predict(X[held], users=ids[held]) - y[held]) ** 2))))
    assert np.mean(errors) < 1.25 * y.std()


def test_a_sum_of_mean_labels_says_where_they_lie() -> None:
    """Where hardly any noise hides it, one sum tells the level to a few hundredths of how far people's mean labels spread."""
    rng = np.random.default_rng(0)
    people = cg.Users.from_arrays(
        np.zeros((8_000, 2)), 5.0 + rng.standard_normal(8_000), np.repeat(np.arange(2_000), 4)
    )
    gate = Gate(InMemoryLedger(Budget(100.0, 1e-6)), randomness_from(0))
    believed = Place(mean=4.8, doubt=0.3, spread=0.5)
    found = release_better_level(people, SharedModel(np.zeros((2, 0)), None, 4.8, True), believed, gate, 5.0, "level")
    assert abs(found.mean - 5.0) < 0.05
    assert found.doubt < believed.doubt


@pytest.mark.parametrize(("n_people", "learned"), [(200, 0), (300, 1), (3_000, 3)])
def test_as_many_directions_are_learned_as_people_are_enough_for(n_people: int, learned: int) -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=n_people, rows_per_user=2, n_features=20, seed=0)
    assert default_plan.learnable_rank(users, default_plan.FitSettings(rank=3), mu=0.24) == learned
