"""The durable ledger: exact arithmetic, refusals, and refusing on doubt. On SQLite and on PostgreSQL."""

import hashlib
import json
import math
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent, epsilon_spent
from commonground.errors import BudgetError, InputError, PrivacyWarning
from commonground.ledger import DurableLedger, InMemoryLedger, LedgerError, Population, SharedLedger, rows, schema

TOTAL = Budget(2.0, 1e-6)
PART = Budget(0.5, 1e-6)


def event(mu: float, **changes: Any) -> GaussianEvent:
    return replace(GaussianEvent("numbers", mu, 1.0, 1.000001 / mu, 3, False), **changes)


def opened(address: str, budget: Budget = TOTAL, **options: Any) -> Population:
    return DurableLedger(address, create=True).open_population("people", budget, **options)


def again(address: str) -> Population:
    """As another process would find it."""
    return DurableLedger(address).population("people")


def tamper(address: str, *statements: str, **values: Any) -> None:
    """Change the database behind the ledger's back."""
    storage = DurableLedger(address)._storage
    with storage.writing() as connection:
        for statement in statements:
            connection.execute(text(statement), values)


def without_guard(address: str) -> str:
    """The statement that an intruder would start with: the triggers protect against accidents only."""
    return (
        "DROP TRIGGER commonground_append_only ON commonground_events"
        if address.startswith("postgresql")
        else "DROP TRIGGER commonground_no_update"
    )


# --- arithmetic -----------------------------------------------------------------------------------------------------


def test_reserve_charge_settle(address: str) -> None:
    people = opened(address)
    whole, part = Fraction(TOTAL.mu) ** 2, Fraction(PART.mu) ** 2
    assert again(address).account().left == whole
    book = people.reserve(PART, "a fit")
    assert again(address).account().left == whole - part, "the whole budget of a fit is booked at once"
    book.charge(event(PART.mu / 2))
    assert again(address).account().left == whole - part, "a charge draws from the reservation"
    assert again(address).account().charged == part / 4
    book.settle()
    account = again(address).account()
    assert (account.left, account.booked, account.open, account.fits) == (whole - part / 4, part / 4, {}, 1)


@pytest.mark.parametrize("seed", range(2))
def test_any_order_of_operations_against_a_plain_model(address: str, seed: int) -> None:
    """Sixty operations by two handles; a dictionary and fractions say what must come out."""
    chance = random.Random(seed)
    handles = [opened(address), again(address)]
    limit, settled = Fraction(TOTAL.mu) ** 2, Fraction(0)
    open_: dict[str, tuple[Fraction, Fraction]] = {}
    for _ in range(60):
        people, kind = chance.choice(handles), chance.choice(["reserve", "charge", "charge", "settle"])
        if kind == "reserve":
            budget = Budget(chance.uniform(0.05, 1.0), 10 ** chance.uniform(-8, -5))
            cost = Fraction(budget.mu) ** 2
            if settled + sum(cost for cost, _ in open_.values()) + cost <= limit:
                open_[people.reserve(budget).id] = (cost, Fraction(0))
            else:
                with pytest.raises(BudgetError, match="left of ε = 2"):
                    people.reserve(budget)
        elif open_:
            name = chance.choice(list(open_))
            cost, charged = open_[name]
            if kind == "settle":
                people.settle(name)
                settled += open_.pop(name)[1]
                continue
            mu = math.sqrt(cost) * chance.uniform(0.1, 0.8)
            if charged + Fraction(mu) ** 2 <= cost:
                people.charge(name, event(mu))
                open_[name] = (cost, charged + Fraction(mu) ** 2)
            else:
                with pytest.raises(BudgetError, match="reserved for this fit"):
                    people.charge(name, event(mu))
    account = again(address).account()
    assert account.settled == settled
    assert {name: (r.cost, r.charged) for name, r in account.open.items()} == open_
    assert account == handles[0].account() == handles[1].account()


def test_training_again_on_the_same_people_composes(address: str) -> None:
    """As many fits as the budget holds, then no more: the total is kept, and nearly used."""
    people = opened(address)
    users, _ = cg.datasets.make_shared_subspace(n_users=200, n_features=4, rank=1, seed=0)
    spent: list[GaussianEvent] = []
    for _ in range(2):
        spent += cg.SingleModel(epsilon=1.3).fit(users, ledger=again(address)).billboard_.statement.events
    with pytest.raises(BudgetError, match=r"'people' has ε = 0\.\d+ left of ε = 2 at δ = 1e-06, but this fit asks"):
        cg.SingleModel(epsilon=1.3).fit(users, ledger=again(address))
    assert 1.8 < epsilon_spent(spent, TOTAL.delta) <= 2.0
    recorded = [json.loads(body) for body, _ in people.events()]
    charged = [
        GaussianEvent(**{key: value for key, value in line["event"].items() if key != "kind"})
        for line in recorded
        if line["kind"] == "charge"
    ]
    assert charged == spent
    assert people.account().open == {}


