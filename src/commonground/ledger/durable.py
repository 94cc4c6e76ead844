"""The budget that survives the process: reserve → charge → settle.

    reserve   books the whole budget of a fit, or refuses        (before any row is read)
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

import json
import os
import secrets
import socket
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, func, insert, select, update

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import EVENTS, Event
from commonground.accounting.sampled import SampledGaussianEvent
from commonground.errors import BudgetError, InputError, PrivacyWarning
from commonground.ledger import InMemoryLedger, schema
from commonground.ledger.chain import (
    Account,
    LedgerEntry,
    LedgerError,
    canonical,
    cost_of,
    costs,
    doubt,
    link,
    mu_of,
    personal_distribution,
    plain,
    with_steps,
)
from commonground.ledger.rounds import Round, rounds_in
from commonground.ledger.storage import PostgresStorage, Storage, storage_at

EXPORT_VERSION = 1
_CREATION_LOCK = 7_216_301_994  # any number; the same for everybody


class DurableLedger:
    """The database of budgets: a SQLite file, or PostgreSQL by URL. Refuses on doubt.

    Parameters
    ----------
    address : a file (``budget.db`` or ``sqlite:///budget.db``), or ``postgresql://user@host/database``.
    create : make the ledger where there is none.
    timeout : seconds to wait for another process that holds the database.

    Examples
    --------
    >>> import tempfile, commonground as cg
    >>> file = tempfile.mkdtemp() + "/budget.db"
    >>> customers = DurableLedger(file, create=True).open_population("customers", Budget(epsilon=2.0, delta=1e-6))
    >>> users, _ = cg.datasets.make_shared_subspace(n_users=300, n_features=5, seed=1)
    >>> model = cg.SingleModel(epsilon=1.5).fit(users, ledger=customers)
    >>> model = cg.SingleModel(epsilon=1.5).fit(users, ledger=customers)     # the same people: costs add up
    Traceback (most recent call last):
    commonground.errors.BudgetError: population 'customers' has ε = 1.2317 left of ε = 2 at δ = 1e-06, but this fit asks
    for (ε = 1.5, δ = 1e-06). Nothing was released. Ask for less, or stop: these people have given what was agreed.
    """

    def __init__(self, address: str | os.PathLike[str], *, create: bool = False, timeout: float = 60.0) -> None:
        self._storage = storage_at(address, timeout)
        if create:
            self._storage.create()
        with self._storage.reading() as connection:
            version = self._checked_version(connection, create)
        if version != schema.latest_version():
            self._migrate(create)
        if isinstance(self._storage, PostgresStorage):
            self._storage.check()

    @property
    def name(self) -> str:
        return self._storage.name

    def open_population(
        self, name: str, budget: Budget | PureBudget, personal: Mapping[float, int] | None = None
    ) -> "Population":
        """Declare a group of people and everything that may ever be spent on them.

        ``personal`` counts people by a smaller ε of their own. Every release costs everybody the same, so the smallest
        of them is what can be spent on this population.
        """
        name = population_name(name)
        opening = {
            "kind": "open",
            "epsilon": float(budget.epsilon),
            "delta": float(budget.delta),
            "mu": budget.mu if isinstance(budget, Budget) else 0.0,
            "personal": personal_distribution(personal, budget),
        }
        account = Account.before_all(name)
        with self._storage.writing() as connection:
            _alone(connection)
            if connection.execute(select(schema.populations).where(schema.populations.c.name == name)).first():
                raise LedgerError(
                    f"population {name!r} is open already in {self.name}. A budget is declared once; people whose "
                    "budget is to grow are a decision for a new name, and the old spend still counts for them."
                )
            for other in connection.execute(select(schema.populations.c.name)).scalars():
                if _alike(other) == _alike(name):
                    raise LedgerError(
                        f"population {name!r} would differ from the open {other!r} by capitals, spaces or the spelling of "
                        "letters only: people of one name must not get two budgets by a slip. Choose a clearly different name."
                    )
            leftover = select(func.count()).select_from(schema.events).where(schema.events.c.population == name)
            if connection.execute(leftover).scalar_one():
                raise doubt(name, "it has events but no entry")
            connection.execute(insert(schema.populations).values(name=name, n_events=0, head=account.head))
            _append(connection, account, opening)
        return self.population(name)

    def population(self, name: str) -> "Population":
        """An open population, its whole chain verified."""
        if name not in self.populations():  # which holds names that were given before they were looked at as closely
            name = population_name(name)
        found = Population(self._storage, name)
        found.account()
        return found

    def populations(self) -> list[str]:
        with self._storage.reading() as connection:
            return list(connection.execute(select(schema.populations.c.name).order_by("name")).scalars())

    def verify(self) -> dict[str, Account]:
        """Check the database and every event of every population from the first on."""
        self._storage.check()
        with self._storage.reading() as connection:
            known = set(connection.execute(select(schema.populations.c.name)).scalars())
            for stray in set(connection.execute(select(schema.events.c.population).distinct()).scalars()) - known:
                raise doubt(stray, "it has events but no entry")
            return {name: _read(connection, Account.before_all(name)) for name in sorted(known)}

    def export(self) -> dict[str, Any]:
        """Everything, verified, as one JSON document: the events exactly as they were hashed."""
        self.verify()
        document: dict[str, Any] = {"export_version": EXPORT_VERSION, "schema_version": schema.latest_version()}
        with self._storage.reading() as connection:
            document["populations"] = [
                {
                    **summary(_read(connection, Account.before_all(name))),
                    "events": [{"hash": hash_, "body": body} for body, hash_ in _rows(connection, name, 0)],
                }
                for name in connection.execute(select(schema.populations.c.name).order_by("name")).scalars().all()
            ]
        return document

    def _checked_version(self, connection: Connection, create: bool) -> int:
        version = schema.read_version(connection)
        if version is None and not create:
            raise LedgerError(f"{self.name} holds no ledger yet. Create it with `commonground ledger open`.")
        if version == -1:
            raise LedgerError(f"{self.name} has no readable schema version: it is damaged. Go back to a backup.")
        if version is not None and version > schema.latest_version():
            raise LedgerError(
                f"{self.name} has schema version {version}, newer than the {schema.latest_version()} known here. "
                "Update commonground; an older version might miscount."
            )
        return version or 0

    def _migrate(self, create: bool) -> None:
        with self._storage.writing() as connection:
            _alone(connection)
            version = self._checked_version(connection, create)  # again: somebody may have been faster
            if version != schema.latest_version():
                schema.migrate(connection, version)


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
            self._known = _read(connection, known)
        return self._known

    def reserve(self, budget: Budget | PureBudget, purpose: str = "") -> "Reservation":
        """Book a fit's whole budget, or raise ``BudgetError`` with nothing booked."""
        name, mu = secrets.token_hex(8), budget.mu if isinstance(budget, Budget) else 0.0

        def decide(account: Account) -> dict[str, Any]:
            if not account.affords(
                cost_of(mu) if mu else Fraction(0), Fraction(0) if mu else plain(float(budget.epsilon))
            ):
                raise self._too_much(account, budget)
            return {
                "kind": "reserve",
                "reservation": name,
                "epsilon": float(budget.epsilon),
                "delta": float(budget.delta),
                "mu": mu,
                "purpose": purpose,
                "by": f"{socket.gethostname()}:{os.getpid()}",
            }

        return Reservation(self, name, self._write(decide))

    def reserve_steps(self, budget: Budget, events: Sequence[SampledGaussianEvent], purpose: str = "") -> "Reservation":
        """Book all steps of a fit that draws Poisson samples, or raise ``BudgetError`` with nothing booked.

        The first such fit says what kind of rounds these people pay for; see ``rounds.py``.
        """
        for event in events:
            as_charged(event)
        name, (one, rounds) = secrets.token_hex(8), rounds_in(events)
        known = self.account()
        if not known.booked_rounds and known.budget is not None and known.budget.delta:
            one.most(
                known.smallest, known.budget.delta
            )  # takes seconds; asked here so that nobody waits for them below

        def decide(account: Account) -> dict[str, Any]:
            assert account.budget is not None
            if not account.booked_rounds:
                affordable = one.most(account.smallest, account.budget.delta) if account.budget.delta else 0
                account = account.with_round(one, affordable)
            if not account.affords_rounds(one, rounds):
                raise self._too_many(account, budget, one)
            return {
                "kind": "reserve",
                "reservation": name,
                "epsilon": float(budget.epsilon),
                "delta": float(budget.delta),
                "round": one.to_json(),
                "rounds": rounds,
                "most_rounds": account.most_rounds,
                "purpose": purpose,
                "by": f"{socket.gethostname()}:{os.getpid()}",
            }

        return Reservation(self, name, self._write(decide))

    def paid_before(self, budget: Budget, events: Sequence[SampledGaussianEvent]) -> "PaidBefore | None":
        """What a resumed run is charged to, where exactly its steps, of the run that their name tells, were charged."""
        releases = [as_charged(event) for event in events]
        charges = [(json.loads(body), hash_) for body, hash_ in self.events()]
        charges = [(event, hash_) for event, hash_ in charges if event["kind"] == "charge"]
        if any(all(event["event"] != release for event, _ in charges) for release in releases):
            return None
        last, head = [(event, hash_) for event, hash_ in charges if event["event"] in releases][-1]
        return PaidBefore(budget, self, LedgerEntry(self.name, last["reservation"], last["seq"], head))

    def charge(self, reservation: str, event: Event) -> LedgerEntry:
        """Record one release against a reservation; on the disk when this returns, and only then may noise be drawn."""
        release = as_charged(event)

        def decide(account: Account) -> dict[str, Any]:
            if reservation not in account.open:
                raise BudgetError(
                    f"{event.name!r} was not released: reservation {reservation} is not open (any more). It was settled, "
                    "perhaps by an operator who took this fit for dead. Fit again with a new reservation."
                )
            booking = account.open[reservation]
            if booking.rounds or event.cost.steps:
                try:
                    with_steps(account, booking, release)
                except (KeyError, ValueError) as problem:
                    raise BudgetError(
                        f"{event.name!r} is not among the steps reserved for this fit: {problem}. Nothing was released."
                    ) from None
                return {"kind": "charge", "reservation": reservation, "event": release}
            if booking.pure and not event.cost.epsilon:
                raise BudgetError(
                    f"{event.name!r} has Gaussian noise, but its fit reserved ε = {booking.epsilon:g} with δ = 0. Nothing was "
                    "released; declare a delta above 0."
                )
            cost, pure = costs(release, booking)
            if not (booking.charged + cost <= booking.cost and booking.charged_pure + pure <= booking.pure):
                asked, left = (
                    (f"ε = {float(pure):.4g}", f"ε = {float(booking.pure - booking.charged_pure):.4g}")
                    if booking.pure
                    else (f"μ = {mu_of(cost):.4g}", f"μ = {mu_of(booking.cost - booking.charged):.4g}")
                )
                raise BudgetError(
                    f"{event.name!r} costs {asked}, but {left} is left "
                    f"of the ε = {booking.epsilon:g} (δ = {booking.delta:g}) reserved for this fit. Nothing was released; "
                    "declare a larger epsilon or publish less."
                )
            return {"kind": "charge", "reservation": reservation, "event": release}

        after = self._write(decide)
        return LedgerEntry(self.name, reservation, after.count, after.head)

    def settle(self, reservation: str) -> None:
        """Give back what a reservation did not charge. Safe for a dead fit, and for a live one: see the module's top."""

        def decide(account: Account) -> dict[str, Any]:
            if reservation not in account.open:
                raise LedgerError(
                    f"population {self.name!r} has no open reservation {reservation!r}. "
                    f"Open: {', '.join(account.open) or 'none'}; see `commonground ledger show`."
                )
            return {"kind": "settle", "reservation": reservation, "by": f"{socket.gethostname()}:{os.getpid()}"}

        self._write(decide)

    def published(self, reservation: str, fingerprint: str) -> None:
        """Write down which board a fit has published. A board that is lost for it would waste what it cost, so: a warning."""
        try:
            self._write(lambda account: {"kind": "board", "reservation": reservation, "board": fingerprint})
        except LedgerError as unwritten:
            advice = f"The ledger does not name the board of reservation {reservation}: {unwritten}"
            warnings.warn(advice, PrivacyWarning, stacklevel=4)

    def left_in_words(self) -> str:
        account = self.account()
        assert account.budget is not None
        delta, pure = account.budget.delta, bool(account.booked_pure) or not account.limit
        total = f"ε = {_down(account.smallest):g} at δ = {delta:g}"
        if account.booked_rounds:
            left = account.most_rounds - account.booked_rounds
            return f"Population {self.name!r} has {left:,} of {account.most_rounds:,} rounds of sampled training left of {total}."
        words = f"Population {self.name!r} has ε = {_down(account.epsilon_left):g} left of {total}"
        if pure:
            return f"{words}, for fits with δ = 0." if account.limit else f"{words}."
        return f"{words} (Gaussian costs add as squares, so these ε do not subtract)."

    def events(self) -> list[tuple[str, str]]:
        """(body, hash) of every event, verified."""
        with self._storage.reading() as connection:
            _read(connection, Account.before_all(self.name))
            return list(_rows(connection, self.name, 0))

    def contains_head(self, head: str) -> bool:
        """Whether an earlier head (from an export, say) is still part of the chain: nothing after it was cut off."""
        return head in {hash_ for _, hash_ in self.events()}

    def _write(self, decide: Callable[[Account], dict[str, Any]]) -> Account:
        known = self._known
        with self._storage.writing() as connection:  # everybody else waits here: nobody decides on an old account
            after = _append(connection, account := _read(connection, known, lock=True), decide(account))
        self._known = after
        return after

    def _too_many(self, account: Account, budget: Budget, one: Round) -> BudgetError:
        assert account.budget is not None
        if account.booked or account.booked_pure or (account.booked_rounds and one != account.round):
            return BudgetError(
                f"population {self.name!r} has paid for releases of another kind than these sampled steps (other noise, "
                "sampling, unit or neighbours, or no sampling at all): what both cost together is not known when the second "
                "is chosen by looking at the first. Nothing was released. Repeat the kind of training that was paid for, or "
                "divide the budget between two populations beforehand."
            )
        left = account.epsilon_of_rounds(max(account.most_rounds - account.booked_rounds, 0))
        return BudgetError(
            f"population {self.name!r} has ε = {_down(left):g} left of ε = {_down(account.smallest):g} at δ = "
            f"{account.budget.delta:g} for further training of this kind, but this fit asks for (ε = {budget.epsilon:g}, "
            f"δ = {budget.delta:g}). Nothing was released. Ask for less, or stop: these people have given what was agreed."
        )

    def _too_much(self, account: Account, budget: Budget | PureBudget) -> BudgetError:
        assert account.budget is not None
        if account.booked_rounds:
            return BudgetError(
                f"population {self.name!r} has paid for training on Poisson samples, which other releases are not added to. "
                "Nothing was released. Divide their budget between two populations beforehand."
            )
        if account.limit and (account.booked if isinstance(budget, PureBudget) else account.booked_pure):
            spent, asked = ("Gaussian", "pure") if account.booked else ("pure", "Gaussian")
            return BudgetError(
                f"population {self.name!r} has paid for {spent} fits, and this one is {asked}: the two kinds are not mixed, as "
                "choosing between them by looking at results would cost more than both. Nothing was released. Use one kind on "
                "these people, or divide their budget between two populations beforehand."
            )
        left = account.left_pure if isinstance(budget, PureBudget) else account.epsilon_of(account.left)
        total = account.smallest
        message = (
            f"population {self.name!r} has ε = {_down(left):g} left of ε = {_down(total):g} at δ = {account.budget.delta:g}, "
            f"but this fit asks for (ε = {budget.epsilon:g}, δ = {budget.delta:g}). Nothing was released. "
            "Ask for less, or stop: these people have given what was agreed."
        )
        if account.open:
            held = account.epsilon_of(account.booked - account.settled, account.booked_pure - account.settled_pure)
            message += (
                f" {len(account.open)} open reservations hold ε = "
                f"{_down(held):g} of it; if their process is dead, "
                "`commonground ledger settle` gives back what they did not use."
            )
        return BudgetError(message)


class Reservation:
    """The booked budget of one fit: a ledger for the gate. Leaving the ``with`` block settles it."""

    def __init__(self, population: Population, name: str, reserved: Account) -> None:
        self.population = population
        self.id = name
        self.entry = LedgerEntry(population.name, name, reserved.count, reserved.head)

    def charge(self, event: Event) -> None:
        self.entry = self.population.charge(self.id, event)

    def published(self, fingerprint: str) -> None:
        self.population.published(self.id, fingerprint)

    def settle(self) -> None:
        self.population.settle(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Also after an error: every release that was made has been charged, so the rest can go back.
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


def population_name(name: str) -> str:
    """A name as it is written down: Unicode's composed form, nothing that cannot be seen, no space at either end."""
    name = unicodedata.normalize("NFC", name) if isinstance(name, str) else name
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise InputError(
            f"a population needs a name of 1 to 200 printable characters without spaces at its ends, got {name!r}."
        )
    return name


def _alike(name: str) -> str:
    """What two names have in common that a person would read as the same."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def summary(account: Account) -> dict[str, Any]:
    """An account for machines; ε at the population's δ, each rounded against the spender."""
    assert account.budget is not None
    return {
        "population": account.population,
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "personal_budgets": [{"epsilon": epsilon, "people": people} for epsilon, people in account.personal],
        "epsilon_charged": account.epsilon_of_rounds(account.charged_rounds)
        or account.epsilon_of(account.charged, account.charged_pure),
        "epsilon_booked": account.epsilon_of_rounds(account.booked_rounds)
        or account.epsilon_of(account.booked, account.booked_pure),
        "epsilon_left": _down(account.epsilon_left),
        "epsilon_left_pure": _down(account.left_pure),  # for a fit with δ = 0
        "mu_squared_limit": float(account.limit),
        "mu_squared_charged": float(account.charged),
        "mu_squared_booked": float(account.booked),
        "rounds_booked": account.booked_rounds,  # of sampled training
        "rounds_limit": account.most_rounds,
        "settled_fits": account.fits,
        "open_reservations": [
            {
                "reservation": booking.id,
                "epsilon": booking.epsilon,
                "delta": booking.delta,
                "epsilon_charged": account.epsilon_of_rounds(account.rounds_charged(booking))
                or account.epsilon_of(booking.charged, booking.charged_pure),
                "charges": booking.charges,
                "purpose": booking.purpose,
                "by": booking.by,
                "at": booking.at,
            }
            for booking in account.open.values()
        ],
        "n_events": account.count,
        "head": account.head,
    }


def as_charged(event: Event) -> dict[str, Any]:
    """A release as it is written down; what cannot be accounted for is refused."""
    if type(event) not in EVENTS.values():
        raise BudgetError(
            f"a ledger knows what Gaussian, pure and sampled releases cost, not a {type(event).__name__}. Nothing released."
        )
    if event.simulated is not False:
        raise BudgetError(
            f"{event.name!r} has simulated noise, which protects nobody, so it must not touch real people's budget. "
            "Fit without simulation_seed, or without a ledger."
        )
    try:
        supported = event.supported
    except TypeError:  # what is no number
        supported = False
    if not supported:
        raise BudgetError(
            f"{event.name!r} claims a cost that its noise does not support ({event}). Nothing was released."
        )
    return {
        "kind": event.kind,
        "name": str(event.name),
        "sensitivity": float(event.sensitivity),
        "entries": int(event.entries),
        "simulated": False,
        **event.charged(),
    }


def _alone(connection: Connection) -> None:
    """PostgreSQL writers lock their population's row; whoever is about to make a row or a table locks a number."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_CREATION_LOCK)))


def _now() -> str:
    """For people who read the events. Their order is the sequence number: a clock that goes back changes nothing."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _rows(connection: Connection, population: str, after: int) -> Iterator[tuple[str, str]]:
    table = schema.events.c
    query = select(table.body, table.hash).where(table.population == population, table.seq > after).order_by(table.seq)
    yield from ((body, hash_) for body, hash_ in connection.execute(query))


def _read(connection: Connection, known: Account, lock: bool = False) -> Account:
    """The account as the database has it, continued from what is known; every link on the way is checked."""
    table = schema.populations.c
    query = select(table.n_events, table.head).where(table.name == known.population)
    end = connection.execute(query.with_for_update() if lock else query).first()  # SQLite: BEGIN IMMEDIATE has locked
    if end is None:
        if known.count:
            raise doubt(known.population, "its entry has disappeared")
        names = connection.execute(select(table.name).order_by(table.name)).scalars().all()
        raise LedgerError(
            f"there is no population {known.population!r} in this ledger. Open ones: "
            f"{', '.join(map(repr, names)) or 'none'}. "
            "Open it with `commonground ledger open`."
        )
    if not isinstance(end.n_events, int) or end.n_events < known.count:
        raise doubt(known.population, f"it ends at event {end.n_events}, but event {known.count} was there before")
    account = known
    for body, hash_ in _rows(connection, known.population, known.count):
        account = account.follow(body, hash_)
    if (account.count, account.head) != (end.n_events, end.head) or account.budget is None:
        raise doubt(
            known.population, f"{account.count} events lead to another end than the recorded one of {end.n_events}"
        )
    return account


def _append(connection: Connection, account: Account, event: dict[str, Any]) -> Account:
    """Add one event and move the recorded end, in the caller's transaction."""
    body = canonical({**event, "population": account.population, "seq": account.count + 1, "at": _now()})
    # The same rules as for reading: what a later reader would refuse is never written.
    after = account.follow(body, link(account.head, body))
    row = {"population": after.population, "seq": after.count, "hash": after.head, "body": body}
    connection.execute(insert(schema.events).values(**row))
    end = update(schema.populations).where(schema.populations.c.name == after.population)
    moved = connection.execute(end.values(n_events=after.count, head=after.head))
    if moved.rowcount != 1:
        raise doubt(after.population, "its entry has disappeared")
    return after


def _down(epsilon: float) -> float:
    """Four decimals, rounded down: never promise more than is left (the factor: a whole 2 must not read 1.9999)."""
    return int(epsilon * (1 + 1e-8) * 1e4) / 1e4
