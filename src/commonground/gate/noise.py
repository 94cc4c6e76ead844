"""Every protective draw of the package, and nothing else. Its one caller is ``release.py``."""

import functools
import math
import os
from typing import Any

import numpy as np

from commonground.gate.randomness import Randomness

# Granularity 2⁻⁴⁰ of one standard deviation: four times faster than OpenDP's finest, and its own privacy map, which
# charges for the rounding, is asked below.
_GRANULARITY = -40


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
    bits = np.frombuffer(os.urandom(16 * ((size + 1) // 2)), dtype=np.uint64).reshape(2, -1)
    radius = np.sqrt(-2.0 * np.log((bits[0].astype(np.float64) + 0.5) * 2.0**-64))  # up to 9.5 standard deviations
    angle = (bits[1] >> np.uint64(11)) * (2.0 * np.pi * 2.0**-53)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def draw_sample(n_units: int, probability: float, source: Randomness) -> np.ndarray:
    """Which units take part: each with this probability, independently (Poisson sampling)."""
    if source.simulated_sampling is not None:
        return np.flatnonzero(source.simulated_sampling.random(n_units) < probability)
    if probability == 1.0:
        return np.arange(n_units)
    bits = np.frombuffer(os.urandom(8 * n_units), dtype=np.uint64)
    return np.flatnonzero(bits < np.uint64(math.floor(probability * 2.0**64)))  # rounded down: never likelier than stated


@functools.lru_cache(maxsize=64)
def _opendp_gaussian(size: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=_GRANULARITY)
