"""How large features are: one released number that turns gradients into steps, for features of any common scale."""

from commonground.data.population import Population
from commonground.denoise.histograms import median_square
from commonground.gate import Gate
from commonground.statistics.directions import FeatureEnergies


def release_feature_energy(
    users: Population, own_intercept: bool, gate: Gate, mu: float, name: str = "feature energy"
) -> float:
    """The median person's mean squared feature value (about her own mean with an ``own_intercept``)."""
    sizes = users.sum(FeatureEnergies(own_intercept))
    counts = gate.release(sizes.bounded(name), mu)
    return median_square(counts.value, counts.noise_std, users.total_weight)
