"""Sparse rows give the numbers of dense rows, and what has no dense version those of a slow one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from commonground.clipping.grid import CHUNK
from commonground.clipping.sums import BinnedSums
from commonground.data.users import Block
from commonground.heads.ridge import fit_heads
from commonground.statistics.directions import FeatureEnergies
from commonground.statistics.gradients import EmbeddingGradients, MeanGradients
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.sparse_features import FeatureFrequencies
from commonground.statistics.sparse_gradients import LANES, PairDirections, SparseGradients
from commonground.statistics.statistic import SharedModel
from populations import mean_model

D, K, LOWEST = 7, 3, 113
U = np.linalg.qr(np.random.default_rng(0).standard_normal((D, K)))[0]
W0 = np.random.default_rng(1).standard_normal(D)
NOTHING = np.zeros((D, 0))


@pytest.fixture(scope="module")
def block() -> Block:
    """More people than fit in one chunk of each lane; some rows are all zeros, some people have a single row."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 10, (LANES + 1) * CHUNK)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], D)) * (rng.random((offsets[-1], D)) < 0.3)
    return Block(X, rng.standard_normal(offsets[-1]), offsets, first=0, weights=rng.random(len(sizes)))


def as_sparse(block: Block) -> Block:
    return replace(block, X=sparse.csr_array(block.X))


def assert_same(one: BinnedSums, other: BinnedSums) -> None:
    np.testing.assert_allclose(one.counts, other.counts, rtol=1e-12)
    np.testing.assert_allclose(one.raw, other.raw, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.unit, other.unit, rtol=1e-9, atol=1e-9)
    assert one.n_users == other.n_users


@pytest.mark.parametrize("mean", [None, W0], ids=["no mean", "mean"])
@pytest.mark.parametrize("local_intercept", [False, True])
def test_embedding_gradients(block: Block, mean: np.ndarray | None, local_intercept: bool) -> None:
    dense = EmbeddingGradients(SharedModel(U, mean, 0.4, local_intercept), LOWEST).of(block)
    assert_same(
        SparseGradients(SharedModel(U, mean, 0.4, local_intercept), True, False, LOWEST).of(as_sparse(block)), dense
    )


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("with_intercept", [False, True])
def test_mean_gradients(block: Block, centred: bool, with_intercept: bool) -> None:
    dense = MeanGradients(mean_model(W0, 0.4, centred), with_intercept, LOWEST).of(block)
    own = SparseGradients(SharedModel(NOTHING, W0, 0.4, centred), False, with_intercept, LOWEST).of(as_sparse(block))
    assert_same(own, dense)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_mean_gradients_after_heads(block: Block, local_intercept: bool) -> None:
    dense = ResidualGradients(SharedModel(U, W0, 0.4, local_intercept), LOWEST).of(block)
    assert_same(
        SparseGradients(SharedModel(U, W0, 0.4, local_intercept), False, False, LOWEST).of(as_sparse(block)), dense
    )


@pytest.mark.parametrize("local_intercept", [False, True])
def test_energies_and_heads(block: Block, local_intercept: bool) -> None:
    np.testing.assert_allclose(
        FeatureEnergies(local_intercept).of(as_sparse(block)).counts, FeatureEnergies(local_intercept).of(block).counts
    )
    dense = fit_heads(block, U, W0, 0.4, local_intercept)
    for own, expected in zip(fit_heads(as_sparse(block), U, W0, 0.4, local_intercept), dense, strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_pairs_of_different_rows_and_feature_shares(block: Block, local_intercept: bool) -> None:
    features = np.array([1, 2, 5])
    pairs, shares = np.zeros((3, 3)), np.zeros(D)
    for j, (lo, hi) in enumerate(zip(block.offsets[:-1], block.offsets[1:], strict=True)):
        X, r = block.X[lo:hi], block.y[lo:hi] - block.X[lo:hi] @ W0 - 0.4
        r = r - r.mean() if local_intercept else r
        rows = X[:, features] * r[:, None]
        own = sum(np.outer(a, b) for i, a in enumerate(rows) for h, b in enumerate(rows) if i != h)
        if np.linalg.norm(own) > 1e-30:
            pairs += block.weights[j] * own / np.linalg.norm(own)
        energy = (X**2).sum(axis=0)
        if energy.any():
            shares += block.weights[j] * energy / np.linalg.norm(energy)
    own = PairDirections(mean_model(W0, 0.4, local_intercept), features).of(as_sparse(block))
    np.testing.assert_allclose(own.value, pairs, atol=1e-8)
    np.testing.assert_allclose(FeatureFrequencies().of(as_sparse(block)).value, shares, rtol=1e-10)


def test_opposite_tastes_reach_the_sensitivity_of_pairs() -> None:
    """Two items liked together, or one liked and the other not: 2 is needed, and √2 would not be enough."""
    X = sparse.csr_array(np.eye(2, D))
    sums = [
        PairDirections(mean_model(np.zeros(X.shape[1]), 0.0, False), np.array([0, 1]))
        .of(Block(X, np.array(y), np.array([0, 2]), 0))
        .bounded("p")
        for y in ([1.0, 1.0], [1.0, -1.0])
    ]
    assert np.linalg.norm(sums[0].value - sums[1].value) == pytest.approx(sums[0].sensitivity, rel=1e-6)


def test_people_without_a_feature_in_common_reach_the_sensitivity_of_shares() -> None:
    """One has only the first item, the other only the second: √2 is needed."""
    sums = []
    for item in (0, 1):
        X = sparse.csr_array(np.eye(1, D, item))
        sums.append(FeatureFrequencies().of(Block(X, np.ones(1), np.array([0, 1]), 0)).bounded("f"))
    assert np.linalg.norm(sums[0].value - sums[1].value) == pytest.approx(sums[0].sensitivity, rel=1e-6)
