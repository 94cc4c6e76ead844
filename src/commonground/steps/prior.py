"""What people's own parts are like in general: a released prior, by which every head is a posterior.

Parts are h ~ N(0, S), the intercept first, and labels have noise s² about them. Each look releases how far people's posteriors
are from what the prior says (``statistics.posterior.PosteriorMoments``) and takes one step of Fisher's scoring: if S is off by
a factor T in the coordinates in which it is the identity, Σ ξξᵀ − Σ H is about Σ H (T − 1) H.

Where the noise hides what a look would change, less of it is changed, down to nothing; and the prior that looks start from
(``first_prior``) leaves people's own parts little room. Where nothing is learned of people's own parts, everybody gets the shared
prediction.
"""

from dataclasses import replace

import numpy as np

from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.histograms import median_square
from commonground.denoise.shrinkage import sure_share
from commonground.gate import Gate
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.kernels.posterior_sums import NOISE_WEIGHT
from commonground.statistics.labels import LabelEnergies
from commonground.statistics.posterior import PosteriorMoments
from commonground.statistics.statistic import SharedModel

FIRST_SHARE = 0.1  # of the labels' variance that people's own coefficients are first given
FIRST_SHARE_OF_LEVELS = 0.2  # the same, of their own levels: raters, students and patients differ by 0.1 to 0.3
FIRST_DOUBT, LATER_DOUBT = 0.5, 0.15  # relative error expected of a prior: at first, and after two looks
# Standard deviations of people's own parts: how large what these have in common is expected to be; of own intercepts, about a
# level that was released before.
COMMON_PART, COMMON_LEVEL = 1.0, 0.3
LOOKS = 6  # at the prior of a model learned without one: each changes the noise by up to 5, and it may be 5⁶ times too large
_FARTHEST = 5.0  # the largest factor by which one look changes a variance, up or down
EVEN_ODDS = 0.25  # p (1 − p) there; people's log-odds are not expected to differ by more where answers are rare
_SUREST = 3.9  # log-odds of 98 %: curvatures are taken at levels no further from zero
_STANDS_OUT = 2.5  # standard deviations of noise, above which a released change is expected to be as large as it looks
_FEWEST = 0.02  # of all people: the least information about a direction that is divided by, whatever noise leaves of it


def first_prior(users: Population, model: SharedModel, gate: Gate, mu: float) -> SharedModel:
    """A model without directions, with a weak prior from one released number, the middle of people's label variances."""
    counts = gate.release(users.sum(LabelEnergies(model)).bounded("label energy"), mu)
    return with_weak_prior(model, median_square(counts.value, counts.noise_std, users.total_weight))


def with_weak_prior(model: SharedModel, noise: float) -> SharedModel:
    """A model without directions; its own intercepts have ``FIRST_SHARE_OF_LEVELS`` of the variance of the noise."""
    return replace(model, noise=noise, spread=FIRST_SHARE_OF_LEVELS * noise * np.eye(int(model.own_intercept)))


def with_weak_log_odds(model: SharedModel) -> SharedModel:
    """The same for a model of log-odds: the noise is what one label leaves open at even odds, be answers as rare as they like."""
    return replace(with_weak_prior(model, 1.0 / EVEN_ODDS), noise=1.0)


def curvature_at(log_odds: float) -> float:
    """p (1 − p), by which a change of log-odds changes a probability; no less than that of 2 % and 98 %.

    >>> curvature_at(0.0)
    0.25
    """
    p = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -_SUREST, _SUREST)))
    return float(p * (1.0 - p))


def with_directions(model: SharedModel, directions: np.ndarray, along: float | np.ndarray) -> SharedModel:
    """The model with these directions: coefficients on them have variance one, and make up ``FIRST_SHARE`` of the noise.

    ``along``: the variance of features in each of these directions.
    """
    assert model.spread is not None
    own, k = int(model.own_intercept), directions.shape[1]
    spread = np.eye(own + k)
    spread[:own, :own] = model.spread[:own, :own]
    size = np.sqrt(FIRST_SHARE * model.noise / (own + k) / np.maximum(along, 1e-300))
    return replace(model, embedding=np.ascontiguousarray(directions * size), spread=spread)


def release_prior(
    users: Population, model: SharedModel, along: np.ndarray, gate: Gate, mu_spread: float, mu_look: float
) -> SharedModel:
    """The model with S and s² of people's own parts, for one that was learned without: ``LOOKS`` looks from a weak prior."""
    directions, bare = model.embedding, replace(model, embedding=model.embedding[:, :0])
    weak = with_weak_log_odds(bare) if model.log_odds else first_prior(users, bare, gate, mu_spread)
    model = with_directions(weak, directions, along * (EVEN_ODDS if model.log_odds else 1.0))
    for t in range(LOOKS):
        doubt = FIRST_DOUBT if t < LOOKS - 1 else LATER_DOUBT
        model = release_better_prior(users, model, gate, mu_look, f"prior of heads, look {t + 1}", doubt)
    return orthonormal(model)


def release_better_prior(
    users: Population, model: SharedModel, gate: Gate, mu: float, name: str, doubt: float
) -> SharedModel:
    """One look: the model with a better S and s², its embedding scaled so that coefficients have variance one again.

    ``doubt``: by about which share the prior is expected to be off. Noise beyond it hides the change, most of which is left.
    """
    assert model.spread is not None
    q = len(model.spread)
    if q == 0:
        return model
    released = gate.release(users.sum(PosteriorMoments(model)).bounded(name), mu)
    better = better_prior(model, released.value, released.noise_std, users.total_weight, doubt)
    return coefficients_of_variance_one(better)


