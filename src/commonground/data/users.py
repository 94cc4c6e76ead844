"""Rows grouped by person: who there is, and their rows in blocks of whole people.

`opening` checks what is given, `ids` finds out who owns which row, `tables` opens what rows come in, and `stores` keeps the
grouped rows, in memory or on disk.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
from scipy import sparse

from commonground.data.ids import People, is_column, plain_list
from commonground.data.opening import users_of_arrays, users_of_table
from commonground.data.population import Block, Population, Sum, Summable
from commonground.data.schema import Schema
from commonground.data.sources import PathLike
from commonground.data.stores import Rows
from commonground.errors import InputError, UnknownUserError


class RowReader(Protocol):
    """Who reads the rows in place of this processor."""

    def sum(self, users: "Users", statistic: Any) -> Any: ...


class Users(Population):
    """Many people with any number of rows each; made by `from_arrays` or `from_table`.

    People come in table order where each person's rows are adjacent, else sorted by id (in order of first appearance if
    ids cannot be sorted). The rows of one person keep their order. How many rows there are is private, as is
    `max_rows_per_user`; the number of people is public.

    Parameters
    ----------
    people : People
        Who there is.
    rows : Rows
        Theirs, grouped by person.
    feature_names : sequence of str or None, default=None
        In the order of columns.
    label_name, user_name : str or None, default=None
        Of the table's columns.

    Attributes
    ----------
    n_users, n_features : int
        Public.
    n_rows, max_rows_per_user : int
        Private.
    sparse : bool
        Whether rows are mostly zeros and kept so.
    streamed : bool
        Whether rows are read from disk. As private as the number of rows: nothing that is published may follow from it.
    budgets : array of shape (n_users,), or None
        Everybody's own ε, where the table has them.

    Examples
    --------
    >>> users = Users.from_arrays(X=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], y=[1, 2, 3], user_ids=["bo", "al", "bo"])
    >>> users
    Users(n_users=2, n_features=2)
    >>> X, y = users.rows_of("bo")
    >>> X.tolist(), y.tolist()
    ([[1.0, 2.0], [5.0, 6.0]], [1.0, 3.0])
    >>> [(block.first, block.offsets.tolist()) for block in users.blocks()]
    [(0, [0, 1, 3])]
    """

    def __init__(
        self,
        people: People,
        rows: Rows,
        *,
        feature_names: Sequence[str] | None = None,
        label_name: str | None = None,
        user_name: str | None = None,
    ):
        self._people = people
        self._rows = rows
        self.n_users = len(people.offsets) - 1
        self.n_rows = int(people.offsets[-1])
        self.n_features = rows.n_features
        self.max_rows_per_user = int(np.diff(people.offsets).max())
        self.sparse = rows.is_sparse
        self.numbers = str(rows.dtype)
        self.streamed = rows.streamed
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.label_name = label_name
        self.user_name = user_name
        self.reader: RowReader | None = None  # such as a GPU; None: this processor
        self._gathered: tuple[np.ndarray | None, list[Block]] | None = None  # blocks of those with these weights, kept

    @classmethod
    def from_arrays(
        cls, X: Any, y: Any, user_ids: Any, *, feature_names: Sequence[str] | None = None, schema: Schema | None = None
    ) -> "Users":
        """Rows in any order. Ids may be numbers, text, bytes, UUIDs, tuples or a mixture; equal ids are one person.

        X stays float32 if it is, else becomes float64; a C-contiguous X whose rows are grouped is not copied. A matrix of
        scipy.sparse stays sparse. Feature names are those given, else those of a DataFrame, whose columns are then looked at
        (``data.first_look``): what seems an index or an id, or is the same in all rows, is a warning.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        user_ids : array of shape (n_rows,)
            Each row's person.
        feature_names : sequence of str or None, default=None
            One for each column.
        schema : Schema or None, default=None
            What the columns of X are, by their names or, in an array, by their order; and what y is.

        Returns
        -------
        Users
        """
        return users_of_arrays(cls, X, y, user_ids, feature_names, schema)

    @classmethod
    def from_table(
        cls,
        source: Any,
        user: str = "user_id",
        label: str = "y",
        features: Sequence[str] | None = None,
        *,
        item: str | None = None,
        items: Any = None,
        budget: str | None = None,
        schema: Schema | None = None,
        max_memory: int = 2 * 2**30,
        scratch: PathLike | None = None,
        engine: str = "local",
        address: str | None = None,
        verbose: bool = False,
    ) -> "Users":
        """A DataFrame of pandas or polars, a pyarrow Table, a .csv, .csv.gz or .parquet file, or a folder of .parquet.

        Parquet may also be at any address that ``pyarrow.fs`` knows: s3://bucket/folder, gs://…, hdfs://…. Ids in a CSV are text,
        unless every one of them is a plain whole number (int64, no leading zero, sign, point or space): 007 and 7 are two people.

        Parameters
        ----------
        source : DataFrame, Table or path
            See above.
        user, label : str, default="user_id" and "y"
            The columns of ids and of labels.
        features : sequence of str or None, default=None
            None takes every other column; whole numbers that look like an index or an id are then refused by name, as are ids
            that differ by blanks alone; what else is hardly meant is a warning (``data.first_look``).
        item : str or None, default=None
            A column of item ids, which becomes the only feature, one-hot and sparse: a row is one person's rating of one item.
            Such tables are held in memory, a few bytes a row.
        items : list, array or column, default=None
            With ``item``, the list of all items there are, from the catalogue and not from this table: which items occur in it is
            private (see ``one_hot``).
        budget : str or None, default=None
            A column with everybody's own ε, the same in all rows of a person; every fit then keeps to it (fits on the same people
            add up, as always).
        schema : Schema or None, default=None
            What each column is: text, dates, ranges and missing cells become numbers by it, and by it alone. It names person,
            label and features; ``user`` and ``label`` are then not looked at, and ``budget`` may be a column that it ignores.
            Where categories are to be discovered, what is returned has no rows yet: ``fit`` finds their values, privately, and
            makes them.
        max_memory : int, default=2 GiB
            A file that needs more than so many bytes as a matrix stays on disk. Parquet grouped by person, with few columns or
            row groups that are not large, is read as it is; other files through a copy under ``scratch``.
        scratch : path or None, default=None
            Where that copy lies; it is removed with the object. None: the system's temporary folder.
        engine : str, default="local"
            Who reads the rows in place of this process, one of ``data.opening.ENGINES``: "ray" leaves those of Parquet files to
            the workers of a Ray cluster: every fit asks them for sums, and has neither rows nor heads itself. ``max_memory`` is
            then for each worker, and all nodes must see the files and ``scratch``.
        address : str or None, default=None
            Of the Ray cluster. None: one on this machine, with all its cores.
        verbose : bool, default=False
            Show how far the workers are.

        Returns
        -------
        Users
        """
        return users_of_table(
            cls, source, user, label, features, item=item, items=items, budget=budget, schema=schema, max_memory=max_memory,
            scratch=scratch, engine=engine, address=address, verbose=verbose,
        )  # fmt: skip

    @cached_property
    def ids(self) -> np.ndarray:
        """One id per person, in block order: an array of numbers, or of Python objects."""
        return self._people.ids()

    def blocks(self, max_bytes: int | None = None) -> Iterator[Block]:
        """All rows once, in blocks of whole people; the same blocks every time.

        People who take no part (``weighted``) are left out.

        Parameters
        ----------
        max_bytes : int or None, default=None
            None means 16 MiB for a streamed table and, as rows in memory are not copied, 512 MiB for others. A block takes up to
            half of it, since the last block is still in the caller's hands when the next one is read. Only a person with more
            rows than that makes a larger block, alone.

        Yields
        ------
        Block
            Private.
        """
        if max_bytes is None and self._gathered is not None and self._gathered[0] is self._weights:
            yield from self._gathered[1]
            return
        if max_bytes is None:
            max_bytes = (16 if self.streamed else 512) * 2**20
        if max_bytes < 1:
            raise InputError(f"max_bytes must be a positive number of bytes, got {max_bytes!r}.")
        offsets = self._people.offsets
        most_rows = max_bytes // (2 * self._rows.row_bytes)
        if self._weights is not None and not self._weights.all():
            yield from self._blocks_of_participants(self._weights, most_rows)
            return
        edges = _block_edges(offsets, most_rows)
        for (first, end), (X, y) in zip(pairwise(edges), self._rows.read(offsets[edges]), strict=True):
            weights = None if self._weights is None else self._weights[first:end]
            yield Block(X, y, offsets[first : end + 1] - offsets[first], first, weights)

    def _blocks_of_participants(self, weights: np.ndarray, most_rows: int) -> Iterator[Block]:
        """Blocks of those with a weight; their edges do not depend on the others' rows."""
        offsets, takes_part = self._people.offsets, weights > 0
        sizes = np.diff(offsets)
        edges = _block_edges(np.concatenate([[0], np.cumsum(sizes * takes_part)]), most_rows)
        reads = np.union1d(edges, _block_edges(offsets, most_rows))
        ends, waiting, first = set(edges), [], 0
        for (start, end), (X, y) in zip(pairwise(reads.tolist()), self._rows.read(offsets[reads]), strict=True):
            here = takes_part[start:end]
            rows = np.repeat(here, sizes[start:end])
            waiting.append((X[rows], y[rows]))
            if end in ends:
                part = np.flatnonzero(takes_part[first:end]) + first
                if len(part):
                    parts, labels = zip(*waiting, strict=True)
                    X, y = parts[0], labels[0]
                    if len(parts) > 1:
                        X, y = (sparse.vstack if self.sparse else np.concatenate)(parts), np.concatenate(labels)
                    yield Block(X, y, np.concatenate([[0], np.cumsum(sizes[part])]), first, weights[part])
                waiting, first = [], end

    def only(self, takes_part: np.ndarray) -> "Users":
        some = super().only(takes_part)  # rows in memory are gathered once, for many sums
        if not (self._rows.is_sparse or self._rows.streamed):
            some.reader = None  # which has everybody's rows elsewhere
            some._gathered = some._weights, list(some.blocks())
        return some

    def _sum(self, statistic: Summable[Sum]) -> Sum:
        return super()._sum(statistic) if self.reader is None else self.reader.sum(self, statistic)

    def scaled(self, scales: np.ndarray) -> Self:
        same = copy(self)
        same._rows = self._rows.scaled(scales)
        return same

    def index_of(self, ids: Any) -> np.ndarray:
        """The position of each id in `ids`, -1 for people who are not here.

        Parameters
        ----------
        ids : list or array
            Whom to look for.

        Returns
        -------
        array of int
            One position for each.
        """
        if not is_column(ids):
            raise InputError(
                f"ids must be a list or an array of ids, got {ids!r:.80}. Write [{ids!r:.80}] for one person."
            )
        if isinstance(getattr(ids, "dtype", None), np.dtype) and ids.dtype.kind == self.ids.dtype.kind in "iu":
            wanted = np.asarray(ids)
            sorter = self._sorter
            found = sorter[np.minimum(np.searchsorted(self.ids, wanted, sorter=sorter), self.n_users - 1)]
            return np.where(self.ids[found] == wanted, found, -1)
        ids = plain_list(ids)
        position_of = self._position_of
        try:
            return np.fromiter((position_of.get(one, -1) for one in ids), dtype=np.int64, count=len(ids))
        except TypeError as error:
            raise InputError(f"ids holds something that cannot be an id ({error}). Pass one id per entry.") from None

    def rows_of(self, user_id: Any) -> tuple[np.ndarray, np.ndarray]:
        """One person's X and y.

        Parameters
        ----------
        user_id : object
            As it is in ``ids``.

        Returns
        -------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        """
        position = int(self.index_of([user_id])[0])
        if position < 0:
            raise UnknownUserError(f"There is no person with id {user_id!r}. Users.ids lists the people there are.")
        return next(iter(self._rows.read(self._people.offsets[position : position + 2])))

    @cached_property
    def _sorter(self) -> np.ndarray:
        return np.argsort(self.ids)

    @cached_property
    def _position_of(self) -> dict[Any, int]:
        return {one: position for position, one in enumerate(self.ids.tolist())}


def _block_edges(offsets: np.ndarray, most_rows: int) -> list[int]:
    """Cuts between people such that each block has at most ``most_rows`` rows, or one person."""
    edges = [0]
    while edges[-1] < len(offsets) - 1:
        fitting = int(np.searchsorted(offsets, offsets[edges[-1]] + most_rows, side="right")) - 1
        edges.append(max(fitting, edges[-1] + 1))
    return edges
