"""How a private sum becomes public with Gaussian noise: once (``release``), or many times over samples (``SampledReleases``).

    validate → charge → noise → stamp

The charge comes before the draw: a crash in between wastes budget, it never undercounts it. Beside this module, ``perturb.py``
(L2-Laplace noise, samples of people), ``select.py`` (choices) and ``repeat.py`` (numbers of repetitions) draw protective
randomness, in the same order; nobody else does, and all draws are in ``noise.py``. ``scattered.py`` draws none: it adds up parts
that passed a ``release`` where they are.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.events import GaussianEvent
from commonground.accounting.sampled import REPLACE, SampledGaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError
from commonground.gate.noise import GRID, add_gaussian_noise, add_rounded_gaussian_noise, draw_sample
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
    if bounded_sum.relation != REPLACE:
        raise BudgetError(
            f"{bounded_sum.name!r} is a sum under {bounded_sum.relation!r}; only SampledReleases takes it"
        )
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


class SampledReleases:
    """A number of Poisson-sampled releases, charged together before the first: sample → release, sample → release, …

    The same four verbs as ``release``; only the charge comes once for many steps, since a step's cost is known in advance.
    Each release needs a fresh sample, and there are exactly as many as were paid for. ``drawn``: so many of them may have been
    made before, by a process that this one continues.
    """

    def __init__(self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, drawn: int = 0) -> None:
        # validate
        if not (0 < event.sampling_probability <= 1 and event.steps >= 1 and event.group_size >= 1):
            raise BudgetError(f"{event.name!r}: sampling probability, steps or group size make no sense: {event}")
        # Of the value, to the grid.
        rounding = 1.5 * GRID * math.sqrt(event.entries) / event.contribution * event.noise_std
        if not (
            math.isfinite(event.noise_std)
            and event.noise_std >= event.noise_multiplier * event.contribution * (1.0 + rounding) > 0
        ):
            raise BudgetError(f"{event.name!r}: noise of {event.noise_std!r} is not what its cost was computed for")
        if not 0 <= drawn <= event.steps:
            raise BudgetError(f"{event.name!r}: {drawn} of its {event.steps} steps cannot have been made before")
        if event.simulated != randomness.simulated:
            raise BudgetError(f"{event.name!r} does not say truly whether its noise is simulated")
        # charge
        book.charge(event)
        self.event, self.remaining = event, event.steps - drawn
        self._randomness = randomness
        self._sampled = False

    @staticmethod
    def noise_std(noise_multiplier: float, contribution: float, entries: int) -> float:
        """The least noise that ``__init__`` accepts, with room for rounding to the grid."""
        return noise_multiplier * contribution * (1.0 + 2.0 * GRID * math.sqrt(entries) * noise_multiplier + 1e-9)

    def sample(self, n_units: int) -> np.ndarray:
        """Who takes part in the next step. Secret: the cost counts on it."""
        self._require_steps()
        self._sampled = True
        return draw_sample(n_units, self.event.sampling_probability, self._randomness)

    def release(self, bounded_sum: BoundedSum) -> np.ndarray:
        """Publish the sum over the last sample."""
        # validate
        self._require_steps()
        event, value = self.event, np.asarray(bounded_sum.value, dtype=np.float64)
        if not self._sampled:
            raise BudgetError(f"{bounded_sum.name!r}: every release needs a sample of its own")
        if bounded_sum.relation != event.relation or not 0 < bounded_sum.sensitivity <= event.sensitivity:
            raise BudgetError(f"{bounded_sum.name!r} moves by more than was paid for, or under another relation")
        if value.size != event.entries or not np.isfinite(value).all():
            raise BudgetError(f"{bounded_sum.name!r} holds a non-finite entry, or more entries than were paid for")
        # (charged in advance; a crash from here on wastes the step)
        self.remaining, self._sampled = self.remaining - 1, False
        # noise
        public = add_rounded_gaussian_noise(value, event.noise_std, self._randomness)
        # stamp
        public.flags.writeable = False
        return public

    def _require_steps(self) -> None:
        if self.remaining < 1:
            raise BudgetError(f"{self.event.name!r}: all {self.event.steps} steps that were paid for are done")
