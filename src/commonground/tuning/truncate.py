"""A board of fewer directions, read off one of more: by the released spread of people's heads. Costs nothing."""

from dataclasses import replace

import numpy as np

from commonground.billboard.board import Billboard


def at_rank(board: Billboard, rank: int) -> Billboard:
    """The directions along which people's own coefficients are spread most, by the board's ``spread``; others are left out.

    Heads are then posteriors in fewer directions. The board has a ``spread``, and at least this rank.
    """
    if rank == board.rank:
        return board
    assert board.spread is not None
    assert rank < board.rank
    first = int(board.fit_intercept)
    own = board.spread[first:, first:]
    kept = np.linalg.eigh((own + own.T) / 2)[1][:, ::-1][:, :rank]  # (k, rank)
    within = np.zeros((first + board.rank, first + rank))
    within[:first, :first] = np.eye(first)
    within[first:, first:] = kept
    statement = replace(board.statement, parameters={**board.statement.parameters, "rank": int(rank)})
    spread = within.T @ board.spread @ within
    return replace(
        board,
        embedding=np.ascontiguousarray(board.embedding @ kept),
        spread=(spread + spread.T) / 2,
        statement=statement,
    )
