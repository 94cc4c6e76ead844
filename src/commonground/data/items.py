"""Rows that are mostly zeros, kept as scipy.sparse CSR from the table to the prediction; one-hot items.

Nothing here or in ``statistics.posterior`` is ever as large as rows × features.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from commonground.data.columns import bad_value, not_numeric, require_unique
from commonground.data.ids import is_column, plain_list
from commonground.data.stores import Rows
from commonground.errors import InputError

ROW_BYTES = 64  # a nominal row, when blocks are cut: their edges must not depend on how many items people have


def one_hot(item_ids: Any, items: Any) -> sparse.csr_array:
    """A row for each id, with a one in the column of that item; columns in the order of ``items``.

    ``items`` is the catalogue: every item there is, made without looking at the ratings. Which items *occur* is private: an item
    that one person alone has rated would give her away as a column of the published embedding. Ids are compared as text.

    Parameters
    ----------
    item_ids : list, array or column of shape (n_rows,)
        Each row's item.
    items : list, array or column of shape (n_items,)
        The catalogue.

    Returns
    -------
    scipy.sparse.csr_array of shape (n_rows, n_items)

    Examples
    --------
    >>> one_hot(["tea", "milk", "tea"], items=["milk", "tea", "rum"]).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    column_of = {name: column for column, name in enumerate(item_names(items))}
    wanted = _as_text(item_ids, "item_ids")
    columns = np.fromiter((column_of.get(name, -1) for name in wanted), dtype=np.int32, count=len(wanted))
    if len(columns) and columns.min() < 0:
        raise InputError(
            f"Row {int(np.argmin(columns))} (counting from 0) names an item that is not among the {len(column_of)} items. "
            "Add it to items, or drop such rows."
        )
    shape = (len(columns), len(column_of))
    return sparse.csr_array((np.ones(len(columns), np.float32), columns, np.arange(len(columns) + 1)), shape=shape)


def item_names(items: Any) -> list[str]:
    """The catalogue as text."""
    if items is None:
        raise InputError(
            "items is missing: the list of all items there are, from the catalogue and not from the ratings. Which items "
            "occur in the ratings is private."
        )
    names = _as_text(items, "items")
    require_unique(names, "items")
    return names


def _as_text(ids: Any, name: str) -> list[str]:
    if not is_column(ids):
        raise InputError(f"{name} must be a list, an array or a column of item ids, got {type(ids).__name__}.")
    return [str(one) for one in plain_list(ids)]


def as_csr(X: Any, names: Sequence[object]) -> sparse.csr_array:
    """CSR with float32 values if they were float32, else float64; sorted, no place stored twice, every value finite."""
    if X.dtype.kind not in "biuf":
        raise not_numeric(names[0], X.dtype)
    matrix = sparse.csr_array(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    finite = np.isfinite(matrix.data)
    if not finite.all():
        at = int(np.argmin(finite))
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise bad_value(row, names[int(matrix.indices[at])], "NaN or infinite")
    return matrix


class SparseRows(Rows):
    """Sparse rows in memory, grouped by person."""

    is_sparse = True
    row_bytes = ROW_BYTES

    def __init__(self, X: sparse.csr_array, y: np.ndarray):
        self.X, self.y, self.dtype, self.n_features = X, y, X.dtype, X.shape[1]

    def read(self, cuts: np.ndarray) -> Iterator[tuple[sparse.csr_array, np.ndarray]]:
        for start, stop in pairwise(cuts.tolist()):
            whole = start == 0 and stop == len(self.y)
            yield self.X if whole else self.X[start:stop], self.y[start:stop]

    def scaled(self, scales: np.ndarray) -> "SparseRows":
        """The same rows, each feature times a public number."""
        with np.errstate(over="ignore"):  # an endless value is left out where it is read; that it is there is private
            data = (self.X.data * scales[self.X.indices]).astype(self.dtype)
        return SparseRows(sparse.csr_array((data, self.X.indices, self.X.indptr), shape=self.X.shape), self.y)
