"""The statistics of the auditor: bounds that hold as often as they say, and that have power."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, binomtest, norm

from commonground.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from commonground.audit.bounds import (
    _refutes_mu,
    definition_tradeoff,
    epsilon_from_rates,
    gaussian_tradeoff,
    lower_at_least,
    lower_bound,
    mu_from_guesses,
    observed_tradeoff,
    one_run_epsilon,
    one_run_mu,
    one_run_p_value,
    upper_at_most,
)

DELTA = 1e-6


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (250, 1000), (999, 1000)])
def test_clopper_pearson_is_that_of_scipy(successes: int, trials: int) -> None:
    interval = binomtest(successes, trials).proportion_ci(confidence_level=0.9, method="exact")
    assert float(lower_at_least(successes, trials, 0.05)) == pytest.approx(interval.low, abs=1e-12)
    assert float(upper_at_most(successes, trials, 0.05)) == pytest.approx(interval.high, abs=1e-12)


@pytest.mark.parametrize(("p_with", "p_without"), [(0.5, 0.9), (0.99, 0.4), (0.6, 0.7), (1.0, 0.2)])
@pytest.mark.parametrize("runs", [5, 40, 300])
def test_unequal_success_probabilities_do_not_void_the_bound(p_with: float, p_without: float, runs: int) -> None:
    """Hoeffding's inequality, which mu_from_guesses rests on, against the exact distribution of the sum."""
    exact = np.convolve(binom.pmf(np.arange(runs + 1), runs, p_with), binom.pmf(np.arange(runs + 1), runs, p_without))
    exact_tail = np.cumsum(exact[::-1])[::-1]
    binomial_tail = binom.sf(np.arange(2 * runs + 1) - 1, 2 * runs, (p_with + p_without) / 2)
    rejected = binomial_tail < 0.25
    assert rejected.any()
    assert (exact_tail[rejected] <= binomial_tail[rejected] + 1e-12).all()


@pytest.mark.statistical
@pytest.mark.parametrize("threshold", [0.0, None])
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.5])
def test_bounds_exceed_the_truth_no_more_often_than_stated(mu: float, threshold: float | None) -> None:
    """500 audits of the exact Gaussian at an error of 20 %: more than 140 misses have probability below 1e-4."""
    rng = np.random.default_rng([int(10 * mu), threshold is None])
    truth = gaussian_epsilon(mu, DELTA)
    misses = 0
    for _ in range(500):
        scores = mu / 2 + rng.standard_normal(200), -mu / 2 + rng.standard_normal(200)
        misses += lower_bound(*scores, DELTA, error=0.2, threshold=threshold).epsilon > truth
    assert misses <= 140


@pytest.mark.statistical
def test_the_bound_by_definition_holds_where_it_is_tight() -> None:
    """Randomised response attains ε = 1 with δ = 0. 2000 audits, error 20 %: above 460 misses has probability 5e-4."""
    rng = np.random.default_rng(3)
    truth = 1 / (1 + math.exp(-1.0))
    misses = 0
    for _ in range(2000):
        scores = [(rng.random(200) < p).astype(float) for p in (truth, 1 - truth)]
        misses += lower_bound(*scores, 0.0, error=0.2).by_definition > 1.0
    assert misses <= 460


def test_power_at_one_gaussian() -> None:
    """In the limit of many runs the Gaussian bound reaches the truth; the definition's does not, whatever the runs."""
    rng = np.random.default_rng(0)
    mu = gaussian_mu(1.0, DELTA)
    bound = lower_bound(mu + rng.standard_normal(10**6), rng.standard_normal(10**6), DELTA, 0.05, threshold=mu / 2)
    assert 0.95 < bound.by_curve <= 1.0
    assert 0.3 < bound.by_definition < bound.by_curve


def test_certainty_and_ties() -> None:
    apart = lower_bound(np.full(100, np.inf), np.full(100, -np.inf), DELTA, 0.05)
    assert apart.accuracy == 1.0
    assert apart.by_definition > 1.5
    assert apart.by_curve > 10
    same = lower_bound(np.zeros(100), np.zeros(100), DELTA, 0.05, threshold=0.0)
    assert (same.epsilon, same.accuracy) == (0.0, 0.5)


