"""Intervals that known noise leaves: for a mean whose count is noisy, too, and for the area under a curve of noisy cells."""

import math
from statistics import NormalDist

import numpy as np


def quantile_of(confidence: float) -> float:
    """How many standard deviations to either side hold this share of a normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def interval_of_ratio(
    above: float, below: float, std_above: float, std_below: float, confidence: float, most: float
) -> tuple[float, float]:
    """The ratios between −most and most that two numbers with known independent noise allow (Fieller's interval).

    All r for which above − r·below is no further from zero than its own noise would bring it. Where the lower number may be
    zero, every ratio is possible.

    >>> low, high = interval_of_ratio(50.0, 100.0, 1.0, 0.0, 0.95, most=1.0)
    >>> round(low, 3), round(high, 3)
    (0.48, 0.52)
    >>> interval_of_ratio(1.0, 2.0, 9.0, 9.0, 0.95, most=0.5)
    (-0.5, 0.5)
    """
    z = quantile_of(confidence)
    square = below**2 - (z * std_below) ** 2
    if not (square > 0.0 and below > 0.0):
        return -most, most
    # square·r² − 2·above·below·r + above² − (z·std_above)² ≤ 0
    middle = above * below / square
    reach = math.sqrt(max(middle**2 - (above**2 - (z * std_above) ** 2) / square, 0.0))
    return max(middle - reach, -most), min(middle + reach, most)


def area_with_interval(
    yes: np.ndarray, no: np.ndarray, noise_std: float, confidence: float
) -> tuple[float, float, float]:
    """The area under the ROC curve of noisy masses in rising cells, and the ends of its interval.

    A = Σ M_ab yes_a no_b / Σ yes_a no_b with M = 1 where a > b and ½ where a = b. Both sums of products are unbiased, as the
    noise of ``yes`` and ``no`` is independent. At the true A, their difference Σ (M − A)_ab yes_a no_b has mean zero and the
    variance that is estimated below, a little too large; every A for which it is not too far from zero belongs to the interval.

    >>> yes, no = np.array([1.0, 2.0, 6.0]) * 1e4, np.array([5.0, 3.0, 1.0]) * 1e4
    >>> [round(end, 3) for end in area_with_interval(yes, no, 10.0, 0.95)]
    [0.821, 0.821, 0.822]
    """
    cells, z = len(yes), quantile_of(confidence)
    wins = np.tril(np.ones((cells, cells)), -1) + 0.5 * np.eye(cells)
    trials = np.linspace(0.0, 1.0, 2001)
    difference = yes @ wins @ no - trials * (yes.sum() * no.sum())
    variance = np.empty(len(trials))
    for at, area in enumerate(trials):
        left = wins - area
        variance[at] = np.square(left @ no).sum() + np.square(yes @ left).sum()
    possible = np.abs(difference) <= z * noise_std * np.sqrt(variance)
    if not (yes.sum() > 0.0 and no.sum() > 0.0):
        return 0.5, 0.0, 1.0
    found = float(np.clip(yes @ wins @ no / (yes.sum() * no.sum()), 0.0, 1.0))
    inside = trials[possible]
    step = float(trials[1])
    low = max(min(found, float(inside.min(initial=1.0)) - step), 0.0)
    high = min(max(found, float(inside.max(initial=0.0)) + step), 1.0)
    return found, low, high
