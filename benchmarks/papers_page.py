"""Write docs/papers.md from the table in ``reproduce/papers.py``.

python benchmarks/papers_page.py
"""

from pathlib import Path

from commonground.reproduce.papers import AGREES, CITATIONS, DEPARTURES, DIFFERS, ENTRIES, OPEN, REPLACED

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"

INTRODUCTION = (
    "Every algorithm, theorem with a bound, corollary, figure and table of the four papers this package is built on: where it",
    "is in the code, the command that shows it, and what came of it. **agrees**: within noise, or held by a test; **differs**:",
    "and why; **replaced**: by what; **open**: not checked. `commonground reproduce --list` prints the same table; this page is",
    "written from it (`python benchmarks/papers_page.py`). Verdicts are of full runs; a `--fast` run says nothing about a paper.",
)


def as_markdown() -> str:
    """docs/papers.md."""
    counts = {
        verdict: sum(entry.verdict == verdict for entry in ENTRIES) for verdict in (AGREES, DIFFERS, REPLACED, OPEN)
    }
    numbers = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lines = ["# The papers, part by part", "", *INTRODUCTION, "", f"{len(ENTRIES)} parts: {numbers}."]
    for paper, citation in CITATIONS.items():
        lines += [
            "",
            f"## {paper.upper()}",
            "",
            citation,
            "",
            "| part | code | command | verdict |",
            "|---|---|---|---|",
        ]
        for entry in ENTRIES:
            if entry.paper == paper:
                code, command = (f"`{text}`" if text else "" for text in (entry.code, entry.command))
                lines.append(f"| {entry.part} | {code} | {command} | **{entry.verdict}**: {entry.why} |")
    lines += [
        "",
        "## Departures of each recipe",
        "",
        'What `recipe="paper"` does not do as printed, all of it, from the files named.',
    ]
    for recipe, (file, departures) in DEPARTURES.items():
        lines += ["", f"**{recipe}** (`{file}`)", ""]
        lines += [f"{number}. {text}" for number, text in enumerate(departures, 1)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(as_markdown(), encoding="utf-8")
