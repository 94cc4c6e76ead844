"""The shared linear model w₀: private gradient rounds on one set of coefficients for everybody.

Used on its own by ``SingleModel`` and as the first stage of the shared-representation learners. When people have no
common mean, the shrinkage of the step leaves w₀ near zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from commonground.clipping import BinnedSums
from commonground.contributions.gradients import mean_gradient_sums
from commonground.engines.local import sum_over_people
from commonground.estimators.rounds import Door, locate_sizes, release_clipped, signal_share
from commonground.users import Users


@dataclass(frozen=True)
class SharedMean:
    """What was released: x → <coef, x> + intercept."""

    coef: np.ndarray  # (d,)
    intercept: float
    edge: int  # the bin at whose lower edge the last gradients were clipped


def shared_mean_rounds(
    users: Users,
    door: Door,
    *,
    mu_locate: float,
    mu_size: float,
    mu_sum: float,
    n_rounds: int,
    feature_energy: float,
    centred: bool,
    with_intercept: bool,
) -> Iterator[SharedMean]:
    """``n_rounds`` private gradient steps from zero; ``mu_size`` and ``mu_sum`` are those of one round."""
    d = users.n_features
    model = SharedMean(np.zeros(d), 0.0, edge=0)
    edge = locate_sizes(partial(_sums, users, model, centred, with_intercept), door, mu_locate, "shared mean")
    for t in range(n_rounds):
        sums_from = partial(_sums, users, model, centred, with_intercept)
        gradient = release_clipped(sums_from, edge, door, mu_size, mu_sum, f"shared mean, round {t + 1}")
        edge = gradient.edge
        share = signal_share(gradient.value, gradient.noise_std, gradient.value.size)
        step = share / gradient.people * gradient.value[0]
        intercept = model.intercept + (float(step[d]) if with_intercept else 0.0)
        model = SharedMean(model.coef + step[:d] / feature_energy, intercept, edge)
        yield model


def _sums(users: Users, model: SharedMean, centred: bool, with_intercept: bool, lowest: int) -> BinnedSums:
    return sum_over_people(
        users,
        lambda block: mean_gradient_sums(block, model.coef, model.intercept, centred, with_intercept, lowest),
    )
