"""`commonground ledger` and `train --ledger` as a person uses them: clear lines, exit code 2 for mistakes."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli import app as cli
from commonground.ledger import DurableLedger


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((600, 4)), columns=list("abcd"))
    rows.assign(user_id=np.repeat(np.arange(100), 6), y=rows.a + rng.standard_normal(600)).to_csv("t.csv", index=False)
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    previous = sys.argv
    sys.argv = ["commonground", *map(str, arguments)]
    cli.to_people = Console(stderr=True, width=500)
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = previous
    out, err = capsys.readouterr()
    return code, out, err


def test_the_whole_way(folder: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Open, train until nothing is left, look, verify, export; on both databases."""
    code, out, err = run("ledger", "open", address, "--population", "customers", "--epsilon", 3, capsys=capsys)
    assert (code, err) == (0, "")
    assert "Population 'customers' has ε = 3 left of ε = 3" in out
    train = ["train", "t.csv", "--epsilon", 2, "--rounds", 2, "--ledger", address, "--population", "customers"]
    code, out, err = run(*train, "--out", "first", capsys=capsys)
    assert code == 0, err
    assert "Population 'customers' has ε = 2.0937 left of ε = 3" in out
    code, out, err = run(*train, "--out", "second", capsys=capsys)
    assert code == 0, err
    code, out, err = run(*train, "--out", "third", capsys=capsys)
    assert code == 3
    assert "population 'customers' has ε = 0." in err
    assert "asks for (ε = 2, δ = 1e-06). Nothing was released." in err
    assert not Path("third").exists()

    code, out, _ = run("ledger", "show", address, capsys=capsys)
    assert code == 0
    assert "customers" in out
    assert "Open reservation" not in out
    code, out, _ = run("ledger", "show", address, "--json", capsys=capsys)
    (account,) = json.loads(out)["populations"]
    assert account["settled_fits"] == 2
    assert account["epsilon_charged"] == account["epsilon_booked"] < 3
    code, out, _ = run("ledger", "events", address, "--population", "customers", capsys=capsys)
    assert "round 2: clipped sum" in out
    code, out, _ = run("ledger", "events", address, "--population", "customers", "--json", capsys=capsys)
    lines = json.loads(out)["events"]
    charged = [line["event"]["name"] for line in lines if line["kind"] == "charge"]
    boards = [cg.Billboard.load(name).statement.events for name in ("first", "second")]
    assert charged == [event.name for events in boards for event in events]
    code, out, _ = run("ledger", "verify", address, capsys=capsys)
    assert (code, f"{len(lines)} events verified; last hash {lines[-1]['hash']}" in out) == (0, True)
    verify = ["ledger", "verify", address, "--population", "customers", "--head"]
    assert run(*verify, lines[3]["hash"], "--json", capsys=capsys)[0] == 0
    code, _, err = run(*verify, "0" * 64, capsys=capsys)
    assert code == 2
    assert "this ledger is older than that hash" in err
    assert run("ledger", "export", address, "--out", "book.json", capsys=capsys)[0] == 0
    document = json.loads(Path("book.json").read_text(encoding="utf-8"))
    assert [line["hash"] for line in document["populations"][0]["events"]] == [line["hash"] for line in lines]
    code, out, _ = run("ledger", "export", address, capsys=capsys)
    assert json.loads(out) == document


def test_an_abandoned_reservation_is_shown_and_settled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = DurableLedger("b.db", create=True).open_population("customers", Budget(3.0, 1e-6))
    abandoned = people.reserve(Budget(2.5, 1e-6), "PrivateFedRep").id
    code, out, _ = run("ledger", "show", "b.db", capsys=capsys)
    assert code == 0
    command = f"commonground ledger settle b.db {abandoned} --population customers"
    assert command in out
    train = [
        "train",
        "t.csv",
        "--out",
        "b",
        "--epsilon",
        2,
        "--rounds",
        1,
        "--ledger",
        "b.db",
        "--population",
        "customers",
    ]
    code, _, err = run(*train, capsys=capsys)
    assert code == 3
    assert "1 open reservations hold ε = 2.5 of it" in err
    code, out, _ = run(*command.split()[1:], capsys=capsys)
    assert (code, "ε = 3 left of ε = 3" in out) == (0, True)
    assert run(*train, capsys=capsys)[0] == 0


