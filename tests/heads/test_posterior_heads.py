"""Posterior heads of many people: everybody's comes from her own rows, bit by bit; and how far off they are."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar

from commonground.data.users import Block
from commonground.heads.posterior import (
    INTERVAL_ROWS,
    NOISE_ROWS,
    PEOPLE,
    fit_posterior_heads,
    label_noise,
    prediction_variances,
)
from commonground.statistics.statistic import SharedModel
from populations import ragged_block, replace_person

D = 4
U, W0 = np.random.default_rng(1).standard_normal((D, 2)), np.random.default_rng(2).standard_normal(D)
SPREAD = np.array([[0.5, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 1.0]])


def parts(block: Block, log_odds: bool) -> np.ndarray:
    """(people, …) heads, intercepts, covariances and noises."""
    return np.column_stack(fit_posterior_heads(block, SharedModel(U, W0, 0.3, True, SPREAD, 0.7, log_odds)))


@pytest.mark.parametrize("log_odds", [False, True])
def test_everybodys_head_is_the_one_that_she_gets_alone(log_odds: bool) -> None:
    """Before and after a thread's last person; beside people without rows."""
    block = ragged_block(0, n_users=2 * PEOPLE + 5, d=D, low=0, high=4)
    together = parts(block, log_odds)
    for j in (0, 1, 2, 3, PEOPLE - 1, PEOPLE, PEOPLE + 1, 2 * PEOPLE + 4):
        rows = slice(block.offsets[j], block.offsets[j + 1])
        alone = Block(block.X[rows], block.y[rows], np.array([0, rows.stop - rows.start]), first=0)
        np.testing.assert_array_equal(together[j], parts(alone, log_odds)[0], err_msg=str(j))


@pytest.mark.parametrize("log_odds", [False, True])
def test_nobody_changes_with_the_person_before_her(log_odds: bool) -> None:
    block = ragged_block(0, n_users=6, d=D, low=0, high=4)
    rng = np.random.default_rng(3)
    for X, y in (
        (rng.standard_normal((30, D)), np.ones(30)),
        (np.full((3, D), 1e200), -np.ones(3)),
        (np.empty((0, D)), np.empty(0)),
    ):
        changed = replace_person(block, 2, X, y)
        others = [0, 1, 3, 4, 5]
        np.testing.assert_array_equal(parts(changed, log_odds)[others], parts(block, log_odds)[others])


def test_weights_are_for_what_is_shared_alone() -> None:
    block = ragged_block(0, n_users=6, d=D)
    np.testing.assert_array_equal(parts(replace(block, weights=np.zeros(6)), False), parts(block, False))


def test_a_mean_that_the_prior_did_not_expect_is_kept() -> None:
    """Nobody is pulled to where a board says that labels lie by a hundred times what people differ by."""
    rng = np.random.default_rng(0)
    block = ragged_block(0, n_users=50, d=D, low=5, high=9)
    y = rng.normal(100.0, 1.0, len(block.y))
    model = SharedModel(0 * U, 0 * W0, 0.0, True, 0.01 * np.eye(3), 1.0)
    _, intercepts, doubts, _ = fit_posterior_heads(replace(block, y=y), model)
    own = np.array([y[a:b].mean() for a, b in zip(block.offsets[:-1], block.offsets[1:], strict=True)])
    np.testing.assert_allclose(intercepts, own, rtol=0.01)
    assert (doubts[:, 0] > 0.05).all()  # her mean is known as well as her rows tell it


def test_who_gave_a_rare_answer_is_no_other_kind_of_person() -> None:
    """One yes of ten, where one in a hundred is: by Laplace's approximation with the prior of the board, and no wider one."""
    y, spread, level = np.r_[1.0, -np.ones(9)], 0.5, -4.6
    block = Block(np.zeros((10, D)), y, np.array([0, 10]), first=0)
    model = SharedModel(np.zeros((D, 0)), None, level, True, spread * np.eye(1), 1.0, True)
    intercepts = fit_posterior_heads(block, model)[1]

    def minus_log_posterior(b: float) -> float:
        return float(np.logaddexp(0.0, -y * (level + b)).sum() + b * b / (2 * spread))

    assert intercepts[0] == pytest.approx(minimize_scalar(minus_log_posterior).x, abs=1e-4)


def test_a_usual_person_gets_the_posterior_and_nothing_else() -> None:
    block = ragged_block(0, n_users=50, d=D, low=5, high=9)
    near = replace(block, y=np.full(len(block.y), 0.5))
    W = np.ones((1, 1))
    _, intercepts, _, _ = fit_posterior_heads(near, SharedModel(0 * U[:, :0], 0 * W0, 0.0, True, W, 1.0))
    rows = np.diff(block.offsets)
    noises = np.ones(len(rows))
    for _ in range(50):  # her own noise: expectation and maximisation until nothing moves
        mean = 0.5 * rows / (rows + noises)
        noises = (NOISE_ROWS + rows * ((0.5 - mean) ** 2 + noises / (rows + noises))) / (NOISE_ROWS + rows)
    np.testing.assert_allclose(intercepts, 0.5 * rows / (rows + noises), rtol=1e-6)


def test_a_wild_label_among_others_is_nobodys_level() -> None:
    y = np.array([0.1, -0.2, 0.0, 0.1, -0.1, 1e6])
    block = Block(np.zeros((6, D)), y, np.array([0, 6]), first=0)
    _, intercepts, _, _ = fit_posterior_heads(block, SharedModel(0 * U[:, :0], 0 * W0, 0.0, True, np.ones((1, 1)), 1.0))
    assert abs(intercepts[0]) < 1.0


