"""A population in which everybody has an account of her own: a fit lets her take part with what she has left.

    open, join   everybody's own limit, as columns                 (``columns.py``; ids as salted digests)
    reserve      books everybody's share of the fit, or refuses    (before any row is read)
    charge       records one release                               (before its noise is drawn)
    settle       gives back what was not charged, to everybody in proportion to the square of her share
    leave        who asks for it takes no part from the next fit on

**Guarantee.** Whatever fits were made, chosen by looking at earlier results or not, person i has spent at most her own
(ε_i, δ). Her share of a fit follows from her limit, the budget that the fit declares for her, and the costs of earlier fits. None
of these depends on anybody's rows, hers included: a share is fixed before rows are read, and what is given back at the end is
what the recorded releases, which are public, did not cost. So each fit is a Gaussian mechanism whose cost to her, q_i μ/2²⁰, is
known before it runs. The squares of such costs add up also for fits chosen by looking at results, and their sum stays within
μ_i², as more than she has left is never booked. Numbers are integers, every rounding is against the spender (``shares.py``). What
a statement tells of budgets (how many took part, quantiles) follows from the same public history, and from who is in the table:
that somebody is there is not protected, here as everywhere (``docs/limitations.md``).

As crash-safe as ``population.py``: shares are columns that are written in the transaction that books them.
"""

import secrets
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from sqlalchemy import Connection

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.personal import BudgetsLeft
from commonground.accounting.sampled import SampledGaussianEvent
from commonground.errors import BudgetError, InputError
from commonground.ledger.account import Account
from commonground.ledger.accounts import Accounts, place_of, read_accounts
from commonground.ledger.columns import load_piece, store
from commonground.ledger.digests import digests, fingerprint, listed
from commonground.ledger.in_words import summary
from commonground.ledger.new_people import batch_of
from commonground.ledger.own_account import Payment, PersonalAccount, epsilon_up, quantiles_left
from commonground.ledger.population import Population, Reservation, this_process
from commonground.ledger.rows import read_account
from commonground.ledger.shares import STEPS, UNIT, units_of
from commonground.ledger.storage import Storage
from commonground.ledger.wishes import Wishes


