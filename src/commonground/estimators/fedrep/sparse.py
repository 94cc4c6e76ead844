"""Private FedRep for sparse rows, such as one-hot items of which some are popular and most are rare.

The recipe of ``fedrep`` with three changes, all measured in docs/recommendation.md:

- **Features are brought to one scale.** How often each feature occurs, p_a, is released first, and all that follows learns from
  x_a/√p_a. A step that suits the average item is hundreds of times too long for a popular one; on this scale one step fits
  all. It also wastes the least: of all scales s_a under one clip (Σ p_a s_a² = 1) it has the smallest error that noise
  of one size in every coordinate leaves in predictions, Σ p_a /(p_a s_a)².
- **The start is made on the popular features.** A second moment of all of them would be mostly noise, and of 10,000 × 10,000
  numbers. Once heads can be fitted on popular items, gradient rounds bring in the others.
- **The step knows its noise, octave by octave** of popularity: the share of signal (``rounds.signal_share``) is near one
  for popular features and near zero for rare ones, whose rows would otherwise fill up with noise.

In place of P1's and P2's initial moments the start sums up pairs of *different* rows only (P2, Algorithm 2): of one-hot rows,
the squares say which items are popular, and drown the rest.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.sums import BinnedSums, from_symmetric_half
from commonground.data.population import Population
from commonground.data.users import Users
from commonground.denoise.shrinkage import signal_share
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.sparse_features import FeatureFrequencies
from commonground.statistics.sparse_gradients import PairDirections, SparseGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.rounds import ClippedGradient, locate_sizes, release_clipped

N_ROUNDS = 12
MEAN_ROUNDS = 3  # for a first w₀: on one scale, one round nearly is enough
MEAN_EVERY = 4
START_FEATURES = 100  # the most popular ones
FLOOR = 1.0  # standard deviations of noise: what popularity cannot be told from zero counts as so much
# Those of the mean are spent only with a shared mean.
PLAN = Plan(
    (
        Share("features", 0.06, "how often each feature occurs"),
        Share("scale", 0.01, "how large features are: one number"),
        Share("mean locate", 0.01, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.02, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.20, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share("init", 0.10, "a first embedding, on popular features"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.05, "a histogram that chooses each round's clip", N_ROUNDS),
        Share("rounds", 0.53, "clipped gradient sums for the embedding, every fourth for the mean", N_ROUNDS),
    )
)


@dataclass(frozen=True)
class Popularity:
    """How often each feature occurs, as released."""

    shares: np.ndarray  # (d,) of everything that occurs, at least a little
    octaves: np.ndarray  # (d,) int: features of about the same popularity have the same number, from 0 on

    @property
    def scales(self) -> np.ndarray:
        """What features are multiplied by: then they have the mean square of an average feature, or less if rare."""
        return 1.0 / np.sqrt(len(self.shares) * self.shares)

    def most_popular(self, n: int) -> np.ndarray:
        return np.sort(np.argsort(-self.shares, kind="stable")[:n])

    def signal_in(self, gradient: np.ndarray, noise_std: float) -> np.ndarray:
        """A released (d, …) gradient, each octave times the share of it that is signal."""
        kept = np.zeros_like(gradient)
        for octave in range(self.octaves.max() + 1):
            here = gradient[self.octaves == octave]
            if here.size:
                kept[self.octaves == octave] = signal_share(here, noise_std, here.size) * here
        return kept


def release_popularity(users: Population, gate: Gate, mu: float) -> Popularity:
    released = gate.release(users.sum(FeatureFrequencies()).bounded("popularity of features"), mu)
    noise = released.noise_std
    counts = np.maximum(released.value, 0.0) + FLOOR * noise
    # Where the noise hides them all, its own size stands in for their sum.
    shares = counts / max(float(released.value.sum()), noise * len(counts) ** 0.5)
    octaves = np.floor(np.log2(shares)).astype(int)
    return Popularity(shares, octaves - octaves.min())


def sparse_recipe(
    users: Population, rank: int, own_intercept: bool, shared_mean: bool, n_rounds: int | None, budget: Budget, gate: Gate,
    verbose: bool,
) -> SharedModel:  # fmt: skip
    """The shared model."""
    d, k, n_rounds = users.n_features, rank, n_rounds or N_ROUNDS
    plan = PLAN if shared_mean else PLAN.without("mean")
    mu = plan.where("sizes", repeats=n_rounds).where("rounds", repeats=n_rounds).costs(budget)
    with progress_bar("training", n_rounds + (MEAN_ROUNDS if shared_mean else 0), verbose) as advance:
        popularity = release_popularity(users, gate, mu["features"])
        energy = release_feature_energy(users, own_intercept, gate, mu["scale"])
        assert isinstance(users, Users)  # others have no sparse rows
        users = users.scaled(popularity.scales)
        model, mean_edge = SharedModel(np.zeros((d, 0)), None, 0.0, own_intercept), 0
        if shared_mean:
            model = replace(model, coef=np.zeros(d))
            of_first_mean = partial(_mean_gradients, users, with_intercept=own_intercept)
            mean_edge = locate_sizes(partial(of_first_mean, model), gate, mu["mean locate"], "shared mean")
            one_round = mu["mean sizes"], mu["mean rounds"]
            for t in range(MEAN_ROUNDS):
                name = f"shared mean, round {t + 1}"
                gradient = release_clipped(partial(of_first_mean, model), mean_edge, gate, *one_round, name)
                model, mean_edge = _mean_step(model, gradient, popularity, energy), gradient.edge
                advance()
        model = replace(model, embedding=_initial_embedding(users, k, model, popularity, gate, mu["init"]))
        edge = locate_sizes(partial(_gradients, users, model), gate, mu["locate"], "embedding")
        one_round = mu["sizes"], mu["rounds"]
        for t in range(n_rounds):
            name = f"round {t + 1}"
            if shared_mean and t % MEAN_EVERY == MEAN_EVERY - 1:
                sums_from = partial(_mean_gradients, users, model, with_intercept=False)
                gradient = release_clipped(sums_from, mean_edge, gate, *one_round, f"{name}, shared mean")
                model, mean_edge = _mean_step(model, gradient, popularity, energy), gradient.edge
            else:
                gradient, U = (
                    release_clipped(partial(_gradients, users, model), edge, gate, *one_round, name),
                    model.embedding,
                )
                edge = gradient.edge
                across = gradient.value.T - U @ (U.T @ gradient.value.T)  # along U heads absorb it
                step = popularity.signal_in(across, gradient.noise_std)
                model = replace(model, embedding=np.linalg.qr(U + k / (gradient.people * energy) * step)[0])
            advance()
    scales = popularity.scales
    U = np.ascontiguousarray(np.linalg.qr(scales[:, None] * model.embedding)[0])
    return replace(model, embedding=U, coef=None if model.coef is None else scales * model.coef)


def _mean_step(model: SharedModel, gradient: ClippedGradient, popularity: Popularity, energy: float) -> SharedModel:
    """One step on w₀, and on the shared intercept where the gradient has an entry for it."""
    U, d = model.embedding, len(model.embedding)
    slopes, rest = gradient.value[0, :d], gradient.value[0, d:]
    step = popularity.signal_in(slopes - U @ (U.T @ slopes), gradient.noise_std)
    return replace(
        model,
        coef=model.slopes + step / (gradient.people * energy),
        intercept=model.intercept + float(rest.sum()) / gradient.people,
    )


def _initial_embedding(
    users: Population, rank: int, model: SharedModel, popularity: Popularity, gate: Gate, mu: float
) -> np.ndarray:
    """The top-k eigenvectors of the released sum of everybody's pairs, on popular features; zero on the others."""
    features = popularity.most_popular(max(START_FEATURES, 4 * rank))
    pairs = users.sum(PairDirections(model, features))
    half = gate.release(pairs.bounded("initial embedding"), mu).value
    U = np.zeros((users.n_features, rank))
    U[features] = np.linalg.eigh(from_symmetric_half(half, len(features)))[1][:, -rank:]
    return U


def _gradients(users: Population, model: SharedModel, lowest: int) -> BinnedSums:
    return users.sum(SparseGradients(model, outer=True, with_intercept=False, lowest=lowest))


def _mean_gradients(users: Population, model: SharedModel, lowest: int, *, with_intercept: bool) -> BinnedSums:
    return users.sum(SparseGradients(model, outer=False, with_intercept=with_intercept, lowest=lowest))
