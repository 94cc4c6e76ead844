"""A large table in partitions of whole people, so that many processes can read it side by side.

Nobody may be in two partitions: she would be clipped in each of them and count twice. Where every file holds the rows of each of
its people side by side, and the ids of no two files overlap, files are cut between people and read where they are. Otherwise
every row is sent to the partition of its person, a checksum of her id, and kept in a scratch folder that all processes see.

How a table is cut depends on the table alone, not on who reads it. A `Reader` is what one process does;
`commonground.engines.ray` starts many.
"""

import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commonground.data.columns import Columns, matrix_dtype, to_matrix
from commonground.data.ids import canonical_ids, find_people
from commonground.data.opening import one_value_each, users_of_opened
from commonground.data.population import Sum, Summable
from commonground.data.sources import ParquetSource, RowRange, Source
from commonground.data.stores import BATCH_BYTES, Scratch, Table
from commonground.data.tables import rows_in_order
from commonground.data.users import Users
from commonground.errors import CommongroundError, InputError

PARTITION_BYTES = 64 * 2**20  # of rows as a matrix
FEWEST_PARTITIONS = 16
SPLIT_BYTES = 128 * 2**20  # of rows that are held while they are sent to their partitions


def n_partitions(source: Source, columns: Columns) -> int:
    return max(FEWEST_PARTITIONS, -(-table_bytes(source, columns) // PARTITION_BYTES))


def table_bytes(source: Source, columns: Columns) -> int:
    return source.n_rows * len(columns.values) * matrix_dtype(source.schema, columns).itemsize


# --- partitions -----------------------------------------------------------------------------------------------------


class Partition(Protocol):
    """Where the rows of some people are; nobody else has any of their rows."""

    def open(self) -> Source: ...


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of one file."""

    file: ParquetSource
    start: int
    stop: int

    def open(self) -> Source:
        return RowRange(self.file, self.start, self.stop)

    def __str__(self) -> str:
        return f"{self.file.paths[0]}, from row {self.start} on"


@dataclass(frozen=True)
class SplitPart:
    """One record batch of each of the files that `Reader.split` wrote."""

    folder: Path
    n_files: int
    number: int

    def open(self) -> Source:
        return SplitSource([split_file(self.folder, file) for file in range(self.n_files)], self.number)

    def __str__(self) -> str:
        return f"Partition {self.number} of {self.folder}"


class SplitSource:
    """The rows of a `SplitPart`, in the order of the table."""

    def __init__(self, paths: Sequence[Path], number: int):
        self.paths, self.number = paths, number
        batches = [self._batch(path) for path in paths]
        self.schema, self.n_rows = batches[0].schema, sum(batch.num_rows for batch in batches)

    def _batch(self, path: Path) -> pa.RecordBatch:
        try:
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_file(file).get_batch(self.number)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read ({error}). Every node must see the scratch folder.") from None

    def open_bytes(self, columns: Sequence[str]) -> int:
        return 0

    def batches(self, columns: Sequence[str], rows: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
        skip = first_row
        for path in self.paths:
            batch = self._batch(path).select(list(columns))
            for start in range(min(skip, batch.num_rows), batch.num_rows, rows):
                yield batch.slice(start, rows)
            skip = max(0, skip - batch.num_rows)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    return pa.record_batch([column.combine_chunks() for column in table.columns], table.schema.names)


def split_file(folder: Path, number: int) -> Path:
    return folder / f"split-{number}.arrow"


def partition_of(ids: pa.Array, n: int) -> np.ndarray:
    """Which of n partitions each (canonical) id belongs to: the same on every machine, whatever else is in the table."""
    encoded = ids.dictionary_encode()
    people = encoded.dictionary
    if pa.types.is_large_string(people.type) or pa.types.is_large_binary(people.type):
        texts = people.cast(pa.large_binary()).to_pylist()
        checksums = np.fromiter((zlib.crc32(text) for text in texts), np.uint64, count=len(texts))
    elif pa.types.is_floating(people.type):
        checksums = people.to_numpy().view(np.uint64)
    else:
        checksums = people.to_numpy(zero_copy_only=False).astype(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # MurmurHash3's last steps: neighbouring numbers part
        checksums = (checksums ^ (checksums >> np.uint64(33))) * np.uint64(factor)
    checksums ^= checksums >> np.uint64(33)
    return (checksums % np.uint64(n)).astype(np.int64)[encoded.indices.to_numpy()]


@dataclass(frozen=True)
class FilePeople:
    """What the ids of one file say about how it can be cut."""

    grouped: bool  # each person's rows are adjacent
    lowest: Any
    highest: Any
    cuts: tuple[int, ...]  # rows at which a part may end: between two people


def lie_apart(files: Sequence[FilePeople]) -> bool:
    """Whether nobody's rows are in two files, as far as the range of ids can tell."""
    ordered = sorted(files, key=lambda file: file.lowest)
    return all(before.highest < after.lowest for before, after in pairwise(ordered))


# --- what one process does --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """What every reader has to know about a table."""

    columns: Columns
    budget: str | None  # the column with everybody's own ε
    max_memory: int  # bytes of rows that a reader may keep
    scratch: Path


@dataclass(frozen=True, repr=False)
class Opened:
    """How many people are in a partition, and what must not be published: their rows and how they are spread."""

    n_users: int
    n_rows: int
    max_rows_per_user: int
    budgets: np.ndarray | None

    @property
    def size(self) -> tuple[int, int]:
        return self.n_users, self.n_rows


class Reader:
    """One process that reads partitions, and keeps those in memory for which there is room."""

    def __init__(self) -> None:
        self._users: dict[Any, Users] = {}
        self._kept: dict[Any, int] = {}  # bytes of rows in memory

    def describe(self, file: ParquetSource, columns: Columns, part_rows: int) -> FilePeople:
        """Read the ids of one file."""
        with naming(file.paths[0]):
            people = find_people(Table(file, columns).read_ids, f"Column {columns.user!r}", None)
        goals = np.linspace(0, file.n_rows, max(1, round(file.n_rows / part_rows)) + 1)
        cuts = np.unique(people.offsets[np.searchsorted(people.offsets, goals)])
        lowest, highest = pc.min_max(people.arrow_ids).as_py().values()
        return FilePeople(people.grouped, lowest, highest, tuple(cuts.tolist()))

    def split(self, part: FilePart, reading: Reading, n: int, number: int) -> None:
        """Check some rows and write them as one record batch for each partition."""
        if not reading.scratch.is_dir():
            raise InputError(f"A worker cannot see {reading.scratch}. Pass scratch= a folder that all nodes share.")
        columns, rows = reading.columns, part.open()
        dtype, also = matrix_dtype(rows.schema, columns), [] if reading.budget is None else [reading.budget]
        names = [columns.user, *columns.values, *also]
        pieces, row = [], part.start
        with naming(part.file.paths[0]):
            for batch in rows.batches(names, max(1, BATCH_BYTES // (len(columns.values) * dtype.itemsize))):
                ids = canonical_ids(batch.column(columns.user), row, f"Column {columns.user!r}")
                values = [
                    *to_matrix(batch, columns.values, dtype, row).T,
                    *to_matrix(batch, also, np.dtype(float), row).T,
                ]
                pieces.append(pa.record_batch([ids, *values], names))
                row += batch.num_rows
        whole = pa.Table.from_batches(pieces)
        partition = partition_of(whole.column(0).combine_chunks(), n)
        order = np.argsort(partition, kind="stable")
        edges = np.searchsorted(partition[order], np.arange(n + 1))
        whole = whole.take(pa.array(order)).combine_chunks()
        target = split_file(reading.scratch, number)
        # A reader that was taken for lost may write the same part
        draft = target.with_suffix(f".{secrets.token_hex(8)}")
        with pa.OSFile(str(draft), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
            for start, stop in pairwise(edges.tolist()):
                writer.write_batch(one_batch(whole.slice(start, stop - start)))
        draft.rename(target)

    def open(self, key: Any, partition: Partition, reading: Reading) -> Opened:
        """Group a partition's rows by person and check every value."""
        with naming(partition):
            source = partition.open()
            if source.n_rows == 0:
                return Opened(0, 0, 0, None)
            table = Table(source, reading.columns)
            n_bytes = table_bytes(source, reading.columns)
            keep = sum(self._kept.values()) + n_bytes <= reading.max_memory
            users = users_of_opened(Users, table, n_bytes if keep else n_bytes - 1, Scratch(reading.scratch))
            budgets = None
            if reading.budget is not None:
                only_budget = Table(source, Columns(reading.columns.user, None, (reading.budget,)))
                budgets = one_value_each(users, *rows_in_order(only_budget), reading.budget)
        self._users[key] = users
        self._kept[key] = 0 if users.streamed else n_bytes
        return Opened(users.n_users, users.n_rows, users.max_rows_per_user, budgets)

    def sum(
        self,
        key: Any,
        partition: Partition,
        reading: Reading,
        size: tuple[int, int],
        weights: np.ndarray | None,
        statistic: Summable[Sum],
    ) -> Sum | None:
        """The sum over one partition, opened anew if another reader had it; None where nobody takes part."""
        if key not in self._users:
            self.open(key, partition, reading)
        users = self._users[key]
        if (users.n_users, users.n_rows) != size:
            raise InputError(f"{partition}: the rows are not those that were there. Make Users from the table again.")
        if weights is not None:
            if not weights.any():
                return None
            users = users.weighted(weights)
        return users.sum(statistic)

    def forget(self, keys: Sequence[Any]) -> None:
        for key in keys:
            self._users.pop(key, None)
            self._kept.pop(key, None)


@contextmanager
def naming(place: object) -> Iterator[None]:
    """Say in which file it was that something is wrong with a row."""
    try:
        yield
    except CommongroundError as error:
        if str(place) in str(error):
            raise
        raise type(error)(f"{place}: {error}") from None
