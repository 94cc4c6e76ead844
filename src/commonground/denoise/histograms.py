"""Reading noisy histograms: what sizes people's contributions have. Post-processing of releases, so free."""

import numpy as np

from commonground.clipping.grid import bin_of, lower_edge
from commonground.denoise.places import find_size

LOCATING_WIDTH = 8  # bins (4 octaves): people's sizes mostly lie this close together
_PREFER_ONE = 0.1  # standard deviations of noise that a window must gain for each bin it is further from size one
_SEEN = 4.0  # standard deviations of a window's noise, by which the best of 235 windows must stand out, or it is taken for noise


def densest_window(counts: np.ndarray, noise_std: float) -> int:
    """The first of LOCATING_WIDTH neighbouring bins that together hold the most people; bin 0 (nothing sent) left out.

    Where the noise hides everybody, the fullest window may be anywhere, and steps would explode: then it is the one at size one.

    >>> counts = np.zeros(242)
    >>> counts[[0, 40, 43]] = 99.0, 5.0, 7.0
    >>> densest_window(counts, noise_std=0.01), densest_window(0 * counts, noise_std=1.0)
    (40, 117)
    """
    first = visible_window(counts, noise_std)
    return bin_of(1.0) - LOCATING_WIDTH // 2 if first is None else first


def visible_window(counts: np.ndarray, noise_std: float) -> int | None:
    """The same; None where the noise hides everybody."""
    people = np.convolve(counts[1:], np.ones(LOCATING_WIDTH), mode="valid")
    distance = np.abs(np.arange(1, len(people) + 1) + LOCATING_WIDTH / 2 - bin_of(1.0))
    near_one = people - _PREFER_ONE * noise_std * distance
    return None if near_one.max() < _SEEN * LOCATING_WIDTH**0.5 * noise_std else 1 + int(np.argmax(near_one))


def quantile_bin(counts: np.ndarray, first: int, quantile: float) -> float:
    """Where, between bin edges, the given share of these people lies below; whole numbers are edges.

    >>> quantile_bin(np.array([10.0, 10.0, 0.0]), first=1, quantile=0.25)
    1.5
    """
    below = np.cumsum(counts)
    wanted = quantile * max(below[-1], 1.0)
    at = int(np.argmax(below >= wanted))  # the noise may make `below` fall again: the first crossing decides
    before = below[at - 1] if at else 0.0
    return first + at + float(np.clip((wanted - before) / max(below[at] - before, 1e-12), 0.0, 1.0))


def located_quantile(counts: np.ndarray, noise_std: float, quantile: float, width: int = LOCATING_WIDTH) -> float:
    """The same of the people in the densest window of a histogram over the whole grid; ``width``: in so many bins from there."""
    first = densest_window(counts, noise_std)
    return quantile_bin(counts[first : first + width], first, quantile)


def median_square(counts: np.ndarray, noise_std: float, people: float, expected: float | None = None) -> float:
    """The median of what was counted by the bins of its square root, over the whole grid; ``expected``: of these roots.

    Where no window stands out, it is that of the bell of so many ``people`` which suits the counts; one, where noise hides it.
    """
    first = visible_window(counts, noise_std)
    if first is None:
        return (find_size(counts, noise_std, people, expected) or 1.0) ** 2
    return lower_edge(quantile_bin(counts[first : first + LOCATING_WIDTH], first, 0.5)) ** 2


def effective_people(counts: np.ndarray, first: int, edge: int) -> float:
    """How many unclipped people the clipped sum is worth: Σ_b people_b · min(1, C / size_b)."""
    sizes = lower_edge(np.arange(first, first + len(counts)) + 0.5)  # type: ignore[arg-type]
    return float((np.maximum(counts, 0.0) * np.minimum(1.0, lower_edge(edge) / sizes)).sum())
