"""What a new user meets: messy tables, ids, models by name, looks before spending, and what comes of mistakes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import commonground as cg
from commonground.cli import app as cli
from commonground.cli.models import MODELS, default_rank

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The entry point in this process, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "to_people", Console(stderr=True, width=500))

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["commonground", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return command


@pytest.fixture(scope="module")
def messy() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1200
    person = np.repeat(np.arange(150), 8)
    frame = pd.DataFrame(
        {
            "row": np.arange(n),
            "who": [f"{j:03d}" for j in person],
            "visit_id": rng.integers(0, 500, n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 90, n)),
            "town": rng.choice(["Oslo", "Bergen"], n),
            "joined": pd.to_datetime("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D"),
            "income": rng.lognormal(15, 1, n),
            "smokes": rng.choice(["yes", "no"], n),
        }
    )
    stars = 3 + (frame.town == "Oslo") - 0.5 * (frame.smokes == "yes") + rng.standard_normal(150)[person] * 0.5
    return frame.assign(stars=np.clip(stars, 1, 5).round(2), content=np.where(stars > 3, "glad", "sad"))


SCHEMA = """
[columns.who]
role = "person"
[columns.stars]
role = "label"
range = [1, 5]
[columns.age]
range = [0, 120]
missing = "indicator"
[columns.town]
kind = "category"
values = ["Oslo", "Bergen"]
[columns.income]
range = [0, 2e7]
[columns.smokes]
kind = "yes/no"
"""
TRAIN = ("train", "visits.csv", "--schema", "schema.toml", "--out", "board", "--rounds", 2)


@pytest.fixture
def visits(run: Run, messy: pd.DataFrame) -> pd.DataFrame:
    messy.to_csv("visits.csv", index=False)
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    return messy


def test_all_troubles_of_a_table_at_once(run: Run, visits: pd.DataFrame) -> None:
    code, _, err = run("train", "visits.csv", "--user", "who", "--label", "stars", "--out", "board")
    assert code == 2
    for trouble in (
        "'row' looks like an index", "'visit_id' looks like an id", "'age' is missing in", "'town' holds text (2 different",
        "'joined' holds dates", "'smokes' holds yes and no", "commonground schema",
    ):  # fmt: skip
        assert trouble in err
    assert not any(cell in err for cell in ("Oslo", "glad", "2015-"))
    visits[["row", "who", "income", "stars"]].to_csv("numbers.csv", index=False)
    numbers = ("train", "numbers.csv", "--user", "who", "--label", "stars", "--out", "board")
    code, _, err = run(*numbers)
    assert (code, "1 thing about this table needs your word" in err) == (2, True)
    assert run(*numbers, "--features", "row,income", "--any-scales", "--dry-run")[0] == 0, "named, it is a feature"


def test_a_draft_is_marked_and_refused_until_it_is_checked(run: Run, visits: pd.DataFrame) -> None:
    draft = ("schema", "visits.csv", "--user", "who", "--label", "stars", "--out", "draft.toml")
    code, out, _ = run(*draft)
    assert (code, "NOT private" in out) == (0, True)
    text = Path("draft.toml").read_text(encoding="utf-8")
    for line in text.splitlines():
        derived = line.startswith(("range", "kind", "missing", "# values"))
        assert ("FROM THE DATA" in line) or not derived or "[0.0, 50.0]" in line, line
    assert '[columns.row]\nrole = "ignore"' in text
    assert Path("draft.toml").stat().st_mode & 0o077 == 0
    assert "still a draft" in run("train", "visits.csv", "--schema", "draft.toml", "--out", "b")[2]
    assert run(*draft)[0] == 2, "nothing is overwritten"
    assert run(*draft, "--force")[0] == 0
    schema = cg.Schema.from_toml(text.replace("draft = true", ""))
    assert schema.person.name == "who"
    assert [column.name for column in schema.undiscovered] == ["town", "content"]


def test_the_schema_goes_with_the_board_to_every_command(run: Run, visits: pd.DataFrame) -> None:
    assert run(*TRAIN, "--epsilon", 3)[0] == 0
    assert run("personalize", "board", "visits.csv", "--out", "heads.parquet")[0] == 0
    asked = visits.drop(columns="stars").assign(income=1e300)
    asked.to_csv("asked.csv", index=False)
    assert run("predict", "board", "asked.csv", "--heads", "heads.parquet", "--out", "p.csv", "--strict")[0] == 0
    answers = pd.read_csv("p.csv", dtype={"who": str})
    assert answers.who.tolist() == visits.who.tolist(), "007 stays 007"
    assert answers.prediction.between(1, 5).all()
    assert run("predict", "board", "asked.csv", "--out", "shared.csv")[0] == 0
    assert pd.read_csv("shared.csv").prediction.between(1, 5).all()
    asked.assign(smokes="perhaps").to_csv("asked.csv", index=False)
    code, _, err = run("predict", "board", "asked.csv", "--out", "p2.csv")
    assert (code, "'smokes': row 0 (counting from 0) and 1,199 more is none of yes" in err) == (2, True)


def test_a_dry_run_spends_and_writes_nothing(run: Run, visits: pd.DataFrame) -> None:
    run("ledger", "open", "l.db", "--population", "p", "--epsilon", 1)
    pays = ("--ledger", "l.db", "--population", "p")
    before = set(Path().iterdir())
    code, out, _ = run(*TRAIN, *pays, "--dry-run", "--json")
    told = json.loads(out)
    assert (code, told["dry_run"], told["people"], told["billboard"]) == (0, True, 150, "board")
    assert "ε = 1 left" in told["ledger"]
    assert told["sharing_pays"] is False
    assert {"name": "round: clipped sum", "times": 2, "numbers": 6} in told["releases"]
    assert "level of labels: where it lies" in {one["name"] for one in told["releases"]}
    code, out, _ = run(*TRAIN, *pays, "--dry-run")
    assert (code, "nothing is spent" in out, "is not expected to pay" in out) == (0, True, True)
    assert max(map(len, out.splitlines())) < 130
    code, out, _ = run(*TRAIN, *pays, "--refuse-if-useless", "--json")
    assert (code, json.loads(out)["kind"]) == (4, "UselessError")
    code, out, err = run(*TRAIN, *pays, "--epsilon", 2, "--json")
    assert (code, json.loads(out)["exit_code"], "ε = 1 left" in err) == (3, 3, True)
    account = json.loads(run("ledger", "show", "l.db", "--json")[1])["populations"][0]
    assert account["epsilon_charged"] == 0.0
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_dry_run(model: str, run: Run, visits: pd.DataFrame) -> None:
    schema, declares = SCHEMA, model not in ("own", "nonprivate")
    if model in ("logistic", "margin", "classifier"):
        schema = SCHEMA.replace(
            '[columns.stars]\nrole = "label"\nrange = [1, 5]',
            '[columns.content]\nrole = "label"\nkind = "category"\nvalues = ["sad", "glad"]',
        )
    Path("schema.toml").write_text(schema, encoding="utf-8")
    look = ("train", "visits.csv", "--schema", "schema.toml", "--out", "board", "--model", model, "--dry-run")
    code, out, err = run(*look)
    assert code == 0, err
    pays = f"pays: ε = 1, δ = {0 if model in ('margin', 'subspace') else 1e-06:g} for all"
    assert (pays in out) == declares, out
    assert ("What would be released" in out) == declares, out
    assert not Path("board").exists()


def test_a_huge_column_is_refused_by_name_before_anything_is_spent(run: Run, visits: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    visits[["who", "stars", "income"]].assign(a=rng.normal(size=1200), b=rng.normal(size=1200)).to_csv(
        "t.csv", index=False
    )
    train = ("train", "t.csv", "--user", "who", "--label", "stars", "--out", "b", "--rounds", 2)
    code, _, err = run(*train)
    assert (code, "'income' is" in err, "far larger than the others" in err) == (2, True, True)
    assert not Path("b").exists()
    code, _, err = run(*train, "--any-scales", "--label-range", "1,5")
    assert code == 0
    assert cg.Billboard.load("b").predict(pd.read_csv("t.csv")).max() <= 5.0


@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.slow] if m == "nonprivate" else []) for m in MODELS]
)
def test_every_model_is_behind_the_one_door(model: str, run: Run, visits: pd.DataFrame) -> None:
    """Trained, asked for heads, and asked for answers; classes come back by their names."""
    classes = model in ("logistic", "margin", "classifier")
    schema = SCHEMA
    if classes:
        schema = SCHEMA.replace(
            '[columns.stars]\nrole = "label"\nrange = [1, 5]',
            '[columns.content]\nrole = "label"\nkind = "category"\nvalues = ["sad", "glad"]',
        )
    Path("schema.toml").write_text(schema, encoding="utf-8")
    code, out, err = run("train", "visits.csv", "--schema", "schema.toml", "--out", "board", "--model", model)
    assert code == 0, err
    assert ("NOT PRIVATE" in out) == (model == "nonprivate")
    assert run("personalize", "board", "visits.csv", "--out", "heads.parquet")[0] == 0
    assert run("predict", "board", "visits.csv", "--heads", "heads.parquet", "--out", "p.csv")[0] == 0
    answers = pd.read_csv("p.csv").prediction
    if classes:
        assert set(answers) <= {"sad", "glad"}
    else:
        assert answers.between(1, 5).all()


def test_a_number_is_no_class(run: Run, visits: pd.DataFrame) -> None:
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    code, _, err = run("train", "visits.csv", "--schema", "schema.toml", "--out", "board", "--model", "classifier")
    assert (code, "'stars' is a number" in " ".join(err.split())) == (2, True)
    assert not Path("board").exists()


def test_what_a_model_does_not_take_is_an_error_and_unknown_models_list_the_known(
    run: Run, visits: pd.DataFrame
) -> None:
    code, _, err = run(*TRAIN, "--model", "single", "--rank", 3)
    assert (code, "--rank, --rounds does not go with --model single" in err) == (2, True)
    assert "fedrep (shared directions" in run(*TRAIN, "--model", "forest")[2]
    assert "leave out --user, --label" in run(*TRAIN, "--user", "who", "--label", "stars")[2]
    X = np.ones((4, 1))
    assert [default_rank(cg.Users.from_arrays(X.repeat(d, 1), X[:, 0], [0, 0, 1, 1])) for d in (1, 2, 3, 9)] == [
        0,
        1,
        2,
        2,
    ]


def test_most_rows_without_a_known_person_are_told(run: Run, visits: pd.DataFrame) -> None:
    run(*TRAIN)
    run("personalize", "board", "visits.csv", "--out", "heads.parquet")
    predict = ("predict", "board", "asked.csv", "--heads", "heads.parquet", "--out", "p.csv")
    visits.assign(who=[who if j < 300 else f"x{who}" for j, who in enumerate(visits.who)]).to_csv(
        "asked.csv", index=False
    )
    code, _, err = run(*predict)
    assert (code, "75% of the rows (900 of 1,200) belong to nobody" in err) == (0, True)
    assert run(*predict, "--strict")[0] == 2
    visits.assign(who=np.arange(1200) + 0.5).to_parquet("asked.parquet")
    code, _, err = run("predict", "board", "asked.parquet", *predict[3:])
    assert (code, "which are of type float; in training they were of type str" in err) == (2, True)


def test_ids_of_another_type_are_an_error_in_python_too() -> None:
    X, ids = np.random.default_rng(0).standard_normal((40, 3)), np.repeat(np.arange(10), 4)
    model = cg.OwnDataOnly().fit(X, X[:, 0], users=ids)
    with pytest.raises(cg.errors.InputError, match="of type str; in training they were of type int"):
        model.predict(X, users=ids.astype(str))
    with pytest.warns(cg.errors.UnknownUserWarning, match="90% of the rows"):
        model.predict(X, users=[0] * 4 + [99] * 36)


@pytest.mark.parametrize("label", ["stars", "content"])
@pytest.mark.slow
def test_evaluate_compares_and_says_in_red_what_is_worse_than_the_mean(
    label: str, run: Run, visits: pd.DataFrame
) -> None:
    what = {
        "stars": SCHEMA,
        "content": SCHEMA.replace(
            'stars]\nrole = "label"\nrange = [1, 5]',
            'content]\nrole = "label"\nkind = "category"\nvalues = ["sad", "glad"]',
        ),
    }
    few = (
        what[label]
        .replace('[columns.town]\nkind = "category"\nvalues = ["Oslo", "Bergen"]\n', "")
        .replace(' missing = "indicator"', "")
    )
    Path("schema.toml").write_text(few, encoding="utf-8")
    visits[visits.who < "050"].to_csv("visits.csv", index=False)
    evaluate = ("evaluate", "visits.csv", "--schema", "schema.toml", "--out", "e")
    model = ("--model", "logistic") if label == "content" else ()
    code, out, _ = run(*evaluate, "--epsilon", 20, *model, "--json")
    told: dict[str, Any] = json.loads(out)
    assert (code, told["private"]) == (0, False)
    assert [one["model"] for one in told["results"]][:4] == [
        *(("global mean", "own mean") if label == "stars" else ("most frequent class", "own most frequent class")),
        "own data",
        "mixed model, NOT private",
    ]
    assert told["results"][1]["error"] < told["results"][0]["error"]
    assert sorted(path.name for path in Path("e").iterdir()) == [
        f"evaluation_NOT_PRIVATE.{kind}" for kind in ("csv", "png", "svg")
    ]
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path("e").iterdir())
    if label == "stars":
        code, out, err = run(*evaluate, "--epsilon", 0.01, "--model", "single")
        assert (code, "NOT PRIVATE" in out) == (0, True)
        assert "The private model is worse than the global mean" in err


def test_the_statement_tells_when_for_what_by_whom_and_fits_the_terminal(run: Run, visits: pd.DataFrame) -> None:
    run("ledger", "open", "l.db", "--population", "patients", "--epsilon", 1)
    run(*TRAIN, "--ledger", "l.db", "--population", "patients")
    code, out, _ = run("statement", "board")
    words = " ".join(out.split())
    assert code == 0
    assert "population 'patients'" in words
    assert "to predict 'stars', with commonground" in words
    assert "opendp" in words
    assert "dp-accounting" in words
    assert max(map(len, out.splitlines())) <= 80
    told = json.loads(run("statement", "board", "--json")[1])
    assert set(told["software"]) == {"commonground", "opendp", "dp-accounting"}
    assert len(told["date"]) == 10
    assert told["label"] == "stars"


@pytest.mark.parametrize("how", ["schema", "label range"])
def test_personal_budgets_go_with_a_schema_and_with_a_range_of_labels(run: Run, visits: pd.DataFrame, how: str) -> None:
    visits.assign(eps=np.where(visits.who < "075", 1.0, 2.0)).to_csv("visits.csv", index=False)
    names = ("--user", "who", "--label", "stars", "--features", "income", "--label-range", "1,5", "--any-scales")
    asked = ("--schema", "schema.toml") if how == "schema" else names
    code, _, err = run("train", "visits.csv", *asked, "--budget", "eps", "--out", "board", "--rounds", 2)
    assert code == 0, err
    told = cg.Billboard.load("board").statement.budgets
    assert told is not None
    assert (min(told["quantiles"].values()), max(told["quantiles"].values())) == (1.0, 2.0)


ONE_FEATURE = '[columns.who]\nrole = "person"\n[columns.age]\nrange = [0, 120]\nmissing = 50\n'


@pytest.mark.parametrize("model", MODELS)
def test_one_feature_is_enough_or_it_is_said_what_is(run: Run, visits: pd.DataFrame, model: str) -> None:
    classes = model in ("logistic", "margin", "classifier")
    label = (
        '[columns.content]\nkind = "category"\nvalues = ["sad", "glad"]\n'
        if classes
        else "[columns.stars]\nrange = [1, 5]\n"
    )
    Path("one.toml").write_text(ONE_FEATURE + label + 'role = "label"\n', encoding="utf-8")
    code, _, err = run(
        "train", "visits.csv", "--schema", "one.toml", "--model", model, "--epsilon", 4, "--out", "board"
    )
    if model in ("altmin", "huber", "logistic", "subspace"):
        assert (code, "1 feature leaves none" in err, "--model fedrep" in err) == (2, True, True)
        return
    assert code == 0, err
    assert run("personalize", "board", "visits.csv", "--out", "heads.parquet")[0] == 0
    assert run("predict", "board", "visits.csv", "--heads", "heads.parquet", "--out", "answers.csv")[0] == 0
    answers = pd.read_csv("answers.csv").prediction
    assert answers.isin(["sad", "glad"]).all() if classes else answers.between(1, 5).all()


@pytest.mark.parametrize("ranged", [(), ("--label-range", "-5,5")])
def test_a_dry_run_of_one_feature_is_that_of_one_feature(
    run: Run, plain: pd.DataFrame, ranged: tuple[str, ...]
) -> None:
    plain[["who", "a", "y"]].to_csv("t.csv", index=False)
    code, out, err = run(*LOOK, *ranged, "--epsilon", 8, "--json")
    numbers = {one["name"]: one["numbers"] for one in json.loads(out)["releases"]}
    assert (code, numbers["shared mean, round: clipped sum"]) == (0, 2), err
    code, _, err = run(*LOOK, *ranged, "--model", "altmin")
    assert (code, "1 feature leaves none" in err, "2 features" in err) == (2, True, False)


def test_owners_of_many_peoples_rows_are_told_where_to_go(run: Run, visits: pd.DataFrame) -> None:
    code, _, err = run(*TRAIN, "--model", "joint-sgd")
    assert (code, "JointSGDRegressor" in err, "federate" in err) == (2, True, True)


# --- what somebody in a hurry does -----------------------------------------------------------------------------------------


@pytest.fixture
def plain(run: Run) -> pd.DataFrame:
    """Numbers only, with which nothing is wrong."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.standard_normal((600, 3)), columns=["a", "b", "c"])
    return frame.assign(who=np.repeat([f"p{j}" for j in range(100)], 6), y=frame.a + rng.standard_normal(600))


