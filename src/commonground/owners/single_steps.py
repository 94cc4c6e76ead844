"""P4's Algorithm 1 as printed (``recipe="paper"``): one record a step, u and its owner's x_j moved together.

**Where it differs.** x_j moves by the owner's records while u is trained, so one record steers all later gradients of its
owner, and a step costs what one owner in n costs, not one record in mn as the paper's noise assumes. Here owners are drawn with
probability 1/n, each sends one clipped record gradient, and the cost is that of a whole owner: more noise than P4 prints, and a
guarantee that holds. It takes the steps given, not P4's number, which would tell how many records there are; and at the end a
fit on the owner's own rows takes the place of the last x_j.

**Guarantee.** Unit: an owner with all of its records; neighbours: it is there or missing, or is replaced by any other; how many
owners there are is public. One kind of release reads data and has the whole budget: in each step the sum over the owners drawn
of one gradient each, clipped to C. An owner moves it by C (replaced: 2C), and what it keeps (x_j) enters its own gradients
only. All steps are charged before the first is drawn.
"""

import numpy as np

from commonground.accounting.sampled import noise_multiplier_for
from commonground.clipping.sums import SampledSum
from commonground.errors import InputError
from commonground.owners.descent import Descent, Trained, inside
from commonground.owners.gradients import clipped_records

_MOST_STEPS = 200_000


def single_steps(d: Descent, X: np.ndarray, y: np.ndarray, owner_of_row: np.ndarray, n_owners: int) -> Trained:
    """u from all owners' rows."""
    size = d.n_outputs * X.shape[1]
    if d.steps > _MOST_STEPS:
        raise InputError(f"recipe='paper' takes single steps; {d.steps:,} are too many. Use recipe='default'.")
    multiplier = noise_multiplier_for(d.budget.epsilon, d.budget.delta, d.sampling_probability, d.steps, d.relation)
    planned = [d.event("clipped gradients", multiplier, d.clip_norm, size)]
    (paid,), book = d.pay(planned)
    rate = d.rate(size, multiplier)
    rows_of = [np.flatnonzero(owner_of_row == j) for j in range(n_owners)]
    personal = np.zeros((n_owners, size))

    def slope_at(t: int, u: np.ndarray) -> np.ndarray:
        total = SampledSum(np.zeros(size), d.clip_norm)
        for j in paid.sample(n_owners):
            row = rows_of[j][[t % len(rows_of[j])]]
            one = clipped_records(d.errors_at(u + personal[j], X[row], y[row]), X[row], d.clip_norm)
            total = SampledSum(total.value + one.value, d.clip_norm)
            personal[j] = inside(personal[j] - rate * one.value, d.radius)
        return paid.release(total.bounded(f"step {t + 1}: gradient", d.relation))

    return Trained(d.averaged(size, rate, slope_at), multiplier, tuple(planned), book)
