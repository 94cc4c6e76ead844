"""What somebody is told whom nobody knows: at worst about the mean of everybody's labels, wherever rows lie."""

import numpy as np
import pytest

import commonground as cg

pytestmark = pytest.mark.filterwarnings(
    "ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning"
)


def far_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """3,000 people whose features lie two of their spreads from zero, so that a gradient is mostly about the level."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(3_000), 8)
    X = rng.standard_normal((len(ids), 20)) + 2.0 * rng.standard_normal(20)
    return X, X @ rng.standard_normal(20) / 20**0.5 + 3.0 + rng.standard_normal(len(ids)), ids


def offers(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """300 people who choose among five offers, ten times each; the last one is none of them, and all of its features are zero."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.random((3_000, 4, 9)) < 0.4, np.zeros((3_000, 1, 9))], axis=1)
    prices = np.concatenate([rng.uniform(0.8, 2.8, (3_000, 4, 1)), np.zeros((3_000, 1, 1))], axis=1)
    worth = X @ rng.uniform(0.3, 1.0, 9) - 1.2 * prices[:, :, 0] + rng.gumbel(size=(3_000, 5))
    y = (worth == worth.max(axis=1, keepdims=True)).astype(float)
    return np.concatenate([X, prices], axis=2).reshape(-1, 10), y.ravel(), np.repeat(np.arange(300), 50)


def against_the_mean_label(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray], model: cg.PrivateFedRep | cg.SingleModel
) -> float:
    X, y, ids = rows
    held = np.random.default_rng(0).random(len(y)) < 0.2
    told = model.fit(X[~held], y[~held], users=ids[~held]).billboard_.predict(X[held])
    return float(np.sqrt(np.mean((told - y[held]) ** 2)) / y[held].std())


@pytest.mark.parametrize("epsilon", [0.1, 0.25, 1.0])
def test_rows_far_from_zero_do_not_move_the_level(epsilon: float) -> None:
    errors = [
        against_the_mean_label(far_rows(seed), cg.SingleModel(epsilon, simulation_seed=seed)) for seed in range(5)
    ]
    assert max(errors) < {0.1: 1.1, 0.25: 1.0, 1.0: 0.8}[epsilon]  # once 3.8, 3.9 and 0.9


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_rounds_of_the_mean_do_not_climb(epsilon: float) -> None:
    """Offers that are none have no features: along their mean rows vary three times as much as a step takes for granted."""
    for rank in (0, 1):
        errors = [
            against_the_mean_label(offers(seed), cg.PrivateFedRep(rank, epsilon, simulation_seed=seed))
            for seed in range(5)
        ]
        assert max(errors) < {1.0: 1.25, 2.0: 1.05}[epsilon]  # once 2.2 and 1.7
