"""Boards and their ledger name each other: an unbooked board, an older ledger, a copy and a rewritten statement are seen."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sqlalchemy import text

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.billboard.board import Billboard
from commonground.billboard.in_ledger import boards_in, problem_with, refuse_older_than_boards
from commonground.cli import app as cli
from commonground.errors import InputError, PrivacyWarning
from commonground.ledger import DurableLedger, LedgerError, Population
from forgery import rewrite

TOTAL = Budget(5.0, 1e-6)


@pytest.fixture(scope="module")
def users() -> cg.Users:
    return cg.datasets.make_shared_subspace(n_users=200, rows_per_user=4, n_features=4, rank=1, seed=0)[0]


def published(people: Population, users: cg.Users, folder: Path, epsilon: float = 1.0) -> Path:
    return cg.SingleModel(epsilon=epsilon).fit(users, ledger=people).billboard_.save(folder)


def test_board_and_ledger_name_each_other(address: str, users: cg.Users, tmp_path: Path) -> None:
    book = DurableLedger(address, create=True)
    people = book.open_population("people", TOTAL)
    folder = published(people, users, tmp_path / "board")
    board, chain = Billboard.load(folder), people.events()
    entry = board.statement.ledger
    assert entry is not None
    events = [json.loads(body) for body, _ in chain]
    last = max(i for i, event in enumerate(events) if event["kind"] == "charge")
    assert (entry.population, entry.sequence, entry.head) == ("people", last + 1, chain[last][1])
    assert {event["reservation"] for event in events[1:]} == {entry.reservation}
    assert [event["board"] for event in events if event["kind"] == "board"] == [board.fingerprint]
    assert f"reservation {entry.reservation} of the population 'people'" in str(board.statement)
    assert problem_with(folder, book) is None
    refuse_older_than_boards(people, tmp_path)


def test_a_board_that_nobody_booked_is_seen(users: cg.Users, tmp_path: Path) -> None:
    book = DurableLedger(tmp_path / "b.db", create=True)
    book.open_population("people", TOTAL)
    folder = cg.SingleModel(epsilon=1.0).fit(users).billboard_.save(tmp_path / "board")
    assert "names no entry of a ledger" in str(problem_with(folder, book))
    seeded = cg.SingleModel(epsilon=1.0, simulation_seed=1).fit(users).billboard_.save(tmp_path / "seeded")
    assert "is not private" in str(problem_with(seeded, book))
    assert problem_with(cg.OwnDataOnly().fit(users).billboard_.save(tmp_path / "own"), book) is None


def test_a_restored_backup_is_noticed_by_a_process_that_never_saw_more(users: cg.Users, tmp_path: Path) -> None:
    file, backup = tmp_path / "b.db", tmp_path / "backup.db"
    people = DurableLedger(file, create=True).open_population("people", TOTAL)
    published(people, users, tmp_path / "boards" / "first")
    shutil.copy(file, backup)
    second = published(people, users, tmp_path / "boards" / "second")
    shutil.copy(backup, file)
    book = DurableLedger(file)  # as a new process opens it: nothing looks wrong …
    again = book.population("people")
    assert "it is an older copy" in str(problem_with(second, book))  # … but the board remembers
    with pytest.raises(
        LedgerError, match=r"does not have the entry of .*second: it ends at event .*it is an older copy"
    ):
        refuse_older_than_boards(again, tmp_path / "boards")
    assert problem_with(tmp_path / "boards" / "first", book) is None


def test_a_restored_server_is_noticed_too(address: str, users: cg.Users, tmp_path: Path) -> None:
    """The same on both databases, by cutting off what came after the backup."""
    book = DurableLedger(address, create=True)
    people = book.open_population("people", TOTAL)
    n, head = people.account().count, people.account().head
    folder = published(people, users, tmp_path / "board")
    triggers = (
        ["DROP TRIGGER commonground_append_only ON commonground_events"]
        if "://" in address
        else ["DROP TRIGGER commonground_no_delete"]
    )
    with book._storage.writing() as connection:
        for statement in (
            *triggers,
            f"DELETE FROM commonground_events WHERE seq > {n}",
            f"UPDATE commonground_populations SET n_events = {n}, head = '{head}'",
        ):
            connection.execute(text(statement))
    restored = DurableLedger(address)
    restored.verify()
    assert "it is an older copy" in str(problem_with(folder, restored))
    with pytest.raises(LedgerError, match="older copy"):
        refuse_older_than_boards(restored.population("people"), tmp_path)


def test_a_copy_that_was_spent_from_elsewhere_is_noticed(users: cg.Users, tmp_path: Path) -> None:
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    DurableLedger(one, create=True).open_population("people", TOTAL)
    shutil.copy(one, two)
    here = published(DurableLedger(one).population("people"), users, tmp_path / "here")
    there = published(DurableLedger(two).population("people"), users, tmp_path / "there")
    assert problem_with(here, DurableLedger(one)) is None
    assert "a copy with a history of its own" in str(problem_with(there, DurableLedger(one)))
    with pytest.raises(LedgerError, match=r"does not have the entry of .*there"):
        refuse_older_than_boards(DurableLedger(one).population("people"), tmp_path)
    elsewhere = DurableLedger(tmp_path / "new.db", create=True)
    assert "no population 'people'" in str(problem_with(here, elsewhere))


def keep_first_release(document: dict[str, Any]) -> None:
    """Fewer releases, and everything recomputed from those that are left."""
    statement = cg.billboard.statement.Statement.from_json({**document, "events": document["events"][:1]})
    document.update(events=document["events"][:1], epsilon_spent=statement.epsilon_spent)


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], Callable[[dict[str, np.ndarray]], object], str]] = {
    "a smaller claim": (lambda d: d.update(epsilon=0.999999), lambda a: None, "has booked another budget"),
    "releases left out": (keep_first_release, lambda a: None, "lists 1 releases, and they are not the"),
    "other numbers": (lambda d: None, lambda a: a.update(mean=a["mean"] + 1), "not the board that the ledger names"),
    "another fit's entry": (
        lambda d: d["ledger"].update(reservation="0" * 16), lambda a: None, "has booked another budget",
    ),
    "no entry": (lambda d: d.update(ledger=None), lambda a: None, "names no entry"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGED)
def test_the_ledger_sees_a_rewritten_board_that_agrees_with_itself(
    users: cg.Users, tmp_path: Path, forgery: str
) -> None:
    book = DurableLedger(tmp_path / "b.db", create=True)
    folder = published(book.open_population("people", TOTAL), users, tmp_path / "board")
    assert problem_with(folder, book) is None
    claim, arrays, why = FORGED[forgery]
    rewrite(folder, claim, arrays)
    Billboard.load(folder)  # by itself there is nothing wrong with it
    assert why in str(problem_with(folder, book))


def test_training_across_owners_is_named_too(users: cg.Users, tmp_path: Path) -> None:
    book = DurableLedger(tmp_path / "b.db", create=True)
    people = book.open_population("owners", TOTAL)
    rng = np.random.default_rng(0)
    X, owners = rng.standard_normal((120, 3)), np.repeat(np.arange(4), 30)
    model = cg.JointSGDRegressor(epsilon=1.0, delta=1e-6, steps=5, sampling_probability=0.2)
    folder = model.fit(X, X[:, 0], owners, ledger=people).billboard_.save(tmp_path / "board")
    assert problem_with(folder, book) is None
    rewrite(folder, arrays=lambda a: a.update(coefficients=a["coefficients"] + 1.0))
    assert "not the board that the ledger names" in str(problem_with(folder, book))


def test_two_boards_for_one_payment_are_seen(users: cg.Users, tmp_path: Path) -> None:
    """As two runs leave them that were resumed from two copies of one checkpoint."""
    book = DurableLedger(tmp_path / "b.db", create=True)
    people = book.open_population("people", TOTAL)
    folder = published(people, users, tmp_path / "board")
    board = Billboard.load(folder)
    assert board.statement.ledger is not None
    people.published(board.statement.ledger.reservation, board.fingerprint)  # the same again: the same run
    assert problem_with(folder, book) is None
    people.published(board.statement.ledger.reservation, "f" * 64)
    assert "one of 2 boards that were published for what was paid once" in str(problem_with(folder, book))


def test_a_ledger_that_cannot_be_told_the_board_warns_and_loses_nothing(users: cg.Users, tmp_path: Path) -> None:
    people = DurableLedger(tmp_path / "b.db", create=True).open_population("people", TOTAL)
    book = people.reserve(Budget(1.0, 1e-6))
    (tmp_path / "b.db").rename(tmp_path / "gone.db")
    with pytest.warns(PrivacyWarning, match="does not name the board"):
        book.published("f" * 64)


def test_boards_that_cannot_be_read_do_not_stop_a_training(users: cg.Users, tmp_path: Path) -> None:
    people = DurableLedger(tmp_path / "b.db", create=True).open_population("people", TOTAL)
    for number, content in enumerate(["", "[" * 100_000, '{"ledger": 3}', '{"ledger": {"population": "people"}}']):
        (tmp_path / f"broken{number}").mkdir()
        (tmp_path / f"broken{number}" / "statement.json").write_text(content)
    assert len(list(boards_in(tmp_path))) == 4
    refuse_older_than_boards(people, tmp_path)
    assert list(boards_in(tmp_path / "nowhere")) == []


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Train, go back to a backup, train again: refused before anything is spent, and `ledger check` says why."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "to_people", Console(stderr=True, width=700))

    def commonground(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["commonground", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as stop:
            return int(stop.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    rng = np.random.default_rng(0)
    rows = [f"{user},{','.join(f'{x:.4f}' for x in rng.standard_normal(4))}" for user in range(60) for _ in range(4)]
    Path("t.csv").write_text("user_id,a,b,c,y\n" + "\n".join(rows) + "\n")
    train = "train", "t.csv", "--epsilon", 1, "--rounds", 1, "--ledger", "b.db", "--population", "people", "--out"
    assert commonground("ledger", "open", "b.db", "--population", "people", "--epsilon", 3)[0] == 0
    shutil.copy("b.db", "backup.db")
    assert commonground(*train, "boards/one")[0] == 0
    code, out, _ = commonground("ledger", "check", "b.db", "--boards", "boards")
    assert (code, out) == (0, "boards/one: booked, and as the ledger has it\n")
    shutil.copy("backup.db", "b.db")
    code, _, message = commonground(*train, "boards/two")
    assert (code, "it is an older copy" in message, Path("boards/two").exists()) == (2, True, False)
    assert DurableLedger("b.db").population("people").account().count == 1, "nothing was booked"
    code, out, message = commonground("ledger", "check", "b.db", "--boards", "boards/one", "--json")
    assert (code, "1 of 1 boards" in message) == (2, True)
    assert "older copy" in json.loads(out)["boards"][0]["problem"]
    code, _, message = commonground("ledger", "check", "b.db", "--boards", "t.csv")
    assert (code, "is no board and holds none" in message) == (2, True)


# --- names of populations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["people ", " people", "people\t", "people\n", "peo\x00ple", "peo\u200bple", "people\u00a0", "", " ", "x" * 201],
)
def test_a_name_with_what_cannot_be_seen_is_refused(address: str, name: str) -> None:
    book = DurableLedger(address, create=True)
    book.open_population("people", TOTAL)
    with pytest.raises(InputError, match="without spaces at its ends"):
        book.open_population(name, TOTAL)
    with pytest.raises(InputError, match="without spaces at its ends"):
        book.population(name)
    assert book.populations() == ["people"]


def test_one_name_in_two_spellings_is_one_population(address: str) -> None:
    book = DurableLedger(address, create=True)
    book.open_population("Gro\u0308ße", TOTAL)
    assert book.populations() == ["Größe"]
    assert book.population("Gro\u0308ße").name == book.population("Größe").name == "Größe"
    with pytest.raises(LedgerError, match="is open already"):
        book.open_population("Größe", TOTAL)
    for alike in ("größe", "GRÖSSE", "Ｇröße"):
        with pytest.raises(LedgerError, match="differ from the open 'Größe' by capitals, spaces or the spelling"):
            book.open_population(alike, TOTAL)
    book.open_population("two words", TOTAL)
    with pytest.raises(LedgerError, match="differ from the open 'two words'"):
        book.open_population("two  words", TOTAL)


def test_a_population_with_an_older_odd_name_can_still_be_spent_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commonground.ledger import durable

    book = DurableLedger(tmp_path / "b.db", create=True)
    with monkeypatch.context() as before:
        before.setattr(durable, "population_name", lambda name: name)
        book.open_population("people ", TOTAL)
    book.population("people ").reserve(Budget(1.0, 1e-6))
    with pytest.raises(LedgerError, match=r"no population 'people' in this ledger\. Open ones: 'people '"):
        book.population("people")


def test_a_ledger_from_before_boards_were_named_is_brought_up_to_date(
    address: str, users: cg.Users, tmp_path: Path
) -> None:
    people = DurableLedger(address, create=True).open_population("people", TOTAL)
    with DurableLedger(address)._storage.writing() as connection:
        connection.execute(text("DROP TABLE commonground_columns"))  # as it was then
        connection.execute(text("UPDATE commonground_ledger SET schema_version = 1"))
    before = people.account()
    book = DurableLedger(address)
    assert book.population("people").account() == before
    assert problem_with(published(book.population("people"), users, tmp_path / "board"), book) is None


def test_statements_are_equal_but_for_the_entry(users: cg.Users, tmp_path: Path) -> None:
    people = DurableLedger(tmp_path / "b.db", create=True).open_population("people", TOTAL)
    booked = cg.SingleModel(epsilon=1.0).fit(users, ledger=people).billboard_.statement
    plain = cg.SingleModel(epsilon=1.0).fit(users).billboard_.statement
    assert plain.ledger is None
    assert replace(booked, ledger=None).to_json().keys() == plain.to_json().keys()
