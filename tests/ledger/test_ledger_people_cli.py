"""`commonground ledger` with an account for everybody, as a person uses it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_ledger_cli import run

NAMED = ["--population", "crowd"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((300, 2)), columns=list("ab"))
    rows.assign(user_id=np.repeat(np.arange(50), 6), y=rows.a).to_csv("t.csv", index=False)
    own = pd.DataFrame({"user_id": np.arange(50), "epsilon": np.where(np.arange(50) % 2, 0.5, 2.0)})
    own[:45].to_csv("own.csv", index=False)
    own[45:].to_csv("new.csv", index=False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
def test_accounts_from_opening_to_leaving(folder: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        "ledger", "open", address, *NAMED, "--epsilon", 2, "--personal", "own.csv", "--each", capsys=capsys
    )
    assert (code, err) == (0, "")
    assert "Of 45 people of 'crowd' with accounts of their own, 45 can take part in a fit" in out
    train = ["train", "t.csv", "--model", "single", "--epsilon", 1, "--ledger", address, *NAMED]
    code, _, err = run(*train, "--out", "first", capsys=capsys)
    assert code == 2
    assert "5 of 50 people have no account in population 'crowd', for example 45." in err
    code, out, _ = run("ledger", "join", address, *NAMED, "--personal", "new.csv", capsys=capsys)
    assert (code, "Of 50 people" in out) == (0, True)
    code, out, err = run(*train, "--out", "first", capsys=capsys)
    assert code == 0, err
    assert "25 can take part in a fit, half of them with at least ε = 1.673; 25 have run dry" in out
    assert run("ledger", "leave", address, "2", "4", *NAMED, capsys=capsys)[0] == 0
    code, out, err = run(*train, "--out", "second", capsys=capsys)
    assert code == 0, err
    statement = json.loads((folder / "second" / "statement.json").read_text())
    assert statement["budgets"]["taking no part"] == 27

    code, out, _ = run("ledger", "person", address, "7", *NAMED, capsys=capsys)
    assert code == 0
    assert "Her limit is ε = 0.5 at δ = 1e-06; 1 fits have cost her ε = 0.5 together" in out
    code, out, _ = run("ledger", "person", address, "6", *NAMED, "--json", capsys=capsys)
    facts = json.loads(out)
    assert [fit["purpose"] for fit in facts["fits"]] == ["SingleModel", "SingleModel"]
    assert facts["epsilon"] == 2.0
    assert facts["mu_squared_spent"] == pytest.approx(sum(fit["mu_squared"] for fit in facts["fits"]))
    code, out, _ = run("ledger", "person", address, "2", *NAMED, capsys=capsys)
    assert "she is left out of further fits" in out
    code, _, err = run("ledger", "person", address, "99", *NAMED, capsys=capsys)
    assert (code, "have no account in population 'crowd', for example 99" in err) == (2, True)

    code, out, _ = run("ledger", "show", address, capsys=capsys)
    assert "50 accounts" in out
    assert "25 have run dry and 2 are left out" in out
    code, out, _ = run("ledger", "show", address, "--json", capsys=capsys)
    (shown,) = json.loads(out)["populations"]
    assert shown["people"] == 50
    assert shown["accounts"]["run_dry"] == 25
    assert shown["epsilon_booked"] <= 2
    assert run("ledger", "verify", address, capsys=capsys)[0] == 0
    assert run("ledger", "check", address, "--boards", ".", capsys=capsys)[0] == 0
    assert run("ledger", "report", address, "--out", "r.html", capsys=capsys)[0] == 0
    assert "50 people have accounts of their own; 25 have run dry" in (folder / "r.html").read_text()


def test_mistakes_with_accounts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opening = ["ledger", "open", "b.db", *NAMED, "--epsilon", 2]
    code, _, err = run(*opening, "--each", capsys=capsys)
    assert (code, "--personal own.csv" in err) == (2, True)
    assert run(*opening, capsys=capsys)[0] == 0
    for command in (["person", "b.db", "7"], ["leave", "b.db", "7"], ["join", "b.db", "--personal", "new.csv"]):
        code, _, err = run("ledger", *command, *NAMED, capsys=capsys)
        assert (code, "keeps one budget for all" in err) == (2, True)
