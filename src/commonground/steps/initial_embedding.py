"""Where a shared embedding starts from: the released second moment of everybody's own direction.

In place of P1's Algorithm 3 and P2's Algorithm 2: it needs no clip and no guess at the scale of labels. How many directions are
shared can be read off it, as its noise is known: post-processing, and free.

**Several looks** find more for the same budget where people are few: the first leaves out directions that are hardly among the
shared ones; within the rest, people's directions have lost most of their noise, and there are fewer numbers to be noised.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from commonground.clipping.sums import DirectionSums, from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.spectra import log_likelihood, visible_rank
from commonground.gate import Gate
from commonground.statistics.directions import Directions, DirectionsWithin
from commonground.statistics.sparse_features import SparseDirections
from commonground.statistics.statistic import SharedModel, Statistic

# Several looks: the share of the budget of each, and of all directions that the next one looks at.
LOOKS = ((0.48, 0.5), (0.3, 0.2), (0.22, None))


def release_initial_embedding(
    users: Population, rank: int | Literal["auto"], model: SharedModel, gate: Gate, mu: float
) -> np.ndarray:
    """Its top-k eigenvectors, (d, k); ``rank="auto"``: as many as stand out of the noise."""
    moment, noise_std = release_direction_moment(users, model, gate, mu)
    eigenvalues, Q = np.linalg.eigh(moment)
    k = max(1, visible_rank(eigenvalues, noise_std, users.total_weight)) if rank == "auto" else rank
    return np.ascontiguousarray(Q[:, -k:])


def release_direction_moment(
    users: Population, model: SharedModel, gate: Gate, mu: float, features: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    """Σ_j u_j u_jᵀ, (d, d), and the standard deviation of the noise in its symmetric half; of sparse rows, for ``features``."""
    half = gate.release(users.sum(_directions(users, model, features)).bounded("initial embedding"), mu)
    return from_symmetric_half(half.value, _size(users, features)), half.noise_std


def release_embedding_in_looks(
    users: Population,
    rank: int,
    model: SharedModel,
    gate: Gate,
    mu: float,
    features: np.ndarray | None = None,
    repaired: Callable[[np.ndarray, int, float], np.ndarray] | None = None,
    looks: Sequence[tuple[float, float | None]] = LOOKS,
) -> np.ndarray:
    """The top-k eigenvectors of what several looks say together, (d, k); of sparse rows, for ``features``.

    ``repaired``: what is made of the first look's moment, given the rank and its noise, before it is believed.
    """
    d = _size(users, features)
    evidence, subspace = np.zeros((d, d)), np.eye(d)
    for look, (share, kept) in enumerate(looks):
        asked = _directions(users, model, features, subspace if look else None)
        half = gate.release(users.sum(asked).bounded(f"initial embedding, look {look + 1}"), mu * share**0.5)
        moment = from_symmetric_half(half.value, subspace.shape[1])
        if repaired is not None and look == 0:
            moment = repaired(moment, rank, half.noise_std)
        evidence += subspace @ log_likelihood(moment, rank, half.noise_std, users.total_weight) @ subspace.T
        directions = max(2 * rank, round(kept * d)) if kept else rank
        subspace = np.ascontiguousarray(np.linalg.eigh(evidence)[1][:, -directions:])
    return subspace


def _size(users: Population, features: np.ndarray | None) -> int:
    return users.n_features if features is None or not users.sparse else len(features)


def _directions(
    users: Population, model: SharedModel, features: np.ndarray | None, subspace: np.ndarray | None = None
) -> Statistic[DirectionSums]:
    """Everybody's own direction, or the part of it within a subspace."""
    if users.sparse:
        return SparseDirections(model, np.arange(users.n_features) if features is None else features, subspace)
    return Directions(model) if subspace is None else DirectionsWithin(model, subspace)
