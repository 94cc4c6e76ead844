"""Plant one privacy fault at a time in a copy of the source, and see that a test notices it.

    make mutate                                           # every fault of faults.toml, two at a time
    .venv/bin/python tests/mutation/mutate.py --only gate # those whose name or file contains "gate"

A fault names the tests that should notice it. One that survives them, one whose line is gone from the source, and one that
merely breaks an import end the run with exit code 1.
"""

import argparse
import ast
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src") / "commonground"
HANGS_AFTER = 900  # seconds


@dataclass(frozen=True)
class Fault:
    """One careless edit that would break the guarantee."""

    name: str
    file: str  # below src/commonground
    old: str  # occurs exactly once in the file
    new: str
    why: str  # what a person would lose
    tests: tuple[str, ...]  # that should notice, quickest first

    def planted_in(self, text: str) -> str:
        if text.count(self.old) != 1 or self.old == self.new:
            raise SystemExit(
                f"{self.name!r} wants to change {self.old!r} in {self.file}, which is there {text.count(self.old)} times. "
                "The source has moved on: bring tests/mutation/faults.toml up to date."
            )
        return text.replace(self.old, self.new)

    def is_compiled(self, text: str) -> bool:
        """Whether the change may be compiled into functions of other files, whose cached machine code is then stale."""
        line = text[: text.index(self.old)].count("\n") + 1
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
                return any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
        return "njit" in text  # a constant


def load_faults() -> list[Fault]:
    document = tomllib.loads((Path(__file__).parent / "faults.toml").read_text(encoding="utf-8"))
    return [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in document["fault"]]


@dataclass(frozen=True)
class Outcome:
    failed: str | None  # the first test that failed
    seconds: float
    collected: bool = True  # False: not even an import worked, so the fault is no fault but a typing error
    output: str = ""


class Copy:
    """Source and tests in a folder of their own, with a cache of compiled functions that is valid for the unchanged source."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.warm_cache = folder, folder / "cache"
        self.warm_cache.mkdir(parents=True)
        for name in ("src", "tests", "benchmarks"):  # times of change are kept: Numba's cache goes by them
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        shutil.copy2(ROOT / "pyproject.toml", folder)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[Path]:
        """The fault in the source, and a throw-away cache; afterwards all is as before."""
        path, cache = self.folder / PACKAGE / fault.file, self.folder / "cache-of-fault"
        text, status = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(fault.planted_in(text), encoding="utf-8")
        if fault.is_compiled(text):
            cache.mkdir()
        else:
            shutil.copytree(self.warm_cache, cache)
        try:
            yield cache
        finally:
            shutil.rmtree(cache)
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def environment(self, cache: Path) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),  # comes before the editable installation
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(cache),
        }

    def check_import(self) -> None:
        """The package is installed in editable mode: make sure that it is the copy that is tested."""
        command = [sys.executable, "-c", "import commonground; print(commonground.__file__)"]
        environment = self.environment(self.warm_cache)
        found = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        expected = self.folder / PACKAGE / "__init__.py"
        if Path(found.stdout.strip()) != expected:
            raise SystemExit(f"the tests would import {found.stdout.strip()}, not the copy {expected}")

    def run(self, tests: tuple[str, ...], cache: Path) -> Outcome:
        started = time.perf_counter()
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        command += ["--tb=short", f"--junitxml={report}", *tests]
        environment = self.environment(cache)
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=HANGS_AFTER, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(f"no answer in {HANGS_AFTER} s", time.perf_counter() - started)
        seconds = time.perf_counter() - started
        if done.returncode == 0:
            return Outcome(None, seconds)
        if done.returncode == 1 and report.exists():
            for case in ET.parse(report).iter("testcase"):
                if case.find("failure") is not None or case.find("error") is not None:
                    name = f"{case.get('classname', '').replace('tests.', '').replace('.', '/')}::{case.get('name')}"
                    return Outcome(name, seconds, output=done.stdout)
        return Outcome("collection", seconds, collected=False, output=done.stdout + done.stderr)


def try_fault(fault: Fault, copy: Copy) -> Outcome:
    with copy.planted(fault) as cache:
        return copy.run(fault.tests, cache)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="", help="faults whose name or file contains this, or one of several, with commas"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--show", action="store_true", help="print what pytest said about each fault")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    faults = [fault for fault in load_faults() if any(text in f"{fault.name} {fault.file}" for text in wanted)]
    console, started = Console(), time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="commonground-mutate-") as folder,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        copies = [Copy(Path(folder).resolve() / str(number)) for number in range(min(arguments.jobs, len(faults)))]
        for fault in faults:
            fault.planted_in((copies[0].folder / PACKAGE / fault.file).read_text(encoding="utf-8"))
        every_test = tuple(sorted({test for fault in faults for test in fault.tests}))

        def prepare(copy: Copy) -> Outcome:
            copy.check_import()
            return copy.run(every_test, copy.warm_cache)

        for outcome in pool.map(prepare, copies):
            if outcome.failed is not None:
                console.print(outcome.output, markup=False)
                console.print(f"Without any fault {outcome.failed} fails: correct that first.")
                return 1
        console.print(
            f"{len(faults)} faults; without one, all their tests pass ({time.perf_counter() - started:.0f} s)."
        )
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def work(fault: Fault) -> Outcome:
            copy = free.get()
            try:
                return try_fault(fault, copy)
            finally:
                free.put(copy)

        table = Table(title="Privacy faults and the tests that caught them")
        for heading in ("fault", "in", "caught by", "s"):
            table.add_column(heading, justify="right" if heading == "s" else "left", overflow="fold")
        missed = []
        for number, (fault, outcome) in enumerate(zip(faults, pool.map(work, faults), strict=True), start=1):
            if outcome.failed and outcome.collected:
                caught = escape(outcome.failed)
            else:
                caught = "[red]does not even import[/]" if outcome.failed else "[red]SURVIVED[/]"
                missed.append(fault.name)
            table.add_row(escape(fault.name), fault.file, caught, f"{outcome.seconds:.0f}")
            console.print(f"{number:3} {escape(fault.name)}: {caught}", soft_wrap=True, highlight=False)
            if arguments.show or fault.name in missed:
                console.print(outcome.output, markup=False, highlight=False)
    console.print(table)
    minutes = (time.perf_counter() - started) / 60
    console.print(
        f"{len(faults) - len(missed)} of {len(faults)} faults caught in {minutes:.1f} min. Missed: {missed or 'none'}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
