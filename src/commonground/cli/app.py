"""The commands `train`, `statement`, `personalize`, `predict` and `demo`; and how errors end a command.

These are declared here, all others where ``commands.py`` says; what any of them does is loaded when it runs.
"""

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from commonground.cli import options
from commonground.cli.lazy import loading, new_app, putting_off
from commonground.cli.options import nothing_printed_yet, print_json_error, rank_in
from commonground.defaults import DELTA, EPSILON, MODEL
from commonground.errors import (
    CommongroundError,
    PrivacyWarning,
    RecipeWarning,
    ScaleWarning,
    SharingWarning,
    SizeWarning,
    TableWarning,
    UnknownUserWarning,
)
from commonground.interrupts import Interrupts

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard
    from commonground.billboard.joint import SharedParameters

app = new_app()
to_people = Console(stderr=True)
GAUSSIAN = "Gaussian, std "  # how such noise is described
WARNINGS = (PrivacyWarning, RecipeWarning, SizeWarning, ScaleWarning, SharingWarning, TableWarning, UnknownUserWarning)


@app.command()
def train(
    context: typer.Context,
    table: options.AnyTable,
    out: options.NewBoard,
    user: options.UserColumn = None,
    label: options.LabelColumn = None,
    features: options.Features = None,
    schema: options.SchemaFile = None,
    label_range: options.LabelRange = None,
    item: options.ItemColumn = None,
    items: options.Items = None,
    model: options.Model = MODEL,
    rank: options.Rank = None,
    epsilon: options.Epsilon = EPSILON,
    delta: options.Delta = DELTA,
    budget: Annotated[
        str | None, typer.Option(help="Column with everybody's own ε, used instead of --epsilon; 0 takes no part.")
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="'default', or 'paper' for the published algorithm, with the departures that docs/papers.md lists."
        ),
    ] = None,
    intercept: options.Intercept = None,
    shared_mean: options.SharedMean = None,
    rounds: options.Rounds = None,
    device: Annotated[str | None, typer.Option(help="'cpu', or 'cuda' for a GPU that holds the rows.")] = None,
    simulation_seed: options.SimulationSeed = None,
    ledger: options.PayingLedger = None,
    population: options.PopulationName = None,
    engine: Annotated[
        str, typer.Option(help="Who reads the rows: 'local', or others, such as 'ray' for Parquet on a cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster, for example 10.0.0.1:6379; without, all cores of this machine.")
    ] = None,
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for copies of rows, seen by all nodes of a cluster; removed afterwards.")
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="Private key to sign the board with; see `keys new`.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="An earlier billboard to go on from (its folder); see docs/refit.md.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File from which the same command goes on if interrupted; OUT.checkpoint by default."),
    ] = None,
    no_checkpoint: Annotated[
        bool, typer.Option("--no-checkpoint", help="Keep none: what an interrupted training has spent is lost.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be released, who pays and where it goes; spend nothing.")
    ] = False,
    force: options.ReplaceBoard = False,
    refuse_if_useless: Annotated[
        bool, typer.Option("--refuse-if-useless", help="Exit with code 4 where sharing is not expected to pay.")
    ] = False,
    any_scales: options.AnyScales = False,
    as_json: options.AsJson = False,
) -> None:
    """Learn the shared part from everybody's rows and publish it as a billboard."""
    with loading():
        from commonground.billboard.board import Billboard
        from commonground.billboard.signing import SigningKey
        from commonground.cli import train as training
        from commonground.cli.first_look import look_at_people
        from commonground.cli.ledger import population_for_training
        from commonground.cli.models import opened
        from commonground.cli.tables import people_of_table

    key = SigningKey.of(sign)  # before anything is spent
    old = None if start is None else Billboard.load(start)
    context.with_resource(training.free_place(out, force or dry_run))
    journal = context.with_resource(training.journal_at(checkpoint, out, no_checkpoint or dry_run))
    payer = population_for_training(ledger, population, out, journal)
    people = people_of_table(
        table, user=user, label=label, schema=schema, label_range=label_range, features=features, item=item, items=items,
        budget=budget, engine=engine, address=address, scratch=scratch, verbose=not as_json,
    )  # fmt: skip
    asked = {
        "rank": old.rank if rank is None and old is not None else rank_in(rank),
        "recipe": recipe,
        "device": device,
        "fit_intercept": intercept,
        "shared_mean": shared_mean,
        "n_rounds": rounds,
        "simulation_seed": simulation_seed,
    }
    chosen = opened(model, people, asked, epsilon=epsilon, delta=delta, keep_heads=False, verbose=not as_json)
    look_at_people(people, model, epsilon, chosen)
    look = training.look_first(chosen, people, out, payer, old, any_scales=any_scales, useless=refuse_if_useless)
    if dry_run:
        training.show_dry_run(look, as_json)
        return
    board = training.fitted(chosen, people, payer, any_scales, journal, old)
    board.save(out, sign=key)
    if journal is not None:
        journal.remove()
    _show_statement(board, as_json, out)
    if payer is not None and not as_json:
        typer.echo(payer.left_in_words())


