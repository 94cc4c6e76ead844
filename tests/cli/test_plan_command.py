"""`commonground plan`, and `train --start`: what refits bring is told from a board, and then they are made."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli.app import app
from commonground.datasets.drifting import DriftingPeople
from commonground.ledger import DurableLedger

RNG = np.random.default_rng(0)
WORLD = DriftingPeople(np.linalg.qr(RNG.standard_normal((6, 1)))[0], np.diag([0.3, 1.0]), 0.5, np.ones(6), 1.0)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    users = WORLD.rows(WORLD.own_parts(2000, 1), 0.0, 5, 1)
    place = tmp_path_factory.mktemp("boards") / "first"
    cg.PrivateFedRep(1, 4.0, keep_heads=False).fit(users).billboard_.save(place)
    return place


def test_a_plan_is_a_table_a_figure_and_what_the_ledger_allows(board: Path, tmp_path: Path) -> None:
    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(2.0, 1e-6))
    with people.reserve(Budget(1.0, 1e-6)) as book:
        assert book is not None
    asked = ["plan", str(board), "--out", str(tmp_path / "plan"), "--epsilon", "2", "--rows", "5", "--refits", "1,3"]
    paid = ["--drift", "60", "--ledger", str(tmp_path / "l.db"), "--population", "p"]
    done = CliRunner().invoke(app, [*asked, *paid, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [year["refits"] for year in told["years"]] == [1, 3]
    assert told["allowed"] == {"1": 1, "3": 3}
    once, thrice = told["years"]
    assert told["rmse_floor"] < thrice["rmse"] < once["rmse"] < 1.05 * told["rmse_unchanged"], "directions turn by 60°"
    with (tmp_path / "plan" / "plan.csv").open() as file:
        assert [row["refits"] for row in csv.DictReader(file)] == ["1", "3"]
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "plan" / "plan.svg").read_text(encoding="utf-8")
    assert people.account().charged == 0, "a plan spends nothing"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--refits", "0"], "--refits must be numbers"),
        (["--refits", "many"], "--refits must be numbers"),
        (["--ledger", "l.db"], "belong together"),
        (["--people", "1"], "--people must be at least 2"),
    ],
)
def test_what_cannot_be_planned_is_said(board: Path, tmp_path: Path, options: list[str], why: str) -> None:
    done = CliRunner().invoke(app, ["plan", str(board), "--out", str(tmp_path / "p"), *options])
    assert why in str(done.exception)


def test_a_table_is_trained_on_from_an_earlier_board(board: Path, tmp_path: Path) -> None:
    users = WORLD.rows(WORLD.own_parts(300, 2), 0.0, 4, 2)
    lines = ["user_id,y," + ",".join(f"x{i}" for i in range(6))]
    for block in users.blocks():
        person = np.repeat(np.arange(block.n_users), np.diff(block.offsets))
        lines += [f"{p},{y},{','.join(map(str, x))}" for p, y, x in zip(person, block.y, block.X, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    train = [
        "train",
        str(tmp_path / "t.csv"),
        "--epsilon",
        "1",
        "--start",
        str(board),
    ]  # of the rank that the board has
    dry = CliRunner().invoke(app, [*train, "--out", str(tmp_path / "b"), "--dry-run", "--json"])
    assert dry.exit_code == 0, dry.output
    assert "initial embedding" not in {one["name"] for one in json.loads(dry.stdout)["releases"]}
    done = CliRunner().invoke(app, [*train, "--out", str(tmp_path / "b"), "--json"])
    assert done.exit_code == 0, done.output
    made, first = cg.Billboard.load(tmp_path / "b"), cg.Billboard.load(board)
    assert made.statement.parameters["start"] == first.fingerprint
    assert cg.metrics.subspace_distance(made.embedding, WORLD.embedding) < 0.5
    with pytest.raises(Exception, match="is about 6 features"):
        CliRunner().invoke(app, [*train, "--features", "x0,x1", "--out", str(tmp_path / "c")], catch_exceptions=False)
