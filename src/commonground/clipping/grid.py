"""The public grid of sizes, by which contributions are sorted, and clipped."""

import math

import numpy as np
from numba.extending import register_jitable

N_BINS = 242  # bin 0: nothing to contribute; 1 … 241: squared norms by power of two
N_SIGNED_BINS = 2 * N_BINS - 1  # the grid on both sides of zero: ``signed_bins``
LOWEST_EXPONENT = -120  # of the squared norm
SQUARED_EDGES = 2.0 ** (LOWEST_EXPONENT + np.arange(N_BINS - 1))  # the squared norms at which bins 1 … 241 begin
_LEAST_SQUARE = float(SQUARED_EDGES[0])
SMALLEST, LARGEST = 1e-60, 1e60  # squares within these bounds can be multiplied in any order at full precision
CHUNK = 2048  # people added up together before their sum is added to the others'


@register_jitable(inline="always")  # plain Python where it is called once
def bin_of(squared_norm):  # type: ignore[no-untyped-def]
    """The bin of a squared norm, on the processor as on a device (``engines.device.size_bins``): the last edge not above it.

    Half an octave of the norm is an octave of its square: the exponent of a float, no logarithm needed. Below the first edge
    there is only bin 0: squares of very small numbers are denormal, so their sum may be a tenth of the true one, and what is
    divided by its root not of norm one but of three.
    """
    if not squared_norm >= _LEAST_SQUARE or squared_norm == math.inf:  # NaN, too, lands here
        return 0
    exponent = math.frexp(squared_norm)[1] - 1
    return min(exponent - LOWEST_EXPONENT, N_BINS - 2) + 1


def bins_of(squared_norms: np.ndarray) -> np.ndarray:
    """``bin_of`` each of them."""
    exponents = np.frexp(squared_norms)[1].astype(np.int64) - 1
    within = (squared_norms >= _LEAST_SQUARE) & (squared_norms < math.inf)
    return np.where(within, np.minimum(exponents - LOWEST_EXPONENT, N_BINS - 2) + 1, 0)


def signed_bins(numbers: np.ndarray) -> np.ndarray:
    """The bin of each on the grid to both sides of zero: from the largest below zero over zero itself to the largest above.

    >>> signed_bins(np.array([-1e99, 0.0, 1.0, np.nan])).tolist()
    [0, 241, 362, 241]
    """
    return np.asarray(N_BINS - 1 + np.where(numbers < 0.0, -1, 1) * bins_of(numbers * numbers))


def squared_norms(contributions: np.ndarray) -> np.ndarray:
    """‖g_j‖² of each of (people, …) contributions; inf or NaN where that is not a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.square(contributions).sum(axis=tuple(range(1, contributions.ndim)))


def squared_norms_of_products(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """‖a_j b_jᵀ‖² = ‖a_j‖²‖b_j‖² of (people, …) a and b; NaN where a factor is too small or too large to be precise."""
    squares = squared_norms(one), squared_norms(other)
    proper = [(s > SMALLEST) & (s < LARGEST) for s in squares]
    return np.where(
        proper[0] & proper[1], np.where(proper[0], squares[0], 1.0) * np.where(proper[1], squares[1], 1.0), np.nan
    )


def lower_edge(bin_index: float) -> float:
    """The norm at which a bin begins: every contribution in the bins before has at most this norm.

    >>> lower_edge(121), lower_edge(123)
    (1.0, 2.0)
    """
    return 2.0 ** ((bin_index - 1 + LOWEST_EXPONENT) / 2)


def nearest_edge(norm: float) -> int:
    """The bin that begins closest to a norm, of those about which there is a window of bins.

    >>> nearest_edge(1.1), nearest_edge(1.9)
    (121, 123)
    """
    return round(min(max(1.0 - LOWEST_EXPONENT + 2.0 * math.log2(max(norm, 1e-300)), 10.0), N_BINS - 10.0))


def checked_edge(edge: int, lowest: int, window: int) -> float:
    """The norm at bin ``edge``, to which sums can be clipped: one that the window of bins from ``lowest`` can tell apart.

    The last bin has no upper end, and so has a bin behind it: nothing is clipped to where the grid ends.
    """
    if not (lowest < edge < lowest + window and 1 <= edge < N_BINS):
        raise ValueError(
            f"edge {edge} is outside the window of {window} bins from {lowest} or of the grid of {N_BINS} bins"
        )
    return lower_edge(edge)


def clip_factors(squared_norms: np.ndarray, clip_norm: float) -> np.ndarray:
    """What each contribution is multiplied by so that its norm is at most ``clip_norm``; zero in bin 0: see ``bin_of``.

    >>> clip_factors(np.array([0.25, 16.0, 1e-300, np.inf, np.nan]), clip_norm=2.0).tolist()
    [1.0, 0.5, 0.0, 0.0, 0.0]
    """
    sends = bins_of(squared_norms) > 0
    return np.where(sends, np.minimum(1.0, clip_norm / np.sqrt(np.where(sends, squared_norms, 1.0))), 0.0)
