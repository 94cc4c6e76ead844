"""Repeat-and-select: our bound against dp-accounting's, against the paper's formulas, and against the exact divergence."""

import math
from collections.abc import Callable

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

from commonground.accounting.events import GaussianEvent, epsilon_spent, event_from_dict
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.accounting.selection import (
    POISSON,
    RepeatedSelection,
    RepeatedSelectionEvent,
    largest_mu,
    mean_repetitions,
)
from commonground.errors import BudgetError, InputError

SHAPES = (0.0, 0.5, 1.0, 3.0, POISSON)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.5, 10.0, 60.0])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.5])
def test_dp_accounting_says_the_same_or_more(shape: float, mean: float, mu: float) -> None:
    """Its own lists of orders are coarse, and for Poisson it reads a repetition's δ off its Rényi curve: never less than ours."""
    accountant = RdpAccountant(orders=[1 + x / 10.0 for x in range(1, 100)] + list(range(11, 300)))
    base = dp_accounting.GaussianDpEvent(1.0 / mu)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(base, mean, shape))
    theirs, ours = accountant.get_epsilon(1e-6), RepeatedSelection(mu, mean, shape).epsilon(1e-6)
    assert ours <= theirs * 1.001
    if shape != POISSON:
        assert ours == pytest.approx(theirs, rel=0.06)


@pytest.mark.parametrize("mean", [1.0, 2.5, 40.0])
@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 2.0])
def test_the_mean_is_that_of_the_distribution(shape: float, mean: float) -> None:
    """By its probabilities: P(K = k) ∝ (1 − γ)^k Γ(k + η)/k!."""
    stop = RepeatedSelection(0.1, mean, shape).stop
    assert mean_repetitions(stop, shape) == pytest.approx(mean, rel=1e-6)
    if stop < 1.0:
        k = np.arange(1, 20_000)
        logs = k * math.log1p(-stop) + np.array([math.lgamma(i + shape) - math.lgamma(i + 1) for i in k])
        weights = np.exp(logs - logs.max())
        assert float((weights * k).sum() / weights.sum()) == pytest.approx(mean, rel=1e-3)


def renyi_of_the_best(order: float, mu: float, slope: Callable[[np.ndarray], np.ndarray], nothing: float) -> float:
    """D(P‖Q) of the largest of K draws of N(b, 1) with b = μ and 0, the larger of both directions.

    K by the derivative of its generating function; ``nothing``: the probability of no draw at all, the same for both.
    """
    x = np.linspace(-9.0, 14.0, 20_001)
    density = {b: slope(norm.cdf(x - b)) * norm.pdf(x - b) for b in (0.0, mu)}
    sums = [
        float(np.trapezoid(density[one] ** order * density[other] ** (1.0 - order), x))
        for one, other in ((mu, 0.0), (0.0, mu))
    ]
    return math.log(max(sums) + nothing) / (order - 1.0)


@pytest.mark.parametrize("mu", [0.3, 1.0])
@pytest.mark.parametrize("mean", [2.0, 10.0])
def test_the_bound_holds_where_the_divergence_is_known(mu: float, mean: float) -> None:
    """A score that decides alone: its exact divergence is below the bound at every order; nor is that wide of the mark."""
    stop, ratios = 1.0 / mean, []
    for order in (1.5, 2.0, 4.0, 8.0):
        orders = np.array([order])
        geometric = renyi_of_the_best(order, mu, lambda p: stop / (1.0 - (1.0 - stop) * p) ** 2, 0.0)
        poisson = renyi_of_the_best(order, mu, lambda p: mean * np.exp(mean * (p - 1.0)), math.exp(-mean))
        bounds = [float(RepeatedSelection(mu, mean, shape).renyi(orders)[0]) for shape in (1.0, POISSON)]
        assert geometric <= bounds[0]
        assert poisson <= bounds[1]
        ratios += [bounds[0] / geometric, bounds[1] / poisson]
    assert min(ratios) < 8.0, ratios


def test_one_repetition_costs_no_less_than_a_release_and_more_cost_more() -> None:
    for shape in SHAPES:
        costs = [RepeatedSelection(0.3, mean, shape).epsilon(1e-6) for mean in (1.0, 3.0, 10.0, 30.0)]
        assert costs == sorted(costs)
        assert costs[0] >= gaussian_epsilon(0.3, 1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_calibration_stays_within(shape: float) -> None:
    mu = largest_mu(2.0, 1e-6, 12.0, shape)
    assert (
        RepeatedSelection(mu, 12.0, shape).epsilon(1e-6)
        <= 2.0
        < RepeatedSelection(1.001 * mu, 12.0, shape).epsilon(1e-6)
    )


def test_the_event_stands_alone() -> None:
    event = RepeatedSelectionEvent("fit and score", 0.2, 12.0, 4, False)
    assert event_from_dict(event.as_dict()) == event
    assert event.makes_sense
    assert event.supported
    assert epsilon_spent([event], 1e-6) == RepeatedSelection(0.2, 12.0, 1.0).epsilon(1e-6)
    assert epsilon_spent([event], 0.0) == math.inf
    other = GaussianEvent("more", 0.1, 1.0, 10.0, 1, False)
    for together in ([event, other], [other, event], [event, event]):
        with pytest.raises(BudgetError):
            epsilon_spent(together, 1e-6)
    with pytest.raises(BudgetError, match="durable ledger"):
        event.charged()
    assert event.for_share(0.5).mu == 0.1
    epsilons = np.linspace(0.1, 3.0, 20)
    deltas = event.get_delta_for_epsilon(epsilons)
    assert (np.diff(deltas) <= 0).all()
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        assert event.get_epsilon_for_delta(float(delta)) <= epsilon * (1 + 1e-6) or delta == 1.0


def test_nonsense_is_refused() -> None:
    for wrong in ((0.0, 2.0, 1.0), (0.1, 0.5, 1.0), (0.1, 2.0, -0.5), (math.nan, 2.0, 1.0)):
        with pytest.raises(InputError):
            RepeatedSelection(*wrong)
    assert RepeatedSelection(0.1, 2.0).epsilon(0.0) == math.inf
