"""Own class intercepts: at the mode, a function of one's own rows, and probabilities that are averaged over what is not known."""

from dataclasses import replace

import numpy as np
import pytest

from commonground.data.users import Block
from commonground.errors import InputError
from commonground.heads.classes import class_log_probabilities, fit_class_heads
from commonground.heads.kinds import ClassHeads
from commonground.statistics import classes
from commonground.statistics.classes import contrasts
from people_of_classes import MODEL, K, people, posterior_of, probabilities, rows_of

SCORES = np.vstack([MODEL.coef, MODEL.intercept])


def test_a_head_is_at_the_posterior_of_her_posterior() -> None:
    block = people()
    parts, doubts = fit_class_heads(block, SCORES, MODEL.spread)
    for j in range(block.n_users):
        h, covariance, _ = posterior_of(*rows_of(block, j))
        np.testing.assert_allclose(parts[j], h, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(doubts[j], covariance[np.tril_indices(K - 1)], rtol=1e-3, atol=1e-4)


def test_everybodys_head_is_the_one_that_she_gets_alone() -> None:
    block = people(5, n_users=30)
    together = np.column_stack(fit_class_heads(block, SCORES, MODEL.spread))
    for j in range(block.n_users):
        X, y = rows_of(block, j)
        alone = Block(X, y.astype(float), np.array([0, len(y)]), 0)
        np.testing.assert_array_equal(together[j], np.column_stack(fit_class_heads(alone, SCORES, MODEL.spread))[0])


def test_of_very_many_rows_the_first_make_a_head_and_others_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's fit waits for her head, so a public number of her rows make it; nobody else's changes by a bit."""
    block = people(5, n_users=30)
    expected, (X, y) = np.column_stack(fit_class_heads(block, SCORES, MODEL.spread)), rows_of(block, 29)
    most = len(y)
    monkeypatch.setattr(classes, "MOST_WORK", int(np.diff(block.offsets).max()) * K**3)
    while len(y) <= classes.most_rows(K):  # the last person's, again and again
        X, y = np.concatenate([X, X]), np.concatenate([y, y])
    before = block.offsets[-2]
    offsets = np.append(block.offsets[:-1], before + len(y))
    many = Block(np.concatenate([block.X[:before], X]), np.concatenate([block.y[:before], y]), offsets, 0)
    np.testing.assert_array_equal(np.column_stack(fit_class_heads(many, SCORES, MODEL.spread))[:-1], expected[:-1])
    monkeypatch.setattr(classes, "MOST_WORK", most * K**3)
    np.testing.assert_array_equal(np.column_stack(fit_class_heads(many, SCORES, MODEL.spread))[-1], expected[-1])


@pytest.mark.parametrize("label", [np.nan, -1.0, 99.0])
def test_who_has_no_class_keeps_the_shared_scores(label: float) -> None:
    block = replace(people(), y=np.full(len(people().y), label))
    parts, doubts = fit_class_heads(block, SCORES, MODEL.spread)
    assert not parts.any()
    np.testing.assert_allclose(doubts, np.tile(MODEL.spread[np.tril_indices(K - 1)], (len(doubts), 1)))


def test_many_rows_that_agree_are_believed() -> None:
    """The posterior of one class alone, with a wide prior, is found from far away."""
    block = Block(np.zeros((5000, len(MODEL.coef))), np.full(5000, 3.0), np.array([0, 5000]), 0)
    (h,), (doubt,) = fit_class_heads(block, SCORES, 100.0 * np.eye(K - 1))
    p = np.exp(contrasts(K) @ (h + MODEL.intercept))
    assert np.isfinite(doubt).all()
    assert p[3] / p.sum() > 0.999


def test_the_mean_is_nearer_to_the_truth_than_the_mode() -> None:
    """Of one contrast, by a fine grid; three labels of one class, for which the posterior is skewed."""
    X, y = np.zeros((3, len(MODEL.coef))), np.zeros(3, dtype=int)
    (mean,), _ = fit_class_heads(Block(X, y.astype(float), np.array([0, 3]), 0), SCORES, MODEL.spread)
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(K - 1), MODEL.spread, 400_000)
    likelihood = probabilities((draws + MODEL.intercept) @ contrasts(K).T)[:, 0] ** 3
    exact = likelihood @ draws / likelihood.sum()
    assert np.abs(mean - exact).max() < 0.1


def test_a_person_of_whom_all_is_known_has_the_softmax_of_her_scores() -> None:
    X, B = np.random.default_rng(2).standard_normal((6, len(MODEL.coef))), contrasts(K)
    parts, certain = np.random.default_rng(3).standard_normal((2, K - 1)), np.zeros((2, K * (K - 1) // 2))
    found = class_log_probabilities(X, SCORES, MODEL.spread, np.array([0, 0, 1, 1, 0, 1]), parts, certain)
    expected = probabilities((X @ MODEL.coef + MODEL.intercept + parts[[0, 0, 1, 1, 0, 1]]) @ B.T)
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-12)


def test_every_row_is_answered_by_what_is_known_of_its_own_person() -> None:
    block = people(6, n_users=4)
    parts, doubts = fit_class_heads(block, SCORES, MODEL.spread)
    X, who = np.random.default_rng(4).standard_normal((12, len(MODEL.coef))), np.tile([2, -1, 0, 3], 3)
    together = class_log_probabilities(X, SCORES, MODEL.spread, who, parts, doubts)
    for i in range(12):
        alone = class_log_probabilities(X[i : i + 1], SCORES, MODEL.spread, who[i : i + 1], parts, doubts)
        np.testing.assert_array_equal(together[i], alone[0])


def test_probabilities_are_the_average_over_what_is_not_known() -> None:
    """Against 200,000 draws, for strangers; standard deviations of contrasts are up to 1.7 here."""
    rng, B, X = np.random.default_rng(0), contrasts(K), np.random.default_rng(1).standard_normal((20, len(MODEL.coef)))
    nobody = np.zeros((0, K - 1)), np.zeros((0, K * (K - 1) // 2))
    found = np.exp(class_log_probabilities(X, SCORES, MODEL.spread, np.full(20, -1), *nobody))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    draws = rng.multivariate_normal(np.zeros(K - 1), MODEL.spread, 200_000) @ B.T
    for x, p in zip(X, found, strict=True):
        s = np.exp(draws + B @ (x @ MODEL.coef + MODEL.intercept))
        assert np.abs((s / s.sum(axis=1, keepdims=True)).mean(axis=0) - p).max() < 0.025


def test_rows_too_large_for_numbers_leave_all_classes_alike() -> None:
    nobody = np.zeros((0, K - 1)), np.zeros((0, K * (K - 1) // 2))
    X = np.full((1, len(MODEL.coef)), 1e308)
    found = class_log_probabilities(X, 1e10 * SCORES, MODEL.spread, np.array([-1]), *nobody)
    np.testing.assert_allclose(np.exp(found), 1.0 / K)


@pytest.mark.parametrize("bad", [(), ("a", "b"), ("a", "b", "a"), ("a", "b", None), "abc", 3, (1.0, 2.0, float("nan"))])
def test_classes_that_are_none(bad: object) -> None:
    with pytest.raises(InputError, match="three or more different"):
        ClassHeads(bad)  # type: ignore[arg-type]


def test_labels_by_name() -> None:
    assert ClassHeads(("a", "b", "c")).numbers_of(["b", "c", "a"]).tolist() == [1, 2, 0]
    with pytest.raises(InputError, match=r"1 of 2 are not"):
        ClassHeads(("a", "b", "c")).numbers_of(["b", "d"])
