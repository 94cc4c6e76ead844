"""The table of the papers' parts: complete, true to the code, and the page that is written from it."""

import re
import runpy
from pathlib import Path

import pytest

from commonground.reproduce import paper_results
from commonground.reproduce.papers import CITATIONS, DEPARTURES, ENTRIES

ROOT = Path(__file__).parents[2]


def test_the_page_is_written_from_the_table() -> None:
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert page == runpy.run_path(str(ROOT / "benchmarks" / "papers_page.py"))["as_markdown"](), (
        "run benchmarks/papers_page.py"
    )


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.paper}, {entry.part}")
def test_code_and_commands_exist(entry) -> None:  # type: ignore[no-untyped-def]
    assert entry.paper in CITATIONS
    assert entry.verdict in ("agrees", "differs", "replaced", "open")
    assert entry.why
    assert entry.verdict == "open" or entry.command, "a verdict comes from a command"
    if entry.code:
        assert (ROOT / "src" / "commonground" / entry.code).exists()
    program, _, arguments = entry.command.partition(" ")
    if program == "pytest":
        assert (ROOT / arguments).exists()
    elif program == "python":
        assert (ROOT / arguments.split()[0]).exists()
    elif program:
        known = paper_results()
        for name in arguments.removeprefix("reproduce ").replace("…", "").split():
            assert name in known or any(one.startswith(f"{name}-") for one in known), name


def test_every_result_that_can_be_computed_again_is_in_the_table() -> None:
    commands = " ".join(entry.command for entry in ENTRIES)
    for name in paper_results():
        if not name.startswith("p3-"):  # Tables 1 to 14 and Figures 1 to 19 stand together
            assert re.search(rf"\b{name}\b", commands), name


def test_departures_are_told_and_nothing_claims_to_follow_line_by_line() -> None:
    assert all(len(departures) >= 5 for _, departures in DEPARTURES.values())
    for file, _ in DEPARTURES.values():
        assert "DEPARTURES" in (ROOT / "src" / "commonground" / file).read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]:
        assert "line by line" not in path.read_text(encoding="utf-8"), path
