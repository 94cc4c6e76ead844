"""Where people's numbers lie, and how far apart, read off noisy counts of them on the public grid. Post-processing, so free.

The grid has bins of half an octave, of numbers on both sides of zero. Normal distributions of all means and widths ("bells") are
held against the counts. The noise is normal, of a known size, so each bell has a likelihood; all of them together tell the mean,
and how much of it is left open. People who are exactly at zero, as many are whose labels are 0 or 1, are counted apart.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import ndtr

from commonground.clipping.grid import N_BINS, lower_edge

_POSITIONS = 2.0 ** ((np.arange(4) + 0.5) / 8)  # means of bells, in sizes at which the bin of the mean begins
# Their widths, in means: down to such that all people are in one bin, which leaves it open where within.
_WIDTHS = 2.0 ** np.r_[np.arange(-10, -4), np.arange(-8, 5) / 2]
_BELOW, _ABOVE = 16, 12  # bins from that of the mean, beyond which a bell has nobody
_SEEN = 8.0  # nats by which the best bell must beat no bell at all: in noise alone, one of a hundred histograms has such a one
_FAR_FROM_ONE = 0.2  # nats for each octave that a bell is further from size one
_SHARE_BETWEEN, _STDS_BETWEEN = 0.9, 3.29  # so much of a normal distribution lies between ends so many stds apart
_UNSEEN = 0.25  # of a public range: the least that is not known of a mean which does not stand out
_MISFIT = 0.3  # widths: what is never known of a mean, as people's numbers are no bell
_WIDTHS_OF_SIZES = (1.0, 1.5, 2.5)  # bins: standard deviations of people's sizes on the grid
_SIZE_OF_SPREAD = 1.5  # what one number is off by, in spreads of means of a few, as far as is known before
_VAGUE = 3.0  # spreads
_DOUBT_OF_EXPECTED = 3.0  # bins, one and a half octaves: how far sizes may lie from where they are expected


@dataclass(frozen=True)
class Place:
    """Where people's numbers lie."""

    mean: float
    doubt: float  # standard deviation of what is not known of the mean
    spread: float  # standard deviation of people's numbers about it

    @property
    def expected_size(self) -> float:
        """Of what one of a person's numbers is off her mean by, if these are means of several."""
        return _SIZE_OF_SPREAD * self.spread

    @property
    def is_vague(self) -> bool:
        """Whether far less is known of the mean than how far numbers spread."""
        return self.doubt > _VAGUE * self.spread


@dataclass(frozen=True)
class NoisyCounts:
    """A released histogram: so many people in each bin, give or take the noise."""

    counts: np.ndarray
    noise_std: float

    def and_again(self, other: "NoisyCounts") -> "NoisyCounts":
        """The mean of two looks at the same numbers, the less noisy one counting for more."""
        weight = other.noise_std**2 / (self.noise_std**2 + other.noise_std**2)
        return NoisyCounts(weight * self.counts + (1.0 - weight) * other.counts, self.noise_std * weight**0.5)


def find_place(
    seen: NoisyCounts,
    people: float,
    sizes: NoisyCounts | None = None,
    within: tuple[float, float] | None = None,
) -> Place | None:
    """The place of so many ``people``, counted in ``signed_bins``; None: noise hides it.

    ``sizes``: the same people by what single numbers are off their means; means spread about as much. ``within``: where all
    numbers are, by what is public; then noise hides nothing, but leaves more open.

    >>> counts = np.zeros(2 * N_BINS - 1)
    >>> counts[[362, 363, 364]] = 100.0, 800.0, 100.0  # from 1 to 1.4, to 2, to 2.8
    >>> place = find_place(NoisyCounts(counts, noise_std=50.0), people=1000.0)
    >>> 1.4 < place.mean < 2.0, 0.1 < place.spread < 0.6
    (True, True)
    >>> find_place(NoisyCounts(0 * counts, noise_std=500.0), people=1000.0) is None
    True
    """
    counts, noise_std = seen.counts, max(seen.noise_std, 1e-9)
    at_zero = float(counts[N_BINS - 1])
    zero = min(at_zero / people, 1.0) if at_zero > (2 * _SEEN) ** 0.5 * noise_std else 0.0
    means, spreads, likelihoods = _bells_against(counts, noise_std, people * (1.0 - zero))
    likelihoods = likelihoods - _FAR_FROM_ONE * np.abs(np.log2(np.maximum(np.abs(means), spreads)))
    if sizes is not None:
        likelihoods = likelihoods + _likelihoods_by_sizes(sizes, people, spreads)
    widest = np.inf if within is None else within[1] - within[0]
    if within is not None:
        likelihoods[(means < within[0]) | (means > within[1]) | (spreads > widest / 2)] = -np.inf
    stands_out = likelihoods.max() >= _SEEN
    if not stands_out and within is None:
        nowhere = lower_edge(1)
        return Place(0.0, nowhere, nowhere) if people * (at_zero - people / 2) > _SEEN * noise_std**2 else None
    weights = np.exp(likelihoods - likelihoods.max())
    weights /= weights.sum()
    order = np.argsort(means)
    rest = (1.0 - _SHARE_BETWEEN) / 2
    low, high = means[order][np.searchsorted(np.cumsum(weights[order]), [rest, 1.0 - rest])]
    mean, spread = float(weights @ np.clip(means, low, high)), float(np.exp(weights @ np.log(spreads)))
    spread = float(np.sqrt((1.0 - zero) * (spread**2 + zero * mean**2)))  # with those at zero
    spread = max(spread, lower_edge(1))  # all of them may be
    doubt = float(np.hypot((high - low) / _STDS_BETWEEN, _MISFIT * spread))
    return Place((1.0 - zero) * mean, doubt if stands_out else float(np.hypot(doubt, _UNSEEN * widest)), spread)


