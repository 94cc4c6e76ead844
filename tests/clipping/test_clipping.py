"""STYLE's neighbour test: whoever replaces a person, no private sum moves by more than its stated sensitivity."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from commonground.clipping.bounded import BoundedScores, BoundedSum, rounding_margin
from commonground.clipping.grid import (
    N_BINS,
    SQUARED_EDGES,
    bin_of,
    bins_of,
    clip_factors,
    lower_edge,
    squared_norms_of_products,
)
from commonground.clipping.ridge import bounded_ridge
from commonground.clipping.sums import BinnedSums, DirectionSums, from_symmetric_half, symmetric_half
from commonground.data.users import Block
from commonground.estimators.personal_ridge import centred_scale, unit_scale
from commonground.public_draws import public_generator, random_subspaces, sign_projection
from commonground.statistics.answers import AnswerShares, ToldShares
from commonground.statistics.classes import ClassGradients, ClassModel, ClassMoments, ClassShares
from commonground.statistics.convex_gradients import ConvexGradients
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.statistics.directions import Directions, DirectionsWithin, FeatureEnergies
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.gradients import WINDOW, EmbeddingGradients, MeanFeatures, MeanGradients
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces
from commonground.statistics.margins import MarginScores
from commonground.statistics.moments import RowMoments
from commonground.statistics.own_heads import HeadDirections, HeadNoise, LabelNoise
from commonground.statistics.paper.altmin import NormalisedPairs, System
from commonground.statistics.paper.exponential import LipschitzScores
from commonground.statistics.paper.fedrep import BatchGradients, Pairs
from commonground.statistics.posterior import PosteriorGradients, PosteriorMoments
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.row_gradients import RowGradients
from commonground.statistics.rows import RowCounts
from commonground.statistics.sparse_features import FeatureFrequencies, SparseDirections
from commonground.statistics.statistic import SharedModel
from commonground.statistics.subspace_scores import SubspaceScores
from commonground.statistics.whitened import BestGuesses, MissedSizes
from populations import mean_model, no_rows, ragged_block, replace_person, strange_people

D = 6
U = np.linalg.qr(np.random.default_rng(5).standard_normal((D, 2)))[0]
W0 = np.random.default_rng(6).standard_normal(D)
SUBSPACES = random_subspaces(20, D, 2, public_generator(0, "tests"))
SPACES = random_subspaces(20, 4, 3, public_generator(1, "tests"))
M = sign_projection(4, D, public_generator(2, "tests"))
T = np.random.default_rng(7).standard_normal((D, D))
SCALES = np.linspace(0.2, 5.0, D)
LOWEST = 121 - WINDOW // 2  # a window around contributions of norm one

LOW, HIGH = np.full(D, -1.0), np.full(D, 2.0)
SCALE = centred_scale(LOW, HIGH, -3.0, 3.0, intercept=True)
UNIT = unit_scale(LOW, HIGH, -3.0, 2.0, intercept=False)
THETA = np.linspace(-1.0, 1.0, D + 1)

NOTHING = np.zeros((D, 0))
NEIGHBOURS = {**strange_people(D), "no rows": no_rows(D)}


def csr(block: Block) -> Block:
    return replace(block, X=sparse.csr_array(block.X))


def classed(block: Block) -> Block:
    """Labels as one of three classes, and as none where they are no numbers."""
    return replace(block, y=np.digitize(block.y, [-0.5, 0.5]).astype(block.y.dtype))


PLAIN, WITH_INTERCEPTS, WITH_MEAN = SharedModel(U), SharedModel(U, own_intercept=True), SharedModel(U, W0, 0.1, True)
MEAN_ALONE = SharedModel(NOTHING, W0, 0.1, True)
SPREAD = np.array([[0.5, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 1.0]])
WITH_PRIOR = SharedModel(U, W0, 0.1, True, SPREAD, 0.3)
LOG_ODDS = replace(WITH_PRIOR, noise=1.0, log_odds=True)
CLASSES = ClassModel(np.column_stack([W0, -W0[::-1]]), np.array([0.3, -0.2]), SPREAD[1:, 1:])
STATISTICS: dict[str, Callable[[Block], BoundedSum | BoundedScores]] = {
    "gradient sizes": lambda b: EmbeddingGradients(PLAIN, LOWEST).of(b).histogram("h"),
    "gradients, low clip": lambda b: EmbeddingGradients(PLAIN, LOWEST).of(b).clipped_at(LOWEST + 1, "g"),
    "gradients": lambda b: EmbeddingGradients(PLAIN, LOWEST).of(b).clipped_at(121, "g"),
    "gradients, mean and intercepts": lambda b: (
        EmbeddingGradients(SharedModel(U, W0, 0.3, True), LOWEST).of(b).clipped_at(121, "g")
    ),
    "gradients, high clip": lambda b: EmbeddingGradients(PLAIN, LOWEST).of(b).clipped_at(LOWEST + WINDOW - 1, "g"),
    "gradients, far window": lambda b: EmbeddingGradients(PLAIN, 1).of(b).clipped_at(2, "g"),
    "gradients, high window": lambda b: EmbeddingGradients(PLAIN, N_BINS - WINDOW).of(b).clipped_at(N_BINS - 1, "g"),
    "mean gradient sizes": lambda b: MeanGradients(mean_model(W0, 0.1, True), True, LOWEST).of(b).histogram("h"),
    "mean gradients": lambda b: MeanGradients(mean_model(W0, 0.1, False), True, LOWEST).of(b).clipped_at(121, "m"),
    "mean gradients, centred": lambda b: (
        MeanGradients(mean_model(W0, 0.1, True), True, LOWEST).of(b).clipped_at(118, "m")
    ),
    "mean features": lambda b: MeanFeatures(LOWEST).of(b).clipped_at(121, "f"),
    "mean feature sizes": lambda b: MeanFeatures(LOWEST).of(b).histogram("f"),
    "mean gradients after heads": lambda b: ResidualGradients(WITH_MEAN, LOWEST).of(b).clipped_at(119, "r"),
    "mean gradients after heads, high clip": lambda b: (
        ResidualGradients(WITH_MEAN, LOWEST).of(b).clipped_at(LOWEST + WINDOW - 1, "r")
    ),
    "sizes after heads": lambda b: ResidualGradients(SharedModel(U, W0, 0.1, False), LOWEST).of(b).histogram("r"),
    "directions": lambda b: Directions(mean_model(W0, 0.1, False)).of(b).bounded("d"),
    "directions, centred": lambda b: Directions(mean_model(np.zeros(D), 0.0, True)).of(b).bounded("d"),
    "directions within a subspace": lambda b: (
        DirectionsWithin(mean_model(np.zeros(D), 0.0, True), U).of(b).bounded("d")
    ),
    "feature energy": lambda b: FeatureEnergies(True).of(b).bounded("e"),
    "best guesses": lambda b: BestGuesses(PLAIN).of(b).bounded("g"),
    "best guesses, intercepts": lambda b: BestGuesses(WITH_INTERCEPTS).of(b).bounded("g"),
    "missed sizes": lambda b: MissedSizes(PLAIN).of(b).bounded("s"),
    "feature scales": lambda b: ScaleProfiles(W0, False, LOWEST).of(b).clipped_at(122, "s"),
    "feature scale sizes": lambda b: ScaleProfiles(W0, True, LOWEST).of(b).histogram("s"),
    "feature moments": lambda b: FeatureMoments(False).of(b).bounded("m"),
    "feature moments, centred": lambda b: FeatureMoments(True).of(b).bounded("m"),
    "gradients in other coordinates": lambda b: (
        InCoordinates(T, EmbeddingGradients(PLAIN, LOWEST)).of(b).clipped_at(121, "g")
    ),
    "head directions": lambda b: HeadDirections(WITH_MEAN).of(b).bounded("d"),
    "head noise": lambda b: HeadNoise(PLAIN).of(b).bounded("n"),
    "moment sizes": lambda b: EmbeddingMomentSizes(WITH_MEAN).of(b).bounded("n"),
    "moments": lambda b: EmbeddingMoments(PLAIN, 1.5).of(b).bounded("m"),
    "moments, mean and intercepts": lambda b: EmbeddingMoments(WITH_MEAN, 0.5).of(b).bounded("m"),
    "logistic gradients": lambda b: ConvexGradients(WITH_MEAN, "logistic", False, LOWEST).of(b).clipped_at(115, "l"),
    "logistic mean gradients": lambda b: (
        ConvexGradients(SharedModel(U, W0, 0.1, False), "logistic", True, LOWEST).of(b).clipped_at(116, "l")
    ),
    "Huber gradient sizes": lambda b: ConvexGradients(PLAIN, "huber", False, LOWEST).of(b).histogram("h"),
    "Huber gradients": lambda b: ConvexGradients(WITH_INTERCEPTS, "huber", False, LOWEST).of(b).clipped_at(117, "h"),
    "AltMin as printed: pairs": lambda b: NormalisedPairs(8, 0.3).of(b).bounded("a"),
    "AltMin as printed: matrix": lambda b: System(U, 8, False, 0.5, 0.3).of(b).matrix.bounded("a"),
    "AltMin as printed: vector": lambda b: System(U, 8, False, 0.5, 0.3).of(b).vector.bounded("a"),
    "AltMin as printed: matrix of quarters": lambda b: System(U, 8, True, 0.5, 0.3).of(b).matrix.bounded("a"),
    "second moments": lambda b: RowMoments(SCALE).of(b).bounded("s"),
    "row gradients": lambda b: RowGradients(SCALE, THETA, 0.3).of(b).bounded("g"),
    "ridge coefficients": lambda b: bounded_ridge(RowMoments(UNIT).of(b), 0.7, 11.0, 0.4, "t"),
    "paper: pairs": lambda b: Pairs(3.0).of(b).bounded("z"),
    "subspaces": lambda b: SubspaceScores(SUBSPACES, False, False, 0.0).of(b).bounded("s"),
    "subspaces, centred": lambda b: SubspaceScores(SUBSPACES, False, True, 0.0).of(b).bounded("s"),
    "paper: subspaces": lambda b: SubspaceScores(SUBSPACES, True, False, 0.7).of(b).bounded("s"),
    "paper: subspaces, Huber": lambda b: LipschitzScores(SUBSPACES, 2.0, 1.0, 0.5).of(b).bounded("s"),
    "margins, k = 1": lambda b: MarginScores(SUBSPACES[:, :4, :1], M, False, 0.1, 1.0, 1.0).of(b).bounded("s"),
    "margins, k = 2": lambda b: MarginScores(SUBSPACES[:, :4], M, True, 0.1, 1.0, 1.0).of(b).bounded("s"),
    "margins, k = 3": lambda b: MarginScores(SPACES, M, False, 0.1, 2.0, 1.0).of(b).bounded("s"),
    "posterior gradients": lambda b: PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST).of(b).clipped_at(121, "g"),
    "posterior gradient sizes": lambda b: PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST).of(b).histogram("h"),
    "posterior gradients by rows": lambda b: (
        PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST, 3.5).of(b).clipped_at(118, "m")
    ),
    "posterior gradient sizes by rows": lambda b: (
        PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST, 3.5).of(b).whole_histogram("h")
    ),
    "sparse: posterior gradient sizes by rows": lambda b: (
        PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST, 3.5).of(csr(b)).histogram("h")
    ),
    "rows": lambda b: RowCounts().of(b).bounded("r"),
    "posterior gradients of the mean": lambda b: (
        PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST).of(b).clipped_at(118, "m")
    ),
    "posterior gradients about a centre": lambda b: (
        InCoordinates(T, PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST), W0).of(b).clipped_at(118, "m")
    ),
    "posterior gradients of log-odds": lambda b: (
        PosteriorGradients(LOG_ODDS, False, 0.0, LOWEST).of(b).clipped_at(118, "g")
    ),
    "posterior gradient sizes of log-odds": lambda b: (
        PosteriorGradients(LOG_ODDS, False, 0.0, LOWEST, 3.5).of(b).whole_histogram("h")
    ),
    "posterior gradients of the mean of log-odds": lambda b: (
        PosteriorGradients(LOG_ODDS, True, 20.0, LOWEST).of(b).clipped_at(118, "m")
    ),
    "posterior gradients of log-odds about a centre": lambda b: (
        InCoordinates(T, PosteriorGradients(LOG_ODDS, False, 0.0, LOWEST), W0).of(b).clipped_at(118, "g")
    ),
    "posterior moments of log-odds": lambda b: PosteriorMoments(LOG_ODDS).of(b).bounded("p"),
    "posterior gradients about a centre, embedding": lambda b: (
        InCoordinates(T, PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST), W0).of(b).clipped_at(121, "g")
    ),
    "posterior gradients in other scales": lambda b: (
        InCoordinates(SCALES, PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST), W0).of(b).clipped_at(118, "m")
    ),
    "posterior moments": lambda b: PosteriorMoments(WITH_PRIOR).of(b).bounded("p"),
    "posterior moments, little noise": lambda b: PosteriorMoments(replace(WITH_PRIOR, noise=1e-9)).of(b).bounded("p"),
    "class gradients": lambda b: ClassGradients(CLASSES, 0.5, LOWEST).of(classed(b)).clipped_at(118, "c"),
    "class gradient sizes": lambda b: ClassGradients(CLASSES, 0.5, LOWEST).of(classed(b)).whole_histogram("c"),
    "class gradients about a centre": lambda b: (
        InCoordinates(T, ClassGradients(CLASSES, 0.5, LOWEST), W0).of(classed(b)).clipped_at(118, "c")
    ),
    "class moments": lambda b: ClassMoments(CLASSES).of(classed(b)).bounded("c"),
    "class shares": lambda b: ClassShares(3).of(classed(b)).bounded("c"),
    "sparse: class gradients": lambda b: ClassGradients(CLASSES, 0.0, LOWEST).of(csr(classed(b))).clipped_at(118, "c"),
    "label places": lambda b: LabelPlaces(WITH_MEAN).of(b).bounded("l"),
    "answers": lambda b: AnswerShares().of(b).bounded("a"),
    "told shares": lambda b: ToldShares(LOG_ODDS, 0.02, LOWEST).of(b).clipped_at(116, "t"),
    "label means": lambda b: LabelMeans(WITH_MEAN, LOWEST).of(b).clipped_at(119, "l"),
    "label energies": lambda b: LabelEnergies(WITH_MEAN).of(b).bounded("l"),
    "label noise": lambda b: LabelNoise(WITH_MEAN).of(b).bounded("l"),
    "sparse: posterior gradients": lambda b: (
        PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST).of(csr(b)).clipped_at(121, "g")
    ),
    "sparse: posterior gradients, far window": lambda b: (
        PosteriorGradients(WITH_PRIOR, False, 0.0, 1).of(csr(b)).clipped_at(2, "g")
    ),
    "sparse: posterior gradients of the mean": lambda b: (
        PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST).of(csr(b)).clipped_at(118, "m")
    ),
    "sparse: posterior moments": lambda b: PosteriorMoments(WITH_PRIOR).of(csr(b)).bounded("p"),
    "sparse: directions": lambda b: SparseDirections(MEAN_ALONE, np.array([0, 2, 3])).of(csr(b)).bounded("p"),
    "sparse: directions within": lambda b: (
        SparseDirections(MEAN_ALONE, np.array([0, 2, 3]), U[:3]).of(csr(b)).bounded("p")
    ),
    "sparse: feature energy": lambda b: FeatureEnergies(True).of(csr(b)).bounded("e"),
    "sparse: feature shares": lambda b: FeatureFrequencies().of(csr(b)).bounded("f"),
    "paper: gradients": lambda b: BatchGradients(U, 2, 4, 0.7).of(b).bounded("p"),
}


def how_far(before: BoundedSum | BoundedScores, after: BoundedSum | BoundedScores) -> float:
    """Sums in L2; scores of candidates one by one."""
    return float(np.linalg.norm(after.value - before.value, None if isinstance(before, BoundedSum) else np.inf))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", STATISTICS)
def test_replacing_a_person_moves_the_sum_by_at_most_its_sensitivity(name: str, dtype: type, seed: int) -> None:
    block = ragged_block(seed, dtype=dtype)
    before = STATISTICS[name](block)
    largest = 0.0
    for kind, (X, y) in NEIGHBOURS.items():
        with np.errstate(over="ignore"):
            neighbour = replace_person(block, person=seed + 3, X=X, y=y)
        after = STATISTICS[name](neighbour)
        assert np.isfinite(after.value).all(), kind
        assert after.sensitivity == before.sensitivity, f"{kind}: the sensitivity depends on the data"
        moved = how_far(before, after)
        assert moved <= before.sensitivity, f"{kind} moved it by {moved}"
        largest = max(largest, moved)
    assert largest > 0, "the statistic does not read the rows"


@pytest.mark.parametrize("weight", [0.0, 2.0**-20, 0.125, 1.0])
@pytest.mark.parametrize("name", [name for name in STATISTICS if not name.startswith("paper")])
def test_a_person_moves_the_sum_by_at_most_her_weight(name: str, weight: float) -> None:
    """Room for rounding is in units of the whole sensitivity: ``accounting.personal`` takes it off everybody's weight."""
    block = ragged_block(0)
    weights = np.random.default_rng(3).integers(0, 2**20, block.n_users) / 2.0**20
    weights[3] = weight
    block = replace(block, weights=weights)
    before = STATISTICS[name](block)
    for kind, (X, y) in NEIGHBOURS.items():
        after = STATISTICS[name](replace_person(block, person=3, X=X, y=y))
        moved = how_far(before, after)
        assert moved <= (weight + rounding_margin(block.n_users)) * before.sensitivity, f"{kind} moved it by {moved}"
        assert weight > 0 or moved == 0.0, f"{kind} takes part"


