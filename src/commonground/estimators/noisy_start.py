"""Where rounds start from when labels are noisy and features are not alike: popular ones do not pass for shared directions.

The second moment of everybody's own direction, as in ``initial_embedding``, less what single features have on its diagonal.
"""

from typing import Literal

import numpy as np

from commonground.estimators.coordinates import beyond_noise
from commonground.estimators.initial_embedding import release_direction_moment, visible_rank
from commonground.estimators.rounds import Door
from commonground.estimators.shared_mean import SharedMean
from commonground.users import Users


def release_noisy_start(
    users: Users, rank: int | Literal["auto"], shared: SharedMean | None, local_intercept: bool, door: Door, mu: float
) -> np.ndarray:
    """(d, k) top eigenvectors; ``rank="auto"``: as many as stand out of the noise."""
    moment, noise_std = release_direction_moment(users, shared, local_intercept, door, mu)
    if isinstance(rank, str):
        rank = visible_rank(np.linalg.eigvalsh(moment), noise_std, users.total_weight)
    Q = np.linalg.eigh(without_single_features(moment, rank, noise_std))[1]
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
