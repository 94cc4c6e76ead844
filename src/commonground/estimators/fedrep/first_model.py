"""The model that rounds of the default recipe begin with: the level of labels, how far they spread, and room for own intercepts.

**Guarantee.** What reads data passes the gate: of labels that are numbers a histogram of people's label energies (√2); where
the level is shared, histograms of where people's mean labels lie (√2), and their clipped sums (2C); of yes-or-no labels
everybody's shares of yes and no instead (√2, ``steps.yes_level``); and for few people looks at how far their own levels lie
apart (a sum of clipped moments each, √2 C, ``steps.prior``).
"""

import math
from dataclasses import replace

import numpy as np

from commonground.clipping.grid import lower_edge, nearest_edge
from commonground.data.population import Population
from commonground.denoise.histograms import median_square
from commonground.denoise.places import NoisyCounts, Place, find_place
from commonground.denoise.yes_share import YesShare
from commonground.estimators.fedrep.default_plan import LEVEL_ROUNDS, LOOKS_AT_LEVELS, FitSettings
from commonground.gate import Gate
from commonground.statistics.labels import LabelEnergies, LabelMeans, LabelPlaces
from commonground.statistics.statistic import WINDOW, SharedModel
from commonground.steps.prior import (
    COMMON_LEVEL,
    FIRST_DOUBT,
    release_better_prior,
    with_weak_log_odds,
    with_weak_prior,
    without_noise,
)
from commonground.steps.yes_level import with_yes_share

EXPECTED_ROWS = 10  # of a person, where nothing tells
CLIP_OF_LEVELS = 1.5  # standard deviations of people's mean labels, at which they are clipped
LEAST_DOUBT_OF_STEP = 0.5  # of the last step towards the level: what may be missing
# Times the labels' variance: what own intercepts vary by, where noise hides where labels lie.
ROOM_FOR_LEVELS = 100.0


def release_first_model(
    users: Population, asked: FitSettings, yes: YesShare | None, gate: Gate, mu: dict[str, float]
) -> tuple[SharedModel, Place | None]:
    """A model without directions and slopes, with a prior of own intercepts; and where people's mean labels lie.

    ``yes``: how many answers are, if that was asked.
    """
    model, place = SharedModel(np.zeros((users.n_features, 0)), None, 0.0, asked.own_intercept), None
    if asked.log_odds:
        model = with_weak_log_odds(replace(model, log_odds=True))
        model = model if yes is None else with_yes_share(model, yes)
    else:
        model, place = _release_labels(users, model, asked, gate, mu)
    for t in range(LOOKS_AT_LEVELS if "level prior" in mu else 0):
        model = release_better_prior(
            users, model, gate, mu["level prior"], f"prior of levels, look {t + 1}", FIRST_DOUBT
        )
    return replace(model, coef=np.zeros(users.n_features)) if asked.shared_mean else model, place


def _release_labels(
    users: Population, model: SharedModel, asked: FitSettings, gate: Gate, mu: dict[str, float]
) -> tuple[SharedModel, Place | None]:
    """The model with the level of labels, if it is shared, and how far they spread."""
    energies = gate.release(users.sum(LabelEnergies(model)).bounded("label energy"), mu["spread"])
    sizes, people = NoisyCounts(energies.value, energies.noise_std), users.total_weight
    if not asked.shared_intercept:
        return with_weak_prior(model, median_square(sizes.counts, sizes.noise_std, people)), None
    place = release_level(users, model, sizes, asked, gate, mu)
    model = replace(model, intercept=0.0 if place is None else place.mean)
    expected = None if place is None else place.expected_size
    model = with_weak_prior(model, median_square(sizes.counts, sizes.noise_std, people, expected))
    return with_unknown_level(model, place), place


def release_level(
    users: Population,
    model: SharedModel,
    sizes: NoisyCounts,
    asked: FitSettings,
    gate: Gate,
    mu: dict[str, float],
) -> Place | None:
    """Where people's mean labels lie; None: noise hides it.

    ``sizes``: of what labels are off people's means. Each sum is clipped to where nearly all people are then believed to be, and
    weighed against what is believed already (a Kalman filter).
    """
    seen = _look_at_places(users, model, gate, mu["level place"], "level of labels: where it lies")
    people = users.total_weight
    place = find_place(seen, people, sizes, asked.label_range)
    if place is None or place.is_vague:
        # Sums would be clipped far beyond people, or nowhere: what they would cost goes to a better look.
        again = _look_at_places(users, model, gate, mu["level"] * LEVEL_ROUNDS**0.5, "level of labels: once more")
        return find_place(seen.and_again(again), people, sizes, asked.label_range)
    for t in range(LEVEL_ROUNDS):
        level = replace(model, intercept=place.mean)
        place = release_better_level(users, level, place, gate, mu["level"], f"level of labels {t + 1}")
    return place


def release_better_level(
    users: Population, model: SharedModel, believed: Place, gate: Gate, mu: float, name: str
) -> Place:
    """Where people's mean labels lie, by one sum of what the model leaves of them; weighed against what was believed."""
    people = users.total_weight
    seen_from = math.hypot(believed.spread, believed.doubt)  # how far from the believed level people's mean labels lie
    edge = nearest_edge(CLIP_OF_LEVELS * seen_from)
    found = gate.release(users.sum(LabelMeans(model, edge - WINDOW // 2)).clipped_at(edge, name), mu)
    unclipped = people * math.erf(lower_edge(edge) / seen_from / 2**0.5)
    off, doubt = (found.noise_std / unclipped) ** 2, believed.doubt
    step = float(without_noise(np.array(found.value[0, 0] / unclipped), np.array(off), doubt))
    # Where most were clipped, the step is far too short.
    doubt = max(doubt * (off / (doubt**2 + off)) ** 0.5, LEAST_DOUBT_OF_STEP * abs(step))
    return replace(believed, mean=believed.mean + step, doubt=doubt)


def release_last_level(
    users: Population,
    model: SharedModel,
    place: Place | None,
    energy: float,
    centre_doubt: float,
    gate: Gate,
    mu: float,
) -> SharedModel:
    """The model whose level is right where people's rows lie: slopes have moved it by as much as the rows' centre is off.

    ``place`` of people's mean labels, if it was seen before there were slopes; ``energy`` of a feature; ``centre_doubt``:
    standard deviation of what is not known of each feature's centre.
    """
    assert model.spread is not None
    slopes, own = float(np.linalg.norm(model.slopes)), float(model.spread[0, 0]) ** 0.5
    spread, doubt = math.hypot(own, (model.noise / EXPECTED_ROWS) ** 0.5), COMMON_LEVEL * own
    if place is not None:
        # The histogram is coarse where labels lie far from zero, the prior of levels where noise is: the narrower one is right.
        spread, doubt = min(spread, place.spread), min(doubt, place.doubt)
    believed = Place(
        model.intercept,
        math.hypot(doubt, slopes * min(centre_doubt, energy**0.5)),
        math.hypot(spread, slopes * (energy / EXPECTED_ROWS) ** 0.5),
    )
    bare = replace(model, embedding=model.embedding[:, :0], spread=None)
    return replace(
        model, intercept=release_better_level(users, bare, believed, gate, mu, "level of labels, at last").mean
    )


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
    spread = model.spread.copy()
    spread[0, 0] += hidden + (0.0 if place is None else place.doubt**2)
    return replace(model, spread=spread)