def find_size(counts: np.ndarray, noise_std: float, people: float, expected: float | None = None) -> float | None:
    """The middle of so many ``people``'s sizes, by noisy ``counts`` of them in the bins of sizes; None: noise hides it.

    ``expected``: the size that is expected by what is known already; then noise hides nothing, but tells less. Else all are
    possible, those far from one less so.

    >>> counts = np.zeros(N_BINS)
    >>> counts[[139, 140, 141, 142]] = 100.0, 400.0, 400.0, 100.0  # about 2¹⁰
    >>> 900 < find_size(counts, noise_std=50.0, people=1000.0) < 1200
    True
    >>> find_size(0 * counts, noise_std=50.0, people=1000.0) is None, find_size(0 * counts, 1e4, 1000.0, expected=8.0)
    (True, 8.0)
    """
    middles, likelihoods = _sizes_against(counts, noise_std, people)
    if expected is None:
        if likelihoods.max() < _SEEN:
            return None
        likelihoods = likelihoods - _FAR_FROM_ONE * np.abs(middles - _middle_bin(1.0)) / 2
    else:
        likelihoods = likelihoods - ((middles - _middle_bin(expected)) / _DOUBT_OF_EXPECTED) ** 2 / 2
    below = np.cumsum(np.exp(likelihoods - likelihoods.max()))
    return float(lower_edge(middles[np.searchsorted(below, below[-1] / 2)]))


def _sizes_against(counts: np.ndarray, noise_std: float, people: float) -> tuple[np.ndarray, np.ndarray]:
    """Middles on the grid, in order, and how much more likely bells of so many people there make the counts than no bell does."""
    noise_std = max(noise_std, 1e-9)
    without = float(counts[0]) if counts[0] > (2 * _SEEN) ** 0.5 * noise_std else 0.0
    people = max(people - without, 0.0)
    middles, shares = _bells_of_sizes()
    norms = (shares * shares).sum(axis=2)
    likelihoods = (people * (shares @ counts[1:]) - people**2 * norms / 2) / noise_std**2
    return middles, np.logaddexp.reduce(likelihoods, axis=0) - np.log(len(likelihoods))


def _likelihoods_by_sizes(sizes: NoisyCounts, people: float, spreads: np.ndarray) -> np.ndarray:
    """How much more likely each of these spreads of means makes the noisy counts of sizes."""
    middles, likelihoods = _sizes_against(sizes.counts, sizes.noise_std, people)
    off = (middles - middles[:, None]) / _DOUBT_OF_EXPECTED
    of_expected = np.logaddexp.reduce(likelihoods - off**2 / 2, axis=1) - np.logaddexp.reduce(-(off**2) / 2, axis=1)
    expected = np.log2(_SIZE_OF_SPREAD * spreads / lower_edge(0)) * 2
    return np.asarray(np.interp(expected, middles, of_expected))


def _middle_bin(size: float) -> float:
    return float(np.log2(size / lower_edge(0)) * 2)


@cache
def _bells_of_sizes() -> tuple[np.ndarray, np.ndarray]:
    """Middles on the grid, between whole bins, too; shares of people by width, middle and bin, from the first that has any."""
    middles, edges = np.arange(2.0, N_BINS - 1, 0.5), np.arange(1.0, N_BINS + 1)
    shares = [np.diff(ndtr((edges - middles[:, None]) / width), axis=1) for width in _WIDTHS_OF_SIZES]
    return middles, np.stack(shares)


def _bells_against(counts: np.ndarray, noise_std: float, people: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and widths of all bells of so many people, and how much more likely each makes the counts than no bell does."""
    below, above = counts[N_BINS - 2 :: -1], counts[N_BINS:]
    sizes = lower_edge(np.arange(1, N_BINS))  # type: ignore[arg-type]
    padding = _BELOW, _ABOVE - 1
    found = []
    for sign, here, beyond in ((1.0, np.pad(above, padding), np.pad(below, padding)),
                               (-1.0, np.pad(below, padding), np.pad(above, padding))):  # fmt: skip
        for mean, spread, shares_here, shares_beyond in _bells():
            matched = np.correlate(here, shares_here) + np.correlate(beyond, shares_beyond)
            norm = float(shares_here @ shares_here + shares_beyond @ shares_beyond)
            likelihood = (people * matched - people**2 * norm / 2) / noise_std**2
            found.append((sign * mean * sizes, spread * sizes, likelihood))
    means, spreads, likelihoods = (np.concatenate(each) for each in zip(*found, strict=True))
    return means, spreads, likelihoods


@cache
def _bells() -> list[tuple[float, float, np.ndarray, np.ndarray]]:
    """Mean and width, in sizes at which the bin of the mean begins; shares of people by bin on its side of zero and beyond."""
    edges = 2.0 ** (np.arange(-_BELOW, _ABOVE + 1) / 2)
    shapes = [(mean, width * mean) for mean in _POSITIONS for width in _WIDTHS] + [(0.0, width) for width in _POSITIONS]
    return [
        (mean, width, np.diff(ndtr((edges - mean) / width)), np.diff(ndtr((edges + mean) / width)))
        for mean, width in shapes
    ]
