"""Sampled releases with a memory: what passed before a training run was interrupted is given out again.

**Guarantee.** All steps are charged before the first is drawn, once: a ledger tells the run by a word that is written in the
journal before, and stands in the names of its releases. A value is in the journal before anybody else sees it. What is given out
again is the recorded value; a step that a killed process had drawn and not written was seen by nobody, and is drawn afresh, its
secret sample, too. So every step is seen once. A copied journal would be a second run that nobody pays for: the file is locked,
but copies are the operator's to avoid.
"""

import numpy as np

from commonground.accounting.sampled import SampledGaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.errors import CheckpointError
from commonground.gate.journal import Entry, Journal
from commonground.gate.randomness import Randomness
from commonground.gate.release import SampledReleases
from commonground.ledger import Ledger


class Replay:
    """How far the recorded releases of a journal have been given out again, by all kinds of steps together."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.at = journal, 0

    def next(self, event: SampledGaussianEvent) -> Entry | None:
        """What was released when this point was reached before; None where nobody has come so far."""
        entries = self.journal.entries
        if self.at == len(entries):
            return None
        entry = entries[self.at]
        if entry.event != event:
            raise CheckpointError(
                f"{self.journal.path} does not belong to this run: as its release {self.at + 1} it holds "
                f"{entry.event.name!r}, and {event.name!r} is asked for. Run what was interrupted, or remove the file."
            )
        self.at += 1
        return entry

    @property
    def is_over(self) -> bool:
        return self.at == len(self.journal.entries)

    def keep(self, entry: Entry) -> None:
        self.journal.write(entry)
        self.at += 1


class KeptSteps(SampledReleases):
    """``SampledReleases`` that are kept in a journal."""

    def __init__(self, event: SampledGaussianEvent, book: Ledger, randomness: Randomness, replay: Replay) -> None:
        super().__init__(event, book, randomness)
        self._replay = replay

    def release(self, bounded_sum: BoundedSum) -> np.ndarray:
        """Publish the sum over the last sample, or what was published in this step before."""
        before = self._replay.next(self.event)
        if before is None:
            public = super().release(bounded_sum)
            self._replay.keep(Entry(self.event, public, True, self._randomness.state()))
            return public
        self._require_steps()
        self.remaining, self._sampled = self.remaining - 1, False
        if self._replay.is_over and before.state is not None:
            self._randomness.restore(before.state)
        return np.asarray(before.value.reshape(np.shape(bounded_sum.value)))
