"""Tables in memory or on disk: which columns, are all values numbers, and where the grouped rows are kept.

`open_table` finds the columns in an Arrow table, a DataFrame, a CSV or Parquet files. `load_rows` then checks every
value and moves each row to its place: its row number once people are grouped, which `commonground.users` works out.
Rows go

- into memory, when the matrix fits;
- nowhere, when a Parquet file is grouped by person already: it is read as it is, page by page;
- else into a scratch file, by an external permutation that holds one part of the rows at a time.
"""

import difflib
import mmap
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from commonground.errors import InputError
from commonground.files import PRIVATE, replacing

COLUMN_BYTES = 5 * 2**19  # an open Parquet column holds pages and a dictionary of 1 MiB each, however small the batches
COLUMNS_AT_ONCE = 16  # so a table is checked and moved one group of columns after the other,
STREAMED_BYTES = 28 * 2**20  # and is read in blocks, all columns at once, only if they hold no more than this
PAGE_BUFFER = 2**16  # bytes read ahead per column; without it Arrow reads a column's whole row group at once
BATCH_BYTES = 2**20  # a batch is turned from columns into rows while it is in the cache
MAX_PARTS = 512  # scratch files in a permutation
GZIP_RATIO = 8  # a guess at how much a compressed CSV grows

PathLike = str | os.PathLike[str]


# --- columns --------------------------------------------------------------------------------------------------------


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
    for name in (*roles, *chosen):
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.7)
            hint = f"Did you mean {close[0]!r}?" if close else "Pass user=, label= and features= by these names."
            raise InputError(f"There is no column {name!r}; the table has {listing(names)}. {hint}")
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


def require_unique(names: Iterable[str], what: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{what}: the name {name!r} occurs {count} times. Names must differ: rename or drop one.")


def listing(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def not_numeric(column: object, held: object) -> InputError:
    return InputError(
        f"Column {column!r} is not numeric: it holds {held}. One-hot encode it or turn it into numbers; "
        "a column that is no feature can be left out with features=[...]."
    )


def matrix_dtype(schema: pa.Schema, columns: Columns) -> np.dtype:
    """float32 when every feature is float32, else float64; every column must be numeric."""
    kinds = {name: schema.field(name).type for name in columns.values}
    for name, kind in kinds.items():
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)) and kind not in (
            pa.bool_(),
            pa.null(),  # nothing but missing values, which are reported with their row
        ):
            raise not_numeric(name, kind)
    return np.dtype(np.float32 if all(kinds[name] == pa.float32() for name in columns.features) else np.float64)


# --- values ---------------------------------------------------------------------------------------------------------


def bad_value(row: int, column: object, what: str) -> InputError:
    return InputError(
        f"Row {row} (counting from 0) of column {column!r} is {what}. Every value must be a finite number: "
        "fill it in or drop the row."
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


def scatter(X: np.ndarray, y: np.ndarray, places: np.ndarray, first_column: int, matrix: np.ndarray) -> None:
    """Put some columns of some rows where they belong; the column after the features is the label."""
    n_features, end = X.shape[1], first_column + matrix.shape[1]
    if end <= n_features:
        X[places, first_column:end] = matrix
    else:
        X[places, first_column:n_features] = matrix[:, :-1]
        y[places] = matrix[:, -1]


# --- where rows come from -------------------------------------------------------------------------------------------


class ArrowSource:
    """A table in memory."""

    def __init__(self, table: pa.Table):
        self.table, self.schema, self.n_rows = table, table.schema, table.num_rows

    def open_bytes(self, columns: Sequence[str]) -> int:
        return 0

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        return iter(self.table.select(list(columns)).slice(first_row).to_batches(max_chunksize=rows))


class Source(Protocol):
    """A table that can be read again and again, some columns and some rows at a time."""

    schema: pa.Schema
    n_rows: int

    def open_bytes(self, columns: Sequence[str]) -> int:
        """About how much memory it takes to read these columns side by side."""

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]: ...


