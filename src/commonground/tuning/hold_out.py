"""Everybody sets some of her rows aside, by their places alone, so that which they are depends on nobody else."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from commonground.data.population import Block, Population
from commonground.data.users import Users
from commonground.errors import InputError


@dataclass(frozen=True, repr=False)
class HeldOut:
    """The same people twice, with the rows that are trained on and with those that are not. Private."""

    seen: Users
    asked: Users
    position: np.ndarray  # of the people of ``asked`` among those of ``seen``

    def __repr__(self) -> str:
        return "<HeldOut: private>"


def hold_out(people: Population, every: int) -> HeldOut:
    """One row in ``every`` of each person, her second first; who has one row keeps it."""
    blocks = list(people.blocks())
    sizes = np.concatenate([np.diff(block.offsets) for block in blocks])
    whose = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(whose)) - np.repeat(np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    out = place % every == 1
    if not out.any():
        raise InputError("nobody has two rows or more, so none can be held out to choose by.")
    seen = Users.from_arrays(*_rows(blocks, ~out), whose[~out], feature_names=people.feature_names)
    asked = Users.from_arrays(*_rows(blocks, out), whose[out], feature_names=people.feature_names)
    assert np.array_equal(seen.ids, np.arange(people.n_users)), "everybody's first row is hers to train on"
    for part in (seen, asked):
        part.schema, part.label_name, part.user_name = people.schema, people.label_name, people.user_name
    return HeldOut(seen, asked, np.asarray(asked.ids))


def _rows(blocks: list[Block], which: np.ndarray) -> tuple[object, np.ndarray]:
    starts = np.cumsum([0, *(block.n_rows for block in blocks)])
    parts = [which[first:last] for first, last in pairwise(starts)]
    labels = np.concatenate([block.y[part] for block, part in zip(blocks, parts, strict=True)])
    rows = [block.X[part] for block, part in zip(blocks, parts, strict=True)]
    if blocks[0].sparse:
        from scipy import sparse

        return sparse.vstack(rows).tocsr(), labels
    return np.concatenate(rows), labels
