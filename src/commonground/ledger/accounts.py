"""Everybody's account in memory: columns as long as the population, read from the store and held against the chain's hashes.

What is used is summed over fits and never stored, so it cannot disagree with them. A process keeps the sum over settled fits and
reads on from there.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from sqlalchemy import Connection

from commonground.accounting.budgets import SMALLEST_EPSILON
from commonground.accounting.gaussian import gaussian_mu
from commonground.ledger.account import Account
from commonground.ledger.chain import doubt
from commonground.ledger.columns import load, load_piece
from commonground.ledger.digests import Directory, digests
from commonground.ledger.persons import Batch, PersonalFit, Persons
from commonground.ledger.shares import STEPS, costs_of, units_within

_USEFUL_PART = 1024  # with less than 1/1024 of her limit (in μ²) left a person takes no part


@dataclass(frozen=True, eq=False)
class Accounts:
    """(n,) each, in the order in which people came; units of μ² (``shares.py``)."""

    batches: tuple[Batch, ...]
    directory: Directory
    limits: np.ndarray
    settled: np.ndarray  # used by settled fits
    counted: frozenset[tuple[str, Fraction]]  # those fits
    open: np.ndarray  # booked by fits that are open
    gone: np.ndarray  # takes no part any more

    @property
    def used(self) -> np.ndarray:
        return self.settled + self.open

    @property
    def left(self) -> np.ndarray:
        """What everybody has not used; of those who are left out nothing is to be had."""
        return np.where(self.gone, 0, self.limits - self.used)

    def able(self, delta: float) -> np.ndarray:
        """(n,) whether she has enough left to take part in a fit; what rounding leaves of a budget is not enough."""
        smallest = units_within(np.array([gaussian_mu(SMALLEST_EPSILON, delta)]))[0]
        return self.left >= np.maximum(smallest, self.limits // _USEFUL_PART)


def read_accounts(connection: Connection, account: Account, known: Accounts | None = None) -> Accounts:
    """The accounts as the database has them, continued from what is known; nobody's may be overdrawn."""
    name, persons = account.population, account.persons
    assert persons is not None
    directory, limits = _people(connection, name, persons, known)
    n = len(limits)
    settled, counted = np.zeros(n, dtype=np.int64), frozenset[tuple[str, Fraction]]()
    done = {(fit.id, fit.cost) for fit in persons.fits if not fit.open}
    if known is not None and known.counted <= done:
        settled[: len(known.settled)], counted = known.settled, known.counted
    booked = np.zeros(n, dtype=np.int64)
    for fit in persons.fits:
        if (fit.id, fit.cost) not in counted:
            into = booked if fit.open else settled
            steps = steps_of(connection, name, persons, fit)
            into[: len(steps)] += costs_of(fit.cost, steps)
    gone = np.zeros(n, dtype=bool)
    for number, piece in persons.gone:
        gone[load_piece(connection, name, piece, number, "<i8")] = True
    if not (settled + booked <= limits).all():
        raise doubt(name, "somebody has paid more than her own budget")
    for column in (limits, settled, booked, gone):
        column.flags.writeable = False
    return Accounts(persons.batches, directory, limits, settled, frozenset(done), booked, gone)


def steps_of(connection: Connection, name: str, persons: Persons, fit: PersonalFit) -> np.ndarray:
    """Everybody's steps in a fit; those who came after it are not in there."""
    steps = load(connection, name, fit.pieces, persons.sizes[: len(fit.pieces)], "<i4")
    if not ((steps >= 0) & (steps <= STEPS)).all() or np.count_nonzero(steps) != fit.taking_part:
        raise doubt(name, f"the shares of fit {fit.id} are not those of {fit.taking_part:,} people")
    return steps


def _people(
    connection: Connection, name: str, persons: Persons, known: Accounts | None
) -> tuple[Directory, np.ndarray]:
    if known is not None and known.batches == persons.batches:
        return known.directory, known.limits
    found = [load(connection, name, batch.digests, batch.sizes, "V16") for batch in persons.batches]
    limits = [load(connection, name, batch.limits, batch.sizes, "<i8") for batch in persons.batches]
    directory = Directory.of(np.concatenate(found).view("<u8").reshape(-1, 2))
    if directory.repeated():
        raise doubt(name, "somebody has two accounts")
    return directory, np.concatenate(limits)


def place_of(connection: Connection, account: Account, person: object) -> tuple[int, int] | None:
    """(piece, place in it) of one person's numbers, without reading everybody's; None: she has no account."""
    persons = account.persons
    assert persons is not None
    asked, piece = digests([person], bytes.fromhex(persons.salt)), 0
    for batch in persons.batches:
        for hash_, size in zip(batch.digests, batch.sizes, strict=True):
            one = load_piece(connection, account.population, hash_, size, "V16").view("<u8").reshape(-1, 2)
            at = int(Directory(one[:, 0], one[:, 1], np.arange(size)).find(asked)[0])
            if at >= 0:
                return piece, at
            piece += 1
    return None
