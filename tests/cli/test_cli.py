"""The command line as a person uses it, and every mistake that DESIGN lists: one clear line, exit code 2, nothing written."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import commonground as cg
from commonground.accounting.events import GaussianEvent
from commonground.billboard.statement import Statement
from commonground.cli import app as cli
from commonground.cli import demo
from commonground.steps import square_releases


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat([f"u{j}" for j in range(200)], 8))
    heads = {user: rng.standard_normal(2) for user in np.unique(ids)}
    X = rng.standard_normal((1600, 5))
    y = 2.0 + X @ np.ones(5) + np.array([x[:2] @ heads[user] for x, user in zip(X, ids, strict=True)])
    return pd.DataFrame(X, columns=list("abcde")).assign(user_id=ids, y=y)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def board_folder(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A billboard to copy, so that not every test trains."""
    model = cg.PrivateFedRep(rank=2, epsilon=5.0, keep_heads=False).fit(cg.Users.from_table(frame))
    return model.billboard_.save(tmp_path_factory.mktemp("board") / "board")


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Call the entry point in this process: exit code, standard output, standard error."""
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


def test_train_statement_personalize_predict(
    folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way on a CSV of one's own, then predictions near the truth."""
    frame[:1300].to_csv("rows.csv", index=False)
    frame[1300:].drop(columns="y").to_parquet("new.parquet")
    code, out, err = run("train", "rows.csv", "--out", "board", "--epsilon", 8, capsys=capsys)
    assert (code, err.count("warning")) == (0, 0)
    assert "ε = 8" in out
    assert "SIMULATED" not in out
    code, out, _ = run("statement", "board", capsys=capsys)
    assert code == 0
    assert "round 3: clipped sum" in out
    code, out, _ = run("statement", "board", "--json", capsys=capsys)
    document = json.loads(out)
    assert document["epsilon"] == 8.0
    assert document["epsilon_spent"] <= 8.0
    code, out, _ = run("personalize", "board", "rows.csv", "--out", "heads.parquet", capsys=capsys)
    assert code == 0
    assert "private" in out
    assert os.stat("heads.parquet").st_mode & 0o077 == 0
    code, out, _ = run(
        "predict", "board", "new.parquet", "--heads", "heads.parquet", "--out", "p.csv", "--json", capsys=capsys
    )
    assert code == 0
    assert json.loads(out) == {"predictions": "p.csv", "rows": 300, "rows_with_own_head": 300}
    predicted = pd.read_csv("p.csv")
    assert predicted.user_id.tolist() == frame.user_id[1300:].tolist()
    assert np.mean((predicted.prediction - frame.y[1300:].to_numpy()) ** 2) < 0.3 * frame.y.var()
    with_ends = ("predict", "board", "new.parquet", "--interval", 0.9, "--out", "p.csv")
    assert run(*with_ends, "--heads", "heads.parquet", capsys=capsys)[0] == 0
    ends = pd.read_csv("p.csv")
    assert ((ends.low <= frame.y[1300:].to_numpy()) & (frame.y[1300:].to_numpy() <= ends.high)).mean() > 0.8
    code, _, err = run(*with_ends, capsys=capsys)
    assert (code, "--interval needs --heads" in err) == (2, True)
    assert sorted(path.name for path in folder.iterdir()) == [
        "board",
        "heads.parquet",
        "new.parquet",
        "p.csv",
        "rows.csv",
    ]