def test_two_opposite_people_reach_the_sensitivity() -> None:
    """2C is not only enough but needed: people with equal rows and opposite labels nearly attain it."""
    block = ragged_block(0, n_users=5)
    rows = np.random.default_rng(1).standard_normal((20, D))
    labels = 1e6 * (rows @ W0)
    value = [
        MeanGradients(mean_model(np.zeros(D), 0.0, False), False, LOWEST).of(
            replace_person(block, 2, rows, sign * labels)
        )
        for sign in (1, -1)
    ]
    sums = [v.clipped_at(121, "m") for v in value]
    assert np.linalg.norm(sums[0].value - sums[1].value) == pytest.approx(sums[0].sensitivity, rel=1e-6)


def test_a_contribution_never_exceeds_its_clip_however_large_or_small() -> None:
    """Found by a reviewer: labels about 1e80 times the features made a factor of the norm denormal, and 22 % too small."""
    rng = np.random.default_rng(0)
    for _ in range(1500):
        X, y = (
            10 ** rng.uniform(-150, 150) * rng.standard_normal((8, D)),
            10 ** rng.uniform(-170, 170) * rng.standard_normal(8),
        )
        if rng.random() < 0.5:
            X, y = rng.standard_normal((8, D)), 10 ** rng.uniform(79, 82) * rng.standard_normal(8)
        with np.errstate(over="ignore", invalid="ignore"):
            alone = Block(X, y, np.array([0, 8]), first=0)
            for name in (
                "gradients",
                "gradients, low clip",
                "mean gradients",
                "mean gradients after heads",
                "mean features",
                "posterior gradients",
                "posterior gradients of the mean",
                "label means",
                "sparse: posterior gradients",
                "sparse: posterior gradients, far window",
                "sparse: posterior gradients of the mean",
            ):
                clipped = STATISTICS[name](alone)
                assert np.linalg.norm(clipped.value) <= clipped.sensitivity / 2


