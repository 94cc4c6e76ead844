"""Plant one privacy fault at a time in a copy of the source, and see that a test notices it.

    make mutate                                           # every fault of faults/*.toml, two at a time
    .venv/bin/python tests/mutation/mutate.py --only gate # those whose name or place contains "gate"

A fault says which function, class or constant it changes (``where``), not in which file that stands: code may move. It names
the tests that should notice it. One that survives them, one whose line is gone from the source, and one that
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
class Place:
    """Where a function, class or module constant stands."""

    file: str  # below src/commonground
    first: int  # line, from 1; decorators included
    last: int
    compiled: bool  # its code may be compiled into functions of other files, whose cached machine code is then stale

    def lines_of(self, text: str) -> tuple[str, str, str]:
        """The text before, of and after it."""
        lines = text.splitlines(keepends=True)
        return "".join(lines[: self.first - 1]), "".join(lines[self.first - 1 : self.last]), "".join(lines[self.last :])


def places_in(package: Path) -> dict[str, Place]:
    """Dotted path of every function, class, method and module constant → its place."""
    found: dict[str, Place] = {}

    def add(body: list[ast.stmt], prefix: str, file: str, numba: bool, compiled_class: bool | None = None) -> None:
        for node in body:
            match node:
                case (
                    ast.FunctionDef(name=name, decorator_list=decorators)
                    | ast.ClassDef(name=name, decorator_list=decorators)
                ):
                    compiled = bool(compiled_class) or any("njit" in ast.unparse(decorator) for decorator in decorators)
                    first = min(each.lineno for each in (node, *decorators))
                    found[f"{prefix}.{name}"] = Place(file, first, node.end_lineno or first, compiled)
                    if isinstance(node, ast.ClassDef):
                        add(node.body, f"{prefix}.{name}", file, numba, compiled)
                case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if compiled_class is None:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    for each in names:
                        if isinstance(each, ast.Name):
                            place = Place(file, node.lineno, node.end_lineno or node.lineno, numba)
                            found[f"{prefix}.{each.id}"] = place

    for path in sorted(package.rglob("*.py")):
        file, text = str(path.relative_to(package)), path.read_text(encoding="utf-8")
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        add(ast.parse(text).body, module, file, "njit" in text)
    return found


@dataclass(frozen=True)
class Fault:
    """One careless edit that would break the guarantee."""

    name: str
    where: str  # the end of one dotted path only, such as "Users.weighted" or "release.release"
    old: str  # occurs exactly once there
    new: str
    why: str  # what a person would lose
    tests: tuple[str, ...]  # that should notice, quickest first

    def place(self, places: dict[str, Place]) -> Place:
        at = [path for path in places if path == self.where or path.endswith(f".{self.where}")]
        if len(at) != 1:
            raise SystemExit(f"{self.name!r} changes {self.where!r}, which must be one place and is {at or 'nowhere'}.")
        return places[at[0]]

    def planted_in(self, text: str, place: Place) -> str:
        """The file's text with the fault."""
        before, here, after = place.lines_of(text)
        if here.count(self.old) != 1 or self.old == self.new:
            raise SystemExit(
                f"{self.name!r} wants to change {self.old!r} in {self.where}, which is there {here.count(self.old)} times. "
                "The source has moved on: bring tests/mutation/faults up to date."
            )
        return before + here.replace(self.old, self.new) + after


def load_faults() -> list[Fault]:
    files = sorted((Path(__file__).parent / "faults").glob("*.toml"))
    entries = [entry for file in files for entry in tomllib.loads(file.read_text(encoding="utf-8"))["fault"]]
    return [Fault(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


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
        self.places = places_in(folder / PACKAGE)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[Path]:
        """The fault in the source, and a throw-away cache; afterwards all is as before."""
        place = fault.place(self.places)
        path, cache = self.folder / PACKAGE / place.file, self.folder / "cache-of-fault"
        text, status = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(fault.planted_in(text, place), encoding="utf-8")
        if place.compiled:
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
        "--only", default="", help="faults whose name or place contains this, or one of several, with commas"
    )
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--show", action="store_true", help="print what pytest said about each fault")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    places = places_in(ROOT / PACKAGE)
    files = {fault.name: fault.place(places).file for fault in load_faults()}
    faults = [f for f in load_faults() if any(text in f"{f.name} {f.where} {files[f.name]}" for text in wanted)]
    console, started = Console(), time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="commonground-mutate-") as folder,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        copies = [Copy(Path(folder).resolve() / str(number)) for number in range(min(arguments.jobs, len(faults)))]
        for fault in faults:
            fault.planted_in((ROOT / PACKAGE / files[fault.name]).read_text(encoding="utf-8"), fault.place(places))
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
            table.add_row(escape(fault.name), fault.where, caught, f"{outcome.seconds:.0f}")
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
