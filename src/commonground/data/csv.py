"""CSV files: what their columns hold, and a Parquet copy of those that do not fit into memory."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

from commonground.data.columns import SEPARATE, Columns, matrix_dtype
from commonground.errors import InputError

GZIP_RATIO = 8  # a guess at how much a compressed CSV grows


# --- opening --------------------------------------------------------------------------------------------------------

CSV_COPY = "table.parquet"
FIRST_BYTES = {
    b"PK\x03\x04": "a zip archive, such as an Excel workbook: save the sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save the sheet as CSV (UTF-8)",
    b"\x1f\x8b": "compressed by gzip: name it .csv.gz",
    b"PAR1": "Parquet: name it .parquet",
    b"\xff\xfe": "text in UTF-16: save it as UTF-8, for example: iconv -f utf-16 -t utf-8 old.csv > new.csv",
    b"\xfe\xff": "text in UTF-16: save it as UTF-8, for example: iconv -f utf-16 -t utf-8 old.csv > new.csv",
}


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


def is_really(path: Path) -> str:
    """What a file is by its first bytes, where they say so, whatever its name; and what to do about it."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
    except OSError:
        return ""
    kind = next((words for begins, words in FIRST_BYTES.items() if first.startswith(begins)), None)
    return "" if kind is None else f"; by its first bytes it is {kind}"


def bad_csv(path: Path, error: Exception) -> InputError:
    """Arrow's message quotes the row or the cell, which is somebody's: keep only the place and the kind of trouble."""
    if (kind := is_really(path)) and not path.name.lower().endswith(".gz"):
        return InputError(f"{path} cannot be read as CSV{kind}.")
    known = re.findall(r"CSV column #\d+|Row #\d+|Expected \d+ columns, got \d+|conversion error to \w+", str(error))
    if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in str(error):
        return InputError(
            f"{path} is not text in UTF-8{''.join(f' ({place})' for place in known[:1])}; it may be Latin-1, Windows-1252 or "
            "UTF-16. Save it as UTF-8, for example: iconv -f latin1 -t utf-8 old.csv > new.csv"
        )
    if "Expected 1 columns" in str(error):  # the names are one column, the numbers below, with decimal commas, several
        return InputError(
            f"{path} has one column by its first line and more below. Are cells separated by semicolons, and decimals by commas? "
            f"Then {SEPARATE} If the first line is a title or a comment, take it away: the names of the columns come first."
        )
    return InputError(
        f"{path} cannot be read as CSV ({': '.join(known) or type(error).__name__}). "
        "Correct that place, or save the table as Parquet."
    )


def guess_csv_schema(path: Path) -> pa.Schema:
    """Column names, and types as the first block suggests them."""
    try:
        if "UTF-16" in is_really(path):  # of which names and cells may be read all the same, as other ones
            raise pa.ArrowInvalid
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
    return _ids_as_numbers(table, columns.user)


def read_csv_as_text(path: Path, names: Sequence[str], user: str) -> pa.Table:
    """Some columns, every cell as it is written; ids by the rule of ``whole_numbers``."""
    try:
        table = pa.csv.read_csv(path, **csv_options(_only(names, user), dict.fromkeys(names, pa.string())))
    except (pa.ArrowException, OSError) as error:
        raise bad_csv(path, error) from None
    return _ids_as_numbers(table, user)


def _ids_as_numbers(table: pa.Table, user: str) -> pa.Table:
    numbers, place = whole_numbers(table.column(user)), table.schema.get_field_index(user)
    return table if numbers is None else table.set_column(place, user, numbers)


def csv_as_text_to_parquet(path: Path, names: Sequence[str], user: str, target: Path) -> Path:
    """The same for a CSV too large for memory, block by block into a scratch file."""
    return _as_parquet(path, _only(names, user), dict.fromkeys(names, pa.string()), target)


def _only(names: Sequence[str], user: str) -> Columns:
    return Columns(user, None, tuple(name for name in names if name != user))


def csv_to_parquet(path: Path, columns: Columns, guessed: pa.Schema, target: Path) -> Path:
    """A CSV too large for memory, block by block into a scratch file."""
    matrix_dtype(guessed, columns)
    types = {name: pa.float64() for name in columns.values if guessed.field(name).type != pa.bool_()}
    return _as_parquet(path, columns, {**types, columns.user: pa.string()}, target)


def _as_parquet(path: Path, columns: Columns, types: dict[str, pa.DataType], target: Path) -> Path:
    """Ids that begin as whole numbers may turn into text later on; then all of them are text, from the first on."""
    for id_type in (pa.int64(), pa.string()):
        if copy_csv(path, columns, types, id_type, target):
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
