"""The model that rounds of the default recipe begin with: the level of labels, how far they spread, and room for own intercepts.

**Guarantee.** What reads data passes the gate: of labels that are numbers a histogram of people's label energies (√2); where
the level is shared, histograms of where people's mean labels lie (√2), and their clipped sums (2C).
"""

import math
from dataclasses import replace

import numpy as np

from commonground.clipping.grid import lower_edge, nearest_edge
from commonground.data.population import Population
from commonground.denoise.histograms import median_square
from commonground.denoise.places import NoisyCounts, Place, find_place
from commonground.estimators.fedrep.default_plan import LEVEL_ROUNDS, LOOKS_AT_LEVELS, FitSettings
from commonground.gate import Gate
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces
from commonground.statistics.statistic import WINDOW, SharedModel
from commonground.steps.prior import (
    FIRST_DOUBT,
    curvature_at,
    release_better_prior,
    with_weak_log_odds,
    with_weak_prior,
)

CLIP_OF_LEVELS = 1.5  # standard deviations of people's mean labels, at which they are clipped
LEAST_DOUBT_OF_STEP = 0.5  # of the last step towards the level: what may be missing
# Times the labels' variance: what own intercepts vary by, where noise hides where labels lie.
ROOM_FOR_LEVELS = 100.0
YES_OR_NO = Place(mean=0.0, doubt=0.5, spread=0.5)  # of mean labels −1 and 1
LEAST_YES, MOST_YES = 0.02, 0.98  # shares of yes among labels, beyond which a level of log-odds is not believed


def release_first_model(users: Population, asked: FitSettings, gate: Gate, mu: dict[str, float]) -> SharedModel:
    """A model without directions and slopes, with a prior of own intercepts."""
    d, place, sizes = users.n_features, None, None
    model = SharedModel(np.zeros((d, 0)), None, 0.0, asked.own_intercept)
    if "spread" in mu:
        energies = gate.release(users.sum(LabelEnergies(model)).bounded("label energy"), mu["spread"])
        sizes = NoisyCounts(energies.value, energies.noise_std)
    if asked.shared_intercept:
        place = release_level(users, model, sizes, asked, gate, mu)
        model = replace(model, intercept=0.0 if place is None else place.mean)
    if sizes is None:
        model = _as_log_odds(model)
    else:
        expected = None if place is None else place.expected_size
        model = with_weak_prior(model, median_square(sizes.counts, sizes.noise_std, users.total_weight, expected))
    if asked.shared_intercept:
        model = with_unknown_level(model, place)
    for t in range(LOOKS_AT_LEVELS if "level prior" in mu else 0):
        model = release_better_prior(
            users, model, gate, mu["level prior"], f"prior of levels, look {t + 1}", FIRST_DOUBT
        )
    return replace(model, coef=np.zeros(d)) if asked.shared_mean else model


def release_level(
    users: Population,
    model: SharedModel,
    sizes: NoisyCounts | None,
    asked: FitSettings,
    gate: Gate,
    mu: dict[str, float],
) -> Place | None:
    """Where people's mean labels lie; None: noise hides it.

    ``sizes``: of what labels are off people's means. Each sum is clipped to where nearly all people are then believed to be, and
    weighed against what is believed already (a Kalman filter).
    """
    people, place = users.total_weight, YES_OR_NO
    if not asked.log_odds:
        seen = _look_at_places(users, model, gate, mu["level place"], "level of labels: where it lies")
        first = find_place(seen, people, sizes, asked.label_range)
        if first is None or first.is_vague:
            # Sums would be clipped far beyond people, or nowhere: what they would cost goes to a better look.
            again = _look_at_places(users, model, gate, mu["level"] * LEVEL_ROUNDS**0.5, "level of labels: once more")
            return find_place(seen.and_again(again), people, sizes, asked.label_range)
        place = first
    level, doubt = place.mean, place.doubt
    for t in range(LEVEL_ROUNDS):
        seen_from = math.hypot(place.spread, doubt)  # how far from the level that is believed people's mean labels lie
        edge = nearest_edge(CLIP_OF_LEVELS * seen_from)
        means = LabelMeans(replace(model, intercept=level), edge - WINDOW // 2)
        found = gate.release(users.sum(means).clipped_at(edge, f"level of labels {t + 1}"), mu["level"])
        unclipped = people * math.erf(lower_edge(edge) / seen_from / 2**0.5)
        off = (found.noise_std / unclipped) ** 2
        step = doubt**2 / (doubt**2 + off) * float(found.value[0, 0]) / unclipped
        level += step
        # Where most were clipped, the step is far too short.
        doubt = max(doubt * (off / (doubt**2 + off)) ** 0.5, LEAST_DOUBT_OF_STEP * abs(step))
    return replace(place, mean=level, doubt=doubt)


def _look_at_places(users: Population, model: SharedModel, gate: Gate, mu: float, name: str) -> NoisyCounts:
    """How many people have their mean labels where."""
    counts = gate.release(users.sum(LabelPlaces(model)).bounded(name), mu)
    return NoisyCounts(counts.value, counts.noise_std)


def with_unknown_level(model: SharedModel, place: Place | None) -> SharedModel:
    """The model whose prior of own intercepts is wider by what is not known of the level: everybody's own rows tell it."""
    if not model.own_intercept:
        return model
    assert model.spread is not None
    hidden = ROOM_FOR_LEVELS * model.noise if place is None or place.is_vague else 0.0
    variance = hidden + (0.0 if place is None else place.doubt**2)
    spread = model.spread.copy()
    spread[0, 0] += variance / (curvature_at(model.intercept) * 4) ** 2 if model.log_odds else variance
    return replace(model, spread=spread)


def _as_log_odds(model: SharedModel) -> SharedModel:
    """A model of mean labels ±1 as one of log-odds, with a weak prior."""
    yes = float(np.clip((1.0 + model.intercept) / 2, LEAST_YES, MOST_YES))
    return with_weak_log_odds(replace(model, intercept=float(np.log(yes / (1.0 - yes))), log_odds=True))
