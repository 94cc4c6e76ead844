"""What the wheel does in an environment of its own: first and second fit, every public name, the commands, its weight.

Run by `make wheel` with the Python of that environment, from an empty folder.
"""

import csv
import random
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

MOST_MEGABYTES = (
    1000  # without compiled code, which Python and Numba write by themselves; 977 in November 2026, wanted are 900
)
BIN = Path(sys.executable).parent


def timed(what: str, *command: str) -> None:
    started = time.perf_counter()
    subprocess.run([str(BIN / command[0]), *command[1:]], check=True, stdout=subprocess.DEVNULL)
    print(f"{time.perf_counter() - started:6.1f} s  {what}")


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
    for board in ("first", "second"):
        timed(f"train, {board}", "commonground", "train", "rows.csv", *names, "--rank", "1", "--out", board)
    timed("statement", "commonground", "statement", "first")
    timed("report", "commonground", "report", "first", "--out", "report.html")
    timed("page", "commonground", "page", "first", "--out", "page.html")
    for heads in ("first", "second"):
        timed(
            f"personalize, {heads}",
            "commonground",
            "personalize",
            "first",
            "rows.csv",
            *names,
            "--out",
            f"{heads}.parquet",
        )
    asked = "predict", "first", "rows.csv", "--user", "person", "--heads", "first.parquet", "--out", "answers.csv"
    timed("predict", "commonground", *asked)
    assert Path("answers.csv").read_text().count("\n") == 16_001
    site = Path(sysconfig.get_paths()["purelib"])
    heaviest = sorted(((megabytes(one), one.name) for one in site.iterdir() if one.is_dir()), reverse=True)[:8]
    whole = megabytes(site)
    print(f"{whole:6.0f} MB  {', '.join(f'{name} {size:.0f}' for size, name in heaviest)}")
    assert whole <= MOST_MEGABYTES, f"the core may weigh {MOST_MEGABYTES} MB"