def test_a_rare_outright_leak_is_seen_by_the_definition_alone() -> None:
    """One run in ten reveals everything, the others nothing: guesses are hardly better than blind, yet ε is infinite."""
    scores = np.where(np.arange(2000) % 10 == 0, np.inf, 0.0), np.zeros(2000)
    bound = lower_bound(*scores, DELTA, 0.05)
    assert bound.by_curve < 0.9
    assert bound.by_definition > 2.5
    swapped = lower_bound(-scores[1], -scores[0], DELTA, 0.05)
    assert swapped.by_definition > 2.5


def test_guesses_no_better_than_blind_prove_nothing() -> None:
    assert mu_from_guesses(0, 1000, 0.05) == mu_from_guesses(510, 1000, 0.05) == 0.0
    assert float(epsilon_from_rates(0, 1000, 1000, DELTA, 0.05)) == 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_gaussian_curve_lies_above_each_of_its_definition_bounds(epsilon: float) -> None:
    fpr = np.linspace(0, 1, 101)
    mu = gaussian_mu(1.0, DELTA)
    allowed = definition_tradeoff(epsilon, gaussian_delta(mu, epsilon), fpr)
    assert (gaussian_tradeoff(mu, fpr) >= allowed - 1e-12).all()


def test_observed_curve_of_a_known_sample() -> None:
    fpr, fnr = observed_tradeoff(np.array([1.0, 3.0]), np.array([0.0, 2.0]))
    assert list(zip(fpr, fnr, strict=True)) == [(1, 0), (0.5, 0), (0.5, 0.5), (0, 0.5), (0, 1), (0, 1)]


# ---- one run ----------------------------------------------------------------------------------------------------------


