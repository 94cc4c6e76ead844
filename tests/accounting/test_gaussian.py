"""The exact Gaussian curve: against published values, dp-accounting, and itself."""

import math

import dp_accounting
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent, epsilon_by_pld, epsilon_spent
from commonground.accounting.gaussian import compose, gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_mus
from commonground.errors import InputError

epsilons = st.floats(0.01, 20)
deltas = st.floats(-12, -1.5).map(lambda power: 10.0**power)


def event(mu: float) -> GaussianEvent:
    return GaussianEvent("x", mu=mu, sensitivity=mu, noise_std=1.0, entries=1, simulated=False)


def test_exact_value() -> None:
    """Ten releases at noise multiplier 5: the textbook number, 2.9216 at δ = 1e-6."""
    assert gaussian_epsilon(compose([1 / 5] * 10), 1e-6) == pytest.approx(2.9216, abs=1e-4)


@pytest.mark.parametrize(("mu", "n", "delta"), [(0.2, 10, 1e-6), (0.05, 42, 1e-6), (0.9, 3, 1e-8), (0.01, 500, 1e-5)])
def test_agrees_with_privacy_loss_distributions(mu: float, n: int, delta: float) -> None:
    events = [event(mu)] * n
    exact, by_pld = epsilon_spent(events, delta), epsilon_by_pld(events, delta)
    assert exact <= by_pld * (1 + 1e-9) + 1e-6  # dp-accounting rounds up, too
    assert by_pld == pytest.approx(exact, rel=2e-3)


def test_the_traps_of_dp_accounting_are_still_there() -> None:
    """Under REPLACE_ONE the PLD accountant doubles the sensitivity, the RDP accountant does not: we use neither."""
    replace_one = dp_accounting.NeighboringRelation.REPLACE_ONE
    ten = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(5.0), 10)
    by_pld = dp_accounting.pld.PLDAccountant(replace_one).compose(ten).get_epsilon(1e-6)
    by_rdp = dp_accounting.rdp.RdpAccountant(neighboring_relation=replace_one).compose(ten).get_epsilon(1e-6)
    assert by_pld == pytest.approx(6.40, abs=0.02)
    assert by_rdp == pytest.approx(3.13, abs=0.02)


@given(st.lists(st.floats(0.001, 2), min_size=1, max_size=30), deltas)
def test_n_at_once_is_n_one_by_one(mus: list[float], delta: float) -> None:
    """Composing step by step and all at once give the same ε; nothing costs 0."""
    running = 0.0
    for mu in mus:
        running = compose([running, mu])
    assert running == pytest.approx(compose(mus), rel=1e-12)
    assert epsilon_spent(map(event, mus), delta) == pytest.approx(gaussian_epsilon(running, delta), rel=1e-9, abs=1e-12)
    assert compose([]) == 0.0
    assert gaussian_epsilon(0.0, delta) == 0.0
    assert gaussian_epsilon(math.inf, delta) == math.inf


def test_dp_accounting_n_at_once_is_n_one_by_one() -> None:
    one = dp_accounting.GaussianDpEvent(8.0)
    at_once = dp_accounting.pld.PLDAccountant().compose(one, 7).get_epsilon(1e-6)
    accountant = dp_accounting.pld.PLDAccountant()
    for _ in range(7):
        accountant.compose(one)
    assert accountant.get_epsilon(1e-6) == pytest.approx(at_once, rel=1e-6)


@settings(max_examples=300)
@given(epsilons, deltas)
def test_calibration_lands_on_the_private_side(epsilon: float, delta: float) -> None:
    """The μ found is within the target, and the target is nearly used up."""
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_epsilon(mu, delta) <= epsilon
    assert gaussian_epsilon(mu * (1 + 1e-6), delta) > epsilon


@settings(max_examples=100)
@given(epsilons, deltas, st.lists(st.floats(0.01, 1), min_size=1, max_size=12), st.integers(1, 60))
def test_shares_never_exceed_the_budget(epsilon: float, delta: float, weights: list[float], rounds: int) -> None:
    """Whatever the shares and the number of rounds each is divided over, the composed ε stays within the declared one."""
    shares = {str(i): weight / sum(weights) for i, weight in enumerate(weights)}
    mus = [mu / rounds**0.5 for mu in Budget(epsilon, delta).split(shares).values() for _ in range(rounds)]
    assert gaussian_epsilon(compose(mus), delta) <= epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 1e-6), (-1, 1e-6), (math.nan, 1e-6), (math.inf, 1e-6), (1, 0), (1, 1), (1, 2), ("a", 0.1)],
)
def test_impossible_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError, match="got"):
        Budget(epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(math.inf, 1e-6), (math.nan, 1e-6), (1.0, 1.0)])
def test_a_budget_without_end_has_no_mu(epsilon: float, delta: float) -> None:
    """Every μ fits into it: looking for the largest would never end."""
    with pytest.raises(InputError, match="no largest"):
        gaussian_mu(epsilon, delta)
    with pytest.raises(InputError, match="no largest"):
        gaussian_mus(np.array([1.0, epsilon]), delta)
