"""Numbers that stand for a missing cell: 99, 999 or −1 among answers from 1 to 5, as forms and instruments write them.

For the operator: how many cells, never which. A schema's range would cut them to its ends, as if somebody had answered so.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

FEWEST, LARGEST_SHARE = 3, 0.5  # rows, and the share of rows, with a number that may stand for a missing cell
# What people write for a missing cell where a number is asked for: 9, 99, 999, … and two before them, below zero, too; and −1.
CODES = np.array(
    [sign * (10.0**digits - last) for digits in range(1, 10) for last in (1, 2, 3) for sign in (1, -1)] + [-1.0]
)


@dataclass(repr=False)
class Codes:
    """What was seen of one column of numbers, batch by batch. Private.

    >>> answers = Codes()
    >>> answers.add(np.array([1.0, 5.0, 99.0, 99.0, 2.0, 99.0, 3.0]))
    >>> answers.far(), answers.outside((1.0, 5.0)), answers.outside((0.0, 100.0))
    (3, 3, 0)
    >>> (answers.low, answers.high)
    (1.0, 5.0)
    """

    low: float = np.inf  # of numbers that are no codes
    high: float = -np.inf
    n_rows: int = 0
    counts: Counter[float] = field(default_factory=Counter)  # of each code

    def __repr__(self) -> str:
        return "<Codes: private>"

    @classmethod
    def of(cls, numbers: np.ndarray) -> "Codes":
        """Of a whole column."""
        codes = cls()
        codes.add(numbers)
        return codes

    def add(self, numbers: np.ndarray) -> None:
        self.n_rows += len(numbers)
        is_code = np.isin(numbers, CODES)
        self.counts.update(numbers[is_code].tolist())
        if not is_code.all():
            others = numbers[~is_code]
            self.low, self.high = min(self.low, float(others.min())), max(self.high, float(others.max()))

    def far(self) -> int:
        """Cells with a code that lies farther from all other numbers than these lie apart; 0 where they are few, or most."""
        apart = self.high - self.low
        return self._where(self.low - apart, self.high + apart) if apart > 0 else 0

    def outside(self, declared: tuple[float, float]) -> int:
        """Cells with a code outside of a range that holds all other numbers."""
        low, high = declared
        return self._where(low, high) if low <= self.low and self.high <= high else 0

    def _where(self, low: float, high: float) -> int:
        if not FEWEST <= self.counts.total() <= LARGEST_SHARE * self.n_rows:
            return 0
        return sum(count for code, count in self.counts.items() if not low <= code <= high)


def codes_in_words(of_features: Mapping[Any, int], label: str, of_label: int, ranges: bool = False) -> str:
    """One warning for all columns, of how many cells each; empty where there are none. ``ranges``: whether some are declared."""
    found = {name: count for name, count in of_features.items() if count}
    if not found and not of_label:
        return ""
    told = [f"{name!r} {count:,}" for name, count in found.items()] + [f"{label!r}, the label, {of_label:,}"] * (
        of_label > 0
    )
    where = "far from all others"
    where += " or outside of the declared range, which cuts them to its end" if ranges else ""
    empty = (
        'say so in a schema, with empty = [999] and missing = "indicator", or leave these cells empty' if found else ""
    )
    without = "leave rows without a label out" if of_label else ""
    return (
        f"numbers such as 999 or -1, {where}, which often stand for a missing cell; rows by column: {', '.join(told)}. If they "
        f"do, {'; '.join(filter(None, (empty, without)))}."
    )