def slow_clipped_sum(contributions: list[np.ndarray], clip: float) -> np.ndarray:
    return sum(g * min(1.0, clip / np.linalg.norm(g)) for g in contributions if np.linalg.norm(g) > 0)


def test_binned_sums_clip_at_every_edge_like_the_slow_version(seed: int) -> None:
    rng = np.random.default_rng(seed)
    contributions = [rng.standard_normal((2, 3)) * 10 ** rng.uniform(-1, 1) for _ in range(200)]
    lowest, window = 113, 16
    sums = BinnedSums(np.zeros(N_BINS), np.zeros((window, 2, 3)), np.zeros((window, 2, 3)), lowest, 0)
    for g in contributions:
        norm = np.linalg.norm(g)
        b = bin_of(norm**2)
        at = min(max(b - lowest, 0), window - 1)
        sums.counts[b] += 1
        sums.raw[at] += g
        sums.unit[at] += g / norm
    for edge in range(lowest + 1, lowest + window):
        clipped = sums.clipped_at(edge, "g")
        np.testing.assert_allclose(clipped.value, slow_clipped_sum(contributions, lower_edge(edge)), atol=1e-9)
        assert clipped.sensitivity == pytest.approx(2 * lower_edge(edge), rel=1e-5)
        assert clipped.sensitivity > 2 * lower_edge(edge)
    for edge in (lowest, lowest + window):
        with pytest.raises(ValueError, match="outside the window"):
            sums.clipped_at(edge, "g")


