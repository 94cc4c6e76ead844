"""What the columns of a table seem to hold: for the operator, who has the rows. Private: not for publication as it is."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from commonground.data.codes import Codes
from commonground.data.columns import require_unique
from commonground.data.encoding import as_cells, cells_and_gaps, encoded_column
from commonground.data.ids import no_rows
from commonground.data.schema_column import NO, YES, Column
from commonground.data.sources import is_path
from commonground.data.tables import column_names, comes_from, first_cells
from commonground.data.written import MOST_VALUES, meant_as

MOST_ROWS = 1_000_000  # looked at
STEPS_OF_A_SCALE, ROWS_AT_AN_END = 21, 10  # different whole numbers, and rows that have the lowest or highest of them
FEW_ROWS = 50  # in fewer, whole numbers that all differ say nothing
NAMED_LIKE_AN_ID = re.compile(
    r"(^|[\s_.-])(id|idx|index|uuid|guid|key|rownum|row)$|^unnamed|^$|[a-z]I[dD]$", re.IGNORECASE
)


@dataclass(frozen=True, repr=False)
class Profile:
    """Of one column; private."""

    name: str
    kind: str  # number, yes/no, date, category; text where values hardly repeat; nothing where all cells are empty
    n_rows: int
    n_missing: int
    first_missing: int
    n_distinct: int
    whole: bool  # all whole numbers
    infinite: int  # cells
    values: tuple[str, ...]  # of a category, the most frequent first; at most 50
    meant_as: str  # text that was meant as numbers or dates, and what to do about it
    low: float  # 1% and 99% quantile of a number without codes, or the ends of a scale of a few whole numbers
    high: float
    codes: int  # cells with a number that often stands for a missing cell, far from all others

    def __repr__(self) -> str:
        return f"<Profile of {self.name!r}: private>"

    @property
    def is_index(self) -> bool:
        """Whole numbers of which no two are the same."""
        present = self.n_rows - self.n_missing
        return self.kind == "number" and self.whole and present >= FEW_ROWS and self.n_distinct == present

    @property
    def is_id(self) -> bool:
        """Whole numbers that are called an id."""
        return self.kind == "number" and self.whole and NAMED_LIKE_AN_ID.search(self.name) is not None


def profiles(source: Any) -> list[Profile]:
    """Of every column of any kind of table, by its first million rows."""
    require_unique(column_names(source), "The table's columns")
    found = [profile(name, cells) for name, cells in raw_table(source).items()]
    if not any(column.n_rows for column in found):
        raise no_rows()
    return found


def raw_table(source: Any) -> dict[str, Any]:
    """All columns, cells of a CSV as they are written."""
    names = column_names(source)
    if is_path(source):
        table = first_cells(source, names, MOST_ROWS)
        return {name: table.column(name).slice(0, MOST_ROWS) for name in names}
    if comes_from(source, "pandas", "DataFrame"):
        return {name: as_cells(source.iloc[:MOST_ROWS, place]) for place, name in enumerate(names)}
    table = source.to_arrow() if hasattr(source, "to_arrow") else source
    return {name: table.column(name).slice(0, MOST_ROWS) for name in names}


def profile(name: str, cells: Any) -> Profile:
    array, missing = cells_and_gaps(name, cells)
    there = array.filter(pa.array(~missing))
    kind, numbers = _kind(there)
    finite = numbers[np.isfinite(numbers)]
    seen = Codes.of(finite)
    codes = seen.far()
    numeric = finite[(finite >= seen.low) & (finite <= seen.high)] if codes else finite
    low, high = _most_of(numeric)
    counts = there.value_counts() if kind in ("category", "yes/no") or pa.types.is_string(there.type) else None
    values: tuple[str, ...] = ()
    if counts is not None:
        order = np.argsort(-counts.field("counts").to_numpy(), kind="stable")[:MOST_VALUES]
        values = tuple(str(value) for value in counts.field("values").take(pa.array(order)).to_pylist())
    return Profile(
        name=name, kind=kind, n_rows=len(array), n_missing=int(missing.sum()),
        first_missing=int(np.argmax(missing)) if len(missing) else 0,
        n_distinct=len(np.unique(numbers)) if kind == "number" else len(counts) if counts is not None else 0,
        whole=kind == "number" and bool((finite == np.round(finite)).all()),
        infinite=int((~np.isfinite(numbers)).sum()), values=values[:50],
        meant_as=meant_as(values) if kind in ("category", "text") else "", low=low, high=high, codes=codes,
    )  # fmt: skip


def _most_of(numbers: np.ndarray) -> tuple[float, float]:
    """Where most numbers lie; of a scale such as 1 to 10 its ends, where several rows have them, however rare they are."""
    if not len(numbers):
        return np.nan, np.nan
    values, counts = np.unique(numbers, return_counts=True)
    if len(values) <= STEPS_OF_A_SCALE and (values == np.round(values)).all() and (counts >= ROWS_AT_AN_END).any():
        usual = values[counts >= ROWS_AT_AN_END]
        return float(usual[0]), float(usual[-1])
    low, high = np.quantile(numbers, [0.01, 0.99])
    return float(low), float(high)


def _kind(there: Any) -> tuple[str, np.ndarray]:
    """The first kind that all cells are of, and the numbers where they are numbers."""
    nothing = np.empty(0)
    if not len(there):
        return "nothing", nothing
    if pa.types.is_floating(there.type):  # with infinite ones
        return "number", there.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(there.type):
        return "yes/no", nothing
    try:
        return _kind_by_reading(there)
    except (pa.ArrowException, ValueError, TypeError):  # lists, bytes, numbers too large for any type
        return "text", nothing


def _kind_by_reading(there: Any) -> tuple[str, np.ndarray]:
    nothing = np.empty(0)
    for kind in ("number", "yes/no", "date"):
        numbers, misfits = encoded_column(Column("any", kind=kind), there)
        words = kind != "yes/no" or set(map(str.lower, there.unique().cast(pa.string()).to_pylist())) & set(YES + NO)
        if not misfits and words:
            return kind, numbers[:, 0] if kind == "number" else nothing
    return "category" if len(there.unique()) <= max(20, len(there) // 10) else "text", nothing