LOOK = ("train", "t.csv", "--user", "who", "--label", "y", "--out", "board", "--dry-run")


@pytest.mark.parametrize(("separator", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_other_separators_are_named_with_what_to_do(run: Run, plain: pd.DataFrame, separator: str, name: str) -> None:
    plain.to_csv("t.csv", index=False, sep=separator)
    code, _, err = run(*LOOK)
    assert (code, f"separated by {name}" in err, "save it with commas" in err) == (2, True, True)


def test_a_european_spreadsheet_is_told_what_to_do(run: Run, plain: pd.DataFrame) -> None:
    plain.to_csv("t.csv", index=False, sep=";", decimal=",")
    code, _, err = run(*LOOK)
    assert (code, "one column by its first line and more below" in err, "decimal=','" in err) == (2, True, True)
    plain.to_csv("t.csv", index=False, decimal=",")
    code, _, err = run(*LOOK)
    assert (code, "'a' holds numbers with a decimal comma" in err, "'y' holds numbers" in err) == (2, True, True)
    code, _, err = run("schema", "t.csv", "--user", "who", "--label", "y", "--out", "s.toml")
    assert (code, "'y', the label, holds numbers with a decimal comma" in err) == (2, True), (
        "not a class for each number"
    )
    plain.assign(a=plain.a.map("{:.3f}".format).str.replace(".", ",")).to_csv("t.csv", index=False)
    code, out, _ = run("schema", "t.csv", "--user", "who", "--label", "y", "--out", "s.toml")
    assert (code, "Ignored: a, numbers with a decimal comma" in out) == (0, True)
    assert 'role = "ignore"  # numbers with a decimal comma' in Path("s.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.xlsx", b"PK\x03\x04....", "Excel workbook: save the sheet as CSV"),
        ("t.csv", b"PK\x03\x04\x14\x00\x00\x00\n\xff\xfe,1\n", "Excel workbook: save the sheet as CSV"),
        ("t.csv", b"\x1f\x8b\x08\x00,,\n1,2\n", "name it .csv.gz"),
        ("t.csv", b"PAR1,a\n1\n1,2\n", "name it .parquet"),
        ("t.csv", "user_id,a,y\n1,2,3\n".encode("utf-16"), "iconv -f utf-16"),
        ("t.csv", b"# exported on Monday\nuser_id,a,y\n1,2,3\n", "a title or a comment, take it away"),
    ],
)
def test_a_file_that_is_something_else_is_called_by_its_name(run: Run, name: str, content: bytes, says: str) -> None:
    Path(name).write_bytes(content)
    code, _, err = run("train", name, "--out", "board")
    assert (code, says in err) == (2, True), err


