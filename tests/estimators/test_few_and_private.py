"""Few people at a small ε: noise hides nearly all, and nobody is worse off than with the mean of her own labels."""

import numpy as np
import pytest

import commonground as cg
from commonground.estimators.fedrep import first_model


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
