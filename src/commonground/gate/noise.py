"""Every protective draw of the package, and nothing else. Its callers are ``release.py``, ``perturb.py`` and ``select.py``."""

import functools
import math
import secrets
from typing import Any

import numpy as np
from scipy.special import ndtri

from commonground.gate.randomness import Randomness

# Granularity 2⁻⁴⁰ of one standard deviation: four times faster than OpenDP's finest, and its own privacy map, which
# charges for the rounding, is asked below.
_GRANULARITY = -40
_LAPLACE_GRID = 24  # what L2-Laplace noise leaves is a multiple of 2⁻²⁴ of its scale: arithmetic's last bits are gone


def add_gaussian_noise(
    value: np.ndarray, noise_std: float, sensitivity: float, mu: float, source: Randomness
) -> np.ndarray:
    """value + N(0, noise_std²) in every entry.

    The value is brought to noise of scale one first, so that the sampler's fixed granularity is relative to the noise.
    OpenDP states the zCDP parameter ρ of its draw, rounding included; it must not exceed μ²/2.
    """
    flat = np.asarray(value, dtype=np.float64).ravel() / noise_std
    if source.simulation is not None:
        noisy = flat + source.simulation.standard_normal(flat.shape)
    else:
        measurement = _opendp_gaussian(flat.size)
        rho = measurement.map(sensitivity / noise_std)
        if not rho <= mu * mu / 2:
            raise RuntimeError(f"OpenDP states ρ = {rho!r}, above μ²/2 = {mu * mu / 2!r}: the noise is too small")
        noisy = np.asarray(measurement(flat.tolist()))
    return (noisy * noise_std).reshape(np.shape(value))


# For long training runs, where OpenDP's exact sampler would take minutes.
GRID = 2.0**-30  # of one standard deviation


def add_rounded_gaussian_noise(value: np.ndarray, noise_std: float, source: Randomness) -> np.ndarray:
    """value + N(0, noise_std²) in every entry, both rounded to multiples of ``GRID`` standard deviations first.

    Whole multiples below 2⁵³ add up without rounding, so the result is a rounded copy of (value on the grid) + Gaussian, and
    the last bits of a floating-point sum tell nothing. The rounding of the value is the caller's to count: √entries · GRID
    standard deviations.
    """
    grains = np.rint(np.asarray(value, dtype=np.float64) / (noise_std * GRID))
    if not np.abs(grains).max(initial=0.0) < 2.0**52:
        raise RuntimeError("the value is more than 2²² standard deviations large: too large for exact addition")
    grains += np.rint(_standard_normal(grains.size, source).reshape(grains.shape) / GRID)
    return grains * (noise_std * GRID)


def _standard_normal(size: int, source: Randomness) -> np.ndarray:
    if source.simulation is not None:
        return source.simulation.standard_normal(size)
    bits = np.frombuffer(secrets.token_bytes(16 * ((size + 1) // 2)), dtype=np.uint64).reshape(2, -1)
    radius = np.sqrt(-2.0 * np.log((bits[0].astype(np.float64) + 0.5) * 2.0**-64))  # up to 9.5 standard deviations
    angle = (bits[1] >> np.uint64(11)) * (2.0 * np.pi * 2.0**-53)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def draw_sample(n_units: int, probability: float, source: Randomness) -> np.ndarray:
    """Which units take part: each with this probability, independently (Poisson sampling)."""
    if source.simulated_sampling is not None:
        return np.flatnonzero(source.simulated_sampling.random(n_units) < probability)
    if probability == 1.0:
        return np.arange(n_units)
    bits = np.frombuffer(secrets.token_bytes(8 * n_units), dtype=np.uint64)
    return np.flatnonzero(
        bits < np.uint64(math.floor(probability * 2.0**64))
    )  # rounded down: never likelier than stated


def choose_smallest(scores: np.ndarray, scale: float, sensitivity: int, epsilon: float, source: Randomness) -> int:
    """An index i with probability ∝ exp(−scores[i] / scale): the smallest score after Gumbel noise (exponential mechanism).

    OpenDP compares exact rationals of arbitrary precision, so whole-number scores never meet floating point. It states
    the cost of a Gumbel draw as ρ = ε²/8, the zCDP parameter of an exponential mechanism that is ε-private; ρ must not
    exceed that of the ε charged. (For ``max_divergence`` it would draw exponential noise, another mechanism.)
    """
    if source.simulation is not None:
        return int(np.argmin(scores / scale - source.simulation.gumbel(size=scores.shape)))
    measurement = _opendp_noisy_min(scale)
    rho = measurement.map(sensitivity)
    if not rho <= epsilon * epsilon / 8:
        raise RuntimeError(f"OpenDP states ρ = {rho!r}, above ε²/8 = {epsilon**2 / 8!r}: the choice is too sharp")
    return int(measurement(scores.tolist()))


def add_l2_laplace_noise(value: np.ndarray, scale: float, source: Randomness) -> np.ndarray:
    """value + z with density ∝ exp(−‖z‖/scale): a sum of d exponentials is the radius, d normals give the direction."""
    d = value.size
    direction = ndtri((_random_bits(d, source) + 0.5) * 2.0**-52)
    radius = _exponentials(d, source).sum()
    grid = 2.0 ** (math.floor(math.log2(scale)) - _LAPLACE_GRID)
    noisy = value.ravel() + scale * radius * direction / np.linalg.norm(direction)
    return (np.round(noisy / grid) * grid).reshape(np.shape(value))


def coins(probabilities: np.ndarray, source: Randomness) -> np.ndarray:
    """True with the given probability, each on its own, rounded down to a multiple of 2⁻⁵²."""
    return _random_bits(len(probabilities), source) < np.floor(probabilities * 2.0**52)


def _exponentials(size: int, source: Randomness) -> np.ndarray:
    """−log of uniform numbers that have 52 bits however small they are, so that the tail is not a few far-apart values."""
    mantissa = 1.0 + (_random_bits(size, source) + 0.5) * 2.0**-52  # between 1 and 2
    halvings = 52 - np.frexp(_random_bits(size, source))[1]  # leading zeros: a geometric number
    return (halvings + 1) * math.log(2.0) - np.log(mantissa)


def _random_bits(size: int, source: Randomness) -> np.ndarray:
    """Whole numbers of 52 bits from the operating system's entropy."""
    octets = secrets.token_bytes(8 * size) if source.simulation is None else source.simulation.bytes(8 * size)
    return (np.frombuffer(octets, dtype=np.uint64) >> np.uint64(12)).astype(np.float64)


@functools.lru_cache(maxsize=64)
def _opendp_gaussian(size: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=_GRANULARITY)


@functools.lru_cache(maxsize=64)
def _opendp_noisy_min(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale, negate=True)
