"""Cells to numbers, by the public schema alone; and a source whose columns are encoded as they are read.

Nothing is decided from the cells together: each becomes its numbers by itself. What does not fit is a `Misfit`, one for each
column, so that all of them can be told at once. They name rows and counts, never what a cell holds: it is somebody's.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commonground.data.codes import Codes, codes_in_words
from commonground.data.columns import columns_of, listing
from commonground.data.schema import Schema
from commonground.data.schema_column import DISCOVER, INDICATOR, NO, UNITS, UNKNOWN, YES, Column, seconds_since_1970
from commonground.data.sources import Source
from commonground.errors import InputError, TableWarning


@dataclass(frozen=True)
class Misfit:
    """Cells of one column that the schema has no place for."""

    column: str
    what: str  # in words, without any value
    first_row: int
    count: int

    def __str__(self) -> str:
        more = f" and {self.count - 1:,} more" if self.count > 1 else ""
        return f"{self.column!r}: row {self.first_row} (counting from 0){more} {self.what}"


MOST_ROWS = 1_000_000  # looked at for numbers that stand for a missing cell
UNLISTED = "most cells of {} have a value that the schema does not list, and count as none of its values."
MISSING = 'is empty. Say what that means: missing = "indicator", or a constant'
NO_LABEL = "has no label and is of no use: leave it out (NA, N/A, NaN and null count as empty, too)"
NOT_OF_KIND = {
    "number": "is not a finite number",
    "category": "cannot be read as text",
    "yes/no": f"is none of {', '.join(YES[:4])}, {', '.join(NO[:4])}, 1, 0",
    "date": "is not a date such as 2020-01-31 or 2020-01-31T12:00",
}


def cells_and_gaps(name: str, cells: Any) -> tuple[pa.Array, np.ndarray]:
    """A column in one piece, its dictionary looked up, and which of its cells hold nothing; text of white space holds nothing."""
    array = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    missing = np.asarray(array.is_null(nan_is_null=True))
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        try:
            missing = missing | np.asarray(pc.equal(pc.utf8_trim_whitespace(array), "").fill_null(False))
        except pa.ArrowInvalid:
            raise InputError(f"{name!r} holds text that is not UTF-8. Write the table again in UTF-8.") from None
    return array, missing


def _cells_of(column: Column, cells: Any) -> tuple[pa.Array, np.ndarray]:
    """The same for a column of the schema, which may say what else counts as empty."""
    array, missing = cells_and_gaps(column.name, cells)
    if column.empty and column.kind == "number":
        numbers, fits = _numbers(replace(column, range=None, scale=None), array)
        words = [one for one in column.empty if isinstance(one, str)]
        listed = np.array([one for one in column.empty if not isinstance(one, str)], dtype=np.float64)
        if pa.types.is_floating(array.type):  # -99.9 is another number in 32 bits
            with np.errstate(over="ignore"):
                listed = np.r_[listed, listed.astype(array.type.to_pandas_dtype()).astype(np.float64)]
        missing = missing | (fits & np.isin(numbers[:, 0], listed)) | _is_one_of(array, words)
    elif column.empty and column.kind == "date":  # however it is written
        moments, fits = _dates(replace(column, range=None, scale=None), array)
        listed, told = _dates(replace(column, range=None, scale=None), pa.array(column.empty, pa.string()))
        missing = missing | (fits & np.isin(moments[:, 0], listed[told, 0])) | _is_one_of(array, column.empty)
    elif column.empty:
        missing = missing | _is_one_of(array, column.empty)
    return array, missing


def _is_one_of(array: Any, words: Sequence[Any]) -> np.ndarray:
    text = _text(array)
    if text is None:
        return np.zeros(len(array), dtype=bool)
    return np.asarray(pc.is_in(text, value_set=pa.array(words, pa.string())))


def encoded_column(column: Column, cells: Any, first_row: int = 0) -> tuple[np.ndarray, list[Misfit]]:
    """(rows, numbers of this column) as float64, and what does not fit."""
    array, missing = _cells_of(column, cells)
    values, fits = _READERS[column.kind](column, array)
    misfits = _misfits(column, ~missing & ~fits, NOT_OF_KIND[column.kind], first_row)
    if column.missing is None:
        misfits += _misfits(column, missing, NO_LABEL if column.role == "label" else MISSING, first_row)
    stands_for = _constant(column)
    values[missing] = 0.0 if stands_for is None else stands_for
    if column.role == "feature" and column.missing == INDICATOR:
        values = np.column_stack([values, missing.astype(np.float64)])
    return values, misfits


def _misfits(column: Column, which: np.ndarray, what: str, first_row: int) -> list[Misfit]:
    count = int(which.sum())
    return [Misfit(column.name, what, first_row + int(np.argmax(which)), count)] if count else []


def _constant(column: Column) -> np.ndarray | None:
    """What a missing cell is encoded as; None: as zeros."""
    if column.missing is None or column.missing == INDICATOR:
        return None
    told = {True: "yes", False: "no"}[column.missing] if isinstance(column.missing, bool) else column.missing
    return _READERS[column.kind](column, pa.array([told]))[0][0]


def _as_written(column: Column, cells: Any) -> np.ndarray:
    """The numbers in a column's cells, before any range or scale."""
    array, missing = _cells_of(column, cells)
    numbers, fits = _numbers(replace(column, range=None, scale=None), array)
    return numbers[fits & ~missing, 0]


