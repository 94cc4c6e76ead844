"""Rounds on people of their own: parallel composition, the way P1's Theorem 4.2 pays for T rounds as for one.

**Who is in which group** follows from a person's id alone, written as text, by a public checksum. So nobody's rows, nor the
order of the table moves anybody to another group.

**Why one charge is enough.** Let a person's data be replaced; her id stays, so she stays in her group t. The sums of all other
groups are what they were, given the same earlier releases, and only the release of group t moves, by at most its sensitivity Δ.
The T releases together are one Gaussian release of a vector, of which one part moves by at most Δ: they cost μ = Δ/σ once,
also when each is chosen by looking at the earlier ones. Even if she is replaced by a person of another name, in group s (and
nobody else's id is read otherwise for it), the sum of t loses one contribution of norm at most C and that of s gains one. That
costs √2·C/σ, not more than Δ/σ: Δ is 2C for vectors and √2·C for positive matrices.
"""

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from commonground.accounting.events import Event, GaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.data.population import Population
from commonground.errors import BudgetError
from commonground.gate import Gate, Release


def group_of_each(users: Population, n_groups: int) -> np.ndarray:
    """(n,) numbers 0 … n_groups − 1, each a function of that person's id."""
    checksums = (zlib.crc32(_as_text(user).encode()) for user in users.ids.tolist())
    return np.fromiter(checksums, dtype=np.int64, count=users.n_users) % n_groups


def _as_text(user: Any) -> str:
    """1, 1.0 and "1" alike: how a column of ids is stored must not move people."""
    return str(int(user)) if isinstance(user, float) and user.is_integer() else str(user)


@dataclass(frozen=True)
class _Paid:
    """A ledger for what another group has paid already: the same release, not at a higher cost."""

    paid: GaussianEvent

    def charge(self, event: Event) -> None:
        if not (isinstance(event, GaussianEvent) and event.mu <= self.paid.mu and event.name == self.paid.name):
            raise BudgetError(f"{event.name!r} of a later group was not paid for by the first group: {event.noise}.")


@dataclass(frozen=True)
class DisjointGroups:
    """Splits people into groups; passes each group once through the gate, for one charge in all."""

    users: Population
    n_groups: int
    gate: Gate
    _paid: dict[str, GaussianEvent] = field(default_factory=dict)
    _passed: set[tuple[str, int]] = field(default_factory=set)

    def people(self, group: int) -> Population:
        """Everybody, of whom only the members of this group count."""
        return self.users.weighted((group_of_each(self.users, self.n_groups) == group).astype(np.float64))

    def release(self, of_group: BoundedSum, group: int, mu: float) -> Release:
        """Publish a sum over ``people(group)``. The first group's passage is charged and stands for all in the statement."""
        name = of_group.name
        if (name, group) in self._passed or not 0 <= group < self.n_groups:
            raise BudgetError(f"{name!r} of group {group} has passed before: a group is paid for once.")
        self._passed.add((name, group))
        if name in self._paid:
            return replace(self.gate, ledger=_Paid(self._paid[name]), _events=[]).release(of_group, mu)
        public = self.gate.release(of_group, mu)
        self._paid[name] = public.event
        return public