@app.command()
def statement(
    billboard: options.Board,
    verify: Annotated[
        Path | None, typer.Option(help="Public key that the board must be signed with, from somebody you trust.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="json, card (model card in Markdown) or registry (fields of the deployment registry)."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Verify a billboard and print what it guarantees, to whom, and every release it rests on."""
    from commonground.billboard.joint import SharedParameters, load_any_board
    from commonground.cli.report import in_format

    board = load_any_board(billboard, verify)
    if format_ is not None:
        in_format(board, format_, billboard)
        return
    _show_statement(board, as_json, billboard)
    if not (as_json or isinstance(board, SharedParameters)) and board.statement.events:
        releases = RichTable(title="Releases, in order", padding=(0, 0, 0, 0))
        of_one_kind = all(event.noise.startswith(GAUSSIAN) for event in board.statement.events)  # then said once
        told = ("Gaussian, std", "cost μ") if of_one_kind else ("noise", "cost")
        for heading in ("what", "numbers", "sensitivity", *told, "% of μ²"):
            releases.add_column(heading, justify="left" if heading == "what" else "right")
        total = sum(event.cost.mu**2 for event in board.statement.events)
        for event in board.statement.events:
            share = f"{event.cost.mu**2 / total:.1%}" if event.cost.mu else "–"
            noise, cost = event.noise, str(event.cost)
            if of_one_kind:
                noise, cost = noise.removeprefix(GAUSSIAN), cost.removeprefix("μ = ")
            count = f"1 of {event.entries:,}" if event.chooses else f"{event.entries:,}"
            cells = count, f"{event.sensitivity:.4g}", noise, cost, share
            releases.add_row(escape(event.name), *map(escape, cells))
        Console().print(releases)


@app.command()
def personalize(
    billboard: options.Board,
    table: options.Table,
    out: options.HeadsFile,
    user: options.UserColumn = None,
    label: options.LabelColumn = None,
    item: options.ItemColumn = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit a head for each person of a table from the billboard and her own rows. The file is private to these people."""
    from commonground.cli.use import personalize as fit_heads

    fit_heads(billboard, table, out, user=user, label=label, item=item, as_json=as_json)


@app.command()
def predict(
    billboard: options.Board,
    table: options.Table,
    out: options.NewFile,
    heads: Annotated[
        Path | None, typer.Option(help="Heads written by `personalize`; without, shared predictions.")
    ] = None,
    user: options.UserColumn = None,
    item: options.ItemColumn = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on a person without a head.")] = False,
    interval: Annotated[
        float | None, typer.Option(help="Also the ends between which a label lies with this probability, e.g. 0.9.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Answer each row by its person's own head, or by the shared part where she has none."""
    from commonground.cli.use import predict as answer_rows

    answer_rows(
        billboard, table, out, heads=heads, user=user, item=item, strict=strict, interval=interval, as_json=as_json
    )


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure, the table and the billboard.")] = Path(
        "demo"
    ),
    people: Annotated[int, typer.Option(help="How many people to simulate.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people; the privacy noise is always real.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    """Simulate people who share a subspace, train privately at several ε and compare with the alternatives."""
    from commonground.cli.demo import run_demo

    run_demo(out, people, seed, as_json)


def _show_statement(board: "Billboard | SharedParameters", as_json: bool, folder: Path) -> None:
    from commonground.billboard.statement import in_lines
    from commonground.cli.report import in_format

    if as_json:
        in_format(board, "json", folder)
        return
    typer.echo(in_lines(str(board.statement)))
    typer.echo(in_lines(f"Billboard: {folder} ({board.size_in_words}); arrays and statement verified."))


def main() -> None:
    """Entry point: a person's mistake is one clear line and an exit code of its own; a traceback means a bug of ours."""
    as_json = "--json" in sys.argv
    nothing_printed_yet()
    with warnings.catch_warnings(), putting_off(), Interrupts() as interrupts:
        for ours in WARNINGS:
            warnings.simplefilter("always", ours)
        warnings.showwarning = lambda message, *_: to_people.print(
            f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True
        )
        try:
            try:
                app()
            finally:
                interrupts.finish()
        except SystemExit as end:
            if end.code:
                _exit_if_interrupted(interrupts, end)
            usage = end.__context__
            if as_json and usage is not None and hasattr(usage, "format_message"):
                # Of click: a wrong option or command. People have read it already.
                print_json_error(usage.format_message(), type(usage).__name__, 2)
            raise
        except RecursionError as problem:
            _exit_if_interrupted(interrupts, problem)
            _exit_with(
                CommongroundError(
                    "the input is nested too deeply to be read. It is damaged, or not what it is taken for."
                ),
                as_json,
            )
        except CommongroundError as problem:
            _exit_if_interrupted(interrupts, problem)
            _exit_with(problem, as_json, problem.exit_code)
        except OSError as problem:
            _exit_if_interrupted(interrupts, problem)
            _exit_with(problem, as_json)
        except BaseException as problem:
            _exit_if_interrupted(interrupts, problem)
            raise


def _exit_if_interrupted(interrupts: Interrupts, problem: BaseException) -> None:
    if interrupts.signal is not None:
        _say("interrupted", f"by {interrupts.signal.name}, before there was a result. {_notes(problem)}")
        sys.exit(128 + interrupts.signal)


def _exit_with(problem: Exception, as_json: bool, code: int = 2) -> NoReturn:
    words = f"{problem} {_notes(problem)}".strip()
    _say("error", words)
    if as_json:
        print_json_error(words, type(problem).__name__, code)
    sys.exit(code)


def _say(what: str, words: str) -> None:
    to_people.print(f"[red]{what}:[/] {escape(words.strip())}", soft_wrap=True, highlight=False)


def _notes(problem: BaseException) -> str:
    """What was added on the way, such as what became of a reservation."""
    notes: list[str] = []
    link: BaseException | None = problem
    while link is not None:
        notes += getattr(link, "__notes__", [])
        link = link.__cause__ or link.__context__
    return " ".join(notes)
