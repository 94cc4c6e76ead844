"""A ledger with an account for everybody: what is booked, given back, refused, and shown to one person. On both databases."""

import json
import threading
import warnings
from copy import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

import commonground as cg
from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import GaussianEvent, PureEvent, epsilon_spent
from commonground.clipping.bounded import rounding_margin
from commonground.errors import BudgetError, InputError, PrivacyWarning
from commonground.ledger import DurableLedger, LedgerError, PersonalBooking, PersonalLedger, Population, columns, schema
from commonground.ledger.personal import PersonalPopulation
from commonground.ledger.shares import STEPS, UNIT, units_of

TOTAL, DELTA, ROOM = Budget(2.0, 1e-6), 1e-6, 1e-9
OWN = {"anna": 2.0, "bert": 1.0, "cora": 0.5, "dirk": 0.0}
PEOPLE = list(OWN)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that four people are in several."""
    monkeypatch.setattr("commonground.ledger.new_people.PEOPLE_IN_PIECE", 3)


def event(mu: float, **changes: Any) -> GaussianEvent:
    return replace(GaussianEvent("numbers", mu, 1.0, 1.000001 / mu, 3, False), **changes)


def opened(address: str) -> PersonalPopulation:
    book = DurableLedger(address, create=True)
    people = book.open_population("people", TOTAL, people=PEOPLE, epsilons=list(OWN.values()))
    assert isinstance(people, PersonalPopulation)
    return people


def again(address: str) -> PersonalPopulation:
    """As another process would find it."""
    people = DurableLedger(address).population("people")
    assert isinstance(people, PersonalPopulation)
    return people


def paid(people: PersonalPopulation, epsilon: Any, *parts: float, ids: Any = PEOPLE) -> np.ndarray:
    """A fit with releases that take these shares of its μ²; how much everybody counted."""
    with people.reserve_each(ids, epsilon, DELTA, ROOM, "a fit") as book:
        for part in parts:
            book.charge(event(book.budgets.largest.mu * part**0.5 * (1 - 1e-9)))
    return book.budgets.weights


def test_everybody_takes_part_with_what_she_has_left(address: str) -> None:
    people = opened(address)
    assert isinstance(people, PersonalLedger)
    weights = paid(people, 1.0, 1.0)
    assert weights[:2].tolist() == [1.0, 1.0]
    assert 0.5 < weights[2] < 0.53
    assert weights[3] == 0.0
    for one, spent in {"anna": 1.0, "bert": 1.0, "cora": 0.5, "dirk": 0.0}.items():
        account = again(address).person(one)
        assert account.spent == pytest.approx(spent, abs=1e-5)
        assert account.spent <= max(OWN[one] * (1 + 1e-12), 0)
        assert account.limit == pytest.approx(OWN[one], rel=1e-5)
        assert len(account.payments) == (spent > 0)
    second = paid(again(address), 1.0, 1.0)
    assert second.tolist() == [1.0, 0.0, 0.0, 0.0], "what rounding leaves of cora's 0.5 is nothing"
    paid(people, 2.0, 1.0, ids=["anna"])
    with pytest.raises(BudgetError, match=r"nobody who is asked for anything has enough of her own budget left"):
        paid(people, 1.0, 1.0, ids=["anna", "bert", "dirk"])
    assert json.loads(people.events()[-1][0])["kind"] == "refused"
    assert (people.accounts().left >= 0).all()


def test_what_was_not_charged_is_given_back_to_everybody(address: str) -> None:
    people = opened(address)
    book = people.reserve_each(PEOPLE, 0.5, DELTA, ROOM)
    assert isinstance(book, PersonalBooking)
    booked = again(address).person("bert").used_units
    assert booked == units_of(Fraction(Budget(0.5, DELTA).mu) ** 2)
    book.charge(event(Budget(0.5, DELTA).mu / 2))
    assert again(address).person("bert").used_units == booked, "a charge draws from what is booked"
    assert again(address).person("bert").payments[0].open
    book.settle()
    assert again(address).person("bert").used_units == -(-booked // 4)
    assert again(address).person("dirk").payments == ()
    paid(people, 0.5)
    assert again(address).person("bert").used_units == -(-booked // 4), "without a release nothing is paid"
    assert again(address).person("bert").payments[-1].units == 0


def test_open_fits_count_in_full_until_they_are_settled(address: str) -> None:
    people = opened(address)
    dead = people.reserve_each(PEOPLE, 2.0, DELTA, ROOM)
    dead.charge(event(0.01))
    with pytest.raises(BudgetError, match=r"1 open reservations hold up to ε = 2"):
        again(address).reserve_each(PEOPLE, 2.0, DELTA, ROOM)
    again(address).settle(dead.id)
    with pytest.raises(BudgetError, match="not open"):
        dead.charge(event(0.01))
    weights = paid(again(address), 1.0, 1.0)
    assert weights[0] == 1.0


def test_wishes_are_kept(address: str) -> None:
    """A fit that wants less of somebody takes no more, and who is not in it pays nothing."""
    people = opened(address)
    book = people.reserve_each(["cora", "anna"], np.array([0.1, 1.0]), DELTA, ROOM)
    book.charge(event(book.budgets.largest.mu * (1 - 1e-9)))
    book.settle()
    assert book.budgets.distribution()["people"] == 2
    assert people.person("cora").spent == pytest.approx(0.1, abs=1e-5)
    assert people.person("cora").spent <= 0.1
    assert people.person("anna").spent == pytest.approx(1.0, abs=1e-5)
    assert people.person("bert").payments == ()


def test_noise_is_made_for_what_the_richest_has_left(address: str) -> None:
    people = opened(address)
    paid(people, 1.5, 1.0)
    book = people.reserve_each(PEOPLE, 2.0, DELTA, ROOM)
    left = TOTAL.after(Budget(1.5, DELTA).mu)
    assert book.budgets.largest.epsilon == pytest.approx(left.epsilon, rel=1e-4)
    assert book.budgets.weights[0] == 1.0


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"ids": ["anna", "eve"]}, r"1 of 2 people have no account in population 'people', for example 'eve'"),
        ({"ids": np.array([7, 8])}, r"2 of 2 people .* for example 7\. .*join"),
        ({"ids": ["anna", "anna"]}, "given twice"),
        ({"epsilons": 0.0}, "more than 0 of somebody"),
        ({"epsilons": np.nan}, "finite"),
        ({"delta": 0.0}, "keeps personal accounts of Gaussian fits"),
    ],
)
def test_fits_that_are_refused(tmp_path: Path, asked: dict[str, Any], problem: str) -> None:
    people = opened(str(tmp_path / "b.db"))
    fit = {"ids": ["anna", "bert"], "epsilons": 1.0, "delta": DELTA, "rounding_room": ROOM, **asked}
    with pytest.raises((InputError, BudgetError), match=problem):
        people.reserve_each(**fit)
    assert not people.accounts().used.any()


def test_charges_that_are_refused(address: str) -> None:
    people = opened(address)
    book = people.reserve_each(PEOPLE, 0.01, DELTA, ROOM)
    mu = Budget(0.01, DELTA).mu
    with pytest.raises(BudgetError, match=r"costs μ = .* but μ = .* is left"):
        book.charge(event(mu * 1.001))
    with pytest.raises(BudgetError, match="room for rounding"):
        book.charge(event(mu / 2, entries=int(2**38 * mu**2) + 1))
    with pytest.raises(BudgetError, match="Gaussian releases only"):
        book.charge(PureEvent("choice", 1e-6, 1.0, 2e6 * 1.01, 9, False))
    with pytest.raises(BudgetError, match="simulated"):
        book.charge(event(mu / 2, simulated=True))
    with pytest.raises(BudgetError, match="does not say what each is to pay"):
        people.reserve(Budget(0.1, DELTA))
    with pytest.raises(BudgetError, match="does not say what each is to pay"):
        people.reserve_steps(Budget(0.1, DELTA), [])


def test_a_fit_of_many_numbers_that_stops_early_is_counted_in_full(address: str) -> None:
    """Its little cost does not leave the room for its numbers' rounding that the whole booking has."""
    people = opened(address)
    book = people.reserve_each(PEOPLE, 0.5, DELTA, ROOM)
    book.charge(event(1e-6, entries=1000))
    book.settle()
    assert people.person("bert").used_units == units_of(Fraction(Budget(0.5, DELTA).mu) ** 2)