def test_all_names_that_are_wrong_at_once_and_which_were_meant(run: Run, plain: pd.DataFrame) -> None:
    plain.to_csv("t.csv", index=False)
    asked = ("train", "t.csv", "--user", "WHO", "--label", "Y", "--features", "A, bb", "--out", "board")
    code, _, err = run(*asked)
    assert (code, "no column 'WHO', 'Y', 'A', 'bb'" in err, "Did you mean 'who', 'y', 'a'" in err) == (2, True, True)


def written(how: str, plain: pd.DataFrame) -> pd.Series:
    """Column a as text, as forms and spreadsheets have it."""
    some = np.arange(len(plain)) % 40 == 3
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(len(plain)), unit="D")
    return {
        "money": (plain.a * 1e4).map("${:,.2f}".format),
        "percent": (plain.a * 10).map("{:.0f}%".format),
        "unit": plain.a.map("{:.1f} cm".format),
        "thousands": (plain.a.abs() * 1e3 + 1e3).map("{:,.0f}".format),
        "a word": plain.a.round(2).astype(str).mask(some, "unknown"),
        "an error": plain.a.round(2).astype(str).mask(some, "#DIV/0!"),
        "european date": pd.Series(days.strftime("%d.%m.%Y")),
        "american date": pd.Series(days.strftime("%m/%d/%y %H:%M")),
        "date in words": pd.Series(days.strftime("%d %b %Y")),
    }[how]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("money", "write the numbers alone"),
        ("percent", "write the numbers alone"),
        ("unit", "write the numbers alone"),
        ("thousands", "a comma before three digits"),
        ("a word", "numbers, and text in some cells"),
        ("an error", "numbers, and text in some cells"),
        ("european date", "dates that are not written as 2020-01-31"),
        ("american date", "dates that are not written as 2020-01-31"),
        ("date in words", "dates that are not written as 2020-01-31"),
    ],
)
def test_numbers_and_dates_that_were_written_as_text_are_no_categories(
    run: Run, plain: pd.DataFrame, how: str, says: str
) -> None:
    plain.assign(a=written(how, plain)).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "'a' holds" in err, says in err) == (2, True, True), err
    code, out, _ = run("schema", "t.csv", "--user", "who", "--label", "y", "--out", "s.toml")
    assert (code, "Ignored: a, " in out, says in out) == (0, True, True), "told, and no category of 600 values"
    plain.assign(y=written(how, plain)).to_csv("t.csv", index=False)
    code, _, err = run("schema", "t.csv", "--user", "who", "--label", "y", "--out", "s2.toml")
    assert (code, says in err, Path("s2.toml").exists()) == (2, True, False)


