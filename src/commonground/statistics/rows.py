"""How many rows people have: a mean of many says more than a mean of few, and may count for more."""

from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import bins_of
from commonground.clipping.sums import SizeCounts
from commonground.data.population import Block
from commonground.statistics.statistic import Statistic

_UNITS = 2.0**20  # whole multiples of one unit add up without rounding, as people's weights do


@dataclass(frozen=True, eq=False)
class RowCounts(Statistic[SizeCounts]):
    """How many people have how many rows, on the public grid of sizes."""

    gives = SizeCounts
    takes_no_directions = True

    def of(self, block: Block) -> SizeCounts:
        bins = bins_of(np.diff(block.offsets).astype(np.float64) ** 2)
        return SizeCounts.of(bins, block.person_weights)


def shares_by_rows(block: Block, full_rows: float) -> np.ndarray:
    """(people,) how much of a person counts: her rows / ``full_rows``, at most one."""
    return np.minimum(np.diff(block.offsets) / max(full_rows, 1.0), 1.0)


def credits_by_rows(block: Block, full_rows: float) -> np.ndarray:
    """(people,) the same times people's weights, rounded down so that credits add up exactly: never more than her weight."""
    return np.floor(block.person_weights * shares_by_rows(block, full_rows) * _UNITS) / _UNITS
