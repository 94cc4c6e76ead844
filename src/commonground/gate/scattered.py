"""Sums that nobody has as a whole: every holder of a part passes it through a gate of her own, and the noised parts are added.

    validate → charge → noise (by ``release``, at each holder) → stamp

A whole release of cost μ needs noise of variance (Δ/μ)². Each holder adds the ``shares``-th part of that variance, which is
her own ``release`` at the cost μ·√shares; so any ``shares`` noised parts bring all of it, and more parts bring more. With
fewer, nothing is published.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from commonground.accounting.events import GaussianEvent
from commonground.errors import BudgetError
from commonground.gate.randomness import Randomness
from commonground.gate.release import Release, noise_margin
from commonground.ledger import Ledger


@dataclass(frozen=True)
class ScatteredSum:
    """A private sum in parts, and the most that replacing one person can move the part that she is in (L2)."""

    name: str
    sensitivity: float
    shape: tuple[int, ...]
    shares: int  # noised parts that together have all of the noise
    # μ of a part → sum of noised parts, how many
    collect: Callable[[float], tuple[np.ndarray, int]] = field(repr=False)


def cost_of_a_part(mu: float, shares: int) -> float:
    """The μ of one holder's own release: what somebody learns who sees her noised part by itself.

    >>> cost_of_a_part(0.5, shares=4)
    1.0
    """
    return mu * math.sqrt(shares)


def release_scattered(scattered: ScatteredSum, mu: float, ledger: Ledger, randomness: Randomness) -> Release:
    """Publish the sum of all parts at Gaussian-DP cost ``mu``, charged to ``ledger``; the holders' ledgers pay for theirs."""
    # validate
    if not (math.isfinite(scattered.sensitivity) and scattered.sensitivity > 0):
        raise BudgetError(f"{scattered.name!r} has no finite sensitivity, so no noise can protect it")
    if not (math.isfinite(mu) and mu > 0) or scattered.shares < 1:
        raise BudgetError(
            f"{scattered.name!r} was given the budget share μ = {mu!r} in {scattered.shares} parts; both must be > 0"
        )
    if randomness.simulated:
        raise BudgetError(f"{scattered.name!r} is noised by those who hold its parts; their noise cannot be simulated")
    entries, part_mu = math.prod(scattered.shape), cost_of_a_part(mu, scattered.shares)
    part_std = scattered.sensitivity / part_mu * (1.0 + noise_margin(entries, part_mu))
    event = GaussianEvent(
        scattered.name, mu, scattered.sensitivity, part_std * math.sqrt(scattered.shares), entries, simulated=False
    )
    # charge
    ledger.charge(event)
    # noise
    value, parts = scattered.collect(part_mu)
    if parts < scattered.shares:
        raise BudgetError(
            f"{scattered.name!r}: {parts} noised parts arrived and {scattered.shares} are needed for all of the noise. "
            "It is not published, and its budget stays spent."
        )
    if value.shape != scattered.shape or not np.isfinite(value).all():
        raise BudgetError(f"{scattered.name!r} came back in another shape, or with a non-finite entry")
    # stamp
    value.flags.writeable = False
    return Release(value, replace(event, noise_std=part_std * math.sqrt(parts)))
