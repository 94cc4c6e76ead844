"""The compiled rounds over dense rows against the plain loops of ``posterior_sums``: each person alone, and in crowds.

The two share neither projections nor solver nor sums. Tolerances are relative to the size of what is sent: 1e-8 for rows of
float64, 1e-3 for rows of float32, which the compiled rounds add up as they are.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import BinnedSums, from_symmetric_half
from commonground.data.users import Block
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.posterior_sums import NOISE_WEIGHT
from commonground.statistics.posterior import (
    PosteriorGradients,
    PosteriorMoments,
    _reader,
    clipped_moments,
    gradient_sums,
)
from commonground.statistics.rows import shares_by_rows
from commonground.statistics.statistic import WINDOW, SharedModel
from populations import replace_person

LOWEST = 121 - WINDOW // 2
TOLERANCE = {np.float32: 1e-3, np.float64: 1e-8}
RANKS, FEATURES, FULL_ROWS = (0, 1, 2, 3, 5, 8), (1, 7, 8, 9, 50, 64), (1.0, 7.3)
WILD = np.nan, np.inf, -np.inf, 1e30, 1e300, 1e-30, 1e-300


def a_model(d: int, rank: int, own_intercept: bool) -> SharedModel:
    rng, q = np.random.default_rng(100 * d + rank), rank + own_intercept
    root = np.eye(q) + 0.3 * rng.standard_normal((q, q))
    U = rng.standard_normal((d, rank)) / np.sqrt(d)
    return SharedModel(U, 0.3 * rng.standard_normal(d), 0.4, own_intercept, root @ root.T, 0.7)


def a_crowd(d: int, dtype: type, n_users: int = 30, longest: int = 0, seed: int = 0) -> Block:
    """People with 0 to 40 rows, one of them perhaps with very many, who count by different weights, some by none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 41, n_users)
    sizes[[1, 5, 7, 8]] = 0, 9, 1, 2
    sizes[4] = longest or sizes[4]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = (rng.standard_normal((offsets[-1], d)) + 0.5).astype(dtype)
    y = (X @ rng.standard_normal(d) / np.sqrt(d) + rng.standard_normal(offsets[-1])).astype(dtype)
    weights = rng.integers(1, 2**20, n_users) / 2.0**20
    weights[[2, 11, n_users - 1]] = 0.0
    return Block(X, y, offsets, 0, weights)


def all_coordinates(d: int) -> dict[str, Coordinates]:
    rng = np.random.default_rng(d)
    scales, turn, centre = rng.uniform(0.5, 2.0, d), rng.standard_normal((d, d)) / np.sqrt(d), rng.standard_normal(d)
    return {
        "plain": Coordinates(),
        "centred": Coordinates(None, centre),
        "scaled": Coordinates(scales),
        "scaled about a centre": Coordinates(scales, centre),
        "turned": Coordinates(turn),
        "turned about a centre": Coordinates(turn, centre),
    }


def all_gradients(model: SharedModel) -> Iterator[PosteriorGradients]:
    for (of_mean, constant), full_rows in product([(False, 0.0), (False, 0.5), (True, 0.0), (True, 0.5)], FULL_ROWS):
        yield PosteriorGradients(model, of_mean, constant, LOWEST, full_rows)


def in_plain_loops(asked: PosteriorGradients, block: Block, coordinates: Coordinates) -> BinnedSums:
    read = _reader(asked.model, asked.of_mean, coordinates)

    def read_by_rows(some: Block) -> tuple[np.ndarray, np.ndarray]:
        factors, moments = read(some)
        return factors * np.repeat(shares_by_rows(some, asked.full_rows), np.diff(some.offsets))[:, None], moments

    columns = 1 if asked.of_mean else asked.model.rank
    return gradient_sums(block, read_by_rows, columns, asked.constant, asked.lowest, coordinates, asked.full_rows)


def moments_in_plain_loops(asked: PosteriorMoments, block: Block, coordinates: Coordinates) -> np.ndarray:
    assert asked.model.spread is not None
    read = _reader(asked.model, True, coordinates)
    return clipped_moments(block, read, asked.reach(len(asked.model.spread))).value


def people(block: Block) -> Iterator[Block]:
    for j, (lo, hi) in enumerate(pairwise(block.offsets)):
        yield Block(block.X[lo:hi], block.y[lo:hi], np.array([0, hi - lo]), j, block.person_weights[j : j + 1])


