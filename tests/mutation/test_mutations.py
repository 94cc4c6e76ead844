"""The list of faults keeps up with the source; that each is caught is for `make mutate` to show."""

from pathlib import Path

import pytest
from mutate import PACKAGE, ROOT, Fault, load_faults

FAULTS = load_faults()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_line_is_still_there(fault: Fault) -> None:
    text = (ROOT / PACKAGE / fault.file).read_text(encoding="utf-8")
    compile(fault.planted_in(text), fault.file, "exec")
    for test in fault.tests:
        assert (ROOT / Path(test.split("::")[0])).exists(), f"{test} is gone"


def test_names_are_unique_and_every_room_has_a_fault() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 100
    rooms = {fault.file.split("/")[0] for fault in FAULTS}
    assert rooms >= {"gate", "ledger", "accounting", "clipping.py", "contributions", "engines", "estimators", "heads"}
    estimators = {path.name for path in (ROOT / PACKAGE / "estimators").glob("*.py")} - {"__init__.py"}
    assert {fault.file.split("/")[1] for fault in FAULTS if fault.file.startswith("estimators/")} >= estimators
