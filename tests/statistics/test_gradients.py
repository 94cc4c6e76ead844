"""The compiled kernels against a slow version, one person at a time, in float64."""

import numpy as np
import pytest

from commonground.clipping.grid import bin_of
from commonground.data.users import Block
from commonground.heads.halves import second_half_heads
from commonground.statistics.directions import Directions, FeatureEnergies
from commonground.statistics.gradients import WINDOW, EmbeddingGradients, MeanGradients
from commonground.statistics.kernels.person import TINY_RIDGE
from commonground.statistics.paper.fedrep import BatchGradients, Pairs
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.statistic import SharedModel
from populations import mean_model, ragged_block

LOWEST = 113


def people(block: Block) -> list[tuple[np.ndarray, np.ndarray]]:
    return [
        (block.X[lo:hi].astype(float), block.y[lo:hi].astype(float))
        for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True)
    ]


def slow_embedding_gradient(X, y, U, mean, intercept, local_intercept):  # type: ignore[no-untyped-def]
    k = U.shape[1]
    dof = len(y) - k - local_intercept
    if dof <= 0:
        return None
    A, r = X @ U, y - intercept - (X @ mean if mean is not None else 0.0)
    if local_intercept:
        A, r = A - A.mean(axis=0), r - r.mean()
    gram = A.T @ A
    v = np.linalg.solve(gram + TINY_RIDGE * np.trace(gram) * np.eye(k), A.T @ r)
    return np.outer(v, X.T @ (r - A @ v)) / (dof * v @ v)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("with_mean", [False, True])
@pytest.mark.parametrize("local_intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_embedding_gradients(k: int, with_mean: bool, local_intercept: bool, dtype: type) -> None:
    d = 13
    block = ragged_block(k, n_users=60, d=d, dtype=dtype, high=25)
    rng = np.random.default_rng(k)
    U, mean = np.linalg.qr(rng.standard_normal((d, k)))[0], rng.standard_normal(d) if with_mean else None
    fast = EmbeddingGradients(SharedModel(U, mean, 0.4, local_intercept), LOWEST).of(block)
    raw, unit, counts = np.zeros_like(fast.raw), np.zeros_like(fast.unit), np.zeros_like(fast.counts)
    for X, y in people(block):
        g = slow_embedding_gradient(X, y, U, mean, 0.4, local_intercept)
        b = 0 if g is None else bin_of(float((g**2).sum()))
        counts[b] += 1
        if b:
            at = min(max(b - LOWEST, 0), WINDOW - 1)
            raw[at] += g
            unit[at] += g / np.linalg.norm(g)
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    if dtype is np.float64:  # in float32 a norm may fall on the other side of a bin's edge
        np.testing.assert_array_equal(fast.counts, counts)
        np.testing.assert_allclose(fast.raw, raw, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(fast.unit, unit, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        fast.raw.sum(axis=0), raw.sum(axis=0), rtol=tolerance, atol=tolerance * np.abs(raw).max()
    )
    assert fast.counts.sum() == block.n_users


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1])
def test_mean_gradients(centred: bool, constant: float) -> None:
    d = 7
    block = ragged_block(3, n_users=50, d=d)
    w = np.random.default_rng(0).standard_normal(d)
    fast = MeanGradients(mean_model(w, 0.2, centred), constant, LOWEST).of(block)
    total = np.zeros((1, d + (constant > 0)))
    for X, y in people(block):
        r = y - X @ w - 0.2
        slopes = X.T @ (r - r.mean()) / max(len(y) - 1, 1) if centred else X.T @ r / len(y)
        total[0] += np.append(slopes, constant * r.mean()) if constant else slopes
    np.testing.assert_allclose(fast.raw.sum(axis=0), total, atol=1e-9)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_mean_gradients_after_heads(local_intercept: bool) -> None:
    """X ᵀr/dof with the same residuals as the embedding's gradient, so that gradient = v ⊗ g / ‖v‖²."""
    d = 7
    block = ragged_block(8, n_users=50, d=d)
    U, w = np.linalg.qr(np.random.default_rng(0).standard_normal((d, 2)))[0], np.ones(d)
    total = np.zeros((1, d))
    for X, y in people(block):
        dof = len(y) - 2 - local_intercept
        if dof > 0:
            A, r = X @ U, y - X @ w - 0.3
            A, r = (A - A.mean(axis=0), r - r.mean()) if local_intercept else (A, r)
            gram = A.T @ A
            r = r - A @ np.linalg.solve(gram + TINY_RIDGE * np.trace(gram) * np.eye(2), A.T @ r)
            total[0] += X.T @ r / dof
    fast = ResidualGradients(SharedModel(U, w, 0.3, local_intercept), LOWEST).of(block)
    np.testing.assert_allclose(fast.raw.sum(axis=0), total, atol=1e-9)


def test_directions_and_energy() -> None:
    block = ragged_block(4, n_users=30, d=5, high=9)
    w = np.random.default_rng(1).standard_normal(5)
    expected, bins = np.zeros((5, 5)), []
    for X, y in people(block):
        Xc, r = X - X.mean(axis=0), y - X @ w - 0.1
        if len(y) < 2:
            bins.append(0)
            continue
        ridge = 0.05 * (Xc**2).sum() / min(Xc.shape)
        theta = np.linalg.solve(Xc.T @ Xc + ridge * np.eye(5), Xc.T @ (r - r.mean()))
        expected += np.outer(theta, theta) / (theta @ theta)
        bins.append(bin_of(float((Xc**2).sum() / ((len(y) - 1) * 5))))
    np.testing.assert_allclose(Directions(mean_model(w, 0.1, True)).of(block).value, expected, atol=1e-9)
    np.testing.assert_array_equal(FeatureEnergies(True).of(block).counts, np.bincount(bins, minlength=242))


def test_paper_pairs() -> None:
    """Alg. 2, line 4, with the double sum written out."""
    block = ragged_block(5, n_users=20, d=4, high=13)
    total = np.zeros((4, 4))
    for X, y in people(block):
        m = len(y)
        Z = np.zeros((4, 4))
        for i in range(m // 2):
            for other in range(m // 2):
                if i != other:
                    Z += 2 / (m * (m - 1)) * y[i] * y[other] * np.outer(X[i], X[other])
        norm = np.linalg.norm(Z)
        total += Z * min(1.0, 0.8 / norm) if norm > 0 else 0.0
    np.testing.assert_allclose(Pairs(0.8).of(block).value, total, atol=1e-9)


def test_paper_gradients_use_two_disjoint_batches() -> None:
    block = ragged_block(6, n_users=20, d=5, low=8, high=8)
    U = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 2)))[0]
    total = np.zeros((5, 2))
    for X, y in people(block):
        for_head, for_gradient = [2, 3], [0, 1]  # shift 2 in the first half of 4 rows
        v = np.linalg.lstsq(X[for_head] @ U, y[for_head], rcond=None)[0]
        g = -X[for_gradient].T @ (y[for_gradient] - X[for_gradient] @ U @ v) / 2
        gradient = np.outer(g, v)
        total += gradient * min(1.0, 3.0 / np.linalg.norm(gradient))
    np.testing.assert_allclose(BatchGradients(U, 2, 2, 3.0).of(block).value, total, atol=1e-8)
    heads = second_half_heads(block, U)
    X, y = people(block)[7]
    np.testing.assert_allclose(heads[7], np.linalg.lstsq(X[4:] @ U, y[4:], rcond=None)[0], atol=1e-9)