@pytest.mark.parametrize("lowest", [-20, 0, N_BINS - 10])
def test_nothing_is_clipped_where_the_grid_has_no_bins(lowest: int) -> None:
    """Behind the last bin, which holds whatever is large, a window would pass on contributions of any size as they are."""
    sums = MeanFeatures(lowest).of(Block(np.full((2, D), 1e100), np.zeros(2), np.array([0, 2]), 0))
    for edge in range(lowest + 1, lowest + WINDOW):
        if 1 <= edge < N_BINS:
            assert np.linalg.norm(sums.clipped_at(edge, "f").value) == pytest.approx(lower_edge(edge))
        else:
            with pytest.raises(ValueError, match="or of the grid"):
                sums.clipped_at(edge, "f")


@pytest.mark.parametrize("norm", [0.7, 1.0, 1.5, 2.0**-59, 2.0**59, 1e-30, 1e300])
def test_bins_bound_the_norms_in_them(norm: float) -> None:
    b = bin_of(norm**2) if norm < 1e100 else bin_of(np.inf)
    if b > 1:
        assert lower_edge(b) <= norm * (1 + 1e-15)
    if 0 < b < N_BINS - 1:
        assert norm <= lower_edge(b + 1)
    assert bin_of(0.0) == bin_of(np.nan) == bin_of(np.inf) == 0


