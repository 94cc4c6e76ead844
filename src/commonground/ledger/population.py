"""The budget that survives the process: reserve → charge → settle.

    reserve   books the whole budget of a fit, or refuses        (before any row is read; a refusal is written down, too)
    charge    records one release                                 (before its noise is drawn)
    settle    gives back what was reserved and not charged        (after the last release)

Each is one transaction, on the disk before the call returns. Now pull the plug anywhere:

- before ``reserve`` is committed: nothing was released, nothing is booked;
- between ``reserve`` and ``settle``: the reservation stays booked in full, and it covers every release the fit could make;
- inside ``charge``: the event is recorded or not, but its noise was not drawn yet, so nothing unrecorded was released;
- inside ``settle``: the reservation counts in full, or what was charged counts.

So what is booked is never below what was released. An operator may settle a dead fit's reservation: every release was
charged before it was made, so what was charged is enough. If the fit was not dead after all, its next charge is refused.
"""

import gc
import json
import os
import secrets
import socket
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import Event
from commonground.accounting.sampled import SampledGaussianEvent
from commonground.errors import BudgetError, LedgerError, PrivacyWarning
from commonground.ledger import InMemoryLedger
from commonground.ledger.account import Account
from commonground.ledger.chain import LedgerEntry
from commonground.ledger.in_words import left_in_words, summary, too_many_rounds, too_much
from commonground.ledger.releases import as_charged
from commonground.ledger.rounds import rounds_in
from commonground.ledger.rows import append_event, event_rows, read_account
from commonground.ledger.storage import Storage


class Population:
    """One group of people and their budget. Give it to ``fit(..., ledger=...)``; safe in many processes at once."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self.name = name
        # What this process has verified itself. Later transactions read on from here, and notice a ledger that has
        # gone back behind it. Immutable, so threads may share it.
        self._known = Account.before_all(name)

    def account(self) -> Account:
        """What is spent, booked and left, after verifying every event this process has not seen yet."""
        known = self._known  # taken before the snapshot: another thread may move it on meanwhile
        with self._storage.reading() as connection:
            self._known = read_account(connection, known)
        return self._known

    def reserve(self, budget: Budget | PureBudget, purpose: str = "") -> "Reservation":
        """Book a fit's whole budget, or raise ``BudgetError`` with nothing booked."""
        whole = budget.whole

        def decide(account: Account) -> dict[str, Any]:
            if not account.affords(type(whole), whole.exact):
                raise too_much(account, budget)
            return whole.as_booking()

        return self._book(budget, purpose, decide)

    def reserve_steps(self, budget: Budget, events: Sequence[SampledGaussianEvent], purpose: str = "") -> "Reservation":
        """Book all steps of a fit that draws Poisson samples, or raise ``BudgetError`` with nothing booked.

        The first such fit says what kind of rounds these people pay for; see ``rounds.py``.
        """
        for event in events:
            as_charged(event)
        one, rounds = rounds_in(events)
        known = self.account()
        if not known.booked_rounds and known.budget is not None and known.budget.delta:
            one.most(known.smallest, known.budget.delta)  # takes seconds; here, so that nobody waits for them below

        def decide(account: Account) -> dict[str, Any]:
            assert account.budget is not None
            if not account.booked_rounds:
                affordable = one.most(account.smallest, account.budget.delta) if account.budget.delta else 0
                account = account.with_round(one, affordable)
            if not account.affords_rounds(one, rounds):
                raise too_many_rounds(account, budget, one)
            return {"round": one.to_json(), "rounds": rounds, "most_rounds": account.most_rounds}

        return self._book(budget, purpose, decide)

    def paid_before(self, budget: Budget, events: Sequence[SampledGaussianEvent]) -> "PaidBefore | None":
        """What a resumed run is charged to, where exactly its steps, of the run that their name tells, were charged."""
        releases = [as_charged(event) for event in events]
        charges = [(json.loads(body), hash_) for body, hash_ in self.events()]
        charges = [(event, hash_) for event, hash_ in charges if event["kind"] == "charge"]
        if any(all(event["event"] != release for event, _ in charges) for release in releases):
            return None
        last, head = [(event, hash_) for event, hash_ in charges if event["event"] in releases][-1]
        return PaidBefore(budget, self, LedgerEntry(self.name, last["reservation"], last["seq"], head))

    def charge(self, reservation: str, event: Event, claim: str = "") -> LedgerEntry:
        """Record one release against a reservation; on the disk when this returns, and only then may noise be drawn."""
        release = as_charged(event)

        def decide(account: Account) -> dict[str, Any]:
            if reservation not in account.open:
                raise BudgetError(
                    f"{event.name!r} was not released: reservation {reservation} is not open (any more). It was settled, "
                    "perhaps by an operator who took this fit for dead. Fit again with a new reservation."
                )
            self._require_claim(account, reservation, claim)
            try:  # the rule by which it will be read
                account.with_charge(reservation, release)
            except ValueError as problem:
                raise BudgetError(f"{event.name!r} was not released: {problem}.") from None
            return {"kind": "charge", "reservation": reservation, "event": release}

        after = self._write(decide)
        return LedgerEntry(self.name, reservation, after.count, after.head)

    def settle(self, reservation: str, claim: str | None = None) -> None:
        """Give back what a reservation did not charge. Safe for a dead fit, and for a live one: see the module's top.

        A fit says by which ``claim`` it goes on (``resumed.py``), and is refused where another process has taken over.
        """

        def decide(account: Account) -> dict[str, Any]:
            if reservation not in account.open:
                raise LedgerError(
                    f"population {self.name!r} has no open reservation {reservation!r}. "
                    f"Open: {', '.join(account.open) or 'none'}; see `commonground ledger show`."
                )
            if claim is not None:
                self._require_claim(account, reservation, claim)
            return {"kind": "settle", "reservation": reservation, "by": this_process()}

        self._write(decide)

    def published(self, reservation: str, fingerprint: str) -> None:
        """Write down which board a fit has published. A board that is lost for it would waste what it cost, so: a warning."""
        try:
            self._write(lambda account: {"kind": "board", "reservation": reservation, "board": fingerprint})
        except LedgerError as unwritten:
            advice = f"The ledger does not name the board of reservation {reservation}: {unwritten}"
            warnings.warn(advice, PrivacyWarning, stacklevel=4)

    def left_in_words(self) -> str:
        return left_in_words(self.account())

    def summary(self) -> dict[str, Any]:
        """What is spent, booked and left, for machines."""
        return summary(self.account())

    def events(self) -> list[tuple[str, str]]:
        """(body, hash) of every event, verified."""
        with self._storage.reading() as connection:
            read_account(connection, Account.before_all(self.name))
            return list(event_rows(connection, self.name, 0))

    def contains_head(self, head: str) -> bool:
        """Whether an earlier head (from an export, say) is still part of the chain: nothing after it was cut off."""
        return head in {hash_ for _, hash_ in self.events()}

    def _require_claim(self, account: Account, reservation: str, claim: str) -> None:
        if account.open[reservation].claim != claim:
            raise BudgetError(
                f"another process has resumed the fit of reservation {reservation} of population {self.name!r}; this one must "
                "not go on, or its releases would be paid for once and made twice. Nothing of it is published."
            )

    def _book(
        self, budget: Budget | PureBudget, purpose: str, decide: Callable[[Account], dict[str, Any]]
    ) -> "Reservation":
        name = secrets.token_hex(8)
        asked = {
            "epsilon": float(budget.epsilon),
            "delta": float(budget.delta),
            "purpose": purpose,
            "by": this_process(),
        }
        event = {"kind": "reserve", "reservation": name, **asked}
        try:
            return Reservation(self, name, self._write(lambda account: {**event, **decide(account)}))
        except BudgetError as refusal:
            self._refused(asked, refusal)
            raise

    def _refused(self, asked: dict[str, Any], refusal: BudgetError) -> None:
        with suppress(LedgerError):  # that it cannot be written down must not hide why it was refused
            self._write(lambda account: {"kind": "refused", **asked, "why": str(refusal)})

    def _write(self, decide: Callable[[Account], dict[str, Any]]) -> Account:
        return self._write_with(lambda _, account: decide(account))

    def _write_with(self, decide: Callable[[Connection, Account], dict[str, Any]]) -> Account:
        known = self._known
        with self._storage.writing() as connection:  # everybody else waits here: nobody decides on an old account
            account = read_account(connection, known, lock=True)
            after = append_event(connection, account, decide(connection, account))
        self._known = after
        return after


