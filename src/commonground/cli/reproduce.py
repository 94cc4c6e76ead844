"""``commonground reproduce``: compute a paper's result, print it beside the printed one, write CSV and SVG."""

import csv
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commonground.cli.options import AsJson, print_json
from commonground.errors import InputError
from commonground.plots import needs_matplotlib
from commonground.reproduce import Outcome, PaperResult, chosen, paper_results


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Results such as p3-table02, or a whole paper: p3.", show_default=False)
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="Every part of the four papers, its verdict, and what can be computed again.")
    ] = False,
    fast: Annotated[
        bool, typer.Option("--fast", help="A smaller version that shows that the code runs. It judges nothing.")
    ] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for CSV and SVG files.")] = Path("reproduced"),
    as_json: AsJson = False,
) -> None:
    """Compute results of the papers again: ours, theirs, the difference, a verdict. Simulated throughout: NOT private."""
    if list_only:
        _print_list(as_json)
        return
    if not names:
        raise InputError("name at least one result, for example p3-table02, or a paper: p3. --list shows all.")
    needs_matplotlib("`reproduce`, which draws what the papers draw,")
    out.mkdir(parents=True, exist_ok=True)
    documents = []
    for result in chosen(names):
        started = time.perf_counter()
        outcome = result.outcome(fast, not as_json)
        seconds = time.perf_counter() - started
        stem = f"{result.name}-fast" if fast else result.name
        _write(result, outcome, out, stem)
        documents.append(_as_document(result, outcome, seconds, fast))
        if not as_json:
            _print(result, outcome, fast)
            files = f"written: {out / stem}.csv" + (" and .svg" if outcome.draw else "")
            Console().print(f"{_summary(outcome, fast)}; {seconds:.1f} s; {files}", highlight=False, soft_wrap=True)
    if as_json:
        print_json(documents)


def _print_list(as_json: bool) -> None:
    from commonground.reproduce.papers import CITATIONS, ENTRIES

    results = paper_results().values()
    if as_json:
        listed = [{"name": r.name, "title": r.title, "settings": r.settings} for r in results]
        document = {"results": listed, "parts": [vars(entry) for entry in ENTRIES], "papers": CITATIONS}
        print_json(document)
        return
    console = Console()
    for paper, citation in CITATIONS.items():
        console.print(f"\n[bold]{paper.upper()}[/]  {escape(citation)}", highlight=False)
        table = Table("part", "command", "verdict")
        for entry in ENTRIES:
            if entry.paper == paper:
                table.add_row(entry.part, escape(entry.command), f"[bold]{entry.verdict}[/]: {escape(entry.why)}")
        console.print(table)
    table = Table("name", "result", title="What can be computed again")
    for result in results:
        table.add_row(result.name, result.title)
    console.print(table)


def _as_document(result: PaperResult, outcome: Outcome, seconds: float, fast: bool) -> dict[str, Any]:
    rows = [row.to_json() for row in outcome.rows]
    claims = [vars(claim) for claim in outcome.claims]
    return {"name": result.name, "fast": fast, "seconds": round(seconds, 1), "rows": rows, "claims": claims}


def _print(result: PaperResult, outcome: Outcome, fast: bool) -> None:
    console = Console()
    title = f"{result.name}{' (fast)' if fast else ''}: {result.title}"
    table = Table(title=title, caption=result.description(fast))
    for heading in outcome.rows[0].setting:
        table.add_column(heading)
    for heading in ("ours", "±", "printed", "difference"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in outcome.rows:
        setting = [f"{value:g}" if isinstance(value, float) else str(value) for value in row.setting.values()]
        verdict = row.verdict.replace("DIFFERS", "[red]DIFFERS[/]")
        table.add_row(
            *setting,
            f"{row.ours:.4g}",
            _or_blank(row.spread, ".1g"),
            _or_blank(row.printed, ".4g"),
            _or_blank(row.difference, "+.1%"),
            verdict or escape(row.note),
        )
    console.print(table)
    for claim in outcome.claims:
        verdict = "[green]holds[/]" if claim.holds else "[red]does not hold[/]"
        console.print(
            f"Claim: {escape(claim.text)}: {verdict} ({escape(claim.evidence)})", highlight=False, soft_wrap=True
        )


def _summary(outcome: Outcome, fast: bool) -> str:
    if fast:
        return "A fast run: the code runs; nothing is said about the paper"
    counts = {}
    for fitted in (False, True):
        verdicts = [row.verdict for row in outcome.rows if row.verdict and row.fitted is fitted]
        counts[fitted] = sum(verdict.startswith("agrees") for verdict in verdicts), len(verdicts)
    apart = "; apart from them {} of {} to which a setting was fitted".format(*counts[True]) if counts[True][1] else ""
    return "{} of {} judged numbers agree".format(*counts[False]) + apart


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _write(result: PaperResult, outcome: Outcome, out: Path, stem: str) -> None:
    rows = _as_document(result, outcome, 0.0, False)["rows"]
    with open(out / f"{stem}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    if outcome.draw is not None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4.5), layout="constrained")
        FigureCanvasAgg(figure)
        outcome.draw(figure)
        figure.savefig(out / f"{stem}.svg")
