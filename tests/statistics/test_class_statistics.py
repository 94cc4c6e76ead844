"""What people send about several classes, against slow and obvious versions."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from commonground import threads
from commonground.clipping.sums import from_symmetric_half
from commonground.data.users import Block
from commonground.estimators.fedrep.classifier import MOST_CLASSES
from commonground.statistics import classes
from commonground.statistics.classes import ClassGradients, ClassModel, ClassMoments, ClassShares, contrasts
from people_of_classes import MODEL, D, K, people, posterior_of, rows_of

LOWEST = 110


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_contrasts_are_orthonormal_and_blind_to_what_classes_have_in_common(n_classes: int) -> None:
    B = contrasts(n_classes)
    np.testing.assert_allclose(B.T @ B, np.eye(n_classes - 1), atol=1e-12)
    np.testing.assert_allclose(B.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_what_a_person_sends(constant: float) -> None:
    block, B = people(), contrasts(K)
    for j in range(block.n_users):
        X, y = rows_of(block, j)
        alone = Block(X, y.astype(float), np.array([0, len(y)]), 0)
        _, covariance, left = posterior_of(X, y)
        used = K - 1 - np.trace(np.linalg.solve(MODEL.spread, covariance))
        expected = B.T @ left.T @ np.column_stack([X, np.full(len(y), constant)] if constant else [X])
        found = ClassGradients(MODEL, constant, LOWEST).of(alone)
        np.testing.assert_allclose(found.raw.sum(axis=0), expected / (len(y) - used / (K - 1)), rtol=1e-4, atol=1e-5)


def test_moments_are_those_of_the_posterior() -> None:
    block, q = people(), K - 1
    half, L = q * (q + 1) // 2, np.linalg.cholesky(MODEL.spread)
    for j in range(block.n_users):
        X, y = rows_of(block, j)
        h, covariance, _ = posterior_of(X, y)
        xi = np.linalg.solve(L, h)
        H = np.eye(q) - np.linalg.solve(L, np.linalg.solve(L, covariance).T)
        sent = ClassMoments(MODEL).of(Block(X, y.astype(float), np.array([0, len(y)]), 0)).value
        sent = sent * (2.0 / sent[-1])  # clipped or not
        np.testing.assert_allclose(from_symmetric_half(sent[:half], q), np.outer(xi, xi), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(from_symmetric_half(sent[half : 2 * half], q), H, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(sent[3 * half : 3 * half + q], xi, rtol=1e-3, atol=1e-4)


def test_a_crowd_sends_what_everybody_sends_alone() -> None:
    block = people(4, n_users=20)
    for ask in (ClassGradients(MODEL, 0.5, LOWEST), ClassMoments(MODEL), ClassShares(K)):
        together, parts = ask.of(block), []
        for j in range(block.n_users):
            X, y = rows_of(block, j)
            parts.append(ask.of(Block(X, y.astype(float), np.array([0, len(y)]), 0)))
        for name in ("raw", "counts", "value", "units"):
            if hasattr(together, name):
                np.testing.assert_allclose(
                    getattr(together, name), sum(getattr(part, name) for part in parts), rtol=1e-9, atol=1e-9
                )


def test_sparse_rows_give_what_dense_rows_give() -> None:
    block = people(2)
    thin = replace(block, X=sparse.csr_array(block.X))
    one, other = (ClassGradients(MODEL, 0.5, LOWEST).of(rows) for rows in (block, thin))
    np.testing.assert_allclose(one.raw, other.raw, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ClassMoments(MODEL).of(block).value, ClassMoments(MODEL).of(thin).value, rtol=1e-9)


def test_two_people_never_pull_apart_by_more_than_a_right_angle() -> None:
    block = people(7, n_users=60)
    sent = []
    for j in range(block.n_users):
        X, y = rows_of(block, j)
        for labels in (y, np.full_like(y, j % K)):
            sent.append(ClassMoments(MODEL).of(Block(X, labels.astype(float), np.array([0, len(y)]), 0)).value)
    assert (np.array(sent) @ np.array(sent).T).min() >= 0.0


@pytest.mark.parametrize("label", [-1.0, float(K), 0.5, np.nan, np.inf, 1e300])
def test_who_has_a_label_that_is_no_class_sends_nothing(label: float) -> None:
    X, y = rows_of(people(), 1)
    block = Block(X, np.append(y[:-1], label).astype(float), np.array([0, len(y)]), 0)
    assert not ClassGradients(MODEL, 0.5, LOWEST).of(block).raw.any()
    assert not ClassMoments(MODEL).of(block).value.any()
    assert not ClassShares(K).of(block).units.any()


def test_shares_of_a_person_add_up_to_one_however_many_rows_she_has() -> None:
    y = np.array([0.0, 2.0, 2.0, 2.0])
    for times in (1, 1000):
        block = Block(np.zeros((4 * times, D)), np.tile(y, times), np.array([0, 4 * times]), 0)
        np.testing.assert_allclose(ClassShares(K).of(block).bounded("s").value, [0.25, 0.0, 0.75, 0.0], atol=1e-8)


def cut(block: Block, most: int) -> Block:
    """Everybody's first rows, one person at a time."""
    X, y = zip(*((X[:most], y[:most]) for X, y in (rows_of(block, j) for j in range(block.n_users))), strict=True)
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in y])])
    return replace(block, X=np.concatenate(X), y=np.concatenate(y).astype(float), offsets=offsets)


