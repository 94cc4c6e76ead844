"""The shared linear model w₀: private gradient rounds on one set of coefficients for everybody.

Used on its own by ``SingleModel`` and as the first stage of the shared-representation learners. When people have no
common mean, the shrinkage of the step leaves w₀ near zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from commonground.clipping.sums import BinnedSums
from commonground.data.users import Users
from commonground.denoise.shrinkage import signal_share
from commonground.engines import sum_over_people
from commonground.gate import Gate
from commonground.statistics.gradients import mean_feature_sums, mean_gradient_sums
from commonground.steps.rounds import locate_sizes, release_clipped


@dataclass(frozen=True)
class SharedMean:
    """What was released: x → <coef, x> + intercept."""

    coef: np.ndarray  # (d,)
    intercept: float
    edge: int  # the bin at whose lower edge the last gradients were clipped


def shared_mean_rounds(
    users: Users,
    gate: Gate,
    *,
    mu_locate: float,
    mu_size: float,
    mu_sum: float,
    n_rounds: int,
    feature_energy: float,
    centred: bool,
    constant: float,
    feature_centre: np.ndarray | None = None,
) -> Iterator[SharedMean]:
    """``n_rounds`` private gradient steps from zero; ``mu_size`` and ``mu_sum`` are those of one round.

    With a ``feature_centre`` the steps are those of the model in x − centre, which is better conditioned; what is yielded
    is the same model in x. ``constant`` is the size of the feature that the intercept is the coefficient of, 0 for none: the
    larger, the sooner the intercept is found, and the more it takes of everybody's clip. Where gradients grow, the step was
    too long for these features: go back and halve it.
    """
    d = users.n_features
    centre = np.zeros(d) if feature_centre is None else feature_centre
    model = best = SharedMean(np.zeros(d), 0.0, edge=0)
    length = 1.0
    sums_from = partial(_sums, users, model, centre, centred, constant)
    edge = locate_sizes(sums_from, gate, mu_locate, "shared mean")
    for t in range(n_rounds):
        sums_from = partial(_sums, users, model, centre, centred, constant)
        gradient = release_clipped(sums_from, edge, gate, mu_size, mu_sum, f"shared mean, round {t + 1}")
        edge = gradient.edge
        if t > 0 and edge > best.edge:
            model, edge, length = best, best.edge, length / 2
            yield SharedMean(model.coef, model.intercept - float(model.coef @ centre), edge)
            continue
        best = SharedMean(model.coef, model.intercept, edge)
        share = signal_share(gradient.value, gradient.noise_std, gradient.value.size)
        step = length * share / gradient.people * gradient.value[0]
        intercept = model.intercept + (float(step[d]) / constant if constant else 0.0)
        model = SharedMean(model.coef + step[:d] / feature_energy, intercept, edge)
        yield SharedMean(model.coef, model.intercept - float(model.coef @ centre), edge)


def release_feature_centre(users: Users, gate: Gate, *, mu_locate: float, mu_size: float, mu_sum: float) -> np.ndarray:
    """About where features lie: the mean of people's mean rows, each clipped. A guess that is off costs speed only."""

    def sums_from(lowest: int) -> BinnedSums:
        return sum_over_people(users, mean_feature_sums, lowest)

    edge = locate_sizes(sums_from, gate, mu_locate, "feature centre")
    total = release_clipped(sums_from, edge, gate, mu_size, mu_sum, "feature centre")
    return signal_share(total.value, total.noise_std, total.value.size) / total.people * total.value[0]


def _sums(
    users: Users, model: SharedMean, centre: np.ndarray, centred: bool, constant: float, lowest: int
) -> BinnedSums:
    return sum_over_people(users, mean_gradient_sums, model.coef, model.intercept, centred, constant, lowest, centre)
