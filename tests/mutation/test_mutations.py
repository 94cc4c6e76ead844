"""The list of faults keeps up with the source; that each is caught is for `make mutate` to show."""

import subprocess
import sys
from pathlib import Path

import pytest
from mutate import PACKAGE, ROOT, Fault, load_faults, places_in

FAULTS = load_faults()
PLACES = places_in(ROOT / PACKAGE)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_line_is_still_there(fault: Fault) -> None:
    place = fault.place(PLACES)
    text = (ROOT / PACKAGE / place.file).read_text(encoding="utf-8")
    compile(fault.planted_in(text, place), place.file, "exec")
    for test in fault.tests:
        assert (ROOT / Path(test.split("::")[0])).exists(), f"{test} is gone"


def test_no_fault_names_what_is_not_there(tmp_path: Path) -> None:
    """Else every test fails, or none, and whether the fault would be noticed stays unknown."""
    for number, fault in enumerate(FAULTS):
        place = fault.place(PLACES)
        text = (ROOT / PACKAGE / place.file).read_text(encoding="utf-8")
        (tmp_path / f"{number}.py").write_text(fault.planted_in(text, place), encoding="utf-8")
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select",
        "F821",
        "--output-format",
        "concise",
    ]
    found = subprocess.run([*ruff, str(tmp_path)], capture_output=True, text=True, check=False)
    bad = {FAULTS[int(Path(line.split(":")[0]).stem)].name for line in found.stdout.splitlines() if "F821" in line}
    assert not bad, f"{bad}\n{found.stdout}"
    assert found.returncode == 0, found.stderr


def test_names_are_unique_and_every_room_has_a_fault() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 100
    files = {fault.place(PLACES).file for fault in FAULTS}
    rooms = {file.split("/")[0] for file in files}
    assert rooms >= {"gate", "ledger", "accounting", "clipping", "statistics", "engines", "estimators", "heads"}
    algorithms = [path for room in ("estimators", "steps") for path in (ROOT / PACKAGE / room).rglob("*.py")]
    without = {str(path.relative_to(ROOT / PACKAGE)) for path in algorithms if path.name != "__init__.py"} - files
    assert not without, f"no fault is planted in {without}"
