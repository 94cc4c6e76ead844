"""Where a shared embedding starts from: the released second moment of everybody's own direction.

In place of P1's Algorithm 3 and P2's Algorithm 2: it needs no clip and no guess at the scale of labels. How many directions are
shared can be read off it, as its noise is known: post-processing, and free.
"""

from typing import Literal

import numpy as np

from commonground.clipping import from_symmetric_half
from commonground.contributions.directions import direction_sums
from commonground.engines import sum_over_people
from commonground.estimators.rounds import Door
from commonground.estimators.shared_mean import SharedMean
from commonground.users import Users

LARGEST_RANK = 20  # that is ever chosen
_WORTH = 0.1  # of the strongest direction's eigenvalue: what features that are not quite alike make up stays below
_SURE = 2.0  # widths of the fluctuation of the largest eigenvalue of noise


def release_initial_embedding(
    users: Users, rank: int | Literal["auto"], shared: SharedMean | None, local_intercept: bool, door: Door, mu: float
) -> np.ndarray:
    """Its top-k eigenvectors, (d, k); ``rank="auto"``: as many as stand out of the noise."""
    d = users.n_features
    mean, intercept = (np.zeros(d), 0.0) if shared is None else (shared.coef, shared.intercept)
    sums = sum_over_people(users, direction_sums, mean, intercept, local_intercept)
    half = door.release(sums.bounded("initial embedding"), mu)
    eigenvalues, Q = np.linalg.eigh(from_symmetric_half(half.value, d))
    if isinstance(rank, str):
        rank = visible_rank(eigenvalues, half.noise_std, users.total_weight)
    return np.ascontiguousarray(Q[:, -rank:])


def visible_rank(eigenvalues: np.ndarray, noise_std: float, n_people: float) -> int:
    """How many eigenvalues of Σ u uᵀ, in rising order, no noise explains; at least one.

    Noise of σ on the symmetric half, and n random directions, whose entries have a variance of n/d², spread the others over a
    semicircle of radius 2s around their middle, s² = d σ²/2 + n/d. Its edge fluctuates by s d^(−2/3).

    >>> visible_rank(np.array([1.0, 2.0, 3.0, 90.0, 95.0]), noise_std=1.0, n_people=5.0)
    2
    """
    d = len(eigenvalues)
    spread = float(np.sqrt(d * noise_std**2 / 2 + n_people / d))
    above = eigenvalues - np.median(eigenvalues)
    edge = spread * (2 + _SURE * d ** (-2 / 3))
    return int(np.clip((above > max(edge, _WORTH * above[-1])).sum(), 1, min(LARGEST_RANK, d - 1)))