def assert_same_sums(one: BinnedSums, other: BinnedSums, tolerance: float) -> None:
    """Up to the tolerance, of a sum of norms: those of the bins that people are in, or one each for the unit sums."""
    np.testing.assert_array_equal(one.counts, other.counts)
    assert one.credits is not None
    assert other.credits is not None
    np.testing.assert_allclose(one.credits, other.credits, rtol=1e-12)
    sizes = sum(count * lower_edge(b + 1) for b, count in enumerate(one.counts) if b > 0)
    assert np.linalg.norm(one.raw - other.raw) <= tolerance * sizes
    assert np.linalg.norm(one.unit - other.unit) <= tolerance * one.counts[1:].sum()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("own_intercept", [False, True])
@pytest.mark.parametrize("d", FEATURES)
def test_crowds_send_what_plain_loops_say(d: int, own_intercept: bool, dtype: type) -> None:
    block, sent = a_crowd(d, dtype, longest=3_000 if d < 50 else 0), 0.0
    for rank, (name, coordinates) in product([k for k in RANKS if k <= d], all_coordinates(d).items()):
        model = a_model(d, rank, own_intercept)
        for asked in all_gradients(model):
            sums = asked.of_coordinates(block, coordinates)
            try:
                assert_same_sums(sums, in_plain_loops(asked, block, coordinates), TOLERANCE[dtype])
            except AssertionError as error:
                how = asked.of_mean, asked.constant, asked.full_rows
                raise AssertionError(f"rank {rank}, {name}, {how}: {error}") from error
            sent = max(sent, sums.counts[1:].sum())
        moments = PosteriorMoments(model)
        one, other = (
            moments.of_coordinates(block, coordinates).value,
            moments_in_plain_loops(moments, block, coordinates),
        )
        assert np.linalg.norm(one - other) <= TOLERANCE[dtype] * np.linalg.norm(other), (rank, name)
    assert sent > 5.0, "nobody says anything"


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("own_intercept", [False, True])
def test_each_person_sends_what_plain_loops_say(own_intercept: bool, dtype: type) -> None:
    """Alone, so that no large contribution hides a small one."""
    d = 9
    for rank, (name, coordinates) in product((0, 1, 2, 5), all_coordinates(d).items()):
        model = a_model(d, rank, own_intercept)
        moments = PosteriorMoments(model)
        for j, person in enumerate(people(a_crowd(d, dtype, n_users=14, seed=rank))):
            if person.person_weights[0] == 0.0:
                person = replace(person, weights=np.array([0.25]))
            for asked in all_gradients(model):
                one, other = asked.of_coordinates(person, coordinates), in_plain_loops(asked, person, coordinates)
                how = f"{j}, {rank}, {name}, {asked.of_mean}, {asked.constant}, {asked.full_rows}"
                np.testing.assert_array_equal(one.counts, other.counts, err_msg=how)
                np.testing.assert_allclose(one.credits, other.credits, rtol=1e-12, err_msg=how)
                for a, b in ((one.raw, other.raw), (one.unit, other.unit)):
                    assert np.linalg.norm(a - b) <= TOLERANCE[dtype] * np.linalg.norm(b), how
            a, b = (
                moments.of_coordinates(person, coordinates).value,
                moments_in_plain_loops(moments, person, coordinates),
            )
            assert np.linalg.norm(a - b) <= TOLERANCE[dtype] * np.linalg.norm(b), (j, rank, name)


def whole(model: SharedModel, block: Block, coordinates: Coordinates) -> list[np.ndarray]:
    """All that is said of a block, to the last bit."""
    sums = [asked.of_coordinates(block, coordinates) for asked in all_gradients(model)]
    moments = PosteriorMoments(model).of_coordinates(block, coordinates).value
    return [moments, *(part for s in sums for part in (s.counts, s.counted, s.raw, s.unit))]


def wild_people(block: Block, person: int) -> Iterator[tuple[str, Block]]:
    """The block with one number of one person's rows or labels, or all of them, of another kind."""
    lo, hi = block.offsets[person : person + 2]
    with np.errstate(over="ignore"):
        for value, of_labels, rows in product(WILD, (False, True), (slice(lo + 1, lo + 2), slice(lo, hi))):
            X, y = block.X.copy(), block.y.copy()
            if of_labels:
                y[rows] = value
            else:
                X[rows, : 1 if rows.start > lo else None] = value
            yield f"{value}, {of_labels}, {rows}", replace(block, X=X, y=y)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("own_intercept", [False, True])
