"""What the events of one population say: read in order, link by link, into an account. Pure; no database here.

The events are the only truth. An account is never stored: it is what follows from them, so it cannot disagree with them.

    hash of event n = SHA-256(hash of event n - 1, canonical JSON of event n)
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget, budget_of
from commonground.accounting.costs import cost_of, is_count, kind_of_booking
from commonground.accounting.gaussian import gaussian_mu
from commonground.errors import InputError, LedgerError, are_texts
from commonground.ledger.account import Account, OpenReservation
from commonground.ledger.persons import Batch, PersonalFit, Persons
from commonground.ledger.rounds import Round

_SLACK = 1e-9  # relative, of a limit that is computed and not written down


@dataclass(frozen=True)
class LedgerEntry:
    """Where a fit is written down: its reservation, and the chain as it stood after the fit's last charge."""

    population: str
    reservation: str
    sequence: int  # of the event that the chain ended with
    head: str  # the hash of that event: says everything before it, too

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "LedgerEntry":
        entry = cls(**document)
        texts = entry.population, entry.reservation, entry.head
        if not are_texts(texts) or type(entry.sequence) is not int or entry.sequence < 1:
            raise ValueError("not an entry of a ledger")
        return entry


def follow(account: Account, body: str, stored_hash: str) -> Account:
    """The account after one more event, or ``LedgerError`` if the event does not follow."""
    linked = link(account.head, body) if isinstance(body, str) else None  # SQLite's columns take any type
    if linked is None or linked != stored_hash:
        raise doubt(account.population, f"the hash chain is broken at event {account.count + 1}")
    try:
        event = json.loads(body, parse_constant=_no_constants)
        if (event["population"], event["seq"]) != (account.population, account.count + 1):
            raise ValueError("out of place")
        after = _AFTER[event["kind"]](account, event)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
        raise doubt(
            account.population, f"event {account.count + 1} cannot be understood ({type(problem).__name__}: {problem})"
        ) from None
    return replace(after, head=linked, count=account.count + 1)


