"""Few people at a small ε: noise hides nearly all, and nobody is worse off than with the mean of her own labels."""

import numpy as np
import pytest

import commonground as cg
from commonground.estimators.fedrep import first_model
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
    monkeypatch.setattr(first_model, "MOSTLY_NOISE_BELOW", 0.0)
    X, y, ids = rated(0)
    seen = cg.PrivateFedRep(1, 0.1, simulation_seed=1).fit(X, y, users=ids).billboard_
    assert seen.spread[0, 0] < 0.1 * boards[0].spread[0, 0]  # type: ignore[index]


def test_where_noise_hides_nearly_all_little_but_own_levels_is_left() -> None:
    U, spread = np.eye(3)[:, :1], np.eye(2)
    learned = SharedModel(U, np.ones(3), 5.0, True, spread, 2.0)
    left = first_model.HiddenByNoise(level_variance=7.0, nearly_all=True).made_up_for(learned)
    assert left.coef is not None
    assert not left.coef.any()
    np.testing.assert_allclose(left.embedding, 0.1 * U)
    np.testing.assert_allclose(left.spread, np.diag([8.0, 1.0]))
    assert first_model.HiddenByNoise().made_up_for(learned) is learned


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
