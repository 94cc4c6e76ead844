"""A machine on which nothing can be written but what is asked for: no bytecode, no compiled code, no home."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import commonground


def nothing_can_be_written_below(path: Path) -> Path:
    """Not even by an administrator: it is a file where a folder would have to be."""
    path.write_text("")
    return path


@pytest.mark.slow  # every command compiles anew
def test_train_personalize_predict_where_nothing_is_kept(tmp_path: Path) -> None:
    package = shutil.copytree(
        Path(commonground.__file__).parent,
        tmp_path / "site" / "commonground",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for folder in [package, *(one for one in package.rglob("*") if one.is_dir())]:
        nothing_can_be_written_below(folder / "__pycache__")
    home = nothing_can_be_written_below(tmp_path / "home")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path / "site"), "HOME": str(home), "XDG_CACHE_HOME": str(home)}
    work = tmp_path / "work"
    work.mkdir()
    rng = np.random.default_rng(0)
    with open(work / "rows.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "y", "a", "b", "c"])
        for person in range(300):
            head = rng.normal()
            for a, b, c in rng.normal(size=(8, 3)):
                rows.writerow([f"{person:04}", head * (a + b) + 0.1 * c, a, b, c])

    def command(*arguments: str) -> str:
        asked = [sys.executable, "-m", "commonground", *arguments]
        done = subprocess.run(asked, cwd=work, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stderr.split())

    names = "--user", "who", "--label", "y"
    said = command("train", "rows.csv", *names, "--epsilon", "8", "--out", "board")
    assert said.count("NUMBA_CACHE_DIR") == 1  # once, with what would help
    command("personalize", "board", "rows.csv", *names, "--out", "heads.parquet")
    command(
        "predict", "board", "rows.csv", "--user", "who", "--heads", "heads.parquet", "--out", "answers.csv", "--strict"
    )
    assert (work / "answers.csv").read_text().count("\n") == 2401
    assert not list(tmp_path.rglob("*.nbi"))
    assert not list((tmp_path / "site").rglob("*.pyc"))
