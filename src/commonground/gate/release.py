"""How private becomes public. This is the only function that adds protective noise (``select.py`` chooses by it).

    validate → charge → noise → stamp

The charge comes before the draw: a crash in between wastes budget, it never undercounts it.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.events import GaussianEvent
from commonground.clipping import BoundedSum
from commonground.errors import BudgetError
from commonground.gate.noise import add_gaussian_noise
from commonground.gate.randomness import Randomness
from commonground.ledger import Ledger


def noise_margin(entries: int, mu: float) -> float:
    """How much larger than Δ/μ the noise is drawn, relatively: for rounding in Δ/σ, and for the sampler's granularity.

    Rounding each entry to the grid adds up to 2⁻⁴⁰·√entries standard deviations to the sensitivity, which is μ of them.
    """
    return 1e-6 + 2.0**-39 * math.sqrt(entries) / mu


@dataclass(frozen=True)
class Release:
    """A public value, with the record of what it cost."""

    value: np.ndarray
    event: GaussianEvent

    @property
    def noise_std(self) -> float:
        return self.event.noise_std


def release(bounded_sum: BoundedSum, mu: float, ledger: Ledger, randomness: Randomness) -> Release:
    """Publish a bounded sum at Gaussian-DP cost ``mu``, charged to ``ledger``."""
    # validate
    value, sensitivity = np.asarray(bounded_sum.value, dtype=np.float64), bounded_sum.sensitivity
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise BudgetError(f"{bounded_sum.name!r} has no finite sensitivity, so no noise can protect it")
    if not (math.isfinite(mu) and mu > 0):
        raise BudgetError(f"{bounded_sum.name!r} was given the budget share μ = {mu!r}; it must be finite and > 0")
    if not np.isfinite(value).all():
        raise BudgetError(f"{bounded_sum.name!r} holds a non-finite entry; contributions must be clipped first")
    noise_std = sensitivity / mu * (1.0 + noise_margin(value.size, mu))
    event = GaussianEvent(bounded_sum.name, mu, sensitivity, noise_std, value.size, randomness.simulated)
    # charge
    ledger.charge(event)
    # noise
    public = add_gaussian_noise(value, noise_std, sensitivity, mu, randomness)
    # stamp
    public.flags.writeable = False
    return Release(public, event)
