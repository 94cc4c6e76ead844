"""The two databases a ledger can live in, reduced to two kinds of transaction.

``reading``: a snapshot. ``writing``: alone, and on return the change has reached the disk. Both speak plain language when
something is wrong with the database. A connection is opened for each transaction, so a handle survives ``fork``, a
restarted server and hours of training in between.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar, Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from commonground.errors import LedgerError


class Storage(Protocol):
    name: str  # for messages; never holds a password
    checked_on_opening: ClassVar[bool]

    def reading(self) -> AbstractContextManager[Connection]: ...
    def writing(self) -> AbstractContextManager[Connection]: ...
    def create(self) -> None: ...
    def check(self) -> None: ...


def storage_at(address: str | os.PathLike[str], timeout: float) -> Storage:
    """A path or ``sqlite:///path`` means a file; ``postgresql://user@host/database`` a server."""
    text = os.fspath(address)
    if "://" not in text:
        return SqliteStorage(Path(text), timeout)
    try:
        url = make_url(text)
    except ArgumentError:
        raise LedgerError(
            "the ledger's URL cannot be read; write sqlite:///file or postgresql://user@host/base."
        ) from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return SqliteStorage(Path(url.database), timeout)
    if kind in ("postgresql", "postgres"):
        try:
            return PostgresStorage(
                url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False), timeout
            )
        except ModuleNotFoundError:
            raise LedgerError(
                "a PostgreSQL ledger needs the driver psycopg. Install it with: pip install 'commonground[postgres]'"
            ) from None
    raise LedgerError(
        f"a ledger lives in a SQLite file (budget.db, sqlite:///budget.db) or in PostgreSQL "
        f"(postgresql://user@host/database), got {url.render_as_string(hide_password=True)!r}."
    )


