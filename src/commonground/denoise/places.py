"""Where most people's numbers lie, and how far apart, read off a noisy histogram of their places on the public grid.

The grid has bins of half an octave on both sides of zero. Bells of all middles and widths are held against the counts: the noise
is normal, of a known size, so each bell has a likelihood, and together they tell the middle, and how much of it is not known.
Post-processing of a release, so free.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from commonground.clipping.grid import N_BINS, lower_edge, signed_bins

POSITIONS = 2.0 ** ((np.arange(4) + 0.5) / 8)  # of a middle, in sizes at which its bin begins
# Of a bell, in sizes of its middle: down to such that leave it open where within a bin that is.
WIDTHS = 2.0 ** np.r_[np.arange(-10, -4), np.arange(-8, 5) / 2]
_BELOW, _ABOVE = 16, 12  # bins about that of a middle, beyond which a bell has nobody
_ROUGHLY = 0.3  # widths: what is never known of a middle, as people's numbers are no bell
_FAR_FROM_ONE = 0.1  # nats for each octave that a middle is further from size one
_SEEN = 8.0  # nats by which the best of all bells must beat no bell at all: in noise alone, one in a hundred does
_ZERO_SEEN = 2.5  # standard deviations of noise, from which on a count of zeros is taken for one
_ALL_ZERO = 0.99  # share of people at zero, beyond which there is no bell
_SURE = 0.9  # share of the likelihood that what is not known is measured by
_SURE_WIDTH = 3.29  # standard deviations, between which a bell has that share


@dataclass(frozen=True)
class Place:
    """Where people's numbers lie."""

    middle: float
    doubt: float  # standard deviation of what is not known of the middle
    spread: float  # standard deviation of people's numbers about it


def find_place(counts: np.ndarray, noise_std: float, people: float) -> Place | None:
    """The place of ``people`` numbers by noisy counts of them in 2·N_BINS − 1 bins, from −∞ to ∞; None: noise hides it.

    Some may be zero, the others are taken for a bell.

    >>> numbers = np.random.default_rng(0).normal(3.5, 0.5, size=1000)
    >>> counts = np.bincount(signed_bins(numbers), minlength=2 * N_BINS - 1)
    >>> place = find_place(counts, noise_std=50.0, people=1000.0)
    >>> abs(place.middle - 3.5) < 2 * place.doubt, 0.3 < place.spread < 0.8
    (True, True)
    >>> find_place(0 * counts, noise_std=500.0, people=1000.0) is None
    True
    """
    negative, positive = counts[N_BINS - 2 :: -1], counts[N_BINS:]
    zero = float(counts[N_BINS - 1]) / people
    zero = min(zero, 1.0) if zero * people > _ZERO_SEEN * noise_std else 0.0
    if zero > _ALL_ZERO:
        return None
    people = people * (1.0 - zero)
    sizes = lower_edge(np.arange(1, N_BINS))
    middles, spreads, likelihoods = [], [], []
    for sign, here, there in ((1.0, positive, negative), (-1.0, negative, positive)):
        for position, width, same, other in _bells():
            matched = np.correlate(np.pad(here, (_BELOW, _ABOVE - 1)), same, "valid")
            matched = matched + np.correlate(np.pad(there, (_BELOW, _ABOVE - 1)), other, "valid")
            norm = float(same @ same + other @ other)
            middles.append(sign * position * sizes)
            spreads.append(width * sizes)
            likelihoods.append((people * matched - people**2 * norm / 2) / max(noise_std, 1e-9) ** 2)
    middle, spread, likelihood = (np.concatenate(each) for each in (middles, spreads, likelihoods))
    if likelihood.max() < _SEEN:
        return None
    likelihood = likelihood - _FAR_FROM_ONE * np.abs(np.log2(np.maximum(np.abs(middle), spread)))
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    order = np.argsort(middle)
    below = np.cumsum(weights[order])
    low, high = middle[order][np.searchsorted(below, [(1 - _SURE) / 2, (1 + _SURE) / 2])]
    wide = float(np.exp(weights @ np.log(spread)))
    centre = float(weights @ np.clip(middle, low, high))
    spread_with_zeros = float(np.sqrt((1.0 - zero) * (wide**2 + zero * centre**2)))
    doubt = float(np.hypot((high - low) / _SURE_WIDTH, _ROUGHLY * spread_with_zeros))
    return Place((1.0 - zero) * centre, doubt, spread_with_zeros)


def _bells() -> list[tuple[float, float, np.ndarray, np.ndarray]]:
    """Middle and width, in sizes at which the middle's bin begins, and shares of people in bins on its side of zero and beyond."""
    edges = 2.0 ** (np.arange(-_BELOW, _ABOVE + 1) / 2)
    shapes = [(position, width * position) for position in POSITIONS for width in WIDTHS]
    shapes += [(0.0, position) for position in POSITIONS]
    return [
        (middle, width, np.diff(ndtr((edges - middle) / width)), np.diff(ndtr((edges + middle) / width)))
        for middle, width in shapes
    ]