def slow_one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Theorem 5.2 term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = [math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    alpha = max((sum(pmf[max(correct - i, 0) : correct]) / i for i in range(1, canaries + 1)), default=0.0)
    return min(1.0, sum(pmf[correct:]) + 2 * canaries * delta * alpha)


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(20, 20, 15), (30, 10, 10), (12, 7, 0), (40, 25, 3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_one_run_formula(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> None:
    expected = slow_one_run_p_value(canaries, guesses, correct, epsilon, delta)
    assert one_run_p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(expected, rel=1e-9)


def guess_coins(mu: float, canaries: int, guesses: int, seed: int) -> int:
    """Right guesses about a Gaussian mechanism in which every canary has a coordinate to herself."""
    rng = np.random.default_rng(seed)
    coins = rng.choice([-1.0, 1.0], canaries)
    noisy = mu / 2 * coins + rng.standard_normal(canaries)
    surest = np.argsort(-np.abs(noisy))[:guesses]
    return int((np.sign(noisy) == coins)[surest].sum())


@pytest.mark.statistical
def test_one_run_on_a_gaussian_mechanism() -> None:
    """Positive and below the claim of ε = 4 (fixed seeds); with a sixth of the noise, above it."""
    mu = gaussian_mu(4.0, DELTA)
    for seed in range(5):
        intact = one_run_epsilon(2000, 200, guess_coins(mu, 2000, 200, seed), DELTA, 0.05)
        assert 0.5 < intact < 4.0
    broken = one_run_epsilon(2000, 1000, guess_coins(6 * mu, 2000, 1000, 0), DELTA, 0.05)
    assert broken > 4.0


@pytest.mark.statistical
def test_one_run_misses_no_more_often_than_stated() -> None:
    """Randomised response at ε = 1 attains the binomial: 1000 runs, error 20 %, above 250 misses has probability 1e-4."""
    rng = np.random.default_rng(1)
    correct = rng.binomial(200, 1 / (1 + math.exp(-1.0)), 1000)
    bounds = {int(c): one_run_epsilon(200, 200, int(c), 0.0, 0.2) for c in np.unique(correct)}
    misses = sum(bounds[int(c)] > 1.0 for c in correct)
    assert 50 < misses <= 250  # and the bound is not vacuous


# ---- one run, by the Gaussian curve -------------------------------------------------------------------------------------


def most_right_guesses(canaries: int, guesses: int, correct: int, mu: float) -> float:
    """The largest probability of so many right guesses that the inequalities of f-DP allow, by linear programming.

    The inequality between a sum and a convex function of another one is replaced by its tangents at many points.
    """
    touching = norm.ppf(np.geomspace(1e-9, 1 - 1e-9, 400))
    heights = norm.cdf(touching - mu)
    slopes = norm.pdf(touching - mu) / norm.pdf(touching)
    rows, limits = [], []
    for i in range(1, correct + 1):
        right, wrong = np.zeros(guesses + 1), np.zeros(guesses + 1)
        right[i:] = np.arange(i, guesses + 1) / canaries
        wrong[i - 1 :] = (guesses - np.arange(i - 1, guesses + 1)) / canaries
        for x, height, slope in zip(norm.cdf(touching), heights, slopes, strict=True):
            rows.append(slope * right - wrong)  # height + slope (right − x) ≤ wrong
            limits.append(slope * x - height)
    wanted = np.where(np.arange(guesses + 1) >= correct, -1.0, 0.0)
    found = linprog(wanted, rows, limits, np.ones((1, guesses + 1)), [1.0])
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(12, 12, 10), (30, 8, 8), (40, 15, 11)])
@pytest.mark.parametrize("mu", [0.2, 0.6])
def test_one_run_by_the_curve_is_the_solution_of_its_inequalities(
    canaries: int, guesses: int, correct: int, mu: float
) -> None:
    most = most_right_guesses(canaries, guesses, correct, mu)
    assert 0 < most < 1
    assert not _refutes_mu(canaries, guesses, correct, mu, 0.99 * most), "so many right guesses are this likely"
    assert _refutes_mu(canaries, guesses, correct, mu, 1.01 * most), "they cannot be more likely"


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "error", "delta", "by_curve", "by_definition"),
    [
        (1000, 1000, 700, 0.05, 1e-5, 1.371980050043179, 0.7317406384658977),
        (2000, 200, 190, 0.05, 1e-6, 4.025873899789257, 2.397025625948457),
        (100, 100, 100, 0.05, 1e-6, 9.070891684211725, 3.492690507482892),
        (500, 50, 50, 0.01, 1e-5, 3.42813140413478, 2.3050741700939015),
        (50, 25, 24, 0.05, 1e-6, 3.6240992381488923, 1.5427587187943868),
        (1000, 300, 200, 0.05, 1e-5, 0.7956719827815479, 0.48503746603587256),
    ],
)
def test_one_run_agrees_with_jax_privacy(
    canaries: int, guesses: int, correct: int, error: float, delta: float, by_curve: float, by_definition: float
) -> None:
    """Numbers of jax-privacy 2.0.0: ``auditing._epsilon_one_run_fdp`` and ``_epsilon_one_run``, whose searches end at 1e-6."""
    mu = one_run_mu(canaries, guesses, correct, error)
    assert gaussian_epsilon(mu, delta) == pytest.approx(by_curve, abs=3e-6)
    assert one_run_epsilon(canaries, guesses, correct, delta, error) == pytest.approx(by_definition, abs=3e-6)


@pytest.mark.statistical
def test_one_run_by_the_curve_stays_below_the_truth_and_above_the_definition() -> None:
    """Ideal Gaussian mechanism, 300 runs, error 20 %: more than 90 misses have a probability below 1e-4 (fixed seeds besides)."""
    canaries, guesses, error = 500, 100, 0.2
    for mu in (0.5, 1.0, 2.0):
        counts = [guess_coins(mu, canaries, guesses, seed) for seed in range(300)]
        bounds = {c: one_run_mu(canaries, guesses, c, error) for c in set(counts)}
        assert sum(bounds[c] > mu for c in counts) <= 90
        by_curve = [gaussian_epsilon(bounds[c], DELTA) for c in counts]
        plain = {c: one_run_epsilon(canaries, guesses, c, DELTA, error) for c in bounds}
        assert np.mean(by_curve) > 1.3 * np.mean([plain[c] for c in counts]), (
            "closer to the truth than the bound by the definition"
        )
        assert np.mean(by_curve) > 0.3 * gaussian_epsilon(mu, DELTA), "and not vacuous"


def test_one_run_by_the_curve_needs_more_than_luck() -> None:
    assert one_run_mu(10, 10, 0, 0.05) == one_run_mu(1, 1, 1, 0.05) == one_run_mu(1000, 500, 250, 0.05) == 0.0
    rising = [one_run_mu(400, 100, correct, 0.05) for correct in range(50, 101, 5)]
    assert rising == sorted(rising)
