"""P4's Algorithm 1 (``recipe="paper"``) with the noise of whole owners: one record a step, u and its owner's x_j moved together.

**Where it differs** stands in ``DEPARTURES``. Above all: x_j moves by the owner's records while u is trained, so one record
steers all later gradients of its owner, and a step costs what one owner in n costs, not one record in mn as the paper's noise
assumes (``audit/attack_on_p4.py`` reads a record off what is published with that noise).

**Guarantee.** Unit: an owner with all of its records; neighbours: it is there or missing, or is replaced by any other; how many
owners there are is public. One kind of release reads data and has the whole budget: in each step the sum over the owners drawn
of one gradient each, clipped to C. An owner moves it by C (replaced: 2C), and what it keeps (x_j) enters its own gradients
only. All steps are charged before the first is drawn.
"""

import math

import numpy as np

from commonground.accounting.sampled import noise_multiplier_for
from commonground.clipping.sums import SampledSum
from commonground.errors import InputError
from commonground.owners.descent import Descent, Trained, inside
from commonground.owners.gradients import clipped_records

DEPARTURES = (
    "Noise is for a whole owner, drawn in one step of n, not for a record in one of mn: as printed, the guarantee does not hold "
    "(commonground reproduce p4-flaw). The unit is the owner.",
    "Owners are drawn by Poisson sampling with probability 1/n, so a step has one of them on average; printed: exactly one.",
    "A drawn owner sends its records in turn, not by chance.",
    "The number of steps is given; printed: (mn)², which would tell how many records there are.",
    "Gradients are clipped to C, which takes the place of a known Lipschitz constant L.",
    "The rate follows the second moment of clipped and noised gradients (P4 §3.1.1), with the noise actually added.",
    "θ_j = u + x_j: shared and personal part have as many numbers. The ball of x_j is √n times smaller than that of u, so that "
    "both have one part in Theorem 3.1's R² = nD_x² + D_u²: in equal balls x_j takes up half of what is shared.",
    "At the end a ridge fit on the owner's own rows takes the place of the average of x_j.",
)
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
            personal[j] = inside(personal[j] - rate * one.value, d.radius / math.sqrt(n_owners))
        return paid.release(total.bounded(f"step {t + 1}: gradient", d.relation))

    return Trained(d.averaged(size, rate, slope_at), multiplier, tuple(planned), book)
