"""Whoever declares a budget pays for all that it publishes from the ledger that it is given, and stops where that ends."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from test_every_estimator import ESTIMATORS, labels_for
from test_every_joint_learner import LEARNERS

import commonground as cg
from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import Event
from commonground.errors import BudgetError
from commonground.ledger import DurableLedger, InMemoryLedger

pytestmark = pytest.mark.slow

EPSILON = 4.0
PEOPLE, FEATURES = 40, 8


def real(estimator: Any) -> Any:
    """With noise that a durable ledger accepts, and quick."""
    changes: dict[str, Any] = {"simulation_seed": None, "n_rounds": 2, "keep_heads": False, "n_candidates": 16}
    twin = clone(estimator)
    return twin.set_params(**{name: value for name, value in changes.items() if name in twin.get_params()})


# Every estimator that publishes something about people, by its budget; the contracts' list is complete (see below).
PAYING = {name: real(one) for name, one in ESTIMATORS.items() if "OwnData" not in name and "NonPrivate" not in name}
FREE = {name: one for name, one in ESTIMATORS.items() if name not in PAYING}
ACROSS_OWNERS = {name: real(one) for name, one in LEARNERS.items()}
each = pytest.mark.parametrize("estimator", PAYING.values(), ids=PAYING.keys())
each_across_owners = pytest.mark.parametrize("learner", ACROSS_OWNERS.values(), ids=ACROSS_OWNERS.keys())


@contextmanager
def unwarned() -> Iterator[None]:
    with warnings.catch_warnings():
        for kind in (cg.errors.PrivacyWarning, cg.errors.RecipeWarning, cg.errors.SharingWarning):
            warnings.simplefilter("ignore", kind)
        yield


def people(estimator: Any, n_users: int = PEOPLE) -> cg.Users:
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(n_users), 6)
    X = rng.standard_normal((len(ids), FEATURES))
    y = X[:, 0] + 0.1 * rng.standard_normal(len(ids))
    return cg.Users.from_arrays(X, labels_for(estimator, y), ids)


def owners(n: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    return {"X": X, "y": (X[:, 0] > 0).astype(np.int64), "owners": np.arange(n) % 3, "users": np.arange(n) // 4}


def fit(estimator: Any, ledger: Any, n_users: int = PEOPLE) -> Any:
    with unwarned():
        return clone(estimator).fit(people(estimator, n_users), ledger=ledger)


def budget_of(estimator: Any, epsilon: float) -> Budget | PureBudget:
    delta = getattr(estimator, "delta", None)
    statistics = isinstance(estimator, cg.PersonalBudgetRidge) and estimator.method in ("statistics", "descent")
    return Budget(epsilon, delta or 1e-6) if delta or statistics else PureBudget(epsilon)


def charged(population: Any) -> list[str]:
    """The names of the releases that a durable ledger has on its disk."""
    documents = [json.loads(text) for text, _ in population.events()]
    return [document["event"]["name"] for document in documents if document["kind"] == "charge"]


class Remembering:
    """A ledger that writes down every charge and allows it; not one of ours, so nothing but ``charge`` may be needed."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def charge(self, event: Event) -> None:
        self.events.append(event)


# ---- people -----------------------------------------------------------------------------------------------------------


def test_every_public_estimator_is_here() -> None:
    public = {name for name in cg.__all__ if isinstance(getattr(cg, name), type) and hasattr(getattr(cg, name), "fit")}
    tested = {type(one).__name__ for one in (*ESTIMATORS.values(), *LEARNERS.values())}
    assert public - tested == set(), "a new estimator joins the contracts, and so this one"


@each
def test_the_given_ledger_is_charged_exactly_what_the_statement_says(estimator: Any) -> None:
    for book in (InMemoryLedger(budget_of(estimator, EPSILON)), Remembering()):
        statement = fit(estimator, book).billboard_.statement
        assert len(statement.events) > 0
        assert tuple(book.events) == statement.events
        assert statement.n_users == PEOPLE
        assert statement.n_features == FEATURES


@each
def test_an_empty_ledger_stops_it_before_anything_is_released(estimator: Any) -> None:
    book = InMemoryLedger(budget_of(estimator, 1e-3))
    with pytest.raises(BudgetError):
        fit(estimator, book)
    assert len(book.events) <= 2, "the releases that are cheap enough, if any"


@each
def test_a_second_fit_on_the_same_people_is_refused(estimator: Any) -> None:
    book = InMemoryLedger(budget_of(estimator, 1.2 * EPSILON))
    first = fit(estimator, book).billboard_.statement
    if first.epsilon_spent < 0.6 * EPSILON:
        pytest.skip("the paper's printed noise spends so little that two fits are within the budget of one")
    with pytest.raises(BudgetError):
        fit(estimator, book)


@each
def test_a_durable_ledger_books_declared_and_charges_what_was_released(estimator: Any, tmp_path: Path) -> None:
    budget = budget_of(estimator, 1.2 * EPSILON)
    population = DurableLedger(tmp_path / "budget.db", create=True).open_population("people", budget)
    statement = fit(estimator, population).billboard_.statement
    assert charged(population) == [event.name for event in statement.events]
    before = charged(population)
    too_much = clone(estimator)
    asks = {"budgets" if isinstance(estimator, cg.PersonalBudgetRidge) else "epsilon": 2 * EPSILON}
    with pytest.raises(BudgetError, match="left"):
        fit(too_much.set_params(**asks), population)
    assert charged(population) == before, "refused before anything was released"


@pytest.mark.parametrize("estimator", FREE.values(), ids=FREE.keys())
@pytest.mark.parametrize("durable", [True, False])
def test_who_declares_no_budget_takes_no_ledger(estimator: Any, durable: bool, tmp_path: Path) -> None:
    budget = Budget(EPSILON, 1e-6)
    ledger = (
        DurableLedger(tmp_path / "budget.db", create=True).open_population("people", budget)
        if durable
        else InMemoryLedger(budget)
    )
    with pytest.raises(BudgetError, match="no budget"):
        fit(estimator, ledger)


# ---- owners -----------------------------------------------------------------------------------------------------------


@each_across_owners
def test_learning_across_owners_charges_exactly_what_its_statement_says(learner: Any) -> None:
    book = Remembering()
    with unwarned():
        statement = clone(learner).fit(**owners(), ledger=book).billboard_.statement
    assert tuple(book.events) == statement.events
    assert len(statement.events) > 0
    assert statement.n_owners == 3
    with pytest.raises(BudgetError), unwarned():
        clone(learner).fit(**owners(), ledger=InMemoryLedger(Budget(0.01, 1e-4)))


@each_across_owners
def test_a_durable_ledger_pays_for_learning_across_owners(learner: Any, tmp_path: Path) -> None:
    population = DurableLedger(tmp_path / "budget.db", create=True).open_population("owners", Budget(4.5, 1e-4))
    with unwarned():
        statement = clone(learner).fit(**owners(), ledger=population).billboard_.statement
        assert set(charged(population)) == {event.name for event in statement.events}
        with pytest.raises(BudgetError):
            clone(learner).fit(**owners(), ledger=population)
