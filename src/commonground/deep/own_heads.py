"""What a person does on her own side with a published body: her head, from her own rows. Free, and shown to nobody else.

People are computed one by one, each in arrays of her own, so that no number of one enters another's, not even in the last bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from commonground.deep.clipped import full_precision
from commonground.deep.profiled import WithSharedHead

# Times the ridge of the training; she also may keep no head at all
RIDGES = tuple(4.0**power for power in range(-3, 4))
_ROWS_AT_ONCE = 256  # of one person in a body


@dataclass(frozen=True, repr=False)
class OwnHeads:
    """Everybody's own head; private: entry j belongs to person j alone."""

    ids: np.ndarray  # sorted
    heads: np.ndarray  # (people, k + 1, outputs), the intercept last

    def __repr__(self) -> str:
        return "<OwnHeads: private>"

    def __getstate__(self) -> dict[str, np.ndarray]:
        raise TypeError("heads of several people are private to each of them, and are not written together.")


def outputs_of(model: WithSharedHead, X: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(what the shared head says, the body's features with a one for the intercept) of one person's rows.

    Some rows at a time: inside a body they may be wide, and memory that one person's rows exhaust would end everybody's fit.
    """
    with torch.no_grad(), full_precision():
        found = np.concatenate([model(rows).double().cpu().numpy() for rows in X.split(_ROWS_AT_ONCE)])
    shared, features = np.split(found, [model.n_outputs], axis=1)
    return shared, np.column_stack([features, np.ones(len(features))])


def of_each(users: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(person, her rows) for persons 0, 1, …"""
    order = np.argsort(users, kind="stable")
    ends = np.cumsum(np.bincount(users))
    yield from enumerate(np.split(order, ends[:-1]))


def own_head(model: WithSharedHead, X: Tensor, y: np.ndarray, ridge: float) -> np.ndarray:
    """(k + 1, outputs) for what the shared head leaves over, with the ridge that predicts her own rows best when each is left out
    in turn; zero, where no head does better than none.
    """
    shared, features = outputs_of(model, X)
    left = y - shared
    none = np.zeros((features.shape[1], left.shape[1]))
    if not (np.isfinite(features).all() and np.isfinite(left).all() and np.isfinite(ridge)):
        return none
    try:
        U, s, Vt = np.linalg.svd(features, full_matrices=False)
    except np.linalg.LinAlgError:
        return none
    with np.errstate(over="ignore", invalid="ignore"):  # of huge rows: then no head is better than none
        along, best, lowest = U.T @ left, none, float((left**2).sum())
        for strength in ridge * np.array(RIDGES):
            shrunk = s**2 / (s**2 + strength)
            leverage = np.einsum("ij,j,ij->i", U, shrunk, U)  # below 1, as the strength is above 0
            missed = (left - U @ (shrunk[:, None] * along)) / np.maximum(1 - leverage, 1e-12)[:, None]
            if (error := float((missed**2).sum())) < lowest:
                lowest, best = error, Vt.T @ ((s / (s**2 + strength))[:, None] * along)
    return best
