"""P4's Algorithm 2: users' mean gradients, averaged by a private winsorised mean, for smooth losses.

Means over many rows of a user lie close together. Each step first finds, privately, how close, and clips to a ball of that
radius: the noise shrinks with the ball.

**Where it differs** stands in ``DEPARTURES``.

**Guarantee.** Unit: a user with all of her records at one owner; neighbours: she is there or missing, or is replaced by any
other; how many owners and users there are is public. Two kinds of release read data, each on a sample of its own, and are
composed together into the one budget: counts of users by distance from the centre (a user moves them by 1, replaced by 2; about
a tenth of the cost, ``_COUNTS_NOISE``), and the sum of mean gradients, clipped around the centre to the radius found and
measured in that radius (again 1, replaced 2). Centre and radius are functions of released values. All steps are charged before
the first is drawn. Where gradients do not concentrate the ball is large; the guarantee is the same.
"""

import numpy as np

from commonground.accounting.sampled import noise_multiplier_for
from commonground.clipping.sums import SampledSum
from commonground.owners.descent import Descent, Trained, inside
from commonground.owners.gradients import clipped_units, distance_counts, unit_means
from commonground.owners.units import ProtectedUnits

DEPARTURES = (
    "Users of all owners are drawn by Poisson sampling; printed: one owner a step, with all of its users.",
    "Instead of Levy et al.'s estimator (a private range for each coordinate, then a mean clipped to it) the ball is centred at "
    "the last released mean; its radius is the smallest power of two, times C, within which noisy counts see nine users in ten.",
    "Every x_j rests at zero; printed: it moves with u.",
    "Gaussian noise, counts and sums on samples of their own; printed: exponential mechanism and Laplace noise.",
    "At the end a ridge fit on the owner's own rows takes the place of the average of x_j.",
)
_COUNTS_NOISE = 3.0  # noise of the distance counts, in units of the gradients' multiplier: a tenth of the cost
_QUANTILE = 0.9  # of the users' distances from the centre, to which the ball reaches


def winsorised(d: Descent, X: np.ndarray, y: np.ndarray, protected: ProtectedUnits) -> Trained:
    """u from all users' rows, ``X`` and ``y``."""
    size, users, n_users = d.n_outputs * X.shape[1], protected.drawn, protected.count
    multiplier = noise_multiplier_for(
        d.budget.epsilon, d.budget.delta, d.sampling_probability, d.steps, d.relation, beside=_COUNTS_NOISE
    )
    edges = d.clip_norm * 2.0 ** np.arange(-12, 2)  # distances from the centre: at most 2C
    planned = [
        d.event("clipped gradients", multiplier, 1.0, size),
        d.event("distances", _COUNTS_NOISE * multiplier, 1.0, len(edges)),
    ]
    (gradients, counts), book = d.pay(planned)
    expected = d.sampling_probability * n_users  # a public number
    centre = np.zeros(size)  # the last released mean

    def means_of(drawn: np.ndarray, u: np.ndarray) -> np.ndarray:
        rows, place = users.rows_of(drawn)
        return unit_means(d.errors_at(u, X[rows], y[rows]), X[rows], place, len(drawn))

    def slope_at(t: int, u: np.ndarray) -> np.ndarray:
        # Alg. 2, line 6: the range first, privately …
        distances = distance_counts(means_of(counts.sample(n_users), u), centre, edges)
        reach = _radius(counts.release(distances.bounded(f"step {t + 1}: distances", d.relation)), edges)
        # … then clipped to the ball found, and noised.
        drawn = gradients.sample(n_users)
        total = clipped_units(means_of(drawn, u), centre, reach)
        scaled = SampledSum(total.value / reach, 1.0)  # the gate is paid for contributions of norm one
        slope = centre + reach * gradients.release(scaled.bounded(f"step {t + 1}: gradient", d.relation)) / expected
        centre[:] = inside(slope, d.clip_norm)
        return slope

    shared = d.averaged(size, d.rate(size, multiplier / expected), slope_at)
    return Trained(shared, multiplier, tuple(planned), book)


def _radius(counts: np.ndarray, edges: np.ndarray) -> float:
    """The distance within which most users lie, from noisy counts."""
    total = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[int(np.searchsorted(total, _QUANTILE * total[-1]))]) if total[-1] > 0 else float(edges[-1])