def test_what_is_below_the_grid_is_nothing() -> None:
    """A denormal square has few bits: once it had a bin, and what was scaled by its root norm 3 instead of 1."""
    first = lower_edge(1) ** 2
    assert bin_of(first) == 1
    assert [bin_of(square) for square in (np.nextafter(first, 0.0), 1e-300, 1e-310, 5e-324)] == [0] * 4
    tiny = np.full((1, 1, 50), 1.5e-162)
    tiny[0, 0, 0] = 1.6e-162  # the one entry whose square is not zero
    sums = BinnedSums.of(tiny, np.ones(1), LOWEST, WINDOW)
    assert sums.counts[0] == 1
    assert not sums.unit.any()
    assert not sums.raw.any()


def test_the_edges_are_where_bins_begin() -> None:
    np.testing.assert_array_equal(bins_of(SQUARED_EDGES), np.arange(1, N_BINS))
    np.testing.assert_array_equal(bins_of(np.nextafter(SQUARED_EDGES, 0.0)), np.arange(N_BINS - 1))
    np.testing.assert_allclose([lower_edge(b) for b in range(1, N_BINS)], np.sqrt(SQUARED_EDGES), rtol=1e-15)


def test_a_norm_of_factors_is_trusted_only_where_both_are_precise() -> None:
    """4e-162 · 1e154 is far below a clip of 0.1; its norm, of squares with two bits, must not be believed."""
    one, other = np.array([[3.0], [4e-162], [1e154], [np.nan]]), np.array([[2.0], [1e154], [1e-154], [1.0]])
    np.testing.assert_array_equal(squared_norms_of_products(one, other), [36.0, np.nan, np.nan, np.nan])


def test_symmetric_half_is_an_isometry(seed: int) -> None:
    half = np.random.default_rng(seed).standard_normal((5, 5))
    matrix = half + half.T
    assert np.linalg.norm(symmetric_half(matrix)) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(from_symmetric_half(symmetric_half(matrix), 5), matrix)


def test_directions_longer_than_one_are_clipped() -> None:
    sums = DirectionSums.of(np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0], [np.inf, 0.0]]), np.ones(4))
    np.testing.assert_allclose(sums.value, np.array([[0.36, 0.48], [0.48, 0.64]]) * 1.25)


def test_clip_factors() -> None:
    squares = np.array([0.0, 1.0, 100.0, np.nan, np.inf, 1e-310])
    np.testing.assert_allclose(clip_factors(squares, 5.0), [0.0, 1.0, 0.5, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "private", [BinnedSums(np.full(N_BINS, 777), np.full((2, 1, 1), 777.0), np.full((2, 1, 1), 777.0), 1, 777)]
)
def test_private_sums_do_not_print(private: object) -> None:
    assert "777" not in repr(private)
