"""What several commands ask for, and how they speak: to people, or in JSON to machines."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from commonground.defaults import ALTMIN_ROUNDS, FEDREP_ROUNDS, FIT_INTERCEPT, RANK, SHARED_MEAN
from commonground.errors import InputError
from commonground.losses import NAMED_LOSSES

Table = Annotated[Path, typer.Argument(help="CSV or Parquet file (or a folder of Parquet files), one row per example.")]
AnyTable = Annotated[
    str,
    typer.Argument(help="CSV or Parquet file, a folder of Parquet files, or the address of either (s3://…, gs://…)."),
]
Board = Annotated[Path, typer.Argument(help="Folder of a billboard, as written by `train --out`.")]
UserColumn = Annotated[
    str | None, typer.Option("--user", help="Column that says whose row it is; user_id, or the schema's, by default.")
]
LabelColumn = Annotated[
    str | None, typer.Option("--label", help="Column to predict; by default the schema's or the board's, else y.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
ItemColumn = Annotated[
    str | None, typer.Option("--item", help="Column of item ids, the only feature, one-hot: rows are ratings.")
]
NewFile = Annotated[Path, typer.Option("--out", help="File to write (.csv or .parquet).")]
HeadsFile = Annotated[Path, typer.Option("--out", help="File to write (.parquet).")]
Features = Annotated[str | None, typer.Option(help="Comma-separated feature columns; all others by default.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="What each column is; see `commonground schema`. It becomes public.")
]
LabelRange = Annotated[
    str | None, typer.Option(help="Lowest,highest label, known without the rows: predictions stay within.")
]
Model = Annotated[
    str,
    typer.Option(
        help=f"fedrep, altmin, {', '.join(loss.name for loss in NAMED_LOSSES)}, classifier, margin, subspace, single, level, "
        "ridge, own, nonprivate."
    ),
]
Rank = Annotated[
    str | None,
    typer.Option(help=f"Number of shared directions, or 'auto' to read it off the data; {RANK} if there is room."),
]
Epsilon = Annotated[float, typer.Option(help="Privacy budget ε of everything that is published.")]
Delta = Annotated[float, typer.Option(help="Privacy budget δ; well below 1 / number of people.")]
YES_OR_NO = {True: "yes", False: "no"}
Intercept = Annotated[
    bool | None,
    typer.Option(help=f"Give each person an intercept of her own; {YES_OR_NO[FIT_INTERCEPT]} by default."),
]
SharedMean = Annotated[
    bool | None, typer.Option(help=f"Release a shared linear model first; {YES_OR_NO[SHARED_MEAN]} by default.")
]
Rounds = Annotated[
    int | None,
    typer.Option(
        help=f"Gradient rounds; by default fedrep decides ({FEDREP_ROUNDS[0]} to {FEDREP_ROUNDS[1]}), altmin takes "
        f"{ALTMIN_ROUNDS}."
    ),
]
Items = Annotated[
    Path | None, typer.Option(help="With --item: text file of all items there are, one a line; the catalogue.")
]
NewBoard = Annotated[Path, typer.Option("--out", help="Folder for the billboard.")]
ReplaceBoard = Annotated[bool, typer.Option("--force", help="Put the new board in the place of one that is there.")]
AnyScales = Annotated[
    bool, typer.Option("--any-scales", help="Train also on features whose size the noise would hide.")
]
SimulationSeed = Annotated[int | None, typer.Option(help="Repeatable noise; the result is then NOT private.")]
PayingLedger = Annotated[
    str | None, typer.Option(help="Ledger that pays for it: a file, or postgresql://user@host/database.")
]
PopulationName = Annotated[str | None, typer.Option(help="Whose budget in the ledger; see `ledger open`.")]


_printed: list[bool] = []  # whether this command has printed its document


def print_json(document: Any) -> None:
    """The one document of a command under ``--json``."""
    _printed.append(True)
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def answer(words: str, document: dict[str, Any], as_json: bool) -> None:
    """What a command has done: in words to people, or as its document to machines."""
    print_json(document) if as_json else typer.echo(words)


def given(options: Mapping[str, Any]) -> list[str]:
    """The names of those options, of some that may be None, that were given."""
    return [name for name, value in options.items() if value is not None]


def new_group(words: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(help=words, no_args_is_help=True, pretty_exceptions_enable=False)


def print_json_error(words: str, kind: str, exit_code: int) -> None:
    """In place of the document, where there is none yet."""
    if not _printed:
        print_json({"error": words, "kind": kind, "exit_code": exit_code})


def nothing_printed_yet() -> None:
    _printed.clear()


def rank_in(text: str | None) -> int | Literal["auto"] | None:
    if text is None or text == "auto":
        return text  # type: ignore[return-value]
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise InputError(f"--rank must be a whole number of shared directions, or 'auto', got {text!r}.")
    return int(text)


def split(features: str | None) -> list[str] | None:
    return None if features is None else [name.strip() for name in features.split(",") if name.strip()]


def pair(text: str, option: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise InputError(
            f"{option} must be two numbers with a comma between them, such as 1,5; got {text!r}."
        ) from None
    return low, high


def lines_in(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path} cannot be read as a list of items ({type(problem).__name__}): one a line.") from None
