"""Where grouped rows are kept: in memory, in the file that they came in, or in a scratch file.

`load_rows` checks every value and moves each row to its place: its row number once people are grouped, which
`commonground.data.ids.row_places` works out. Rows go

- into memory, when the matrix fits;
- nowhere, when a Parquet file is grouped by person already: it is read as it is, page by page;
- else into a scratch file, by an external permutation that holds one part of the rows at a time.
"""

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.fs

from commonground.data.columns import Columns, matrix_dtype, to_matrix
from commonground.data.csv import CSV_COPY
from commonground.data.sources import ArrowSource, PathLike, Source
from commonground.errors import InputError

COLUMNS_AT_ONCE = 16  # so a table is checked and moved one group of columns after the other,
STREAMED_BYTES = 28 * 2**20  # and is read in blocks, all columns at once, only if they hold no more than this
BATCH_BYTES = 2**20  # a batch is turned from columns into rows while it is in the cache
MAX_PARTS = 512  # scratch files in a permutation


def scatter(X: np.ndarray, y: np.ndarray, places: np.ndarray, first_column: int, matrix: np.ndarray) -> None:
    """Put some columns of some rows where they belong; the column after the features is the label."""
    n_features, end = X.shape[1], first_column + matrix.shape[1]
    if end <= n_features:
        X[places, first_column:end] = matrix
    else:
        X[places, first_column:n_features] = matrix[:, :-1]
        y[places] = matrix[:, -1]


# --- where grouped rows are kept ------------------------------------------------------------------------------------


class Rows:
    """Rows grouped by person."""

    dtype: np.dtype
    n_features: int
    is_sparse: ClassVar[bool] = False
    streamed: ClassVar[bool] = False  # read from disk, block by block

    @property
    def row_bytes(self) -> int:
        return (self.n_features + 1) * self.dtype.itemsize

    def read(self, cuts: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """X and y of rows cuts[0]:cuts[1], then of cuts[1]:cuts[2], and so on."""
        raise NotImplementedError

    def scaled(self, scales: np.ndarray) -> "Rows":
        """The same rows, each feature times a public number; of sparse rows only."""
        raise NotImplementedError


class MemoryRows(Rows):
    """Rows in memory; reading copies nothing."""

    def __init__(self, X: np.ndarray, y: np.ndarray):
        self.X, self.y, self.dtype, self.n_features = X, y, X.dtype, X.shape[1]

    def read(self, cuts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start, stop in pairwise(cuts):
            yield self.X[start:stop], self.y[start:stop]


class FileRows(Rows):
    """Rows in files that are grouped by person as they are."""

    streamed = True

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


class ScratchRows(Rows):
    """Rows in two scratch files of plain numbers, one for X and one for y."""

    streamed = True

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
    if fits_in_memory(table, max_memory):
        return place_in_memory(table, places)
    if places is None and table.source.open_bytes(table.columns.values) <= STREAMED_BYTES:
        for _ in table.matrices():
            pass  # every value is checked before the first block is used
        return FileRows(table.source, table.columns, table.dtype, scratch)
    return place_on_disk(table, places, max_memory, scratch)


def fits_in_memory(table: Table, max_memory: int) -> bool:
    """Whether its rows are in memory already, or may be as a matrix."""
    row_bytes = len(table.columns.values) * table.dtype.itemsize
    return isinstance(table.source, ArrowSource) or table.source.n_rows * row_bytes <= max_memory


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
