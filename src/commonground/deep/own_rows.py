"""Owners' rows, laid out so that no number of one owner enters another's: not in the last bit, and not by how many rows it has.

On a CPU owners are computed one by one, each in tensors of its own. On a GPU, where that would be much slower, several are
computed at once, in stacks whose shape follows from what an owner's own rows are padded to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BATCH = 64  # rows of one owner's minibatch
_ROWS_AT_ONCE = 2**16  # of all owners of a stack together; padding included
_FEW_ROWS = 16  # rows of owners with less than one minibatch are padded to a multiple of this


@dataclass(frozen=True, repr=False)
class OwnRows:
    """The rows of an owner, or of several at once, padded to the same number; private."""

    X: Tensor  # (owners, rows, …)
    y: Tensor  # (owners, rows)
    weight: Tensor  # (owners, rows) 1 for a row, 0 for padding

    def __repr__(self) -> str:
        return "<OwnRows: private>"

    @classmethod
    def of(cls, X: Tensor, y: Tensor, rows: Sequence[np.ndarray], n_columns: int, n_owners: int) -> "OwnRows":
        """Owner j has ``rows[j]`` of X; owners beyond those listed have none."""
        owner = np.repeat(np.arange(len(rows)), [len(mine) for mine in rows])
        column = np.concatenate([np.arange(len(mine)) for mine in rows])
        at = (torch.from_numpy(owner).to(X.device), torch.from_numpy(column).to(X.device))
        taken = torch.from_numpy(np.concatenate(rows)).to(X.device)
        padded = X.new_zeros((n_owners, n_columns, *X.shape[1:]))
        labels = y.new_zeros((n_owners, n_columns, *y.shape[1:]))
        weight = torch.zeros((n_owners, n_columns), device=X.device)
        padded[at], labels[at], weight[at] = X[taken], y[taken], 1.0
        return cls(padded, labels, weight)


def stacks(
    X: Tensor, y: Tensor, owner_of_row: np.ndarray, n_owners: int, width: int
) -> Iterator[tuple[np.ndarray, np.ndarray, OwnRows]]:
    """(owners, their rows one after the other, these rows padded).

    On a CPU one owner at a time; on a GPU up to ``width`` at once whose rows are padded to the same number.

    The shape in which an owner is computed follows from its own number of rows and the (public) number of owners alone, since in
    another shape the last bits differ. On a GPU a stack is therefore filled up with owners without rows. On a CPU a batched
    product rounds by the place of a matrix in the batch, so that even in one shape the last bits would tell who
    else is in it.
    """
    order, counts = np.argsort(owner_of_row, kind="stable"), np.bincount(owner_of_row, minlength=n_owners)
    rows = np.split(order, np.cumsum(counts)[:-1])
    columns = _columns(counts)
    for n_columns in np.unique(columns):
        alike = np.flatnonzero(columns == n_columns)
        at_once = min(width, max(_ROWS_AT_ONCE // int(n_columns), 1)) if X.is_cuda else 1
        for first in range(0, len(alike), at_once):
            some = alike[first : first + at_once]
            mine = [rows[j] for j in some]
            yield some, np.concatenate(mine), OwnRows.of(X, y, mine, int(n_columns), at_once)


def _columns(n_rows: np.ndarray) -> np.ndarray:
    """What an owner's rows are padded to: whole minibatches, or, below one, a part of it."""
    unit = np.where(n_rows <= BATCH, _FEW_ROWS, BATCH)
    return (np.ceil(n_rows / unit).clip(min=1) * unit).astype(np.int64)
