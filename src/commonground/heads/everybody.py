"""Heads of many people at once, and what they answer: one place that says whose a row of numbers is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.data.population import Block, Population
from commonground.heads.arithmetic import row_scores
from commonground.heads.choice import OwnModels


@dataclass(frozen=True, repr=False)
class EverybodysHeads:
    """Row j belongs to person j alone."""

    weights: np.ndarray  # (n, k)
    intercepts: np.ndarray  # (n,) on top of the shared intercept
    own: OwnModels  # of those who do better alone

    def __repr__(self) -> str:
        return "<EverybodysHeads: private>"

    def predict(self, board: Billboard, X: Any, position: np.ndarray) -> np.ndarray:
        """Each row by its person's own model, given her position; by the shared part where that is -1."""
        own_of = self.own.of(position)
        scores = row_scores(
            X, board.mean, board.embedding, self.weights, position, self.own.coef[:, :-1], own_of
        )  # fmt: skip
        intercepts = np.full(len(scores), float(board.intercept))
        known, alone = position >= 0, own_of >= 0
        with np.errstate(over="ignore", invalid="ignore"):  # a huge row has a huge answer
            intercepts[known] += self.intercepts[position[known]]
            intercepts[alone] = self.own.coef[own_of[alone], -1]
            return np.asarray(scores + intercepts)


def fit_everybody(
    board: Billboard, users: Population, block_heads: Callable[[Block], tuple[np.ndarray, np.ndarray]]
) -> EverybodysHeads:
    """A head for each person from her own rows by ``block_heads``, or what serves her better."""
    weights, intercepts = np.empty((users.n_users, board.rank)), np.empty(users.n_users)
    alone = []
    for block in users.blocks():
        here = slice(block.first, block.first + block.n_users)
        weights[here], intercepts[here] = block_heads(block)
        alone.append((block.first, board.keep_best(block, weights[here], intercepts[here])))
    return EverybodysHeads(weights, intercepts, OwnModels.of_blocks(alone))
