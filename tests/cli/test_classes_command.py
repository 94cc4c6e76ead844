"""Several classes from the command line: a schema whose label is a category, train, personalize, predict, statement, report."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import commonground as cg
from commonground.cli.app import app

NAMES = np.array(["bus", "bike", "car"])


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("trips"), np.random.default_rng(0)
    ids, X = np.repeat(np.arange(300), 8), rng.uniform(-1, 1, (2400, 2))
    y = np.argmax(np.column_stack([X[:, 0], X[:, 1], -X.sum(axis=1)]) * 3 + rng.gumbel(size=(2400, 3)), axis=1)
    table = pd.DataFrame({"who": [f"p{j}" for j in ids], "rain": X[:, 0], "far": X[:, 1], "by": NAMES[y]})
    table.to_csv(folder / "trips.csv", index=False)
    (folder / "schema.toml").write_text(
        '[columns.who]\nrole = "person"\n[columns.by]\nrole = "label"\nkind = "category"\nvalues = ["bus", "bike", "car"]\n'
        '[columns.rain]\nrole = "feature"\nrange = [-1, 1]\n[columns.far]\nrole = "feature"\nrange = [-1, 1]\n',
        encoding="utf-8",
    )
    return folder


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code != 0
    return " ".join(str(done.exception if done.exception is not None else done.output).split())


@pytest.mark.filterwarnings("ignore")
def test_train_personalize_predict(trips: Path) -> None:
    train = ("train", trips / "trips.csv", "--schema", trips / "schema.toml", "--model", "classifier", "--epsilon", 4)
    dry = json.loads(run(*train, "--out", trips / "none", "--dry-run", "--json"))
    assert "class scores, round: clipped sum" in [one["name"] for one in dry["releases"]]
    assert not (trips / "none").exists()
    run(*train, "--out", trips / "board")
    assert "ε = 4" in run("statement", trips / "board")
    run("personalize", trips / "board", trips / "trips.csv", "--out", trips / "heads.parquet")
    run("predict", trips / "board", trips / "trips.csv", "--heads", trips / "heads.parquet", "--out", trips / "own.csv")
    run("predict", trips / "board", trips / "trips.csv", "--out", trips / "shared.csv")
    rows, board = pd.read_csv(trips / "trips.csv"), cg.Billboard.load(trips / "board")
    for file, known in (("own.csv", True), ("shared.csv", False)):
        told = pd.read_csv(trips / file)
        chances = told[[f"probability of {name}" for name in NAMES]].to_numpy()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-6)
        assert (told["prediction"] == NAMES[chances.argmax(axis=1)]).all()
        assert (told["has_own_head"] == known).all()
        assert (told["prediction"] == rows["by"]).mean() > 0.55
        if known:
            mine = rows["who"] == "p3"
            head = board.personalize(rows[mine], rows[mine]["by"].to_numpy())
            np.testing.assert_allclose(chances[mine], head.predict_proba(rows[mine]), rtol=1e-9)
        else:
            np.testing.assert_allclose(chances, board.predict_proba(rows), rtol=1e-9)
    asked = (
        "predict",
        trips / "board",
        trips / "trips.csv",
        "--heads",
        trips / "heads.parquet",
        "--out",
        trips / "no.csv",
    )
    assert "no standard deviation" in refused(*asked, "--interval", 0.9)
    run("report", trips / "board", "--out", trips / "report.html")
    assert "several classes" in refused("page", trips / "board", "--out", trips / "page.html")


@pytest.mark.filterwarnings("ignore")
def test_yes_or_no_has_the_probabilities_of_the_head(trips: Path) -> None:
    """One function for probabilities: what `predict` writes is what a head says."""
    table = pd.read_csv(trips / "trips.csv").assign(by=lambda t: np.where(t["by"] == "bus", "yes", "no"))
    table.to_csv(trips / "bus.csv", index=False)
    text = (trips / "schema.toml").read_text(encoding="utf-8")
    (trips / "bus.toml").write_text(
        text.replace('kind = "category"\nvalues = ["bus", "bike", "car"]', 'kind = "yes/no"'), encoding="utf-8"
    )
    run("train", trips / "bus.csv", "--schema", trips / "bus.toml", "--model", "classifier", "--out", trips / "bus")
    run("personalize", trips / "bus", trips / "bus.csv", "--out", trips / "bus.parquet")
    run("predict", trips / "bus", trips / "bus.csv", "--heads", trips / "bus.parquet", "--out", trips / "told.csv")
    told, board, mine = pd.read_csv(trips / "told.csv"), cg.Billboard.load(trips / "bus"), table["who"] == "p3"
    head = board.personalize(table[mine], table[mine]["by"].to_numpy())
    np.testing.assert_allclose(told["probability of yes"][mine], head.predict_proba(table[mine])[:, 1], rtol=1e-9)