class ParquetSource:
    """One or more Parquet files of one schema, on any file system that Arrow knows, read page by page."""

    def __init__(self, paths: Sequence[Path], files: pa.fs.FileSystem | None = None):
        self.paths = paths
        self.files = files or pa.fs.LocalFileSystem()
        self.stamps = [stamp(path, self.files) for path in paths]
        self.rows_in: list[int] = []
        for path in paths:
            with open_parquet(path, self.files) as file:
                self.rows_in.append(file.metadata.num_rows)
                if sum(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)) != self.rows_in[-1]:
                    raise damaged(path, "its parts do not have as many rows as it says")
                if path == paths[0]:
                    self.schema = file.schema_arrow
                elif not file.schema_arrow.equals(self.schema):
                    raise InputError(
                        f"{path} has other columns or types than {paths[0]}. "
                        "The files of a folder must have the same: write them again with one schema."
                    )
        self.n_rows = sum(self.rows_in)

    def each_file(self) -> list["ParquetSource"]:
        """Every file that has rows as a source of its own."""
        found = []
        for path, stamp_then, n_rows in zip(self.paths, self.stamps, self.rows_in, strict=True):
            file = copy(self)
            file.paths, file.stamps, file.rows_in, file.n_rows = [path], [stamp_then], [n_rows], n_rows
            found += [file] * (n_rows > 0)
        return found

    def open_bytes(self, columns: Sequence[str]) -> int:
        # Arrow 26 ends the process when it is asked for the size of one column of a damaged file: the row group's must do.
        most = 0
        for path, n_rows in zip(self.paths, self.rows_in, strict=True):
            if n_rows:
                with open_parquet(path, self.files) as file:
                    largest = max(file.metadata.row_group(g).total_byte_size for g in range(file.num_row_groups))
                most = max(most, min(2 * largest, len(columns) * COLUMN_BYTES))
        return most

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        skip = first_row
        for path, n_rows, then in zip(self.paths, self.rows_in, self.stamps, strict=True):
            if skip >= n_rows:
                skip -= n_rows
                continue
            # Rows belong to people by their position: in a file written anew they would go to the wrong person.
            if stamp(path, self.files) != then:
                raise InputError(f"{path} changed after it was opened. Keep it as it is, or make Users from it again.")
            with open_parquet(path, self.files) as file:
                group = 0
                while skip >= (rows_in_group := file.metadata.row_group(group).num_rows):
                    skip, group = skip - rows_in_group, group + 1
                groups = range(group, file.num_row_groups)
                missing = sum(file.metadata.row_group(g).num_rows for g in groups)
                try:
                    for batch in file.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False):
                        missing -= batch.num_rows
                        if skip < batch.num_rows:
                            yield batch.slice(skip)
                        skip = max(0, skip - batch.num_rows)
                except (pa.ArrowException, OSError) as error:
                    raise damaged(path, error) from None
                finally:
                    pa.default_memory_pool().release_unused()  # it would keep the pages for a next time
                if missing:
                    raise damaged(path, "it does not have as many rows as it says")


class RowRange:
    """Consecutive rows of another source."""

    def __init__(self, source: Source, start: int, stop: int):
        self.source, self.start, self.schema, self.n_rows = source, start, source.schema, stop - start

    def open_bytes(self, columns: Sequence[str]) -> int:
        return self.source.open_bytes(columns)

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        left = self.n_rows - first_row
        for batch in self.source.batches(columns, rows, self.start + first_row):
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return


def damaged(path: Path, what: object) -> InputError:
    return InputError(f"{path} cannot be read to its end ({what}). Write the file again.")


def open_parquet(path: Path, files: pa.fs.FileSystem) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(
            str(path), filesystem=files, pre_buffer=False, buffer_size=PAGE_BUFFER, page_checksum_verification=True
        )
        file.schema_arrow.names  # noqa: B018 (an error here if they cannot be read)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not a readable Parquet file ({error}). Write it again, or check its name."
        ) from None
    return file