def test_people_come_and_go(address: str) -> None:
    people = opened(address)
    paid(people, 0.5, 1.0)
    people.add_people(["eve", "fred", 7, 8], [1.0, 0.5, 2.0, 0.0])
    with pytest.raises(InputError, match="1 of 2 people have an account in population 'people' already"):
        people.add_people(["gerd", "anna"], 1.0)
    with pytest.raises(InputError, match="1 people are named more than once"):
        people.add_people(["gerd", "gerd"], 1.0)
    with pytest.raises(InputError, match=r"from 0\.0001 to the population's 2, got 3"):
        people.add_people(["gerd"], 3.0)
    everybody = [*PEOPLE, "eve", 7]
    assert paid(again(address), 0.5, 1.0, ids=everybody).tolist()[-2:] == [1.0, 1.0]
    again(address).leave_out(["anna", 7])
    weights = paid(people, 0.5, 1.0, ids=everybody)
    assert (weights[0], weights[-1]) == (0.0, 0.0)
    assert weights[-2] == 1.0
    anna = again(address).person("anna")
    assert anna.left_out
    assert anna.left == 0.0
    assert len(anna.payments) == 2
    assert len(again(address).person("eve").payments) == 2
    short = again(address).people_in_short()
    assert (short["people"], short["left_out"]) == (8, 2)
    assert again(address).person("fred").payments == ()
    with pytest.raises(InputError, match="1 of 1 people have no account"):
        people.leave_out(["gerd"])