def better_prior(model: SharedModel, moments: np.ndarray, noise_std: float, people: float, doubt: float) -> SharedModel:
    """The model after one step of scoring, given moments with so much noise."""
    spread = model.spread
    assert spread is not None
    q = len(spread)
    half = q * (q + 1) // 2
    parts, taken, squares = (from_symmetric_half(moments[at * half : (at + 1) * half], q) for at in range(3))
    first, present = moments[3 * half : 3 * half + q], max(float(moments[-1]) / NOISE_WEIGHT, 0.1 * people)
    L = prior_factor(spread)
    if model.coef is not None:  # what people's parts have in common belongs to the shared part
        share = sure_share(first, noise_std, q) if noise_std else 1.0
        model = _shifted(model, L @ _common_part(model, taken, share * first, noise_std, people))
        parts = parts - share * np.outer(first, first) / present
    # Information about each direction of the prior, at least a little; noise beside it tells how much of the change is real.
    values, Q = np.linalg.eigh(squares)
    values = np.maximum(values, max(_FEWEST * people, noise_std))
    change = Q.T @ (parts - taken) @ Q / np.sqrt(np.outer(values, values))
    hidden = 2 * noise_std**2 / np.outer(values, values)
    factor = 1.0
    if not model.log_odds:
        off = float(moments[-2]) / (NOISE_WEIGHT * present) - 1.0
        real = float(without_noise(np.array(off), np.array(2 * (noise_std / (NOISE_WEIGHT * present)) ** 2), doubt))
        factor = float(np.clip(1.0 + real, 1 / _FARTHEST, _FARTHEST))
    # What noise hides of S is believed to be in proportion to s², as it was before anything was known; but for room that own
    # levels have because nobody knows where labels lie.
    known = min(1.0, model.noise / max(float(spread[0, 0]), 1e-300)) if model.own_intercept else 1.0
    along = factor ** (0.5 * known * (1.0 - real_share(np.diag(change), np.diag(hidden), doubt)))
    better = np.outer(along, along) * (np.eye(q) + without_noise(change, hidden, doubt))
    grown, V = np.linalg.eigh(Q @ better @ Q.T)
    grown = np.clip(grown, 1 / _FARTHEST, _FARTHEST)
    return replace(model, spread=L @ (V * grown) @ V.T @ L.T, noise=factor * model.noise)


def without_noise(change: np.ndarray, hidden: np.ndarray, doubt: float) -> np.ndarray:
    """Changes, each times the share of it that is not noise of the variance ``hidden``."""
    return np.asarray(change * real_share(change, hidden, doubt))


def real_share(change: np.ndarray, hidden: np.ndarray, doubt: float) -> np.ndarray:
    """That share: as is expected of changes of the size ``doubt``, or as one stands out."""
    expected = np.where(change**2 > _STANDS_OUT**2 * hidden, np.maximum(doubt**2, change**2 - hidden), doubt**2)
    return np.asarray(expected / (expected + hidden))


def second_moment(model: SharedModel, moments: np.ndarray) -> np.ndarray:
    """The mean of people's E[h hᵀ] by their posteriors."""
    assert model.spread is not None
    q = len(model.spread)
    half = q * (q + 1) // 2
    parts, taken = (from_symmetric_half(moments[at * half : (at + 1) * half], q) for at in range(2))
    L, present = prior_factor(model.spread), float(moments[-1]) / NOISE_WEIGHT
    return np.asarray(L @ (np.eye(q) + (parts - taken) / present) @ L.T)


def _common_part(
    model: SharedModel, taken: np.ndarray, first: np.ndarray, noise_std: float, people: float
) -> np.ndarray:
    """Where the prior should be centred, in its own coordinates: Σ H c is about Σ ξ; as far as noise does not hide it."""
    own = int(model.own_intercept)
    expected = np.r_[[COMMON_LEVEL] * own, [COMMON_PART] * model.rank]
    values, Q = np.linalg.eigh(taken)
    H = (Q * np.maximum(values, _FEWEST * people)) @ Q.T
    return np.asarray(np.linalg.solve(H @ H + np.diag((noise_std / expected) ** 2), H @ first))


def _shifted(model: SharedModel, part: np.ndarray) -> SharedModel:
    """The model with this part, an intercept and coefficients, as everybody's."""
    own = int(model.own_intercept)
    return replace(
        model, coef=model.slopes + model.embedding @ part[own:], intercept=model.intercept + float(part[:own].sum())
    )


def coefficients_of_variance_one(model: SharedModel) -> SharedModel:
    """The same model, its embedding scaled and turned so that people's coefficients on it are uncorrelated, of variance one."""
    assert model.spread is not None
    own = int(model.own_intercept)
    if model.rank == 0:
        return model
    root = np.linalg.cholesky(model.spread[own:, own:])
    back = np.eye(len(model.spread))
    back[own:, own:] = np.linalg.inv(root)
    return replace(model, embedding=np.ascontiguousarray(model.embedding @ root), spread=back @ model.spread @ back.T)


def orthonormal(model: SharedModel) -> SharedModel:
    """The same model with orthonormal columns of the embedding, as billboards have them."""
    assert model.spread is not None
    own, (U, R) = int(model.own_intercept), np.linalg.qr(model.embedding)
    turn = np.eye(len(model.spread))
    turn[own:, own:] = R
    spread = turn @ model.spread @ turn.T
    return replace(model, embedding=np.ascontiguousarray(U), spread=(spread + spread.T) / 2)
