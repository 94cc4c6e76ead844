"""The database of budgets: the populations in it, each with a book of its own (``population.py``), and their export."""

import os
import secrets
import unicodedata
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, insert, select

from commonground.accounting.budgets import Budget, PureBudget
from commonground.errors import InputError, LedgerError
from commonground.ledger import schema
from commonground.ledger.account import Account
from commonground.ledger.accounts import read_accounts
from commonground.ledger.chain import doubt, personal_distribution
from commonground.ledger.in_words import summary
from commonground.ledger.new_people import batch_of
from commonground.ledger.personal import PersonalPopulation
from commonground.ledger.population import Population
from commonground.ledger.rows import alone, append_event, event_rows, read_account
from commonground.ledger.storage import storage_at

EXPORT_VERSION = 1


class DurableLedger:
    """The database of budgets: a SQLite file, or PostgreSQL by URL. Refuses on doubt.

    Parameters
    ----------
    address : str or path
        A file (``budget.db`` or ``sqlite:///budget.db``), or ``postgresql://user@host/database``.
    create : bool, default=False
        Make the ledger where there is none.
    timeout : float, default=60.0
        Seconds to wait for another process that holds the database.

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
        if self._storage.checked_on_opening:
            self._storage.check()

    @property
    def name(self) -> str:
        """Where it is, without a password."""
        return self._storage.name

    def open_population(
        self,
        name: str,
        budget: Budget | PureBudget,
        personal: Mapping[float, int] | None = None,
        *,
        people: Any = None,
        epsilons: Any = None,
    ) -> Population:
        """Declare a group of people and everything that may ever be spent on them.

        Parameters
        ----------
        name : str
            What they are called from now on.
        budget : Budget or PureBudget
            All that may ever be spent on each of them.
        personal : mapping of float to int, or None, default=None
            How many people have which smaller ε of their own. Every release costs everybody the same, so the smallest of them is
            what can be spent on this population.
        people : sequence of ids, or None, default=None
            Opens an account for every person instead: a fit then takes from each what she has left (``personal.py``).
        epsilons : sequence of float, float or None, default=None
            With ``people``: one for each, or one for all; None: that of ``budget``.

        Returns
        -------
        Population
        """
        name = population_name(name)
        salt = secrets.token_bytes(16)
        batch = None
        if people is not None:
            if personal is not None:
                raise InputError("personal= counts people without accounts; with people= give each her ε in epsilons=.")
            batch = batch_of(people, budget.epsilon if epsilons is None else epsilons, budget, salt)
        opening: dict[str, Any] = {
            "kind": "open",
            "epsilon": float(budget.epsilon),
            "delta": float(budget.delta),
            "mu": budget.mu,
            "personal": personal_distribution(personal, budget),
        }
        account = Account.before_all(name)
        with self._storage.writing() as connection:
            alone(connection)
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
            if batch is not None:
                opening["people"] = {"salt": salt.hex(), **batch.stored(connection, name)}
            append_event(connection, account, opening)
        return self.population(name)

    def population(self, name: str) -> Population:
        """An open population, its whole chain verified.

        Parameters
        ----------
        name : str
            As it was opened.

        Returns
        -------
        Population
        """
        if name not in self.populations():  # which holds names that were given before they were looked at as closely
            name = population_name(name)
        found = Population(self._storage, name)
        if found.account().persons is None:
            return found
        personal = PersonalPopulation(self._storage, name)
        personal.account()
        return personal

    def populations(self) -> list[str]:
        """The names of all open populations.

        Returns
        -------
        list of str
            In order.
        """
        with self._storage.reading() as connection:
            return list(connection.execute(select(schema.populations.c.name).order_by("name")).scalars())

    def verify(self) -> dict[str, Account]:
        """Check the database and every event of every population from the first on.

        Returns
        -------
        dict of str to Account
            What each population has spent, by its name.
        """
        self._storage.check()
        with self._storage.reading() as connection:
            known = set(connection.execute(select(schema.populations.c.name)).scalars())
            for stray in set(connection.execute(select(schema.events.c.population).distinct()).scalars()) - known:
                raise doubt(stray, "it has events but no entry")
            accounts = {name: read_account(connection, Account.before_all(name)) for name in sorted(known)}
            for account in accounts.values():
                if account.persons is not None:
                    read_accounts(connection, account)
            return accounts

    def export(self) -> dict[str, Any]:
        """Everything, verified, as one JSON document: the events exactly as they were hashed.

        Returns
        -------
        dict
            Of what JSON can write.
        """
        self.verify()
        document: dict[str, Any] = {"export_version": EXPORT_VERSION, "schema_version": schema.latest_version()}
        with self._storage.reading() as connection:
            document["populations"] = [
                {
                    **summary(read_account(connection, Account.before_all(name))),
                    "events": [{"hash": hash_, "body": body} for body, hash_ in event_rows(connection, name, 0)],
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
            alone(connection)
            version = self._checked_version(connection, create)  # again: somebody may have been faster
            if version != schema.latest_version():
                schema.migrate(connection, version)


def population_name(name: str) -> str:
    """A name as it is written down: Unicode's composed form, nothing that cannot be seen, no space at either end.

    Parameters
    ----------
    name : str
        As it was given.

    Returns
    -------
    str
    """
    name = unicodedata.normalize("NFC", name) if isinstance(name, str) else name
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable() or name != name.strip():
        raise InputError(
            f"a population needs a name of 1 to 200 printable characters without spaces at its ends, got {name!r}."
        )
    return name


def _alike(name: str) -> str:
    """What two names have in common that a person would read as the same."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())
