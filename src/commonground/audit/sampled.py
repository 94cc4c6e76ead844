"""Poisson-sampled training, audited: can it be told from everything released whether one unit was there?

The worst case is known: all others contribute nothing, and she contributes the full clip norm in one direction whenever she
is drawn. The auditor sees every noisy sum and knows q, σ, C and the direction, so her likelihood ratio is exact:

    a step's sum x along the direction, in units of C:   ratio = 1 − q + q · exp((x − 1/2) / σ²)

No test is right more often than this one, and (ε, δ)-accounting by privacy-loss distributions says how often that may be: with
probability (1 + δ(0)) / 2, where δ(0) is the δ that belongs to ε = 0. Right more often refutes the accounting.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from commonground.accounting.sampled import SampledGaussianEvent
from commonground.audit.bounds import lower_at_least
from commonground.audit.gates import StepRecorder, StepReplayer
from commonground.billboard.joint import JointStatement
from commonground.errors import InputError
from commonground.gate import SampledReleases

# Makes the gate of a training on samples, one that watches or replays.
Watched = Callable[..., SampledReleases]
# Trains with the unit there or missing, on rows that the auditor made up, and returns what is claimed.
SampledFit = Callable[[bool, Watched], JointStatement]


@dataclass(frozen=True)
class SampledAudit:
    claimed: float  # how often a guess may be right
    accuracy: float  # how often it was
    at_least: float  # except with probability 1 − confidence
    power: float  # what half of the noise would have shown in place of ``at_least``, on average; above the claim, or it is weak

    @property
    def refuted(self) -> bool:
        return self.at_least > self.claimed


def audit_sampled(
    fit: SampledFit,
    direction: np.ndarray,
    n_runs: int = 500,
    confidence: float = 0.999,
    advance: Callable[[], None] = lambda: None,
) -> SampledAudit:
    """Guess ``n_runs`` times each way. ``direction``: where the unit's clipped contribution points, of length one."""
    if n_runs < 20:
        raise InputError(f"runs must be at least 20 on each side, got {n_runs!r}; 1000 say more.")
    if not 0.8 <= confidence < 1:
        raise InputError(f"confidence must lie between 0.8 and 1, got {confidence!r}.")
    right, statement = 0, fit(True, StepRecorder().gate)
    (event,) = statement.events
    if event.relation != "add-or-remove-one" or event.group_size != 1:
        raise InputError("only a unit that is there or missing, drawn as one, can be audited here.")
    for present in (True, False):
        for _ in range(n_runs):
            watch = StepRecorder()
            fit(present, watch.gate)
            along = np.array(watch.sums) @ direction / event.contribution
            right += bool(_log_ratio(along, event) > 0) == present
            advance()
    at_least = float(lower_at_least(right, 2 * n_runs, 1 - confidence))
    halved = replace(event, noise_multiplier=event.noise_multiplier / 2)
    power = float(lower_at_least(round(2 * n_runs * _most_often_right(halved)), 2 * n_runs, 1 - confidence))
    return SampledAudit(_most_often_right(event), right / (2 * n_runs), at_least, power)


def _most_often_right(event: SampledGaussianEvent) -> float:
    return (1 + float(event.loss().get_delta_for_epsilon(0.0))) / 2


def _log_ratio(along: np.ndarray, event: SampledGaussianEvent) -> float:
    q, noise = event.sampling_probability, event.noise_multiplier
    shifted = np.log(q) + (along - 0.5) / noise**2
    return float((np.logaddexp(np.log1p(-q), shifted) if q < 1 else shifted).sum())


# ---- owners' own models ---------------------------------------------------------------------------------------------------

# Trains across owners with the first owner's records in one of two versions, and returns what all others see, by name.
OwnersFit = Callable[[bool, Watched], dict[str, bytes]]


def audit_owners(fit: OwnersFit) -> tuple[str, ...]:
    """What the others see and is not the same to the last bit, when one owner's records change and all releases do not."""
    watch = StepRecorder()
    ours = fit(True, watch.gate)
    theirs = fit(False, StepReplayer(watch.sums).gate)
    return tuple(sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)))