def test_personal_budgets_from_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame({"user_id": ["u", "v", "w"], "epsilon": [1.0, 0.5, 1.0]}).to_csv("own.csv", index=False)
    code, out, _ = run(
        "ledger", "open", "b.db", "--population", "p", "--epsilon", 1, "--personal", "own.csv", "--json", capsys=capsys
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["personal_budgets"] == [{"epsilon": 0.5, "people": 1}, {"epsilon": 1.0, "people": 2}]
    assert json.loads(out)["epsilon_left"] == 0.5
    code, out, _ = run("ledger", "show", "b.db", capsys=capsys)
    assert "personal from 0.5" in out


OPEN = ["ledger", "open", "b.db", "--population", "p"]
TRAIN = ["train", "t.csv", "--out", "board", "--rounds", 1]
MISTAKES: dict[str, tuple[list[object], str]] = {
    "epsilon zero": ([*OPEN, "--epsilon", 0], "epsilon must be"),
    "delta one": ([*OPEN, "--epsilon", 1, "--delta", 1], "delta must lie"),
    "open twice": (["ledger", "open", "good.db", "--population", "customers", "--epsilon", 9], "is open already"),
    "no folder": (["ledger", "open", "no/b.db", "--population", "p", "--epsilon", 1], "there is no folder"),
    "personal above total": ([*OPEN, "--epsilon", 0.1, "--personal", "own.csv"], "personal budgets must be"),
    "somebody twice": ([*OPEN, "--epsilon", 9, "--personal", "twice.csv"], "each person once"),
    "no ledger": (["ledger", "show", "b.db"], "there is no ledger 'b.db'"),
    "no ledger to train": ([*TRAIN, "--ledger", "b.db", "--population", "p"], "there is no ledger 'b.db'"),
    "not a ledger": (["ledger", "verify", "t.csv"], "is damaged"),
    "unknown kind": (["ledger", "show", "mysql://host/base"], "PostgreSQL"),
    "unknown population": (["ledger", "events", "good.db", "--population", "p"], "Open ones: 'customers'"),
    "train unknown": ([*TRAIN, "--ledger", "good.db", "--population", "p"], "Open ones: 'customers'"),
    "no population": ([*TRAIN, "--ledger", "good.db"], "belong together"),
    "no ledger given": ([*TRAIN, "--population", "customers"], "belong together"),
    "settle nothing": (["ledger", "settle", "good.db", "beef", "--population", "customers"], "no open reservation 'beef'"),
    "head of whom": (["ledger", "verify", "good.db", "--head", "00"], "--population"),
    "simulated": ([*TRAIN, "--ledger", "good.db", "--population", "customers", "--simulation-seed", 1], "simulated noise"),
    "no place for the result": (
        ["train", "t.csv", "--out", "t.csv", "--ledger", "good.db", "--population", "customers"], "not a billboard",
    ),
    "export nowhere": (["ledger", "export", "good.db", "--out", "no/book.json"], "no/"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = MISTAKES[mistake]
    people = DurableLedger("good.db", create=True).open_population("customers", Budget(3.0, 1e-6))
    pd.DataFrame({"user_id": ["u"], "epsilon": [1.0]}).to_csv("own.csv", index=False)
    pd.DataFrame({"user_id": ["u", "u"], "epsilon": [1.0, 2.0]}).to_csv("twice.csv", index=False)
    before = set(folder.iterdir())
    code, out, err = run(*arguments, capsys=capsys)
    assert code == (3 if mistake == "simulated" else 2), "the budget's refusals have a code of their own"
    assert message in err
    assert "Traceback" not in out + err
    assert {path for path in folder.iterdir() if path.name != "b.db"} == before
    assert people.account().booked == 0, "a mistake must not cost budget"
