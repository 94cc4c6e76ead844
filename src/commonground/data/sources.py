"""Where rows are read from, batch by batch: an Arrow table in memory, or Parquet files."""

import os
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Protocol, TypeGuard

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from commonground.errors import InputError

COLUMN_BYTES = 5 * 2**19  # an open Parquet column holds pages and a dictionary of 1 MiB each, however small the batches
PAGE_BUFFER = 2**16  # bytes read ahead per column; without it Arrow reads a column's whole row group at once

PathLike = str | os.PathLike[str]


def is_path(source: object) -> TypeGuard[PathLike]:
    """Whether a table is given by where it is."""
    return isinstance(source, str | os.PathLike)


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
