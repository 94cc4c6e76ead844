"""All that is wrong with a table that has no schema, at once. For the operator; what a cell holds is never told."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from commonground.data.columns import CellError
from commonground.data.csv import guess_csv_schema
from commonground.data.profile import Profile, profile, profiles
from commonground.data.sources import is_path
from commonground.data.stores import Table
from commonground.errors import InputError, TableWarning

ROWS_FOR_IDS = 100_000  # the first, in which whole numbers that all differ are looked for
WHAT_HELPS = (
    "Draft a schema that says what each column is (commonground schema TABLE --out schema.toml), or name the columns that are "
    "numbers with features=[...] (--features)."
)


def problems_of(source: Any, user: str, label: str, features: Sequence[str] | None) -> list[str]:
    """One line for each trouble; empty where there is none, or where the table cannot be read at all."""
    try:
        found = profiles(source)
    except (InputError, OSError, pa.ArrowException, TypeError, ValueError):
        return []  # it only adds to an error that is told anyway
    used = {user, label} | {one.name for one in found} if features is None else {user, label, *features}
    lines: list[str] = []
    for one in found:
        if one.name in used:
            lines += (
                _of_person(one)
                if one.name == user
                else _of_column(one, named=features is not None or one.name == label)
            )
    return lines


def _of_person(one: Profile) -> list[str]:
    return [f"{one.name!r}: no id in {_cells(one)}"] if one.n_missing else []


def _of_column(one: Profile, named: bool) -> list[str]:
    lines = []
    if one.meant_as:
        lines.append(f"{one.name!r} holds {one.meant_as}")
    elif one.kind in ("category", "text"):
        lines.append(f"{one.name!r} holds text ({one.n_distinct:,} different values)")
    elif one.kind == "date":
        lines.append(f"{one.name!r} holds dates")
    elif one.kind == "yes/no" and {value.lower() for value in one.values} - {"true", "false"}:
        lines.append(f"{one.name!r} holds yes and no as text")
    elif one.kind == "nothing":
        lines.append(f"{one.name!r} is empty")
    elif not named and one.is_index:
        lines.append(f"{one.name!r} looks like an index: whole numbers, no two the same")
    elif not named and one.is_id:
        lines.append(f"{one.name!r} looks like an id: whole numbers under such a name")
    if one.n_missing and one.kind != "nothing":
        lines.append(f"{one.name!r} is missing in {_cells(one)}")
    if one.infinite:
        lines.append(f"{one.name!r} is infinite in {one.infinite:,} rows")
    return lines


def _cells(one: Profile) -> str:
    return f"{one.n_missing:,} of {one.n_rows:,} rows, first in row {one.first_missing} (counting from 0)"


def refuse_ids_among(columns: Sequence[str], table: Table, source: Any) -> None:
    """Nobody named the features: whole numbers that look like an index or an id may be none."""
    kinds = guessed_types(source) or table.source.schema
    whole = [name for name in columns if pa.types.is_integer(kinds.field(name).type)]
    if not whole:
        return
    first = next(iter(table.source.batches(whole, ROWS_FOR_IDS)), None)
    lines = [] if first is None else _ids_among({name: first.column(name) for name in whole})
    if lines:
        raise problems_error(lines)


def warn_of_ids_in(frame: Any) -> None:
    """Somebody chose the columns of a DataFrame, and perhaps took one too many."""
    columns = {name: np.asarray(frame[name][:ROWS_FOR_IDS]) for name in frame.columns}
    lines = _ids_among({name: pa.array(cells) for name, cells in columns.items() if cells.dtype.kind in "iu"})
    if lines:
        warnings.warn(
            f"{'; '.join(lines)}. Leave out what is no feature, or say that it is one: feature_names=[...].",
            TableWarning,
            stacklevel=4,
        )


def _ids_among(whole: Mapping[str, Any]) -> list[str]:
    found = [profile(name, cells) for name, cells in whole.items()]
    return [line for one in found if one.is_index or one.is_id for line in _of_column(one, named=False)]


def guessed_types(source: Any) -> pa.Schema | None:
    """Of a CSV, whose copy may have turned whole numbers into others."""
    is_csv = is_path(source) and str(source).lower().endswith((".csv", ".csv.gz"))
    return guess_csv_schema(Path(source)) if is_csv else None


def tells_more(lines: Sequence[str]) -> bool:
    """Than the error that was met first: other columns, or how one that was meant as numbers or dates is to be written."""
    return len(lines) > 1 or any("write" in line for line in lines)


def problems_error(lines: Sequence[str]) -> CellError:
    listed = "\n".join(f"  {line}" for line in lines)
    need = "1 thing about this table needs" if len(lines) == 1 else f"{len(lines)} things about this table need"
    return CellError(f"{need} your word:\n{listed}\n{WHAT_HELPS}")
