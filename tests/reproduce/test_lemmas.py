"""What the measured lemmas rest on: distances, starts that find the subspace, gradients as one person sends them."""

import math

import numpy as np
import pytest

from commonground.datasets.synthetic import make_shared_subspace
from commonground.reproduce.lemmas import (
    LEMMAS,
    PRINTED_CLIP,
    RESULT,
    altmin_start,
    distance,
    exponential_excess,
    fedrep_rounds,
    fedrep_start,
    largest_gradient,
)
from commonground.reproduce.rates import Point

POINT = Point(n=3_000, d=6, k=2, epsilon=1e3, m=20)


def test_distance_is_the_sine_of_the_angle() -> None:
    _, truth = make_shared_subspace(5, 5, 6, 1, seed=0)
    other = np.linalg.svd(truth.embedding.T)[2][1:2].T
    turned = math.cos(0.3) * truth.embedding + math.sin(0.3) * other
    for order in (2, "fro"):
        assert distance(7 * turned, truth, order) == pytest.approx(math.sin(0.3))


@pytest.mark.parametrize("start", [altmin_start, fedrep_start])
def test_with_hardly_any_noise_the_starts_find_the_subspace(start) -> None:  # type: ignore[no-untyped-def]
    users, truth = make_shared_subspace(POINT.n, POINT.m, POINT.d, POINT.k, seed=0)
    assert start(POINT, users, truth, 0) < 0.2
    noisier = Point(n=POINT.n, d=POINT.d, k=2, epsilon=0.05, m=POINT.m)
    assert start(noisier, users, truth, 0) > 0.3


def test_gradients_grow_with_the_number_of_features() -> None:
    users, truth = make_shared_subspace(2, 20, 4, 2, seed=0)
    small, large = (largest_gradient(Point(n=2, d=d, k=2, m=80), users, truth, 0) for d in (4, 64))
    assert 1.2 < large / small <= 4.0  # the bound grows by √16


def test_bounds_fall_with_people_and_budget() -> None:
    for lemma in ("P1, Lemma 4.4", "P1, Lemma 4.6", "P2, Lemma 12"):
        bound = LEMMAS[lemma][1]
        assert bound(Point(n=40_000)) < bound(Point(n=10_000))
        assert bound(Point(epsilon=16.0)) < bound(Point(epsilon=4.0))


@pytest.mark.slow
def test_a_fast_run_judges_no_lemma() -> None:
    outcome = RESULT.outcome(fast=True, show=False)
    assert outcome.rows
    assert not outcome.claims


def test_lemma_9_is_the_root_of_theorem_10_and_its_rounds_come_closer_than_the_start() -> None:
    bound = LEMMAS["P2, Lemma 9"][1]
    assert bound(Point(n=40_000)) == pytest.approx(bound(Point(n=20_000)) / 2, rel=0.1)  # but for logarithms
    users, truth = make_shared_subspace(POINT.n, POINT.m, POINT.d, POINT.k, seed=0)
    assert fedrep_rounds(POINT, users, truth, 0) < 0.5 * fedrep_start(POINT, users, truth, 0)


@pytest.mark.slow
def test_theorem_5_2s_own_clipping_norm_hides_everything_at_this_size() -> None:
    """2,000 people at ε = 1: a Lipschitz score with L_f = 3 finds the direction, with 40 √d log(nm) it is drawn blindly."""
    useful, _ = exponential_excess(1.0, 0, 3.0)
    blind, _ = exponential_excess(1.0, 0, PRINTED_CLIP)
    assert round(PRINTED_CLIP) == 686
    assert useful < 0.1
    assert blind > 0.3
