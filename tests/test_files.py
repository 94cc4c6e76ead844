"""What is written is whole, private where it is about people, and never in the place of something else."""

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import commonground as cg
from commonground import files
from commonground.billboard.files import place_for_board
from commonground.billboard.statement import Statement
from commonground.data.tables import harmless_text, write_table
from commonground.errors import BillboardError, InputError
from commonground.files import PRIVATE, replacing, require_other_file

PREDICTIONS = pa.table({"user_id": ["a", "b"], "prediction": [1.0, 2.0]})


def board(seed: int) -> cg.Billboard:
    U = np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 2)))[0]
    statement = Statement("a model", "default", float("inf"), 0.0, 10, 4, False, "none", ())
    return cg.Billboard(U, np.full(4, float(seed)), 0.5, True, ("a", "b", "c", "d"), statement)


@pytest.fixture(autouse=True)
def open_handed() -> Iterator[None]:
    """An account whose new files everybody may read and write."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- one file ---------------------------------------------------------------------------------------------------------


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    """Neither where the draft used to be nor where the result goes."""
    victim = tmp_path / "victim"
    victim.write_text("years of work")
    (tmp_path / f".p.csv.{os.getpid()}").symlink_to(victim)
    (tmp_path / "p.csv").symlink_to(victim)
    write_table(PREDICTIONS, tmp_path / "p.csv")
    assert victim.read_text() == "years of work"
    assert not (tmp_path / "p.csv").is_symlink()


@pytest.mark.parametrize("name", ["p.csv", "p.parquet"])
def test_tables_about_people_are_for_this_account_only(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch(0o666)
    assert mode(write_table(PREDICTIONS, tmp_path / name)) == 0o600


def test_a_file_is_on_the_disk_before_it_takes_its_place_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any) -> Any:
            is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
            steps.append("fsync folder" if is_folder else name)
            return real(*arguments)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(files.os, name, noted(name))
    with replacing(tmp_path / "f", PRIVATE) as file:
        assert mode(Path(file.name) if isinstance(file.name, str) else next(tmp_path.iterdir())) == 0o600
        file.write(b"x")
    assert steps == ["fsync", "replace", "fsync folder"]


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("before")
    with pytest.raises(OSError, match="full"), replacing(tmp_path / "f", PRIVATE) as file:  # noqa: PT012
        file.write(b"half")
        raise OSError("full")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_text() == "before"


def test_an_output_is_not_an_input_by_any_name(tmp_path: Path) -> None:
    source, folder = tmp_path / "rows.csv", tmp_path / "table"
    source.touch()
    folder.mkdir()
    (tmp_path / "soft.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    (tmp_path / "linked").symlink_to(folder)
    for out in ("rows.csv", "soft.csv", "hard.csv", "table/../rows.csv"):
        with pytest.raises(InputError, match="is the file that is read"):
            require_other_file(tmp_path / out, None, source)
    with pytest.raises(InputError, match="would become a part of"):
        require_other_file(tmp_path / "linked" / "p.parquet", folder)
    require_other_file(tmp_path / "new.csv", source, folder, None, tmp_path / "nowhere")


FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1+1", "@SUM(A1)", "\t=1", " =1", "＝1", "'=1", "'", "\r=1"]


def test_ids_are_no_formulas_in_a_csv_and_can_be_had_back(tmp_path: Path) -> None:
    ids = [*FORMULAS, "ann", "7", "a=b", "", '"', "x,=1"]
    write_table(pa.table({"user_id": ids, "n": [-1] * len(ids)}), tmp_path / "p.csv")
    options = pa.csv.ConvertOptions(column_types={"user_id": pa.string()})
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    table = pa.csv.read_csv(tmp_path / "p.csv", convert_options=options, parse_options=parse)
    written = table.column("user_id").to_pylist()
    assert not any(one.strip()[:1] in tuple("=+-@＝＋－＠") and one.strip() for one in written)
    assert [one[1:] if one.startswith("'") else one for one in written] == ids
    assert written[len(FORMULAS) :] == ids[len(FORMULAS) :]
    assert table.column("n").to_pylist() == [-1] * len(ids), "numbers are no text"
    missing = pa.chunked_array([pa.array(["=1", None]).dictionary_encode()])
    assert harmless_text(missing).to_pylist() == ["'=1", None]


# --- a billboard's folder ---------------------------------------------------------------------------------------------


class Interruption(BaseException):
    pass


def interrupted_at(line: int, work: Any) -> bool:
    """Do some work, with an exception at its ``line``-th line in this package; False if it has fewer."""
    seen = 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if event == "line":
            seen += 1
            if seen == line:
                raise Interruption
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return local if "commonground" in frame.f_code.co_filename or "tempfile" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of interruptions
@pytest.mark.parametrize("there", ["a board", "an empty folder", "nothing"])
def test_at_whatever_line_a_save_is_interrupted_there_is_the_old_board_or_the_new_one(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And other files in the folder are as they were; the next save cleans up."""
    monkeypatch.setattr(
        files.os, "fsync", lambda handle: None
    )  # hundreds of times: only the order of steps is tested here
    old, new = board(1), board(2)
    folder, line, seen = tmp_path / "board", 0, set()
    while True:
        line += 1
        if there == "a board":
            old.save(folder)
            (folder / "heads.parquet").write_text("heads")
        elif there == "an empty folder":
            folder.mkdir(exist_ok=True)
        if not interrupted_at(line, lambda: new.save(folder)):
            break
        if (folder / "statement.json").exists():
            found = cg.Billboard.load(folder).fingerprint
            assert found in (old.fingerprint, new.fingerprint)
            seen.add(found)
        else:
            assert there != "a board"
        if there == "a board":
            assert (folder / "heads.parquet").read_text() == "heads"
        else:
            new.save(folder)
            assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [
                "billboard.safetensors",
                "statement.json",
            ]
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    assert line > 50
    assert seen == ({old.fingerprint, new.fingerprint} if there == "a board" else {new.fingerprint})
    assert mode(folder / "billboard.safetensors") == mode(folder / "statement.json") == 0o644