def _codes_in(column: Column, codes: Codes) -> int:
    return codes.far() or (codes.outside(column.range) if column.range is not None else 0)


def mostly_out_of_range(schema: Schema, table: Any) -> list[str]:
    """Columns of numbers whose filled cells lie for more than half outside of the range that they are clipped to."""
    found = []
    for column in schema.features:
        if column.kind == "number" and column.range is not None:
            filled, (low, high) = _as_written(column, table.column(column.name)), column.range
            if 2 * np.count_nonzero((filled < low) | (filled > high)) > len(filled):
                found.append(column.name)
    return found


def mostly_unlisted(schema: Schema, table: Any) -> list[str]:
    """Categories of whose filled cells more than half have a value that the schema does not list."""
    counts = Unlisted(schema)
    counts.add(table)
    return counts.columns()


class Unlisted:
    """How many cells of each listed category there are, and how many of them have a value that is not listed; private."""

    def __init__(self, schema: Schema) -> None:
        listed = [one for one in schema.features if one.kind == "category" and one.values not in (DISCOVER, UNKNOWN)]
        self._seen = {one: np.zeros(2, dtype=np.int64) for one in listed}

    def __repr__(self) -> str:
        return "<Unlisted: private>"

    def add(self, table: Any) -> None:
        for column, seen in self._seen.items():
            array, missing = _cells_of(column, table.column(column.name))
            seen += np.count_nonzero(~missing), np.count_nonzero(~missing & ~_is_one_of(array, column.values))

    def columns(self) -> list[str]:
        return [column.name for column, (filled, unlisted) in self._seen.items() if 2 * unlisted > filled]


# --- one kind each: (rows, numbers), and which cells it could read --------------------------------------------------------


def _scaled(column: Column, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # What is finite here may not be so once it is divided by a small scale.
    scale = 1.0 if column.scale is None or column.range is not None else column.scale
    with np.errstate(over="ignore"):
        fits = np.isfinite(numbers / scale)
    numbers = np.where(fits, numbers, 0.0)
    if column.range is not None:
        low, high = column.range
        numbers = np.clip(numbers, low, high)
        if column.role == "feature":
            numbers = (numbers - low) / (high - low) * 2.0 - 1.0
    return numbers[:, None] / scale, fits


def _numbers(column: Column, array: Any) -> tuple[np.ndarray, np.ndarray]:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array = pc.utf8_trim_whitespace(array)
        number = pc.match_substring_regex(array, r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")
        array = pc.if_else(number, pc.replace_substring_regex(array, r"^\+", ""), None)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
    ):
        return np.zeros((len(array), 1)), np.zeros(len(array), dtype=bool)
    with np.errstate(over="ignore"):
        return _scaled(column, array.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64))


