"""docs/architecture.md is true: rooms import only whom its table allows; a row, a budget and a sum take the walks it tells of."""

import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import commonground as cg
from commonground.cli import app as cli

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "commonground"
LOADED_WITH_A_COMMAND = ("cli.ledger", "estimators.fedrep")
LOADING = ("<module>", "__getattr__")  # calls that only load what is not there yet
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def allowed() -> dict[str, set[str]]:
    """The page's table: room → those it may import."""
    lines = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", PAGE, re.M)
    return {room: set(re.findall(r"`(\w+)`", others)) for room, others in lines}


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def imported(text: str) -> Iterator[str]:
    tree = ast.parse(text)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def found() -> dict[str, set[str]]:
    """Room → the rooms that its files import."""
    imports: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        room = parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        names = {
            room_of(name) for name in imported(path.read_text(encoding="utf-8")) if name.startswith("commonground.")
        }
        imports.setdefault(room, set()).update(names - {room})
    return imports


def test_rooms_import_only_those_that_the_page_allows() -> None:
    may, does = allowed(), found()
    assert may.keys() == does.keys()
    for room, others in does.items():
        assert others <= may[room], f"{room} imports {others - may[room]}; see docs/architecture.md"
        assert may[room] <= others, f"{room} may import {may[room] - others} and does not: take it out of the page"


def test_no_file_is_long_without_a_reason() -> None:
    """Above 400 lines: those that the page gives a reason for."""
    long = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
    }
    assert long <= set(re.findall(r"`([\w/]+\.py)` \(\d+", PAGE))


def test_there_are_no_cycles() -> None:
    left = allowed()
    while left:
        free = [room for room, others in left.items() if not others & left.keys()]
        assert free, f"a cycle among {sorted(left)}"
        for room in free:
            del left[room]


def test_the_picture_is_drawn_from_the_table() -> None:
    spec = importlib.util.spec_from_file_location("rooms_picture", ROOT / "benchmarks" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.drawn(), "run benchmarks/rooms.py"


# ---- walks ---------------------------------------------------------------------------------------------------------------


def walk(title: str) -> list[str]:
    """The files that the page lists under a heading, in order."""
    section = re.search(rf"^### {title}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)
    assert section, title
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section[1], re.M)


def visited(run: Callable[[], Any]) -> list[str]:
    """Files of the package in the order in which a function of them is first called; all are loaded before."""
    for name in LOADED_WITH_A_COMMAND:
        importlib.import_module(f"commonground.{name}")
    seen: dict[str, None] = {}

    def note(frame: Any, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(PACKAGE)) and frame.f_code.co_name not in LOADING:
            seen.setdefault(str(Path(name).relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(seen)


def check(title: str, run: Callable[[], Any]) -> None:
    steps, seen = walk(title), visited(run)
    assert len(steps) == len(set(steps)) > 4, "no file is visited twice"
    assert not set(steps) - set(seen), f"never visited: {set(steps) - set(seen)}"
    assert steps == sorted(steps, key=seen.index), [step for step in seen if step in steps]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 4)).astype(np.float32)
    columns = {
        "user_id": np.repeat(np.arange(200), 8),
        "y": X @ np.ones(4, np.float32),
        **dict(zip("abcd", X.T, strict=True)),
    }
    rows = pa.table(columns)
    pq.write_table(rows, "rows.parquet")
    pa.csv.write_csv(rows, "rows.csv")
    return tmp_path


def command(*arguments: str) -> None:
    done = CliRunner().invoke(cli.app, [*arguments])
    assert done.exit_code == 0, done.output


TRAIN = ("train", "rows.csv", "--out", "board", "--rank", "1", "--simulation-seed", "1", "--rounds", "2")


def test_the_walk_of_a_row(table: Path) -> None:
    def run() -> None:
        command(*TRAIN)
        command("personalize", "board", "rows.csv", "--out", "heads.parquet")
        command("predict", "board", "rows.csv", "--heads", "heads.parquet", "--out", "answers.csv")

    check("A row, from `train` to `predict`", run)


def test_the_walk_of_a_budget(table: Path) -> None:
    def run() -> None:
        command(*TRAIN)
        command("statement", "board")

    check("A budget, from ε to the statement", run)


def test_the_walk_of_a_federated_sum(table: Path) -> None:
    pytest.importorskip("flwr")
    from commonground.federated.federation import Federation
    from federation_in_process import InProcess, nodes_of

    users = cg.Users.from_table("rows.parquet")
    model = cg.SingleModel(4.0, simulation_seed=1)
    check("A sum, in a federation", lambda: model.fit(Federation(InProcess(nodes_of(users, 2)))))


def test_the_walk_of_a_sum_on_ray(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the workers' own code in this process: what a cluster adds is between these files, not in them."""
    ray_engine = pytest.importorskip("commonground.engines.ray")

    class Here:
        reader = ray_engine.OneCoreReader()

        def map(self, method: str, calls: Any, what: str, **same: Any) -> Iterator[Any]:
            return (getattr(self.reader, method)(*call, **same) for call in calls.values())

        def forget(self, keys: Any) -> None: ...

    monkeypatch.setattr(ray_engine, "connect", lambda address: Here())
    monkeypatch.setattr(ray_engine.ray, "put", lambda question: question)
    model = cg.SingleModel(4.0, simulation_seed=1)
    check("A sum, on Ray", lambda: model.fit(cg.Users.from_table("rows.parquet", engine="ray")))
