"""What the wheel does in an environment of its own: first and second fit, every public name, the commands, its weight.

Run by `make wheel` with the Python of that environment, from an empty folder.
"""

import csv
import os
import random
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

MOST_MEGABYTES = (
    900  # without compiled code, which Python and Numba write by themselves, and without pip and setuptools
)
MOST_COMPILING = (
    40.0  # seconds of a core; about 11 on an idle one, where 10 are wanted (docs/first_use.md); machines differ
)
BIN = Path(sys.executable).parent


def timed(what: str, *command: str) -> float:
    """Seconds of a core, which is what counts where others work, too."""
    before, started = os.times(), time.perf_counter()
    subprocess.run([str(BIN / command[0]), *command[1:]], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    print(f"{time.perf_counter() - started:6.1f} s, {used:6.1f} s of a core  {what}", flush=True)
    return used


def megabytes(folder: Path) -> float:
    return (
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        / 1e6
    )


def a_table(path: Path) -> None:
    """People who share one direction, and have a head each."""
    draw = random.Random(0).gauss
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "y", "a", "b", "c", "d"])
        for person in range(2_000):
            head = draw(0, 1)
            for _ in range(8):
                x = [draw(0, 1) for _ in range(4)]
                rows.writerow([f"p{person:05}", head * (x[0] + x[1]) + 0.1 * draw(0, 1), *x])


if __name__ == "__main__":
    for extra in ("torch", "ray", "flwr", "pandas", "pytest", "matplotlib"):
        assert subprocess.run([sys.executable, "-c", f"import {extra}"], capture_output=True).returncode, extra
    timed("import commonground", "python", "-c", "import commonground")
    timed("every public name", "python", "-c", "import commonground as cg; [getattr(cg, name) for name in cg.__all__]")
    timed("--version", "commonground", "--version")
    timed("--help", "commonground", "--help")
    timed("python -m commonground --help", "python", "-m", "commonground", "--help")
    a_table(Path("rows.csv"))
    names = "--user", "person", "--label", "y"
    train = [
        timed(f"train, {board}", "commonground", "train", "rows.csv", *names, "--rank", "1", "--out", board)
        for board in ("first", "second")
    ]
    timed("statement", "commonground", "statement", "first")
    timed("report", "commonground", "report", "first", "--out", "report.html")
    timed("page", "commonground", "page", "first", "--out", "page.html")
    asked = "commonground", "personalize", "first", "rows.csv", *names, "--out"
    personalize = [timed(f"personalize, {heads}", *asked, f"{heads}.parquet") for heads in ("first", "second")]
    asked = "predict", "first", "rows.csv", "--user", "person", "--heads", "first.parquet", "--out", "answers.csv"
    timed("predict", "commonground", *asked)
    assert Path("answers.csv").read_text().count("\n") == 16_001
    site = Path(sysconfig.get_paths()["purelib"])
    heaviest = sorted(((megabytes(one), one.name) for one in site.iterdir() if one.is_dir()), reverse=True)[:8]
    whole = megabytes(site) - sum(
        megabytes(one) for one in site.iterdir() if one.name.startswith(("pip", "setuptools"))
    )
    print(f"{whole:6.0f} MB  {', '.join(f'{name} {size:.0f}' for size, name in heaviest)}")
    assert whole <= MOST_MEGABYTES, f"the core may weigh {MOST_MEGABYTES} MB"
    for first, second in (train, personalize):
        assert first - second <= MOST_COMPILING, f"a first use may take {MOST_COMPILING} s more than a second"
