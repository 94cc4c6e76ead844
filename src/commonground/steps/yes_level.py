"""The level of log-odds: how many answers are yes, and whether the model tells so many.

Answers may be rare. A level of log-odds that is off by a little tells twice as many as there are, and rounds hardly see it, as
rare answers say little. So shares are released themselves: at the start that of yes; at the end the one that the model tells
somebody whom nobody knows, which is then brought to the first.

**Guarantee.** What reads data passes the gate: everybody's shares of yes and no, two numbers that are not negative and add up to
at most one (√2); and, at the end, the clipped sum of what people are told, from a public middle (2C).
"""

import math
from dataclasses import replace

import numpy as np

from commonground.clipping.grid import lower_edge, nearest_edge
from commonground.data.population import Population
from commonground.denoise.yes_share import YesShare, find_yes_share
from commonground.gate import Gate
from commonground.statistics.answers import AnswerShares, ToldShares, averaged
from commonground.statistics.statistic import WINDOW, SharedModel
from commonground.steps.prior import EVEN_ODDS, without_noise

# What people are told on average is clipped at so many times the share of the rarer answer, or at so many times the noise of a
# sum that is clipped nowhere, if that is more: noise is then a small part of that share all the same.
MOST_TOLD, NOISE_OF_TOLD = 8.0, 0.05
LEAST_WITH_ROWS = 0.1  # of all people, whatever noise leaves of those who have any
DOUBT_OF_TOLD = 0.5  # by how much log-odds that are told are expected to be off


def release_yes_share(users: Population, gate: Gate, mu: float) -> YesShare:
    """How many of people's answers are yes; people count alike."""
    found = gate.release(users.sum(AnswerShares()).bounded("how many answers are yes"), mu)
    yes, no = found.value / users.total_weight
    return find_yes_share(float(yes), float(no), found.noise_std / users.total_weight)


def with_yes_share(model: SharedModel, share: YesShare) -> SharedModel:
    """A model without slopes that tells so many; own intercepts have room for the doubt, as their own rows tell it."""
    assert model.spread is not None
    spread = model.spread.copy()
    if model.own_intercept:
        spread[0, 0] += (share.doubt / EVEN_ODDS) ** 2
    return replace(model, intercept=share.log_odds, spread=spread)


def release_told_share(users: Population, model: SharedModel, share: YesShare, gate: Gate, mu: float) -> SharedModel:
    """The model whose level is such that people are told, on average, as often yes as is so."""
    assert model.spread is not None
    rarer = min(share.mean, 1.0 - share.mean)
    noise_of_all = 1.0 / (mu * users.total_weight)  # of a mean that is clipped nowhere
    most = min(1.0, max(MOST_TOLD * rarer, NOISE_OF_TOLD * rarer / noise_of_all))
    edge = nearest_edge(most / 2.0)
    # About the middle of what is not clipped, from never to the most: the sum is then moved by no more than that.
    reach = lower_edge(edge)
    middle = reach if share.mean <= 0.5 else 1.0 - reach
    told = users.sum(ToldShares(model, middle, edge - WINDOW // 2))
    found = gate.release(told.clipped_at(edge, "how often yes is told"), mu)
    people = users.total_weight * max(share.with_rows, LEAST_WITH_ROWS)
    told_share = middle + float(found.value[0, 0]) / people
    # Not more than nine tenths of what is told may be noise.
    told_share = min(max(told_share, 0.1 * share.mean), 1.0 - 0.1 * (1.0 - share.mean))
    off = math.log(told_share / (1.0 - told_share)) - share.log_odds
    hidden = (found.noise_std / people / (told_share * (1.0 - told_share))) ** 2
    real = float(without_noise(np.array(off), np.array(hidden), DOUBT_OF_TOLD))
    return replace(model, intercept=model.intercept - real * _stretch(model.spread))


def _stretch(spread: np.ndarray) -> float:
    """By how much log-odds are farther from zero than those of what they average to over people's own levels."""
    return float(1.0 / averaged(1.0, spread[0, 0])) if len(spread) else 1.0
