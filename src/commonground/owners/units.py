"""Whom learning across owners protects, and what is drawn for each of them in a step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.errors import InputError


class Units:
    """Rows grouped by unit: a record alone, or all records of one user. Private."""

    def __init__(self, unit_of_row: np.ndarray, n_units: int) -> None:
        self.rows = np.argsort(unit_of_row, kind="stable")
        self.offsets = np.concatenate([[0], np.cumsum(np.bincount(unit_of_row, minlength=n_units))])
        self.n_units = n_units

    def __repr__(self) -> str:
        return "<Units: private>"

    def rows_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(their rows, position in ``units`` of each row's unit)."""
        sizes = self.offsets[units + 1] - self.offsets[units]
        before = np.cumsum(sizes) - sizes
        within = np.arange(int(sizes.sum())) + np.repeat(self.offsets[units] - before, sizes)
        return self.rows[within], np.repeat(np.arange(len(units)), sizes)

    def batches(self, units: np.ndarray, max_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``rows_of`` whole units in batches, units without rows left out; one larger than ``max_rows`` comes alone."""
        sizes = self.offsets[units + 1] - self.offsets[units]
        units, sizes = units[sizes > 0], sizes[sizes > 0]
        start = 0
        while start < len(units):
            total = np.cumsum(sizes[start:])
            end = start + max(int(np.searchsorted(total, max_rows, side="right")), 1)
            yield self.rows_of(units[start:end])
            start = end


@dataclass(frozen=True)
class ProtectedUnits:
    """Records or users, whose number is public, and what is drawn for them, which is private."""

    drawn: Units
    rows: np.ndarray  # those that take part, among which ``drawn`` counts
    count: int
    group_size: int = 1  # draws that one of them has

    def __repr__(self) -> str:
        return "<ProtectedUnits: private>"


def protected_units(
    owner_of_row: np.ndarray, users: Any, unit: str, user_level: str, records_per_user: int | None
) -> ProtectedUnits:
    """Every record, every user at one owner, or (``user_level="group"``) the first records of every user.

    The same name at two owners is two users. A user's records beyond ``records_per_user`` are left out.
    """
    everybody, n = np.arange(len(owner_of_row)), len(owner_of_row)
    if unit == "record":
        return ProtectedUnits(Units(everybody, n), everybody, n)
    if users is None or len(users) != n:
        raise InputError("unit='user' needs users= with one user for each row.")
    named = np.unique(np.asarray(users), return_inverse=True)[1]
    user = np.unique(np.stack([owner_of_row, named]), axis=1, return_inverse=True)[1]
    by_user = Units(user, int(user.max()) + 1)
    if user_level == "clip":
        return ProtectedUnits(by_user, everybody, by_user.n_units)
    if records_per_user is None or records_per_user < 1:
        raise InputError("user_level='group' needs records_per_user, a public bound on the records of one user.")
    place = np.empty(n, dtype=np.int64)  # of a row among its user's
    place[by_user.rows] = everybody - by_user.offsets[user[by_user.rows]]
    rows = everybody[place < records_per_user]
    return ProtectedUnits(Units(np.arange(len(rows)), len(rows)), rows, by_user.n_units, records_per_user)
