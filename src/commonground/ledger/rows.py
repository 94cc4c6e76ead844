"""A population's rows in the database: its events, verified as they are read, and where they end."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from commonground.errors import LedgerError
from commonground.ledger import schema
from commonground.ledger.account import Account
from commonground.ledger.chain import canonical, doubt, follow, link

_CREATION_LOCK = 7_216_301_994  # any number; the same for everybody


def alone(connection: Connection) -> None:
    """PostgreSQL writers lock their population's row; whoever is about to make a row or a table locks a number."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_CREATION_LOCK)))


def _now() -> str:
    """For people who read the events. Their order is the sequence number: a clock that goes back changes nothing."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def event_rows(connection: Connection, population: str, after: int) -> Iterator[tuple[str, str]]:
    table = schema.events.c
    query = select(table.body, table.hash).where(table.population == population, table.seq > after).order_by(table.seq)
    yield from ((body, hash_) for body, hash_ in connection.execute(query))


def read_account(connection: Connection, known: Account, lock: bool = False) -> Account:
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
    for body, hash_ in event_rows(connection, known.population, known.count):
        account = follow(account, body, hash_)
    if (account.count, account.head) != (end.n_events, end.head) or account.budget is None:
        raise doubt(
            known.population, f"{account.count} events lead to another end than the recorded one of {end.n_events}"
        )
    return account


def append_event(connection: Connection, account: Account, event: dict[str, Any]) -> Account:
    """Add one event and move the recorded end, in the caller's transaction."""
    body = canonical({**event, "population": account.population, "seq": account.count + 1, "at": _now()})
    # The same rules as for reading: what a later reader would refuse is never written.
    after = follow(account, body, link(account.head, body))
    row = {"population": after.population, "seq": after.count, "hash": after.head, "body": body}
    connection.execute(insert(schema.events).values(**row))
    end = update(schema.populations).where(schema.populations.c.name == after.population)
    moved = connection.execute(end.values(n_events=after.count, head=after.head))
    if moved.rowcount != 1:
        raise doubt(after.population, "its entry has disappeared")
    return after
