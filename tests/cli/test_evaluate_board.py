"""`commonground evaluate BOARD TABLE`, as a person uses it."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commonground.cli import app as cli


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    previous = sys.argv
    sys.argv = ["commonground", *map(str, arguments)]
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = previous
    return code, *capsys.readouterr()


def test_a_board_is_evaluated_charged_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((1600, 3)), columns=list("abc")).assign(
        user_id=np.repeat(np.arange(200), 8)
    )
    rows["y"] = rows.a + rng.standard_normal(200)[rows.user_id] + 0.1 * rng.standard_normal(1600)
    held = np.arange(1600) % 4 == 0
    rows[~held].to_csv("train.csv", index=False)
    rows[held].to_csv("held.csv", index=False)
    paid = ("--ledger", "budget.db", "--population", "p")
    assert run("ledger", "open", "budget.db", "--population", "p", "--epsilon", 2.2, capsys=capsys)[0] == 0
    train = ("train", "train.csv", "--out", "board", "--rank", 0, "--rounds", 1, "--epsilon", 2, *paid)
    assert run(*train, capsys=capsys)[0] == 0
    assert run("personalize", "board", "train.csv", "--out", "heads.parquet", capsys=capsys)[0] == 0

    asked = ("evaluate", "board", "held.csv", "--heads", "heads.parquet")
    code, out, _ = run(*asked, "--epsilon", 0.5, *paid, capsys=capsys)
    assert code == 0
    assert "rmse" in out
    assert "A ledger has it as reservation" in out.replace("\n", " ")
    assert max(map(len, out.splitlines()[:12])) <= 80
    assert run(*asked, "--epsilon", 2, *paid, capsys=capsys)[0] == 3, "what is left is not enough"

    code, out, _ = run(*asked, "--internal", "--json", capsys=capsys)
    exact = json.loads(out)
    assert (code, exact["private"], exact["epsilon"]) == (0, False, "inf")
    assert exact["by"] == "people's own heads"
    code, out, _ = run("evaluate", "board", "held.csv", "--internal", "--json", capsys=capsys)
    shared = json.loads(out)
    assert shared["by"] == "the shared prediction"
    assert exact["measures"]["rmse"]["value"] < 0.8 * shared["measures"]["rmse"]["value"]  # its noise is real

    for wrong, why in (
        (("evaluate", "board"), "is a board"),
        (("evaluate", "held.csv"), "--out"),
        (("evaluate", "held.csv", "--clip", 1, "--out", "x"), "BOARD TABLE"),
        ((*asked, "--rank", 1), "--rank"),
        ((*asked, "--internal", *paid), "--internal"),
        ((*asked, "--ledger", "budget.db"), "belong together"),
        ((*asked, "more"), "3 places"),
    ):
        code, _, err = run(*wrong, capsys=capsys)
        assert code == 2, wrong
        assert why in err.replace("\n", " "), (wrong, err)
