"""Every protective draw of the package, and nothing else. Its one caller is ``release.py``."""

import functools
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


@functools.lru_cache(maxsize=64)
def _opendp_gaussian(size: int) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size)
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=_GRANULARITY)
