"""Repetitions of which the best is published: paid for before they are drawn, geometric in number, any setting alike."""

import numpy as np
import pytest

from commonground.accounting.budgets import Budget
from commonground.accounting.selection import RepeatedSelection, RepeatedSelectionEvent
from commonground.errors import BudgetError
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger

EVENT = RepeatedSelectionEvent("fit and score", 0.1, 6.0, 3, True)


def large() -> InMemoryLedger:
    return InMemoryLedger(Budget(RepeatedSelection(0.1, 6.0).epsilon(1e-6), 1e-6))


def test_what_is_not_paid_for_is_not_drawn() -> None:
    gate = Gate(InMemoryLedger(Budget(0.1, 1e-6)), randomness_from(0))
    with pytest.raises(BudgetError, match="would bring the spend"):
        gate.repetitions(EVENT)
    assert gate.events == ()
    paying = Gate(large(), randomness_from(0))
    assert paying.repetitions(EVENT)
    assert paying.events == (EVENT,)
    with pytest.raises(BudgetError):
        paying.repetitions(EVENT)  # once: it adds up with nothing


def test_an_event_that_does_not_tell_the_truth_is_refused() -> None:
    with pytest.raises(BudgetError, match="truly"):
        Gate(large(), randomness_from(None)).repetitions(EVENT)
    with pytest.raises(BudgetError, match="truly"):
        Gate(large(), randomness_from(0)).repetitions(RepeatedSelectionEvent("x", 0.1, 0.5, 3, True))


@pytest.mark.statistical
@pytest.mark.parametrize("simulated", [True, False])
def test_the_number_is_geometric_and_settings_are_alike(simulated: bool) -> None:
    """3,000 draws: mean, share of single ones and of each setting within 5 standard deviations; false alarms below 1e-5."""
    event = RepeatedSelectionEvent("fit and score", 0.1, 6.0, 3, simulated)
    drawn = [Gate(large(), randomness_from(s if simulated else None)).repetitions(event) for s in range(3000)]
    sizes = np.array([len(one) for one in drawn])
    assert abs(sizes.mean() - 6.0) < 5 * (30**0.5) / 3000**0.5
    assert abs((sizes == 1).mean() - 1 / 6) < 5 * (5 / 36 / 3000) ** 0.5
    settings = np.concatenate(drawn)
    for one in range(3):
        assert abs((settings == one).mean() - 1 / 3) < 5 * (2 / 9 / len(settings)) ** 0.5
