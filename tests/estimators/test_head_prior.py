"""The released prior of heads: what it is, and what people with few rows get from it."""

import json
from pathlib import Path

import numpy as np
import pytest

import commonground as cg
from commonground.data.users import Block
from commonground.statistics.own_heads import HeadDirections, HeadNoise
from commonground.statistics.statistic import SharedModel
from populations import ragged_block

D = 20


def ragged_people(n: int, noise: float, seed: int) -> tuple[cg.Users, np.ndarray, np.ndarray]:
    """Row counts log-uniform on 1 to 60, heads four times as long along one direction; and everybody's true coefficients."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((D, 2)))[0]
    theta = rng.standard_normal((n, 2)) * [2.0, 0.5] @ U.T
    rows = np.exp(rng.uniform(0, np.log(61), n)).astype(int)
    ids = np.repeat(np.arange(n), rows)
    X = rng.standard_normal((len(ids), D))
    y = (X * theta[ids]).sum(axis=1) + noise * rng.standard_normal(len(ids))
    return cg.Users.from_arrays(X, y, ids), theta, rows


def test_nobody_is_worse_off_than_with_her_own_rows_alone() -> None:
    users, theta, rows = ragged_people(8000, noise=1.0, seed=1)
    model = cg.PrivateFedRep(2, 1.0, fit_intercept=False, shared_mean=False, simulation_seed=1).fit(users)
    own = cg.OwnDataOnly(fit_intercept=False).fit(users)
    assert model.heads_ is not None
    assert own.heads_ is not None
    errors = [((each.heads_ @ each.billboard_.embedding.T - theta) ** 2).sum(axis=1) + 1.0 for each in (model, own)]
    for low, high in ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, 60)):
        here = (rows >= low) & (rows <= high)
        assert errors[0][here].mean() < 0.95 * errors[1][here].mean(), (low, high)


def test_the_prior_is_noise_against_heads_and_is_used_for_newcomers(tmp_path: Path) -> None:
    users, _, _ = ragged_people(8000, noise=1.0, seed=2)
    model = cg.PrivateFedRep(2, 2.0, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=2)
    board = model.fit(users).billboard_
    assert board.spread is not None
    spreads = np.linalg.eigvalsh(board.spread) / board.noise  # of heads, in units of the noise
    assert 1.5 < spreads[1] / spreads[0] < 16.0
    assert 0.25 * 2.0 < spreads[1] < 4.0 * 2.0**2
    x, y = np.eye(D)[:1] + 0.3, np.array([3.0])
    a = x @ board.embedding
    ridge = board.noise * np.linalg.inv(board.spread)
    expected = np.linalg.solve(a.T @ a + ridge, a.T @ y)
    np.testing.assert_allclose(board.personalize(x, y).weights, expected, rtol=0.05)  # her noise is her own, a little
    again = cg.Billboard.load(board.save(tmp_path / "board"))
    np.testing.assert_array_equal(again.spread, board.spread)
    assert again.noise == board.noise
    assert again.fingerprint == board.fingerprint
    assert json.loads((tmp_path / "board" / "statement.json").read_text(encoding="utf-8"))["schema_version"] == 7


@pytest.mark.parametrize("local_intercept", [False, True])
def test_statistics_of_heads_against_a_slow_version(local_intercept: bool, seed: int) -> None:
    block, rng = ragged_block(seed), np.random.default_rng(seed)
    U, w = np.linalg.qr(rng.standard_normal((6, 2)))[0], rng.standard_normal(6)
    moment, ratios = np.zeros((2, 2)), []
    for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True):
        A, r = block.X[lo:hi] @ U, block.y[lo:hi] - block.X[lo:hi] @ w - 0.3
        if local_intercept:
            A, r = A - A.mean(axis=0), r - r.mean()
        dof = hi - lo - 2 - local_intercept
        if dof > 0:
            v = np.linalg.lstsq(A, r, rcond=None)[0]
            moment += np.outer(v, v) / (v @ v)
            ratios.append(2 * ((r - A @ v) ** 2).sum() / dof / (v @ v))
    model = SharedModel(U, w, 0.3, local_intercept)
    np.testing.assert_allclose(HeadDirections(model).of(block).value, moment, atol=1e-3)
    counts = HeadNoise(model).of(block).counts
    assert counts[1:].sum() == len(ratios)
    assert abs(np.repeat(np.arange(len(counts)), counts.astype(int))[-len(ratios) :].mean()
               - np.mean(np.floor(np.log2(ratios)) + 121)) < 0.2  # fmt: skip


def test_labels_of_any_scale_have_the_same_prior() -> None:
    block = ragged_block(3)
    louder = Block(block.X, 1e6 * block.y, block.offsets, first=0)
    model = SharedModel(np.eye(6)[:, :2])
    np.testing.assert_array_equal(HeadNoise(model).of(block).counts, HeadNoise(model).of(louder).counts)
