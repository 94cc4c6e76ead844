"""Where rounds start from when labels are noisy and features are not alike: popular ones do not pass for shared directions.

The second moment of everybody's own direction, as in ``initial_embedding``, less what single features have on its diagonal.
"""

from typing import Literal

import numpy as np

from commonground.clipping import from_symmetric_half
from commonground.contributions.directions import direction_sums
from commonground.engines import sum_over_people
from commonground.estimators.coordinates import beyond_noise
from commonground.estimators.initial_embedding import visible_rank
from commonground.estimators.rounds import Door
from commonground.estimators.shared_mean import SharedMean
from commonground.users import Users


def release_noisy_start(
    users: Users, rank: int | Literal["auto"], shared: SharedMean | None, local_intercept: bool, door: Door, mu: float
) -> np.ndarray:
    """(d, k) top eigenvectors; ``rank="auto"``: as many as stand out of the noise."""
    d = users.n_features
    mean, intercept = (np.zeros(d), 0.0) if shared is None else (shared.coef, shared.intercept)
    sums = sum_over_people(users, direction_sums, mean, intercept, local_intercept)
    half = door.release(sums.bounded("initial embedding"), mu)
    moment = from_symmetric_half(half.value, d)
    if isinstance(rank, str):
        rank = visible_rank(np.linalg.eigvalsh(moment), half.noise_std, users.total_weight)
    Q = np.linalg.eigh(without_single_features(moment, rank, half.noise_std))[1]
    return np.ascontiguousarray(Q[:, -rank:])


def without_single_features(moment: np.ndarray, rank: int, noise_std: float) -> np.ndarray:
    """The moment without the part of its diagonal that says how often people have which feature.

    A row with one feature, a joke and its rating, adds its own noise to that feature's entry and tells nothing of how features go
    together; features that more people have would pass for shared directions. What ``rank`` of them have more than all others
    stays: a direction may be a single feature. Nothing is taken off where the other entries are alike up to noise.

    >>> without_single_features(np.array([[9.0, 1.0, 0.0], [1.0, 3.0, 2.0], [0.0, 2.0, 5.0]]), rank=1, noise_std=0.1).tolist()
    [[4.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]]
    """
    diagonal = np.diag(moment)
    others = np.sort(diagonal)[:-rank]
    if not beyond_noise(others - others.mean(), len(others), noise_std):
        return moment
    return np.asarray(moment - np.diag(np.minimum(diagonal, others[-1])))
