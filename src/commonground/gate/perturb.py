"""A vector with L2-Laplace noise (pure ε), and people drawn by chance: P3's two mechanisms.

OpenDP has no sampler for noise of density ∝ exp(−‖z‖/scale) in several dimensions, so this one is ours: floating point over
the operating system's entropy. What leaves is rounded to a grid that is coarse beside the rounding of the arithmetic.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.events import LaplaceEvent
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError
from commonground.gate.noise import add_l2_laplace_noise, coins, part
from commonground.gate.randomness import Randomness
from commonground.ledger import Ledger

SCALE_MARGIN = 1e-6  # for rounding, in Δ/ε and on the grid


@dataclass(frozen=True)
class Perturbed:
    """A public vector, with the record of what it cost."""

    value: np.ndarray
    event: LaplaceEvent


def perturb(bounded_sum: BoundedSum, epsilon: float, ledger: Ledger, randomness: Randomness) -> Perturbed:
    """Publish a bounded vector, ε-differentially private with δ = 0, charged to ``ledger``."""
    # validate
    value, sensitivity = np.asarray(bounded_sum.value, dtype=np.float64), bounded_sum.sensitivity
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise BudgetError(f"{bounded_sum.name!r} has no finite sensitivity, so no noise can protect it")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"{bounded_sum.name!r} was given the budget share ε = {epsilon!r}; it must be finite and > 0")
    if not np.isfinite(value).all():
        raise BudgetError(f"{bounded_sum.name!r} holds a non-finite entry; contributions must be clipped first")
    scale = sensitivity / epsilon * (1.0 + SCALE_MARGIN)
    event = LaplaceEvent(bounded_sum.name, float(epsilon), sensitivity, scale, value.size, randomness.simulated)
    # charge
    ledger.charge(event)
    # noise
    public = add_l2_laplace_noise(value, scale, randomness)
    # stamp
    public.flags.writeable = False
    return Perturbed(public, event)


def sample_people(probabilities: np.ndarray, randomness: Randomness) -> np.ndarray:
    """A random sample of people, each with her own probability. Costs nothing by itself; the sample must stay private."""
    return coins(probabilities * (1.0 - 1e-12), randomness)


def part_of_people(n: int, size: int, randomness: Randomness) -> np.ndarray:
    """A random sample of ``size`` of n people. Costs nothing by itself, and saves nothing; the sample must stay private."""
    return part(n, size, randomness)
