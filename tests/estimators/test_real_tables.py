"""Tables as people have them: few noisy rows, columns that say who somebody is, categories, columns far from zero.

A model must never be much worse than what a user would take instead: a constant, or the mean of one's own labels.
"""

import numpy as np
import pytest

import commonground as cg

N = 2_000


def table(kind: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, people, which rows are held out, and what the best shared model says."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(N), rng.integers(3, 15, N))
    columns = [rng.standard_normal((len(ids), 6))]
    if "person" in kind:
        columns.append(rng.standard_normal((N, 3))[ids])
    if "category" in kind:
        columns += [np.eye(4)[rng.integers(0, 4, len(ids))], np.eye(3)[rng.integers(0, 3, N)][ids]]
    X = np.column_stack(columns) + (5.0 if "offset" in kind else 0.0)
    about = X - X.mean(axis=0)
    shared = 1.0 + about @ rng.normal(0, 0.5, X.shape[1])
    own = 0.7 * rng.standard_normal(N)[ids] + (about @ rng.normal(0, 0.3, X.shape[1])) * rng.standard_normal(N)[ids]
    y = shared + own + rng.standard_normal(len(ids))
    return X, y, ids, rng.random(len(ids)) < 0.25, shared


def rmse(predictions: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predictions - y) ** 2)))


@pytest.mark.filterwarnings("ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize("kind", ["plain", "person", "category", "offset", "person category offset"])
def test_columns_of_any_kind(kind: str) -> None:
    X, y, ids, held, best_shared = table(kind)
    model = cg.PrivateFedRep(1, 2.0, simulation_seed=1).fit(X[~held], y[~held], users=ids[~held])
    mixed = cg.NonPrivateFedRep(1).fit(X[~held], y[~held], users=ids[~held])
    private, without = (rmse(each.predict(X[held], users=ids[held]), y[held]) for each in (model, mixed))
    assert private < 1.08 * without
    assert rmse(model.billboard_.predict(X[held]), y[held]) < 1.06 * rmse(best_shared[held], y[held])


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
@pytest.mark.parametrize("rank", [0, 2])
def test_little_budget_is_never_far_worse_than_a_constant(epsilon: float, rank: int) -> None:
    X, y, ids, held, _ = table("person category")
    constant = rmse(np.full(held.sum(), y[~held].mean()), y[held])
    errors = []
    for seed in range(5):
        model = cg.PrivateFedRep(rank, epsilon, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        answers = model.predict(X[held], users=ids[held]), model.billboard_.predict(X[held])
        errors.append([rmse(each, y[held]) / constant for each in answers])
    own, shared = np.array(errors).T
    assert own.mean() < 0.97
    assert own.max() < 1.15
    assert shared.max() < 1.2


def test_a_level_that_noise_hides_is_told_by_ones_own_rows() -> None:
    """180 people, as in a survey, at ε = 0.1: nothing that is released says where labels lie."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(180), 16)
    X, held = rng.choice([-1.0, 1.0], (len(ids), 13)), rng.random(len(ids)) < 0.2
    y = 5.0 + 1.2 * rng.standard_normal(180)[ids] + X @ rng.normal(0, 0.3, 13) + 1.8 * rng.standard_normal(len(ids))
    own_mean = (np.bincount(ids[~held], y[~held]) / np.bincount(ids[~held]))[ids[held]]
    shared = []
    for seed in range(4):
        model = cg.PrivateFedRep(1, 0.1, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        shared.append(rmse(model.billboard_.predict(X[held]), y[held]))
        assert rmse(model.predict(X[held], users=ids[held]), y[held]) < 1.2 * rmse(own_mean, y[held])
    assert max(shared) > 1.5 * rmse(own_mean, y[held])


def test_labels_that_are_noise_are_answered_by_their_mean() -> None:
    rng = np.random.default_rng(0)
    X, ids = rng.standard_normal((8_000, 5)), np.repeat(np.arange(2_000), 4)
    y = 3.0 + rng.standard_normal(len(ids))
    model = cg.PrivateFedRep(2, 1.0, simulation_seed=0).fit(X, y, users=ids)
    fresh = rng.standard_normal((8_000, 5))
    assert rmse(model.predict(fresh, users=ids), np.full(8_000, 3.0)) < 0.35


@pytest.mark.parametrize("model", [cg.PrivateFedRep(1, 2.0, simulation_seed=0), cg.NonPrivateFedRep(1)])
def test_nine_of_ten_labels_lie_within_their_interval(model: cg.PrivateFedRep) -> None:
    X, y, ids, held, _ = table("person")
    model.fit(X[~held], y[~held], users=ids[~held])
    answers, std = model.predict(X[held], users=ids[held], return_std=True)
    inside = np.abs(y[held] - answers) < 1.645 * std
    assert 0.88 < inside.mean() < 0.92
    rows = np.bincount(ids[~held], minlength=N)[ids[held]]
    for few, many in ((0, 5), (5, 9), (9, 15)):
        assert 0.86 < inside[(rows >= few) & (rows < many)].mean() < 0.94
    person = np.flatnonzero(np.bincount(ids[~held], minlength=N) > 3)[0]
    head = model.billboard_.personalize(X[~held][ids[~held] == person], y[~held][ids[~held] == person])
    mine = X[held][:5]
    np.testing.assert_allclose(head.predict(mine), model.predict(mine, users=[person] * 5), rtol=1e-9)
    low, high = head.interval(mine, level=0.9).T
    np.testing.assert_allclose(
        (high - low) / 2, 1.6448536 * model.predict(mine, users=[person] * 5, return_std=True)[1]
    )


def test_somebody_without_rows_gets_the_shared_prediction_and_a_wider_interval_than_most() -> None:
    """Not than all: whose own labels lie far from her model is told so."""
    X, y, ids, held, _ = table("plain")
    model = cg.PrivateFedRep(1, 2.0, simulation_seed=0).fit(X[~held], y[~held], users=ids[~held])
    known = model.predict(X, users=ids, return_std=True)
    with pytest.warns(cg.errors.UnknownUserWarning):
        unknown = model.predict(X, users=[-1] * len(X), return_std=True)
    np.testing.assert_allclose(unknown[0], model.billboard_.predict(X))
    assert np.mean(unknown[1] ** 2) > np.mean(known[1] ** 2)
    assert (unknown[1] > known[1]).mean() > 0.6


def test_rank_zero_is_a_shared_model_and_own_intercepts() -> None:
    X, y, ids, held, _ = table("plain")
    model = cg.PrivateFedRep(0, 2.0, simulation_seed=0).fit(X[~held], y[~held], users=ids[~held])
    board = model.billboard_
    assert board.rank == 0
    assert board.spread.shape == (1, 1)
    own = rmse(model.predict(X[held], users=ids[held]), y[held])
    assert own < 0.97 * rmse(board.predict(X[held]), y[held])
    place = np.searchsorted(model.user_ids_, ids[~held])
    raw = np.bincount(place, y[~held] - board.predict(X[~held])) / np.bincount(place)
    assert (np.abs(model.own_intercepts_) < np.abs(raw)).all()  # shrunk, every one of them
