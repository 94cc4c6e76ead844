"""The gate: the one object through which a fit publishes anything that its people's rows decide.

Made once per fit, it brings together what pays (``ledger``), what protects (``randomness``) and what is remembered for the
statement (``events``). Its verbs are ``release``, ``select``, ``perturb``, ``sample``, ``part`` and ``repetitions``; each does
the same four things in the same order, in a file of its own: validate → charge → noise → stamp.
"""

from dataclasses import dataclass, field

import numpy as np

from commonground.accounting.events import Event
from commonground.accounting.selection import RepeatedSelectionEvent
from commonground.clipping.bounded import BoundedScores, BoundedSum
from commonground.gate.perturb import Perturbed, part_of_people, perturb, sample_people
from commonground.gate.randomness import Randomness
from commonground.gate.release import Release, release
from commonground.gate.repeat import repetitions
from commonground.gate.scattered import ScatteredSum, release_scattered
from commonground.gate.select import Selection, select
from commonground.ledger import Ledger


@dataclass(frozen=True)
class Gate:
    """Ledger, randomness and transcript of one fit.

    Parameters
    ----------
    ledger : Ledger
        Charged before any noise is drawn.
    randomness : Randomness
        The operating system's entropy, or a simulation.

    Attributes
    ----------
    events : tuple of Event
        What has passed, in order.
    """

    ledger: Ledger
    randomness: Randomness
    _events: list[Event] = field(default_factory=list, repr=False)

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        """Publish a sum with Gaussian noise, at the cost ``mu``."""
        if isinstance(private, ScatteredSum):
            public = release_scattered(private, mu, self.ledger, self.randomness)
        else:
            public = release(private, mu, self.ledger, self.randomness)
        self._events.append(public.event)
        return public

    def perturb(self, private: BoundedSum, epsilon: float) -> Perturbed:
        """Publish a vector with L2-Laplace noise, at the cost ``epsilon`` with δ = 0."""
        public = perturb(private, epsilon, self.ledger, self.randomness)
        self._events.append(public.event)
        return public

    def select(self, scores: BoundedScores, epsilon: float) -> Selection:
        """Publish which candidate is (about) the best, at the cost ``epsilon`` with δ = 0."""
        public = select(scores, epsilon, self.ledger, self.randomness)
        self._events.append(public.event)
        return public

    def repetitions(self, event: RepeatedSelectionEvent) -> tuple[int, ...]:
        """Which settings to run where the best alone is published. Secret; paid for together with all that they release."""
        drawn = repetitions(event, self.ledger, self.randomness)
        self._events.append(event)
        return drawn

    def sample(self, probabilities: np.ndarray) -> np.ndarray:
        """Who takes part, each with her own probability: (n,) bool. Secret, and free by itself."""
        return sample_people(probabilities, self.randomness)

    def part(self, n: int, size: int) -> np.ndarray:
        """Which ``size`` of n people take part: (n,) bool. Secret, and free by itself; what is released of them costs in full."""
        return part_of_people(n, size, self.randomness)