def test_personal_budgets_hold_for_the_most_careful(address: str) -> None:
    """Every release costs everybody the same, so the smallest personal ε is what can be spent."""
    people = opened(address, personal={1.0: 500, 0.5: 3})
    account = again(address).account()
    assert account.personal == ((0.5, 3), (1.0, 500))
    assert account.limit == Fraction(PART.mu) ** 2
    people.reserve(Budget(0.5, 1e-6))
    with pytest.raises(BudgetError, match=r"ε = 0 left of ε = 0\.5"):
        people.reserve(Budget(0.01, 1e-6))
    for wrong in ({3.0: 1}, {1.0: 0}, {-1.0: 5}):
        with pytest.raises(InputError):
            DurableLedger(address).open_population("others", TOTAL, wrong)


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (event(0.01, simulated=True), "simulated noise"),
        (event(0.01, simulated=None), "simulated noise"),
        (event(0.01, noise_std=1.0), "does not support"),
        (replace(event(0.01), mu=math.nan), "does not support"),
        (replace(event(0.01), mu=0.0), "does not support"),
        (replace(event(0.01), mu=-0.01), "does not support"),
        (replace(event(0.01), mu=math.inf), "does not support"),
        (event(0.01, sensitivity=math.nan), "does not support"),
        (event(PART.mu * 1.000001), "left of the ε = 0.5"),
        ("three numbers", "not a str"),
    ],
)
def test_what_is_never_charged(tmp_path: Path, wrong: Any, message: str) -> None:
    people = opened(str(tmp_path / "budget.db"))
    book = people.reserve(PART)
    with pytest.raises(BudgetError, match=message):
        book.charge(wrong)
    assert people.account().charged == 0


def test_simulated_training_is_refused_and_gives_everything_back(address: str) -> None:
    people = opened(address)
    users, _ = cg.datasets.make_shared_subspace(n_users=100, n_features=4, rank=1, seed=0)
    with pytest.raises(BudgetError, match="simulated noise"):
        cg.SingleModel(epsilon=0.5, simulation_seed=1).fit(users, ledger=people)
    with pytest.raises(BudgetError, match="declares no budget"):
        cg.NonPrivateFedRep(rank=1).fit(users, ledger=people)
    account = people.account()
    assert (account.booked, account.open) == (0, {})


def test_unknown_population_and_second_opening(address: str) -> None:
    opened(address)
    with pytest.raises(LedgerError, match=r"no population 'peple' in this ledger\. Open ones: 'people'"):
        DurableLedger(address).population("peple")
    with pytest.raises(LedgerError, match="is open already"):
        DurableLedger(address).open_population("people", Budget(100.0, 1e-6))
    with pytest.raises(InputError, match="printable"):
        DurableLedger(address).open_population("", TOTAL)
    assert again(address).account().budget == TOTAL


def test_an_operator_settles_a_dead_fit_and_a_live_one_notices(address: str) -> None:
    trainer, operator = opened(address), again(address)
    book = trainer.reserve(PART)
    book.charge(event(PART.mu / 2))
    (abandoned,) = operator.account().open
    operator.settle(abandoned)
    assert operator.account().booked == Fraction(PART.mu / 2) ** 2
    with pytest.raises(BudgetError, match="not open"):
        book.charge(event(PART.mu / 4))
    with pytest.raises(LedgerError, match=r"no open reservation .* Open: none"):
        operator.settle(abandoned)
    assert operator.account().charged == Fraction(PART.mu / 2) ** 2


