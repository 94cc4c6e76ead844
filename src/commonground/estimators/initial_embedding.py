"""Where a shared embedding starts from: the released second moment of everybody's own direction.

In place of P1's Algorithm 3 and P2's Algorithm 2: it needs no clip and no guess at the scale of labels.
"""

import numpy as np

from commonground.clipping import from_symmetric_half
from commonground.contributions.directions import direction_sums
from commonground.engines import sum_over_people
from commonground.estimators.rounds import Door
from commonground.estimators.shared_mean import SharedMean
from commonground.users import Users


def release_initial_embedding(
    users: Users, rank: int, shared: SharedMean | None, local_intercept: bool, door: Door, mu: float
) -> np.ndarray:
    """Its top-k eigenvectors, (d, k)."""
    d = users.n_features
    mean, intercept = (np.zeros(d), 0.0) if shared is None else (shared.coef, shared.intercept)
    sums = sum_over_people(users, direction_sums, mean, intercept, local_intercept)
    half = door.release(sums.bounded("initial embedding"), mu).value
    return np.ascontiguousarray(np.linalg.eigh(from_symmetric_half(half, d))[1][:, -rank:])