def test_declarations_that_are_refused(tmp_path: Path) -> None:
    book = DurableLedger(tmp_path / "b.db", create=True)
    with pytest.raises(InputError, match="delta above 0"):
        book.open_population("a", PureBudget(1.0), people=["x"])
    with pytest.raises(InputError, match="epsilons="):
        book.open_population("a", TOTAL, {1.0: 2}, people=["x"])
    with pytest.raises(InputError, match="nobody"):
        book.open_population("a", TOTAL, people=[])
    with pytest.raises(InputError, match="do not reach to ε = 5000"):
        book.open_population("a", Budget(5000.0, DELTA), people=["x"])
    assert book.populations() == []
    assert not isinstance(book.open_population("a", TOTAL), PersonalPopulation)


def test_fits_at_once_do_not_overdraw_anybody(address: str) -> None:
    """Ten threads, each with a handle of its own, a budget for about four of them."""
    opened(address)
    handles, outcomes = [again(address) for _ in range(10)], []

    def fit(people: PersonalPopulation) -> None:
        try:
            outcomes.append(paid(people, 1.0, 1.0))
        except BudgetError:
            outcomes.append(None)

    threads = [threading.Thread(target=fit, args=(one,)) for one in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 10
    accounts = again(address).accounts()
    assert (accounts.used <= accounts.limits).all()
    assert again(address).person("anna").spent <= 2.0


# --- doubt ----------------------------------------------------------------------------------------------------------


def tamper(address: str, statement: str, **values: Any) -> None:
    guard = (
        ["DROP TRIGGER commonground_append_only ON commonground_columns"]
        if address.startswith("postgresql")
        else ["DROP TRIGGER commonground_columns_no_update", "DROP TRIGGER commonground_columns_no_delete"]
    )
    with DurableLedger(address)._storage.writing() as connection:
        for one in guard:
            connection.execute(text(one))
        connection.execute(text(statement), values)


@pytest.mark.parametrize(
    "what", ["lost", "of another column", "a byte longer", "with cheaper shares of as many people"]
)
def test_changed_pieces_are_refused(address: str, what: str) -> None:
    people = opened(address)
    paid(people, 0.5, 1.0)
    shares = json.loads(people.events()[1][0])["shares"]["pieces"][0]
    limits = json.loads(people.events()[0][0])["people"]["limits"][0]
    with people._storage.reading() as connection:
        piece = connection.execute(select(schema.columns.c.data).where(schema.columns.c.hash == shares)).scalar_one()
        other = connection.execute(select(schema.columns.c.data).where(schema.columns.c.hash == limits)).scalar_one()
        steps = columns.load_piece(connection, "people", shares, 3, "<i4")
    cheaper = np.where(steps > 0, 3, 0).astype("<i4").view(np.uint8).reshape(3, 4).T
    changed = {
        "of another column": other,
        "a byte longer": piece + b"0",
        "with cheaper shares of as many people": pa.compress(cheaper.tobytes(), codec="zstd", asbytes=True),
    }
    if what == "lost":
        tamper(address, "DELETE FROM commonground_columns WHERE hash = :hash", hash=shares)
    else:
        tamper(
            address, "UPDATE commonground_columns SET data = :data WHERE hash = :hash", hash=shares, data=changed[what]
        )
    for look in (
        lambda: again(address).accounts(),
        lambda: DurableLedger(address).verify(),
        lambda: paid(again(address), 0.5),
        lambda: [again(address).person(one) for one in PEOPLE],
    ):
        with pytest.raises(LedgerError, match="cannot be believed"):
            look()


def test_columns_are_append_only(address: str) -> None:
    opened(address)
    for statement in ("DELETE FROM commonground_columns", "UPDATE commonground_columns SET hash = 'x'"):
        with pytest.raises(LedgerError, match="append-only"), DurableLedger(address)._storage.writing() as connection:
            connection.execute(text(statement))


def test_overdrawn_accounts_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes without looking at what is left is found out by the next reader."""
    people = opened(address)
    paid(people, 2.0, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr("commonground.ledger.wishes.steps_within", lambda table, left, wished, room: wished)
        patch.setattr(
            "commonground.ledger.accounts.Accounts.left", property(lambda accounts: accounts.limits), raising=True
        )
        paid(people, 1.0, 1.0, ids=["anna", "bert"])
    with pytest.raises(LedgerError, match="somebody has paid more than her own budget"):
        again(address).accounts()
    with pytest.raises(LedgerError, match="somebody has paid more than her own budget"):
        DurableLedger(address).verify()


def test_a_fit_that_names_no_shares_is_not_believed(address: str) -> None:
    people = opened(address)
    with pytest.raises(LedgerError, match="cannot be understood"):
        Population.reserve(people, Budget(0.1, DELTA))


def test_equal_pieces_are_kept_once(address: str) -> None:
    people = opened(address)
    for _ in range(3):
        paid(people, 0.1, 1.0)
    with people._storage.reading() as connection:
        pieces = connection.execute(text("SELECT count(*) FROM commonground_columns")).scalar_one()
    assert pieces == 2 + 2 + 2, "two of digests, two of limits, two of shares, for all three fits"


def test_columns_survive_the_way_through_the_store(address: str) -> None:
    people = opened(address)
    numbers = np.random.default_rng(0).integers(-(2**62), 2**62, 1000)
    with people._storage.writing() as connection:
        hashes = columns.store(connection, "people", numbers, [400, 400, 200])
        assert (columns.load(connection, "people", hashes, [400, 400, 200], "<i8") == numbers).all()
        with pytest.raises(LedgerError, match="not as many"):
            columns.load_piece(connection, "people", hashes[0], 300, "<i8")


# --- any history ----------------------------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_history_of_fits_crashes_and_settlements(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Everybody's account is the sum of her fits by plain integers, and never above her limit."""
    people = opened(str(tmp_path_factory.mktemp("history") / "b.db"))
    limits = {one: people.person(one).limit_units for one in PEOPLE}
    fits: dict[str, dict[str, Any]] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        step = data.draw(st.sampled_from(["fit", "crash", "settle the dead"]))
        if step == "settle the dead":
            for name in list(people.account().open):
                people.settle(name)
                fits[name]["cost"] = fits[name]["charged"]
            continue
        ids = data.draw(st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=4, unique=True))
        wishes = data.draw(st.lists(st.sampled_from([0.05, 0.3, 0.7, 2.0]), min_size=len(ids), max_size=len(ids)))
        try:
            book = people.reserve_each(ids, np.array(wishes), DELTA, ROOM)
        except BudgetError:
            continue
        mu = book.budgets.largest.mu
        room = 2  # steps: one for ROOM, one for the sampler
        shares = {
            one: STEPS if weight == 1 else round(weight * STEPS) + room
            for one, weight in zip(ids, book.budgets.weights, strict=True)
            if weight
        }
        fit = fits[book.id] = {"cost": Fraction(mu) ** 2, "charged": Fraction(0), "shares": shares}
        for part in data.draw(st.lists(st.floats(0.01, 0.3), max_size=3)):
            book.charge(event(mu * part))
            fit["charged"] += Fraction(mu * part) ** 2
        if step == "fit":
            book.settle()
            fit["cost"] = fit["charged"]
    for one in PEOPLE:
        owed = sum(
            -(-(fit["shares"][one] ** 2 * -(-fit["cost"] * UNIT // 1)) // STEPS**2)
            for fit in fits.values()
            if one in fit["shares"]
        )
        account = people.person(one)
        assert account.used_units == owed <= limits[one]
        exact = sum(
            (Fraction(fit["shares"].get(one, 0), STEPS) ** 2 * fit["charged"] for fit in fits.values()), Fraction(0)
        )
        assert exact * UNIT <= account.used_units
        assert account.spent <= OWN[one] * (1 + 1e-11)
    fresh = again(people._storage.name).accounts()
    assert fresh.used.sum() == sum(people.person(one).used_units for one in PEOPLE)


# --- estimators -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def users() -> cg.Users:
    return cg.datasets.make_shared_subspace(n_users=120, n_features=4, rank=1, seed=0)[0]


def accounts_for(users: cg.Users, folder: Path) -> PersonalPopulation:
    book = DurableLedger(folder / "b.db", create=True)
    people = book.open_population("crowd", TOTAL, people=users.ids, epsilons=np.linspace(0.2, 2.0, users.n_users))
    assert isinstance(people, PersonalPopulation)
    return people


ESTIMATORS = {
    "fedrep": lambda **own: cg.PrivateFedRep(rank=1, n_rounds=2, **own),
    "altmin": lambda **own: cg.PrivateAltMin(rank=1, n_rounds=1, **own),
    "single": lambda **own: cg.SingleModel(**own),
    "ridge": lambda **own: cg.PersonalBudgetRidge(
        budgets=own.get("budgets", own.get("epsilon")), feature_bounds=(-3, 3), label_bounds=(-9, 9)
    ),
}


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
@pytest.mark.filterwarnings("ignore::commonground.errors.ScaleWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_with_budgets_pays_from_accounts(name: str, users: cg.Users, tmp_path: Path) -> None:
    people = accounts_for(users, tmp_path)
    fits = [ESTIMATORS[name](epsilon=1.0).fit(users, ledger=people) for _ in range(2)]
    fits.append(ESTIMATORS[name](budgets=np.full(users.n_users, 0.3)).fit(users, ledger=people))
    statement = fits[1].billboard_.statement
    assert statement.budgets["people"] == users.n_users
    assert fits[-1].billboard_.statement.budgets["taking no part"] > 10
    own = np.linspace(0.2, 2.0, users.n_users)
    for position in (0, 17, 60, 119):
        account = people.person(users.ids[position])
        assert account.spent <= own[position]
        # Independent of the ledger: all releases of all fits, each at her share.
        releases = [
            event.for_share(min(1.0, weight + fit._personal.rounding_room + event.sampler_room))
            for fit in fits
            for event in fit.billboard_.statement.events
            if (weight := fit._personal.weights[position])
        ]
        assert epsilon_spent(releases, DELTA) <= account.spent * (1 + 1e-9)
        assert epsilon_spent(releases, DELTA) == pytest.approx(account.spent, rel=1e-3)
    assert all(fit.spent(users.ids[5]) <= own[5] for fit in fits)


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
def test_a_fit_for_which_nobody_has_enough_says_so(users: cg.Users, tmp_path: Path) -> None:
    people = accounts_for(users, tmp_path)
    with pytest.warns(PrivacyWarning, match=r"wants up to ε = 3 of a person, and nobody has more than ε = 2 left"):
        model = cg.SingleModel(epsilon=3.0).fit(users, ledger=people)
    assert model.billboard_.statement.epsilon == pytest.approx(2.0, rel=1e-6)
    with pytest.raises(BudgetError, match="nobody who is asked"):
        cg.SingleModel(epsilon=1.0).fit(users, ledger=people)
    assert model.spent(users.ids[0]) <= 0.2


def test_a_warning_that_is_an_error_leaves_nothing_booked(users: cg.Users, tmp_path: Path) -> None:
    people = accounts_for(users, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="wants up to"):
            cg.SingleModel(epsilon=3.0).fit(users, ledger=people)
    assert not people.account().open
    assert not people.accounts().used.any()


def test_who_cannot_weigh_people_is_refused(users: cg.Users, tmp_path: Path) -> None:
    people = accounts_for(users, tmp_path)
    with pytest.raises(InputError, match="no version for personal budgets"):
        cg.ExponentialSubspace(rank=1, epsilon=1.0).fit(users, ledger=people)
    with pytest.raises(InputError, match="no version for personal budgets"):
        cg.PrivateFedRep(rank=1, recipe="paper").fit(users, ledger=people)
    ridge = cg.PersonalBudgetRidge("reweight", alpha=1.0, budgets=0.5, feature_bounds=(-3, 3), label_bounds=(-9, 9))
    with pytest.raises(BudgetError, match="δ = 0"):
        ridge.fit(users, ledger=people)
    assert not people.accounts().used.any()


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
def test_what_a_statement_tells_does_not_depend_on_rows(users: cg.Users, tmp_path: Path) -> None:
    """Somebody's rows are replaced by others: the second fit's shares, and what is told of them, keep every bit."""
    told = []
    for scale in (1.0, 1e6):
        X, y = (
            np.vstack([users.rows_of(one)[0] for one in users.ids]),
            np.hstack([users.rows_of(one)[1] for one in users.ids]),
        )
        rows = len(users.rows_of(users.ids[0])[1])
        X[:rows] *= scale
        y[:rows] *= -scale
        crowd = cg.Users.from_arrays(X, y, np.repeat(users.ids, [len(users.rows_of(one)[1]) for one in users.ids]))
        (tmp_path / f"{scale:.0f}").mkdir()
        people = accounts_for(users, tmp_path / f"{scale:.0f}")
        cg.SingleModel(epsilon=1.0, fit_intercept=False).fit(crowd, ledger=people)
        second = cg.SingleModel(epsilon=1.0, fit_intercept=False).fit(crowd, ledger=people)
        told.append((second.billboard_.statement.budgets, second._personal.weights.tobytes()))
    assert told[0] == told[1]


def test_rounding_room_of_many_people_is_in_the_shares(users: cg.Users, tmp_path: Path) -> None:
    """Ten million people round more: the room grows, and weights with it become smaller."""
    people = accounts_for(users, tmp_path)
    few = people.reserve_each(users.ids, 0.5, DELTA, rounding_margin(120))
    few.settle()
    many = people.reserve_each(users.ids, 0.5, DELTA, rounding_margin(10_000_000))
    part = few.budgets.weights < 1
    assert part.sum() > 10
    assert (many.budgets.weights[part] < few.budgets.weights[part] - 10 / STEPS).all()


def test_people_who_are_looked_up_again_are_the_same(users: cg.Users, tmp_path: Path) -> None:
    """Positions are remembered by what the array holds: one that was changed in place is looked up anew."""
    people, ids = accounts_for(users, tmp_path), users.ids.copy()
    first = people._positions(ids).copy()
    assert (people._positions(ids.copy()) == first).all()
    ids[[0, 1]] = ids[[1, 0]]
    assert people._positions(ids)[:2].tolist() == first[[1, 0]].tolist()
    ids[0] = 10_000
    with pytest.raises(InputError, match="1 of 120 people have no account"):
        people._positions(ids)
    people.add_people([10_000], 1.0)
    assert people._positions(ids)[0] == 120


def test_people_whose_ids_are_elsewhere_are_refused(users: cg.Users, tmp_path: Path) -> None:
    class Elsewhere(cg.Users):
        kind = "ray"

    far = copy(users)
    far.__class__ = Elsewhere
    with pytest.raises(InputError, match="needs to know who is in the fit"):
        cg.SingleModel(epsilon=1.0).fit(far, ledger=accounts_for(users, tmp_path))
