"""What one person sends, whatever finite rows she has: by herself within the stated bound, and in a crowd within the sensitivity.

Every function of ``contributions`` that sums over a block is here; the last test looks for those that are not. People have
features and labels of any size from 5e-324 to 1.8e308, so that squares, and products of squares, are denormal or infinite.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from commonground import statistics
from commonground.clipping.bounded import SCORE_UNIT, rounding_margin
from commonground.clipping.grid import CHUNK, N_BINS, lower_edge
from commonground.clipping.shares import MassSums
from commonground.clipping.sums import (
    BinnedSums,
    ClippedSums,
    ConeSums,
    DirectionSums,
    FeatureShares,
    PositiveSums,
    ScoreSums,
    SizeCounts,
    SymmetricSums,
)
from commonground.data.users import Block
from commonground.estimators.personal_ridge import centred_scale
from commonground.heads.halves import second_half_heads
from commonground.owners.gradients import (
    classification_errors,
    clipped_records,
    clipped_units,
    distance_counts,
    regression_errors,
    unit_means,
)
from commonground.public_draws import public_generator, random_subspaces, sign_projection
from commonground.statistics.answers import AnswerShares, ToldShares
from commonground.statistics.classes import ClassGradients, ClassModel, ClassMoments, ClassShares
from commonground.statistics.convex_gradients import ConvexGradients, SignedLabels
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.statistics.directions import Directions, DirectionsWithin, FeatureEnergies
from commonground.statistics.embedding_moments import EmbeddingMoments, EmbeddingMomentSizes
from commonground.statistics.gradients import WINDOW, EmbeddingGradients, MeanFeatures, MeanGradients
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces, LabelsInUnit
from commonground.statistics.margins import MarginScores
from commonground.statistics.moments import RowMoments
from commonground.statistics.own_heads import HeadDirections, HeadNoise, LabelNoise
from commonground.statistics.paper.altmin import NormalisedPairs, System, SystemSums
from commonground.statistics.paper.exponential import LipschitzScores
from commonground.statistics.paper.fedrep import BatchGradients, Pairs
from commonground.statistics.posterior import Likelihood, PosteriorGradients, PosteriorMoments
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.row_gradients import RowGradients
from commonground.statistics.rows import RowCounts
from commonground.statistics.sparse_features import FeatureFrequencies, SparseDirections, sparse_energy_counts
from commonground.statistics.statistic import SharedModel, Statistic
from commonground.statistics.subspace_scores import SubspaceScores
from commonground.statistics.whitened import BestGuesses, MissedSizes
from populations import mean_model, no_rows, ragged_block, random_person, replace_person, strange_people

pytestmark = pytest.mark.slow

D, CLIP = 6, 0.7
ROOM = 1e-9  # for the rounding inside one contribution: `clipping.rounding_margin`
LOWEST = 121 - WINDOW // 2
LAST = N_BINS - WINDOW
U = np.linalg.qr(np.random.default_rng(5).standard_normal((D, 2)))[0]
W0 = np.random.default_rng(6).standard_normal(D)
T = np.random.default_rng(7).standard_normal((D, D))
SCALES = np.linspace(0.2, 5.0, D)
NOTHING = np.zeros((D, 0))
SUBSPACES = random_subspaces(5, D, 2, public_generator(0, "tests"))
SPACES = random_subspaces(5, 4, 3, public_generator(1, "tests"))
M = sign_projection(4, D, public_generator(2, "tests"))
SCALE = centred_scale(np.full(D, -1.0), np.full(D, 2.0), -3.0, 3.0, intercept=True)


def csr(block: Block) -> Block:
    return replace(block, X=sparse.csr_array(block.X))


PLAIN, WITH_INTERCEPTS, WITH_MEAN = SharedModel(U), SharedModel(U, own_intercept=True), SharedModel(U, W0, 0.1, True)
SPREAD = np.array([[0.5, 0.2, 0.0], [0.2, 1.0, 0.1], [0.0, 0.1, 1.0]])
WITH_PRIOR, NO_HEADS = (
    SharedModel(U, W0, 0.1, True, SPREAD, 0.3),
    SharedModel(NOTHING, W0, 0.1, True, SPREAD[:1, :1], 0.3),
)
PRIOR_ALONE = SharedModel(U, spread=np.eye(2), noise=1e-6)
LOG_ODDS = replace(WITH_PRIOR, noise=1.0, log_odds=True)
CLASSES = ClassModel(np.column_stack([W0, -W0[::-1]]), np.array([0.3, -0.2]), SPREAD[1:, 1:])


def classed(block: Block) -> Block:
    """Labels as one of three classes, and as none where they are no numbers."""
    return replace(block, y=np.digitize(block.y, [-0.5, 0.5]).astype(block.y.dtype))


SUMS: dict[str, Callable[[Block], Any]] = {
    "gradients": lambda b: EmbeddingGradients(PLAIN, LOWEST).of(b),
    "gradients, mean, intercepts": lambda b: EmbeddingGradients(SharedModel(U, W0, 0.3, True), LOWEST).of(b),
    "gradients, first window": lambda b: EmbeddingGradients(PLAIN, 1).of(b),
    "gradients, last window": lambda b: EmbeddingGradients(WITH_INTERCEPTS, LAST).of(b),
    "gradients in other coordinates": lambda b: InCoordinates(T, EmbeddingGradients(PLAIN, LOWEST)).of(b),
    "mean features": lambda b: MeanFeatures(LOWEST).of(b),
    "mean features, first window": lambda b: MeanFeatures(1).of(b),
    "mean features, last window": lambda b: MeanFeatures(LAST).of(b),
    "mean gradients": lambda b: MeanGradients(mean_model(0 * W0, 0.0, False), 0.0, LOWEST).of(b),
    "mean gradients, intercepts": lambda b: MeanGradients(mean_model(0 * W0, 0.0, True), 1.0, 1).of(b),
    "mean gradients about a centre": lambda b: MeanGradients(mean_model(W0, 0.1, True), 2.0, LAST, 1e3 * W0).of(b),
    "after heads": lambda b: ResidualGradients(SharedModel(U, 0 * W0, 0.0, False), LOWEST).of(b),
    "after heads, mean, intercepts": lambda b: ResidualGradients(WITH_MEAN, 1).of(b),
    "best guesses": lambda b: BestGuesses(PLAIN).of(b),
    "best guesses, intercepts": lambda b: BestGuesses(WITH_INTERCEPTS).of(b),
    "missed sizes": lambda b: MissedSizes(PLAIN).of(b),
    "missed sizes, intercepts": lambda b: MissedSizes(WITH_INTERCEPTS).of(b),
    "feature scales": lambda b: ScaleProfiles(W0, False, LOWEST).of(b),
    "feature scales, intercepts": lambda b: ScaleProfiles(W0, True, LOWEST).of(b),
    "logistic": lambda b: SignedLabels(ConvexGradients(WITH_MEAN, "logistic", False, LOWEST)).of(b),
    "logistic mean": lambda b: ConvexGradients(PLAIN, "logistic", True, 1).of(b),
    "Huber": lambda b: ConvexGradients(WITH_INTERCEPTS, "huber", False, LOWEST).of(b),
    "Huber mean": lambda b: ConvexGradients(SharedModel(U, W0, 0.1, False), "huber", True, LAST).of(b),
    "posterior gradients": lambda b: PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST).of(b),
    "posterior gradients, first window": lambda b: PosteriorGradients(PRIOR_ALONE, False, 0.0, 1).of(b),
    "posterior gradients of the mean": lambda b: PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST).of(b),
    "posterior gradients of the mean, last window": lambda b: PosteriorGradients(NO_HEADS, True, 0.0, LAST).of(b),
    "posterior gradients by rows": lambda b: PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST, 5.0).of(b),
    "sparse posterior gradients by rows": lambda b: PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST, 9.5).of(csr(b)),
    "rows": lambda b: RowCounts().of(b),
    "sparse posterior gradients": lambda b: PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST).of(csr(b)),
    "sparse posterior gradients of the mean": lambda b: PosteriorGradients(WITH_PRIOR, True, 0.5, 1).of(csr(b)),
    "posterior gradients about a centre": lambda b: InCoordinates(
        T, PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST), W0
    ).of(b),
    "posterior gradients of log-odds": lambda b: PosteriorGradients(LOG_ODDS, False, 0.0, LOWEST).of(b),
    "posterior gradients of the mean of log-odds": lambda b: PosteriorGradients(LOG_ODDS, True, 20.0, LOWEST, 3.5).of(
        b
    ),
    "posterior gradients of log-odds about a centre": lambda b: InCoordinates(
        T, PosteriorGradients(LOG_ODDS, False, 0.0, LOWEST), W0
    ).of(b),
    "posterior gradients about a centre, embedding": lambda b: InCoordinates(
        T, PosteriorGradients(WITH_PRIOR, False, 0.5, LOWEST), W0
    ).of(b),
    "posterior gradients in other scales": lambda b: InCoordinates(
        SCALES, PosteriorGradients(WITH_PRIOR, True, 0.5, LOWEST), W0
    ).of(b),
    "posterior moments of log-odds": lambda b: PosteriorMoments(LOG_ODDS).of(b),
    "posterior moments": lambda b: PosteriorMoments(WITH_PRIOR).of(b),
    "posterior moments, no heads": lambda b: PosteriorMoments(NO_HEADS).of(csr(b)),
    "class gradients": lambda b: ClassGradients(CLASSES, 0.5, LOWEST).of(classed(b)),
    "sparse class gradients": lambda b: ClassGradients(CLASSES, 0.0, 1).of(csr(classed(b))),
    "class gradients about a centre": lambda b: InCoordinates(T, ClassGradients(CLASSES, 0.5, LAST), W0).of(classed(b)),
    "class moments": lambda b: ClassMoments(CLASSES).of(classed(b)),
    "class shares": lambda b: ClassShares(3).of(classed(b)),
    "answers": lambda b: AnswerShares().of(b),
    "told shares": lambda b: ToldShares(LOG_ODDS, 0.02, LOWEST).of(b),
    "told shares, sparse, first window": lambda b: ToldShares(LOG_ODDS, 0.7, 1).of(csr(b)),
    "told shares about a centre": lambda b: InCoordinates(T, ToldShares(LOG_ODDS, 0.02, LOWEST), W0).of(b),
    "label means": lambda b: LabelMeans(WITH_MEAN, LOWEST).of(b),
    "label places": lambda b: LabelPlaces(WITH_MEAN).of(b),
    "label places, sparse": lambda b: LabelPlaces(PLAIN).of(csr(b)),
    "label means, first window": lambda b: LabelMeans(PLAIN, 1).of(csr(b)),
    "label energies": lambda b: LabelEnergies(WITH_MEAN).of(b),
    "label means, in a unit from a zero": lambda b: LabelsInUnit(LabelMeans(WITH_MEAN, LOWEST), 4.0, 2000.0).of(b),
    "posterior gradients of labels in a tiny unit": lambda b: LabelsInUnit(
        PosteriorGradients(WITH_PRIOR, False, 0.0, LOWEST), 2.0**-50
    ).of(b),
    "label noise": lambda b: LabelNoise(WITH_MEAN).of(b),
    "sparse directions": lambda b: SparseDirections(mean_model(W0, 0.1, True), np.array([0, 2, 3])).of(csr(b)),
    "sparse directions within": lambda b: SparseDirections(mean_model(W0, 0.1, True), np.array([0, 2, 3]), U[:3]).of(
        csr(b)
    ),
    "directions": lambda b: Directions(mean_model(W0, 0.1, False)).of(b),
    "directions, intercepts": lambda b: Directions(mean_model(0 * W0, 0.0, True)).of(b),
    "directions within": lambda b: DirectionsWithin(mean_model(0 * W0, 0.0, False), U).of(b),
    "head directions": lambda b: HeadDirections(PLAIN).of(b),
    "head directions, intercepts": lambda b: HeadDirections(WITH_MEAN).of(b),
    "head noise": lambda b: HeadNoise(WITH_MEAN).of(b),
    "feature energy": lambda b: FeatureEnergies(True).of(b),
    "sparse feature energy": lambda b: sparse_energy_counts(csr(b), True),
    "feature shares": lambda b: FeatureFrequencies().of(csr(b)),
    "feature moments": lambda b: FeatureMoments(False).of(b),
    "feature moments, intercepts": lambda b: FeatureMoments(True).of(b),
    "moment sizes": lambda b: EmbeddingMomentSizes(WITH_MEAN).of(b),
    "moments": lambda b: EmbeddingMoments(PLAIN, CLIP).of(b),
    "moments, low clip": lambda b: EmbeddingMoments(WITH_MEAN, lower_edge(2)).of(b),
    "second moments": lambda b: RowMoments(SCALE).of(b),
    "row gradients": lambda b: RowGradients(SCALE, np.linspace(-1.0, 1.0, D + 1), 0.3).of(b),
    "subspaces": lambda b: SubspaceScores(SUBSPACES, False, True, 0.0).of(b),
    "paper's subspaces": lambda b: SubspaceScores(SUBSPACES, True, False, CLIP).of(b),
    "paper's subspaces, Huber": lambda b: LipschitzScores(SUBSPACES, CLIP, 1.0, 0.5).of(b),
    "margins, k = 1": lambda b: MarginScores(SUBSPACES[:, :4, :1], M, False, 0.1, 1.0, 1.0).of(b),
    "margins, k = 2": lambda b: MarginScores(SUBSPACES[:, :4], M, True, 0.1, 1.0, 1.0).of(b),
    "margins, k = 3": lambda b: MarginScores(SPACES, M, False, 0.1, 2.0, 1.0).of(b),
    "AltMin as printed": lambda b: System(U, 8, False, 0.5, 0.3).of(b),
    "AltMin as printed, quarters": lambda b: System(U, 8, True, 1e-15, 1e-15).of(b),
    "AltMin's pairs": lambda b: NormalisedPairs(8, 0.3).of(b),
    "paper's pairs": lambda b: Pairs(CLIP).of(b),
    "paper's pairs, low clip": lambda b: Pairs(1e-15).of(b),
    "paper's gradients": lambda b: BatchGradients(U, 2, 4, CLIP).of(b),
    "paper's gradients, low clip": lambda b: BatchGradients(U, 2, 4, 1e-15).of(b),
}
KNOW_NO_WEIGHTS = {name for name in SUMS if name.startswith("paper's") and name != "paper's subspaces"}
NOT_SENT = {Likelihood}  # for the baseline without privacy


def norm(values: np.ndarray) -> float:
    """Without squares that overflow or vanish."""
    largest = float(np.abs(values).max(initial=0.0))
    return largest * float(np.linalg.norm(values / largest)) if largest > 0 else 0.0


def check_bins(sums: BinnedSums, weight: float) -> None:
    here = np.flatnonzero(sums.counts)
    assert here.size == 1
    b = int(here[0])
    assert sums.counts[b] == weight
    assert 0.0 <= sums.counted[b] <= weight
    assert sums.counted.sum() == sums.counted[b]
    at = min(max(b - sums.lowest, 0), WINDOW - 1)
    for w in range(WINDOW):
        if b == 0 or w != at:
            assert not sums.raw[w].any()
            assert not sums.unit[w].any()
    if b > 0:
        assert abs(norm(sums.unit[at]) / weight - 1.0) <= ROOM
        above = lower_edge(b + 1) if b < N_BINS - 1 else math.sqrt(np.finfo(np.float64).max)
        assert lower_edge(b) * (1 - ROOM) <= norm(sums.raw[at]) / weight <= above * (1 + ROOM)
    for edge in (sums.lowest + 1, min(max(b, sums.lowest + 1), sums.lowest + WINDOW - 1), sums.lowest + WINDOW - 1):
        clip = lower_edge(edge)
        own = min(clip, norm(sums.raw[at]) / weight)
        assert norm(sums.clipped_at(edge, "g").value) == pytest.approx(own * weight, rel=ROOM, abs=0.0)


def check_norm(value: np.ndarray, most: float) -> None:
    assert np.isfinite(value).all()
    assert norm(value) <= most * (1 + ROOM)


def check_counts(sums: SizeCounts, weight: float) -> None:
    assert sorted(sums.counts)[-2:] == [0.0, weight]


def check_positive(value: np.ndarray) -> None:
    np.testing.assert_array_equal(value, value.T)
    assert np.linalg.eigvalsh(value)[0] >= -1e-12 * np.abs(value).max()


CHECKS: dict[type, Callable[[Any, float], None]] = {
    BinnedSums: check_bins,
    SizeCounts: check_counts,
    ClippedSums: lambda s, weight: check_norm(s.value, weight * s.clip_norm),
    SymmetricSums: lambda s, weight: check_norm(s.value, weight * s.clip_norm),
    ConeSums: lambda s, weight: check_norm(s.value, weight * s.clip_norm),
    PositiveSums: lambda s, weight: (check_norm(s.value, weight * s.clip_norm), check_positive(s.value)),
    DirectionSums: lambda s, weight: (
        check_norm(np.trace(s.value), weight),
        check_positive(s.value),
    ),
    FeatureShares: lambda s, weight: (check_norm(s.value, weight), check_norm(np.minimum(s.value, 0.0), 0.0)),
    MassSums: lambda s, weight: (check_norm(s.units.sum() / SCORE_UNIT, weight), check_norm(np.minimum(s.units, 0), 0.0)),
    ScoreSums: lambda s, weight: check_norm(np.clip(s.value, 0, weight * SCORE_UNIT) - s.value, 0.0),
    SystemSums: lambda s, weight: (
        CHECKS[PositiveSums](s.matrix, weight),
        CHECKS[ClippedSums](s.vector, weight),
    ),
}  # fmt: skip


def bounded(sums: Any) -> list[Any]:
    """All that may be asked of a sum, with its sensitivity."""
    if isinstance(sums, BinnedSums):
        edges = sums.lowest + np.array([1, WINDOW // 2, WINDOW - 1])
        return [sums.whole_histogram("h"), sums.histogram("h"), *(sums.clipped_at(int(e), "g") for e in edges)]
    if isinstance(sums, SystemSums):
        return [sums.matrix.bounded("m"), sums.vector.bounded("v")]
    return [sums.bounded("s")]


def moved(before: Any, after: Any) -> float:
    difference = (after.value - before.value).astype(np.float64)
    return float(np.abs(difference).max()) if before.value.dtype.kind == "i" else norm(difference)


STRANGE = [*strange_people(D).items(), ("no rows", no_rows(D))]
N_PEOPLE = 300


def somebody(at: int, dtype: type) -> tuple[str, np.ndarray, np.ndarray]:
    """All strange people first, then one of any size for each number."""
    if at < len(STRANGE):
        kind, (X, y) = STRANGE[at]
        with np.errstate(over="ignore"):
            return kind, X.astype(dtype), y.astype(dtype)
    return f"random_person({at})", *random_person(np.random.default_rng(at), D, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SUMS)
def test_one_persons_part_of_a_sum_obeys_its_bound(name: str, dtype: type) -> None:
    for at in range(N_PEOPLE):
        kind, X, y = somebody(at, dtype)
        weight = 1.0 if name in KNOW_NO_WEIGHTS else (1.0, 0.125, 2.0**-20)[at % 3]
        alone = Block(X, y, np.array([0, len(y)]), first=0, weights=np.array([weight]))
        sums = SUMS[name](alone)
        try:
            CHECKS[type(sums)](sums, weight)
        except AssertionError as error:
            raise AssertionError(f"{kind}, counting {weight}: {error}") from error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SUMS)
def test_one_person_in_a_crowd_moves_a_sum_by_at_most_its_sensitivity(name: str, dtype: type) -> None:
    crowd = ragged_block(1, n_users=12, d=D, dtype=dtype)
    weights = np.random.default_rng(0).integers(1, 2**20, 12) / 2.0**20
    for at in range(0, N_PEOPLE, 2):
        kind, X, y = somebody(at, dtype)
        weight = 1.0 if name in KNOW_NO_WEIGHTS else (1.0, 0.125, 2.0**-20, 0.0)[at // 2 % 4]
        weights[3] = weight
        block = crowd if name in KNOW_NO_WEIGHTS else replace(crowd, weights=weights.copy())
        neighbour = replace_person(block, 3, X, y)
        for before, after in zip(bounded(SUMS[name](block)), bounded(SUMS[name](neighbour)), strict=True):
            assert before.sensitivity == after.sensitivity
            assert moved(before, after) <= (weight + rounding_margin(12)) * before.sensitivity, (kind, weight)
            assert weight > 0 or moved(before, after) == 0.0, f"{kind} takes part"


def entries(sums: Any) -> list[np.ndarray]:
    """All numbers of a sum over people; of sums clipped at an edge, those at the middle one."""
    if isinstance(sums, SystemSums):
        return [sums.matrix.value, sums.vector.value]
    if isinstance(sums, BinnedSums):
        return [sums.counts, sums.counted, sums.clipped_at(sums.lowest + WINDOW // 2, "g").value]
    return [value for value in vars(sums).values() if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("name", SUMS)
def test_however_people_are_cut_into_blocks_everybody_counts_once_and_her_own_weight(name: str) -> None:
    """More people than any kernel takes together: who comes later is not given the weight, or the place, of an earlier one."""
    block = ragged_block(3, n_users=2 * CHUNK + 77, d=D, low=0, high=9)
    block = replace(block, weights=np.random.default_rng(4).integers(0, 2**10, block.n_users) / 2.0**10)
    whole, parts = SUMS[name](block), None
    for first, end in pairwise([0, 1, 70, 600, CHUNK - 1, CHUNK + 300, 2 * CHUNK + 1, block.n_users]):
        rows = slice(block.offsets[first], block.offsets[end])
        offsets = block.offsets[first : end + 1] - block.offsets[first]
        part = SUMS[name](Block(block.X[rows], block.y[rows], offsets, first, block.weights[first:end]))
        parts = part if parts is None else parts + part
    for one, other in zip(entries(whole), entries(parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * np.abs(one).max(initial=1e-300))


@pytest.mark.parametrize("clip", [CLIP, 1e-15])
@pytest.mark.parametrize("classes", [0, 3])
def test_one_unit_of_joint_sgd_obeys_its_bound(clip: float, classes: int) -> None:
    coefficients = np.random.default_rng(2).standard_normal((max(classes, 1), D))
    edges = clip * 2.0 ** np.arange(-6, 4)
    for at in range(N_PEOPLE):
        kind, X, y = somebody(at, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = X @ coefficients.T
        labels = np.arange(len(y)) % 3
        errors = classification_errors(scores, labels) if classes else regression_errors(scores, y)
        means = unit_means(errors, X, np.zeros(len(y), dtype=int), 1)
        centre = np.zeros(means.shape[1])
        sums = [clipped_units(means, centre, clip), distance_counts(means, centre, edges)]
        sums += [clipped_records(errors[i : i + 1], X[i : i + 1], clip) for i in range(len(y))]
        for s in sums:
            assert np.isfinite(s.value).all(), kind
            assert norm(s.value) <= s.clip_norm * (1 + ROOM), kind


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_sent_does_not_stop_anybody_either(dtype: type) -> None:
    """The baseline without privacy, and the heads of the paper's recipe: nobody's rows raise, or spoil the others' part."""
    crowd = ragged_block(1, n_users=12, d=D, dtype=dtype)
    others = [j for j in range(12) if j != 3]
    heads = second_half_heads(crowd, U)
    for at in range(N_PEOPLE):
        kind, X, y = somebody(at, dtype)
        block = replace_person(crowd, 3, X, y)
        sums = Likelihood(WITH_PRIOR).of(block)
        for part in (sums.of_embedding, sums.of_mean, sums.moments):
            assert np.isfinite(part).all(), kind
        changed = second_half_heads(block, U)
        np.testing.assert_array_equal(changed[others], heads[others], err_msg=kind)


def test_every_statistic_is_tested_here() -> None:
    source = inspect.getsource(inspect.getmodule(somebody))  # type: ignore[arg-type]
    found = set()
    for module in pkgutil.walk_packages(statistics.__path__, f"{statistics.__name__}."):
        if module.name.endswith(".cuda"):  # needs a GPU: tests/engines/test_device.py
            continue
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, Statistic) and kind is not Statistic:
                found.add(name)
    assert len(found) > 20
    assert {name for name in found if f"{name}(" not in source} == set()
