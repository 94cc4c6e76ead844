"""Tables of any kind, opened by one function: Arrow, pandas, polars, CSV or Parquet, a file, a folder or an address."""

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from commonground.data.columns import (
    Columns,
    choose_columns,
    columns_of,
    listing,
    not_numeric,
    perhaps_meant,
    require_unique,
)
from commonground.data.csv import (
    CSV_COPY,
    GZIP_RATIO,
    csv_as_text_to_parquet,
    csv_to_parquet,
    guess_csv_schema,
    is_really,
    read_csv,
    read_csv_as_text,
)
from commonground.data.encoding import UNLISTED, EncodedSource, as_cells, mostly_out_of_range, mostly_unlisted
from commonground.data.schema import Schema
from commonground.data.sources import ArrowSource, ParquetSource, PathLike, Source, is_path
from commonground.data.stores import Scratch, Table
from commonground.errors import InputError, TableWarning
from commonground.files import PRIVATE, replacing


def open_table(
    source: Any, user: str, label: str | None, features: Sequence[str] | None, max_memory: int, scratch: Scratch
) -> Table:
    """Any kind of table, its columns chosen and checked."""
    if is_path(source):
        return open_path(source, user, label, features, max_memory, scratch)
    if comes_from(source, "pandas", "DataFrame"):
        return open_pandas(source, user, label, features)
    if comes_from(source, "polars", "LazyFrame"):
        raise InputError("This polars LazyFrame has not been computed yet. Give frame.collect().")
    if comes_from(source, "polars", "DataFrame"):
        source = _of_polars(source)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if not isinstance(source, pa.Table):
        raise InputError(
            "A table must be a pandas or polars DataFrame, a pyarrow Table, or the path of a .csv, .csv.gz or .parquet "
            f"file or of a folder of .parquet files, got {type(source).__name__}."
        )
    columns = choose_columns(source.column_names, user, label, features)
    return Table(ArrowSource(source), columns, source.column(user))


def open_with_schema(
    source: Any, schema: Schema, max_memory: int, scratch: Scratch, label: bool = True
) -> tuple[Source, Any]:
    """The schema's columns of any kind of table as they are, and the ids where they are a column of their own already."""
    needed = [schema.person, *schema.features, *([schema.label] if label else [])]
    names, user = [column.name for column in needed], schema.person.name
    there = column_names(source)
    require_unique(there, "The table's columns")
    absent = [name for name in names if name not in there]
    if absent:
        raise InputError(
            f"The table has no column {listing(absent)}, which its schema names; it has {listing(there)}. "
            f"{perhaps_meant(absent, there) or 'Correct the schema, or name the column in the table so.'}"
        )
    if is_path(source):
        paths, files = table_files(source)
        path = paths[0]
        if is_parquet(path):
            return ParquetSource(paths, files), None
        if fits_in_memory(path, max_memory):
            small = read_csv_as_text(path, names, user)
            return ArrowSource(small), small.column(user)
        return ParquetSource([csv_as_text_to_parquet(path, names, user, scratch.folder / CSV_COPY)]), None
    if comes_from(source, "pandas", "DataFrame"):
        places = [there.index(name) for name in names]
        cells = [as_cells(source.iloc[:, place]) for place in places]
        return ArrowSource(pa.table(cells, names=names)), source.iloc[:, there.index(user)]
    if comes_from(source, "polars", "DataFrame"):
        source = _of_polars(source)
    table = pa.table({name: source.column(name) for name in names})
    return ArrowSource(table), table.column(user)


def encoded_table(source: Source, ids: Any, schema: Schema) -> Table:
    """A table whose columns are the features that the schema makes, and the label."""
    encoded = EncodedSource(source, schema)
    return Table(encoded, Columns(schema.person.name, schema.label.name, schema.feature_names), ids)


def read_encoded(source: Any, schema: Schema) -> tuple[Any, np.ndarray]:
    """Ids and encoded features of a table's rows, in their order, all in memory; no label is looked for."""
    raw, ids = open_with_schema(source, schema, sys.maxsize, Scratch(None), label=False)
    names = [schema.person.name, *(column.name for column in schema.features)]
    cells = pa.Table.from_batches(list(raw.batches(names, 2**16)), raw.schema if isinstance(raw, ArrowSource) else None)
    encoded = schema.encode(cells)
    if outside := mostly_out_of_range(schema, cells):
        warnings.warn(
            f"most cells of {listing(outside)} lie outside of the range that the schema declares, and are cut to its ends. Is "
            "the unit the same as in training?",
            TableWarning,
            stacklevel=2,
        )
    if unlisted := mostly_unlisted(schema, cells):
        warnings.warn(
            f"{UNLISTED.format(listing(unlisted))} Are they spelled as in training?", TableWarning, stacklevel=2
        )
    return cells.column(schema.person.name) if ids is None else ids, encoded