def _text(array: Any) -> Any:
    """Cells as text; None where they have no text form, such as lists."""
    try:
        return pc.utf8_trim_whitespace(array.cast(pa.string()))
    except pa.ArrowException:
        return None


def _category(column: Column, array: Any) -> tuple[np.ndarray, np.ndarray]:
    """One-hot, all zeros for a value that is not listed; of a label, the place among its values."""
    text, values = _text(array), pa.array(column.values, pa.string())
    if text is None:
        return np.zeros((len(array), len(values))), np.zeros(len(array), dtype=bool)
    place = pc.index_in(text, value_set=values).fill_null(-1).to_numpy(zero_copy_only=False)
    if column.role == "label":  # a class that is not there cannot be learned
        return place[:, None].astype(np.float64), place >= 0
    return (place[:, None] == np.arange(len(values))).astype(np.float64), np.ones(len(array), dtype=bool)


def _yes_or_no(column: Column, array: Any) -> tuple[np.ndarray, np.ndarray]:
    text = _text(array)
    if text is None:
        return np.zeros((len(array), 1)), np.zeros(len(array), dtype=bool)
    text = pc.utf8_lower(text)
    yes, no = (np.asarray(pc.is_in(text, value_set=pa.array(words))) for words in (YES, NO))
    return yes[:, None].astype(np.float64), yes | no


def _dates(column: Column, array: Any) -> tuple[np.ndarray, np.ndarray]:
    origin = seconds_since_1970(column.origin)
    assert origin is not None
    if pa.types.is_temporal(array.type) and not (pa.types.is_time(array.type) or pa.types.is_duration(array.type)):
        try:
            micro = array.cast(pa.timestamp("us", tz=getattr(array.type, "tz", None))).cast(pa.int64())
        except pa.ArrowInvalid:  # a year beyond all calendars
            return _scaled(column, np.full(len(array), np.nan))
        seconds = micro.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / 1e6
    else:
        text = _text(array)
        told = [] if text is None else text.to_pylist()
        found = [seconds_since_1970(one) for one in told] if told else [None] * len(array)
        seconds = np.array([np.nan if one is None else one for one in found], dtype=np.float64)
    return _scaled(column, (seconds - origin) / UNITS[column.unit])


_READERS = {"number": _numbers, "category": _category, "yes/no": _yes_or_no, "date": _dates}


# --- whole tables --------------------------------------------------------------------------------------------------------


def misfit_error(misfits: Sequence[Misfit], what: str) -> InputError:
    lines = "\n".join(f"  {misfit}" for misfit in misfits)
    return InputError(
        f"{what} does not fit its schema in {len(misfits)} place{'s' * (len(misfits) != 1)}:\n{lines}\n"
        "Correct the table or the schema."
    )


def encoded_rows(schema: Schema, table: Any) -> np.ndarray:
    """(rows, features) of a table in memory."""
    parts, misfits = [], []
    cells = raw_columns(schema, table)
    for column in schema.features:
        values, wrong = encoded_column(column, cells[column.name])
        parts.append(values)
        misfits += wrong
    if misfits:
        raise misfit_error(misfits, "The table")
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def encoded_labels(schema: Schema, labels: Any) -> np.ndarray:
    values, misfits = encoded_column(schema.label, as_cells(labels))
    if misfits:
        raise misfit_error(misfits, "The labels")
    return np.ascontiguousarray(values[:, 0])


def raw_columns(schema: Schema, table: Any) -> dict[str, Any]:
    """The schema's feature columns of whatever has columns, or of an array that has just these, in their order."""
    wanted = [column.name for column in schema.features]
    if hasattr(table, "column_names"):  # Arrow
        named = {name: table.column(name) for name in table.column_names}
    elif (names := list(table) if isinstance(table, Mapping) else columns_of(table)) is not None:
        named = {str(name): table[name] for name in names}
    else:
        array = np.asarray(table)
        if array.ndim != 2 or array.shape[1] != len(wanted):
            raise InputError(
                f"the model's schema has the columns {listing(wanted)}; got an array of shape {array.shape}. Give a table with "
                f"these names, or rows of these {len(wanted)} values, in this order."
            )
        named = dict(zip(wanted, array.T, strict=True))
    absent = [name for name in wanted if name not in named]
    if absent:
        raise InputError(f"the schema's columns {listing(absent)} are missing; the table has {listing(list(named))}.")
    return {name: as_cells(named[name]) for name in wanted}


