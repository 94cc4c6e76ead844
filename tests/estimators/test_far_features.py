"""Columns as they are in tables: far from zero, of other units, correlated. None of it may cost much where people are many.

The same people with the same labels, their features moved, stretched or mixed by a public matrix: a linear model of the one is
a linear model of the other, so what is left between the two errors is what our coordinates and steps lose.
"""

import numpy as np
import pytest

import commonground as cg

N, D = 4_000, 8


def _people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    users, _ = cg.datasets.make_shared_subspace(n_users=N, rows_per_user=10, n_features=D, rank=2, noise=0.3, seed=6)
    block = next(iter(users.blocks()))
    ids = np.repeat(np.arange(N), 10)
    level = np.random.default_rng(7).standard_normal(N)
    return block.X.astype(np.float64), block.y + level[ids], ids


X, Y, IDS = _people()
HELD_OUT = np.arange(len(Y)) % 10 == 9
MIXED = np.random.default_rng(1).standard_normal((D, D)) / D**0.5 + np.eye(D)
TABLES = {
    "a year": X + np.r_[2000.0 / 3.0, np.zeros(D - 1)],
    "all ten standard deviations from zero": X + np.linspace(6.0, 14.0, D),
    "units from a hundredth to a hundred": X * 10.0 ** np.linspace(-2, 2, D) + 3.0,
    "correlated": X @ MIXED,
    "correlated, far and of other units": (X @ MIXED + 20.0) * 10.0 ** np.linspace(2, -2, D),
}


def error(features: np.ndarray, seed: int) -> float:
    model = cg.PrivateFedRep(2, 4.0, delta=1e-6, simulation_seed=seed)
    model.fit(features[~HELD_OUT], Y[~HELD_OUT], users=IDS[~HELD_OUT])
    return float(np.sqrt(np.mean((model.predict(features[HELD_OUT], users=IDS[HELD_OUT]) - Y[HELD_OUT]) ** 2)))


@pytest.fixture(scope="module")
def plain() -> float:
    return float(np.mean([error(X, seed) for seed in (1, 2)]))


@pytest.mark.parametrize("table", TABLES)
def test_where_features_lie_and_how_they_are_mixed_costs_little(table: str, plain: float) -> None:
    assert np.linalg.cond(MIXED) > 5
    assert np.mean([error(TABLES[table], seed) for seed in (1, 2)]) < 1.1 * plain
