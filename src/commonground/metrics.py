"""How good a shared embedding is. Where the truth is known, population errors are exact, not sampled."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import subspace_angles

from commonground.billboard.board import Billboard
from commonground.data.users import Users
from commonground.heads.ridge import fit_heads

if TYPE_CHECKING:
    from commonground.datasets import Truth


def subspace_distance(U: np.ndarray, V: np.ndarray) -> float:
    """The sine of the largest principal angle between two column spaces: 0 for the same, 1 where one leaves the other.

    Parameters
    ----------
    U, V : array of shape (d, k)
        Bases; they need not be orthonormal.

    Returns
    -------
    float

    Examples
    --------
    >>> round(subspace_distance(np.eye(3)[:, :2], np.eye(3)[:, 1:]), 12)
    1.0
    """
    return float(np.sin(subspace_angles(U, V)[0]))


def population_mse(billboard: "Billboard | np.ndarray", users: Users, truth: "Truth") -> float:
    """The expected squared error on a fresh row (x ~ N(0, I)), averaged over people, with heads fitted on their rows.

    Parameters
    ----------
    billboard : Billboard or array of shape (d, k)
        Give ``truth.embedding`` instead of a billboard for the floor: what heads reach on these rows when the embedding is
        known. The label noise is part of both.
    users : Users
        Whose rows heads are fitted on.
    truth : Truth
        What they were drawn from.

    Returns
    -------
    float
    """
    board = billboard if isinstance(billboard, Billboard) else None
    if board is not None:
        embedding, mean, intercept = board.embedding, board.mean, board.intercept
    else:
        embedding, mean, intercept = np.asarray(billboard), None, 0.0
    total = 0.0
    for block in users.blocks():
        people = slice(block.first, block.first + block.n_users)
        if board is not None:
            table = board.head_kind.on_shared_part_only.fit(block, board)
            heads, own = table.weights, table.intercepts
        else:
            heads, own = fit_heads(block, embedding, mean, intercept, False)
        error = heads @ embedding.T - truth.heads[people] @ truth.embedding.T + (0.0 if mean is None else mean)
        total += float((error**2).sum() + ((own + intercept) ** 2).sum())
    return total / users.n_users + truth.noise**2


def error_of_heads(board: Billboard, users: Users, coefficients: np.ndarray, intercepts: np.ndarray) -> float:
    """The expected squared error on a fresh row (x ~ N(0, I)), averaged over people, beyond the noise of labels.

    Parameters
    ----------
    board : Billboard
        On which heads are fitted, from people's own rows.
    users : Users
        Whose rows these are.
    coefficients : array of shape (n, d)
        Everybody's true ones, in the order of ``users``.
    intercepts : array of shape (n,)
        And true intercepts.

    Returns
    -------
    float
    """
    total, mean = 0.0, 0.0 if board.mean is None else board.mean
    for block in users.blocks():
        people = slice(block.first, block.first + block.n_users)
        table = board.head_kind.on_shared_part_only.fit(block, board)
        error = table.weights @ board.embedding.T + mean - coefficients[people]
        total += float((error**2).sum() + ((table.intercepts + board.intercept - intercepts[people]) ** 2).sum())
    return total / users.n_users