class PersonalPopulation(Population):
    """People with an account each. Give it to ``fit(..., ledger=...)`` of an estimator that takes personal budgets."""

    def __init__(self, storage: Storage, name: str) -> None:
        super().__init__(storage, name)
        self._read: Accounts | None = None  # as far as this process has read them; immutable
        self._found: tuple[Any, np.ndarray] | None = None  # who was looked up last, and where they stand

    def accounts(self) -> Accounts:
        """Everybody's account, each column held against the chain, and nobody's overdrawn."""
        known, read = self._known, self._read
        with self._storage.reading() as connection:
            account = read_account(connection, known)
            self._read = read_accounts(connection, account, read)
        self._known = account
        return self._read

    def reserve_each(
        self, ids: Iterable[Any], epsilons: np.ndarray | float, delta: float, rounding_room: float, purpose: str = ""
    ) -> "PersonalReservation":
        """Book everybody's share of a fit, or raise ``BudgetError`` with nothing booked.

        Parameters
        ----------
        ids : array of shape (n,)
            Of those whose rows are in the fit; each must have an account.
        epsilons : array of shape (n,), or float
            What the fit wants of each; 0: nothing. Each takes part with that or, where she has less left, with what is left.
        delta : float
            Above 0.
        rounding_room : float
            ``clipping.rounding_margin`` of these people.
        purpose : str, default=""

        Returns
        -------
        PersonalReservation
            Its ``budgets`` say how much everybody counts.
        """
        ids = listed(ids)
        wishes = np.broadcast_to(np.asarray(epsilons, dtype=np.float64), (len(ids),))
        largest = float(wishes.max(initial=0.0))
        if not delta > 0:
            raise BudgetError(
                f"population {self.name!r} keeps personal accounts of Gaussian fits; this one has δ = {delta:g}, whose costs add "
                "up otherwise. Nothing was released. Declare a delta above 0, or use a population without personal accounts."
            )
        positions = self._positions(ids)
        asked = Wishes.of(wishes, delta, rounding_room)
        name = secrets.token_hex(8)
        granted: list[BudgetsLeft] = []

        def decide(connection: Connection, account: Account) -> dict[str, Any]:
            self._read = accounts = read_accounts(connection, account, self._read)
            persons = account.persons
            assert persons is not None
            assert account.budget is not None
            left = np.where(accounts.able(account.budget.delta), accounts.left, 0)[positions]
            budget = asked.affordable(left)
            if budget is None:
                raise too_little(self.name, asked.largest, account, accounts)
            steps = asked.steps(left, budget)
            granted.append(asked.granted(steps, budget))
            column = np.zeros(persons.n, dtype="<i4")
            column[positions] = steps
            return {
                "kind": "reserve",
                "reservation": name,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "mu": budget.mu,
                "purpose": purpose,
                "by": this_process(),
                "shares": {
                    "room": asked.room,
                    "taking_part": int(np.count_nonzero(steps)),
                    "pieces": store(connection, self.name, column, persons.sizes),
                },
            }

        try:
            after = self._write_with(decide)
        except BudgetError as refusal:
            self._refused(
                {"epsilon": largest, "delta": float(delta), "purpose": purpose, "by": this_process()}, refusal
            )
            raise
        return PersonalReservation(self, name, after, granted[-1])

    def add_people(self, ids: Iterable[Any], epsilons: np.ndarray | float) -> None:
        """Open accounts for more people; who has one already is an error, and nobody is added then."""
        account = self.account()
        assert account.persons is not None
        assert account.budget is not None
        batch = batch_of(ids, epsilons, account.budget, bytes.fromhex(account.persons.salt))

        def decide(connection: Connection, account: Account) -> dict[str, Any]:
            self._read = accounts = read_accounts(connection, account, self._read)
            if (there := int((accounts.directory.find(batch.digests) >= 0).sum())) > 0:
                raise InputError(
                    f"{there:,} of {len(batch.digests):,} people have an account in population {self.name!r} already. A budget "
                    "is declared once: leave them out of what is added."
                )
            return {"kind": "join", **batch.stored(connection, self.name)}

        self._write_with(decide)

    def leave_out(self, ids: Iterable[Any]) -> None:
        """From the next fit on these people take no part. What they have paid stays paid: releases cannot be taken back."""
        positions = np.sort(self._positions(list(ids)))

        def decide(connection: Connection, account: Account) -> dict[str, Any]:
            (piece,) = store(connection, self.name, positions.astype("<i8"), [len(positions)])
            return {"kind": "leave", "people": len(positions), "positions": piece}

        self._write_with(decide)

    def person(self, person: Any) -> PersonalAccount:
        """One person's own account: her limit, every fit that she has paid for, and what is left."""
        known = self._known
        with self._storage.reading() as connection:
            account = read_account(connection, known)
            persons = account.persons
            assert persons is not None
            assert account.budget is not None
            place = place_of(connection, account, person)
            if place is None:
                raise unknown_people(self.name, 1, 1, person)
            piece, at = place
            size, limits = persons.sizes[piece], [hash_ for batch in persons.batches for hash_ in batch.limits]
            limit = int(load_piece(connection, self.name, limits[piece], size, "<i8")[at])
            payments = []
            for fit in persons.fits:
                if piece < len(fit.pieces):
                    steps = int(load_piece(connection, self.name, fit.pieces[piece], size, "<i4")[at])
                    if steps:
                        units = -(-(steps**2 * units_of(fit.cost)) // STEPS**2)
                        payments.append(Payment(fit.id, fit.purpose, fit.at, fit.open, steps / STEPS, units))
            position = sum(persons.sizes[:piece]) + at
            gone = any(
                position in load_piece(connection, self.name, hash_, number, "<i8") for number, hash_ in persons.gone
            )
        self._known = account
        return PersonalAccount(self.name, account.budget.delta, limit, tuple(payments), gone)

    def people_in_short(self) -> dict[str, Any]:
        """How many accounts there are, how many have run dry, and quantiles of what the others have left."""
        accounts = self.accounts()
        budget = self._known.budget
        assert budget is not None
        able = accounts.able(budget.delta) & ~accounts.gone
        return {
            "people": len(accounts.limits),
            "left_out": int(accounts.gone.sum()),
            "run_dry": int((~able & ~accounts.gone).sum()),
            "epsilon_left": quantiles_left(accounts.left[able], budget.delta),
        }

    def summary(self) -> dict[str, Any]:
        """For machines: what is charged and booked is that of the person who has paid most, what is left of her who has most."""
        short, accounts = self.people_in_short(), self.accounts()
        budget, most = self._known.budget, int(accounts.used.max())
        assert budget is not None
        own = {f"epsilon_{what}": epsilon_up(most, budget.delta) for what in ("charged", "booked")}
        own |= {f"mu_squared_{what}": most / UNIT for what in ("charged", "booked")}
        left = short["epsilon_left"].get("1", 0.0)
        return {**summary(self._known), **own, "epsilon_left": left, "epsilon_left_pure": 0.0, "accounts": short}

    def knows(self, person: Any) -> bool:
        """Whether somebody has an account by this id."""
        account = self.account()
        with self._storage.reading() as connection:
            return place_of(connection, account, person) is not None

    def left_in_words(self) -> str:
        short = self.people_in_short()
        able = short["people"] - short["left_out"] - short["run_dry"]
        words = f"Of {short['people']:,} people of {self.name!r} with accounts of their own, {able:,} can take part in a fit"
        if able:
            words += f", half of them with at least ε = {short['epsilon_left']['0.5']:.4g}"
        return f"{words}; {short['run_dry']:,} have run dry and {short['left_out']:,} are left out."

    def reserve(self, budget: Budget | PureBudget, purpose: str = "") -> Reservation:
        """Refused: whose accounts are to pay is not said."""
        raise self._needs_people()

    def reserve_steps(self, budget: Budget, events: Any, purpose: str = "") -> Reservation:
        """Refused: what a share of sampled training costs does not add up in closed form."""
        raise self._needs_people()

    def paid_before(self, budget: Budget, events: Iterable[SampledGaussianEvent]) -> None:
        """Nothing of the kind is ever paid for here."""

    def _needs_people(self) -> BudgetError:
        return BudgetError(
            f"population {self.name!r} keeps an account for every person, and this fit does not say what each is to pay. Nothing "
            "was released. Use an estimator that takes personal budgets (docs/estimators.md), or a population without accounts."
        )

    def _positions(self, ids: Any) -> np.ndarray:
        accounts, persons = self.accounts(), self._known.persons
        assert persons is not None
        asked = (persons.batches, fingerprint(ids)) if isinstance(ids, np.ndarray) and ids.dtype != object else None
        if asked is not None and self._found is not None and self._found[0] == asked:
            return self._found[1]
        positions = accounts.directory.find(digests(ids, bytes.fromhex(persons.salt)))
        if (unknown := positions < 0).any():
            raise unknown_people(self.name, int(unknown.sum()), len(positions), ids[int(np.argmax(unknown))])
        if len(positions) and np.bincount(positions).max() > 1:
            raise InputError("somebody is given twice; each person has one account.")
        positions.flags.writeable = False
        self._found = None if asked is None else (asked, positions)
        return positions


class PersonalReservation(Reservation):
    """Everybody's share of one fit: a ledger for the gate."""

    def __init__(self, population: PersonalPopulation, name: str, reserved: Account, budgets: BudgetsLeft) -> None:
        super().__init__(population, name, reserved)
        self.budgets = budgets


def unknown_people(population: str, unknown: int, of: int, example: Any) -> InputError:
    example = example.item() if isinstance(example, np.generic) else example
    return InputError(
        f"{unknown:,} of {of:,} people have no account in population {population!r}, for example {example!r}. Open accounts for "
        "them (`commonground ledger join`, or add_people), or leave their rows out; 7 and '7' are two people."
    )


def too_little(name: str, asked: Budget | PureBudget, account: Account, accounts: Accounts) -> BudgetError:
    assert account.budget is not None
    held = Fraction(int(accounts.open.max(initial=0)), UNIT)
    message = (
        f"nobody who is asked for anything has enough of her own budget left in population {name!r} for this fit (at most ε = "
        f"{asked.epsilon:g}, δ = {asked.delta:g}). Nothing was released. Stop: these people have given what was agreed; or open "
        "accounts for new people."
    )
    if account.open:
        message += (
            f" {len(account.open)} open reservations hold up to ε = {account.epsilon_of(held):.4g} of somebody's; if their "
            "process is dead, `commonground ledger settle` gives back what they did not use."
        )
    return BudgetError(message)