def test_numbers_that_stand_for_a_missing_cell_and_the_label_as_a_feature_are_told(
    run: Run, plain: pd.DataFrame
) -> None:
    some = np.arange(len(plain)) % 40 == 3
    plain.assign(a=plain.a.mask(some, -999), b=plain.y).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "rows by column: 'a' 15." in err, "'b': the label again" in err) == (0, True, True), err
    plain.assign(a=np.arange(600) % 60 + 20, c=np.arange(600) % 10).to_csv("t.csv", index=False)
    assert "missing cell" not in run(*LOOK, "--any-scales")[2], "99 and 9 among their like are numbers"


def test_ids_that_a_spreadsheet_has_shortened_are_told(run: Run, plain: pd.DataFrame) -> None:
    numbers = 1_000_000_000_000 + 7_000_000_001 * np.repeat(np.arange(100), 6)
    plain.assign(who=[f"{number:.2E}" for number in numbers]).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "ids are written like 1.23E+15" in err, "several people may have become one" in err) == (
        0,
        True,
        True,
    )


def test_one_person_is_told_before_anything_else_of_her_table(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(who="p1", a=plain.a * 1e6).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "there is only one person" in err) == (2, True)


def test_nested_cells_are_no_text_to_encode(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(pair=[[1.0, 2.0]] * 600).to_parquet("t.parquet")
    code, _, err = run("train", "t.parquet", *LOOK[2:])
    assert (code, "several values in one cell" in err, "One-hot" in err) == (2, True, False)


def test_ids_that_differ_by_blanks_are_refused_and_by_capitals_told(run: Run, plain: pd.DataFrame) -> None:
    """Somebody under two ids would be two people, and her guarantee half of what is stated."""
    odd = np.arange(600) % 2 == 1
    plain.assign(who=np.where(odd, plain.who + " ", plain.who)).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "'who': 100 ids differ" in err, "blanks" in err) == (2, True, True)
    plain.assign(who=np.where(odd, plain.who.str.upper(), plain.who)).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "'who': 100 ids differ from another one by capital letters" in err) == (0, True)