def test_an_error_in_training_settles_at_what_was_charged(address: str) -> None:
    people = opened(address)

    def fail_after_a_release() -> None:
        with people.reserve(PART) as book:
            book.charge(event(PART.mu / 2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_a_release()
    assert people.account().booked == Fraction(PART.mu / 2) ** 2


def test_a_failing_settlement_loses_no_model_and_no_count(tmp_path: Path) -> None:
    file = tmp_path / "budget.db"
    people = opened(str(file))
    hidden = file.with_name("elsewhere")

    def lose_the_ledger() -> None:
        with people.reserve(PART) as book:
            book.charge(event(PART.mu / 2))
            file.rename(hidden)

    with pytest.warns(PrivacyWarning, match="stays booked in full"):
        lose_the_ledger()
    assert again(str(hidden)).account().booked == Fraction(PART.mu) ** 2
    assert not file.exists(), "a vanished ledger must not be replaced by an empty one"
    with pytest.raises(LedgerError, match="there is no ledger"):
        people.reserve(PART)


def test_a_plain_ledger_still_works_as_before() -> None:
    assert not isinstance(InMemoryLedger(TOTAL), SharedLedger)
    users, _ = cg.datasets.make_shared_subspace(n_users=100, n_features=4, rank=1, seed=0)
    book = InMemoryLedger(TOTAL)
    assert cg.SingleModel(epsilon=2.0).fit(users, ledger=book).billboard_.statement.events == book.events


# --- doubt ----------------------------------------------------------------------------------------------------------

CUT = "DELETE FROM commonground_events WHERE seq >= 4"
DOUBTS: dict[str, list[str]] = {
    "a cheaper charge": ["UPDATE commonground_events SET body = replace(body, '0.1', '0.0') WHERE seq = 3"],
    "a larger budget": ["UPDATE commonground_events SET body = replace(body, '2.0', '9.0') WHERE seq = 1"],
    "another hash": ["UPDATE commonground_events SET hash = substr(hash, 2) || substr(hash, 1, 1)"],
    "a missing tail": [CUT],
    "a missing tail and a corrected number": [CUT, "UPDATE commonground_populations SET n_events = 3"],
    "a missing middle": ["DELETE FROM commonground_events WHERE seq = 3"],
    "a duplicate": [
        "INSERT INTO commonground_events SELECT population, seq + 100, hash, body FROM commonground_events WHERE seq = 4"
    ],
    "everything gone": [
        "DELETE FROM commonground_events",
        "UPDATE commonground_populations SET n_events = 0",
    ],
    "another head": ["UPDATE commonground_populations SET head = substr(head, 2) || substr(head, 1, 1)"],
}


@pytest.mark.parametrize("change", DOUBTS)
def test_a_changed_ledger_is_not_believed(address: str, change: str) -> None:
    people = opened(address)
    with people.reserve(Budget(1.0, 1e-6)) as book:
        book.charge(event(0.1))
        book.charge(event(0.11))
    guards = [without_guard(address)]
    if not address.startswith("postgresql"):
        guards.append("DROP TRIGGER commonground_no_delete")
    tamper(address, *guards, *DOUBTS[change])
    with pytest.raises(LedgerError, match=r"cannot be believed.*Nothing was released"):
        again(address)
    with pytest.raises(LedgerError, match="cannot be believed"):
        DurableLedger(address).verify()
    with pytest.raises(LedgerError, match="cannot be believed"):
        DurableLedger(address).export()


def test_events_cannot_be_changed_by_accident(address: str) -> None:
    opened(address)
    for statement in ("UPDATE commonground_events SET body = ''", "DELETE FROM commonground_events"):
        with pytest.raises(LedgerError, match="append-only"):
            tamper(address, statement)
    assert again(address).account().budget == TOTAL


def test_a_ledger_that_went_back_is_noticed(address: str) -> None:
    """A consistent older copy: noticed by a process that knew better, and by whoever kept a hash."""
    people = opened(address)
    people.reserve(PART).settle()
    kept, middle = people.account().head, people.events()[1][1]
    tamper(
        address,
        without_guard(address),
        *([] if address.startswith("postgresql") else ["DROP TRIGGER commonground_no_delete"]),
        "DELETE FROM commonground_events WHERE seq > 2",
        f"UPDATE commonground_populations SET n_events = 2, head = '{middle}'",
    )
    with pytest.raises(LedgerError, match="ends at event 2, but event 3 was there before"):
        people.reserve(PART)
    copy = again(address)
    assert copy.contains_head(middle)
    assert not copy.contains_head(kept)


def test_one_populations_events_cannot_stand_in_for_anothers(address: str) -> None:
    ledger = DurableLedger(address, create=True)
    for name in ("people", "others"):
        ledger.open_population(name, TOTAL)
    tamper(
        address,
        without_guard(address),
        "UPDATE commonground_events SET population = 'third' WHERE population = 'people'",
        "UPDATE commonground_populations SET name = 'third' WHERE name = 'people'",
    )
    with pytest.raises(LedgerError, match="hash chain is broken at event 1"):
        ledger.population("third")


def test_events_without_an_entry_are_a_doubt(address: str) -> None:
    opened(address)
    tamper(address, "DELETE FROM commonground_populations")
    with pytest.raises(LedgerError, match="events but no entry"):
        DurableLedger(address).verify()
    with pytest.raises(LedgerError, match="events but no entry"):
        DurableLedger(address).open_population("people", TOTAL)


def test_the_chain_can_be_checked_without_us(address: str) -> None:
    """An export holds what a privacy officer needs: a dozen lines with hashlib check it."""
    people = opened(address)
    with people.reserve(PART) as book:
        book.charge(event(0.01, name="größe \x00 'quoted'"))
    document = json.loads(json.dumps(DurableLedger(address).export()))
    (population,) = document["populations"]
    head = hashlib.sha256(b"commonground ledger of people").hexdigest()
    spent = Fraction(0)
    for number, line in enumerate(population["events"], start=1):
        head = hashlib.sha256((head + line["body"]).encode()).hexdigest()
        assert line["hash"] == head
        body = json.loads(line["body"])
        assert body["seq"] == number
        if body["kind"] == "charge":
            spent += Fraction(body["event"]["mu"]) ** 2
    assert population["head"] == head
    assert population["n_events"] == 4
    assert population["mu_squared_charged"] == float(spent)


def test_a_clock_that_goes_back_changes_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    people = opened(address)
    days = iter(range(28, 0, -1))
    monkeypatch.setattr(rows, "_now", lambda: f"1999-01-{next(days):02d}T00:00:00.000+00:00")
    with people.reserve(PART) as book:
        book.charge(event(PART.mu / 2))
    lines = [json.loads(body) for body, _ in again(address).events()]
    assert [line["kind"] for line in lines] == ["open", "reserve", "charge", "settle"]
    assert lines[1]["at"] > lines[2]["at"] > lines[3]["at"]
    assert again(address).account().booked == Fraction(PART.mu / 2) ** 2


# --- schema and addresses -------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(address: str) -> None:
    opened(address)
    tamper(address, "UPDATE commonground_ledger SET schema_version = 99")
    with pytest.raises(
        LedgerError,
        match=rf"schema version 99, newer than the {schema.latest_version()} known here\. Update commonground",
    ):
        again(address)
    with pytest.raises(LedgerError, match="newer"):
        DurableLedger(address, create=True)


@pytest.mark.parametrize(
    "nonsense", ["UPDATE commonground_ledger SET schema_version = -3", "DELETE FROM commonground_ledger"]
)
def test_a_missing_schema_version_is_refused(address: str, nonsense: str) -> None:
    opened(address)
    tamper(address, nonsense)
    with pytest.raises(LedgerError, match="no readable schema version"):
        DurableLedger(address, create=True)


def test_an_older_ledger_is_brought_up_to_date(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more step, and one that fails half-way: all of a migration happens, or nothing."""
    opened(address).reserve(PART)
    before = again(address).account()
    steps = schema.MIGRATIONS

    def add_table(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE commonground_extra (number INTEGER)"))

    def fail(connection: Connection) -> None:
        connection.execute(text("SELECT no_such_column FROM commonground_extra"))

    monkeypatch.setattr(schema, "MIGRATIONS", (*steps, add_table, fail))
    with pytest.raises(LedgerError):
        again(address)
    monkeypatch.setattr(schema, "MIGRATIONS", (*steps, add_table))
    assert again(address).account() == before
    tamper(address, "INSERT INTO commonground_extra VALUES (1)")
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    with pytest.raises(LedgerError, match=r"schema version \d+, newer than the \d+ known"):
        again(address)


def run_in_threads(task: Callable[[int], None], n: int) -> list[Exception]:
    problems: list[Exception] = []

    def guarded(number: int) -> None:
        try:
            task(number)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def test_many_may_create_at_once(address: str) -> None:
    problems = run_in_threads(
        lambda number: DurableLedger(address, create=True).open_population(f"people {number % 6}", TOTAL) and None, 12
    )
    assert len(DurableLedger(address).verify()) == 6
    assert sorted(str(problem)[:10] for problem in problems) == ["population"] * 6


def test_threads_may_share_a_handle(address: str) -> None:
    people = opened(address)
    book = people.reserve(PART)
    mu = PART.mu / 10
    problems = run_in_threads(
        lambda number: [book.charge(event(mu)) for _ in range(5)] and people.account() and None, 8
    )
    assert problems == []
    assert again(address).account().charged == 40 * Fraction(mu) ** 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("mysql://me:secret@host/base", r"SQLite file .* or in PostgreSQL .*me:\*\*\*@host"),
        ("sqlite://", "SQLite file"),
        ("postgresql://me:secret@127.0.0.1:1/base", r"me:\*\*\*@127\.0\.0\.1:1/base cannot be reached"),
        ("no/such/folder/budget.db", "there is no folder"),
        ("nonsense://", "SQLite file|cannot be read"),
    ],
)
def test_addresses_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match=message) as caught:
        DurableLedger(wrong, create=True, timeout=1)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_ledger_is_made_by_looking(address: str, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="Create it with `commonground ledger open`"):
        DurableLedger(address)
    assert not (tmp_path / "budget.db").exists()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "music.db") as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    (tmp_path / "thesis.txt").write_text("years of work " * 100)
    with pytest.raises(LedgerError, match="something else"):
        DurableLedger(tmp_path / "music.db", create=True)
    with pytest.raises(LedgerError, match="is damaged"):
        DurableLedger(tmp_path / "thesis.txt", create=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work " * 100


def test_without_the_driver_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r"pip install 'commonground\[postgres\]'"):
        DurableLedger("postgresql://host/base")
