"""The statistics of alternating minimisation against slow versions, row by row and one person at a time, in float64."""

import numpy as np
import pytest

from commonground.clipping.grid import bin_of
from commonground.data.users import Block
from commonground.heads.convex import fit_convex_heads
from commonground.statistics.convex_gradients import ConvexGradients
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.gradients import WINDOW
from commonground.statistics.kernels.person import TINY_RIDGE
from commonground.statistics.paper.altmin import NormalisedPairs, System
from commonground.statistics.statistic import SharedModel
from populations import ragged_block

D = 11


def people(block: Block) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (block.X[lo:hi].astype(float), block.y[lo:hi].astype(float))
        for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True)
    ]


def slow_head(A: np.ndarray, r: np.ndarray) -> np.ndarray:
    gram = A.T @ A
    return np.asarray(np.linalg.solve(gram + TINY_RIDGE * np.trace(gram) * np.eye(len(gram)), A.T @ r))


def embedding(k: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.linalg.qr(np.random.default_rng(seed).standard_normal((D, k)))[0])


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("with_mean", [False, True])
@pytest.mark.parametrize("local_intercept", [False, True])
def test_moments(k: int, with_mean: bool, local_intercept: bool) -> None:
    block, U, clip = ragged_block(k, n_users=50, d=D, high=20), embedding(k), 2.0
    mean = np.random.default_rng(8).standard_normal(D) if with_mean else None
    expected, counts = np.zeros((D * k, D * k)), np.zeros(242)
    for X, y in people(block):
        if len(y) - k - local_intercept <= 0:
            counts[0] += 1
            continue
        r = y - 0.3 - (X @ mean if mean is not None else 0.0)
        if local_intercept:
            X, r = X - X.mean(axis=0), r - r.mean()
        v = slow_head(X @ U, r)
        M = np.kron(np.outer(v, v) / (v @ v), X.T @ X / (len(y) - local_intercept))
        counts[bin_of(float((M**2).sum()))] += 1
        expected += M * min(1.0, clip / np.linalg.norm(M))
    sums = EmbeddingMoments(SharedModel(U, mean, 0.3, local_intercept), clip).of(block)
    np.testing.assert_allclose(sums.value, expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(
        EmbeddingMomentSizes(SharedModel(U, mean, 0.3, local_intercept)).of(block).counts, counts
    )
    assert sums.bounded("m").sensitivity == pytest.approx(np.sqrt(2) * clip)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rows", [8, 13])
def test_system_of_algorithm_2_row_by_row(split: bool, rows: int) -> None:
    block, U, eta, zeta = ragged_block(3, n_users=50, d=D, high=20), embedding(2), 0.7, 0.4
    W_sum, b_sum = np.zeros((2 * D, 2 * D)), np.zeros(2 * D)
    for X, y in people(block):
        q = min(len(y), rows) // (4 if split else 2)
        if q == 0:
            continue
        v = slow_head(X[:q] @ U, y[:q])
        for i in range(q, 2 * q) if split else range(q):
            W = np.outer(X[i], v).ravel(order="F")  # columns one after another
            W *= min(1.0, eta / np.linalg.norm(W))
            W_sum += np.outer(W, W)
            b_sum += np.clip(y[i], -zeta, zeta) * W
    sums = System(U, rows, split, eta, zeta).of(block)
    matrix, vector = sums.matrix, sums.vector
    np.testing.assert_allclose(matrix.value, W_sum, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(vector.value, b_sum, rtol=1e-9, atol=1e-11)
    most = rows // (4 if split else 2)
    assert matrix.bounded("W").sensitivity == pytest.approx(np.sqrt(2) * most * eta**2)
    assert vector.bounded("b").sensitivity == pytest.approx(2 * most * eta * zeta)


def test_pairs_of_algorithm_3() -> None:
    block, zeta, rows = ragged_block(4, n_users=50, d=D, high=20), 0.5, 9
    expected = np.zeros((D, D))
    for X, y in people(block):
        for i in range(0, min(len(y), rows) // 2 * 2, 2):
            one, two = X[i] / np.linalg.norm(X[i]), X[i + 1] / np.linalg.norm(X[i + 1])
            pair = np.outer(one, two) * np.clip(y[i], -zeta, zeta) * np.clip(y[i + 1], -zeta, zeta)
            expected += (pair + pair.T) / 2
    sums = NormalisedPairs(rows, zeta).of(block)
    np.testing.assert_allclose(sums.value, expected, rtol=1e-9, atol=1e-12)
    assert sums.bounded("a").sensitivity == pytest.approx(2 * (rows // 2) * zeta**2)


def test_a_positive_contribution_moves_by_root_two_and_no_less() -> None:
    """√2 C is needed: two people whose moments are orthogonal attain it."""
    rows = [np.zeros((6, D)), np.zeros((6, D))]
    for person, X in enumerate(rows):
        X[:, person] = 1e3
        X[:, 2] = np.arange(6) % 2  # so that there is a head
    others = ragged_block(0, n_users=5, d=D)
    values = []
    for X in rows:
        offsets = np.append(others.offsets, others.offsets[-1] + 6)
        block = Block(np.concatenate([others.X, X]), np.concatenate([others.y, X.sum(axis=1)]), offsets, 0)
        values.append(EmbeddingMoments(SharedModel(embedding(2), None, 0.0, False), 1.0).of(block).bounded("m"))
    moved = np.linalg.norm(values[0].value - values[1].value)
    assert moved == pytest.approx(np.sqrt(2), rel=1e-2)
    assert moved <= values[0].sensitivity


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.parametrize("of_mean", [False, True])
@pytest.mark.parametrize("local_intercept", [False, True])
def test_gradients_of_convex_losses(loss: str, of_mean: bool, local_intercept: bool) -> None:
    """Numerically: moving U (or w₀) with every head and intercept held moves a person's loss as her gradient says."""
    block = ragged_block(5, n_users=30, d=D, low=8, high=20)
    if loss == "logistic":
        block = Block(block.X, np.sign(block.y), block.offsets, 0)
    U, w, lowest = embedding(2), 0.1 * np.random.default_rng(1).standard_normal(D), 113
    heads, own = fit_convex_heads(block, U, w, 0.2, local_intercept, loss)
    fast = ConvexGradients(SharedModel(U, w, 0.2, local_intercept), loss, of_mean, lowest).of(block)
    raw = np.zeros_like(fast.raw)
    for (X, y), v, intercept in zip(people(block), heads, own, strict=True):
        corner = 1.345 * 1.4826 * np.median(np.abs(y - X @ (w + U @ v) - 0.2 - intercept))

        def value(theta: np.ndarray, X=X, y=y, intercept=intercept, corner=corner) -> float:  # type: ignore[no-untyped-def]
            score = X @ theta + 0.2 + intercept
            if loss == "logistic":
                return float(np.log1p(np.exp(-y * score)).sum())
            r = np.abs(y - score)
            return float(np.where(r < corner, r**2 / 2, corner * (r - corner / 2)).sum())

        theta, dof, h = w + U @ v, len(y) - 2 - local_intercept, 1e-6
        pulled = -np.array([(value(theta + h * e) - value(theta - h * e)) / (2 * h) for e in np.eye(D)])
        g = pulled[None, :] / dof if of_mean else np.outer(v, pulled) / (dof * v @ v)
        raw[min(max(bin_of(float((g**2).sum())) - lowest, 0), WINDOW - 1)] += g
    np.testing.assert_allclose(fast.raw.sum(axis=0), raw.sum(axis=0), rtol=2e-5, atol=2e-5)
    assert fast.counts.sum() == 30
