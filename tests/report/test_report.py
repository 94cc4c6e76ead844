"""The report: true numbers, nothing private, nothing that a name can break, nothing fetched from elsewhere."""

import html.parser
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli.app import app
from commonground.data.users import Users
from commonground.errors import BillboardError, BudgetError, InputError
from commonground.heads.kinds import PosteriorHeads
from commonground.ledger import DurableLedger
from commonground.report.board import INTERNAL, report_of_board, report_of_shared
from commonground.report.checklist import NOT_HERE, answers
from commonground.report.formats import card, registry
from commonground.report.gains import Gains
from commonground.report.guarantee import curve_of_budget
from commonground.report.html import percent
from made_boards import HOSTILE, a_board, pure_board, shared_parameters


class Reader(html.parser.HTMLParser):
    """What a browser would make of it: elements with attributes, and whether all are closed."""

    VOID = ("meta", "rect", "path", "circle", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def people(n: int = 60, d: int = 4, seed: int = 1) -> Users:
    draw = np.random.default_rng(seed)
    X = draw.standard_normal((8 * n, d))
    return Users.from_arrays(X, X @ np.arange(1.0, d + 1) + draw.standard_normal(8 * n), np.repeat(np.arange(n), 8))


@pytest.mark.parametrize(
    "text", [report_of_board(a_board()), report_of_board(pure_board()), report_of_shared(shared_parameters())]
)
def test_it_is_one_well_formed_file_that_asks_nobody_for_anything(text: str) -> None:
    page = Reader(text)
    assert not page.open
    tags = {tag for tag, _ in page.seen}
    assert not tags & {"script", "iframe", "object", "img", "link", "form", "base", "audio", "video"}
    addresses = [
        value
        for _, attributes in page.seen
        for name, value in attributes.items()
        if name in ("href", "src", "xlink:href")
    ]
    assert addresses
    assert all(value and value.startswith("#") for value in addresses)
    assert "http://" not in text
    assert "https://" not in text
    assert "default-src 'none'" in next(a["content"] or "" for t, a in page.seen if t == "meta" and "http-equiv" in a)
    assert not any(name.startswith("on") for _, attributes in page.seen for name in attributes)
    assert len(text.encode()) < 300_000


def test_it_can_be_read_without_seeing() -> None:
    page = Reader(report_of_board(a_board()))
    levels = [int(tag[1]) for tag, _ in page.seen if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    count = {tag: sum(one == tag for one, _ in page.seen) for tag in ("table", "caption", "svg", "main", "nav", "h1")}
    assert count["table"] == count["caption"] > 5
    assert all(
        attributes.get("aria-label") and attributes.get("role") == "img"
        for tag, attributes in page.seen
        if tag == "svg"
    )
    assert count["main"] == count["nav"] == count["h1"] == 1
    ids = [attributes["id"] for _, attributes in page.seen if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_names_do_nothing() -> None:
    text = report_of_board(a_board())
    assert "<script" not in text
    assert "<b>" not in text
    for name in (*HOSTILE, "round 1, <b>gradient</b>"):
        assert name[:23] in Reader(text).text


def test_the_numbers_are_those_of_the_trade_off_curve() -> None:
    told = Reader(report_of_board(a_board())).text
    mu = np.sqrt(0.02)
    curve = curve_of_budget(1.0, 1e-6)
    assert curve.mu > mu  # what is told is what was spent, not what was declared
    from scipy.stats import norm

    found = norm.cdf(norm.ppf(0.01) + mu)
    assert percent(found) in told
    assert percent(found / (found + 0.01)) in told
    assert f"{mu:.4g}" in told
    assert "73.1 %" in told  # e/(1 + e)


def test_a_report_tells_nothing_that_the_board_does_not() -> None:
    """It is made from the board alone, so two people's tables that gave the same board give the same report."""
    board = a_board()
    assert report_of_board(board) == report_of_board(a_board())
    assert "Who gains" not in report_of_board(board).replace("See Who gains", "")
    assert "INTERNAL" not in report_of_board(board)


def test_held_out_rows_make_it_internal_and_for_its_owners_eyes(tmp_path: Path) -> None:
    path = a_board(("a", "b", "c", "d")).report(tmp_path / "internal.html", heldout=people())
    assert path.stat().st_mode & 0o777 == 0o600
    text = path.read_text(encoding="utf-8")
    assert text.count("NOT PRIVATE, DO NOT PUBLISH") == 2
    assert INTERNAL in Reader(text).text
    assert "<title>INTERNAL" in text
    public = a_board(("a", "b", "c", "d")).report(tmp_path / "public.html")
    assert public.stat().st_mode & 0o777 == 0o644


def test_gains_are_those_of_heads_fitted_without_the_rows_held_out() -> None:
    board, users = a_board(("a", "b", "c", "d")), people()
    gains = Gains.of(board, users)
    assert "private" in repr(gains)
    X, y = users.rows_of(7)
    out = np.arange(8) % 4 == 1
    head = board.personalize(X[~out], y[~out])
    assert gains.errors[7, 0] == pytest.approx(np.mean((head.predict(X[out]) - y[out]) ** 2), rel=1e-12)
    assert gains.errors[7, 1] == pytest.approx(np.mean((board.predict(X[out]) - y[out]) ** 2), rel=1e-12)
    kept = np.arange(8) % 4 != 1
    mine = [users.rows_of(person) for person in (7, 8)]
    own = cg.OwnDataOnly().fit(
        np.concatenate([rows[kept] for rows, _ in mine]),
        np.concatenate([labels[kept] for _, labels in mine]),
        users=np.repeat([7, 8], 6),
    )
    assert gains.errors[7, 2] == pytest.approx(np.mean((own.predict(X[out], users=[7, 7]) - y[out]) ** 2), rel=1e-9)
    assert (gains.own_rows == 6).all()
    assert sum(rows for _, _, rows in gains.calibration) == 2 * 60


def test_intervals_cover_what_they_promise_where_the_prior_is_true() -> None:
    """4,000 labels of people drawn from the board's own prior; a share off by 3 points is four standard errors or more."""
    spread, draw, n = np.diag([0.5, 1.0, 0.3]), np.random.default_rng(2), 2_000
    board = replace(a_board(tuple("abcd"), prior=None, head_kind=PosteriorHeads()), spread=spread, noise=0.4)
    X, parts = (
        draw.standard_normal((8 * n, 4)),
        np.repeat(draw.standard_normal((n, 3)) * np.sqrt(np.diag(spread)), 8, axis=0),
    )
    own = parts[:, 0] + ((X @ board.embedding) * parts[:, 1:]).sum(axis=1)
    y = board.predict(X) + own + np.sqrt(0.4) * draw.standard_normal(8 * n)
    gains = Gains.of(board, Users.from_arrays(X, y, np.repeat(np.arange(n), 8)))
    assert [level for level, _ in gains.coverage] == [0.5, 0.8, 0.9, 0.95]
    for level, found in gains.coverage:
        assert abs(found - level) < 0.03
    assert "Intervals: how many labels lie inside" in str(gains.section())


def test_yes_or_no_labels_are_judged_by_class_and_calibrated_by_probability() -> None:
    draw = np.random.default_rng(3)
    X = draw.standard_normal((800, 4))
    board = a_board(tuple("abcd"), head_kind=_logistic())
    y = (board.predict(X) + 0.5 * draw.standard_normal(800) > 0).astype(float)
    gains = Gains.of(board, Users.from_arrays(X, y, np.repeat(np.arange(100), 8)))
    assert gains.classes
    assert all(0.0 <= predicted <= 1.0 and 0.0 <= came <= 1.0 for predicted, came, _ in gains.calibration)
    assert gains.calibration[0][1] < gains.calibration[-1][1]
    assert not gains.coverage


def test_nobody_with_two_rows_is_told() -> None:
    lonely = Users.from_arrays(np.eye(4), np.zeros(4), np.arange(4))
    with pytest.raises(InputError, match="two rows or more"):
        Gains.of(a_board(("a", "b", "c", "d")), lonely)


@pytest.mark.parametrize(
    ("changes", "mark"),
    [({"simulated": True}, "SIMULATED, NOT PRIVATE"), ({"epsilon": float("inf"), "events": ()}, "NOT PRIVATE")],
)
def test_what_protects_nobody_says_so_first(changes: dict[str, object], mark: str) -> None:
    told = Reader(report_of_board(a_board(**changes))).text
    assert mark in told[: told.index("The guarantee")]
    assert registry(a_board(**changes))["deployment"]["dp_flavor"]["name"] == "Not private"


def test_everybodys_own_budget_is_told() -> None:
    shares = ("0", "0.1", "0.25", "0.5", "0.75", "0.9", "1")
    budgets = {
        "people": 100,
        "taking no part": 3,
        "quantiles": dict(zip(shares, (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0), strict=True)),
    }
    told = Reader(report_of_board(a_board(budgets=budgets))).text
    assert "By personal budget" in told
    assert percent(float(curve_of_budget(0.1, 1e-6).power(0.01))) in told
    assert "3 of them take no part" in told


def test_custody_of_a_federation_and_the_verdict_are_told() -> None:
    told = Reader(report_of_board(a_board(custody="Rows stayed at 3 nodes.", sharing_pays=False))).text
    assert "Rows stayed at 3 nodes." in told
    assert "Sharing is not expected to pay" in told


def test_every_question_is_answered_or_named() -> None:
    for heldout in (False, True):
        lines = answers(a_board().statement, heldout)
        assert len(lines) == 16
        assert all(len(answer) > 10 for _, answer in lines)
        assert sum(NOT_HERE.lower() in answer.lower() for _, answer in lines) >= 6
    open_model = answers(a_board(epsilon=float("inf"), events=()).statement, False)
    assert not any(answer.startswith("Yes") for _, answer in open_model)
    assert sum("not private" in answer for _, answer in open_model) == 4
    assert "not answered by this software" in Reader(report_of_board(a_board())).text.lower()


def test_the_card_has_a_block_that_hubs_read_and_breaks_on_no_name() -> None:
    text = card(a_board())
    _, block, body = text.split("---\n", 2)
    metadata = {
        line.partition(": ")[0].strip(): json.loads(line.partition(": ")[2])
        for line in block.splitlines()
        if ": " in line
    }
    assert metadata["library_name"] == "commonground"
    assert metadata["pipeline_tag"] == "tabular-regression"
    assert metadata["epsilon"] == 1.0
    assert metadata["mu"] == pytest.approx(np.sqrt(0.02))
    assert "<script" not in text
    assert "&lt;script&gt;" in body
    assert "tabular-classification" in card(a_board(head_kind=_logistic()))


def _logistic() -> object:
    from commonground.heads.kinds import ConvexHeads

    return ConvexHeads("logistic")


def test_the_registry_gets_its_fields() -> None:
    entry = json.loads(json.dumps(registry(shared_parameters()), allow_nan=False))["deployment"]
    assert set(entry) >= {
        "data_curator",
        "dp_flavor",
        "privacy_loss",
        "model",
        "additional_dp_information",
        "implementation",
    }
    assert entry["privacy_loss"]["privacy_unit"] == "record-level"
    assert entry["privacy_loss"]["privacy_parameters"]["epsilon"] == 1.0
    assert entry["data_curator"] is None
    assert registry(pure_board())["deployment"]["dp_flavor"]["name"] == "Pure DP"


def test_the_commands(tmp_path: Path) -> None:
    board = a_board(("a", "b", "c", "d")).save(tmp_path / "board")
    rows = tmp_path / "rows.csv"
    rows.write_text("user_id,y,a,b,c,d\n" + "".join(f"{i // 4},{i % 3},{i},{i * i % 7},1,{i % 5}\n" for i in range(40)))
    run = CliRunner()
    done = run.invoke(app, ["report", str(board), "--out", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    assert "<h1>Privacy report: Test FedRep</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    done = run.invoke(
        app, ["report", str(board), "--out", str(tmp_path / "i.html"), "--heldout", str(rows), "--label", "y"]
    )
    assert "do not publish" in done.output
    assert json.loads(run.invoke(app, ["statement", str(board), "--format", "registry"]).output)["deployment"]
    assert json.loads(run.invoke(app, ["statement", str(board), "--format", "json"]).output)["epsilon"] == 1.0
    assert run.invoke(app, ["statement", str(board), "--format", "card"]).output.startswith("---\n")
    refused = run.invoke(app, ["statement", str(board), "--format", "poem"])
    assert isinstance(refused.exception, InputError)
    with pytest.raises(BillboardError, match="cannot be written"):
        a_board().report(tmp_path / "nowhere" / "r.html")
    joint = shared_parameters().save(tmp_path / "joint")
    assert run.invoke(app, ["report", str(joint), "--out", str(tmp_path / "j.html")]).exit_code == 0
    asked = run.invoke(app, ["report", str(joint), "--out", str(tmp_path / "j.html"), "--heldout", str(rows)])
    assert "boards of people" in str(asked.exception)


def test_the_report_of_a_ledger_tells_limits_spending_refusals_and_hashes(tmp_path: Path) -> None:
    book = DurableLedger(str(tmp_path / "budget.db"), create=True)
    group = book.open_population("<script>", Budget(1.0, 1e-6))
    with group.reserve(Budget(0.8, 1e-6), "ratings & more"):
        pass
    group.reserve(Budget(0.5, 1e-6), "still open")
    with pytest.raises(BudgetError):
        group.reserve(Budget(0.99, 1e-6), "one too many")
    out = tmp_path / "ledger.html"
    done = CliRunner().invoke(app, ["ledger", "report", str(tmp_path / "budget.db"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    page = Reader(out.read_text(encoding="utf-8"))
    assert not page.open
    for words in (
        "Spending: <script>",
        "ratings & more",
        "still open",
        "one too many",
        group.account().head,
        "counts in full",
    ):
        assert words in page.text
    assert out.stat().st_mode & 0o777 == 0o600
    assert DurableLedger(str(tmp_path / "budget.db")).verify()["<script>"].booked == group.account().booked