class SqliteStorage:
    """One file, for the processes of one machine."""

    checked_on_opening: ClassVar[bool] = False  # all pages would be read

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path.absolute()
        self.name = str(path)
        self.timeout = timeout
        self._engine = create_engine("sqlite+pysqlite://", creator=self._connect, poolclass=NullPool)
        event.listen(self._engine, "begin", _begin_sqlite)

    def _connect(self, mode: str = "rw") -> sqlite3.Connection:
        # mode=rw never creates: where the file has vanished, an empty new one would be a budget spent twice.
        uri = f"file:{quote(str(self.path))}?mode={mode}"
        if mode == "rw" and not os.access(self.path.parent, os.W_OK) and not self._beside("-wal").exists():
            uri += "&immutable=1"  # a ledger on read-only media can still be shown and verified
        connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous=FULL")  # in WAL mode: fsync at every commit
        return connection

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def create(self) -> None:
        """An empty file in WAL mode, unless there is one."""
        with _plain_words(self):
            if not self.path.parent.is_dir():
                raise LedgerError(f"there is no folder {str(self.path.parent)!r} to keep the ledger in. Make it first.")
            connection = self._connect("rwc")
            try:
                tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                if tables and not any(name.startswith("commonground_") for name in tables):
                    raise LedgerError(f"{self.name} is a database of something else. Choose a new file for the ledger.")
                # Changing the mode needs the file alone and does not wait by itself when many open it at once.
                deadline = time.monotonic() + self.timeout
                while True:
                    try:
                        connection.execute("PRAGMA journal_mode=WAL")
                        break
                    except sqlite3.OperationalError as problem:
                        if "locked" not in str(problem) or time.monotonic() > deadline:
                            raise
                        time.sleep(0.01)
            finally:
                connection.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        self._must_exist()
        with _plain_words(self), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        self._must_exist()
        with _plain_words(self), self._engine.connect() as connection:
            connection = connection.execution_options(commonground_writes=True)
            with connection.begin():
                yield connection
            # The commit is now on the disk, in the write-ahead log. SQLite drops frames of a damaged log without a word,
            # which would forget charges. So the log is emptied into the main file before we return: whatever happens to
            # a log that is left behind by a crash, no charge whose noise was drawn was in it alone.
            raw = connection.connection.driver_connection
            assert raw is not None
            deadline = time.monotonic() + self.timeout
            while raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                # Busy: somebody else is emptying it. SQLite waits for readers and writers here, but not for that.
                if time.monotonic() > deadline:
                    raise _unavailable(self, "database is locked")
                time.sleep(0.002)

    def check(self) -> None:
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        if found != ["ok"]:
            raise _unavailable(self, f"malformed: {found[0]}")

    def _must_exist(self) -> None:
        if not self.path.exists():
            raise LedgerError(f"there is no ledger {self.name!r}. Create it with `commonground ledger open`.")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes the lock before it reads what is left; a reader gets a snapshot and disturbs nobody."""
    writes = connection.get_execution_options().get("commonground_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


class PostgresStorage:
    """A server, for the processes of many machines."""

    checked_on_opening: ClassVar[bool] = True

    def __init__(self, url: str, timeout: float) -> None:
        self._engine: Engine = create_engine(
            url, poolclass=NullPool, connect_args={"connect_timeout": int(timeout) or 1}
        )
        self.name = self._engine.url.set(drivername="postgresql").render_as_string(hide_password=True)
        self.timeout = timeout

    def create(self) -> None:
        """The database itself must be there."""

    def _reach(self) -> Connection:
        """A server that does not answer says nothing about what it keeps: never a reason to go back to a backup."""
        try:
            return self._engine.connect()
        except (SQLAlchemyError, OSError) as problem:
            raise _unreachable(self, problem) from problem

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with _plain_words(self), self._reach() as plain:
            connection = plain.execution_options(isolation_level="REPEATABLE READ")  # one snapshot for all queries
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with _plain_words(self), self._reach() as plain:
            # Writers queue on a row lock; each statement after it sees what the writer before has committed.
            connection = plain.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                wait = int(self.timeout * 1000)
                connection.exec_driver_sql(
                    f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {wait}; "
                    # A machine that freezes while it holds the lock must not stop all the others for good.
                    f"SET LOCAL idle_in_transaction_session_timeout = {wait}"
                )
                yield connection

    def check(self) -> None:
        """A server that does not wait for its disk can forget a charge when the power fails."""
        with self.reading() as connection:
            if connection.exec_driver_sql("SHOW fsync").scalar_one() != "on":
                raise LedgerError(f"{self.name} runs with fsync = off and may forget charges. Switch fsync on.")


# What the two databases say, and what to tell a person. Looked for in this order.
_MESSAGES = (
    (("is locked", "lock timeout", "table is locked"),
     "is locked: another program held it for more than {timeout:g} s. Wait for it or close it, then try again"),
    (("disk is full", "no space left", "disk full", "could not extend", "file too large"),
     "cannot grow: the disk is full. Free some space, then try again"),
    (("readonly", "read-only", "permission denied", "authorization"),
     "cannot be written: it is read-only for this user. Ask for the right to write, or use another copy"),
    (("malformed", "not a database", "invalid page", "could not read block", "corrupt", "encrypted", "unsupported file",
      "decode", "no such"),
     "is damaged. Go back to a backup that is not older than the last release"),
    (("unable to open", "timeout", "does not exist"),
     "cannot be reached. Check the address and the permissions"),
)  # fmt: skip


@contextmanager
def _plain_words(storage: SqliteStorage | PostgresStorage) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as problem:  # damaged text is not UTF-8
        if _cut_off(problem):
            raise _unreachable(storage, problem) from problem
        raise _unavailable(storage, _reason(problem)) from problem


def _cut_off(problem: Exception) -> bool:
    """Whether the connection to a server was lost: told by the driver, or by the server as it ends (SQLSTATE 08, 57P0x)."""
    if not isinstance(problem, DBAPIError):
        return False
    state = getattr(problem.orig, "sqlstate", None) or ""
    return problem.connection_invalidated or state.startswith(("08", "57P0"))


def _reason(problem: Exception) -> str:
    return " ".join(str(getattr(problem, "orig", None) or problem).split())


def _unreachable(storage: SqliteStorage | PostgresStorage, problem: Exception) -> LedgerError:
    return LedgerError(
        f"the ledger {storage.name} cannot be reached ({_reason(problem)}). Nothing was released. This says nothing about what "
        "is written in it: do not go back to a backup. Check the address, the user's rights and that the server runs, then "
        "try again."
    )


def _unavailable(storage: SqliteStorage | PostgresStorage, reason: str) -> LedgerError:
    known = (words for signs, words in _MESSAGES if any(sign in reason.lower() for sign in signs))
    words = next(known, "does not answer as expected").format(timeout=storage.timeout)
    return LedgerError(f"the ledger {storage.name} {words} ({reason}). Nothing was released.")