def test_a_table_of_ratings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    ratings = pd.DataFrame({"user_id": np.repeat(np.arange(100), 9), "song": rng.choice(["a", "b", "7"], 900)})
    ratings.assign(y=rng.standard_normal(900)).to_csv("ratings.csv", index=False)
    Path("songs.txt").write_text("a\nb\n7\nnever heard\n", encoding="utf-8")
    assert run("train", "ratings.csv", "--out", "board", "--item", "song", capsys=capsys)[0] == 2
    assert run("train", "ratings.csv", "--out", "board", "--item", "song", "--items", "no.txt", capsys=capsys)[0] == 2
    assert not Path("board").exists()
    assert (
        run("train", "ratings.csv", "--out", "board", "--item", "song", "--items", "songs.txt", capsys=capsys)[0] == 0
    )
    board = cg.Billboard.load("board")
    assert board.feature_names == ("a", "b", "7", "never heard")
    people = ("--user", "user_id", "--item", "song")
    assert run("personalize", "board", "ratings.csv", "--out", "heads.parquet", *people, capsys=capsys)[0] == 0
    ratings.to_csv("wanted.csv", index=False)
    options = ("--heads", "heads.parquet", "--out", "out.csv", *people)
    assert run("predict", "board", "wanted.csv", *options, capsys=capsys)[0] == 0
    answers = pd.read_csv("out.csv")
    assert answers["has_own_head"].all()
    X, y = cg.Users.from_table("ratings.csv", item="song", items=board.feature_names).rows_of(5)
    np.testing.assert_allclose(answers["prediction"][answers["user_id"] == 5], board.personalize(X, y).predict(X))


