"""The model that rounds of the default recipe begin with: the level of labels, how far they spread, and room for own intercepts.

**Guarantee.** What reads data passes the gate: of labels that are numbers a histogram of people's label energies (√2); where
the level is shared, a histogram of sizes of people's mean labels (√2) and, twice, a further one (√2) and their clipped sum (2C).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.denoise.shrinkage import signal_share
from commonground.estimators.fedrep.coordinates import Coordinates
from commonground.estimators.fedrep.default_plan import LEVEL_ROUNDS, FitSettings
from commonground.gate import Gate
from commonground.statistics.labels import LabelMeans
from commonground.statistics.statistic import SharedModel
from commonground.steps.prior import curvature_at, first_prior, with_weak_log_odds
from commonground.steps.rounds import locate_sizes, release_clipped

LEVEL_DOUBT = 2.0  # times the variance of the noise: the most that is taken to be unknown of a level
LEVEL_LOST_BELOW = 6.0  # n μ of one sum of mean labels
MOSTLY_NOISE_BELOW = 30.0  # n μ of the whole budget, below which noise hides nearly all but people's own means
KEPT_OF_DIRECTIONS = 0.01  # of the variance of people's own coefficients then
# Times the labels' variance: what own intercepts vary by then, as nothing is known of their level.
ROOM_FOR_LEVELS = 100.0
ROOM_FOR_LOG_ODDS = 4.0  # the same of log-odds, in their own unit
LEAST_YES, MOST_YES = 0.02, 0.98  # shares of yes among labels, beyond which a level of log-odds is not believed


@dataclass(frozen=True)
class HiddenByNoise:
    """What noise hides, as public numbers tell."""

    level_variance: float = 0.0  # of what is not known of the level of labels
    nearly_all: bool = False  # whether people should rest on the means of their own labels

    def made_up_for(self, model: SharedModel) -> SharedModel:
        """The learned model with room for what is not known; where nearly all is hidden, little beside own intercepts."""
        if self.nearly_all:
            slopes = None if model.coef is None else np.zeros_like(model.coef)
            model = replace(model, embedding=KEPT_OF_DIRECTIONS**0.5 * model.embedding, coef=slopes)
        return with_unknown_level(model, self.level_variance)


def release_first_model(
    seen: Coordinates, asked: FitSettings, mu_of_fit: float, gate: Gate, mu: dict[str, float]
) -> tuple[SharedModel, HiddenByNoise]:
    """A model without directions and slopes, with a weak prior of own intercepts; and what noise hides of it."""
    users = seen.users
    d, level_variance = users.n_features, 0.0
    model = SharedModel(np.zeros((d, 0)), np.zeros(d) if asked.shared_mean else None, 0.0, asked.own_intercept)
    if asked.shared_intercept:
        model, level_variance = release_level(seen.looked_at, model, gate, mu)
    model = _as_log_odds(model) if asked.log_odds else first_prior(users, model, gate, mu["spread"])
    model = with_unknown_level(model, level_variance)
    if asked.shared_intercept and users.total_weight * mu_of_fit < MOSTLY_NOISE_BELOW:
        room = ROOM_FOR_LOG_ODDS if asked.log_odds else ROOM_FOR_LEVELS * (model.noise + level_variance)
        return model, HiddenByNoise(room, nearly_all=True)
    return model, HiddenByNoise(level_variance)


def release_level(users: Population, model: SharedModel, gate: Gate, mu: dict[str, float]) -> tuple[SharedModel, float]:
    """The model with the mean of people's mean labels as its intercept; and the variance of what noise leaves unknown of it."""

    def sums_from(model: SharedModel, lowest: int) -> BinnedSums:
        return users.sum(LabelMeans(model, lowest))

    edge = locate_sizes(partial(sums_from, model), gate, mu["level locate"], "level of labels")
    for t in range(LEVEL_ROUNDS):
        one_round = mu["level sizes"], mu["level"]
        name = f"level of labels {t + 1}"
        found = release_clipped(partial(sums_from, model), edge, gate, *one_round, name, no_more_than_there_are=True)
        share = signal_share(found.value, found.noise_std, 1)
        level = model.intercept + share * float(found.value[0, 0]) / found.people
        model, edge = replace(model, intercept=level), found.edge
    unknown = LEVEL_DOUBT * (found.noise_std / found.people) ** 2
    if users.total_weight * mu["level"] < LEVEL_LOST_BELOW:  # then it may be as far off as one clipped person can say
        unknown += lower_edge(found.edge) ** 2
    return model, unknown


def with_unknown_level(model: SharedModel, variance: float) -> SharedModel:
    """The model whose prior of own intercepts is wider by this variance, so that everybody's own rows tell the level."""
    if not (model.own_intercept and variance > 0.0):
        return model
    assert model.spread is not None
    spread = model.spread.copy()
    spread[0, 0] += variance / (curvature_at(model.intercept) * 4) ** 2 if model.log_odds else variance
    return replace(model, spread=spread)


def _as_log_odds(model: SharedModel) -> SharedModel:
    """A model of mean labels ±1 as one of log-odds, with a weak prior."""
    yes = float(np.clip((1.0 + model.intercept) / 2, LEAST_YES, MOST_YES))
    return with_weak_log_odds(replace(model, intercept=float(np.log(yes / (1.0 - yes))), log_odds=True))
