"""What is known of a head before its person's rows are seen: a released prior, for people with few rows.

With heads v ~ N(0, P) and labels of noise σ, the best head is the ridge solution with the matrix Λ = σ² P⁻¹. Released are, both
scale-free, the second moment of heads' directions, which is the shape of P, and a histogram of k s²/‖v‖², whose median is the
size of Λ; and a histogram of s², whose median is the noise σ².
"""

from dataclasses import replace

import numpy as np

from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.histograms import median_square
from commonground.denoise.shrinkage import shrunk_towards
from commonground.gate import Gate
from commonground.statistics.own_heads import HeadDirections, HeadNoise, LabelNoise
from commonground.statistics.statistic import SharedModel


def release_head_prior(users: Population, model: SharedModel, gate: Gate, mu: float) -> SharedModel:
    """The model with the spread P of heads and the noise σ². A third of μ² for each of the three releases."""
    k, each = model.rank, mu / 3**0.5
    ratios = gate.release(users.sum(HeadNoise(model)).bounded("noise against heads"), each)
    noises = gate.release(users.sum(LabelNoise(model)).bounded("label noise"), each)
    ratio, noise = (median_square(seen.value, seen.noise_std, users.total_weight) for seen in (ratios, noises))
    half = gate.release(users.sum(HeadDirections(model)).bounded("head directions"), each)
    moment = from_symmetric_half(half.value, k)
    people = max(float(np.trace(moment)), half.noise_std * k**0.5)
    shape = shrunk_towards(moment / people, np.eye(k) / k, half.noise_std / people)
    return replace(model, spread=noise / ratio * k * shape, noise=noise)
