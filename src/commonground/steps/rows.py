"""From how many rows on a person counts in full: one released histogram.

A gradient that is the mean of a person's rows has the more noise of labels, the fewer there are; added up alike, those with two
rows drown those with two hundred. So hers is taken times m / ``full_rows``, at most one, before it is clipped: what a person may
move is as ever. Histograms of sizes count her by the same share, so that steps know how much gradients are worth together.
"""

import math

from commonground.clipping.grid import lower_edge
from commonground.data.population import Population
from commonground.denoise.histograms import LOCATING_WIDTH, located_quantile
from commonground.gate import Gate
from commonground.statistics.rows import RowCounts

FULL_QUANTILE = 0.9  # of people's numbers of rows; chosen on simulated students
_WIDTH = 2 * LOCATING_WIDTH  # bins (8 octaves) from where most people begin: few have very many rows
# Times the noise of these bins together: with fewer people the quantile is mostly noise, and is not released.
_SEEN = 10.0


def rows_are_seen(people: float, mu: float) -> bool:
    """Whether so many people stand out of the noise of such a release; a public number. Where they do not, none is made."""
    return people >= _SEEN * _WIDTH**0.5 * 2**0.5 / mu


def release_full_rows(users: Population, gate: Gate, mu: float) -> float:
    """Rounded down to the grid, so that people with equally many rows all count one."""
    counts = gate.release(users.sum(RowCounts()).bounded("rows of people"), mu)
    full = located_quantile(counts.value, counts.noise_std, FULL_QUANTILE, _WIDTH)
    return max(1.0, lower_edge(math.floor(full)))
