"""A reservation whose fit was interrupted, and is continued by another process from its journal.

The k-th release of the fit is charged unless the ledger has a k-th charge of this reservation, which must be of exactly this
release. There is at most one such charge more than the journal has values: the process ended between the two, and nobody has seen
that value.

**One fit goes on, not two.** A journal can be copied, and a process taken for dead may live. So whoever resumes writes a claim, a
random name, into the journal and then into the ledger; from then on the ledger refuses charges, and the settlement that every fit
ends with, by any other claim, and a journal that does not know the last one. What the others have drawn is published by nobody.
"""

import json
from collections.abc import Sequence
from typing import Any

from commonground.accounting.events import Event
from commonground.errors import BudgetError, CheckpointError, LedgerError
from commonground.ledger.account import Account
from commonground.ledger.chain import LedgerEntry
from commonground.ledger.population import Population, Reservation
from commonground.ledger.releases import as_charged


class ResumedReservation(Reservation):
    """The reservation of an interrupted fit: a ledger for the gate, which knows what was charged before, in order.

    ``entry`` is of the last charge, ``claim`` that by which this process goes on. Where it is not open, the interrupted fit had
    settled it: then all of its values are known, and nothing can be charged.
    """

    def __init__(
        self, population: Population, entry: LedgerEntry, claim: str, charged: Sequence[dict[str, Any]], is_open: bool
    ) -> None:
        self.population, self.id, self.entry, self.claim = population, entry.reservation, entry, claim
        self.is_open = is_open
        self._on_book = list(charged)

    def charge(self, event: Event) -> None:
        """Record a release, unless it is the next one on the book."""
        if not self._on_book:
            super().charge(event)
            return
        paid = self._on_book[0]
        if paid != as_charged(event):
            raise BudgetError(
                f"{event.name!r} was not released: for reservation {self.id} the ledger has {paid['name']!r} on its book at "
                "this place. This is not the fit that was interrupted. Settle the reservation, and fit again."
            )
        self._on_book.pop(0)

    def settle(self) -> None:
        """Give back what is left, unless that was done before."""
        if self.is_open:
            super().settle()


def resume(
    population: Population, reservation: str, claims: Sequence[str], claim: str, n_written: int
) -> ResumedReservation:
    """Go on with a reservation of an interrupted fit, as its only user from here on.

    ``claims`` are those that the journal knows, and the ledger's last one must be among them; ``claim`` is the new one, in the
    journal already. ``n_written`` charged releases are in the journal with their value.
    """

    def decide(account: Account) -> dict[str, Any]:
        booking = account.open[reservation]
        _require_known(population, reservation, booking.claim, claims)
        _require_at_most_one_more(population, reservation, booking.charges, n_written)
        return {"kind": "claim", "reservation": reservation, "claim": claim}

    is_open = reservation in population.account().open
    if is_open:
        population._write(decide)
    events = [(json.loads(body), hash_) for body, hash_ in population.events()]
    events = [(event, hash_) for event, hash_ in events if event.get("reservation") == reservation]
    if not events:
        raise LedgerError(
            f"population {population.name!r} has no reservation {reservation}, from which the interrupted fit was paid. This is "
            "another ledger, or an older copy of it: go on with the newest there is."
        )
    charges = [(event, hash_) for event, hash_ in events if event["kind"] == "charge"]
    if not is_open:
        last = [event["claim"] for event, _ in events if event["kind"] == "claim"][-1:] or [""]
        _require_known(population, reservation, last[0], claims)
        if len(charges) != n_written:
            raise CheckpointError(
                f"reservation {reservation} of population {population.name!r} was settled, with {len(charges)} releases charged "
                f"of which {n_written} are in the checkpoint: the fit cannot go on. Remove the file and fit again; what was "
                "spent stays spent."
            )
    last_event, head = (charges or events[:1])[-1]
    entry = LedgerEntry(population.name, reservation, last_event["seq"], head)
    return ResumedReservation(population, entry, claim, [event["event"] for event, _ in charges], is_open)


def _require_known(population: Population, reservation: str, last: str, claims: Sequence[str]) -> None:
    if last not in ("", *claims):
        raise CheckpointError(
            f"the fit of reservation {reservation} of population {population.name!r} was resumed from another copy of this "
            "checkpoint. Only one of them can go on, or releases would be paid for once and made twice. Nothing was released. "
            "Use the newer file."
        )


def _require_at_most_one_more(population: Population, reservation: str, charges: int, n_written: int) -> None:
    if not n_written <= charges <= n_written + 1:
        raise CheckpointError(
            f"the ledger has {charges} releases of reservation {reservation} of population {population.name!r}, and the "
            f"checkpoint {n_written}: one of them is an older copy. Nothing was released. Go on with the newest of both."
        )
