"""`commonground tune`, as a person uses it."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground.cli import app as cli
from commonground.cli.tune import grid_in
from commonground.errors import InputError


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


def test_the_winner_is_published_and_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.standard_normal((2400, 3)), columns=list("abc"))
    rows = rows.assign(user_id=np.repeat(np.arange(300), 8))
    rows["y"] = rows.a * rng.standard_normal(300)[rows.user_id] + 0.1 * rng.standard_normal(2400)
    rows.to_csv("t.csv", index=False)
    paid = ("--ledger", "budget.db", "--population", "p")
    assert run("ledger", "open", "budget.db", "--population", "p", "--epsilon", 5, capsys=capsys)[0] == 0
    tune = ("tune", "t.csv", "--out", "board", "--try", "rank=0,1", "--epsilon", 4)
    code, out, _ = run(*tune, *paid, "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert [one["free"] for one in found["candidates"]] == [True, False]
    assert found["epsilon_spent"] <= 4.0
    board = cg.Billboard.load("board")
    assert board.rank == found["best"]["rank"]
    assert board.statement.ledger is not None
    assert run(*tune, *paid, capsys=capsys)[0] == 2, "a board is there"
    assert run(*tune, *paid, "--force", capsys=capsys)[0] == 3, "what is left is not enough"
    code, _, err = run("tune", "t.csv", "--out", "x", "--try", "epsilon=1,2", capsys=capsys)
    assert (code, "cannot be searched" in err.replace("\n", " ")) == (2, True)


def test_grids_as_they_are_written() -> None:
    assert grid_in(["rank=0,1", "intercept=no", "rounds=3, none", "recipe=paper"]) == {
        "rank": [0, 1],
        "fit_intercept": [False],
        "n_rounds": [3, None],
        "recipe": ["paper"],
    }
    for wrong in ("rank", "rank=", "=1"):
        with pytest.raises(InputError, match="--try"):
            grid_in([wrong])
