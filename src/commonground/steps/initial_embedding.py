"""Where a shared embedding starts from: the released second moment of everybody's own direction.

In place of P1's Algorithm 3 and P2's Algorithm 2: it needs no clip and no guess at the scale of labels. How many directions are
shared can be read off it, as its noise is known: post-processing, and free.

**Several looks** find more for the same budget where people are few: the first leaves out directions that are hardly among the
shared ones; within the rest, people's directions have lost most of their noise, and there are fewer numbers to be noised.
"""

from typing import Literal

import numpy as np

from commonground.clipping.sums import from_symmetric_half
from commonground.data.users import Users
from commonground.denoise.spectra import log_likelihood, visible_rank
from commonground.engines import sum_over_people
from commonground.gate import Gate
from commonground.statistics.directions import direction_sums, direction_sums_within
from commonground.steps.shared_mean import SharedMean

# Several looks: the share of the budget of each, and of all directions that the next one looks at.
LOOKS = ((0.48, 0.5), (0.3, 0.2), (0.22, None))


def release_initial_embedding(
    users: Users, rank: int | Literal["auto"], shared: SharedMean | None, local_intercept: bool, gate: Gate, mu: float
) -> np.ndarray:
    """Its top-k eigenvectors, (d, k); ``rank="auto"``: as many as stand out of the noise."""
    moment, noise_std = release_direction_moment(users, shared, local_intercept, gate, mu)
    eigenvalues, Q = np.linalg.eigh(moment)
    if isinstance(rank, str):
        rank = visible_rank(eigenvalues, noise_std, users.total_weight)
    return np.ascontiguousarray(Q[:, -rank:])


def release_direction_moment(
    users: Users, shared: SharedMean | None, local_intercept: bool, gate: Gate, mu: float
) -> tuple[np.ndarray, float]:
    """Σ_j u_j u_jᵀ, (d, d), and the standard deviation of the noise in its symmetric half."""
    d = users.n_features
    mean, intercept = (np.zeros(d), 0.0) if shared is None else (shared.coef, shared.intercept)
    sums = sum_over_people(users, direction_sums, mean, intercept, local_intercept)
    half = gate.release(sums.bounded("initial embedding"), mu)
    return from_symmetric_half(half.value, d), half.noise_std


def release_embedding_in_looks(users: Users, rank: int, local_intercept: bool, gate: Gate, mu: float) -> np.ndarray:
    """The top-k eigenvectors of what several looks say together, (d, k)."""
    d = users.n_features
    public = np.zeros(d), 0.0, local_intercept
    evidence, subspace = np.zeros((d, d)), np.eye(d)
    for look, (share, kept) in enumerate(LOOKS):
        if look == 0:
            sums = sum_over_people(users, direction_sums, *public)
        else:
            sums = sum_over_people(users, direction_sums_within, subspace, *public)
        half = gate.release(sums.bounded(f"initial embedding, look {look + 1}"), mu * share**0.5)
        moment = from_symmetric_half(half.value, subspace.shape[1])
        evidence += subspace @ log_likelihood(moment, rank, half.noise_std, users.total_weight) @ subspace.T
        directions = max(2 * rank, round(kept * d)) if kept else rank
        subspace = np.ascontiguousarray(np.linalg.eigh(evidence)[1][:, -directions:])
    return subspace
