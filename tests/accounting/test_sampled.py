"""Poisson-sampled Gaussians: against RDP, against limits with a closed form, and what must be refused."""

from dataclasses import replace

import dp_accounting
import pytest

from commonground.accounting.events import GaussianEvent, epsilon_spent, event_from_dict
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.accounting.sampled import (
    ADD_OR_REMOVE,
    REPLACE,
    SampledGaussianEvent,
    noise_multiplier_for,
)
from commonground.errors import BudgetError


def event(q: float = 0.1, multiplier: float = 4.0, steps: int = 50, relation: str = ADD_OR_REMOVE, group: int = 1):
    return SampledGaussianEvent("steps", q, multiplier, steps, relation, group, 1.0, multiplier, 3, False)


def test_many_steps_at_once_or_one_by_one() -> None:
    at_once = epsilon_spent([event(steps=50)], 1e-5)
    assert epsilon_spent([event(steps=1)] * 50, 1e-5) == at_once
    assert epsilon_spent([event(steps=20), event(steps=30)], 1e-5) == at_once
    # Steps that differ by a hair are composed as they come, and cost the same to the grid's precision.
    assert epsilon_spent([event(steps=25), event(multiplier=4.0000001, steps=25)], 1e-5) == pytest.approx(
        at_once, rel=1e-4
    )
    assert event_from_dict(event().as_dict()) == event()


def test_units_do_not_mix_and_old_files_do_not_name_theirs() -> None:
    user, record = replace(event(), unit="user"), replace(event(), unit="record")
    with pytest.raises(BudgetError, match="different units"):
        epsilon_spent([user, record], 1e-5)
    assert epsilon_spent([user, user], 1e-5) == epsilon_spent([event(), event()], 1e-5)
    assert event_from_dict(user.as_dict()) == user
    old = {name: value for name, value in user.as_dict().items() if name != "unit"}
    assert event_from_dict(old) == SampledGaussianEvent.from_dict(old) == event()


def test_everybody_in_every_step_is_the_plain_gaussian() -> None:
    exact = gaussian_epsilon(50**0.5 / 40.0, 1e-5)
    for relation, multiplier in ((ADD_OR_REMOVE, 40.0), (REPLACE, 80.0)):  # replacement moves the sum twice as far
        found = epsilon_spent([event(1.0, multiplier, 50, relation)], 1e-5)
        assert exact <= found <= exact * 1.01


def test_renyi_accounting_agrees_from_above() -> None:
    """An independent accountant; Rényi bounds are looser, by less than a third here."""
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(4.0)), 50)
    renyi = accountant.get_epsilon(1e-5)
    assert renyi / 1.34 < epsilon_spent([event()], 1e-5) < renyi


def test_sampling_helps_and_replacement_costs_more() -> None:
    sampled, everybody = epsilon_spent([event(0.1)], 1e-5), epsilon_spent([event(1.0)], 1e-5)
    assert sampled < 0.2 * everybody
    assert epsilon_spent([event(relation=REPLACE)], 1e-5) > 1.8 * sampled


def test_a_group_of_two_costs_at_most_what_the_lemma_says() -> None:
    """kε at δ·(e^{kε} − 1)/(e^ε − 1), by the lemma for groups; and no less than twice a record's ε in the limit of noise."""
    import math

    one = epsilon_spent([event()], 1e-6)
    worse = 1e-6 * math.expm1(2 * one) / math.expm1(one)
    pair = epsilon_spent([event(group=2)], worse)
    assert one < pair <= 2 * one * 1.001


@pytest.mark.parametrize(
    ("epsilon", "q", "steps", "relation", "group"),
    [
        (1.0, 0.05, 600, ADD_OR_REMOVE, 1),
        (1.0, 0.2, 150, REPLACE, 1),
        (8.0, 0.1, 100, ADD_OR_REMOVE, 1),
        (0.5, 0.2, 20, ADD_OR_REMOVE, 3),
    ],
)
def test_calibration_ends_on_the_private_side(epsilon: float, q: float, steps: int, relation: str, group: int) -> None:
    multiplier = noise_multiplier_for(epsilon, 1e-5, q, steps, relation, group)
    assert epsilon_spent([event(q, multiplier, steps, relation, group)], 1e-5) <= epsilon
    assert epsilon_spent([event(q, multiplier * 0.99, steps, relation, group)], 1e-5) > epsilon


def test_what_does_not_add_up_is_refused() -> None:
    gaussian = GaussianEvent("sum", mu=0.1, sensitivity=0.1, noise_std=1.0, entries=1, simulated=False)
    with pytest.raises(BudgetError, match="relations"):
        epsilon_spent([event(), event(relation=REPLACE)], 1e-5)
    with pytest.raises(BudgetError, match="ledger of its own"):
        epsilon_spent([event(), gaussian], 1e-5)
    with pytest.raises(BudgetError, match="group"):
        epsilon_spent([event(relation=REPLACE, group=3)], 1e-5)
    assert epsilon_spent([event()], 0.0) == float("inf")
    assert epsilon_spent([], 1e-5) == 0.0