def test_a_column_that_numbers_rows_is_hardly_whose_rows_they_are(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(who=[f"row {j}" for j in range(600)]).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "everybody has exactly one row" in err) == (0, True)
    plain.to_csv("t.csv", index=False)
    assert "warning" not in run(*LOOK, "--label-range", "-5,5")[2]


def test_labels_that_are_all_the_same_are_refused(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(y=3.0).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "'y', the label, is the same in every row: there is nothing to learn" in err) == (2, True)
    plain.to_csv("t.csv", index=False)
    code, _, err = run(*LOOK, "--label-range", "100,200")
    assert (code, "once it is clipped to its range" in err) == (2, True)


def test_a_schema_that_misses_all_rows_is_told_by_column(run: Run, visits: pd.DataFrame) -> None:
    wrong = SCHEMA.replace('["Oslo", "Bergen"]', '["oslo"]').replace("[0, 2e7]", "[-9, -8]")
    Path("schema.toml").write_text(wrong, encoding="utf-8")
    code, _, err = run(*TRAIN, "--dry-run")
    assert (code, "the same in every row: 'town', 'income'." in err, "values in the schema right?" in err) == (
        0,
        True,
        True,
    )
    Path("schema.toml").write_text(SCHEMA.replace("columns.income", "columns.Income"), encoding="utf-8")
    code, _, err = run(*TRAIN, "--dry-run")
    assert (code, "Did you mean 'income'?" in err) == (2, True)


def test_two_numbers_as_labels_get_classes_and_others_are_refused_by_models_of_classes(
    run: Run, plain: pd.DataFrame
) -> None:
    plain.to_csv("t.csv", index=False)
    for model in ("classifier", "logistic", "margin"):
        code, _, err = run(*LOOK, "--model", model)
        assert (code, "needs labels 0 and 1" in err, "[" in err) == (2, True, False), "no label is told"
    plain.assign(y=(plain.y > 0).astype(int)).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "--model classifier answers with one of them" in err) == (0, True)
    train = ("train", "t.csv", "--user", "who", "--label", "y", "--epsilon", 8)
    for model, columns in (
        ("classifier", ["prediction", "probability of 1"]),
        ("logistic", ["prediction", "probability of 1"]),
        ("margin", ["prediction"]),
    ):
        assert run(*train, "--model", model, "--out", model)[0] == 0
        assert run("personalize", model, "t.csv", "--user", "who", "--label", "y", "--out", "h.parquet")[0] == 0
        assert run("predict", model, "t.csv", "--user", "who", "--heads", "h.parquet", "--out", "p.csv")[0] == 0
        answers = pd.read_csv("p.csv")
        assert answers.columns.tolist() == ["who", *columns, "has_own_head"]
        assert set(answers.prediction) <= {0, 1}
        if len(columns) == 2:
            assert ((answers["probability of 1"] > 0.5) == (answers.prediction == 1)).all()


def test_a_huge_epsilon_is_told_to_be_next_to_nothing(run: Run, plain: pd.DataFrame) -> None:
    plain.to_csv("t.csv", index=False)
    code, _, err = run(*LOOK, "--epsilon", 100)
    assert (code, "ε = 100 promises next to nothing" in err) == (0, True)
    assert "next to nothing" not in run(*LOOK, "--epsilon", 8)[2]


def test_wrong_options_are_json_too(run: Run) -> None:
    for asked in (("train", "t.csv", "--json"), ("trian", "--json"), ("train", "--epsilon", "much", "t.csv", "--json")):
        code, out, err = run(*asked)
        told = json.loads(out)
        assert (code, told["exit_code"], told["error"] in " ".join(err.split())) == (2, 2, True)


def test_no_rows_to_predict_and_heads_under_a_name_that_cannot_be(run: Run, visits: pd.DataFrame) -> None:
    assert run(*TRAIN)[0] == 0
    visits.head(0).to_csv("none.csv", index=False)
    code, _, err = run("predict", "board", "none.csv", "--out", "p.csv")
    assert (code, "no rows in none.csv" in err, Path("p.csv").exists()) == (2, True, False)
    code, _, err = run("personalize", "board", "visits.csv", "--out", "heads.csv")
    assert (code, "ends in .parquet" in err) == (2, True)


def test_a_search_says_that_it_discovers_nothing(run: Run, visits: pd.DataFrame) -> None:
    Path("schema.toml").write_text(SCHEMA.replace('["Oslo", "Bergen"]', '"discover"'), encoding="utf-8")
    code, _, err = run("tune", "visits.csv", "--schema", "schema.toml", "--try", "rank=0,1", "--out", "b")
    assert (code, "not for a search: give the values by name" in err) == (2, True)


def test_the_help_names_every_model() -> None:
    from typing import get_args

    from commonground.cli.options import Model

    assert get_args(Model)[1].help.rstrip(".").split(", ") == [*MODELS]


THREE = """
[columns.who]
role = "person"
[columns.dish]
role = "label"
kind = "category"
values = ["soup", "salad", "cake"]
[columns.a]
range = [-3, 3]
[columns.b]
range = [-3, 3]
"""


@pytest.mark.parametrize("model", [model for model in MODELS if model != "classifier"])
def test_three_classes_are_no_numbers_for_any_model_but_the_classifier(
    run: Run, plain: pd.DataFrame, model: str
) -> None:
    """Places in a list as numbers made a model that was worse than the most frequent class, without a word."""
    plain.assign(dish=np.resize(["soup", "salad", "cake"], 600)).to_csv("t.csv", index=False)
    Path("three.toml").write_text(THREE, encoding="utf-8")
    for command in (
        ("train", "t.csv", "--out", "board"), ("evaluate", "t.csv", "--out", "e"),
        ("tune", "t.csv", "--out", "board", "--try", "rank=0,1"),
    ):  # fmt: skip
        code, _, err = run(*command, "--schema", "three.toml", "--model", model)
        assert (code, "'dish' is a category of 3 classes" in err, "--model classifier" in err) == (2, True, True), err
    assert not Path("board").exists()


