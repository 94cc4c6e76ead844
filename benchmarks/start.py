"""What a command waits for before it works, and what it takes as a whole, with compiled code in place.

Each command runs once to compile, and to tell which of our modules it loads. Then, several times each, in a Python of its own:
these modules are imported, up to the moment when they are there; and the whole command runs on a small table, until its process
has ended. Seconds by the clock and of cores, least to most. Bytecode is written in a folder of its own, whatever
PYTHONDONTWRITEBYTECODE says: an installation has it.

python benchmarks/start.py
python benchmarks/start.py --runs 3 --only audit --only "train --ledger"
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEOPLE, ROWS = 300, 10
# In this order, as some read what others wrote. `--help` loads hardly anything: its imports are not told apart.
COMMANDS = {
    "--help": "--help",
    "train --help": "train --help",
    "schema": "schema people.csv --out drafted.toml --force",
    "train": "train people.csv --out board --epsilon 4 --force",
    "ledger show": "ledger show sqlite:///ledger.db",
    "train --ledger": "train people.csv --out paid --epsilon 0.1 --force --ledger sqlite:///ledger.db --population all",
    "statement": "statement board",
    "personalize": "personalize board people.csv --out heads.parquet",
    "predict": "predict board people.csv --heads heads.parquet --out answers.csv",
    "evaluate BOARD TABLE": "evaluate board people.csv",
    "evaluate TABLE": "evaluate people.csv --epsilon 4 --out compared",
    "tune": "tune people.csv --out winner --try rank=0,1 --force",
    "plan": "plan board --out plans",
    "report": "report board --out report.html",
    "page": "page board --out page.html",
    "audit": "audit fedrep --runs 20 --people 12",
}
# Not of the core, and loaded by scikit-learn and others wherever it is installed: hidden, so that only the core is measured.
HIDDEN = ("matplotlib", "pandas", "polars", "torch")
HIDE = f"""import sys
from importlib.machinery import PathFinder
class OfTheCore(PathFinder):
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name in {HIDDEN} else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = OfTheCore
"""
COMMAND = """sys.argv = ["commonground", *{command!r}.split()]
from commonground.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
"""
MODULES = """print("LOADED", *(name for name in sys.modules if name.partition(".")[0] == "commonground"))"""
IMPORTS = """from commonground.cli.lazy import loading, putting_off
with putting_off(), loading():
    import {modules}
import os, time
print("LOADED", time.time(), sum(os.times()[:2]))"""


def python(folder: Path, code: str) -> str:
    """What a Python of its own prints; where it fails, we do."""
    own = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    command = [sys.executable, "-W", "ignore", "-c", HIDE + code]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{code}\n{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}")
    return done.stdout


def until_loaded(folder: Path, code: str) -> tuple[float, float]:
    """Seconds by the clock and of cores until the imports are done; an interpreter that ends takes a tenth more."""
    started = time.time()
    when, cores = map(float, python(folder, code).rpartition("LOADED ")[2].split())
    return when - started, cores


def seconds(folder: Path, code: str) -> tuple[float, float]:
    """Of a whole process, by the clock and of cores."""
    before, started = os.times(), time.perf_counter()
    python(folder, code)
    took, after = time.perf_counter() - started, os.times()
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def spread(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def write_table(path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(PEOPLE), ROWS)
    features = rng.standard_normal((len(people), 5))
    label = (
        features @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.standard_normal(PEOPLE)[people] + rng.standard_normal(len(people))
    )
    rows = np.column_stack([people, features, label])
    kinds = ["%d"] + 6 * ["%.6f"]
    np.savetxt(path, rows, delimiter=",", header="user_id,a,b,c,d,e,y", comments="", fmt=kinds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(COMMANDS), help="these alone are measured")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_table(folder / "people.csv")
        python(folder, COMMAND.format(command="ledger open sqlite:///ledger.db --population all --epsilon 8"))
        print(f"{PEOPLE} people, {ROWS} rows each; {asked.runs} runs; {os.cpu_count()} cores\n")
        print("| | imports, clock | imports, cores | whole, clock | whole, cores |\n|---|---|---|---|---|")
        for name, command in COMMANDS.items():
            work = COMMAND.format(command=command)
            modules = python(folder, work + MODULES).rpartition("LOADED ")[2].split()
            if asked.only and name not in asked.only:
                continue
            load = IMPORTS.format(modules=", ".join(modules))
            alone, whole = [], []
            for _ in range(asked.runs):
                alone.append(until_loaded(folder, load))
                whole.append(seconds(folder, work))
            told = [spread(list(values)) for pairs in (alone, whole) for values in zip(*pairs, strict=True)]
            print(f"| `{name}` | {' | '.join(told)} |", flush=True)
        print(f"\nload of the last minute at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
