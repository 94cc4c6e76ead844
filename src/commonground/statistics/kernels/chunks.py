"""A block handed to kernels in chunks of whole people, on several threads."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from commonground.clipping.grid import CHUNK
from commonground.data.population import Block, Sum
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.threads import each, get_num_threads


def over_chunks(
    block: Block, run: Callable[[Block], Any], *, people: int = CHUNK, doubles: bool = True, enlarge: bool | None = None
) -> Any:
    """``run`` each chunk of so many people; what they give, arrays or tuples of them, joined along the first axis.

    ``doubles``: with rows as float64, so that a kernel is compiled once, whatever the table has. A chunk's copy stays in the
    cache. Otherwise rows as they are; with ``enlarge``, the default then, in as few pieces as keep all threads busy, for a kernel
    with a loop over chunks.
    """
    if not doubles if enlarge is None else enlarge:
        people *= max(1, -(-block.n_users // (people * 4 * get_num_threads())))
    starts = range(0, block.n_users, people)
    given = each(lambda start: run(_piece(block, start, min(start + people, block.n_users), doubles)), starts)
    if len(given) == 1:
        return given[0]
    if isinstance(given[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*given, strict=True))
    return np.concatenate(given)


def sum_over_chunks(block: Block, run: Callable[[Block], Sum], coordinates: Coordinates | None = None) -> Sum:
    """``run`` each chunk, with rows as they are or in ``coordinates``; what they give, added up in their order."""

    def of_chunk(start: int) -> Sum:
        some = _piece(block, start, min(start + CHUNK, block.n_users), False)
        return run(some if coordinates is None else replace(some, X=coordinates.rows(some.X)))

    first, *others = each(of_chunk, range(0, block.n_users, CHUNK))
    for other in others:
        first = first + other
    return first


def _piece(block: Block, start: int, end: int, doubles: bool) -> Block:
    rows = slice(block.offsets[start], block.offsets[end])
    X, y = block.X[rows], block.y[rows]
    if doubles:
        X, y = X.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    weights = None if block.weights is None else block.weights[start:end]
    return Block(X, y, block.offsets[start : end + 1] - rows.start, block.first + start, weights)
