"""A gate that keeps what passes in a journal, and gives out again what passed before its process was interrupted.

A fit is a function of people's rows and of the values released so far. So a process that starts over and is given the recorded
values comes to where the interrupted one stopped, and goes on from there.

**Guarantee.** Every value that this gate hands on stands in the journal first, and every one in the journal was charged before
its noise was drawn; what is given out again is the recorded value, a function of what was released before, which costs nothing. A
release whose event differs in anything (name, cost, sensitivity, noise, size) from the recorded one is refused. If the
process ends between the charge and the journal, the value was seen by nobody: it is drawn afresh, and the ledger, which finds
the charge on its book, does not ask for it again (``ledger.resumed``). The rows may have changed meanwhile: recorded values are
of the old ones, later ones of the new, each paid for by a person for all that she has given. Who is drawn into a secret sample is
never written down; a resumed fit draws anew, and nothing that was released with the old sample is computed again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from commonground.clipping.bounded import BoundedScores, BoundedSum
from commonground.errors import CheckpointError
from commonground.gate.gate import Gate
from commonground.gate.journal import Entry, Journal
from commonground.gate.perturb import Perturbed
from commonground.gate.release import Release
from commonground.gate.scattered import ScatteredSum
from commonground.gate.select import Selection
from commonground.ledger import Ledger

if TYPE_CHECKING:
    from commonground.accounting.events import Event


class _AskedError(Exception):
    def __init__(self, event: "Event") -> None:
        self.event = event


class _AsksOnly:
    """In the place of a ledger: a verb ends here, validated and before any noise, and tells what it would have charged."""

    def charge(self, event: "Event") -> NoReturn:
        raise _AskedError(event)


@dataclass
class _Position:
    at: int = 0  # entries given out again


@dataclass(frozen=True, kw_only=True)
class JournalledGate(Gate):
    """A gate with a memory of what passed before and passes now; releases another ledger than ``book`` pays for are marked."""

    journal: Journal = field(repr=False)
    book: Ledger = field(repr=False)
    _position: _Position = field(default_factory=_Position, repr=False)

    def release(self, private: BoundedSum | ScatteredSum, mu: float) -> Release:
        """As of every gate; a recorded value is given out again."""
        before = self._before(lambda gate: Gate.release(gate, private, mu))
        if before is not None:
            assert isinstance(private, BoundedSum)
            return self._noted(Release(before.value.reshape(np.shape(private.value)), before.event))  # type: ignore[arg-type]
        public = super().release(private, mu)
        self._keep(public.event, public.value)
        return public

    def perturb(self, private: BoundedSum, epsilon: float) -> Perturbed:
        """As of every gate; a recorded value is given out again."""
        before = self._before(lambda gate: Gate.perturb(gate, private, epsilon))
        if before is not None:
            return self._noted(Perturbed(before.value.reshape(np.shape(private.value)), before.event))  # type: ignore[arg-type]
        public = super().perturb(private, epsilon)
        self._keep(public.event, public.value)
        return public

    def select(self, scores: BoundedScores, epsilon: float) -> Selection:
        """As of every gate; a recorded choice is given out again."""
        before = self._before(lambda gate: Gate.select(gate, scores, epsilon))
        if before is not None:
            return self._noted(Selection(int(before.value[0]), before.event))  # type: ignore[arg-type]
        public = super().select(scores, epsilon)
        self._keep(public.event, np.array([public.index]))
        return public

    def _before(self, verb: Callable[[Gate], Any]) -> Entry | None:
        """What was released when this point was reached before; None where nobody has come so far."""
        entries = self.journal.entries
        if self._position.at == len(entries):
            return None
        entry = entries[self._position.at]
        event = self._asked(verb)
        if event != entry.event:
            raise CheckpointError(
                f"{self.journal.path} does not belong to this fit: as its release {self._position.at + 1} it holds "
                f"{entry.event.name!r} ({entry.event.noise}), and {event.name!r} ({event.noise}) is asked for. Run the fit "
                "that was interrupted, with the same version and settings, or remove the file and fit again."
            )
        self.ledger.charge(event)  # a ledger that has it on its book knows it
        self._position.at += 1
        if self._position.at == len(entries) and entry.state is not None:
            self.randomness.restore(entry.state)
        return entry

    def _asked(self, verb: Callable[[Gate], Any]) -> "Event":
        try:
            verb(replace(self, ledger=_AsksOnly(), _events=[]))
        except _AskedError as asked:
            return asked.event
        raise AssertionError("a verb of the gate did not charge")

    def _keep(self, event: "Event", value: np.ndarray) -> None:
        self.journal.write(Entry(event, value, self.ledger is self.book, self.randomness.state()))
        self._position.at += 1

    def _noted(self, public: Any) -> Any:
        self._events.append(public.event)
        return public
