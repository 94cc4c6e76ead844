"""The exact privacy curve of Gaussian releases.

A release of a value with L2 sensitivity Δ under N(0, σ²) noise is μ-Gaussian-DP with μ = Δ/σ; releases compose exactly
as μ² = Σ μᵢ², and (ε, δ) follows from the one curve

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

Both inversions end on the private side: the ε returned is never below the true one, the μ returned never above. The
margins are far larger than the rounding of the curve itself, and far too small to matter.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri

from commonground.errors import InputError

_EPSILON_MARGIN = 1e-12
_MU_MARGIN = 1e-10
_ROOM = 1 - 1e-7  # once for μ and once for ε
_KEPT = 4096  # answers that are remembered: one fit asks for the same few again and again


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest δ for which a μ-Gaussian-DP release is (ε, δ)-DP.

    Parameters
    ----------
    mu : float
        Sensitivity over the noise's standard deviation.
    epsilon : float

    Returns
    -------
    float

    Examples
    --------
    >>> gaussian_delta(0.0, 1.0)
    0.0
    >>> round(gaussian_delta(math.sqrt(10) / 5, 2.9216) * 1e6, 3)
    1.0
    """
    if mu == 0.0:
        return 0.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = float(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(upper) * -math.expm1(lower - upper) if lower < upper else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest ε, rounded up, for which a μ-Gaussian-DP release is (ε, δ)-DP.

    Parameters
    ----------
    mu : float
        Sensitivity over the noise's standard deviation.
    delta : float

    Returns
    -------
    float

    Examples
    --------
    >>> gaussian_epsilon(0.0, 1e-6), gaussian_epsilon(math.inf, 1e-6)
    (0.0, inf)
    """
    return _smallest_epsilon(float(mu), float(delta))


@lru_cache(_KEPT)
def _smallest_epsilon(mu: float, delta: float) -> float:
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while math.isfinite(high) and gaussian_delta(mu, high) > delta:
        high *= 2
    if not math.isfinite(high):
        return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high * (1 + _EPSILON_MARGIN)


def epsilon_within(mu: float, delta: float) -> float:
    """An ε, rounded down, whose budget at δ has no more than μ: ``gaussian_mu`` gives at most μ back.

    Parameters
    ----------
    mu : float
        What there is.
    delta : float

    Returns
    -------
    float

    Examples
    --------
    >>> 0.4999 < gaussian_mu(epsilon_within(0.5, 1e-6), 1e-6) < 0.5
    True
    """
    return gaussian_epsilon(mu * _ROOM, delta) * _ROOM


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ, rounded down, whose releases stay within (ε, δ).

    Parameters
    ----------
    epsilon : float
        Finite.
    delta : float
        Below 1.

    Returns
    -------
    float

    Examples
    --------
    >>> mu = gaussian_mu(1.0, 1e-6)
    >>> gaussian_epsilon(mu, 1e-6) <= 1.0 < gaussian_epsilon(mu * 1.0001, 1e-6)
    True
    """
    if not (math.isfinite(epsilon) and delta < 1):
        raise InputError(
            f"there is no largest cost for ε = {epsilon!r}, δ = {delta!r}: give a finite ε and a δ below 1."
        )
    return _largest_mu(float(epsilon), float(delta))


@lru_cache(_KEPT)
def _largest_mu(epsilon: float, delta: float) -> float:
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low * (1 - _MU_MARGIN)


def gaussian_mus(epsilons: np.ndarray, delta: float) -> np.ndarray:
    """``gaussian_mu`` for many ε at once, 0 for ε = 0.

    Parameters
    ----------
    epsilons : array of shape (n,)
        Finite.
    delta : float
        Below 1.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> gaussian_mus(np.array([0.0, 1.0]), 1e-6) == [0.0, gaussian_mu(1.0, 1e-6)]
    array([ True,  True])
    """
    if not (np.isfinite(epsilons).all() and delta < 1):
        raise InputError(
            f"there is no largest cost for an infinite ε, or δ = {delta!r}: give finite ε and a δ below 1."
        )
    low = np.zeros(len(epsilons))
    high = np.where(epsilons > 0, 1.0, 0.0)
    while (growing := (_deltas(high, epsilons) <= delta) & (epsilons > 0)).any():
        high = np.where(growing, 2 * high, high)
    for _ in range(200):
        middle = (low + high) / 2
        private = _deltas(middle, epsilons) <= delta
        low, high = np.where(private, middle, low), np.where(private, high, middle)
    return low * (1 - _MU_MARGIN)


def gaussian_epsilons(mus: np.ndarray, delta: float) -> np.ndarray:
    """``gaussian_epsilon`` for many μ at once.

    Parameters
    ----------
    mus : array of shape (n,)
        Finite.
    delta : float
        Above 0.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> gaussian_epsilons(np.array([0.0, 0.5]), 1e-6) == [0.0, gaussian_epsilon(0.5, 1e-6)]
    array([ True,  True])
    """
    low, high = np.zeros(len(mus)), np.ones(len(mus))
    while (growing := _deltas(mus, high) > delta).any():
        high = np.where(growing, 2 * high, high)
    for _ in range(100):
        middle = (low + high) / 2
        above = _deltas(mus, middle) > delta
        if (middle == np.where(above, low, high)).all():  # neighbours in floating point: nothing moves any more
            break
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(_deltas(mus, np.zeros(len(mus))) > delta, high * (1 + _EPSILON_MARGIN), 0.0)


def _deltas(mus: np.ndarray, epsilons: np.ndarray) -> np.ndarray:
    """``gaussian_delta`` elementwise."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = log_ndtr(mus / 2 - epsilons / mus)
        lower = epsilons + log_ndtr(-mus / 2 - epsilons / mus)
        return np.where((mus > 0) & (lower < upper), -np.exp(upper) * np.expm1(lower - upper), 0.0)


def compose(mus: Iterable[float]) -> float:
    """Releases on the same people together: μ² adds; rounded up.

    Parameters
    ----------
    mus : iterable of float
        μ of each release.

    Returns
    -------
    float

    Examples
    --------
    >>> compose([]), 5.0 <= compose([3.0, 4.0]) < 5.000001
    (0.0, True)
    """
    total = math.sqrt(math.fsum(mu * mu for mu in mus))
    return math.nextafter(total, math.inf) if total else 0.0


def gaussian_dominating(epsilon: float) -> float:
    """The smallest μ, rounded up, for which every mechanism that is ε-private with δ = 0 is μ-Gaussian-DP.

    The trade-off curve of ε is two straight lines from (0, 1) and (1, 0) to (a, a), a = 1/(1 + e^ε). The Gaussian curve is
    convex, symmetric and starts at the same ends, so it lies below both lines once it meets the diagonal at or before a:
    Φ(−μ/2) ≤ a.

    Parameters
    ----------
    epsilon : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(gaussian_dominating(1.0), 4)
    1.232
    """
    return float(-2 * ndtri(1 / (1 + math.exp(epsilon)))) * (1 + _MU_MARGIN) if epsilon < 700 else math.inf
