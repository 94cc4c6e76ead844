"""Where a shared embedding starts from: the released second moment of everybody's own direction.

In place of P1's Algorithm 3 and P2's Algorithm 2: it needs no clip and no guess at the scale of labels. How many directions are
shared can be read off it, as its noise is known: post-processing, and free.

**Several looks** find more for the same budget where people are few: the first leaves out directions that are hardly among the
shared ones; within the rest, people's directions have lost most of their noise, and there are fewer numbers to be noised.
"""

from typing import Literal

import numpy as np

from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.spectra import log_likelihood, visible_rank
from commonground.gate import Gate
from commonground.statistics.directions import Directions, DirectionsWithin
from commonground.statistics.statistic import SharedModel

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


def release_direction_moment(users: Population, model: SharedModel, gate: Gate, mu: float) -> tuple[np.ndarray, float]:
    """Σ_j u_j u_jᵀ, (d, d), and the standard deviation of the noise in its symmetric half."""
    half = gate.release(users.sum(Directions(model)).bounded("initial embedding"), mu)
    return from_symmetric_half(half.value, users.n_features), half.noise_std


def release_embedding_in_looks(users: Population, rank: int, model: SharedModel, gate: Gate, mu: float) -> np.ndarray:
    """The top-k eigenvectors of what several looks say together, (d, k)."""
    d = users.n_features
    evidence, subspace = np.zeros((d, d)), np.eye(d)
    for look, (share, kept) in enumerate(LOOKS):
        asked = Directions(model) if look == 0 else DirectionsWithin(model, subspace)
        half = gate.release(users.sum(asked).bounded(f"initial embedding, look {look + 1}"), mu * share**0.5)
        moment = from_symmetric_half(half.value, subspace.shape[1])
        evidence += subspace @ log_likelihood(moment, rank, half.noise_std, users.total_weight) @ subspace.T
        directions = max(2 * rank, round(kept * d)) if kept else rank
        subspace = np.ascontiguousarray(np.linalg.eigh(evidence)[1][:, -directions:])
    return subspace
