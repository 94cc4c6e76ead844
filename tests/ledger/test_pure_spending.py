"""Pure ε in a durable ledger: it adds up, mixes truthfully with Gaussian spending, and is refused on doubt."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import commonground as cg
from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import GaussianCost, PureCost, mu_of
from commonground.accounting.events import Event, GaussianEvent, PureEvent, epsilon_spent, event_from_dict
from commonground.errors import BudgetError
from commonground.ledger import DurableLedger, LedgerError, Population, chain
from commonground.ledger.account import Account
from commonground.ledger.in_words import summary


def gaussian(mu: float) -> GaussianEvent:
    return GaussianEvent("numbers", mu, 1.0, 1.000001 / mu, 3, False)


def pure(epsilon: float, **changes: Any) -> PureEvent:
    return replace(PureEvent("choice", epsilon, 1.0, 2.000001 / epsilon, 9, False), **changes)


def opened(address: str, budget: Budget | PureBudget, **options: Any) -> Population:
    return DurableLedger(address, create=True).open_population("people", budget, **options)


def again(address: str) -> Population:
    return DurableLedger(address).population("people")


def spend(people: Population, budget: Budget | PureBudget, *events: Event) -> None:
    with people.reserve(budget) as book:
        for event in events:
            book.charge(event)


def followed(account: Account, line: dict[str, Any]) -> Account:
    """The account after one more event that was linked as it should be."""
    body = chain.canonical(line)
    return chain.follow(account, body, chain.link(account.head, body))


def test_ten_times_a_tenth_is_one(address: str) -> None:
    people = opened(address, PureBudget(1.0))
    for left in range(9, -1, -1):
        spend(people, PureBudget(0.1), pure(0.1))
        assert summary(again(address).account())["epsilon_left"] == pytest.approx(left / 10, abs=1e-4)
    with pytest.raises(BudgetError, match="has ε = 0 left"):
        people.reserve(PureBudget(0.0001))
    assert again(address).account().charged_in(PureCost) == 1


def test_reserved_in_full_and_given_back(address: str) -> None:
    people = opened(address, PureBudget(1.0))
    book = people.reserve(PureBudget(0.8))
    book.charge(pure(0.3))
    assert again(address).account().booked_in(PureCost) == Fraction(8, 10)
    with pytest.raises(BudgetError, match=r"hold ε = 0\.8"):
        people.reserve(PureBudget(0.5))
    with pytest.raises(BudgetError, match=r"costs ε = 0\.6, but ε = 0\.5 is left"):
        book.charge(pure(0.6))
    book.settle()
    assert (
        again(address).account().booked_in(PureCost) == again(address).account().charged_in(PureCost) == Fraction(3, 10)
    )
    people.reserve(PureBudget(0.7))


def test_no_gaussian_noise_where_delta_is_zero(address: str) -> None:
    people = opened(address, PureBudget(1.0))
    with pytest.raises(BudgetError, match="asks for"):
        people.reserve(Budget(0.1, 1e-6))
    book = people.reserve(PureBudget(1.0))
    with pytest.raises(BudgetError, match="with δ = 0"):
        book.charge(gaussian(0.001))
    users, _ = cg.datasets.make_shared_subspace(n_users=50, n_features=3, seed=1)
    with pytest.raises(BudgetError, match="asks for"):
        cg.SingleModel(epsilon=0.5).fit(users, ledger=people)


def test_the_two_kinds_are_not_mixed(address: str) -> None:
    """Choosing the next fit's kind by looking at the last one's result is not covered by adding both up."""
    ledger = DurableLedger(address, create=True)
    first, second = (ledger.open_population(name, Budget(4.0, 1e-6)) for name in ("people", "others"))
    spend(first, Budget(0.1, 1e-6), gaussian(Budget(0.1, 1e-6).mu))
    with pytest.raises(BudgetError, match="not mixed"):
        first.reserve(PureBudget(0.1))
    spend(second, PureBudget(1.0), pure(1.0))
    with pytest.raises(BudgetError, match="not mixed"):
        second.reserve(Budget(0.1, 1e-6))
    spend(second, PureBudget(3.0), pure(3.0))
    assert summary(second.account())["epsilon_left"] == 0.0
    assert "has ε = 0 left of ε = 4 at δ = 1e-06, for fits with δ = 0" in second.left_in_words()
    assert 3.9 < summary(first.account())["epsilon_left"] < 4.0
    held = second.account()
    assert not held.affords(GaussianCost, Fraction(1, 10**9))


def test_personal_budgets_count_for_pure_spending(address: str) -> None:
    people = opened(address, PureBudget(1.0), personal={0.4: 3, 1.0: 97})
    with pytest.raises(BudgetError, match=r"left of ε = 0\.4 at δ = 0"):
        people.reserve(PureBudget(0.5))
    spend(people, PureBudget(0.4), pure(0.4))


def test_a_choice_inside_a_gaussian_fit_costs_the_gaussian_that_covers_it(address: str) -> None:
    people = opened(address, Budget(2.0, 1e-6))
    with people.reserve(Budget(1.0, 1e-6)) as book:
        book.charge(pure(0.1))
        with pytest.raises(BudgetError, match="is left"):
            book.charge(pure(0.2))
        book.charge(gaussian(0.15))
    account = people.account()
    assert account.charged_in(PureCost) == 0
    assert mu_of(account.charged) == pytest.approx(math.hypot(0.12526, 0.15), rel=1e-3)
    assert epsilon_spent([pure(0.1), gaussian(0.15)], 1e-6) <= account.epsilon_of(account.charged) <= 1.0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (pure(0.1, simulated=True), "simulated noise"),
        (pure(0.1, scale=19.0), "does not support"),
        (replace(pure(0.1), epsilon=math.nan), "does not support"),
        (replace(pure(0.1), epsilon=0.0), "does not support"),
        (replace(pure(0.1), epsilon=-0.1), "does not support"),
        (replace(pure(0.1), epsilon=math.inf), "does not support"),
        (pure(0.1, sensitivity=math.nan), "does not support"),
        ({"epsilon": 0.1}, "not a dict"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused(tmp_path: Any, bad: Any, message: str) -> None:
    people = opened(str(tmp_path / "budget.db"), PureBudget(1.0))
    book = people.reserve(PureBudget(0.5))
    with pytest.raises(BudgetError, match=message):
        book.charge(bad)
    assert people.account().charged_in(PureCost) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "free"},
        {"simulated": True},
        {"epsilon": 0.6},
        {"epsilon": -0.1},
        {"epsilon": None},
    ],
)
def test_a_reader_doubts_what_does_not_add_up(tmp_path: Any, change: dict[str, Any]) -> None:
    """Even with a sound hash chain, an event that makes no sense is not believed."""
    people = opened(str(tmp_path / "budget.db"), PureBudget(1.0))
    book = people.reserve(PureBudget(0.5))
    book.charge(pure(0.1))
    account = Account.before_all("people")
    for body, hash_ in people.events()[:2]:
        account = chain.follow(account, body, hash_)
    line = json.loads(people.events()[2][0])
    assert followed(account, line).charged_in(PureCost) == Fraction(1, 10)
    line["event"].update(change)
    with pytest.raises(LedgerError, match="cannot be understood"):
        followed(account, line)


def test_a_pure_charge_with_too_small_a_gaussian_is_not_believed(tmp_path: Any) -> None:
    people = opened(str(tmp_path / "budget.db"), Budget(1.0, 1e-6))
    people.reserve(Budget(0.5, 1e-6)).charge(pure(0.05))
    account = Account.before_all("people")
    for body, hash_ in people.events()[:2]:
        account = chain.follow(account, body, hash_)
    line = json.loads(people.events()[2][0])
    line["event"]["mu"] *= 0.9
    with pytest.raises(LedgerError, match="does not cover"):
        followed(account, line)


def test_what_is_written_can_be_read_back_as_events(tmp_path: Any) -> None:
    people = opened(str(tmp_path / "budget.db"), PureBudget(1.0))
    spend(people, PureBudget(0.5), pure(0.1))
    line = json.loads(people.events()[2][0])["event"]
    del line["mu"]  # what it would cost where δ > 0
    assert event_from_dict(line) == pure(0.1)