def column_names(source: Any) -> list[str]:
    """The names of all columns of any kind of table."""
    if is_path(source):
        paths, files = table_files(source)
        if is_parquet(paths[0]):
            return list(ParquetSource(paths, files).schema.names)
        return list(guess_csv_schema(paths[0]).names)
    if isinstance(source, pa.Table | pa.RecordBatch):
        return list(source.schema.names)
    return [str(name) for name in columns_of(source) or []]


def comes_from(value: object, library: str, class_name: str | None = None) -> bool:
    """Whether the value's class, or a parent of it, is from a library, which need not be installed."""
    return any(
        parent.__module__.partition(".")[0] == library and class_name in (None, parent.__name__)
        for parent in type(value).__mro__
    )


def open_pandas(frame: Any, user: str, label: str | None, features: Sequence[str] | None) -> Table:
    names = [str(name) for name in frame.columns]
    in_index = [
        name for name in (user, *([] if label is None else [label])) if name in set(frame.index.names) - set(names)
    ]
    if in_index:
        raise InputError(f"{listing(in_index)} is the frame's index, not a column. Give frame.reset_index().")
    columns = choose_columns(names, user, label, features)
    arrays = []
    for name in columns.values:
        series = frame.iloc[:, names.index(name)]
        try:
            arrays.append(pa.array(series, from_pandas=True))
        except (pa.ArrowException, OverflowError):
            raise not_numeric(name, f"{series.dtype} values", name == label) from None
    # The ids stay with pandas: a column of UUIDs or of mixed types has no Arrow type.
    return Table(ArrowSource(pa.table(arrays, names=columns.values)), columns, frame.iloc[:, names.index(user)])


def open_path(
    source: PathLike, user: str, label: str | None, features: Sequence[str] | None, max_memory: int, scratch: Scratch
) -> Table:
    paths, files = table_files(source)
    if is_parquet(paths[0]):
        parquet = ParquetSource(paths, files)
        return Table(parquet, choose_columns(parquet.schema.names, user, label, features))
    path = paths[0]
    guessed = guess_csv_schema(path)
    columns = choose_columns(guessed.names, user, label, features)
    if fits_in_memory(path, max_memory):
        small = read_csv(path, columns)
        return Table(ArrowSource(small), columns, small.column(user))
    return Table(ParquetSource([csv_to_parquet(path, columns, guessed, scratch.folder / CSV_COPY)]), columns)


def first_cells(source: PathLike, names: list[str], n_rows: int) -> pa.Table:
    """About so many rows of a file, or more; cells of a CSV as they are written."""
    paths, files = table_files(source)
    if not is_parquet(paths[0]):
        return read_csv_as_text(paths[0], names, names[0])
    batches = ParquetSource(paths, files).batches(names, 2**16)
    first = [batch for batch, _ in zip(batches, range(n_rows // 2**16), strict=False)]
    return pa.Table.from_batches(first) if first else pa.table({name: pa.nulls(0) for name in names})


def is_parquet(path: Path) -> bool:
    """By its name, as all formats are told apart; else it is a CSV."""
    return path.suffix.lower() == ".parquet"


def fits_in_memory(path: Path, max_memory: int) -> bool:
    """Whether a CSV, unpacked, has no more bytes than that."""
    return path.stat().st_size * (GZIP_RATIO if path.suffix.lower() == ".gz" else 1) <= max_memory


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
        raise InputError(
            f"{str(path)!r} has an unknown suffix{is_really(path)}. Give a .csv, .csv.gz or .parquet file, or a folder."
        )
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
    paths = sorted(path for path in listed if is_parquet(path) and path.name[0] not in "._")
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


def _of_polars(frame: Any) -> pa.Table:
    """As an Arrow table; polars panics on a column name with a zero character, so that is refused first."""
    broken = [name for name in frame.columns if "\0" in name]
    if broken:
        raise InputError(
            f"the name of column {broken[0]!r} holds a zero character, which no table can have. Rename it."
        )
    return frame.to_arrow()
