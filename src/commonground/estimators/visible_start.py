"""A start that can be seen: the second moment of people's own directions, looked at again where noise hides it.

Rounds learn from heads, and heads on a start that is noise are noise themselves; the moment needs no start. Where labels
are noisy, as people's mostly are, clips hardly shrink from round to round, and budget is worth more here than there. So
where the last of the shared directions hardly stands out of the first look's known noise, a part of what the rounds would
get is spent on a second look at the same sum. Which of the two happens is read off the first release, and is free.
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

AGAIN = 0.4  # of the rounds' μ²: what a second look costs
_SEEN = 2.4  # spreads s above the middle: an eigenvalue of λ + s²/λ, along whose vector lies 1 − s²/λ² = 0.7 of the direction


def release_visible_start(
    users: Users, rank: int | Literal["auto"], shared: SharedMean | None, local_intercept: bool, door: Door,
    mu: float, mu_again: float,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """(d, k) top eigenvectors, and what was spent on a second look: ``mu_again``, or 0 where the first was enough."""
    d, people = users.n_features, users.total_weight
    mean, intercept = (np.zeros(d), 0.0) if shared is None else (shared.coef, shared.intercept)
    sums = sum_over_people(users, direction_sums, mean, intercept, local_intercept)
    first = door.release(sums.bounded("initial embedding"), mu)
    half, noise_std, spent = first.value, first.noise_std, 0.0
    if mu_again > 0.0 and not _stands_out(half, noise_std, d, people, 1 if isinstance(rank, str) else rank):
        second = door.release(sums.bounded("initial embedding, again"), mu_again)
        weight = mu_again**2 / (mu**2 + mu_again**2)
        half = (1 - weight) * half + weight * second.value
        noise_std, spent = float(np.hypot((1 - weight) * noise_std, weight * second.noise_std)), mu_again
    moment = from_symmetric_half(half, d)
    if isinstance(rank, str):
        rank = visible_rank(np.linalg.eigvalsh(moment), noise_std, people)
    return np.ascontiguousarray(np.linalg.eigh(without_single_features(moment, rank, noise_std))[1][:, -rank:]), spent


def _stands_out(half: np.ndarray, noise_std: float, d: int, people: float, rank: int) -> bool:
    eigenvalues = np.linalg.eigvalsh(from_symmetric_half(half, d))
    spread = (d * noise_std**2 / 2 + people / d) ** 0.5  # as in ``visible_rank``
    return bool(eigenvalues[-rank] - np.median(eigenvalues) > _SEEN * spread)


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
