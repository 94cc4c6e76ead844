"""Answers of which hardly any is yes: nobody is told far more of them than there are."""

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss

import commonground as cg
from commonground.statistics.answers import AnswerShares, ToldShares, averaged
from commonground.statistics.statistic import WINDOW, SharedModel
from populations import ragged_block

SEEDS = range(3)


def rare_answers(n: int, yes: float, seed: int, d: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """People with levels and coefficients of their own; about so many of their answers are yes."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n), rng.integers(2, 16, n))
    X = rng.standard_normal((len(ids), d))
    log_odds = X @ rng.standard_normal(d) / d**0.5 + 0.7 * rng.standard_normal(n)[ids]
    level = np.quantile(log_odds + rng.logistic(size=len(ids)), 1 - yes)
    return X, (rng.random(len(ids)) < 1 / (1 + np.exp(level - log_odds))).astype(int), ids


@pytest.mark.parametrize("yes", [0.01, 0.97])
@pytest.mark.parametrize(
    "model",
    [
        cg.PrivateFedRepClassifier(0, 1.0),
        cg.PrivateFedRepClassifier(1, 1.0),
        cg.PrivateAltMin(1, 1.0, loss="logistic"),
        cg.PrivateAltMin(1, 4.0, loss="logistic"),
    ],
    ids=["rank 0", "rank 1", "AltMin", "AltMin, much budget"],
)
def test_nobody_does_worse_than_the_base_rate_by_much(model: Any, yes: float) -> None:
    """Before, log losses were up to 5.6 times that of the base rate, and yes was told up to 25 times too often."""
    losses, told = [], []
    for seed in SEEDS:
        X, y, ids = rare_answers(2_000, yes, seed)
        held = np.random.default_rng(seed).random(len(y)) < 0.25
        model.set_params(simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        base = log_loss(y[held], np.full(held.sum(), y[~held].mean()))
        of_strangers = model.billboard_.predict_proba(X[held])[:, 1]
        for chances in (model.predict_proba(X[held], users=ids[held])[:, 1], of_strangers):
            losses.append(log_loss(y[held], chances) / base)
            rarer = min(y[held].mean(), 1 - y[held].mean())
            told.append(min(chances.mean(), 1 - chances.mean()) / rarer)
    assert np.mean(losses) < 1.05
    assert max(losses) < 1.12
    assert 0.5 < np.mean(told) < 1.6


def test_what_is_sent_is_what_a_slow_reader_finds() -> None:
    d = 4
    block = ragged_block(3, 12, d, low=0)
    U, S = np.linalg.qr(np.random.default_rng(4).standard_normal((d, 2)))[0], np.diag([0.5, 0.3, 0.2])
    S[0, 1] = S[1, 0] = 0.1
    model = SharedModel(np.ascontiguousarray(U), np.linspace(-1, 1, d), -2.0, True, S, 1.0, True)
    shares, told = np.zeros(2), 0.0
    for j in range(block.n_users):
        X, y = (rows[block.offsets[j] : block.offsets[j + 1]].astype(np.float64) for rows in (block.X, block.y))
        if len(y):
            shares += (y > 0).mean(), (y <= 0).mean()
            z = np.column_stack([np.ones(len(y)), X @ U])
            variance = np.array([row @ S @ row for row in z])
            told += (1 / (1 + np.exp(-averaged(X @ model.slopes - 2.0, variance))) - 0.1).mean()
    found = ToldShares(model, 0.1, 121 - WINDOW // 2).of(block)
    np.testing.assert_allclose(AnswerShares().of(block).value, shares, rtol=1e-12)
    np.testing.assert_allclose(found.raw.sum(), told, rtol=1e-6)
