"""Plant one privacy fault at a time in a copy of the source, and see that a test notices it.

    make mutate                                           # every fault of faults/*.toml, two at a time
    .venv/bin/python tests/mutation/mutate.py --only gate # those whose name or place contains "gate"

A fault says which function, class or constant it changes (``where``), not in which file that stands: code may move. It names
the tests that should notice it. One that survives them, one whose line is gone from the source, and one that
merely breaks an import end the run with exit code 1.
"""

import argparse
import ast
import json
import os
import queue
import re
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
HINTS = Path(__file__).parent / "caught_by.json"
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

    def add(body: list[ast.stmt], prefix: str, file: str, compiled_class: bool | None = None) -> None:
        for node in body:
            match node:
                case (
                    ast.FunctionDef(name=name, decorator_list=decorators)
                    | ast.ClassDef(name=name, decorator_list=decorators)
                ):
                    compiled = bool(compiled_class) or any(
                        re.search(r"\b(njit|kernel|subkernel)\b", ast.unparse(decorator)) for decorator in decorators
                    )
                    first = min(each.lineno for each in (node, *decorators))
                    found[f"{prefix}.{name}"] = Place(file, first, node.end_lineno or first, compiled)
                    if isinstance(node, ast.ClassDef):
                        add(node.body, f"{prefix}.{name}", file, compiled)
                case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) if compiled_class is None:
                    names = target.elts if isinstance(target, ast.Tuple) else [target]
                    for each in names:
                        if isinstance(each, ast.Name):
                            found[f"{prefix}.{each.id}"] = Place(
                                file, node.lineno, node.end_lineno or node.lineno, True
                            )

    for path in sorted(package.rglob("*.py")):
        file, text = str(path.relative_to(package)), path.read_text(encoding="utf-8")
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        add(ast.parse(text).body, module, file)
    return found


