"""The list of faults keeps up with the source; that each is caught is for `make mutate` to show."""

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


def test_names_are_unique_and_every_room_has_a_fault() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 100
    files = {fault.place(PLACES).file for fault in FAULTS}
    rooms = {file.split("/")[0] for file in files}
    assert rooms >= {"gate", "ledger", "accounting", "clipping", "statistics", "engines", "estimators", "heads"}
    algorithms = [path for room in ("estimators", "steps") for path in (ROOT / PACKAGE / room).rglob("*.py")]
    without = {str(path.relative_to(ROOT / PACKAGE)) for path in algorithms if path.name != "__init__.py"} - files
    assert not without, f"no fault is planted in {without}"
