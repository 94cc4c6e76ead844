"""A fit that can be interrupted: its journal, its reservation, and what becomes of both when it ends, in whatever way.

| it ends | journal | reservation |
|---|---|---|
| with a board | removed | settled |
| before the first release, or by an error of its input or budget | removed | settled |
| in any other way: Ctrl-C, SIGTERM, kill -9, a full disk, a ledger that cannot be reached | stays | stays open |
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.personal import PersonalBudgets
from commonground.data.population import Population
from commonground.errors import BudgetError, InputError, LedgerError
from commonground.gate import Gate
from commonground.gate.journal import Journal
from commonground.gate.journalled import JournalledGate
from commonground.ledger import Ledger, SharedLedger

if TYPE_CHECKING:
    from commonground.ledger import Population as LedgerPopulation
    from commonground.ledger import Reservation

_ANY = {"verbose", "keep_heads", "device", "user", "budgets"}  # parameters that may differ, or are told in another way


class Checkpoint:
    """The journal of a fit, and who pays for it. Inside the ``with`` block the fit goes on from the journal.

    Parameters
    ----------
    place : str, os.PathLike or Journal
        The file. A ``Journal`` stays when the fit is done, for its owner to remove.
    description : dict
        What the interrupted and the resumed fit have in common.
    ledger : population of a DurableLedger, or None
        Pays for it.
    reserve : callable
        Books the declared budget there, for a fit that begins.
    """

    def __init__(
        self,
        place: "str | os.PathLike[str] | Journal",
        description: dict[str, Any],
        ledger: Ledger | SharedLedger | None,
        reserve: Callable[[], Any],
    ) -> None:
        self._payer = None if ledger is None else _population(ledger)
        self.journal = place if isinstance(place, Journal) else Journal(place)
        self._ours = self.journal is not place
        self._description, self._reserve = description, reserve
        self._book: Reservation | None = None

    def __enter__(self) -> "Reservation | None":
        try:
            self.journal.begin({**self._description, "ledger": None if self._payer is None else self._payer.name})
            self._book = None if self._payer is None else self._reservation(self._payer)
        except BaseException:
            nothing = self.journal.payer is None and not self.journal.entries
            self.journal.remove() if nothing else self.journal.close()
            raise
        return self._book

    def gate(self, opened: Gate) -> JournalledGate:
        """The gate of the fit, as it would be without a checkpoint, with a memory."""
        return JournalledGate(opened.ledger, opened.randomness, journal=self.journal, book=opened.ledger)

    def done(self) -> None:
        """There is a board: the journal is not needed any more."""
        if self._ours:
            self.journal.remove()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            if self._book is not None:
                self._book.settle()  # an error here keeps the journal: the same fit again finishes what is left
            if self._ours:
                self.journal.close()
            return
        useless = not self.journal.entries or isinstance(problem, InputError | BudgetError)
        try:
            if useless and self._book is not None:
                self._book.settle()
            if useless:
                self.journal.remove()
        except (LedgerError, BudgetError) as unsettled:
            problem.add_note(str(unsettled))
            useless = False
        if not useless:
            problem.add_note(self.in_words())
        self.journal.close()

    def in_words(self) -> str:
        """What an interrupted fit leaves, and what to do with it."""
        kept = (
            f"{len(self.journal.entries)} releases are kept in {self.journal.path}: the same again goes on from there."
        )
        return f"{kept} {self.journal.how_to_give_up()}".strip()

    def _reservation(self, payer: "LedgerPopulation") -> "Reservation":
        before = self.journal.payer
        begun = before is not None and (self.journal.entries or before[1] in payer.account().open)
        if before is None or not begun:
            booked: Reservation = self._reserve()
            self.journal.pay_from(payer.name, booked.id)
            return booked
        from commonground.ledger.resumed import resume

        claim, known = secrets.token_hex(16), tuple(self.journal.claims)
        self.journal.claim(claim)
        n_written = sum(entry.charged for entry in self.journal.entries)
        return resume(payer, before[1], known, claim, n_written)


def description_of(
    model: Any, people: Population, personal: PersonalBudgets | None, budget: Budget | PureBudget
) -> dict[str, Any]:
    """What an estimator's fit on these people is: a resumed one must have all of it in common. Their rows are not read.

    They must be the same people, or charges would be theirs who have left.
    """
    if people.kind == "federation":
        raise InputError(
            "a federation keeps no checkpoint: its nodes add noise and pay by themselves, and would do both again. Fit "
            "without checkpoint=."
        )
    return {
        "estimator": type(model).__name__,
        **{key: _told(value) for key, value in sorted(model.get_params(deep=False).items()) if key not in _ANY},
        "declared": [float(budget.epsilon), float(budget.delta)],
        "people": people.n_users,
        "features": people.n_features,
        "names of features": _checksum(people.feature_names),
        "sparse": people.sparse,
        # Cells become numbers by it, and labels are learned in a unit of their range: another one would mix units.
        "schema": None if people.schema is None else _checksum(json.dumps(people.schema.to_json(), sort_keys=True)),
        "who they are": _checksum(people.ids) if people.rows_are_here else None,
        "their own budgets": None if personal is None else _checksum(personal.epsilons),
        "start": None if model._start is None else model._start.fingerprint,
        "version": version("commonground"),
    }


def _told(value: Any) -> str | None:
    return _checksum(value) if isinstance(value, np.ndarray) else repr(value)


def _checksum(values: Any) -> str | None:
    """Short enough for a message; of numbers by their bytes, of others by their text."""
    if values is None:
        return None
    array = np.asarray(values)
    octets = array.tobytes() if array.dtype.kind in "iuf" else "\0".join(map(str, array.tolist())).encode()
    return hashlib.sha256(array.dtype.kind.encode() + octets).hexdigest()[:16]


def _population(ledger: Ledger | SharedLedger) -> "LedgerPopulation":
    """Who pays; only then is a database loaded."""
    from commonground.ledger import Population as LedgerPopulation

    if not isinstance(ledger, LedgerPopulation):
        raise InputError("checkpoint= goes with the population of a DurableLedger, or with no ledger.")
    return ledger
