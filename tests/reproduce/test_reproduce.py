"""The papers' results: what can be had without the data sets, in the fast version."""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from commonground.cli import app as cli
from commonground.cli import reproduce as reproduce_cli
from commonground.datasets.real import FOLDER_VARIABLE
from commonground.reproduce import Claim, Outcome, PaperResult, Row, paper_results
from commonground.reproduce.p3 import noise_of_rate_one
from commonground.reproduce.p3_settings import Sweep, budgets_like, printed, recovered, synthetic


def command(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    previous, sys.argv = sys.argv, ["commonground", "reproduce", *map(str, arguments)]
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = previous
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command("--list", "--json", capsys=capsys)
    names = [result["name"] for result in json.loads(out)["results"]]
    assert code == 0
    assert names == list(paper_results())
    assert [f"p3-table{number:02d}" for number in range(1, 15)] == [name for name in names if "p3-table" in name]
    assert [f"p3-fig{number:02d}" for number in range(1, 20)] == [name for name in names if "p3-fig" in name]
    assert "p3-table01" in command("--list", capsys=capsys)[1]


def test_a_table_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command("p3-table01", "--fast", "--out", tmp_path, capsys=capsys)
    assert code == 0
    assert "p3-table01 (fast)" in out
    with open(tmp_path / "p3-table01-fast.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert {"lambda", "method", "ours", "printed", "difference"} <= set(rows[0])
    assert (tmp_path / "p3-table01-fast.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = command("p3-fig06", "p3-table07", "--fast", "--json", "--out", tmp_path, capsys=capsys)
    documents = json.loads(out)
    assert code == 0
    assert [document["name"] for document in documents] == ["p3-fig06", "p3-table07"]
    assert all(document["fast"] and not document["claims"] for document in documents)


def test_a_fast_run_claims_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is another experiment: no claim, no verdict, no printed number beside it, no sizes of the full one."""
    shown = command("p3-table01", "--fast", "--out", tmp_path, capsys=capsys)[1]
    assert "nothing is said about the paper" in shown
    for word in ("holds", "does not hold", "agree", "DIFFERS", "10,000 runs;"):
        assert word not in shown, word
    with open(tmp_path / "p3-table01-fast.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert row["printed"] == row["difference"] == row["verdict"] == ""


def test_whatever_a_result_returns_a_fast_run_judges_nothing() -> None:
    row = Row({"n": 1.0}, 1.2, printed=1.0, tolerance=0.1)
    result = PaperResult("p0", "made up", "none", lambda fast, show: Outcome([row], [Claim("so it is", True, "seen")]))
    assert result.outcome(False, False).rows[0].verdict == "DIFFERS"
    fast = result.outcome(True, False)
    assert fast.claims == []
    assert [(one.printed, one.verdict) for one in fast.rows] == [(None, "")]


def test_fitted_cells_are_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row({"n": float(n)}, 1.0, printed=1.0, tolerance=0.1, fitted=n > 1) for n in range(4)]
    result = PaperResult("p0-table1", "made up", "none", lambda fast, show: Outcome(rows))
    monkeypatch.setattr(reproduce_cli, "chosen", lambda names: [result])
    out = command("p0-table1", "--out", tmp_path, capsys=capsys)[1]
    assert "2 of 2 judged numbers agree; apart from them 2 of 2 to which a setting was fitted" in out


@pytest.mark.parametrize("name", ["p3-table01", "p3-table07", "p3-fig06"])
def test_claims_of_p3(name: str) -> None:
    claims = paper_results()[name].run(True, False).claims  # 500 runs are enough for these
    assert claims
    assert all(claim.holds for claim in claims if "smallest" in claim.text or name == "p3-table01")


def test_titles_hold_no_sizes() -> None:
    for result in paper_results().values():
        assert "n =" not in result.title
        assert "fast" not in result.settings
        assert "nothing about the paper" in result.description(fast=True)
        assert result.description(fast=False) == result.settings


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    code, _, error = command("p3-table02", "--fast", "--out", tmp_path / "out", capsys=capsys)
    assert code == 2
    assert "insurance" in error
    code, _, error = command("p7-table1", capsys=capsys)
    assert code == 2
    assert "p3-table01" in error
    code, _, error = command(capsys=capsys)
    assert code == 2
    assert "--list" in error


def test_a_result_that_differs_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = Outcome(
        [Row({"n": 1.0}, 1.2, printed=1.0, tolerance=0.1), Row({"n": 2.0}, 1.05, printed=1.0, tolerance=0.1)],
        [Claim("two is more than one", False, "1 of 2")],
    )
    result = PaperResult("p0-table1", "made up", "none", lambda fast, show: outcome)
    monkeypatch.setattr(reproduce_cli, "chosen", lambda names: [result])
    code, out, _ = command("p0-table1", "--out", tmp_path, capsys=capsys)
    assert code == 0
    assert "DIFFERS" in out
    assert "agrees" in out
    assert "+20.0%" in out
    assert "does not hold" in out
    assert "1 of 2 judged numbers agree" in out


# ---- P3 -------------------------------------------------------------------------------------------------------------


def test_every_printed_cell_is_here() -> None:
    assert len(printed()) == 750
    assert printed()[2, 1.0, "unregularized", "pdp_op"] == (0.215, "")
    misprints = {key[:2] for key, (_, note) in printed().items() if note == "misprint"}
    assert misprints == {(3, 0.3), (11, 1.0), (14, 0.01)}


def test_settings_are_recovered_from_print() -> None:
    """What the derivation by hand found for Table 1: Σε of 43.1 to 43.6 and n·min ε of 1.87 to 1.89 on every row."""
    sweep = Sweep("t", "synthetic", "lambda", (1.0,), ("pdp_op", "non_personalized"), table=1)
    data = synthetic(0.0024)
    for value in (1.0, 10.0, 100.0, 200.0):
        assert recovered(sweep, value, "pdp_op", data) == pytest.approx(43.35, rel=0.01)
        assert recovered(sweep, value, "non_personalized", data) == pytest.approx(1.88, rel=0.01)
    budgets = budgets_like(80, sweep, total=43.35, smallest=1.88 / 80)
    assert budgets.sum() == pytest.approx(43.35, rel=0.01)
    assert budgets.min() == pytest.approx(1.88 / 80)


def test_noise_has_a_gamma_radius() -> None:
    radius = np.linalg.norm(noise_of_rate_one(20_000, 12, seed=1), axis=1)
    assert radius.mean() == pytest.approx(12, rel=0.02)
    assert (radius**2).mean() == pytest.approx(12 * 13, rel=0.03)
