"""Posterior gradients and moments against the likelihood itself, person by person; sparse rows like dense ones."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from commonground.clipping.grid import CHUNK, clip_factors, squared_norms
from commonground.clipping.sums import BinnedSums, from_symmetric_half
from commonground.data.users import Block
from commonground.heads.posterior import NOISE_ROWS, fit_posterior_heads
from commonground.statistics.coordinates import InCoordinates
from commonground.statistics.directions import FeatureEnergies
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.posterior_sums import NOISE_WEIGHT
from commonground.statistics.labels import LabelEnergies, LabelMeans
from commonground.statistics.posterior import (
    LANES,
    Likelihood,
    PosteriorGradients,
    PosteriorMoments,
    _reader,
)
from commonground.statistics.sparse_features import FeatureFrequencies, SparseDirections
from commonground.statistics.statistic import SharedModel
from populations import ragged_block

D, LOWEST = 7, 113
rng = np.random.default_rng(0)
MODEL = SharedModel(
    rng.standard_normal((D, 2)),
    rng.standard_normal(D),
    0.4,
    True,
    np.array([[0.5, 0.2, 0.0], [0.2, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    0.7,
)


@pytest.fixture(scope="module")
def many() -> Block:
    """More people than fit in one chunk of each lane; some rows are all zeros, some people have a single row."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 10, (LANES + 1) * CHUNK)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], D)) * (rng.random((offsets[-1], D)) < 0.3)
    return Block(X, rng.standard_normal(offsets[-1]), offsets, first=0, weights=rng.random(len(sizes)))


def as_sparse(block: Block) -> Block:
    return replace(block, X=sparse.csr_array(block.X))


def people(block: Block) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(block.X[lo:hi], block.y[lo:hi]) for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True)]


def log_likelihood(block: Block, model: SharedModel) -> float:
    """Of everybody's labels, her own part integrated out."""
    total = 0.0
    for X, y in people(block):
        Z = np.column_stack([np.ones((len(y), int(model.own_intercept))), X @ model.embedding])
        mean, cov = X @ model.slopes + model.intercept, Z @ model.spread @ Z.T + model.noise * np.eye(len(y))
        total += multivariate_normal(mean, cov).logpdf(y)
    return total


def test_gradients_are_those_of_the_likelihood() -> None:
    block, step = ragged_block(7, n_users=15, d=D, low=1), 1e-5
    sums = Likelihood(MODEL).of(block)
    for a in range(D):
        shift = np.zeros(D)
        shift[a] = step
        up, down = (log_likelihood(block, replace(MODEL, coef=MODEL.slopes + s * shift)) for s in (1, -1))
        assert sums.of_mean[1 + a] / MODEL.noise == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-4)
        for c in range(2):
            E = np.zeros((D, 2))
            E[a, c] = step
            up, down = (log_likelihood(block, replace(MODEL, embedding=MODEL.embedding + s * E)) for s in (1, -1))
            assert sums.of_embedding[1 + a, c] / MODEL.noise == pytest.approx(
                (up - down) / (2 * step), rel=1e-4, abs=1e-4
            )
    up, down = (log_likelihood(block, replace(MODEL, intercept=MODEL.intercept + s * step)) for s in (1, -1))
    assert sums.of_mean[0] / MODEL.noise == pytest.approx((up - down) / (2 * step), rel=1e-4)


@pytest.mark.parametrize("of_mean", [False, True])
def test_what_a_person_sends(of_mean: bool) -> None:
    block = ragged_block(3, n_users=9, d=D, low=6)  # with fewer rows some have nothing to say
    total = np.zeros((1, D + 1) if of_mean else (2, D))
    for X, y in people(block):
        Z = np.column_stack([np.ones(len(y)), X @ MODEL.embedding])
        precision = np.linalg.inv(MODEL.spread) + Z.T @ Z / MODEL.noise
        cov = np.linalg.inv(precision)
        r = y - X @ MODEL.slopes - MODEL.intercept
        h = cov @ Z.T @ r / MODEL.noise
        dof = len(y) - np.trace(Z @ cov @ Z.T) / MODEL.noise
        left = r - Z @ h
        if of_mean:
            total[0] += np.append(X.T @ left, 0.5 * left.sum()) / dof
        else:
            size = h[1:] @ h[1:] + np.trace(cov[1:, 1:])
            X = X - X.mean(axis=0)
            total += 2 * (np.outer(h[1:], X.T @ left) - (X.T @ Z @ cov[:, 1:]).T) / (dof * size)
    sums = PosteriorGradients(MODEL, of_mean, 0.5 if of_mean else 0.0, LOWEST).of(block)
    np.testing.assert_allclose(sums.raw.sum(axis=0), total, rtol=1e-9, atol=1e-12)