def test_a_board_replaced_while_it_is_read_is_read_as_one_of_the_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = board(1), board(2)
    old.save(tmp_path / "board")
    read_text = Path.read_text

    def then_replaced(path: Path, **options: Any) -> str:
        text = read_text(path, **options)
        monkeypatch.setattr(Path, "read_text", read_text)
        new.save(tmp_path / "board")
        return text

    monkeypatch.setattr(Path, "read_text", then_replaced)
    assert cg.Billboard.load(tmp_path / "board").fingerprint == new.fingerprint


def test_arrays_under_their_first_name_are_checked_like_others(tmp_path: Path) -> None:
    """Changed arrays are not excused by a file beside them."""
    path = board(1).save(tmp_path / "board")
    payload = (path / "billboard.safetensors").read_bytes()
    (path / f"billboard-{hashlib.sha256(payload).hexdigest()}.safetensors").write_bytes(payload[:-1] + b"x")
    (path / "billboard.safetensors").write_bytes(payload[:-1] + b"y")
    with pytest.raises(BillboardError, match="was changed"):
        cg.Billboard.load(path)


def test_a_linked_folder_and_this_folder_can_hold_a_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    board(1).save(tmp_path / "link")
    board(2).save(tmp_path / "link")
    board(3).save(tmp_path / "dangling")
    assert cg.Billboard.load(tmp_path / "real").fingerprint == board(2).fingerprint
    assert cg.Billboard.load(tmp_path / "made").fingerprint == board(3).fingerprint
    monkeypatch.chdir(tmp_path / "real")
    board(4).save(".")
    assert cg.Billboard.load(".").fingerprint == board(4).fingerprint


def test_a_place_for_a_board_is_tried_out_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "loop").symlink_to("loop")
    impossible = ["thesis", "thesis/chapter.txt", "thesis/chapter.txt/board", "x" * 300, "loop", "new/" + "y" * 300]
    for name in impossible:
        with (
            pytest.raises(BillboardError, match=r"not a billboard|cannot be written"),
            place_for_board(tmp_path / name),
        ):
            pass
    with place_for_board(tmp_path / "a" / "b" / "board") as folder:
        assert folder.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loop", "thesis"]
    with place_for_board(tmp_path / "a" / "board"):
        board(1).save(tmp_path / "a" / "board")
    assert cg.Billboard.load(tmp_path / "a" / "board").fingerprint == board(1).fingerprint
