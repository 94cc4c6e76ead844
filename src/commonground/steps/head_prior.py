"""What is known of a head before its person's rows are seen: a released prior, for people with few rows.

With heads v ~ N(0, P) and labels of noise σ, the best head is the ridge solution with the matrix Λ = σ² P⁻¹. Released are, both
scale-free, the second moment of heads' directions, which is the shape of P, and a histogram of k s²/‖v‖², whose median is the
size of Λ.
"""

import numpy as np

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window, quantile_bin
from commonground.denoise.shrinkage import shrunk_towards
from commonground.gate import Gate
from commonground.statistics.own_heads import HeadDirections, HeadNoise
from commonground.statistics.statistic import SharedModel


def release_head_prior(users: Population, model: SharedModel, gate: Gate, mu: float) -> np.ndarray:
    """Λ, (k, k): the ridge matrix of somebody who has told nothing yet. Half of μ² for each of the two releases."""
    k = model.rank
    counts = gate.release(users.sum(HeadNoise(model)).bounded("head noise"), mu / 2**0.5)
    first = densest_window(counts.value, counts.noise_std)
    noise = lower_edge(quantile_bin(counts.value[first : first + LOCATING_WIDTH], first, 0.5)) ** 2
    half = gate.release(users.sum(HeadDirections(model)).bounded("head directions"), mu / 2**0.5)
    moment = from_symmetric_half(half.value, k)
    people = max(float(np.trace(moment)), half.noise_std * k**0.5)
    shape = shrunk_towards(moment / people, np.eye(k) / k, half.noise_std / people)
    return np.asarray(noise * np.linalg.inv(k * shape))