def test_the_person_after_a_surprising_one_is_as_alone() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, D)), np.r_[np.full(4, 100.0), 0.1 * rng.standard_normal(4)]
    both, alone = Block(X, y, np.array([0, 4, 8]), first=0), Block(X[4:], y[4:], np.array([0, 4]), first=0)
    np.testing.assert_array_equal(parts(both, False)[1], parts(alone, False)[0])


# ---- how far off a head may be ---------------------------------------------------------------------------------------


def slow_doubt(X: np.ndarray, y: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    """The covariance of her part's error, and the variance of her labels about her model, from their definitions."""
    Z, L = np.column_stack([np.ones(len(y)), X @ U]), np.linalg.cholesky(SPREAD)
    W, r, s2 = Z @ L, y - X @ W0 - 0.3, noise
    for _ in range(50):
        A = np.linalg.inv(s2 * np.eye(3) + W.T @ W)
        residual = r - W @ A @ W.T @ r
        s2 = (NOISE_ROWS * noise + residual @ residual + s2 * np.trace(W @ A @ W.T)) / (NOISE_ROWS + len(y))
    free = len(y) - np.trace(W @ A @ W.T)
    told = INTERVAL_ROWS + free
    variance = (INTERVAL_ROWS * noise + residual @ residual) / told
    if len(y):
        variance *= stats.t(told**2 / free).var()
    # ξ̂ − ξ = A Wᵀ(W ξ + e) − ξ with ξ ~ N(0, 1) and e ~ N(0, variance), a linear map of both.
    of_part, of_noise = A @ W.T @ W - np.eye(3), A @ W.T
    return L @ (of_part @ of_part.T + variance * of_noise @ of_noise.T) @ L.T, float(variance)


@pytest.mark.parametrize("wrong", [0.1, 1.0, 10.0])
def test_doubts_are_those_of_the_textbook(wrong: float) -> None:
    rng, rows = np.random.default_rng(0), [0, 1, 2, 5, 12, 40]
    offsets = np.concatenate([[0], np.cumsum(rows)])
    X = rng.standard_normal((offsets[-1], D))
    y = X @ W0 + rng.standard_normal(len(X))
    _, _, doubts, noises = fit_posterior_heads(Block(X, y, offsets, 0), SharedModel(U, W0, 0.3, True, SPREAD, wrong))
    for j in range(len(rows)):
        mine = slice(offsets[j], offsets[j + 1])
        covariance, variance = slow_doubt(X[mine], y[mine], wrong)
        np.testing.assert_allclose(noises[j], variance, rtol=1e-5)
        np.testing.assert_allclose(doubts[j], covariance[np.tril_indices(3)], rtol=1e-4, atol=1e-6)


def coverage(rows: int, wrong: float, people: int = 20_000) -> float:
    """How many fresh labels lie in 90 % intervals, for people of a board that is right but for the noise, off by a factor."""
    rng, whose = np.random.default_rng(rows), np.repeat(np.arange(people), rows + 1)
    X, own = rng.standard_normal((len(whose), D)), rng.standard_normal((people, 3)) @ np.linalg.cholesky(SPREAD).T
    Z = np.column_stack([np.ones(len(X)), X @ U])
    y = X @ W0 + 0.3 + (Z * own[whose]).sum(axis=1) + rng.standard_normal(len(X))
    fresh = np.arange(len(whose)) % (rows + 1) == rows
    block = Block(X[~fresh], y[~fresh], rows * np.arange(people + 1), 0)
    heads, intercepts, doubts, noises = fit_posterior_heads(block, SharedModel(U, W0, 0.3, True, SPREAD, wrong))
    found = X[fresh] @ W0 + 0.3 + intercepts + ((X[fresh] @ U) * heads).sum(axis=1)
    variances = prediction_variances(
        X[fresh], SharedModel(U, W0, 0.3, True, SPREAD, wrong), np.arange(people), doubts, noises
    )
    return float((np.abs(y[fresh] - found) < 1.6448536 * np.sqrt(variances)).mean())


@pytest.mark.parametrize("rows", [0, 1, 2, 4, 8, 16, 64])
def test_nine_of_ten_labels_where_the_board_knows_the_noise(rows: int) -> None:
    """Of 20,000 labels; the standard error is 0.2 %, so a right interval fails once in a million runs."""
    assert 0.89 < coverage(rows, 1.0) < 0.92


@pytest.mark.parametrize(("rows", "wrong", "least", "most"), [
    (16, 0.25, 0.84, 0.88), (16, 4.0, 0.92, 0.975), (64, 0.25, 0.885, 0.91), (64, 4.0, 0.90, 0.93), (64, 0.01, 0.88, 0.91),
])  # fmt: skip
def test_ones_own_rows_tell_a_noise_that_the_board_does_not_know(
    rows: int, wrong: float, least: float, most: float
) -> None:
    """With the board's noise alone: 66 % and 99.7 % for 16 rows."""
    assert least < coverage(rows, wrong) < most


def test_the_noise_of_labels_is_between_the_boards_and_hers() -> None:
    assert label_noise(2.0, 0.0, 0.0) == 2.0
    np.testing.assert_allclose(label_noise(2.0, 1e6, 1e6), 1.0, rtol=1e-4)
    np.testing.assert_allclose(label_noise(1.0, 12.0, 12.0), stats.t((INTERVAL_ROWS + 12.0) ** 2 / 12.0).var())