def test_moments_rest_at_the_truth() -> None:
    """Labels drawn from the model: Σ ξξᵀ = Σ H and Σ e = Σ 1, up to chance."""
    rng, n, m = np.random.default_rng(5), 20_000, 4
    X = rng.standard_normal((n * m, D))
    parts = rng.multivariate_normal(np.zeros(3), MODEL.spread, n)
    Z = np.column_stack([np.ones(n * m), X @ MODEL.embedding])
    y = X @ MODEL.slopes + MODEL.intercept + (Z * np.repeat(parts, m, axis=0)).sum(axis=1)
    y += np.sqrt(MODEL.noise) * rng.standard_normal(n * m)
    block = Block(X, y, m * np.arange(n + 1), first=0)
    sums = PosteriorMoments(MODEL)
    unclipped = Likelihood(MODEL).of(block).moments
    xi, H = (from_symmetric_half(unclipped[at : at + 6], 3) / n for at in (0, 6))
    np.testing.assert_allclose(xi, H, atol=0.03)
    assert unclipped[-2] / n == pytest.approx(NOISE_WEIGHT, rel=0.02)
    clipped = sums.of(block)
    assert np.linalg.norm(clipped.value) <= n * clipped.clip_norm
    assert clipped.value[-1] < NOISE_WEIGHT * n


def test_posterior_heads_by_the_textbook() -> None:
    block = ragged_block(4, n_users=12, d=D, low=0)
    heads, own, doubts, _ = fit_posterior_heads(block, MODEL)
    for j, (X, y) in enumerate(people(block)):
        Z, r = np.column_stack([np.ones(len(y)), X @ MODEL.embedding]), y - X @ MODEL.slopes - MODEL.intercept
        noise = MODEL.noise
        for _ in range(50):  # expectation and maximisation, until her own noise is at rest
            cov = np.linalg.inv(np.linalg.inv(MODEL.spread) + Z.T @ Z / noise)
            h = cov @ Z.T @ r / noise
            noise = (NOISE_ROWS * MODEL.noise + ((r - Z @ h) ** 2).sum() + np.trace(Z @ cov @ Z.T)) / (
                NOISE_ROWS + len(y)
            )
        np.testing.assert_allclose(np.append(own[j], heads[j]), h, rtol=1e-3, atol=1e-4)
        if len(y) == 0:
            assert not heads[j].any()
            np.testing.assert_allclose(doubts[j], MODEL.spread[np.tril_indices(3)], rtol=1e-12)


def test_a_wild_label_does_not_make_a_wild_head() -> None:
    X, y = np.ones((1, D)), np.array([1e6])
    _, own, _, noises = fit_posterior_heads(Block(X, y, np.array([0, 1]), 0), MODEL)
    assert abs(own[0]) < 1.0
    assert noises[0] > 1e9


def assert_same(one: BinnedSums, other: BinnedSums) -> None:
    np.testing.assert_allclose(one.counts, other.counts, rtol=1e-12)
    np.testing.assert_allclose(one.raw, other.raw, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.unit, other.unit, rtol=1e-9, atol=1e-9)
    assert one.n_users == other.n_users


@pytest.mark.parametrize("of_mean", [False, True])
def test_sparse_rows_give_what_dense_rows_give(many: Block, of_mean: bool) -> None:
    for asked in (PosteriorGradients(MODEL, of_mean, 0.3 * of_mean, LOWEST), LabelMeans(MODEL, LOWEST)):
        assert_same(asked.of(as_sparse(many)), asked.of(many))
    moments = PosteriorMoments(MODEL)
    np.testing.assert_allclose(moments.of(as_sparse(many)).value, moments.of(many).value, rtol=1e-9)
    for counted in (LabelEnergies(MODEL), FeatureEnergies(True)):
        np.testing.assert_allclose(counted.of(as_sparse(many)).counts, counted.of(many).counts)


