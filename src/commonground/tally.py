"""What people have paid in this process, where no ledger adds it up: a search for the best model fits the same people many times.

Ids are mixed into numbers, and of all people ever fitted only those with the smallest are kept, at most a million: a fair
sample of everybody, and nothing of their rows. It stays in this process's memory, where rows and ids are anyway. With no more
people than that it is everybody, and what is said is exact.
"""

import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from commonground.accounting.costs import MEASURES
from commonground.accounting.events import Event
from commonground.errors import PrivacyWarning

MOST_PEOPLE = 2**20
SEARCH_DELTA = 1e-6  # at which the ε of a search by repeat-and-select is added
SMALLEST_DELTA = 1e-12  # for what is told where no δ was declared


class HasIds(Protocol):
    """People who can be told apart here."""

    @property
    def rows_are_here(self) -> bool: ...
    @property
    def ids(self) -> Any: ...


class Tally:
    """Adds up, for people by the hashes of their ids, what was released in each measure of cost, and how many fits that were."""

    def __init__(self, most_people: int = MOST_PEOPLE) -> None:
        self._most = most_people
        self._lock = threading.Lock()
        self._paused: ContextVar[bool] = ContextVar("paused", default=False)
        self.forget()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While a search fits its candidates, which it writes down as one in the end."""
        before = self._paused.set(True)
        try:
            yield
        finally:
            self._paused.reset(before)

    def forget(self) -> None:
        """As if nobody had paid anything."""
        self._people = np.empty(0, np.uint64)  # rising
        self._paid = np.empty((0, len(MEASURES) + 1))  # of each measure, and fits

    def note(self, people: HasIds, events: Iterable[Event], fits: int = 0) -> list[float]:
        """Write down that these people have paid for these events; what who paid most of them has paid by now.

        That is a number for each of ``MEASURES``, and fits. All zero where nothing is written down, as another engine has their
        ids, or as it does not add up so. What is simulated protects nobody and does not count.
        """
        costs = [event.cost.in_tally(SEARCH_DELTA) for event in events if not event.simulated]
        if self._paused.get() or not costs or not people.rows_are_here or None in costs:
            return [0.0] * self._paid.shape[1]
        new = [sum(cost.amount for cost in costs if type(cost) is kind) for kind in MEASURES.values()]
        with self._lock:
            return self._add(_smallest(hashed(people.ids), self._most), np.array([*new, float(fits)]))

    def _add(self, now: np.ndarray, new: np.ndarray) -> list[float]:
        everybody = np.union1d(self._people, now)
        paid = np.zeros((len(everybody), len(new)))
        paid[np.searchsorted(everybody, self._people)] = self._paid
        here = np.searchsorted(everybody, now)
        paid[here] += new
        # Exact where all releases are of one kind; of a mixture the most of each, perhaps of two people.
        most: list[float] = paid[here].max(axis=0).tolist()
        kept = min(len(everybody), self._most)
        self._people, self._paid = everybody[:kept].copy(), paid[:kept].copy()
        return most

    def note_fit(self, people: HasIds, events: tuple[Event, ...], delta: float, paid_by_ledger: bool) -> None:
        """After a fit: write it down, and warn where the same people have paid for others, and no ledger knows of it.

        ε is told at the fit's δ. A durable ledger keeps its own count: then there is no warning.
        """
        *amounts, fits = self.note(people, events, fits=1)
        if fits < 2 or paid_by_ledger:
            return
        delta = delta or SMALLEST_DELTA
        paid = {kind: amount for kind, amount in zip(MEASURES.values(), amounts, strict=True) if amount}
        epsilon = sum(kind.epsilon_of_amount(Fraction(amount), delta) for kind, amount in paid.items())
        at = "" if all(kind.pure for kind in paid) else f" at δ = {delta:g}"
        warnings.warn(
            f"the same people (by their ids) were now fitted {fits:.0f} times in this process and have paid ε = {epsilon:.4g}"
            f"{at} together, and no ledger knows of it: every fit reads their rows, those of a search or a cross-validation, "
            "too. Search within one budget with commonground.tune, let a ledger pay (fit(…, ledger=…)), or try things out on "
            "made-up people with simulation_seed. See docs/scikit_learn.md.",
            PrivacyWarning,
            stacklevel=3,
        )


def hashed(ids: Any) -> np.ndarray:
    """(n,) 64-bit hashes of ids, whatever type they have; equal ids of one type have equal ones within a process.

    >>> bool((hashed(np.array(["al", "bo"])) == hashed(np.array(["al", "bo", "a long one"]))[:2]).all())
    True
    """
    ids = np.asarray(ids)
    with np.errstate(over="ignore"):
        if ids.dtype.kind in "iub":
            return _mixed(ids.astype(np.int64).view(np.uint64))
        if ids.dtype.kind in "US":
            unit = np.dtype(np.uint32 if ids.dtype.kind == "U" else np.uint8)
            letters = np.ascontiguousarray(ids).view(unit).reshape(len(ids), -1)
            total = np.zeros(len(ids), np.uint64)
            for place in range(letters.shape[1]):  # zeros behind the end of a text add nothing
                total += letters[:, place] * _mixed(np.array([place + 1], np.uint64))
            return _mixed(total)
        return _mixed(np.fromiter((hash(one) for one in ids.tolist()), np.int64, len(ids)).view(np.uint64))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """The step of SplitMix64: neighbouring numbers end up far apart."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _smallest(hashes: np.ndarray, most: int) -> np.ndarray:
    """The smallest of them, each once, rising."""
    return np.unique(hashes if len(hashes) <= most else np.partition(hashes, most - 1)[:most])


tally = Tally()  # of this process