def test_a_person_enters_rounds_with_her_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two hundred classes a row takes 50 ms: all of one person's 100,000 would hold up a fit that others paid for."""
    block, most = people(5), 3
    assert np.diff(block.offsets).max() > most > np.diff(block.offsets).min()
    expected = [ask.of(cut(block, most)) for ask in (ClassGradients(MODEL, 0.5, LOWEST), ClassMoments(MODEL))]
    whole, shares = ClassMoments(MODEL).of(block).value, ClassShares(K).of(block).units
    monkeypatch.setattr(classes, "MOST_WORK", most * K**3)
    for rows in (block, replace(block, X=sparse.csr_array(block.X))):
        gradients, moments = ClassGradients(MODEL, 0.5, LOWEST).of(rows), ClassMoments(MODEL).of(rows)
        np.testing.assert_allclose(gradients.raw, expected[0].raw, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moments.value, expected[1].value, rtol=1e-9)
        assert not np.allclose(moments.value, whole)
    np.testing.assert_array_equal(ClassShares(K).of(block).units, shares)  # of all rows


def test_the_most_rows_leave_every_number_of_classes_some_and_bound_the_time() -> None:
    for n_classes in range(3, MOST_CLASSES + 1):
        assert 500 <= classes.most_rows(n_classes) <= 2**32 / n_classes**3


def test_sparse_gradients_do_not_keep_everybodys_moments() -> None:
    """(people, 3K²/2) doubles are of no use to gradients: 1 GB for 5,000 people and 130 classes."""
    n_users, n_classes = 3000, 30
    q, rng = n_classes - 1, np.random.default_rng(0)
    model = ClassModel(np.zeros((2, q)), np.zeros(q), np.eye(q))
    y = rng.integers(0, n_classes, n_users).astype(float)
    block = Block(sparse.csr_array(rng.standard_normal((n_users, 2))), y, np.arange(n_users + 1), 0)
    ask = ClassGradients(model, 0.5, LOWEST)
    ask.of(replace(block, X=block.X[:1], y=y[:1], offsets=np.arange(2)))  # compiled
    threads_before = threads.get_num_threads()
    threads.set_num_threads(1)
    tracemalloc.start()
    ask.of(block)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    threads.set_num_threads(threads_before)
    assert most < 8 * n_users * 3 * q * q / 2 / 2, f"{most / 1e6:.0f} MB"
