"""People whose rows are somewhere: in this process, with Ray's workers, on a GPU, or at the nodes of a federation.

An estimator learns from a `Population` by one verb, ``sum``: it asks for a statistic, which is a frozen set of public values with
a function ``of(block)``, and gets its sum over all people. So the question can travel to where the rows are; only sums come back.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from scipy import sparse

from commonground.data.schema import Schema


@dataclass(frozen=True, repr=False)
class Block:
    """Whole people, the rows of one person adjacent."""

    X: np.ndarray  # (rows, d) C-contiguous, float32 or float64; a scipy.sparse csr_array where Users are sparse
    y: np.ndarray  # (rows,) of the same dtype
    offsets: np.ndarray  # (people + 1,) int64: person p of this block owns rows offsets[p]:offsets[p + 1]
    first: int  # position of the block's first person in Users.ids
    weights: np.ndarray | None = None  # (people,) how much each counts, from 0 to 1; None: everybody in full

    def __repr__(self) -> str:
        return "<Block: private>"

    @property
    def n_users(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_rows(self) -> int:
        return len(self.y)

    @property
    def sparse(self) -> bool:
        return sparse.issparse(self.X)

    @property
    def person_of_row(self) -> np.ndarray:
        """(rows,) the place of each row's person in this block."""
        return np.repeat(np.arange(self.n_users), np.diff(self.offsets))

    @property
    def person_weights(self) -> np.ndarray:
        return np.ones(self.n_users) if self.weights is None else self.weights

    @property
    def signed(self) -> "Block":
        """The same people; labels are 1 where they are above zero, else −1."""
        return replace(self, y=np.where(self.y > 0, 1.0, -1.0).astype(self.y.dtype))

    @property
    def for_kernels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, labels, offsets and people's weights: the first arguments of compiled loops over people."""
        return self.X, self.y, self.offsets, self.person_weights


class Addable(Protocol):
    def __add__(self, other: Any, /) -> Self: ...


Sum = TypeVar("Sum", bound=Addable)
Sum_co = TypeVar("Sum_co", bound=Addable, covariant=True)


class Summable(Protocol[Sum_co]):
    """What can be asked of people; those there are live in `commonground.statistics`."""

    def of(self, block: Block) -> Sum_co: ...


class Population:
    """What every estimator needs to know of its people.

    Attributes
    ----------
    n_users : int
    n_features : int
    feature_names : tuple of str, or None
    sparse : bool
        Whether rows are mostly zeros and kept so.
    budgets : array of shape (n_users,), or None
        Everybody's own ε, where the table has them.
    schema : Schema or None
        What the table's columns are, where one was declared; public.
    features_are_known : bool
        False: values of some categories are still to be found (``Unencoded``).
    numbers : str
        The type of numbers in rows, "float32" or "float64"; empty where others have them.
    kind : str
        Where rows are: "table", "ray" or "federation".
    rows_are_here : bool
        False: others have them, and give sums only; then there are neither ids nor heads here.
    custody : str
        For the statement: who held the rows, and what anybody saw before the noise. Empty: one operator had them all.
    """

    n_users: int
    n_features: int
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None
    user_name: str | None = None
    sparse: bool = False
    numbers: str = ""
    budgets: np.ndarray | None = None
    schema: Schema | None = None  # public: what the columns are, and how they became features
    features_are_known: ClassVar[bool] = True
    kind: ClassVar[str] = "table"
    _weights: np.ndarray | None = None
    _changes: tuple[Callable[[Any], Any], ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_users={self.n_users}, n_features={self.n_features})"

    @property
    def rows_are_here(self) -> bool:
        """False: others have the rows, and give sums only; then there are neither ids nor heads here."""
        return self.kind == "table"

    @property
    def known_part(self) -> "Population | None":
        """For the operator's own look: these people by the columns that are numbers already; None where they are too many."""
        return self

    @property
    def custody(self) -> str:
        """For the statement: who held the rows, and what anybody saw before the noise. Empty: one operator had them all."""
        return ""

    @property
    def label_range(self) -> tuple[float, float] | None:
        """Public: within it all labels are, if a schema says so."""
        return None if self.schema is None else self.schema.label.range

    @property
    def ids(self) -> np.ndarray:
        """One id per person."""
        raise NotImplementedError

    def blocks(self, max_bytes: int | None = None) -> Iterator[Block]:
        """All rows once, in blocks of whole people of at most ``max_bytes``."""
        raise NotImplementedError

    def sum(self, statistic: Summable[Sum]) -> Sum:
        """Add up ``statistic.of(block)`` over blocks of whole people, wherever their rows are.

        Parameters
        ----------
        statistic : Summable
            What is asked of people.

        Returns
        -------
        Addable
            What ``statistic.of`` gives; private.
        """
        for change in reversed(self._changes):
            statistic = change(statistic)
        return self._sum(statistic)

    def _sum(self, statistic: Summable[Sum]) -> Sum:
        return add_up(statistic.of(block) for block in self.blocks())

    def seen_through(self, change: Callable[[Any], Any]) -> Self:
        """The same people; what is summed over them is ``change(statistic)`` in place of a statistic.

        Parameters
        ----------
        change : callable
            From a statistic to a statistic.

        Returns
        -------
        Population
        """
        seen = copy(self)
        seen._changes = (*self._changes, change)
        return seen

    @property
    def weights(self) -> np.ndarray | None:
        """How much each person counts, from 0 to 1; None: everybody in full."""
        return self._weights

    @property
    def total_weight(self) -> float:
        """How many people in full all people together count."""
        return float(self.n_users if self._weights is None else self._weights.sum())

    def weighted(self, weights: np.ndarray) -> Self:
        """The same people, of whom each counts only so much (0 to 1) in everything that is summed over people.

        Parameters
        ----------
        weights : array of shape (n_users,)
            From 0 to 1.

        Returns
        -------
        Population
        """
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        assert weights.shape == (self.n_users,)
        assert ((weights >= 0) & (weights <= 1)).all()
        same = copy(self)
        same._weights = weights
        return same

    def scaled(self, scales: np.ndarray) -> Self:
        """The same people with each of their features times a public number; of sparse rows only.

        Parameters
        ----------
        scales : array of shape (n_features,)
            The numbers.

        Returns
        -------
        Population
        """
        raise NotImplementedError

    def only(self, takes_part: np.ndarray) -> Self:
        """The same people, of whom some take part in what is summed, each counting what she counted before.

        Parameters
        ----------
        takes_part : array of bool of shape (n_users,)
            Who.

        Returns
        -------
        Population
        """
        return self.weighted(takes_part * (np.ones(self.n_users) if self._weights is None else self._weights))


def add_up(parts: Iterable[Sum]) -> Sum:
    """The sum of at least one part, in an order that depends on their number alone.

    Sums of equally many parts are added first, like carrying digits. So a part passes through at most log₂(parts) + 1
    additions, and their rounding stays within ``clipping.bounded.rounding_margin`` however the rows are cut.
    """
    waiting: list[tuple[int, Sum]] = []  # (carries so far, sum)
    for total in parts:
        carries = 0
        while waiting and waiting[-1][0] == carries:
            carries, total = carries + 1, waiting.pop()[1] + total
        waiting.append((carries, total))
    total = waiting.pop()[1]
    while waiting:
        total = waiting.pop()[1] + total
    return total
