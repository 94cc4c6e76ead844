"""Scores of candidate subspaces against one person at a time, in plain NumPy."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from commonground.clipping.bounded import SCORE_UNIT
from commonground.data.users import Block
from commonground.heads.halves import second_half_margin_heads
from commonground.public_draws import public_generator, random_subspaces, sign_projection
from commonground.statistics.margins import MarginScores, best_head
from commonground.statistics.paper.exponential import LipschitzScores
from commonground.statistics.subspace_scores import SMALLEST_SHARE, SubspaceScores
from populations import ragged_block

D = 5


def people(block: Block, half: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = [lo + (hi - lo) // 2 if half else hi for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True)]
    return [
        (block.X[lo:hi].astype(float), block.y[lo:hi].astype(float))
        for lo, hi in zip(block.offsets[:-1], ends, strict=True)
    ]


def slow_subspace_score(X: np.ndarray, y: np.ndarray, U: np.ndarray, centred: bool, loss_bound: float) -> float:
    if len(y) - centred <= U.shape[1]:
        return 0.0
    if centred:
        X, y = X - X.mean(axis=0), y - y.mean()
    residual = y - X @ U @ np.linalg.lstsq(X @ U, y, rcond=None)[0]
    if loss_bound:
        return min(1.0, (residual @ residual) / len(y) / loss_bound)
    if not y @ y:
        return 0.0
    share = min(max((residual @ residual) / (y @ y), SMALLEST_SHARE), 1.0)
    return 1.0 - float(np.log(share) / np.log(SMALLEST_SHARE))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    ("half", "centred", "loss_bound"), [(False, False, 0.0), (False, True, 0.0), (True, False, 2.0)]
)
def test_subspace_scores(k: int, half: bool, centred: bool, loss_bound: float, seed: int) -> None:
    block = ragged_block(seed, n_users=600, d=D, low=1, high=12)  # more people than are scored together
    candidates = random_subspaces(7, D, k, public_generator(seed, "tests"))
    slow = [sum(slow_subspace_score(X, y, U, centred, loss_bound) for X, y in people(block, half)) for U in candidates]
    fast = SubspaceScores(candidates, half, centred, loss_bound).of(block).value / SCORE_UNIT
    np.testing.assert_allclose(fast, slow, rtol=1e-6)


def test_more_candidates_than_are_scored_together(seed: int) -> None:
    block = ragged_block(seed, d=D)
    candidates = random_subspaces(2100, D, 2, public_generator(seed, "tests"))
    together = SubspaceScores(candidates, False, False, 0.0).of(block).value
    apart = np.concatenate(
        [SubspaceScores(part, False, False, 0.0).of(block).value for part in np.split(candidates, 3)]
    )
    np.testing.assert_allclose(together, apart, rtol=1e-9)


def test_people_with_few_or_no_labels_to_explain(seed: int) -> None:
    candidates = random_subspaces(3, D, 2, public_generator(seed, "tests"))
    nothing = Block(np.ones((3, D)), np.zeros(3), np.array([0, 1, 3]), first=0)
    np.testing.assert_array_equal(SubspaceScores(candidates, False, False, 0.0).of(nothing).value, [0, 0, 0])
    np.testing.assert_array_equal(SubspaceScores(candidates, True, False, 1.0).of(nothing).value, [0, 0, 0])


def slow_gain(A: np.ndarray, y: np.ndarray, slope: float, bound: float) -> float:
    """The most by which a head of norm ``bound`` lowers the mean Huber loss, by a general solver from several starts."""

    def loss(v: np.ndarray) -> float:
        r = np.abs(y - A @ v)
        return float(np.where(r <= slope, r**2 / 2, slope * (r - slope / 2)).mean())

    ball = {"type": "ineq", "fun": lambda v: bound**2 - v @ v}
    starts = np.random.default_rng(0).standard_normal((3, A.shape[1])) * bound / 2
    found = [minimize(loss, start, constraints=[ball], options={"ftol": 1e-12}).fun for start in starts]
    return loss(np.zeros(A.shape[1])) - min(found)


@pytest.mark.parametrize("k", [1, 2])
def test_lipschitz_scores(k: int, seed: int) -> None:
    block = ragged_block(seed, n_users=15, d=D, low=1, high=12)
    candidates = random_subspaces(4, D, k, public_generator(seed, "tests"))
    clip, bound, slope = 1.5, 0.8, 0.6
    slow = []
    for U in candidates:
        gains = []
        for X, y in people(block, half=True):
            A = X @ U
            A = A * np.minimum(1.0, clip / np.maximum(np.linalg.norm(A, axis=1), 1e-300))[:, None]
            gains.append(slow_gain(A, y, slope, bound) if len(y) else 0.0)
        slow.append(sum(1 - gain / (clip * bound * slope) for gain in gains))
    fast = LipschitzScores(candidates, clip, bound, slope).of(block).value / SCORE_UNIT
    np.testing.assert_allclose(fast, slow, rtol=2e-4)


def brute_force(a: np.ndarray, margin: float, length: float) -> int:
    """The fewest wrong rows, tried in the middle between any two neighbouring directions at which a row changes sides."""
    norms = length * np.linalg.norm(a, axis=1)
    centres, widths = np.arctan2(a[:, 1], a[:, 0]), np.arccos(np.minimum(margin / norms, 1.0))
    turns = np.sort(np.concatenate([centres - widths, centres + widths]) % (2 * np.pi))
    angles = (turns + np.append(turns[1:], turns[0] + 2 * np.pi)) / 2
    return int((a @ (length * np.array([np.cos(angles), np.sin(angles)])) <= margin).sum(axis=0).min())


def test_the_sweep_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for m in range(1, 12):
        a, margin, length = rng.standard_normal((m, 2)), rng.uniform(0, 1), rng.uniform(0.5, 2)
        v = np.empty(2)
        wrong = best_head(a, margin, length, v)
        assert wrong == brute_force(a, margin, length)
        assert wrong == (a @ v <= margin).sum(), "the head does not do what was promised"
        assert np.linalg.norm(v) == pytest.approx(length)


def test_the_sweep_with_equal_and_opposite_rows() -> None:
    v = np.empty(2)
    same = np.array([[1.0, 0.0]] * 3 + [[-1.0, 0.0]] * 2)
    assert best_head(same, 0.0, 1.0, v) == 2
    assert best_head(same, 1.0, 1.0, v) == 5, "a margin that nobody reaches"
    assert best_head(np.full((4, 2), np.nan), 0.1, 1.0, v) == 4
    assert best_head(np.zeros((4, 2)), 0.0, 1.0, v) == 4
    assert best_head(np.array([[-1.0, 1e-9], [-1.0, -1e-9]]), 0.5, 1.0, v) == 0, "an arc across the cut at π"


def test_one_direction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, v = rng.standard_normal((9, 1)), np.empty(1)
    assert best_head(a, 0.2, 1.5, v) == min((a * t <= 0.2).sum() for t in np.linspace(-1.5, 1.5, 301))
    assert abs(v[0]) == 1.5


@pytest.mark.parametrize("k", [3, 5])
def test_beyond_two_directions_a_bound(k: int, seed: int) -> None:
    """What is returned is reached by the head returned; rows that can be separated mostly are."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(k)
    a = rng.standard_normal((40, k))
    a *= np.sign(a @ truth)[:, None]
    v = np.empty(k)
    wrong = best_head(a, 0.0, 1.0, v)
    assert wrong == (a @ v <= 0).sum() <= 4
    assert np.linalg.norm(v) == pytest.approx(1.0)


