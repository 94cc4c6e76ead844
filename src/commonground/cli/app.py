"""The command line: train, statement, personalize, predict, ledger, federate, audit, reproduce, demo."""

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from commonground.billboard.board import Billboard
from commonground.billboard.files import place_for_board
from commonground.billboard.joint import SharedParameters, is_shared_parameters
from commonground.billboard.signing import SigningKey
from commonground.cli.lazy import new_app
from commonground.data.ids import in_the_type_of
from commonground.data.items import one_hot
from commonground.data.tables import read_rows, write_table
from commonground.data.users import Users
from commonground.errors import CommongroundError, InputError, PrivacyWarning, RecipeWarning, SizeWarning
from commonground.files import require_other_file
from commonground.heads.files import Heads
from commonground.interrupts import Interrupts

app = new_app()
to_people = Console(stderr=True)

Table = Annotated[Path, typer.Argument(help="CSV or Parquet file (or a folder of Parquet files), one row per example.")]
Board = Annotated[Path, typer.Argument(help="Folder of a billboard, as written by `train --out`.")]
UserColumn = Annotated[str, typer.Option("--user", help="Column that says whose row it is.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column to predict.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
ItemColumn = Annotated[
    str | None, typer.Option("--item", help="Column of item ids, the only feature, one-hot: rows are ratings.")
]
NewFile = Annotated[Path, typer.Option("--out", help="File to write (.csv or .parquet).")]


@app.command()
def train(
    context: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            help="CSV or Parquet file, a folder of Parquet files, or the address of either (s3://…, gs://…)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the billboard.")],
    user: UserColumn = "user_id",
    label: LabelColumn = "y",
    features: Annotated[
        str | None, typer.Option(help="Comma-separated feature columns; all others by default.")
    ] = None,
    item: ItemColumn = None,
    items: Annotated[
        Path | None, typer.Option(help="With --item: text file of all items there are, one a line; the catalogue.")
    ] = None,
    rank: Annotated[str, typer.Option(help="Number of shared directions, or 'auto' to read it off the data.")] = "2",
    epsilon: Annotated[float, typer.Option(help="Privacy budget ε of everything that is published.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget δ; well below 1 / number of people.")] = 1e-6,
    budget: Annotated[
        str | None, typer.Option(help="Column with everybody's own ε, used instead of --epsilon; 0 takes no part.")
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            help="'default', or 'paper' for the published algorithm, with the departures that docs/papers.md lists."
        ),
    ] = "default",
    intercept: Annotated[bool, typer.Option(help="Give each person an intercept of her own.")] = True,
    shared_mean: Annotated[bool, typer.Option(help="Release a shared linear model first.")] = True,
    rounds: Annotated[int | None, typer.Option(help="Gradient rounds; 16 by default.")] = None,
    device: Annotated[str, typer.Option(help="'cpu', or 'cuda' for a GPU that holds the rows.")] = "cpu",
    simulation_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise; the result is then NOT private.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(help="Ledger that pays for this training: a file, or postgresql://user@host/database.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="Whose budget in the ledger; see `ledger open`.")] = None,
    engine: Annotated[
        str, typer.Option(help="Who reads the rows: 'local', or 'ray' for Parquet on a cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster, for example 10.0.0.1:6379; without, all cores of this machine.")
    ] = None,
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for copies of rows, seen by all nodes of a cluster; removed afterwards.")
    ] = None,
    sign: Annotated[Path | None, typer.Option(help="Private key to sign the board with; see `keys new`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the shared part from everybody's rows and publish it as a billboard."""
    from commonground.cli.ledger import population_for_training
    from commonground.estimators.fedrep import PrivateFedRep

    key = SigningKey.of(sign)  # before anything is spent
    context.with_resource(place_for_board(out))  # there before any budget is spent
    people = population_for_training(ledger, population, out)
    users = Users.from_table(
        table, user=user, label=label, features=_split(features), item=item, items=_lines(items), budget=budget,
        engine=engine, address=address, scratch=scratch, verbose=not as_json,
    )  # fmt: skip
    model = PrivateFedRep(
        _rank(rank), epsilon, delta, recipe=recipe,
        fit_intercept=intercept, shared_mean=shared_mean, n_rounds=rounds, keep_heads=False,
        device=device, simulation_seed=simulation_seed, verbose=not as_json,
    )  # fmt: skip
    board = model.fit(users, ledger=people).billboard_
    board.save(out, sign=key)
    _show_statement(board, as_json, out)
    if people is not None and not as_json:
        typer.echo(people.left_in_words())


@app.command()
def statement(
    billboard: Board,
    verify: Annotated[
        Path | None, typer.Option(help="Public key that the board must be signed with, from somebody you trust.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a billboard and print what it guarantees, to whom, and every release it rests on."""
    if is_shared_parameters(billboard):
        _show_statement(SharedParameters.load(billboard, verify), as_json, billboard)
        return
    board = Billboard.load(billboard, verify)
    _show_statement(board, as_json, billboard)
    if not as_json and board.statement.events:
        releases = RichTable(title="Releases, in order")
        for heading in ("what", "numbers", "sensitivity", "noise", "cost", "share of μ²"):
            releases.add_column(heading, justify="left" if heading == "what" else "right", no_wrap=heading == "what")
        total = sum(event.cost.mu**2 for event in board.statement.events)
        for event in board.statement.events:
            share = f"{event.cost.mu**2 / total:.1%}" if event.cost.mu else "–"
            count = f"1 of {event.entries:,}" if event.chooses else f"{event.entries:,}"
            cells = count, f"{event.sensitivity:.4g}", event.noise, str(event.cost), share
            releases.add_row(escape(event.name), *map(escape, cells))
        Console().print(releases)


@app.command()
def personalize(
    billboard: Board,
    table: Table,
    out: NewFile,
    user: UserColumn = "user_id",
    label: LabelColumn = "y",
    item: ItemColumn = None,
    as_json: AsJson = False,
) -> None:
    """Fit a head for each person of a table from the billboard and her own rows. The file is private to these people."""
    require_other_file(out, table)
    board = Billboard.load(billboard)
    names = _feature_names(board)
    users = Users.from_table(
        table, user=user, label=label, features=names if item is None else None, item=item,
        items=None if item is None else names,
    )  # fmt: skip
    Heads.fit(board, users).save(out, board)
    if as_json:
        _print_json({"heads": str(out), "people": users.n_users})
    else:
        typer.echo(f"Fitted {users.n_users:,} heads into {out}. They are private: give each person only her own.")


@app.command()
def predict(
    billboard: Board,
    table: Table,
    out: NewFile,
    heads: Annotated[
        Path | None, typer.Option(help="Heads written by `personalize`; without, shared predictions.")
    ] = None,
    user: UserColumn = "user_id",
    item: ItemColumn = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on a person without a head.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer each row by its person's own head, or by the shared part where she has none."""
    require_other_file(out, table, heads)
    board = Billboard.load(billboard)
    own = None if heads is None else Heads.load(heads, board)
    names = _feature_names(board)
    ids, X = read_rows(table, user, names if item is None else [])
    if item is not None:
        X = one_hot(read_rows(table, item, [])[0], names)
    if own is None:
        prediction, known = board.predict(X), np.zeros(X.shape[0], dtype=bool)
    else:
        prediction, known = own.predict(board, X, in_the_type_of(own.ids, ids.to_pylist()), strict)
    write_table(pa.table({user: ids, "prediction": prediction, "has_own_head": known}), out)
    if as_json:
        _print_json({"predictions": str(out), "rows": X.shape[0], "rows_with_own_head": int(known.sum())})
    else:
        typer.echo(f"Wrote {X.shape[0]:,} predictions to {out}; {int(known.sum()):,} from people's own heads.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the figure, the table and the billboard.")] = Path(
        "demo"
    ),
    people: Annotated[int, typer.Option(help="How many people to simulate.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulated people; the privacy noise is always real.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Simulate people who share a subspace, train privately at several ε and compare with the alternatives."""
    from commonground.cli.demo import run_demo

    run_demo(out, people, seed, as_json)


def _rank(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise InputError(f"--rank must be a whole number of shared directions, or 'auto', got {text!r}.")
    return int(text)


def _split(features: str | None) -> list[str] | None:
    return None if features is None else [name.strip() for name in features.split(",") if name.strip()]


def _lines(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read as a list of items ({type(problem).__name__}): one a line.") from None


def _feature_names(board: Billboard) -> list[str]:
    if board.feature_names is None:
        raise InputError(
            "this billboard was trained on arrays without column names; use it from Python, not on tables."
        )
    return list(board.feature_names)


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _show_statement(board: Billboard | SharedParameters, as_json: bool, folder: Path) -> None:
    if as_json:
        _print_json(
            {"billboard": str(folder), "epsilon_spent": board.statement.epsilon_spent, **board.statement.to_json()}
        )
        return
    typer.echo(str(board.statement))
    if isinstance(board, Billboard):
        size = f"{board.n_features} features, rank {board.rank}"
    else:
        size = f"{sum(array.size for array in board.arrays.values()):,} shared parameters"
    typer.echo(f"Billboard: {folder} ({size}); arrays and statement verified.")


def main() -> None:
    """Entry point: a person's mistake is one clear line and exit code 2; a traceback means a bug of ours."""
    with warnings.catch_warnings(), Interrupts() as interrupts:
        for ours in (PrivacyWarning, RecipeWarning, SizeWarning):
            warnings.simplefilter("always", ours)
        warnings.showwarning = lambda message, *_: to_people.print(
            f"[yellow]warning:[/] {escape(str(message))}", soft_wrap=True
        )
        try:
            try:
                app()
            finally:
                interrupts.finish()
        except BaseException as problem:
            finished = isinstance(problem, SystemExit) and not problem.code
            if interrupts.signal is not None and not finished:
                _say("interrupted", f"by {interrupts.signal.name}, before there was a result. {_notes(problem)}")
                sys.exit(128 + interrupts.signal)
            if isinstance(problem, RecursionError):
                _say("error", "the input is nested too deeply to be read. It is damaged, or not what it is taken for.")
                sys.exit(2)
            if isinstance(problem, CommongroundError | OSError):
                _say("error", f"{problem} {_notes(problem)}")
                sys.exit(2)
            raise


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
