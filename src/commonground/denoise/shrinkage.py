"""How much of a release is signal: Stein's formula with the noise that the gate states."""

import math

import numpy as np

_SURE = 4.0  # standard deviations: noise alone passes for signal in one of 30,000 releases
_SMALLEST = 0.01  # eigenvalue, of the mean one
_OF_NOISE = 0.5  # of the noise's spectral norm, up to which eigenvalues are raised


def signal_share(gradient: np.ndarray, noise_std: float, dimension: int) -> float:
    """The share of a released gradient that is signal rather than noise (positive-part James-Stein).

    >>> signal_share(np.array([3.0, 4.0]), noise_std=0.0, dimension=2)
    1.0
    >>> signal_share(np.array([3.0, 4.0]), noise_std=5.0, dimension=2), signal_share(np.zeros(2), noise_std=0.0, dimension=2)
    (0.0, 0.0)
    """
    energy = float((gradient**2).sum())
    return max(0.0, 1.0 - dimension * noise_std**2 / energy) if energy > 0.0 else 0.0


def sure_share(values: np.ndarray, noise_std: float, dimension: int) -> float:
    """The same where there is more than chance would often add, else nothing: where all is noise, some of it would be kept.

    >>> sure_share(np.array([3.0, 4.0]), noise_std=1.0, dimension=2), sure_share(np.array([3.0, 4.0]), 3.0, 2)
    (0.92, 0.0)
    """
    chance = (dimension + 2 * (2 * dimension) ** 0.5) * noise_std**2
    return signal_share(values, noise_std, dimension) if float((values**2).sum()) > chance else 0.0


def beyond_noise(values: np.ndarray, p: float, noise_std: float) -> bool:
    """Whether there is more than noise: the squares of its p numbers add up to p σ², give or take √(2p) σ²."""
    return float((values**2).sum()) > (p + _SURE * (2 * p) ** 0.5) * noise_std**2


def shrunk_towards(matrix: np.ndarray, towards: np.ndarray, noise_std: float) -> np.ndarray:
    """As far from ``towards`` as the difference is signal rather than noise, with no eigenvalue that is too small."""
    size, difference = len(matrix), matrix - towards
    share = max(0.0, 1.0 - size * (size + 1) / 2 * noise_std**2 / max(float((difference**2).sum()), 1e-300))
    least = max(_SMALLEST * float(np.trace(towards)) / size, _OF_NOISE * share * math.sqrt(2 * size) * noise_std)
    eigenvalues, Q = np.linalg.eigh(towards + share * difference)
    return (Q * np.maximum(eigenvalues, least)) @ Q.T
