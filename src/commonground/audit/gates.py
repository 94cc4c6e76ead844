"""Gates for audits: one that remembers what is behind each release, and one that gives out what was released before.

Here values from before the noise are kept, of invented people only. A board that was made through such a gate says that it is not
private, and no ledger pays for it (``PersonalModel.fit``, ``JointSGDRegressor.fit``, ``JointTrainer.fit``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from commonground.accounting.sampled import SampledGaussianEvent
from commonground.clipping.bounded import BoundedScores, BoundedSum
from commonground.gate import Gate, Perturbed, Randomness, Release, SampledReleases, ScatteredSum, Selection
from commonground.gate.scattered import cost_of_a_part
from commonground.ledger import Ledger

Private = BoundedSum | BoundedScores
Public = Release | Selection | Perturbed


@dataclass(frozen=True, repr=False)
class Passage:
    """One release or choice, with the private sum or scores that it hides."""

    private: Private
    share: float  # of the budget: μ of a release, ε of a choice
    public: Public


@dataclass(frozen=True, repr=False)
class Coins:
    """Who was drawn, where an estimator reads a secret sample of people; and how likely everybody was."""

    drawn: np.ndarray  # (n,) bool
    probabilities: np.ndarray  # (n,)


class ImpossibleError(Exception):
    """The neighbour would have asked for a different release at this point."""


class Recorder:
    """Makes the gates of one fit, and of the nodes of a federation; remembers what is behind each release."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self.coins: Coins | None = None
        self.chosen: list[np.ndarray] = []  # who took part in a fit's looks, of each draw
        self.parts: list[BoundedSum] = []  # of the last sum that is noised where its people are

    def gate(self, ledger: Ledger, randomness: Randomness) -> Gate:
        return RecordingGate(ledger, randomness, by=self)

    def node_gate(self, ledger: Ledger, randomness: Randomness) -> Gate:
        return _NodeGate(ledger, randomness, parts=self.parts)

    def whole(self, private: BoundedSum | ScatteredSum) -> BoundedSum:
        """Of a sum in parts, what the noise of all parts together hides."""
        if isinstance(private, BoundedSum):
            return private
        if not self.parts or any(part.sensitivity != private.sensitivity for part in self.parts):
            raise ImpossibleError  # without parts: no node would answer
        return replace(self.parts[0], value=np.sum([part.value for part in self.parts], axis=0))


@dataclass(frozen=True, kw_only=True)
class RecordingGate(Gate):
    by: Recorder = field(repr=False)

    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        self.by.parts.clear()
        public = super().release(private, mu)
        self.by.passages.append(Passage(self.by.whole(private), mu, public))
        return public

    def perturb(self, private: BoundedSum, epsilon: float) -> Perturbed:
        public = super().perturb(private, epsilon)
        self.by.passages.append(Passage(private, epsilon, public))
        return public

    def select(self, scores: BoundedScores, epsilon: float) -> Selection:
        public = super().select(scores, epsilon)
        self.by.passages.append(Passage(scores, epsilon, public))
        return public

    def sample(self, probabilities: np.ndarray) -> np.ndarray:
        drawn = super().sample(probabilities)
        self.by.coins = Coins(drawn.copy(), probabilities.copy())
        return drawn

    def part(self, n: int, size: int) -> np.ndarray:
        self.by.chosen.append(super().part(n, size))
        return self.by.chosen[-1].copy()


@dataclass(frozen=True, kw_only=True)
class _NodeGate(Gate):
    parts: list[BoundedSum] = field(repr=False)

    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        return super().release(self._kept(private), mu)

    def _kept(self, private: BoundedSum | ScatteredSum) -> BoundedSum:
        assert isinstance(private, BoundedSum)
        self.parts.append(private)
        return private


