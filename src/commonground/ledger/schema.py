"""The tables, and how an older ledger becomes a current one.

A new ledger is made by the same steps that bring an old one up to date, so there is one way to a schema, and it is tested.
Steps are only ever added at the end. (Alembic would be two more dependencies for a list of this length.)
"""

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)

metadata = MetaData()

version_table = Table("commonground_ledger", metadata, Column("schema_version", Integer, nullable=False))

populations = Table(
    "commonground_populations",
    metadata,
    Column("name", String(200), primary_key=True),
    # Where the chain ends. Written in the same transaction as each event: a tail that was cut off shows.
    Column("n_events", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
)

events = Table(
    "commonground_events",
    metadata,
    # The key alone would stop two writers from giving two events the same place, even if all locks failed.
    Column("population", String(200), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", String(64), nullable=False),
    Column("body", Text, nullable=False),  # exactly the characters that were hashed
)

columns = Table(
    "commonground_columns",
    metadata,
    # Numbers of many people at once (columns.py); an event names the pieces that belong to it.
    Column("population", String(200), primary_key=True),
    Column("hash", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER commonground_no_{action.lower()} BEFORE {action} ON commonground_events "
        "BEGIN SELECT RAISE(ABORT, 'the events of a ledger are append-only'); END"
        for action in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION commonground_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN RAISE EXCEPTION 'the events of a ledger are append-only'; END$$",
        "CREATE TRIGGER commonground_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON commonground_events "
        "FOR EACH STATEMENT EXECUTE FUNCTION commonground_append_only()",
    ],
}


def _first(connection: Connection) -> None:
    for table in (version_table, populations, events):
        table.create(connection)
    # Against accidents, not against an attacker: whoever owns the database can drop a trigger. The chain is for that.
    for statement in _APPEND_ONLY[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    connection.execute(insert(version_table).values(schema_version=0))


def _boards_are_named(connection: Connection) -> None:
    """The tables stay as they are. From here on events of the kind "board" may occur, which older versions cannot read."""


def _refusals_are_told(connection: Connection) -> None:
    """The tables stay as they are. From here on events of the kind "refused" may occur, which older versions cannot read."""


def _people_have_accounts(connection: Connection) -> None:
    """One more table, append-only as events are. From here on people may have accounts of their own, and come and go."""
    columns.create(connection)
    if connection.dialect.name == "sqlite":
        statements = [
            f"CREATE TRIGGER commonground_columns_no_{action.lower()} BEFORE {action} ON commonground_columns "
            "BEGIN SELECT RAISE(ABORT, 'the columns of a ledger are append-only'); END"
            for action in ("UPDATE", "DELETE")
        ]
    else:
        statements = [
            "ALTER TABLE commonground_columns ALTER COLUMN data SET STORAGE EXTERNAL",  # it is compressed already
            "CREATE TRIGGER commonground_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON commonground_columns "
            "FOR EACH STATEMENT EXECUTE FUNCTION commonground_append_only()",
        ]
    for statement in statements:
        connection.exec_driver_sql(statement)


def _fits_are_resumed(connection: Connection) -> None:
    """The tables stay as they are. From here on events of the kind "claim" may occur, which older versions cannot read."""


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _first,
    _boards_are_named,
    _refusals_are_told,
    _people_have_accounts,
    _fits_are_resumed,
)


def latest_version() -> int:
    return len(MIGRATIONS)


def read_version(connection: Connection) -> int | None:
    """The ledger's schema version; None where there is no ledger; -1 where it makes no sense."""
    if not inspect(connection).has_table(version_table.name):
        return None
    found = connection.execute(select(version_table.c.schema_version)).scalars().all()
    return found[0] if len(found) == 1 and isinstance(found[0], int) and found[0] >= 1 else -1


def migrate(connection: Connection, version: int) -> None:
    """Take every step after ``version``, in the caller's transaction: all of them or none."""
    for step in MIGRATIONS[version:]:
        step(connection)
    connection.execute(update(version_table).values(schema_version=latest_version()))
