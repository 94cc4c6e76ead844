"""What people's own parts are like in general: a released prior, by which every head is a posterior.

Parts are h ~ N(0, S), the intercept first, and labels have noise s² about them. Each look releases how far people's posteriors
are from what the prior says (``statistics.posterior.PosteriorMoments``) and takes one step of Fisher's scoring: if S is off by
a factor T in the coordinates in which it is the identity, Σ ξξᵀ − Σ H is about Σ H (T − 1) H.

Where the noise hides what a look would change, less of it is changed, down to nothing; and the prior that looks start from
(``first_prior``) leaves people's own parts little room. So who is not understood gets the shared prediction.
"""

from dataclasses import replace

import numpy as np

from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window, quantile_bin
from commonground.gate import Gate
from commonground.statistics.kernels.posterior_sums import NOISE_WEIGHT
from commonground.statistics.labels import LabelEnergies
from commonground.statistics.posterior import PosteriorMoments
from commonground.statistics.statistic import SharedModel

FIRST_SHARE = 0.1  # of the labels' variance that people's own parts are first given
FIRST_DOUBT, LATER_DOUBT = 0.5, 0.15  # by how much a prior is expected to be off: at first, and after two looks
_FARTHEST = 5.0  # the most that one look changes a variance by, either way
_FEWEST = 0.02  # of all people's worth of information: noise may leave less


def first_prior(users: Population, model: SharedModel, feature_energy: float, gate: Gate, mu: float) -> SharedModel:
    """The model with a weak prior, from the one released number that is the middle of people's label variances."""
    counts = gate.release(users.sum(LabelEnergies(model)).bounded("label energy"), mu)
    first = densest_window(counts.value, counts.noise_std)
    noise = lower_edge(quantile_bin(counts.value[first : first + LOCATING_WIDTH], first, 0.5)) ** 2
    return replace(model, noise=noise, spread=weak_spread(model, noise, feature_energy))


def weak_spread(model: SharedModel, noise: float, feature_energy: float) -> np.ndarray:
    """S under which own parts make up ``FIRST_SHARE`` of the noise, intercept and coefficients alike."""
    along = np.maximum(feature_energy * (model.embedding**2).sum(axis=0), 1e-300)  # variance of x's coordinates
    sizes = np.concatenate([[1.0] * model.own_intercept, along])
    return np.diag(FIRST_SHARE * noise / max(len(sizes), 1) / sizes)


def with_directions(model: SharedModel, directions: np.ndarray, feature_energy: float) -> SharedModel:
    """The model with these directions in place of none: coefficients on them have variance one, by a weak prior."""
    assert model.spread is not None
    bare = replace(model, embedding=directions, spread=None)
    weak = np.diag(weak_spread(bare, model.noise, feature_energy))
    own = int(model.own_intercept)
    spread = np.eye(own + directions.shape[1])
    spread[:own, :own] = model.spread[:own, :own]
    return replace(bare, embedding=np.ascontiguousarray(directions * np.sqrt(weak[own:])), spread=spread)


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
    return better_prior(model, released.value, released.noise_std, users.total_weight, doubt)


def better_prior(model: SharedModel, moments: np.ndarray, noise_std: float, people: float, doubt: float) -> SharedModel:
    """The model after one step of scoring, given moments with so much noise."""
    assert model.spread is not None
    q = len(model.spread)
    half = q * (q + 1) // 2
    parts, taken, squares = (from_symmetric_half(moments[at * half : (at + 1) * half], q) for at in range(3))
    present = max(float(moments[-1]), 0.1 * NOISE_WEIGHT * people)
    # Information about each direction of the prior, at least a little; noise beside it tells how much of the change is real.
    values, Q = np.linalg.eigh(squares)
    values = np.maximum(values, max(_FEWEST * people, noise_std))
    change = Q.T @ (parts - taken) @ Q / np.sqrt(np.outer(values, values))
    hidden = 2 * noise_std**2 / np.outer(values, values)
    change = Q @ (change * doubt**2 / (doubt**2 + hidden)) @ Q.T
    grown, V = np.linalg.eigh(np.eye(q) + change)
    grown = np.clip(grown, 1 / _FARTHEST, _FARTHEST)
    L = np.linalg.cholesky(model.spread)
    spread = L @ (V * grown) @ V.T @ L.T
    off = float(moments[-2]) / present - 1.0
    off *= doubt**2 / (doubt**2 + 2 * (noise_std / present) ** 2)
    noise = model.noise * float(np.clip(1.0 + off, 1 / _FARTHEST, _FARTHEST))
    return coefficients_of_variance_one(replace(model, spread=spread, noise=noise))


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
