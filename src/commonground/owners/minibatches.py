"""P4's Algorithm 1 over Poisson samples: the shared u by noisy projected SGD, iterates averaged.

**Where it differs.** Algorithm 1 takes one record a step and moves its owner's x_j beside u; here a step takes a sample of
records or users and every x_j rests at zero, to be fitted by its owner when u is published. One record then steers no gradient
but its own, and a step costs what one unit costs (``single_steps`` follows the paper, and pays for whole owners). A user's
*mean* gradient is clipped; P4 clips records and counts a user's as a group, which is accounted here as a mixture of Gaussians.

**Guarantee.** Unit: a record, or a user with all of her records at one owner; neighbours: its contribution is there or missing,
or (``relation="replace-one"``) is replaced by any other; how many owners and units there are is public. One kind of release
reads data and has the whole budget: in each step the sum, over the units drawn, of gradients at the released u, each clipped to
C. A unit moves it by C (replaced: 2C; a group of k records: k times that). All steps are charged before the first is drawn; the
rate follows from public numbers.
"""

import numpy as np

from commonground.accounting.sampled import noise_multiplier_for
from commonground.clipping.sums import SampledSum
from commonground.owners.descent import Descent, Trained
from commonground.owners.gradients import clipped_records, clipped_units, unit_means
from commonground.owners.units import ProtectedUnits


def minibatches(d: Descent, X: np.ndarray, y: np.ndarray, protected: ProtectedUnits) -> Trained:
    """u from the rows that take part, ``X`` and ``y``."""
    units, group, size = protected.drawn, protected.group_size, d.n_outputs * X.shape[1]
    multiplier = noise_multiplier_for(
        d.budget.epsilon, d.budget.delta, d.sampling_probability, d.steps, d.relation, group
    )
    planned = [d.event("clipped gradients", multiplier, 1.0, size, group)]
    (gradients,), book = d.pay(planned)
    expected = d.sampling_probability * protected.count * group  # a public number

    def slope_at(t: int, u: np.ndarray) -> np.ndarray:
        drawn = gradients.sample(units.n_units)
        rows, place = units.rows_of(drawn)
        errors = d.errors_at(u, X[rows], y[rows])
        if d.unit == "user" and group == 1:
            total = clipped_units(unit_means(errors, X[rows], place, len(drawn)), np.zeros(size), d.clip_norm)
        else:
            total = clipped_records(errors, X[rows], d.clip_norm)
        scaled = SampledSum(total.value / d.clip_norm, 1.0)  # the gate is paid for contributions of norm one
        return d.clip_norm * gradients.release(scaled.bounded(f"step {t + 1}: gradient", d.relation)) / expected

    shared = d.averaged(size, d.rate(size, multiplier / expected), slope_at)
    return Trained(shared, multiplier, tuple(planned), book)