def test_directions_and_shares_of_sparse_rows(many: Block) -> None:
    features = np.array([1, 2, 5])
    moment, shares, bare = np.zeros((3, 3)), np.zeros(D), replace(MODEL, spread=None)
    for j, (X, y) in enumerate(people(many)):
        r = y - X @ MODEL.slopes - MODEL.intercept
        pulled = (X.T @ (r - r.mean()))[features]
        if np.linalg.norm(pulled) > 1e-12:
            moment += many.weights[j] * np.outer(pulled, pulled) / (pulled @ pulled)
        energy = (X**2).sum(axis=0)
        if energy.any():
            shares += many.weights[j] * energy / np.linalg.norm(energy)
    own = SparseDirections(bare, features).of(as_sparse(many)).value
    assert np.abs(own - moment).max() < 1e-3 * np.abs(moment).max()  # single rows leave nothing but rounding
    Q, _ = np.linalg.qr(np.random.default_rng(4).standard_normal((3, 2)))
    within = sum(
        many.weights[j] * np.outer(v, v) / (v @ v)
        for j, (X, y) in enumerate(people(many))
        if np.linalg.norm(v := Q.T @ (X.T @ ((r := y - X @ MODEL.slopes - MODEL.intercept) - r.mean()))[features])
        > 1e-12
    )
    own = SparseDirections(bare, features, Q).of(as_sparse(many)).value
    assert np.abs(own - within).max() < 1e-3 * np.abs(within).max()
    np.testing.assert_allclose(FeatureFrequencies().of(as_sparse(many)).value, shares, rtol=1e-10)


def test_people_without_a_feature_in_common_reach_the_sensitivity_of_shares() -> None:
    """One has only the first item, the other only the second: √2 is needed."""
    sums = []
    for item in (0, 1):
        X = sparse.csr_array(np.eye(1, D, item))
        sums.append(FeatureFrequencies().of(Block(X, np.ones(1), np.array([0, 1]), 0)).bounded("f"))
    assert np.linalg.norm(sums[0].value - sums[1].value) == pytest.approx(sums[0].sensitivity, rel=1e-6)


@pytest.mark.parametrize("transform", [np.linspace(0.5, 2.0, D), np.random.default_rng(5).standard_normal((D, D))])
@pytest.mark.parametrize("centre", [None, np.linspace(-1.0, 1.0, D)])
def test_rows_seen_through_coordinates_are_those_that_are_made(
    many: Block, transform: np.ndarray, centre: np.ndarray | None
) -> None:
    X = (many.X if centre is None else many.X - centre) @ (transform.T if transform.ndim == 2 else np.diag(transform))
    made = replace(many, X=np.ascontiguousarray(X))
    for asked in (PosteriorGradients(MODEL, False, 0.0, LOWEST), PosteriorGradients(MODEL, True, 0.7, LOWEST)):
        seen, expected = InCoordinates(transform, asked, centre).of(many), asked.of(made)
        np.testing.assert_array_equal(seen.counts[60:], expected.counts[60:])  # below is rounding
        np.testing.assert_allclose(seen.raw, expected.raw, rtol=1e-8, atol=1e-9)
    for label_asked in (PosteriorMoments(MODEL), LabelEnergies(MODEL), LabelMeans(MODEL, LOWEST)):
        seen, expected = InCoordinates(transform, label_asked, centre).of(many), label_asked.of(made)
        for name in ("value", "counts", "raw"):
            if hasattr(expected, name):
                np.testing.assert_allclose(getattr(seen, name), getattr(expected, name), rtol=1e-8, atol=1e-9)


def test_two_people_never_pull_apart_by_more_than_a_right_angle() -> None:
    """Which the sensitivity √2 C of the moments rests on; of people far from the prior, on either side of it, too."""
    rng = np.random.default_rng(0)
    block = ragged_block(0, n_users=60, d=D)
    sizes = np.repeat(10.0 ** rng.uniform(-3, 3, block.n_users), np.diff(block.offsets))
    wild = replace(block, y=block.y * sizes * np.where(rng.random(len(sizes)) < 0.5, -1.0, 1.0))
    for people_of in (block, wild):
        for model in (MODEL, replace(MODEL, log_odds=True, noise=1.0)):
            moments = _reader(model, True, Coordinates())(people_of)[1]
            assert (moments @ moments.T >= -1e-9 * np.linalg.norm(moments, axis=1)[:, None]).all()


def test_many_rows_that_agree_do_not_pull_apart_either() -> None:
    """What the two last entries are for: two people half a unit of the prior from it, on either side, and little else."""
    m, weak = 10_000, replace(MODEL, spread=1e-6 * np.eye(3))
    y = MODEL.intercept + 0.05 * np.repeat([1.0, -1.0], m)
    one, other = _reader(weak, True, Coordinates())(Block(np.zeros((2 * m, D)), y, np.array([0, m, 2 * m]), 0))[1]
    assert one[:-2] @ other[:-2] < -0.2
    assert one @ other > 0.0