@pytest.mark.parametrize("k", [1, 2])
def test_margin_scores(k: int, seed: int) -> None:
    block = ragged_block(seed, n_users=30, d=D)
    M = sign_projection(4, D, public_generator(seed, "tests"))
    candidates = 1.4 * random_subspaces(6, 4, k, public_generator(seed, "tests"))
    for half in (False, True):
        slow = np.zeros(6)
        for X, y in people(block, half):
            inside = X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
            a = np.where(y > 0, 1.0, -1.0)[:, None] * (inside @ M.T)
            for u, U in enumerate(candidates):
                wrong = (
                    brute_force(a @ U, 0.1, 2.0)
                    if k == 2 and len(y)
                    else min((s * 2.0 * (a @ U) <= 0.1).sum() for s in (-1, 1))
                )
                slow[u] += wrong / max(len(y), 1)
        fast = MarginScores(candidates, M, half, 0.1, 2.0, 1.0).of(block).value / SCORE_UNIT
        np.testing.assert_allclose(fast, slow, atol=1e-6)


def test_heads_come_from_the_second_half(seed: int) -> None:
    block = ragged_block(seed, n_users=30, d=D)
    P = random_subspaces(1, D, 2, public_generator(seed, "tests"))[0].T.copy()
    heads = second_half_margin_heads(block, P, 1.5, 1.0)
    first_halves = np.concatenate([np.arange(lo, lo + (hi - lo) // 2) for lo, hi in pairwise(block.offsets)])
    changed = block.X.copy()
    changed[first_halves] = 77.0
    np.testing.assert_array_equal(second_half_margin_heads(replace(block, X=changed), P, 1.5, 1.0), heads)
    np.testing.assert_allclose(np.linalg.norm(heads, axis=1), 1.5)


def test_a_persons_score_does_not_depend_on_who_stands_beside_her() -> None:
    """However people are cut into blocks, the sums are the same whole numbers: their sensitivity is exact only then."""
    rng = np.random.default_rng(0)
    n, d = 700, 4
    X = rng.standard_normal((n * 5, d)) * np.array([1.0, 1.0, 1e-6, 1e-6])
    y = rng.standard_normal(n * 5)
    candidates = random_subspaces(50, d, 2, public_generator(0, "test"))

    def scores(lo: int, hi: int) -> np.ndarray:
        block = Block(X[lo * 5 : hi * 5], y[lo * 5 : hi * 5], np.arange(hi - lo + 1) * 5, first=0)
        return SubspaceScores(candidates, False, False, 0.0).of(block).value

    for cut in (1, 37, 511, 513):
        np.testing.assert_array_equal(scores(0, cut) + scores(cut, n), scores(0, n))