def as_cells(values: Any) -> Any:
    """A column as Arrow has it; as text where its cells are of several types."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "to_arrow"):
        return values.to_arrow()
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        text = [None if one is None or one != one else str(one).encode("utf-8", "replace").decode() for one in values]
        return pa.array(text, pa.string())


class EncodedSource:
    """Another source's rows, encoded as they are read: the person as she is, the features and the label as numbers."""

    def __init__(self, source: Source, schema: Schema):
        self.source, self.public, self.n_rows = source, schema, source.n_rows
        person = pa.field(schema.person.name, source.schema.field(schema.person.name).type)
        numbers = [pa.field(name, pa.float64()) for name in (*schema.feature_names, schema.label.name)]
        self.schema = pa.schema([person, *numbers])

    def _columns(self, names: Sequence[str]) -> list[Column]:
        wanted = set(names)
        chosen = [column for column in self.public.features if wanted & set(column.feature_names)]
        return chosen + [self.public.label] * (self.public.label.name in wanted)

    def _raw(self, names: Sequence[str]) -> list[str]:
        person = [self.public.person.name] if self.public.person.name in names else []
        return person + [column.name for column in self._columns(names)]

    def open_bytes(self, columns: Sequence[str]) -> int:
        return self.source.open_bytes(self._raw(columns))

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        row = first_row
        for batch in self.source.batches(self._raw(columns), rows, first_row):
            encoded, misfits = self._encoded(batch, columns, row)
            if misfits:
                raise misfit_error(misfits, "The table")
            yield pa.RecordBatch.from_pydict({name: encoded[name] for name in columns})
            row += batch.num_rows

    def _encoded(self, batch: pa.RecordBatch, names: Sequence[str], row: int) -> tuple[dict[str, Any], list[Misfit]]:
        encoded: dict[str, Any] = {}
        misfits: list[Misfit] = []
        for column in self._columns(names):
            values, wrong = encoded_column(column, batch.column(column.name), row)
            misfits += wrong
            made = (column.name,) if column.role == "label" else column.feature_names
            encoded |= {name: pa.array(values[:, at]) for at, name in enumerate(made)}
        if self.public.person.name in names:
            encoded[self.public.person.name] = batch.column(self.public.person.name)
        return encoded, misfits

    def check(self) -> None:
        """Read everything once, and raise one error that lists every column with cells that do not fit.

        Numbers that often stand for a missing cell are a warning, by the first million rows.
        """
        found: dict[tuple[str, str], Misfit] = {}
        names, row = (*self.public.feature_names, self.public.label.name), 0
        columns = [column for column in (*self.public.features, self.public.label) if column.kind == "number"]
        codes, unlisted = {column.name: Codes() for column in columns}, Unlisted(self.public)
        for batch in self.source.batches(self._raw(names), 2**16):
            for column in columns if row < MOST_ROWS else ():
                codes[column.name].add(_as_written(column, batch.column(column.name)))
            if row < MOST_ROWS:
                unlisted.add(batch)
            for new in self._encoded(batch, names, row)[1]:
                before = found.get((new.column, new.what))
                first, count = (new.first_row, 0) if before is None else (before.first_row, before.count)
                found[new.column, new.what] = Misfit(new.column, new.what, first, count + new.count)
            row += batch.num_rows
        if found:
            raise misfit_error(list(found.values()), "The table")
        counts = {column.name: _codes_in(column, codes[column.name]) for column in columns}
        label = self.public.label.name
        of_label = counts.pop(label, 0)
        told = codes_in_words(counts, label, of_label, ranges=any(column.range for column in columns))
        if told:
            warnings.warn(told, TableWarning, stacklevel=6)
        if mostly := unlisted.columns():
            warnings.warn(f"{UNLISTED.format(listing(mostly))} Are they spelled alike?", TableWarning, stacklevel=6)