@pytest.mark.parametrize("log_odds", [False, True])
def test_who_has_no_rows_sends_nothing(log_odds: bool) -> None:
    nobody = Block(np.empty((0, D)), np.empty(0), np.array([0, 0]), first=0)
    assert not PosteriorMoments(replace(MODEL, log_odds=log_odds, noise=1.0)).of(nobody).value.any()
    assert LabelMeans(MODEL, LOWEST).of(nobody).counts[0] == LabelEnergies(MODEL).of(nobody).counts[0] == 1.0


@pytest.mark.parametrize("log_odds", [False, True])
@pytest.mark.parametrize("of_mean", [False, True])
def test_a_crowd_sends_what_everybody_sends_alone(log_odds: bool, of_mean: bool) -> None:
    """Nobody's rows, labels or leftovers count with another person."""
    block, model = ragged_block(6, n_users=20, d=D), replace(MODEL, log_odds=log_odds, noise=1.0)
    block = replace(block, weights=np.linspace(0.0, 1.0, 20))
    asked, moments = PosteriorGradients(model, of_mean, 0.5 * of_mean, LOWEST), PosteriorMoments(model)
    alone = [
        Block(X, y, np.array([0, len(y)]), 0, weights=block.weights[j : j + 1])
        for j, (X, y) in enumerate(people(block))
    ]
    for form in (lambda b: b, as_sparse):
        each = [asked.of(form(person)) for person in alone]
        assert_same(asked.of(form(block)), sum(each[1:], start=each[0]))
        values = sum(moments.of(form(person)).value for person in alone)
        np.testing.assert_allclose(moments.of(form(block)).value, values, rtol=1e-9, atol=1e-12)


def test_each_of_many_people_with_sparse_rows_has_her_own_weight() -> None:
    """More of them than their directions are made for together."""
    n = 8 * CHUNK + 3
    X, y = sparse.csr_array(np.ones((n, 1))), np.ones(n)
    block = Block(X, y, np.arange(n + 1), 0, weights=(np.arange(n) >= 8 * CHUNK).astype(float))
    assert SparseDirections(SharedModel(np.zeros((1, 0))), np.array([0])).of(block).value[0, 0] == pytest.approx(3.0)


def test_log_odds_of_a_person_are_at_the_mode_of_her_posterior() -> None:
    model, block = replace(MODEL, log_odds=True, noise=1.0), ragged_block(3, n_users=9, d=D, low=2)
    heads, own, doubts, _ = fit_posterior_heads(block, model)
    for j, (X, y) in enumerate(people(block)):
        Z, h = np.column_stack([np.ones(len(y)), X @ model.embedding]), np.append(own[j], heads[j])
        p = 1 / (1 + np.exp(-(X @ model.slopes + model.intercept + Z @ h)))
        np.testing.assert_allclose(Z.T @ ((y > 0) - p), np.linalg.solve(model.spread, h), atol=1e-6)
        precision = np.linalg.inv(model.spread) + (Z * (p * (1 - p))[:, None]).T @ Z
        np.testing.assert_allclose(doubts[j], np.linalg.inv(precision)[np.tril_indices(3)], rtol=1e-6, atol=1e-9)


def test_nobody_without_rows_has_log_odds_of_her_own() -> None:
    empty = Block(np.empty((0, D)), np.empty(0), np.array([0, 0]), first=0)
    for log_odds in (False, True):
        heads, own, _, _ = fit_posterior_heads(empty, replace(MODEL, noise=1.0, log_odds=log_odds))
        assert not heads.any()
        assert not own.any()


@pytest.mark.parametrize("q", [2, 4, 10])
def test_rows_of_huge_numbers_along_one_line_keep_to_a_right_angle(q: int) -> None:
    """Where rounding is all that is left of the smallest pivots; beside them people far off with nothing to say."""
    rng = np.random.default_rng(q)
    model = SharedModel(np.eye(q), np.zeros(q), 0.0, False, np.eye(q), 1.0)
    rows = [s * rng.choice([1, -1, 0.7, 1 / 3, 1.1], q) for s in 10 ** rng.uniform(6, 9.5, 2_000)] + [np.zeros(q)]
    y = np.append(np.zeros(2_000), 1e7)
    block = Block(np.array(rows), y, np.arange(len(rows) + 1), first=0)
    moments = _reader(model, True, Coordinates())(block)[1]
    clipped = moments * clip_factors(squared_norms(moments), PosteriorMoments.reach(q))[:, None]
    assert (clipped @ clipped[-1] >= 0.0).all()
    assert np.linalg.norm(clipped - clipped[-1], axis=1).max() <= 2**0.5 * PosteriorMoments.reach(q)