def test_simulation_is_marked(folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    frame.to_csv("rows.csv", index=False)
    _, out, _ = run("train", "rows.csv", "--out", "b", "--simulation-seed", 1, "--json", capsys=capsys)
    assert json.loads(out)["simulated"] is True
    _, out, _ = run("statement", "b", capsys=capsys)
    assert out.startswith("SIMULATED, NOT PRIVATE")


def test_the_rank_may_be_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users, _ = cg.datasets.make_shared_subspace(3000, rows_per_user=6, n_features=8, rank=2, seed=0)
    X, y = next(users.blocks()).X, next(users.blocks()).y
    ids = np.repeat(users.ids, 6)
    pd.DataFrame(X, columns=list("abcdefgh")).assign(user_id=ids, y=y).to_parquet("rows.parquet")
    _, out, _ = run("train", "rows.parquet", "--out", "b", "--rank", "auto", "--epsilon", 4, "--json", capsys=capsys)
    assert json.loads(out)["epsilon"] == 4.0
    assert cg.Billboard.load("b").embedding.shape == (8, 2)


def test_the_installed_command(folder: Path) -> None:
    """As a process: usage error exits with 2, help with 0."""
    command = Path(sys.executable).with_name("commonground")
    assert subprocess.run([command, "--help"], capture_output=True, check=False).returncode == 0
    wrong = subprocess.run([command, "train", "nowhere.csv", "--out", "b"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    assert "nowhere.csv" in wrong.stderr


def text(content: str) -> Callable[[pd.DataFrame], None]:
    return lambda frame: Path("t.csv").write_text(content)


def table(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[pd.DataFrame], None]:
    return lambda frame: change(frame).to_csv("t.csv", index=False)


as_it_is = table(lambda frame: frame)
with_value = lambda value: table(lambda f: f.assign(a=f.a.astype(object).where(f.index != 7, value)))  # noqa: E731

TRAIN_MISTAKES: dict[str, tuple[Callable[[pd.DataFrame], None], list[object], str]] = {
    "missing file": (lambda frame: None, [], "no file 't.csv'"),
    "empty file": (text(""), [], "empty"),
    "header only": (text("user_id,a,b,y\n"), [], "no rows"),
    "broken CSV": (text("user_id,a,b,y\n1,2,3\n"), [], "cannot be read as CSV"),
    "unknown suffix": (lambda frame: frame.to_csv("t.tsv"), ["t.tsv"], "unknown suffix"),
    "no such user column": (as_it_is, ["--user", "person"], "no column 'person'"),
    "no such label column": (as_it_is, ["--label", "rating"], "no column 'rating'"),
    "misspelt feature": (as_it_is, ["--features", "a,b,user_ids"], "Did you mean 'user_id'"),
    "label among features": (as_it_is, ["--features", "a,y"], "cannot be a feature"),
    "feature twice": (as_it_is, ["--features", "a,b,a"], "occurs 2 times"),
    "duplicate column": (text("user_id,a,a,y\n1,2,3,4\n2,3,4,5\n"), [], "occurs 2 times"),
    "one person only": (table(lambda f: f.assign(user_id="me")), [], "only one person"),
    "text in a feature": (table(lambda f: f.assign(a="red")), [], "'a' is not numeric"),
    "missing value": (with_value(None), [], "Row 7 (counting from 0) of column 'a' is missing"),
    "infinite value": (with_value(np.inf), [], "Row 7 (counting from 0) of column 'a' is infinite"),
    "missing id": (table(lambda f: f.assign(user_id=f.user_id.where(f.index != 3))), [], "no id in row 3"),
    "rank too large": (as_it_is, ["--rank", 5], "integer from 0 to 4"),
    "rank negative": (as_it_is, ["--rank", -2], "integer from 0 to 4"),
    "rank not a number": (as_it_is, ["--rank", "two"], "two"),
    "rank of dashes": (
        as_it_is,
        ["--rank=---"],
        "--rank must be a whole number of shared directions, or 'auto', got '---'",
    ),
    "rank with two signs": (as_it_is, ["--rank=--5"], "got '--5'"),
    "rank that is no ASCII": (as_it_is, ["--rank", "²"], "got '²'"),
    "not UTF-8": (
        lambda frame: Path("t.csv").write_bytes("user_id,a,b,y\nZoë,1,2,3\n".encode("latin-1")),
        [],
        "not text in UTF-8",
    ),
    "no such device": (as_it_is, ["--device", "gpu"], "'cuda' on a machine with an NVIDIA GPU"),
    "epsilon zero": (as_it_is, ["--epsilon", 0], "epsilon must be"),
    "epsilon negative": (as_it_is, ["--epsilon", -1], "epsilon must be"),
    "epsilon NaN": (as_it_is, ["--epsilon", "nan"], "epsilon must be"),
    "delta zero": (as_it_is, ["--delta", 0], "delta must lie"),
    "delta one": (as_it_is, ["--delta", 1], "delta must lie"),
    "unknown recipe": (as_it_is, ["--recipe", "magic"], "'default' or 'paper', got 'magic'"),
    "no rounds": (as_it_is, ["--rounds", 0], "n_rounds"),
    "negative seed": (as_it_is, ["--simulation-seed", -3], "simulation_seed"),
    "not Parquet": (lambda frame: Path("t.parquet").write_text("x"), ["t.parquet"], "not a readable Parquet"),
}


@pytest.mark.parametrize("mistake", TRAIN_MISTAKES)
def test_mistakes_in_training(
    mistake: str, folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, options, message = TRAIN_MISTAKES[mistake]
    prepare(frame)
    before = set(folder.iterdir())
    source = [options[0]] if options and not str(options[0]).startswith("-") else ["t.csv"]
    code, out, err = run(
        "train", *source, "--out", "board", *options[len(source) - ("t.csv" in source) :], capsys=capsys
    )
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err
    assert set(folder.iterdir()) == before, "something half-written was left behind"


def test_a_large_delta_warns_and_goes_on(folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    frame.to_csv("t.csv", index=False)
    code, _, err = run("train", "t.csv", "--out", "b", "--delta", 0.1, capsys=capsys)
    assert code == 0
    assert "warning: delta = 0.1 is larger than 1/(number of people)" in err


def test_an_output_that_is_something_else_is_kept(
    folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv("t.csv", index=False)
    Path("thesis").mkdir()
    Path("thesis/chapter.txt").write_text("years of work")
    code, _, err = run("train", "t.csv", "--out", "thesis", capsys=capsys)
    assert code == 2
    assert "not a billboard" in err
    assert Path("thesis/chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize("out", [".", "thesis/chapter.txt/board", "x" * 300, "loop"])
def test_no_budget_is_spent_on_a_result_that_has_no_place(
    out: str, folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a ledger and without: the folder is made before anything is read or booked, and goes again."""
    frame.to_csv("t.csv", index=False)
    Path("thesis").mkdir()
    Path("thesis/chapter.txt").write_text("years of work")
    Path("loop").symlink_to("loop")
    run("ledger", "open", "l.db", "--population", "p", "--epsilon", 2, capsys=capsys)
    before = set(folder.iterdir())
    for ledger in ([], ["--ledger", "l.db", "--population", "p"]):
        code, _, err = run("train", "t.csv", "--out", out, *ledger, capsys=capsys)
        assert code == 2
        assert "not a billboard" in err or "cannot be written" in err
    _, _, err = run("train", "nowhere.csv", "--out", out, capsys=capsys)
    assert "nowhere.csv" not in err, "the place is tried out before the table is read"
    _, shown, _ = run("ledger", "show", "l.db", "--json", capsys=capsys)
    assert json.loads(shown)["populations"][0]["n_events"] == 1, "only the opening"
    assert set(folder.iterdir()) == before


def test_training_into_a_linked_folder_keeps_what_else_is_there(
    folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cg.Billboard.load(board_folder).save("real")
    Path("real/heads.parquet").write_text("heads")
    Path("link").symlink_to("real")
    frame.to_csv("t.csv", index=False)
    train = ("train", "t.csv", "--out", "link", "--epsilon", 3)
    code, out, err = run(*train, capsys=capsys)
    assert (code, out) == (2, "")
    assert "holds a billboard already" in err
    assert cg.Billboard.load("real").statement.epsilon == 5.0, "and it is as it was"
    assert run(*train, "--force", capsys=capsys)[0] == 0
    assert cg.Billboard.load("real").statement.epsilon == 3.0
    assert Path("real/heads.parquet").read_text() == "heads"
    assert Path("link").is_symlink()


def test_an_output_never_takes_the_place_of_its_input(
    folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame[:100].to_parquet("rows.parquet")
    Path("link.parquet").symlink_to("rows.parquet")
    original = Path("rows.parquet").read_bytes()
    for out in ("rows.parquet", "link.parquet"):
        for command in (["personalize"], ["predict"], ["federate", "node", "personalize"]):
            code, _, err = run(*command, board_folder, "rows.parquet", "--out", out, capsys=capsys)
            assert code == 2
            assert "is the file that is read" in err
    run("personalize", board_folder, "rows.parquet", "--out", "heads.parquet", capsys=capsys)
    heads = ("--heads", "heads.parquet", "--out")
    assert run("predict", board_folder, "rows.parquet", *heads, "heads.parquet", capsys=capsys)[0] == 2
    assert run("predict", board_folder, "rows.parquet", *heads, "p.csv", capsys=capsys)[0] == 0
    assert os.stat("p.csv").st_mode & 0o077 == 0, "predictions are private"
    assert Path("rows.parquet").read_bytes() == original


def test_formulas_as_ids_and_tags_as_names_are_only_text(
    folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = Statement(
        "[/red]", "[/red]", 1.0, 1e-6, 10, 5, False, "[/red]", (GaussianEvent("[/red]", 0.1, 2.0, 20.0, 10, False),)
    )
    names = tuple(column for column in frame.columns if column not in ("user_id", "y"))
    d = len(names)
    cg.Billboard(np.eye(d)[:, :2], None, 0.0, True, names, statement).save("[/red]")
    code, out, _ = run("statement", "[/red]", capsys=capsys)
    assert code == 0
    assert out.count("[/red]") >= 3
    frame[:3].assign(user_id=["=cmd|x", "@a", "ann"]).to_csv("t.csv", index=False)
    assert run("predict", "[/red]", "t.csv", "--out", "p.csv", capsys=capsys)[0] == 0
    assert pd.read_csv("p.csv").user_id.tolist() == ["'=cmd|x", "'@a", "ann"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_statement_of_endless_depth_is_a_mistake_not_a_crash(
    opening: str, folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("board").mkdir()
    Path("board/statement.json").write_text(opening * 100_000)
    Path("board/billboard.safetensors").touch()
    frame.to_csv("t.csv", index=False)
    for arguments in (("statement", "board"), ("predict", "board", "t.csv", "--out", "p.csv")):
        code, _, err = run(*arguments, capsys=capsys)
        assert code == 2
        assert "too deeply" in err or "damaged" in err


def test_many_dense_columns_are_announced_or_refused_before_anything_is_charged(
    folder: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    frame.to_csv("t.csv", index=False)
    run("ledger", "open", "l.db", "--population", "p", "--epsilon", 2, capsys=capsys)
    train = ("train", "t.csv", "--out", "b", "--ledger", "l.db", "--population", "p")
    monkeypatch.setattr(square_releases, "BYTES_PER_ENTRY", 10**9)
    monkeypatch.setattr(square_releases, "machine_bytes", lambda: 10**10)
    code, _, err = run(*train, capsys=capsys)
    assert code == 2
    for words in ("dense columns", "25.0 GB", "more than the 10.0 GB", "scipy.sparse", "item="):
        assert words in err
    _, shown, _ = run("ledger", "show", "l.db", "--json", capsys=capsys)
    assert json.loads(shown)["populations"][0]["epsilon_charged"] == 0.0
    monkeypatch.setattr(square_releases, "machine_bytes", lambda: 10**11)
    code, _, err = run(*train, capsys=capsys)
    assert code == 0
    assert "warning: PrivateFedRep on 5 dense columns" in err


def spoil(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda board: (board / name).write_bytes(change((board / name).read_bytes())) and None


USE_MISTAKES: dict[str, tuple[Callable[[Path], object], str, list[object], str]] = {
    "no billboard": (lambda board: None, "statement", ["nowhere"], "not a readable billboard"),
    "a changed number": (
        spoil("billboard.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])), "statement", ["board"], "was changed"
    ),
    "a changed claim": (
        spoil("statement.json", lambda b: b.replace(b'"epsilon": 5.0', b'"epsilon": 0.1')), "statement", ["board"], "was changed"
    ),
    "a cut file": (spoil("statement.json", lambda b: b[:100]), "statement", ["board"], "damaged"),
    "a newer billboard": (
        spoil("statement.json", lambda b: b.replace(b'"schema_version": 7', b'"schema_version": 8')), "statement", ["board"],
        "newer",
    ),
    "missing feature": (lambda board: None, "predict", ["board", "few.csv", "--out", "p.csv"], "no column 'e'"),
    "unknown person": (
        lambda board: None, "predict",
        ["board", "stranger.csv", "--heads", "heads.parquet", "--strict", "--out", "p.csv"], "'stranger' has no head",
    ),
    "heads of another billboard": (
        lambda board: cg.PrivateFedRep(2, 5.0, keep_heads=False).fit(cg.Users.from_table("good.csv")).billboard_.save(board),
        "predict", ["board", "good.csv", "--heads", "heads.parquet", "--out", "p.csv"], "another billboard",
    ),
    "heads that are none": (
        lambda board: None, "predict", ["board", "good.csv", "--heads", "good.csv", "--out", "p.csv"], "cannot be read as heads"
    ),
    "output suffix": (lambda board: None, "predict", ["board", "good.csv", "--out", "p.xlsx"], ".csv or .parquet"),
    "heads suffix": (lambda board: None, "personalize", ["board", "good.csv", "--out", "h.csv"], "ends in .parquet"),
    "output folder is a file": (
        lambda board: None, "predict", ["board", "good.csv", "--out", "good.csv/p.csv"], "good.csv"
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", USE_MISTAKES)
def test_mistakes_in_using_a_billboard(
    mistake: str, folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, command, arguments, message = USE_MISTAKES[mistake]
    board = cg.Billboard.load(board_folder)
    board.save("board")
    frame[:100].to_csv("good.csv", index=False)
    frame[:100].drop(columns="e").to_csv("few.csv", index=False)
    frame[:3].assign(user_id="stranger").to_csv("stranger.csv", index=False)
    run("personalize", "board", "good.csv", "--out", "heads.parquet", capsys=capsys)
    prepare(folder / "board")
    before = set(folder.iterdir())
    code, out, err = run(command, *arguments, capsys=capsys)
    assert code == 2
    assert message in err
    assert "Traceback" not in out + err
    assert set(folder.iterdir()) == before, "something half-written was left behind"


def test_unknown_people_get_the_shared_prediction(
    folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame[:100].to_csv("good.csv", index=False)
    frame[:5].assign(user_id="stranger").to_csv("stranger.csv", index=False)
    run("personalize", board_folder, "good.csv", "--out", "heads.parquet", capsys=capsys)
    code, _, _ = run(
        "predict", board_folder, "stranger.csv", "--heads", "heads.parquet", "--out", "p.csv", capsys=capsys
    )
    assert code == 0
    shared = cg.Billboard.load(board_folder).predict(frame[:5])
    np.testing.assert_allclose(pd.read_csv("p.csv").prediction, shared)
    assert not pd.read_csv("p.csv").has_own_head.any()


def test_people_are_known_by_their_ids_whatever_else_is_in_the_table(
    folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One text among the ids makes a column text. That must neither lose 7 nor take 007 for it, in either direction."""
    rows = frame[:6].assign(user_id=["7", "7", "8", "8", "9", "9"])
    asked = pd.concat([frame[:4]]).assign(user_id=["7", "007", "guest", "9"])
    numbers, mixed = rows, pd.concat([rows, frame[:2].assign(user_id="007")])
    for trained, known in ((numbers, [True, False, False, True]), (mixed, [True, True, False, True])):
        trained.to_csv("rows.csv", index=False)
        run("personalize", board_folder, "rows.csv", "--out", "heads.parquet", capsys=capsys)
        asked.to_csv("asked.csv", index=False)
        options = ("--heads", "heads.parquet", "--out", "p.csv")
        assert run("predict", board_folder, "asked.csv", *options, capsys=capsys)[0] == 0
        assert pd.read_csv("p.csv").has_own_head.tolist() == known
        asked[asked.user_id.isin(["7", "9"])].to_csv("asked.csv", index=False)  # numbers alone
        assert run("predict", board_folder, "asked.csv", *options, "--strict", capsys=capsys)[0] == 0


def test_one_newcomer_is_enough_to_personalize(
    folder: Path, frame: pd.DataFrame, board_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame[frame.user_id == "u7"].to_csv("me.csv", index=False)
    code, out, _ = run("personalize", board_folder, "me.csv", "--out", "h.parquet", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["people"] == 1


def test_demo_writes_table_figure_and_billboard(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "EPSILONS", (1.0, 8.0))  # a fit each; all of them are `make demo`
    monkeypatch.setattr(demo, "PAPER_EPSILONS", (8.0,))
    code, out, err = run("demo", "--people", 600, "--out", "d", capsys=capsys)
    assert code == 0
    assert "warning" not in err
    assert "÷ floor" in out
    assert sorted(path.name for path in (folder / "d").iterdir()) == [
        "billboard", "mse_vs_epsilon.png", "mse_vs_epsilon.svg", "results.csv"
    ]  # fmt: skip
    assert not cg.Billboard.load(folder / "d" / "billboard").statement.simulated
    code, out, _ = run("demo", "--people", 300, "--out", "e", "--json", capsys=capsys)
    assert len(json.loads(out)["results"]) == 4 + 2 + 1
