"""How large features are: one released number that turns gradients into steps, for features of any common scale."""

from commonground.clipping.grid import lower_edge
from commonground.data.users import Users
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window, quantile_bin
from commonground.engines import sum_over_people
from commonground.gate import Gate
from commonground.statistics.directions import energy_counts


def release_feature_energy(users: Users, centred: bool, gate: Gate, mu: float) -> float:
    """The median person's mean squared feature value (about her own mean when ``centred``)."""
    sizes = sum_over_people(users, energy_counts, centred)
    counts = gate.release(sizes.bounded("feature energy"), mu)
    first = densest_window(counts.value, counts.noise_std)
    return lower_edge(quantile_bin(counts.value[first : first + LOCATING_WIDTH], first, 0.5)) ** 2
