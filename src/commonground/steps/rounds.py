"""What every iterative learner here shares: a clip that follows the data, and a step that knows its noise.

**The clip follows the residual.** People's gradients shrink as the shared part improves, so each round first releases a
histogram of their sizes and clips at a low quantile of it: the noise shrinks along with the gradients.

**The step knows its noise.** The gate tells the standard deviation it added, so how much of a released gradient is
signal can be read off its length, by Stein's formula: step · max(0, 1 − p σ²/‖G‖²). Early rounds take full steps, rounds at
the noise floor hardly move. It uses released values only, and costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import N_BINS
from commonground.clipping.sums import BinnedSums
from commonground.denoise.histograms import effective_people, located_quantile, quantile_bin
from commonground.denoise.shrinkage import signal_share
from commonground.gate import Gate
from commonground.statistics.statistic import WINDOW

CLIP_QUANTILE = 0.3  # of the people; see docs/private_fedrep.md for the experiment
# Where it follows each round's noise: in the first round, and after one without noise
FIRST_QUANTILE, HIGH_QUANTILE = (0.6, 0.85)
WORTH_AT_EXPECTED = 0.8  # of a person, on average, where clipped at the size that contributions are expected to have
EXPECTED_SHRINKAGE = 1  # bins (half an octave) by which sizes are expected to fall from one round to the next


@dataclass(frozen=True)
class ClippedGradient:
    """A released sum of clipped contributions."""

    value: np.ndarray
    noise_std: float
    people: float  # how many unclipped people it is worth
    edge: int  # the bin at whose lower edge contributions were clipped

    def next_quantile(self, lowest: float = CLIP_QUANTILE) -> float:
        """Of people's sizes, where the next round may clip: the higher, the less of this one was noise; at least ``lowest``.

        A low clip lets little noise in, but bends what skewed or unlike people say together.
        """
        signal = signal_share(self.value, self.noise_std, self.value.size)
        return lowest + (HIGH_QUANTILE - lowest) * signal**2

    def next_clip(self, lowest_quantile: float = CLIP_QUANTILE) -> "Clip":
        """For the round after this one."""
        return Clip(self.edge, self.next_quantile(lowest_quantile))


@dataclass(frozen=True)
class Clip:
    """Where the next of a series of rounds clips people's contributions: what the releases of the last one tell of it."""

    edge: int  # the bin at whose lower edge the last round clipped
    quantile: float = FIRST_QUANTILE  # of people's sizes

    def release(
        self, sums_from: Callable[[int], BinnedSums], gate: Gate, mu_size: float, mu_sum: float, name: str
    ) -> ClippedGradient:
        """One round, whose ``next_clip`` is that of the one after it."""
        return release_clipped(sums_from, self.edge, gate, mu_size, mu_sum, name, self.quantile)


def locate_sizes(sums_from: Callable[[int], BinnedSums], gate: Gate, mu: float, name: str) -> int:
    """Before the first round: where on the whole public grid people's contributions lie. Reads the rows once."""
    sizes = gate.release(sums_from(1).whole_histogram(f"{name}: where sizes lie"), mu)
    return round(located_quantile(sizes.value, sizes.noise_std, CLIP_QUANTILE)) + EXPECTED_SHRINKAGE


def release_clipped(
    sums_from: Callable[[int], BinnedSums],
    last_edge: int,
    gate: Gate,
    mu_size: float,
    mu_sum: float,
    name: str,
    quantile: float = CLIP_QUANTILE,
    above: float = 1.0,
) -> ClippedGradient:
    """One round: sizes through the gate, a clip chosen from them, the clipped sum through the gate.

    ``sums_from(lowest)`` reads the rows once and keeps sums for the window of bins that starts at ``lowest``; where the
    window must be is guessed from the last round's clip. The clip is ``above`` times the quantile of sizes.
    ``mu_size=0``: people are too few for a histogram, and ``last_edge`` is where their sizes are expected.
    """
    first = int(np.clip(last_edge - EXPECTED_SHRINKAGE - WINDOW // 2, 1, N_BINS - WINDOW))
    sums = sums_from(first)
    sizes, edge = None, last_edge
    if mu_size:
        sizes = gate.release(sums.histogram(f"{name}: sizes"), mu_size).value
        edge = round(quantile_bin(sizes, first, quantile) + np.log2(above**2))
    edge = int(np.clip(edge, first + 1, first + WINDOW - 1))
    gradient = gate.release(sums.clipped_at(edge, f"{name}: clipped sum"), mu_sum)
    share = WORTH_AT_EXPECTED if sizes is None else effective_people(sizes, first, edge) / sums.total_weight
    # The noise may hide people, but never take fewer than a tenth of them for real: steps would explode.
    people = max(share, 0.1) * sums.total_weight
    return ClippedGradient(gradient.value, gradient.noise_std, people, edge)