def test_three_classes_are_no_numbers_in_python_either() -> None:
    rows = pd.DataFrame(
        {"who": [1, 1, 2, 2, 3], "a": range(5), "b": [0, 1, 0, 1, 1], "dish": ["soup", "salad", "cake", "soup", "cake"]}
    )
    users = cg.Users.from_table(rows, schema=cg.Schema.from_toml(THREE))
    for model in (cg.PrivateFedRep(rank=1), cg.SingleModel(), cg.OwnDataOnly(), cg.NonPrivateFedRep(rank=1)):
        with pytest.raises(cg.errors.InputError, match="PrivateFedRepClassifier"):
            model.fit(users)


def test_yes_or_no_under_a_model_of_numbers_is_told(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(dish=np.where(plain.y > 0, "yes", "no")).to_csv("t.csv", index=False)
    Path("two.toml").write_text(
        THREE.replace('"category"\nvalues = ["soup", "salad", "cake"]', '"yes/no"'), encoding="utf-8"
    )
    look = ("train", "t.csv", "--schema", "two.toml", "--out", "board", "--dry-run")
    assert [("--model classifier answers" in run(*look, "--model", model)[2]) for model in ("fedrep", "own")] == [
        True
    ] * 2
    for model in ("classifier", "logistic", "margin"):
        code, _, err = run(*look, "--model", model)
        assert (code, "warning" in err) == (0, False), err
    code, _, err = run(*look, "--model", "ridge")
    assert (code, "'dish' is yes/no" in err) == (2, True)


def test_ridge_names_the_columns_without_a_range(run: Run, visits: pd.DataFrame) -> None:
    Path("schema.toml").write_text(
        SCHEMA.replace("range = [0, 2e7]", "").replace("range = [1, 5]", ""), encoding="utf-8"
    )
    code, _, err = run("train", "visits.csv", "--schema", "schema.toml", "--out", "board", "--model", "ridge")
    assert (code, "none for 'income', 'stars'" in err) == (2, True)


@pytest.mark.parametrize("model", ["huber", "subspace"])
def test_heads_that_nothing_holds_are_told_where_people_have_few_rows(
    run: Run, plain: pd.DataFrame, model: str
) -> None:
    """Two rows for three numbers: root mean squared errors of 2.5 to 31 where one number for everybody had 1.3."""
    told = f"--model {model} fits the 3 numbers of everybody's head to her own rows alone, and half of these people have 2 rows"
    plain.groupby("who").head(2).to_csv("t.csv", index=False)
    assert told in run(*LOOK, "--model", model)[2]
    assert "to her own rows alone" not in run(*LOOK, "--model", "fedrep")[2]
    assert run(*LOOK[:-1], "--model", model)[0] == 0
    heads = ("personalize", "board", "--user", "who", "--out", "heads.parquet")
    assert "this board fits the 3 numbers" in run(*heads[:2], "t.csv", *heads[2:])[2]
    pd.concat([plain, plain.sample(frac=1.0, random_state=0)]).to_csv("t.csv", index=False)  # twelve rows each
    assert "to her own rows alone" not in run(*LOOK, "--model", model)[2]
    assert "to her own rows alone" not in run(*heads[:2], "t.csv", *heads[2:])[2]


def test_text_as_a_label_is_told_of_classes_not_of_one_hot_features(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(y=np.where(plain.y > 0, "yes", "no")).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, "it is the label" in err, "--model classifier" in err, "One-hot" in err) == (2, True, True, False)
    with pytest.raises(cg.errors.InputError, match="it is the label"):
        cg.PrivateFedRep().fit(plain[["a", "b"]], np.where(plain.y > 0, "yes", "no"), users=plain.who)


def test_the_boards_label_need_not_be_named_again_and_heads_that_are_not_there_are_told(
    run: Run, plain: pd.DataFrame
) -> None:
    plain.rename(columns={"y": "mood"}).to_csv("t.csv", index=False)
    assert run("train", "t.csv", "--user", "who", "--label", "mood", "--out", "board")[0] == 0
    predict = ("predict", "board", "t.csv", "--user", "who", "--out", "p.csv")
    code, _, err = run(*predict, "--heads", "heads.parquet")
    assert (code, "There is no file heads.parquet" in err, "commonground personalize" in err) == (2, True, True)
    assert "Without --heads everybody gets the shared one" in run(*predict)[1]
    code, _, err = run("personalize", "board", "t.csv", "--user", "who", "--out", "heads.parquet")
    assert code == 0, err
    assert "Without --heads" not in run(*predict, "--heads", "heads.parquet")[1]
    assert "the billboard comes first, then the table" in run("predict", "t.csv", "board", "--out", "p.csv")[2]


def test_an_evaluation_for_the_operator_tells_of_no_payment(run: Run, visits: pd.DataFrame) -> None:
    """Which values are found takes a fit of its own; both are thrown away."""
    Path("schema.toml").write_text(SCHEMA.replace('["Oslo", "Bergen"]', '"discover"'), encoding="utf-8")
    code, _, err = run("evaluate", "visits.csv", "--schema", "schema.toml", "--out", "e", "--epsilon", 4)
    assert (code, "have paid" in err, "evaluating, models" in err) == (0, False, True), err


def test_a_dry_run_knows_of_budgets_in_the_table(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(mine=np.where(plain.who < "p5", 0.5, 2.0)).to_csv("t.csv", index=False)
    code, out, err = run(*LOOK, "--budget", "mine", "--any-scales")
    assert (code, "Everybody pays her own ε" in out, "ε = 1" in out) == (0, True, False), err
    assert json.loads(run(*LOOK, "--budget", "mine", "--any-scales", "--json")[1])["epsilon"] is None


def test_a_search_refuses_a_huge_column_as_a_training_does(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(b=plain.b * 5e6).to_csv("t.csv", index=False)
    tune = ("tune", "t.csv", "--user", "who", "--label", "y", "--out", "board", "--try", "rank=0,1")
    code, _, err = run(*tune)
    assert (code, "the size of 1 feature for" in err, "'b' is far larger" in err, "--any-scales" in err) == (
        2,
        *[True] * 3,
    )
    assert not Path("board").exists()
    assert run(*tune, "--any-scales")[0] == 0


def test_another_unit_at_predict_is_told_where_there_is_a_range(run: Run, visits: pd.DataFrame) -> None:
    assert run(*TRAIN)[0] == 0
    told = "most cells of 'age' lie outside of the range"
    predict = ("predict", "board", "asked.csv", "--out", "p.csv")
    visits.assign(age=12 * visits.age).to_csv("asked.csv", index=False)  # in months
    code, _, err = run(*predict)
    assert (code, told in err) == (0, True), err
    few = np.arange(len(visits)) % 3 == 0
    visits.assign(age=visits.age.where(~few, 500)).to_csv("asked.csv", index=False)
    assert told not in run(*predict)[2]
    visits.assign(age=np.nan).to_csv("asked.csv", index=False)
    assert told not in run(*predict)[2], "empty cells are in no unit"


def test_another_unit_is_told_without_a_range_where_it_makes_the_difference(run: Run) -> None:
    """Nothing of the features is kept on the board; what it says of labels tells when answers are absurd."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(400), 8)
    frame = pd.DataFrame(rng.standard_normal((3200, 3)), columns=["a", "b", "c"])
    frame = frame.assign(
        user_id=person, y=frame.a - frame.b + rng.standard_normal(400)[person] + rng.standard_normal(3200)
    )
    frame.to_csv("t.csv", index=False)
    frame.assign(a=frame.a * 1000).to_csv("millimetres.csv", index=False)
    frame.assign(y=frame.y * 1000).to_csv("grams.csv", index=False)
    assert run("train", "t.csv", "--epsilon", 2, "--out", "b")[0] == 0
    heads = ("--heads", "h.parquet", "--out", "p.csv")
    assert "warning" not in run("personalize", "b", "t.csv", "--out", "h.parquet")[2]
    assert "warning" not in run("predict", "b", "t.csv", *heads)[2]
    assert "warning" not in run("predict", "b", "t.csv", "--out", "p.csv")[2]
    for asked in (("predict", "b", "millimetres.csv", *heads), ("predict", "b", "millimetres.csv", "--out", "p.csv")):
        assert "times as far apart as labels lie" in run(*asked)[2]
    assert "times as far apart as labels lie" in run("personalize", "b", "millimetres.csv", "--out", "h2.parquet")[2]
    assert "dozens of times farther from" in run("personalize", "b", "grams.csv", "--out", "h2.parquet")[2]


@pytest.mark.parametrize(("times", "word"), [(1e4, "larger"), (1e-4, "smaller")])
def test_labels_of_a_size_that_noise_hides_are_refused_before_anything_is_spent(
    run: Run, plain: pd.DataFrame, times: float, word: str
) -> None:
    """As prices in cents for a few hundred people: nothing was learned, or shared answers were off by hundreds, in silence."""
    plain.assign(y=plain.y * times).to_csv("t.csv", index=False)
    code, _, err = run(*LOOK)
    assert (code, f"'y', the label, is far {word} than one" in err, "--any-scales" in err) == (2, True, True)
    assert run(*LOOK, "--any-scales")[0] == 0
    assert run(*LOOK, "--epsilon", 60)[0] == 0
    plain.assign(y=plain.y * 5).to_csv("t.csv", index=False)
    assert run(*LOOK)[0] == 0
    plain.assign(y=plain.y * times).to_csv("t.csv", index=False)
    assert run(*LOOK, "--label-range", f"{-10 * times},{10 * times}")[0] == 0, "a range tells how large they are"
    code, _, err = run(*LOOK, "--label-range", "0,1e150")
    assert (code, "Give them in another unit" in err) == (2, True)


def test_a_delta_that_protects_nobody_is_told_by_a_dry_run(run: Run, plain: pd.DataFrame) -> None:
    plain.to_csv("t.csv", index=False)
    assert "larger than 1/(number of people)" in run(*LOOK, "--delta", 0.1)[2]


def test_an_evaluation_whose_limit_lies_below_most_errors_says_so(run: Run, visits: pd.DataFrame) -> None:
    run(*TRAIN, "--epsilon", 3)
    evaluate = ("evaluate", "board", "visits.csv", "--epsilon", 50)
    assert "Most of them reach it" in " ".join(run(*evaluate, "--clip", 0.05)[1].split())
    assert "Most of them reach it" not in " ".join(run(*evaluate, "--clip", 4)[1].split())


def test_the_statement_lists_releases_without_broken_words(run: Run, visits: pd.DataFrame) -> None:
    run(*TRAIN)
    table = run("statement", "board")[1].partition("Releases, in order")[2]
    assert "Gaussian, std" in table
    assert "…" not in table


def test_pandas_missing_cells_are_missing_and_classes_are_told_as_they_are_written(plain: pd.DataFrame) -> None:
    frame = plain[["a", "b"]].astype("Float64")
    frame.loc[3, "b"] = pd.NA
    with pytest.raises(cg.errors.InputError, match=r"Row 3 \(counting from 0\) of column 'b' is missing"):
        cg.PrivateFedRep().fit(frame, plain.y, users=plain.who)
    with pytest.raises(cg.errors.InputError, match=r"classes 0 \(no\) and 1 \(yes\).*600 of 600"):
        cg.PrivateFedRepClassifier().fit(plain[["a", "b"]], np.where(plain.y > 0, "ja", "nein"), users=plain.who)


def test_a_category_to_be_discovered_hides_nothing_else_of_a_table(run: Run, visits: pd.DataFrame) -> None:
    """Its values are found inside a fit; whatever else is wrong with the table was then not looked for."""
    discover = SCHEMA.replace('values = ["Oslo", "Bergen"]', 'values = "discover"')
    Path("schema.toml").write_text(discover.replace("range = [0, 2e7]", ""), encoding="utf-8")
    code, _, err = run(*TRAIN, "--dry-run")
    assert (code, "'income'" in err, "--any-scales" in err) == (2, True, True)
    Path("schema.toml").write_text(discover, encoding="utf-8")
    code, _, err = run(*TRAIN, "--dry-run")
    assert (code, "warning" in err) == (0, False), err
    for model in ("logistic", "margin"):
        code, _, err = run(*TRAIN[:-2], "--model", model)
        assert (code, "needs labels 0 and 1" in err, Path("board").exists()) == (2, True, False)
    for model in ("own", "nonprivate"):
        code, _, err = run(*TRAIN[:-2], "--model", model, "--dry-run")
        assert (code, "takes a share of one (ε, δ) for everybody" in err) == (2, True), "as without --dry-run"
    code, _, err = run(*TRAIN[:-2], "--model", "ridge")
    assert (code, "discovers no values" in err, "'town'" in err) == (2, True, True)
    visits.assign(stars=3.0).to_csv("visits.csv", index=False)
    code, _, err = run(*TRAIN, "--dry-run")
    assert (code, "the same in every row" in err) == (2, True)


@pytest.mark.parametrize("declared", ["range = [1, 5]", "range = [0, 100]", ""])
def test_codes_for_a_missing_cell_are_told_with_a_schema_whatever_its_ranges(
    run: Run, plain: pd.DataFrame, declared: str
) -> None:
    """A range cuts 99 to its end, as if somebody had answered 5."""
    answers = np.arange(600) % 5 + 1
    frame = plain.assign(a=np.where(np.arange(600) % 40 == 3, 99, answers))
    frame.assign(y=np.where(np.arange(600) % 100 == 9, 99, answers)).to_csv("t.csv", index=False)
    columns = "".join(f"[columns.{name}]\n{declared}\n" for name in "ab") + f'[columns.y]\nrole = "label"\n{declared}\n'
    Path("s.toml").write_text('[columns.who]\nrole = "person"\n' + columns, encoding="utf-8")
    code, _, err = run("train", "t.csv", "--schema", "s.toml", "--out", "board", "--dry-run", "--any-scales")
    assert (code, "rows by column: 'a' 15, 'y', the label, 6." in err) == (0, True), err
    assert "leave these cells empty" in err
    plain.assign(a=answers, y=answers).to_csv("t.csv", index=False)
    assert "missing cell" not in run("train", "t.csv", "--schema", "s.toml", "--out", "board", "--dry-run")[2]


def test_a_draft_tells_of_codes_keeps_the_ends_of_a_scale_and_can_be_read(run: Run, plain: pd.DataFrame) -> None:
    answers = np.where(np.arange(600) < 590, np.arange(600) % 4 + 1, 5)
    coded = np.where(np.arange(600) % 40 == 3, 99, answers)
    frame = plain.assign(a=coded, y=answers, mode=np.where(plain.b > 0, "Y", "N"))
    frame.rename(columns={"b": ""}).to_csv("t.csv", index=False)  # as pandas writes its index
    draft = ("schema", "t.csv", "--user", "who", "--out", "s.toml", "--force")
    code, out, _ = run(*draft, "--label", "y")
    assert (code, "Look at a. Some cells hold numbers such as 999 or -1" in out) == (0, True)
    text = Path("s.toml").read_text(encoding="utf-8")
    schema = cg.Schema.from_toml(text.replace("draft = true", ""))
    ranges = {column.name: column.range for column in schema.columns}
    assert (ranges["a"], ranges["y"]) == ((1.0, 5.0), (1.0, 5.0)), "5 is rare and a scale's end; 99 is neither"
    assert "" in ranges
    assert "Look at mode. Answers are written yes and no." in run(*draft, "--label", "mode")[1]
    frame.assign(mode=np.where(plain.b > 0, "car", "n/a")).to_csv("t.csv", index=False)
    assert "Look at mode. Some rows have no label" in run(*draft, "--label", "mode")[1]
    Path("s.toml").write_text(Path("s.toml").read_text("utf-8").replace("draft = true", ""), encoding="utf-8")
    code, _, err = run("train", "t.csv", "--schema", "s.toml", "--out", "board", "--dry-run")
    assert (code, "has no label and is of no use: leave it out (NA, N/A" in err) == (2, True)


def test_free_text_as_a_label_is_no_list_of_classes(run: Run, plain: pd.DataFrame) -> None:
    plain.assign(y=[f"said {n}" for n in range(600)]).to_csv("t.csv", index=False)
    code, _, err = run("schema", "t.csv", "--user", "who", "--out", "s.toml")
    assert (code, "text that hardly repeats (600 different" in err, Path("s.toml").exists()) == (2, True, False)
    assert "said 1" not in err


def test_names_that_occur_twice_are_told_by_a_draft_too(run: Run) -> None:
    Path("t.csv").write_text("who,x,x,y\np1,1,2,3\np2,3,4,5\n", encoding="utf-8")
    code, _, err = run("schema", "t.csv", "--user", "who", "--out", "s.toml")
    assert (code, "the name 'x' occurs 2 times" in err, Path("s.toml").exists()) == (2, True, False)


def test_ids_that_are_one_number_written_in_two_ways_are_told(run: Run, plain: pd.DataFrame) -> None:
    """12 and 12.0, as a column with gaps becomes in pandas; 7 and 007, as a spreadsheet shortens it."""
    number, odd = np.repeat(np.arange(100), 6), np.arange(600) % 2 == 1
    for other in ("{}.0", "00{}"):
        two = [other.format(n) if o else str(n) for n, o in zip(number, odd, strict=True)]
        plain.assign(who=two).to_csv("t.csv", index=False)
        code, _, err = run(*LOOK)
        assert (code, "'who': 100 ids are the same whole number as another one" in err) == (0, True), err
    plain.assign(who=[f"{n}.0" for n in number]).to_csv("t.csv", index=False)
    assert "same whole number" not in run(*LOOK)[2]


def test_classes_as_often_right_are_not_called_worse_and_chances_are_told(run: Run, plain: pd.DataFrame) -> None:
    """One yes in fifty: every model answers no, and what it is worth shows in its chances alone."""
    rare = np.arange(600) % 50 == 7
    plain.assign(y=np.where(rare, "yes", "no"))[["who", "a", "b", "y"]].to_csv("t.csv", index=False)
    Path("s.toml").write_text(
        '[columns.who]\nrole = "person"\n[columns.y]\nrole = "label"\nkind = "yes/no"\n[columns.a]\n[columns.b]\n',
        encoding="utf-8",
    )
    evaluate = ("evaluate", "t.csv", "--schema", "s.toml", "--out", "e", "--rank", 0)
    code, out, err = run(*evaluate, "--epsilon", 20)
    assert (code, "most frequent class" in out, "worse" in err) == (0, True, False), "as often right"
    told = json.loads(run(*evaluate, "--model", "classifier", "--epsilon", 20, "--json")[1])
    assert {one["model"] for one in told["results"] if "log_loss" in one} == {
        "most frequent class", "private classifier, ε = 20",
    }  # fmt: skip
    losses = [one["log_loss"] for one in told["results"] if "log_loss" in one]
    assert told["worse_than_the_mean"] == (losses[1] > losses[0]), "as often right, so chances decide"
    assert "own data, nothing shared" in run(*evaluate[:-2], "--model", "own")[1]
