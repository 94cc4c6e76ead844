"""Which columns are used, and are all of their values numbers."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs

from commonground.errors import InputError, are_texts

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATE = (
    "save it with commas between cells and points in numbers, for example pandas.read_csv(old, sep=None, engine='python', "
    "dtype={'user_id': str}).to_csv(new, index=False), with decimal=',' where numbers have one; ids as text keep their zeros."
)

# --- columns --------------------------------------------------------------------------------------------------------


def columns_of(X: Any) -> list[Any] | None:
    """What the columns of a frame of pandas or polars are called; None for what has no names."""
    names = getattr(X, "columns", None)
    return None if names is None else list(names)


def text_names(X: Any) -> list[str] | None:
    """The same where all columns are called by text, as scikit-learn counts it; else None."""
    names = columns_of(X)
    return names if names is not None and are_texts(names) else None


@dataclass(frozen=True)
class Columns:
    """The columns that are used."""

    user: str
    label: str | None  # None where there is nothing to learn: rows to predict
    features: tuple[str, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """What becomes the matrix: the features, and the label as the last column."""
        return self.features if self.label is None else (*self.features, self.label)


def choose_columns(names: Sequence[str], user: str, label: str | None, features: Sequence[str] | None) -> Columns:
    """Check the names asked for against those of the table."""
    require_unique(names, "The table's columns")
    if isinstance(features, str):
        raise InputError(f"features must be a list of column names, got {features!r}. Write features=[{features!r}].")
    chosen = tuple(name for name in names if name not in (user, label)) if features is None else tuple(features)
    roles = (user,) if label is None else (user, label)
    require_there((*roles, *chosen), names)
    if user == label:
        raise InputError(f"user and label are both column {user!r}. Name two different columns.")
    for name in roles:
        if name in chosen:
            raise InputError(
                f"Column {name!r} is the user or the label, so it cannot be a feature. Drop it from features."
            )
    require_unique(chosen, "features")
    if not chosen and not (label is None and features is not None):  # ids alone may be asked for
        raise InputError(
            f"There are no feature columns: the table has {listing(names)}. At least one feature is needed."
        )
    return Columns(user, label, chosen)


def require_there(asked: Sequence[str], names: Sequence[str]) -> None:
    """All names that the table does not have, at once."""
    absent = [name for name in asked if name not in names]
    if absent:
        otherwise = "Pass user=, label= and features= (--user, --label, --features) by these names."
        raise InputError(
            f"There is no column {listing(absent)}; the table has {listing(names)}. "
            f"{perhaps_meant(absent, names) or otherwise}"
        )


def perhaps_meant(absent: Sequence[str], names: Sequence[str]) -> str:
    """Names of the table that are those but for blanks, capital letters or a few others; or that it was read as one column."""
    if len(names) == 1 and (separator := next((one for one in SEPARATORS if one in names[0]), None)):
        return f"Its cells seem to be separated by {SEPARATORS[separator]}, which are read as one column: {SEPARATE}"
    meant = []
    for name in map(str, absent):
        same = [one for one in names if one.strip().casefold() == name.strip().casefold()]
        meant += same[:1] or difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f"Did you mean {listing(meant)}?" if meant else ""


def require_unique(names: Iterable[str], what: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{what}: the name {name!r} occurs {count} times. Names must differ: rename or drop one.")


def listing(names: Sequence[str]) -> str:
    """The first twenty, and how many more there are."""
    return ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


class CellError(InputError):
    """What a column holds cannot be used as it is. Where there is one, there may be more: ``problems`` lists them all."""


def not_numeric(column: object, held: object, is_label: bool = False) -> InputError:
    if isinstance(held, pa.DataType) and pa.types.is_nested(held):
        return CellError(
            f"Column {column!r} holds {held}, several values in one cell. Give each a column of its own, or leave it out with "
            "features=[...]."
        )
    held = _in_words(held) if isinstance(held, pa.DataType) else held
    if is_label:
        return CellError(
            f"Column {column!r} is not numeric: it holds {held}, and it is the label. Classes, yes or no, and dates are declared "
            "in a schema (`commonground schema TABLE --out schema.toml`), and classes have a model of their own (--model "
            "classifier; PrivateFedRepClassifier takes them as they are: classes=(…))."
        )
    return CellError(
        f"Column {column!r} is not numeric: it holds {held}. Say in a schema what it is (`commonground schema TABLE --out "
        "schema.toml`: categories, dates, yes or no), or leave it out: name the other columns with features=[...] (--features)."
    )


def _in_words(kind: pa.DataType) -> str:
    told = {
        "text": pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        "categories": pa.types.is_dictionary(kind),
        "dates": pa.types.is_timestamp(kind) or pa.types.is_date(kind),
        "times of day": pa.types.is_time(kind),
        "spans of time": pa.types.is_duration(kind),
    }
    return next((words for words, so in told.items() if so), str(kind))


def matrix_dtype(schema: pa.Schema, columns: Columns) -> np.dtype:
    """float32 when every feature is float32, else float64; every column must be numeric."""
    kinds = {name: schema.field(name).type for name in columns.values}
    for name, kind in kinds.items():
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)) and kind not in (
            pa.bool_(),
            pa.null(),  # nothing but missing values, which are reported with their row
        ):
            raise not_numeric(name, kind, name == columns.label)
    return np.dtype(np.float32 if all(kinds[name] == pa.float32() for name in columns.features) else np.float64)


# --- values ---------------------------------------------------------------------------------------------------------


def bad_value(row: int, column: object, what: str) -> InputError:
    helps = "fill it in, or drop the row."
    if what == "missing":
        helps = "fill it in, drop the row, or, of a feature, say in a schema what an empty cell means (`commonground schema`)."
    return CellError(
        f"Row {row} (counting from 0) of column {column!r} is {what}. Every value must be a finite number: {helps}"
    )


def require_finite(matrix: np.ndarray, names: Sequence[object], first_row: int = 0) -> None:
    """Name the first row and column that is NaN or infinite."""
    for start in range(0, len(matrix), 2**16):  # slabs, so that the mask of a large matrix is never held
        finite = np.isfinite(matrix[start : start + 2**16])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            row += start
            what = "NaN" if np.isnan(matrix[row, column]) else f"infinite, or too large for {matrix.dtype}"
            raise bad_value(first_row + row, names[column], what)


def to_matrix(batch: pa.RecordBatch, names: Sequence[str], dtype: np.dtype, first_row: int) -> np.ndarray:
    """Columns to rows, every value checked."""
    matrix = np.empty((batch.num_rows, len(names)), dtype=dtype)
    for j, name in enumerate(names):
        column = batch.column(name)
        if column.null_count:
            raise bad_value(first_row + column.is_null().index(True).as_py(), name, "missing")
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        with np.errstate(over="ignore"):  # a label too large for float32 becomes inf, and is reported below
            matrix[:, j] = column.to_numpy(zero_copy_only=False)
    require_finite(matrix, names, first_row)
    return matrix