def stamp(path: Path, files: pa.fs.FileSystem) -> tuple[int, int] | None:
    """What changes when a file is written."""
    status = files.get_file_info(str(path))
    return None if status.type == pa.fs.FileType.NotFound else (status.size, status.mtime_ns)


# --- where grouped rows are kept ------------------------------------------------------------------------------------


class Rows(Protocol):
    """Rows grouped by person."""

    dtype: np.dtype
    n_features: int

    def read(self, cuts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X and y of rows cuts[0]:cuts[1], then of cuts[1]:cuts[2], and so on."""


class MemoryRows:
    """Rows in memory; reading copies nothing."""

    def __init__(self, X: np.ndarray, y: np.ndarray):
        self.X, self.y, self.dtype, self.n_features = X, y, X.dtype, X.shape[1]

    def read(self, cuts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in pairwise(cuts):
            yield self.X[start:stop], self.y[start:stop]


class FileRows:
    """Rows in files that are grouped by person as they are."""

    def __init__(self, source: Source, columns: Columns, dtype: np.dtype, scratch: "Scratch"):
        self.source, self.names, self.dtype, self.n_features = source, columns.values, dtype, len(columns.features)
        self.scratch = scratch  # the file may be there

    def read(self, cuts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        row = int(cuts[0])
        batches = self.source.batches(self.names, max(1, BATCH_BYTES // (len(self.names) * self.dtype.itemsize)), row)
        matrix = np.empty((0, len(self.names)), dtype=self.dtype)  # read from the file and not yet handed on
        for start, stop in pairwise(cuts.tolist()):
            X, y = empty_block((stop - start, self.n_features), self.dtype), empty_block((stop - start,), self.dtype)
            while row < stop:
                if len(matrix) == 0:
                    matrix = to_matrix(next(batches), self.names, self.dtype, row)
                part, matrix = matrix[: stop - row], matrix[stop - row :]
                X[row - start : row - start + len(part)] = part[:, :-1]
                y[row - start : row - start + len(part)] = part[:, -1]
                row += len(part)
            yield X, y


class ScratchRows:
    """Rows in two scratch files of plain numbers, one for X and one for y."""

    def __init__(self, scratch: "Scratch", dtype: np.dtype, n_features: int):
        self.scratch, self.dtype, self.n_features = scratch, dtype, n_features

    def read(self, cuts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in pairwise(cuts.tolist()):
            X, y = empty_block((stop - start, self.n_features), self.dtype), empty_block((stop - start,), self.dtype)
            for name, values in (("X", X), ("y", y)):
                with (self.scratch.folder / name).open("rb") as file:
                    file.seek(start * values.strides[0])
                    if file.readinto(values.data) < values.nbytes:
                        raise InputError(f"{file.name} was cut short while in use. Make Users from the table again.")
            yield X, y


def empty_block(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """`np.empty`, except that its memory goes back to the system when freed; malloc keeps some of up to 32 MiB."""
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    if n_bytes < 2**20:
        return np.empty(shape, dtype=dtype)
    pages = mmap.mmap(-1, n_bytes, access=mmap.ACCESS_COPY)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them; they halve the time to read a block
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)


class Scratch:
    """A folder for private rows that only this account can read; made when first used, removed with the object."""

    def __init__(self, parent: PathLike | None):
        self.parent = parent

    @cached_property
    def folder(self) -> Path:
        try:
            folder = Path(tempfile.mkdtemp(prefix="commonground-", dir=self.parent))
        except OSError as error:
            raise InputError(f"scratch={self.parent!r} cannot be used ({error}). Name a folder that exists.") from None
        self.finalizer = weakref.finalize(self, remove_own_folder, folder, os.getpid())
        return folder

    def remove(self) -> None:
        if "folder" in self.__dict__:
            self.finalizer()


def remove_own_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked worker has a copy of the object, but the files are still its parent's
        shutil.rmtree(folder, ignore_errors=True)


# --- from source to kept rows ---------------------------------------------------------------------------------------


class Table:
    """A source, and its columns, which are found to be numeric. Ids are a column, or a function that reads them."""

    def __init__(self, source: Source, columns: Columns, user_ids: Any = None):
        self.source, self.columns = source, columns
        self.user_ids = self.read_ids if user_ids is None else user_ids
        self.dtype = matrix_dtype(source.schema, columns)

    def read_ids(self, rows: int) -> Iterator[pa.Array]:
        user = self.columns.user
        return (batch.column(user) for batch in self.source.batches([user], rows))

    def matrices(self, batch_bytes: int = BATCH_BYTES) -> Iterator[tuple[int, int, np.ndarray]]:
        """The whole table as (first row, first column, checked values)."""
        for first_column in range(0, len(self.columns.values), COLUMNS_AT_ONCE):
            names = self.columns.values[first_column : first_column + COLUMNS_AT_ONCE]
            row = 0
            for batch in self.source.batches(names, max(1, batch_bytes // (len(names) * self.dtype.itemsize))):
                yield row, first_column, to_matrix(batch, names, self.dtype, row)
                row += batch.num_rows


def load_rows(table: Table, places: Iterator[np.ndarray] | None, max_memory: int, scratch: Scratch) -> Rows:
    """Check every value and group the rows; `places` is None when they are grouped already."""
    row_bytes = len(table.columns.values) * table.dtype.itemsize
    if isinstance(table.source, ArrowSource) or table.source.n_rows * row_bytes <= max_memory:
        return place_in_memory(table, places)
    if places is None and table.source.open_bytes(table.columns.values) <= STREAMED_BYTES:
        for _ in table.matrices():
            pass  # every value is checked before the first block is used
        return FileRows(table.source, table.columns, table.dtype, scratch)
    return place_on_disk(table, places, max_memory, scratch)


def place_in_memory(table: Table, places: Iterator[np.ndarray] | None) -> MemoryRows:
    X = np.empty((table.source.n_rows, len(table.columns.features)), dtype=table.dtype)
    y = np.empty(table.source.n_rows, dtype=table.dtype)
    place_of = np.arange(len(y)) if places is None else np.concatenate(list(places))
    for row, first_column, matrix in table.matrices():
        scatter(X, y, place_of[row : row + len(matrix)], first_column, matrix)
    return MemoryRows(X, y)


def place_on_disk(table: Table, places: Iterator[np.ndarray] | None, max_memory: int, scratch: Scratch) -> ScratchRows:
    """Permute rows without holding them: send each to the file of its part, then put one part after the other in order.

    A part is a fixed number of consecutive rows of the result, so its size is exact however unequal people are.
    """
    folder, n_rows, n_features = scratch.folder, table.source.n_rows, len(table.columns.features)
    for some_places in [] if places is None else places:
        append(folder / "places", some_places)
    # A quarter: while a part is put in order it is held twice, as records and as rows.
    part = max(1, max_memory // (4 * (n_features + 1) * table.dtype.itemsize), -(-n_rows // MAX_PARTS))
    record_dtypes: dict[int, np.dtype] = {}  # by first column
    for row, first_column, matrix in table.matrices(int(np.clip(max_memory // 16, BATCH_BYTES, 32 * BATCH_BYTES))):
        if places is None:
            place_of = np.arange(row, row + len(matrix))
        else:
            place_of = np.fromfile(folder / "places", dtype=np.int64, count=len(matrix), offset=8 * row)
        record = np.dtype([("place", np.int64), ("values", table.dtype, (matrix.shape[1],))])
        record_dtypes[first_column] = record
        order = np.argsort(place_of // part, kind="stable")
        records = np.empty(len(matrix), dtype=record)
        records["place"], records["values"] = place_of[order], matrix[order]
        numbers, starts = np.unique(records["place"] // part, return_index=True)
        for number, start, stop in zip(numbers, starts, [*starts[1:], len(records)], strict=True):
            append(folder / f"part-{number}-{first_column}", records[start:stop])

    for number, first_row in enumerate(range(0, n_rows, part)):
        size = min(part, n_rows - first_row)
        X, y = np.empty((size, n_features), dtype=table.dtype), np.empty(size, dtype=table.dtype)
        for first_column, record in record_dtypes.items():
            path = folder / f"part-{number}-{first_column}"
            records = np.fromfile(path, dtype=record)
            path.unlink()
            scatter(X, y, records["place"] - first_row, first_column, records["values"])
        append(folder / "X", X)
        append(folder / "y", y)
    for done_with in ("places", CSV_COPY):
        (folder / done_with).unlink(missing_ok=True)
    return ScratchRows(scratch, table.dtype, n_features)


def append(path: Path, values: np.ndarray) -> None:
    with path.open("ab") as file:  # not values.tofile: it does not say when the disk is full
        file.write(values.view(np.uint8).data)


# --- opening --------------------------------------------------------------------------------------------------------

CSV_COPY = "table.parquet"


def open_table(
    source: Any, user: str, label: str | None, features: Sequence[str] | None, max_memory: int, scratch: Scratch
) -> Table:
    """Any kind of table, its columns chosen and checked."""
    if isinstance(source, str | os.PathLike):
        return open_path(source, user, label, features, max_memory, scratch)
    if comes_from(source, "pandas", "DataFrame"):
        return open_pandas(source, user, label, features)
    if comes_from(source, "polars", "DataFrame"):
        source = source.to_arrow()
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        raise InputError(
            "A table must be a pandas or polars DataFrame, a pyarrow Table, or the path of a .csv, .csv.gz or .parquet "
            f"file or of a folder of .parquet files, got {type(source).__name__}."
        )
    columns = choose_columns(source.column_names, user, label, features)
    return Table(ArrowSource(source), columns, source.column(user))


def column_names(source: Any) -> list[str]:
    """The names of all columns of any kind of table."""
    if isinstance(source, str | os.PathLike):
        paths, files = table_files(source)
        if paths[0].suffix.lower() == ".parquet":
            return list(ParquetSource(paths, files).schema.names)
        return list(guess_csv_schema(paths[0]).names)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return list(source.schema.names)
    return [str(name) for name in getattr(source, "columns", [])]


def comes_from(value: object, library: str, class_name: str | None = None) -> bool:
    """Whether the value's class, or a parent of it, is from a library, which need not be installed."""
    return any(
        parent.__module__.partition(".")[0] == library and class_name in (None, parent.__name__)
        for parent in type(value).__mro__
    )


def open_pandas(frame: Any, user: str, label: str | None, features: Sequence[str] | None) -> Table:
    names = [str(name) for name in frame.columns]
    columns = choose_columns(names, user, label, features)
    arrays = []
    for name in columns.values:
        series = frame.iloc[:, names.index(name)]
        try:
            arrays.append(pa.array(series, from_pandas=True))
        except (pa.ArrowException, OverflowError):
            raise not_numeric(name, f"{series.dtype} values") from None
    # The ids stay with pandas: a column of UUIDs or of mixed types has no Arrow type.
    return Table(ArrowSource(pa.table(arrays, names=columns.values)), columns, frame.iloc[:, names.index(user)])


def open_path(
    source: PathLike, user: str, label: str | None, features: Sequence[str] | None, max_memory: int, scratch: Scratch
) -> Table:
    paths, files = table_files(source)
    if paths[0].suffix.lower() == ".parquet":
        parquet = ParquetSource(paths, files)
        return Table(parquet, choose_columns(parquet.schema.names, user, label, features))
    path = paths[0]
    guessed = guess_csv_schema(path)
    columns = choose_columns(guessed.names, user, label, features)
    if path.stat().st_size * (GZIP_RATIO if path.suffix.lower() == ".gz" else 1) <= max_memory:
        small = read_csv(path, columns)
        return Table(ArrowSource(small), columns, small.column(user))
    return Table(ParquetSource([csv_to_parquet(path, columns, guessed, scratch.folder / CSV_COPY)]), columns)


def table_files(source: PathLike) -> tuple[list[Path], pa.fs.FileSystem]:
    """The file itself, or the Parquet files of a folder in the order of their names; and the file system they are on."""
    if "://" in str(source):
        return url_files(str(source))
    path, files = Path(source), pa.fs.LocalFileSystem()
    if not path.exists():
        raise InputError(f"There is no file {str(path)!r}. Check the path; the working folder is {os.getcwd()!r}.")
    if path.is_dir():
        return parquet_files(path.iterdir(), str(path)), files
    if not path.name.lower().endswith((".csv", ".csv.gz", ".parquet")):
        raise InputError(f"{str(path)!r} has an unknown suffix. Give a .csv, .csv.gz or .parquet file, or a folder.")
    if path.stat().st_size == 0:
        raise InputError(f"The file {str(path)!r} is empty. It needs column names and rows.")
    return [path], files


def url_files(url: str) -> tuple[list[Path], pa.fs.FileSystem]:
    """The same for an address such as file:///folder, s3://bucket/folder or gs://…: Parquet only."""
    try:
        files, path = pa.fs.FileSystem.from_uri(url)
        found = files.get_file_info(path)
        listed = files.get_file_info(pa.fs.FileSelector(path)) if found.type == pa.fs.FileType.Directory else [found]
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{url!r} cannot be opened ({error}). Check the address and the right to read it.") from None
    if found.type == pa.fs.FileType.NotFound:
        raise InputError(f"There is nothing at {url!r}. Check the address.")
    return parquet_files((Path(one.path) for one in listed), url), files


def parquet_files(listed: Iterable[Path], folder: str) -> list[Path]:
    paths = sorted(path for path in listed if path.suffix.lower() == ".parquet" and path.name[0] not in "._")
    if not paths:
        raise InputError(f"The folder {folder!r} has no .parquet files directly in it. Put them there or name one.")
    return paths


# --- rows to predict, and files to write ------------------------------------------------------------------------------


def read_rows(source: Any, user: str, features: Sequence[str]) -> tuple[Any, np.ndarray]:
    """Ids and feature values of a table's rows, in their order, all in memory."""
    return rows_in_order(open_table(source, user, None, features, sys.maxsize, Scratch(None)))


def rows_in_order(table: Table) -> tuple[Any, np.ndarray]:
    X = np.empty((table.source.n_rows, len(table.columns.values)), dtype=table.dtype)
    for row, first_column, matrix in table.matrices():
        X[row : row + len(matrix), first_column : first_column + matrix.shape[1]] = matrix
    ids = pa.chunked_array(table.user_ids(2**16)) if callable(table.user_ids) else table.user_ids
    return ids, X


def write_table(table: pa.Table, path: PathLike) -> Path:
    """Write .csv or .parquet by the path's suffix, whole or not at all; only this account may read it: it is about people.

    Text in a CSV that a spreadsheet would run as a formula gets an apostrophe in front (`harmless_text`).
    """
    target = Path(path)
    if target.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"Cannot write {str(target)!r}: give a file name that ends in .csv or .parquet.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target, PRIVATE) as file:
        if target.suffix.lower() == ".csv":
            columns = {name: harmless_text(table.column(name)) for name in table.column_names}
            pa.csv.write_csv(pa.table(columns), file)
        else:
            pq.write_table(table, file)
    return target


def harmless_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that begins like a formula (= + - @, also after blanks or in full width) with an apostrophe in front.

    So does text that begins with an apostrophe: whoever takes one away from each such text has the original again.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    runs = pc.match_substring_regex(column, r"^(\s*[=+\-@＝＋－＠]|'|[\t\r\n])")
    return pc.if_else(
        runs, pc.binary_join_element_wise(pa.scalar("'", column.type), column, pa.scalar("", column.type)), column
    )


# --- CSV ------------------------------------------------------------------------------------------------------------


def csv_options(columns: Columns | None = None, types: dict[str, pa.DataType] | None = None) -> dict[str, Any]:
    return {
        # A long block, as types are guessed from the first one; no threads, as they read many blocks ahead.
        "read_options": pa.csv.ReadOptions(block_size=4 * 2**20, use_threads=False),
        "convert_options": pa.csv.ConvertOptions(
            strings_can_be_null=True,  # else all whose id is missing become one person called ""
            include_columns=[columns.user, *columns.values] if columns else [],
            column_types=types,
        ),
    }


def bad_csv(path: Path, error: Exception) -> InputError:
    """Arrow's message quotes the row or the cell, which is somebody's: keep only the place and the kind of trouble."""
    known = re.findall(r"CSV column #\d+|Row #\d+|Expected \d+ columns, got \d+|conversion error to \w+", str(error))
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
        return InputError(
            f"{path} is not text in UTF-8{''.join(f' ({place})' for place in known[:1])}; it may be Latin-1, Windows-1252 or "
            "UTF-16. Save it as UTF-8, for example: iconv -f latin1 -t utf-8 old.csv > new.csv"
        )
    return InputError(
        f"{path} cannot be read as CSV ({': '.join(known) or type(error).__name__}). "
        "Correct that place, or save the table as Parquet."
    )


def guess_csv_schema(path: Path) -> pa.Schema:
    """Column names, and types as the first block suggests them."""
    try:
        with pa.csv.open_csv(path, **csv_options()) as reader:
            schema = reader.schema
            schema.names  # noqa: B018 (an error here if they are not UTF-8)
            return schema
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise bad_csv(path, error) from None


def whole_numbers(ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    """Text as int64 if every one is a number exactly as Python writes it; else None.

    07 and 7, 5 and 5.0, +5 and 5, or two numbers of 20 digits are different people who would become one as numbers.
    """
    if pc.all(pc.match_substring_regex(ids, r"^(0|-?[1-9][0-9]{0,18})$")).as_py() is False:
        return None
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # beyond 2^63
        return None


def read_csv(path: Path, columns: Columns) -> pa.Table:
    try:
        table = pa.csv.read_csv(path, **csv_options(columns, {columns.user: pa.string()}))
    except (pa.ArrowException, OSError) as error:
        raise bad_csv(path, error) from None
    numbers, place = whole_numbers(table.column(columns.user)), table.schema.get_field_index(columns.user)
    return table if numbers is None else table.set_column(place, columns.user, numbers)


def csv_to_parquet(path: Path, columns: Columns, guessed: pa.Schema, target: Path) -> Path:
    """A CSV too large for memory, block by block into a scratch file."""
    matrix_dtype(guessed, columns)
    types = {name: pa.float64() for name in columns.values if guessed.field(name).type != pa.bool_()}
    # Ids that begin as whole numbers may turn into text later on; then all of them are text, from the first on.
    for id_type in (pa.int64(), pa.string()):
        if copy_csv(path, columns, {**types, columns.user: pa.string()}, id_type, target):
            break
    return target


def copy_csv(path: Path, columns: Columns, types: dict[str, pa.DataType], id_type: pa.DataType, target: Path) -> bool:
    """Write a CSV as Parquet; False as soon as an id is not of that type."""
    try:
        with pa.csv.open_csv(path, **csv_options(columns, types)) as reader:
            place = reader.schema.get_field_index(columns.user)
            schema = reader.schema.set(place, pa.field(columns.user, id_type))
            with pq.ParquetWriter(target, schema, use_dictionary=[columns.user]) as writer:
                for batch in reader:
                    if id_type == pa.int64():
                        numbers = whole_numbers(batch.column(place))
                        if numbers is None:
                            return False
                        batch = batch.set_column(place, schema.field(place), numbers)
                    writer.write_batch(batch)
    except pa.ArrowInvalid as error:
        raise bad_csv(path, error) from None
    return True
