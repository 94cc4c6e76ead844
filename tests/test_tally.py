"""Without a ledger, this process remembers what the same people have paid, by hashes of their ids, and says so."""

import warnings
from typing import Any

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.events import GaussianEvent, PureEvent, epsilon_spent
from commonground.errors import PrivacyWarning
from commonground.tally import Tally, hashed, tally


class People:
    rows_are_here = True

    def __init__(self, ids: Any) -> None:
        self.ids = np.asarray(ids)


def paid(mu: float, simulated: bool = False) -> GaussianEvent:
    return GaussianEvent("x", mu, 1.0, 1.0 / mu, 1, simulated)


def warned(book: Tally, people: People, events: tuple[Any, ...], delta: float = 1e-6, ledger: bool = False) -> str:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        book.note_fit(people, events, delta, paid_by_ledger=ledger)
    assert all(issubclass(one.category, PrivacyWarning) for one in told)
    assert len(told) <= 1
    return str(told[0].message) if told else ""


def test_the_second_fit_says_what_both_have_cost() -> None:
    book = Tally()
    ids = [f"p{j}" for j in range(50)]
    assert not warned(book, People(ids), (paid(0.2), paid(0.1)))
    said = warned(book, People(ids[::-1]), (paid(0.2),))
    together = epsilon_spent([paid(0.2), paid(0.1), paid(0.2)], 1e-6)
    assert "fitted 2 times" in said
    assert f"ε = {together:.4g} at δ = 1e-06" in said
    book.forget()
    assert not warned(book, People(ids), (paid(0.2),))


def test_it_is_that_of_the_person_who_paid_most_among_these() -> None:
    """Folds of people: nobody is in all of them, and those who are not here do not matter."""
    book = Tally()
    book.note(People(range(100)), (paid(0.5),), fits=1)
    book.note(People(range(100, 200)), (paid(0.1),), fits=1)
    said = warned(book, People(range(150, 250)), (paid(0.1),))
    assert f"ε = {epsilon_spent([paid(0.1), paid(0.1)], 1e-6):.4g} " in said
    assert not warned(book, People(range(900, 950)), (paid(0.1),))


def test_what_protects_nobody_is_not_counted_and_ledgers_keep_their_own() -> None:
    book = Tally()
    for _ in range(3):
        assert not warned(book, People(range(9)), (paid(0.2, simulated=True),))
    assert not warned(book, People(range(9)), (paid(0.2),), ledger=True)
    assert not warned(book, People(range(9)), (paid(0.2),), ledger=True)
    assert "fitted 3 times" in warned(book, People(range(9)), (paid(0.2),))
    away = People(range(9))
    away.rows_are_here = False
    assert not warned(book, away, (paid(0.2),))


def test_pure_costs_add_up() -> None:
    book, event = Tally(), PureEvent("choice", 0.5, 1.0, 4.0, 9, False)
    warned(book, People(range(9)), (event,), delta=0.0)
    assert "ε = 1 together" in warned(book, People(range(9)), (event,), delta=0.0)


def test_of_very_many_people_a_sample_is_kept() -> None:
    book = Tally(most_people=1000)
    book.note(People(np.arange(200_000)), (paid(0.2),), fits=1)
    assert len(book._people) == 1000
    assert (np.diff(book._people.astype(float)) > 0).all()
    assert "fitted 2 times" in warned(book, People(np.arange(200_000)), (paid(0.2),))
    assert "fitted 3 times" in warned(book, People(np.arange(50_000, 200_000)), (paid(0.2),))
    assert not warned(book, People(np.arange(10**6, 10**6 + 500)), (paid(0.2),))


@pytest.mark.parametrize(
    "ids", [np.arange(5000), np.array([f"u{j}" for j in range(5000)]), [(j, "x") for j in range(5000)]]
)
def test_hashes_tell_people_apart(ids: Any) -> None:
    array = np.empty(5000, dtype=object)
    array[:] = list(ids)
    given = ids if isinstance(ids, np.ndarray) else array
    assert len(np.unique(hashed(given))) == 5000
    np.testing.assert_array_equal(hashed(given)[[3, 1]], hashed(given[[3, 1]]))


def test_fits_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each fit, after it; a first one says nothing, nor does one of other people or with simulated noise."""
    tally.forget()
    rng = np.random.default_rng(0)
    X, ids = rng.standard_normal((400, 3)), np.repeat(np.arange(100), 4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PrivacyWarning)
        warnings.simplefilter("ignore", cg.errors.SharingWarning)
        cg.SingleModel(0.5).fit(X, X[:, 0], users=ids)
        cg.SingleModel(0.5).fit(X, X[:, 0], users=ids + 1000)
        cg.SingleModel(0.5, simulation_seed=1).fit(X, X[:, 0], users=ids)
        assert not told
        model = cg.SingleModel(0.5).fit(X, X[:, 0], users=ids)
        assert len(told) == 1
        assert told[0].filename == __file__
        twice = epsilon_spent(model.billboard_.statement.events * 2, 1e-6)
        assert f"ε = {twice:.4g} at" in str(told[0].message)
        model.evaluate(X, X[:, 0], users=ids, epsilon=0.5)
        assert len(told) == 1, "an evaluation is counted, and does not warn"
        model.fit(X, X[:, 0], users=ids)
        assert float(str(told[1].message).split("ε = ")[1].split()[0]) > epsilon_spent(
            model.billboard_.statement.events * 3, 1e-6
        )
    tally.forget()
