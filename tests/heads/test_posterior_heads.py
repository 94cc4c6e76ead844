"""Posterior heads of many people: everybody's comes from her own rows, bit by bit."""

from dataclasses import replace

import numpy as np
import pytest

from commonground.data.users import Block
from commonground.heads.posterior import PEOPLE, fit_posterior_heads
from populations import ragged_block, replace_person

D = 4
U, W0 = np.random.default_rng(1).standard_normal((D, 2)), np.random.default_rng(2).standard_normal(D)
SPREAD = np.array([[0.5, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 1.0]])


def parts(block: Block, log_odds: bool) -> np.ndarray:
    """(people, …) heads, intercepts, covariances and noises."""
    return np.column_stack(fit_posterior_heads(block, U, W0, 0.3, True, SPREAD, 0.7, log_odds))


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
    tight = 0.01 * np.eye(3)
    for level, log_odds in ((100.0, False), (4.0, True)):
        y = rng.normal(level, 1.0, len(block.y)) if not log_odds else np.ones(len(block.y))
        far = replace(block, y=y)
        _, intercepts, doubts, _ = fit_posterior_heads(
            far, 0 * U, 0 * W0, -3.0 if log_odds else 0.0, True, tight, 1.0, log_odds
        )
        if log_odds:
            assert (intercepts > 2.0).all()
        else:
            own = np.array([y[a:b].mean() for a, b in zip(block.offsets[:-1], block.offsets[1:], strict=True)])
            np.testing.assert_allclose(intercepts, own, rtol=0.01)
        assert (doubts[:, 0] > 0.05).all()  # her mean is known as well as her rows tell it


def test_a_usual_person_gets_the_posterior_and_nothing_else() -> None:
    block = ragged_block(0, n_users=50, d=D, low=5, high=9)
    near = replace(block, y=np.full(len(block.y), 0.5))
    W = np.ones((1, 1))
    _, intercepts, _, noises = fit_posterior_heads(near, 0 * U[:, :0], 0 * W0, 0.0, True, W, 1.0)
    rows = np.diff(block.offsets)
    np.testing.assert_allclose(intercepts, 0.5 * rows / (rows + noises), rtol=1e-6)


def test_a_wild_label_among_others_is_nobodys_level() -> None:
    y = np.array([0.1, -0.2, 0.0, 0.1, -0.1, 1e6])
    block = Block(np.zeros((6, D)), y, np.array([0, 6]), first=0)
    _, intercepts, _, _ = fit_posterior_heads(block, 0 * U[:, :0], 0 * W0, 0.0, True, np.ones((1, 1)), 1.0)
    assert abs(intercepts[0]) < 1.0


def test_the_person_after_a_surprising_one_is_as_alone() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, D)), np.r_[np.full(4, 100.0), 0.1 * rng.standard_normal(4)]
    both, alone = Block(X, y, np.array([0, 4, 8]), first=0), Block(X[4:], y[4:], np.array([0, 4]), first=0)
    np.testing.assert_array_equal(parts(both, False)[1], parts(alone, False)[0])
