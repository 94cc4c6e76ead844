"""What P4's convex algorithms have in common: a paid, projected descent on the shared u, whose iterates are averaged."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import SampledGaussianEvent
from commonground.billboard.joint import paying
from commonground.clipping.sums import SampledSum
from commonground.gate import Randomness, SampledReleases
from commonground.gate.kept_steps import KeptSteps, Replay
from commonground.ledger import Ledger, SharedLedger


@dataclass(frozen=True)
class Trained:
    """The shared coefficients, a function of released values, and what they cost."""

    shared: np.ndarray
    noise_multiplier: float
    events: tuple[SampledGaussianEvent, ...]
    book: Ledger  # what they were charged to


@dataclass(frozen=True)
class Descent:
    """One private descent: public settings, the slope of the loss, and where noise and budget come from."""

    budget: Budget
    unit: str  # whom it protects: "record", "user" or "owner"
    relation: str
    sampling_probability: float
    steps: int
    clip_norm: float
    radius: float
    learning_rate: float | None
    n_outputs: int
    errors: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of scores and labels: d loss / d scores
    randomness: Randomness
    ledger: Ledger | SharedLedger | None
    gate: Callable[..., SampledReleases] = SampledReleases  # an audit has one that watches
    replay: Replay | None = None  # of a run that may have been interrupted

    def errors_at(self, u: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is clipped to zero
            return self.errors(X @ u.reshape(self.n_outputs, -1).T, y)

    def rate(self, size: int, noise_share: float) -> float:
        """The rate of the averaged projected descent for gradients of this second moment (P4 §3.1.1)."""
        if self.learning_rate is not None:
            return self.learning_rate
        return self.radius / (self.clip_norm * math.sqrt(self.steps * (1.0 + size * noise_share**2)))

    def event(
        self, name: str, multiplier: float, clip_norm: float, entries: int, group_size: int = 1
    ) -> SampledGaussianEvent:
        """All steps of one kind of release."""
        contribution = SampledSum.contribution(clip_norm)
        noise_std = SampledReleases.noise_std(multiplier, contribution, entries)
        name, simulated = f"{name}{self._run}", self.randomness.simulated
        sampled = float(self.sampling_probability), multiplier, self.steps, self.relation, group_size
        return SampledGaussianEvent(name, *sampled, contribution, noise_std, entries, simulated, self.unit)

    def pay(self, planned: list[SampledGaussianEvent]) -> tuple[list[SampledReleases], Ledger]:
        """All steps, charged before the first is drawn."""
        gate = self.gate if self.replay is None else partial(KeptSteps, replay=self.replay)
        with paying(self.ledger, self.budget, planned, resumed=self.replay is not None) as book:
            return [gate(event, book, self.randomness) for event in planned], book

    @property
    def _run(self) -> str:
        """By which a ledger tells a run that can be resumed from others like it."""
        return "" if self.replay is None or self.randomness.simulated else f", run {self.replay.journal.claims[0]}"

    def averaged(self, size: int, rate: float, slope_at: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """The mean of the iterates that follow the released slopes from zero."""
        u, mean = np.zeros(size), np.zeros(size)
        for t in range(self.steps):
            u = inside(u - rate * slope_at(t, u), self.radius)  # Alg. 1, line 6
            mean += (u - mean) / (t + 1)  # Alg. 1, line 8
        return mean


def inside(vector: np.ndarray, radius: float) -> np.ndarray:
    """Projection onto the ball."""
    length = float(np.linalg.norm(vector))
    return vector if length <= radius else vector * (radius / length)