class Replayer(Recorder):
    """Makes gates that give out what was released before, whatever they are asked for; remembers what they were asked."""

    def __init__(self, recorded: list[Passage], drawn: np.ndarray | None, chosen: list[np.ndarray]) -> None:
        super().__init__()
        self.chosen = list(chosen)
        self.recorded, self.drawn = recorded, drawn  # drawn: who is in the sample
        self.sums: list[Private] = []

    def gate(self, ledger: Ledger, randomness: Randomness) -> Gate:
        return ReplayingGate(ledger, randomness, by=self)

    def node_gate(self, ledger: Ledger, randomness: Randomness) -> Gate:
        return _UnnoisedGate(ledger, randomness, parts=self.parts)

    def again(self, private: Private, share: float) -> Any:
        """What was released when this point was reached before."""
        if len(self.sums) == len(self.recorded) or not _same_release(self.recorded[len(self.sums)], private, share):
            raise ImpossibleError
        self.sums.append(private)
        return self.recorded[len(self.sums) - 1].public


@dataclass(frozen=True, kw_only=True)
class ReplayingGate(Gate):
    by: Replayer = field(repr=False)

    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        if isinstance(private, ScatteredSum):
            self.by.parts.clear()
            private.collect(cost_of_a_part(mu, private.shares))
        return self._noted(self.by.again(self.by.whole(private), mu))

    def perturb(self, private: BoundedSum, epsilon: float) -> Perturbed:
        return self._noted(self.by.again(private, epsilon))

    def select(self, scores: BoundedScores, epsilon: float) -> Selection:
        return self._noted(self.by.again(scores, epsilon))

    def sample(self, probabilities: np.ndarray) -> np.ndarray:
        assert self.by.drawn is not None
        return self.by.drawn.copy()

    def part(self, n: int, size: int) -> np.ndarray:
        if not self.by.chosen or (len(self.by.chosen[0]), int(self.by.chosen[0].sum())) != (n, size):
            raise ImpossibleError
        return self.by.chosen.pop(0)

    def _noted(self, public: Any) -> Any:
        self._events.append(public.event)
        return public


@dataclass(frozen=True, kw_only=True)
class _UnnoisedGate(_NodeGate):
    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        # a node gives out the value alone
        return Release(np.asarray(self._kept(private).value, dtype=np.float64), None)  # type: ignore[arg-type]


def _same_release(passage: Passage, private: Private, share: float) -> bool:
    recorded = passage.private
    return (
        type(recorded) is type(private)
        and recorded.name == private.name
        and np.shape(recorded.value) == np.shape(private.value)
        and recorded.sensitivity == private.sensitivity
        and passage.share == share
    )


# ---- training on samples --------------------------------------------------------------------------------------------------


class StepRecorder:
    """Makes the releases of one training on samples; remembers every sum as it leaves the gate."""

    def __init__(self) -> None:
        self.sums: list[np.ndarray] = []

    def gate(
        self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, drawn: int = 0
    ) -> SampledReleases:
        return _RecordedSteps(event, book, randomness, drawn, self.sums)


class StepReplayer:
    """Makes releases that give out the sums of an earlier training, in order, whatever they are asked for."""

    def __init__(self, sums: list[np.ndarray]) -> None:
        self.left = iter(sums)

    def gate(
        self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, drawn: int = 0
    ) -> SampledReleases:
        return _ReplayedSteps(event, book, randomness, drawn, self.left)


class _RecordedSteps(SampledReleases):
    def __init__(
        self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, drawn: int, sums: list[np.ndarray]
    ) -> None:
        super().__init__(event, book, randomness, drawn)
        self._sums = sums

    def release(self, bounded_sum: BoundedSum) -> np.ndarray:
        public = super().release(bounded_sum)
        self._sums.append(public)
        return public


class _ReplayedSteps(SampledReleases):
    def __init__(
        self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, drawn: int, left: Iterator[np.ndarray]
    ) -> None:
        super().__init__(event, book, randomness, drawn)
        self._left = left

    def release(self, bounded_sum: BoundedSum) -> np.ndarray:
        self.remaining -= 1
        return next(self._left)