def canonical(event: Mapping[str, Any]) -> str:
    """One spelling for each event: sorted keys, no spaces, ASCII only, shortest floats; NaN and infinity are refused."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def link(previous: str, body: str) -> str:
    return hashlib.sha256((previous + body).encode()).hexdigest()


def personal_distribution(budgets: Mapping[float, int] | None, budget: Budget | PureBudget) -> list[list[float]]:
    """[ε, number of people, μ] for each personal ε, smallest first; each must be within the total."""
    rows: list[list[float]] = []
    for epsilon, people in sorted((budgets or {}).items()):
        own = budget_of(epsilon, budget.delta)
        if epsilon > budget.epsilon or people < 1:
            raise InputError(
                f"personal budgets must be ε from 0 to the population's {budget.epsilon:g} with at least one person "
                f"each, got ε = {epsilon:g} for {people} people. Open the population with the largest personal ε."
            )
        rows.append([float(epsilon), int(people), own.mu])
    return rows


def doubt(population: str, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger of population {population!r} cannot be believed: {why}. Nothing was released. Stop training on "
        "these people; `commonground ledger verify` repeats this check; go back to a backup that is not older than the "
        "last release (its last hash stands in your latest export)."
    )


def _opened(account: Account, event: dict[str, Any]) -> Account:
    if account.budget is not None:
        raise ValueError("opened twice")
    budget = budget_of(event["epsilon"], event["delta"])
    # μ is written down, not recomputed, so that its meaning does not change with a later version's arithmetic; but it
    # must be what (ε, δ) allows.
    shares = [(budget.epsilon, event["mu"]), *((epsilon, mu) for epsilon, _, mu in event["personal"])]
    for epsilon, mu in shares:
        if not mu <= (gaussian_mu(epsilon, budget.delta) * (1 + 1e-9) if budget.delta else 0.0):
            raise ValueError(f"μ = {mu} is more than ε = {epsilon} allows")
    return replace(
        account,
        budget=budget,
        personal=tuple((float(epsilon), int(people)) for epsilon, people, _ in event["personal"]),
        # Every release costs everybody the same μ, so the person with the smallest budget decides for all.
        limit=min(cost_of(mu) for _, mu in shares) if budget.delta else Fraction(0),
        persons=Persons.from_json(event["people"]) if "people" in event else None,
    )


def _reserved(account: Account, event: dict[str, Any]) -> Account:
    if "round" in event:
        return _reserved_rounds(account, event)
    budget_of(event["epsilon"], event["delta"])  # makes sense
    kind = kind_of_booking(event)
    booking = replace(_booking(event), kind=kind, cost=kind.of_booking(event))
    if account.budget is None or booking.id in account.open or not account.affords(kind, booking.cost, _SLACK):
        raise ValueError("more was reserved than was left")
    if account.persons is None:
        if "shares" in event:
            raise ValueError("nobody has an account of her own here")
        return account.with_open(booking)
    if any(fit.id == booking.id for fit in account.persons.fits):
        raise ValueError("reserved twice")
    fit = PersonalFit.from_json(event, booking.cost)  # without shares nobody would pay
    return replace(account, persons=account.persons.with_fit(fit)).with_open(replace(booking, by_shares=True))


def _reserved_rounds(account: Account, event: dict[str, Any]) -> Account:
    one, rounds, most = Round.from_json(event["round"]), event["rounds"], event["most_rounds"]
    if account.budget is None or event["reservation"] in account.open or not is_count(rounds):
        raise ValueError("not a reservation of rounds")
    if not account.booked_rounds and not one.epsilon(most, account.budget.delta) <= account.smallest * (1 + _SLACK):
        raise ValueError(f"{most} rounds are more than the budget affords")
    account = account.with_round(one, most)
    if not account.affords_rounds(one, rounds):
        raise ValueError("more was reserved than was left")
    return account.with_open(replace(_booking(event), rounds=rounds))


def _booking(event: dict[str, Any]) -> OpenReservation:
    return OpenReservation(event["reservation"], *(event[name] for name in ("epsilon", "delta", "purpose", "by", "at")))


def _charged(account: Account, event: dict[str, Any]) -> Account:
    return account.with_charge(event["reservation"], event["event"])


def _claimed(account: Account, event: dict[str, Any]) -> Account:
    """An interrupted fit is resumed by the process of this claim; nothing is booked by it."""
    if not isinstance(event["claim"], str) or not event["claim"]:
        raise ValueError("not a claim")
    return account.with_open(replace(account.open[event["reservation"]], claim=event["claim"]))


def _settled(account: Account, event: dict[str, Any]) -> Account:
    return account.with_settled(event["reservation"])


def _joined(account: Account, event: dict[str, Any]) -> Account:
    """More people have got accounts of their own."""
    if account.persons is None:
        raise ValueError("nobody has an account of her own here")
    return replace(account, persons=account.persons.with_batch(Batch.from_json(event)))


def _left(account: Account, event: dict[str, Any]) -> Account:
    """Some take no part any more; what they have paid stays paid."""
    if account.persons is None:
        raise ValueError("nobody has an account of her own here")
    return replace(account, persons=account.persons.without(event["people"], event["positions"]))


def _named_board(account: Account, event: dict[str, Any]) -> Account:
    """What a fit has published; nothing is booked by it."""
    if not are_texts((event["reservation"], event["board"])):
        raise ValueError("not the name of a board")
    return account


def _refused(account: Account, event: dict[str, Any]) -> Account:
    """A fit that was turned away; nothing is booked by it."""
    if account.budget is None or not are_texts((event["purpose"], event["by"], event["why"])):
        raise ValueError("not a refusal")
    budget_of(event["epsilon"], event["delta"])
    return account


def _no_constants(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_AFTER = {
    "open": _opened,
    "reserve": _reserved,
    "charge": _charged,
    "claim": _claimed,
    "settle": _settled,
    "board": _named_board,
    "refused": _refused,
    "join": _joined,
    "leave": _left,
}