class Reservation:
    """The booked budget of one fit: a ledger for the gate. Leaving the ``with`` block settles it."""

    def __init__(self, population: Population, name: str, reserved: Account) -> None:
        self.population = population
        self.id = name
        self.entry = LedgerEntry(population.name, name, reserved.count, reserved.head)
        self.claim = ""  # of a process that has resumed an interrupted fit

    def charge(self, event: Event) -> None:
        self.entry = self.population.charge(self.id, event, self.claim)

    def published(self, fingerprint: str) -> None:
        self.population.published(self.id, fingerprint)

    def settle(self) -> None:
        self.population.settle(self.id, self.claim)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Also after an error: every release that was made has been charged, so the rest can go back.
        if isinstance(problem, KeyboardInterrupt):
            # It may have come just after a transaction was begun, which the frames below hold open until they forget it.
            traceback.clear_frames(trace)
            gc.collect()
        try:
            self.settle()
        except LedgerError as unsettled:
            advice = f"Reservation {self.id} stays booked in full until it is settled: {unsettled}"
            if problem is not None:
                problem.add_note(advice)
            else:  # the releases are made and paid for; losing the model over a refund would waste them
                warnings.warn(advice, PrivacyWarning, stacklevel=3)


class PaidBefore(InMemoryLedger):
    """What a resumed run is charged to: the ledger was paid when the run began, and knows it by its entry."""

    def __init__(self, budget: Budget, population: Population, entry: LedgerEntry) -> None:
        super().__init__(budget)
        self.population, self.entry = population, entry

    def published(self, fingerprint: str) -> None:
        self.population.published(self.entry.reservation, fingerprint)


def this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
