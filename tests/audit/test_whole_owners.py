"""P4's Algorithm 2 draws whole owners: what that costs a user, held against slow versions and attacks."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from commonground.audit.whole_owners import (
    WholeOwners,
    cost_of_amplified_noise,
    proven_epsilon,
    pure_delta,
    range_then_clip,
)

SMALL = WholeOwners(20, 600, 1)  # about thirty draws of an owner


def test_pure_composition_is_that_of_randomised_response() -> None:
    """Over all numbers of right answers, one by one."""
    for count, each, epsilon in ((1, 0.5, 0.2), (7, 0.3, 0.9), (60, 0.1, 1.0)):
        right = math.exp(each) / (1 + math.exp(each))
        slow = sum(
            math.comb(count, k)
            * max(
                0.0, right**k * (1 - right) ** (count - k) - math.exp(epsilon) * (1 - right) ** k * right ** (count - k)
            )
            for k in range(count + 1)
        )
        assert pure_delta(np.array([count]), each, epsilon)[0] == pytest.approx(slow, rel=1e-9, abs=1e-15)


def test_the_cost_lies_between_the_worst_pair_and_adding_up() -> None:
    for setting in (SMALL, WholeOwners.as_printed(1000, 10)):
        each = setting.per_coordinate(1.0)
        assert setting.at_least(each) <= setting.cost(each)
        draws = setting.draws()[0].max()
        assert setting.cost(each) <= setting.size * draws * each
    alone = WholeOwners(1, 50, 2, 1e-5)  # one owner is drawn in every step: nothing is random
    assert (
        pure_delta(np.array([200]), 0.05, alone.cost(0.1))[0]
        <= 1e-5
        < pure_delta(np.array([200]), 0.05, 0.999 * alone.cost(0.1))[0]
    )


def test_noise_for_the_true_cost_keeps_to_it() -> None:
    each = SMALL.per_coordinate_for(1.0)
    assert SMALL.cost(each) <= 1.0 < SMALL.cost(1.001 * each)


def test_as_printed_the_cost_grows_with_the_number_of_owners() -> None:
    """Declared is 1: it holds by loose constants for a hundred owners, and is surely exceeded for a thousand."""
    least = [
        WholeOwners.as_printed(n, 10).at_least(WholeOwners.as_printed(n, 10).per_coordinate(1.0))
        for n in (100, 1000, 10_000)
    ]
    assert least[0] < 1.0 < least[1] < least[2]
    assert WholeOwners.as_printed(100, 10).steps == round(100**2 / math.log(1e5))
    assert cost_of_amplified_noise(100, 400, 1.0, 1e-5) > 10


@pytest.mark.statistical
def test_an_attack_refutes_the_printed_noise_and_not_the_true_one() -> None:
    """False with a probability of at most 5 %, and the seed is fixed."""
    setting = WholeOwners.as_printed(5000, 1)
    assert proven_epsilon(setting, setting.per_coordinate(3.0), users=400, runs=400).by_definition > 3.0
    assert proven_epsilon(setting, setting.per_coordinate_for(3.0), users=400, runs=400).by_definition <= 3.0


# ---- the estimator --------------------------------------------------------------------------------------------------


def test_without_noise_it_is_the_mean_of_what_lies_together() -> None:
    rng = np.random.default_rng(0)
    values = 0.7 + 0.1 * rng.uniform(-1, 1, (200, 4))
    (found,) = range_then_clip(values, 1e6, 0.1, 5.0, rng)
    np.testing.assert_allclose(found, values.mean(axis=0), atol=1e-6)
    values[0] = 5.0  # one user far away is moved to the end of the range: at most 4τ/users from where she was
    assert np.abs(range_then_clip(values, 1e6, 0.1, 5.0, rng) - found).max() <= 4 * 0.1 / 200 + 1e-6


@pytest.mark.statistical
def test_noise_and_choice_have_the_stated_laws() -> None:
    """False alarm 1e-6 each: the noise is Laplace with 8τ/(users ε'), not 2/3 of it; bins by exp(−ε'/4 · cost)."""
    users, radius = 10, 0.5
    values = np.zeros((users, 1))
    values[:3] = 2.0
    found = range_then_clip(values, 200.0, radius, 4.5, np.random.default_rng(2), 20_000)[
        :, 0
    ]  # the median's bin, surely
    scale = 8 * radius / (users * 200.0)
    away = (found - np.clip(values, -1, 1).mean()) / scale
    assert kstest(away, "laplace").pvalue > 1e-6
    assert kstest(away * 1.5, "laplace").pvalue < 1e-6
    many = np.repeat(values - 3.0, 1000, axis=0)  # so many that the noise does not blur which bin it was
    each = 0.8 / 1000
    wide = range_then_clip(many, each, radius, 4.5, np.random.default_rng(3), 20_000)[:, 0]
    middles = np.arange(-4.0, 5.0)
    cost = np.array([max((many < m - radius).sum(), (many > m + radius).sum()) for m in middles])
    likely = np.exp(-each / 4 * cost) / np.exp(-each / 4 * cost).sum()
    expected = np.array([np.clip(many, m - 1, m + 1).mean() for m in middles])
    spread = 8 * radius / (len(many) * each)
    error = np.sqrt((likely @ expected**2 - (likely @ expected) ** 2 + 2 * spread**2) / len(wide))
    assert abs(wide.mean() - likely @ expected) < 5 * error
    assert abs(wide.mean() - expected.mean()) > 5 * error, "a choice that does not look at the values would be noticed"