def dependents(package: Path, file: str) -> set[str]:
    """The file, and those that import it, or import one that does."""
    imported: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        names = imported.setdefault(str(path.relative_to(package)), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    reached = {file}
    while True:
        modules = {
            f"commonground.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}" for name in reached
        }
        more = {importer for importer, names in imported.items() if names & modules} - reached
        if not more:
            return reached
        reached |= more


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


def node_id(folder: Path, case: ET.Element) -> str:
    """By which pytest can be asked for this test again: tests/gate/test_release.py::test_name[parameters]."""
    parts, name = case.get("classname", "").split("."), case.get("name", "")
    for length in range(len(parts), 0, -1):
        file = Path(*parts[:length]).with_suffix(".py")
        if (folder / file).exists():
            return "::".join([str(file), *parts[length:], name])
    return name


class Copy:
    """Source and tests in a folder of their own, with compiled functions that are valid for the unchanged source.

    Numba keeps them beside the source, by the time of change and size of each file: so those that a developer's tests have
    compiled already serve here, too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kept = folder, folder / "compiled"
        for name in ("src", "tests", "benchmarks", "docs", "examples"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc", "*.egg-info"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy2(ROOT / name, folder)
        self.places = places_in(folder / PACKAGE)

    def compiled(self, folder: Path) -> list[Path]:
        return [path for path in folder.rglob("*.nb*") if path.suffix in (".nbi", ".nbc")]

    def keep_compiled(self) -> None:
        """Remember what is compiled now."""
        for path in self.compiled(self.folder / PACKAGE):
            kept = self.kept / path.relative_to(self.folder / PACKAGE)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept)

    def take_compiled_of(self, other: "Copy") -> None:
        shutil.copytree(other.kept, self.kept)
        shutil.copytree(other.kept, self.folder / PACKAGE, dirs_exist_ok=True)

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """The fault in the source, without compiled functions that it may be part of; afterwards all is as before."""
        place = fault.place(self.places)
        path = self.folder / PACKAGE / place.file
        text, status = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(fault.planted_in(text, place), encoding="utf-8")
        if place.compiled:
            stale = dependents(self.folder / PACKAGE, place.file)
            for compiled in self.compiled(self.folder / PACKAGE):
                source = compiled.parent.parent / f"{compiled.name.split('.')[0]}.py"
                if str(source.relative_to(self.folder / PACKAGE)) in stale:
                    compiled.unlink()
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            for compiled in self.compiled(self.folder / PACKAGE):
                compiled.unlink()
            shutil.copytree(self.kept, self.folder / PACKAGE, dirs_exist_ok=True)

    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"},
            "PYTHONPATH": str(self.folder / "src"),  # comes before the editable installation
            "PYTHONDONTWRITEBYTECODE": "1",
            "ONE_THREAD": "1",  # several faults are tried at a time
        }

    def check_import(self) -> None:
        """The package is installed in editable mode: make sure that it is the copy that is tested."""
        command = [sys.executable, "-c", "import commonground; print(commonground.__file__)"]
        environment = self.environment()
        found = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True)
        expected = self.folder / PACKAGE / "__init__.py"
        if Path(found.stdout.strip()) != expected:
            raise SystemExit(f"the tests would import {found.stdout.strip()}, not the copy {expected}")

    def run(self, tests: tuple[str, ...], workers: int = 0, limit: float | None = HANGS_AFTER) -> Outcome:
        started = time.perf_counter()
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        command += ["--tb=short", f"--junitxml={report}", *tests]
        command += ["-n", str(workers), "--dist", "loadfile"] if workers else []
        environment = self.environment()
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(f"no answer in {limit} s", time.perf_counter() - started)
        seconds = time.perf_counter() - started
        if done.returncode == 0:
            return Outcome(None, seconds)
        if done.returncode < 0:  # some faults end the very process that tests them
            return Outcome(f"ended by signal {-done.returncode}", seconds, output=done.stdout)
        if done.returncode == 1 and report.exists():
            for case in ET.parse(report).iter("testcase"):
                if case.find("failure") is not None or case.find("error") is not None:
                    return Outcome(node_id(self.folder, case), seconds, output=done.stdout)
        return Outcome("collection", seconds, collected=False, output=done.stdout + done.stderr)


def load_hints() -> dict[str, str]:
    """Which test caught a fault when all were tried last; asked first, and believed only if it catches the fault again."""
    return json.loads(HINTS.read_text(encoding="utf-8")) if HINTS.exists() else {}


def save_hints(caught: dict[str, str]) -> None:
    known = {fault.name for fault in load_faults()}
    hints = {name: test for name, test in sorted((load_hints() | caught).items()) if name in known}
    HINTS.write_text(json.dumps(hints, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def try_fault(fault: Fault, copy: Copy, hint: str | None = None) -> Outcome:
    with copy.planted(fault):
        if hint is not None:
            outcome = copy.run((hint,))
            if outcome.failed and outcome.collected:
                return outcome
        return copy.run(fault.tests)


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

        copies[0].check_import()
        outcome = copies[0].run(every_test, workers=arguments.jobs, limit=None)
        if outcome.failed is not None:
            console.print(outcome.output, markup=False)
            console.print(f"Without any fault {outcome.failed} fails: correct that first.")
            return 1
        copies[0].keep_compiled()
        for copy in copies[1:]:
            copy.take_compiled_of(copies[0])
        console.print(
            f"{len(faults)} faults; without one, all their tests pass ({time.perf_counter() - started:.0f} s)."
        )
        hints = load_hints()
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)

        def work(fault: Fault) -> Outcome:
            copy = free.get()
            try:
                return try_fault(fault, copy, hints.get(fault.name))
            finally:
                free.put(copy)

        table = Table(title="Privacy faults and the tests that caught them")
        for heading in ("fault", "in", "caught by", "s"):
            table.add_column(heading, justify="right" if heading == "s" else "left", overflow="fold")
        missed: list[str] = []
        caught_by: dict[str, str] = {}
        for number, (fault, outcome) in enumerate(zip(faults, pool.map(work, faults), strict=True), start=1):
            if outcome.failed and outcome.collected:
                caught = escape(outcome.failed)
                if "::" in outcome.failed:
                    caught_by[fault.name] = outcome.failed
            else:
                caught = "[red]does not even import[/]" if outcome.failed else "[red]SURVIVED[/]"
                missed.append(fault.name)
            table.add_row(escape(fault.name), fault.where, caught, f"{outcome.seconds:.0f}")
            console.print(f"{number:3} {escape(fault.name)}: {caught}", soft_wrap=True, highlight=False)
            if arguments.show or fault.name in missed:
                console.print(outcome.output, markup=False, highlight=False)
    console.print(table)
    save_hints(caught_by)
    minutes = (time.perf_counter() - started) / 60
    console.print(
        f"{len(faults) - len(missed)} of {len(faults)} faults caught in {minutes:.1f} min. Missed: {missed or 'none'}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
