"""The shared linear model w₀: private gradient rounds on one set of coefficients for everybody.

Used on its own by ``SingleModel`` and as the first stage of the shared-representation learners. When people have no
common mean, the shrinkage of the step leaves w₀ near zero.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.denoise.shrinkage import signal_share
from commonground.gate import Gate
from commonground.statistics.gradients import MeanFeatures, MeanGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.coordinates import seen_in_coordinates
from commonground.steps.rounds import CLIP_QUANTILE, locate_sizes, release_clipped


@dataclass(frozen=True)
class MeanRound:
    """The model after a round, and how its gradients were clipped."""

    model: SharedModel
    edge: int  # the bin at whose lower edge the last gradients were clipped


def shared_mean_rounds(
    users: Population,
    gate: Gate,
    *,
    mu_locate: float,
    mu_size: float,
    mu_sum: float,
    n_rounds: int,
    feature_energy: float,
    own_intercept: bool,
    constant: float,
    feature_centre: np.ndarray | None = None,
) -> Iterator[MeanRound]:
    """``n_rounds`` private gradient steps from zero; ``mu_size`` and ``mu_sum`` are those of one round.

    With a ``feature_centre`` the steps are those of the model in x − centre, which is better conditioned; what is yielded
    is the same model in x. ``constant`` is the size of the feature that the intercept is the coefficient of, 0 for none: the
    larger, the sooner the intercept is found, and the more it takes of everybody's clip. Where gradients grow, the step was
    too long for these features: go back and halve it.
    """
    d = users.n_features
    centre = np.zeros(d) if feature_centre is None else feature_centre
    model = best = SharedModel(np.zeros((d, 0)), np.zeros(d), 0.0, own_intercept)
    lowest_edge, length = 0, 1.0

    def gradients_of(model: SharedModel, lowest: int) -> BinnedSums:
        return users.sum(MeanGradients(model, constant, lowest, centre))

    def in_features(model: SharedModel) -> SharedModel:
        return replace(model, intercept=model.intercept - float(model.slopes @ centre))

    edge = locate_sizes(partial(gradients_of, model), gate, mu_locate, "shared mean")
    for t in range(n_rounds):
        name = f"shared mean, round {t + 1}"
        gradient = release_clipped(partial(gradients_of, model), edge, gate, mu_size, mu_sum, name)
        edge = gradient.edge
        if t > 0 and edge > lowest_edge:
            model, edge, length = best, lowest_edge, length / 2
            yield MeanRound(in_features(model), edge)
            continue
        best, lowest_edge = model, edge
        share = signal_share(gradient.value, gradient.noise_std, gradient.value.size)
        step = length * share / gradient.people * gradient.value[0]
        intercept = model.intercept + (float(step[d]) / constant if constant else 0.0)
        model = replace(model, coef=model.slopes + step[:d] / feature_energy, intercept=intercept)
        yield MeanRound(in_features(model), edge)


# From a hundred standard deviations away to within a fraction of one takes a few rounds, each of which has the less to spend.
CENTRE_ROUNDS = 3
_SEEN_IN_ROUNDS = 10.0  # n μ/√d of one round, from which on its noise is below what features vary by
# The clip of people's mean rows then, by a quantile of their sizes and a factor: those far from zero are alike, and a clip
# among them would shorten all of them, by nobody knows how much.
_MOST, _ABOVE = 0.9, 2**0.5
_MOSTLY = 0.25  # of the clip, squared: the mean of clipped rows, from which on most of them were clipped, or are alike


def centre_rounds(people: float, d: int, mu: float) -> int:
    """In how many rounds a centre of d features is best found, at a cost of ``mu`` in all; from public numbers."""
    return CENTRE_ROUNDS if people * mu / CENTRE_ROUNDS**0.5 >= _SEEN_IN_ROUNDS * d**0.5 else 1


@dataclass(frozen=True)
class FeatureCentre:
    """About where features lie."""

    value: np.ndarray  # (d,)
    doubt: (
        float  # standard deviation of what is not known of each scaled feature's; infinite where the last clip hid it
    )
    edge: int  # the bin at whose lower edge the last mean rows were clipped


def release_feature_centre(
    users: Population,
    gate: Gate,
    *,
    mu_locate: float,
    mu_size: float,
    mu_sum: float,
    scales: np.ndarray | None = None,
    rounds: range = range(1),
    before: FeatureCentre | None = None,
) -> FeatureCentre:
    """The mean of people's mean rows, each clipped; ``mu_size`` and ``mu_sum`` are those of one round.

    Rows may lie many times farther from zero than from each other (years, degrees). So each round looks from where the last one
    ended, and its clip and noise shrink with what is left; one round alone clips more, and stays nearer to zero. A guess that is
    off costs speed only.

    ``scales``: what features are multiplied by first, so that none of them takes up the whole clip. Some of the ``rounds`` may
    be left for when these are better known, and go on from ``before``.
    """
    centre = np.zeros(users.n_features) if before is None else before.value

    def sums_from(lowest: int) -> BinnedSums:
        return seen_in_coordinates(users, scales, centre if centre.any() else None).sum(MeanFeatures(lowest))

    edge = locate_sizes(sums_from, gate, mu_locate, "feature centre") if before is None else before.edge
    clip = (CLIP_QUANTILE, 1.0) if before is None and len(rounds) == 1 else (_MOST, _ABOVE)
    for t in rounds:
        name = "feature centre" if t == 0 else f"feature centre, round {t + 1}"
        mean = release_clipped(sums_from, edge, gate, mu_size, mu_sum, name, *clip)
        share = signal_share(mean.value, mean.noise_std, mean.value.size)
        step = share / mean.people * mean.value[0]
        centre, edge = centre + (step if scales is None else step / scales), mean.edge
        # Where most were clipped, their mean rows point the same way, and nothing tells how far.
        reach, noise = users.total_weight * lower_edge(mean.edge), mean.value.size * mean.noise_std**2
        was_clipped = float((mean.value**2).sum()) - noise > _MOSTLY * reach**2
        doubt = math.inf if was_clipped else mean.noise_std / mean.people
    return FeatureCentre(centre, doubt, edge)
