"""Where rounds start from when labels are noisy and features are not alike: popular ones do not pass for shared directions.

The second moment of everybody's own direction, as in ``initial_embedding``, less what single features have on its diagonal.
"""

from typing import Literal

import numpy as np

from commonground.data.population import Population
from commonground.denoise.spectra import visible_rank, without_single_features
from commonground.gate import Gate
from commonground.statistics.statistic import SharedModel
from commonground.steps.initial_embedding import release_direction_moment


def release_noisy_start(
    users: Population, rank: int | Literal["auto"], model: SharedModel, gate: Gate, mu: float
) -> np.ndarray:
    """(d, k) top eigenvectors; ``rank="auto"``: as many as stand out of the noise."""
    moment, noise_std = release_direction_moment(users, model, gate, mu)
    seen = visible_rank(np.linalg.eigvalsh(moment), noise_std, users.total_weight) if rank == "auto" else rank
    k = max(1, seen)
    Q = np.linalg.eigh(without_single_features(moment, k, noise_std))[1]
    return np.ascontiguousarray(Q[:, -k:])
