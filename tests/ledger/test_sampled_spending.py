"""Training on Poisson samples in a durable ledger: rounds of one kind add up, and nothing else is added to them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import GaussianEvent, epsilon_spent
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent
from commonground.errors import BudgetError
from commonground.ledger import DurableLedger, LedgerError, Population, chain
from commonground.ledger.account import Account
from commonground.ledger.in_words import summary
from commonground.ledger.rounds import Round, rounds_in

TOTAL, ASKED = Budget(2.0, 1e-5), Budget(1.0, 1e-5)
STEPS = SampledGaussianEvent(
    "steps", sampling_probability=0.1, noise_multiplier=4.0, steps=60, relation=ADD_OR_REMOVE, group_size=1,
    contribution=1.0, noise_std=4.0, entries=3, simulated=False, unit="record",
)  # fmt: skip


@pytest.fixture
def people(tmp_path: Path) -> Population:
    return DurableLedger(tmp_path / "budget.db", create=True).open_population("people", TOTAL)


def spend(people: Population, *events: SampledGaussianEvent) -> None:
    with people.reserve_steps(ASKED, events, "training") as book:
        for event in events:
            book.charge(event)


def test_fits_add_up_as_one_long_fit(people: Population) -> None:
    for fits in (1, 2, 3):
        spend(people, STEPS)
        account = DurableLedger(people._storage.path).population("people").account()  # type: ignore[attr-defined]
        together = epsilon_spent([replace(STEPS, steps=60 * fits)], TOTAL.delta)
        assert summary(account)["epsilon_charged"] == summary(account)["epsilon_booked"] == together
    assert account.most_rounds * 1.03 > account.round.most(TOTAL.epsilon, TOTAL.delta)


def test_the_last_round_that_fits_and_the_first_that_does_not(people: Population) -> None:
    most = rounds_in([STEPS])[0].most(TOTAL.epsilon, TOTAL.delta)
    assert epsilon_spent([replace(STEPS, steps=most)], TOTAL.delta) <= TOTAL.epsilon
    assert epsilon_spent([replace(STEPS, steps=int(most * 1.02))], TOTAL.delta) > TOTAL.epsilon
    spend(people, replace(STEPS, steps=most - 60))
    spend(people, STEPS)
    with pytest.raises(BudgetError, match=r"has ε = 0 left"):
        spend(people, replace(STEPS, steps=1))


def test_what_was_booked_counts_until_it_is_settled(people: Population) -> None:
    booking = people.reserve_steps(ASKED, [STEPS])
    assert people.account().booked_rounds == 60
    booking.charge(replace(STEPS, steps=20))
    with pytest.raises(BudgetError, match="more steps were charged"):
        booking.charge(replace(STEPS, steps=41))
    booking.settle()
    assert people.account().booked_rounds == people.account().charged_rounds == 20
    with pytest.raises(BudgetError, match="not open"):
        booking.charge(STEPS)


def test_two_kinds_of_step_in_one_round(people: Population) -> None:
    beside = replace(STEPS, name="counts", noise_multiplier=12.0, noise_std=12.0)
    spend(people, STEPS, beside)
    account = people.account()
    assert account.charged_rounds == 60
    assert account.epsilon_of_rounds(60) == epsilon_spent([STEPS, beside], TOTAL.delta)
    with people.reserve_steps(ASKED, [STEPS, beside]) as book:
        book.charge(beside)  # and then it dies: the round is begun
    assert people.account().charged_rounds == 120


@pytest.mark.parametrize(
    "other",
    [
        replace(STEPS, noise_multiplier=5.0, noise_std=5.0), replace(STEPS, sampling_probability=0.05),
        replace(STEPS, relation=REPLACE), replace(STEPS, unit="user"), replace(STEPS, group_size=2),
    ],
)  # fmt: skip
def test_another_kind_is_refused(people: Population, other: SampledGaussianEvent) -> None:
    spend(people, STEPS)
    with pytest.raises(BudgetError, match="another kind"):
        people.reserve_steps(ASKED, [other])
    booking = people.reserve_steps(ASKED, [STEPS])
    with pytest.raises(BudgetError, match="not among the steps reserved"):
        booking.charge(other)


def test_sampled_and_other_spending_are_not_mixed(people: Population, tmp_path: Path) -> None:
    gaussian = GaussianEvent("sum", mu=0.1, sensitivity=1.0, noise_std=10.1, entries=1, simulated=False)
    spend(people, STEPS)
    for budget in (Budget(0.1, 1e-6), PureBudget(0.1)):
        with pytest.raises(BudgetError, match="Poisson samples"):
            people.reserve(budget)
    booking = people.reserve_steps(ASKED, [STEPS])
    with pytest.raises(BudgetError, match="not among the steps reserved"):
        booking.charge(gaussian)  # type: ignore[arg-type]
    others = DurableLedger(tmp_path / "others.db", create=True).open_population("others", TOTAL)
    with others.reserve(Budget(0.5, 1e-6)) as book:
        with pytest.raises(BudgetError, match="not among the steps reserved"):
            book.charge(STEPS)
        book.charge(gaussian)
    with pytest.raises(BudgetError, match="another kind"):
        others.reserve_steps(ASKED, [STEPS])
    pure = DurableLedger(tmp_path / "pure.db", create=True).open_population("pure", PureBudget(2.0))
    with pytest.raises(BudgetError, match="left"):
        pure.reserve_steps(ASKED, [STEPS])


def test_what_does_not_protect_is_refused_before_anything_is_booked(people: Population) -> None:
    for bad, why in (
        (replace(STEPS, simulated=True), "simulated noise"), (replace(STEPS, noise_std=3.9), "does not support"),
    ):  # fmt: skip
        with pytest.raises(BudgetError, match=why):
            people.reserve_steps(ASKED, [bad])
    with pytest.raises(BudgetError, match="same unit"):
        people.reserve_steps(ASKED, [STEPS, replace(STEPS, unit="user")])
    assert people.account().booked_rounds == 0


def test_a_run_is_known_by_its_name(people: Population) -> None:
    spend(people, STEPS)
    paid = people.paid_before(ASKED, [STEPS])
    assert paid is not None
    assert paid.entry.head == people.events()[2][1], "the charge that it was"
    assert people.paid_before(ASKED, [replace(STEPS, name="another run")]) is None
    assert people.paid_before(ASKED, [replace(STEPS, steps=61)]) is None


def test_a_reader_refuses_more_rounds_than_the_budget_affords(people: Population) -> None:
    """As if a writer with wrong arithmetic had been at work: the chain itself is in order."""
    spend(people, STEPS)
    account, forged = Account.before_all("people"), 0
    for body, _ in people.events():
        event = json.loads(body)
        if event["kind"] == "reserve":
            event["most_rounds"], forged = event["most_rounds"] * 2, forged + 1
        body = chain.canonical(event)
        if forged:
            with pytest.raises(LedgerError, match="more than the budget affords"):
                chain.follow(account, body, chain.link(account.head, body))
            return
        account = chain.follow(account, body, chain.link(account.head, body))
    raise AssertionError("there was no reservation")


def test_rounds_that_make_no_sense_are_refused() -> None:
    good = rounds_in([STEPS])[0].to_json()
    for changed in ({"steps": []}, {"relation": "none"}, {"steps": [[1.5, 4.0, 1, 1]]}, {"steps": [[0.1, 4.0, 0, 1]]}):
        with pytest.raises(ValueError, match=r"round|step"):
            Round.from_json({**good, **changed})