def test_wild_numbers_of_one_person_change_nobody_else_by_a_bit(own_intercept: bool, dtype: type) -> None:
    """People are solved eight at a time and summed by size: other sizes' sums are as if she were not there."""
    d, person = 9, 5
    model, block = a_model(d, 2, own_intercept), a_crowd(d, dtype)
    weights = block.person_weights.copy()
    weights[person] = 0.0
    for name, coordinates in all_coordinates(d).items():
        without = replace(block, weights=weights)
        others = [asked.of_coordinates(without, coordinates) for asked in all_gradients(model)]
        other_moments = PosteriorMoments(model).of_coordinates(without, coordinates).value
        for kind, wild in wild_people(block, person):
            her = list(people(wild))[person]
            for asked, expected in zip(all_gradients(model), others, strict=True):
                sums, alone = asked.of_coordinates(wild, coordinates), asked.of_coordinates(her, coordinates)
                (bin_of_her,) = np.flatnonzero(alone.counts)
                elsewhere = np.arange(WINDOW) != min(max(bin_of_her - LOWEST, 0), WINDOW - 1)
                elsewhere |= bin_of_her == 0
                np.testing.assert_array_equal(sums.counts, expected.counts + alone.counts, err_msg=f"{name}, {kind}")
                np.testing.assert_array_equal(sums.raw[elsewhere], expected.raw[elsewhere], err_msg=f"{name}, {kind}")
                np.testing.assert_array_equal(sums.unit[elsewhere], expected.unit[elsewhere], err_msg=f"{name}, {kind}")
            hers = PosteriorMoments(model).of_coordinates(her, coordinates).value
            moments = PosteriorMoments(model).of_coordinates(wild, coordinates).value
            assert np.isfinite(moments).all(), f"{name}, {kind}"
            if hers.any():
                np.testing.assert_allclose(moments, other_moments + hers, rtol=1e-13, atol=1e-13)
            else:
                np.testing.assert_array_equal(moments, other_moments, err_msg=f"{name}, {kind}")


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_who_counts_by_nothing_changes_nobody_by_a_bit(dtype: type) -> None:
    """Neither by wild numbers nor by how many rows she has, whether she is the first, in the middle, or the last."""
    d = 9
    model, block, rng = a_model(d, 3, True), a_crowd(d, dtype), np.random.default_rng(3)
    for person, coordinates in product((0, 11, block.n_users - 1), all_coordinates(d).values()):
        weights = block.person_weights.copy()
        weights[person] = 0.0
        block = replace(block, weights=weights)
        expected = whole(model, block, coordinates)
        for m, value in product((0, 1, 7, 700), (1.0, np.nan, 1e30)):
            neighbour = replace_person(block, person, value * rng.standard_normal((m, d)), np.ones(m))
            for one, other in zip(whole(model, neighbour, coordinates), expected, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{person}, {m}, {value}")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("d", [7, 64])
def test_a_block_cut_at_other_places_says_the_same(d: int, dtype: type) -> None:
    model, block = a_model(d, 3, True), a_crowd(d, dtype, n_users=60, longest=3_000)
    for name, coordinates in all_coordinates(d).items():
        together = whole(model, block, coordinates)
        for cuts in ([0, 1, 60], [0, 5, 13, 14, 30, 60], list(range(61))):
            parts = []
            for first, end in pairwise(cuts):
                rows, offsets = slice(block.offsets[first], block.offsets[end]), block.offsets[first : end + 1]
                part = Block(block.X[rows], block.y[rows], offsets - offsets[0], first, block.weights[first:end])
                parts.append(whole(model, part, coordinates))
            for one, *others in zip(together, *parts, strict=True):
                # What everybody sends is the same to the last bit; only sums are rounded in another order.
                np.testing.assert_allclose(one, sum(others), rtol=1e-12, atol=1e-12 * np.abs(one).max(), err_msg=name)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("q", [2, 4, 10])
def test_rows_of_huge_numbers_along_one_line_keep_to_a_right_angle(q: int, dtype: type) -> None:
    """As in test_posterior.py, by what each person alone sends."""
    rng = np.random.default_rng(q)
    model = SharedModel(np.eye(q), np.zeros(q), 0.0, False, np.eye(q), 1.0)
    rows = [s * rng.choice([1, -1, 0.7, 1 / 3, 1.1], q) for s in 10 ** rng.uniform(6, 9.5, 2_000)] + [np.zeros(q)]
    y = np.append(np.zeros(2_000), 1e7)
    moments = PosteriorMoments(model)
    block = Block(np.array(rows).astype(dtype), y.astype(dtype), np.arange(len(rows) + 1), first=0)
    sent = np.array([moments.of(person).value for person in people(block)])
    assert sent[-1].any()
    assert (sent @ sent[-1] >= 0.0).all()
    assert np.linalg.norm(sent - sent[-1], axis=1).max() <= 2**0.5 * moments.reach(q)


def test_many_rows_that_agree_do_not_pull_apart() -> None:
    """What the two last entries are for: two people half a unit of the prior from it, on either side, and little else."""
    m, d = 10_000, 7
    weak = replace(a_model(d, 2, True), spread=1e-6 * np.eye(3))
    one, other = (
        PosteriorMoments(weak)
        .of(Block(np.zeros((m, d)), np.full(m, weak.intercept + shift), np.array([0, m]), 0))
        .value
        for shift in (0.05, -0.05)
    )
    assert one[:-2] @ other[:-2] < 0.0
    assert one @ other > 0.0


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_two_people_never_pull_apart_by_more_than_a_right_angle(dtype: type) -> None:
    rng, d = np.random.default_rng(0), 7
    model, block = a_model(d, 2, True), a_crowd(d, dtype, n_users=60)
    sizes = np.repeat(10.0 ** rng.uniform(-3, 3, block.n_users), np.diff(block.offsets))
    wild = replace(block, y=(block.y * sizes * np.where(rng.random(len(sizes)) < 0.5, -1.0, 1.0)).astype(dtype))
    for people_of in (block, wild):
        sent = np.array(
            [PosteriorMoments(model).of(replace(person, weights=None)).value for person in people(people_of)]
        )
        assert (sent @ sent.T >= -1e-9).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_residuals_that_rounding_makes_negative_count_as_none(dtype: type) -> None:
    """Σρ² less what a head explains of it: where that is all of huge labels, rounding decides the sign of the rest."""
    rng, d, m, n = np.random.default_rng(1), 3, 6, 200
    model = SharedModel(np.eye(d), np.zeros(d), 0.0, False, np.eye(d), 1.0)
    X = (10.0 ** np.repeat(rng.uniform(5, 9, (n, 1)), m, axis=0) * rng.standard_normal((n * m, d))).astype(dtype)
    y = (X.astype(np.float64) @ np.array([0.1, -0.2, 0.1])).astype(dtype)
    sent = np.array(
        [PosteriorMoments(model).of(person).value for person in people(Block(X, y, m * np.arange(n + 1), 0))]
    )
    assert (sent[:, -1] > 0.0).sum() > n / 2
    assert (sent[:, -2] >= 0.0).all()
    assert (sent @ sent.T >= 0.0).all()


def test_matrices_that_rounding_made_negative_are_not_sent() -> None:
    """A prior far wider along one line, and rows across it: what is left of Gram matrices of 1e14 is rounding, of either sign."""
    rng, m, n = np.random.default_rng(0), 5, 500
    L = np.array([[1e7, 0.0], [1e7, 1.0]])
    moments = PosteriorMoments(SharedModel(np.eye(2), np.zeros(2), 0.0, False, L @ L.T, 0.1))
    z = rng.standard_normal(n * m)
    block = Block(np.column_stack([z, -z * (1 + 1e-12)]), rng.standard_normal(n * m), m * np.arange(n + 1), 0)
    sent = [value for person in people(block) if (value := moments.of(person).value).any()]
    assert n / 2 < len(sent) < n, "somebody's matrix is not as it should be, and most are"
    for value in sent:
        H = from_symmetric_half(value[3:6], 2) / (value[-1] / NOISE_WEIGHT)
        assert np.linalg.eigvalsh(H)[0] >= -1 / 2 - 1e-9
        assert np.trace(H) <= 2 * (1 + 1e-9)
