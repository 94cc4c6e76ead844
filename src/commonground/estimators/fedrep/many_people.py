"""Private FedRep's default recipe: rounds on an embedding and a shared mean, in coordinates in which features vary alike.

In the order of training: coordinates, how large features are, a first shared mean, a first embedding, rounds that improve
both (each: a histogram of gradient sizes chooses the clip, then the clipped sum), and a prior for heads. P2's Algorithm 1 with
three changes: the clip follows the residual, the step knows its noise (``steps.rounds``), and people's gradients are scale-free.

**Guarantee.** Unit: a person, replaced by any other. What reads data passes the gate, at the shares of ``PLAN``: clipped profiles
of feature scales (2C, with histograms of sizes, √2) and moments of features (√2), one histogram of feature energies (√2),
gradients of the mean and of the embedding (a histogram of their sizes, √2, and the clipped sum, 2C, in each round), the
directions of people's own coefficients (√2), their heads' directions and noise (√2 each). All else is made of these.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.denoise.shrinkage import signal_share
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.coordinates import (
    coefficients_for_features,
    release_coordinates,
    seen_in_coordinates,
    share_of_correlations,
)
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.head_prior import release_head_prior
from commonground.steps.noisy_start import release_noisy_start
from commonground.steps.rounds import locate_sizes, release_clipped
from commonground.steps.shared_mean import shared_mean_rounds

N_ROUNDS = 16
MEAN_ROUNDS = 5  # for a first w₀, before there is an embedding
MEAN_EVERY = 4  # later on, every fourth round goes to w₀, whose residuals have shrunk with the embedding's error
# Those of the mean are spent only with shared_mean=True, those of correlations only where they can be seen.
PLAN = Plan(
    (
        Share("mean locate", 0.01, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.01, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.13, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share("scales", 0.008, "scales of features, against each other"),
        Share("correlations", 0.08, "moments of features; less where less is enough"),
        Share("scale", 0.01, "how large features are: one number"),
        Share("init", 0.11, "a first embedding, from everybody's own direction"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.06, "a histogram that chooses each round's clip", N_ROUNDS),
        Share("rounds", 0.65, "clipped gradient sums for the embedding, every fourth for the mean", N_ROUNDS),
        Share("prior", 0.006, "the prior of heads, for people with few rows"),
    )
)
INIT_WITH_MEAN = 0.3  # such labels are mostly noisy, and the start worth more than rounds; see docs/real_data.md


def recipe_for_many(
    users: Population, rank: int | Literal["auto"], own_intercept: bool, shared_mean: bool, n_rounds: int | None,
    budget: Budget, gate: Gate, verbose: bool,
) -> tuple[SharedModel, np.ndarray]:  # fmt: skip
    """The shared model, and the prior of heads."""
    d, n_rounds = users.n_features, n_rounds or N_ROUNDS
    mu = plan_for(shared_mean, n_rounds, users.total_weight, d, budget.mu).costs(budget)
    with progress_bar("training", n_rounds + (MEAN_ROUNDS if shared_mean else 0), verbose) as advance:
        transform = release_coordinates(users, own_intercept, gate, mu["scales"], mu.get("correlations", 0.0))
        users = seen_in_coordinates(users, transform)
        energy = release_feature_energy(users, own_intercept, gate, mu["scale"])
        model, mean_edge = SharedModel(np.zeros((d, 0)), None, 0.0, own_intercept), 0
        if shared_mean:
            for after in shared_mean_rounds(
                users, gate, mu_locate=mu["mean locate"], mu_size=mu["mean sizes"], mu_sum=mu["mean rounds"],
                n_rounds=MEAN_ROUNDS, feature_energy=energy, own_intercept=own_intercept,
                constant=energy**0.5 if own_intercept else 0.0,  # as large as the features, which vary alike here
            ):  # fmt: skip
                model, mean_edge = after.model, after.edge
                advance()
        model = replace(model, embedding=release_noisy_start(users, rank, model, gate, mu["init"]))
        edge = locate_sizes(partial(_gradients, users, model), gate, mu["locate"], "embedding")
        one_round = {"mu_size": mu["sizes"], "mu_sum": mu["rounds"]}
        for t in range(n_rounds):
            name = f"round {t + 1}"
            if shared_mean and t % MEAN_EVERY == MEAN_EVERY - 1:
                model, mean_edge = _better_mean(users, model, mean_edge, energy, gate, name, **one_round)
            else:
                gradient = release_clipped(partial(_gradients, users, model), edge, gate, name=name, **one_round)
                edge = gradient.edge
                U = _step(model.embedding, gradient.value.T, gradient.noise_std, gradient.people, energy)
                model = replace(model, embedding=U)
            advance()
        prior = release_head_prior(users, model, gate, mu["prior"])
    if transform is None:
        return model, prior
    # θ = Tᵀ U v = Q (R v): heads and their prior turn along
    U, R = np.linalg.qr(coefficients_for_features(transform, model.embedding))
    inverse = np.linalg.inv(R)
    coef = None if model.coef is None else coefficients_for_features(transform, model.coef)
    return replace(model, embedding=np.ascontiguousarray(U), coef=coef), inverse.T @ prior @ inverse


def plan_for(with_mean: bool, n_rounds: int, n_people: float, d: int, mu: float) -> Plan:
    """What each release may cost, from public numbers."""
    plan = PLAN.where("init", part=INIT_WITH_MEAN) if with_mean else PLAN.without("mean")
    correlations = next(share.part for share in PLAN if share.name == "correlations")
    plan = plan.where("correlations", part=share_of_correlations(n_people, d, mu, correlations))
    return plan.where("sizes", repeats=n_rounds).where("rounds", repeats=n_rounds)


def _step(U: np.ndarray, gradient: np.ndarray, noise_std: float, people: float, energy: float) -> np.ndarray:
    """Alg. 1, line 10. The average signal of the scale-free gradients is energy/k times the error: hence the factor."""
    d, k = U.shape
    across = gradient - U @ (U.T @ gradient)  # along U nothing can be learned: heads absorb it
    share = signal_share(across, noise_std, (d - k) * k)
    return np.ascontiguousarray(np.linalg.qr(U + share * k / (people * energy) * across)[0])


def _better_mean(
    users: Population,
    model: SharedModel,
    edge: int,
    energy: float,
    gate: Gate,
    name: str,
    mu_size: float,
    mu_sum: float,
) -> tuple[SharedModel, int]:
    """One step on w₀ with everybody's head fitted: what the mean still misses outside the span of U."""

    def sums_from(lowest: int) -> BinnedSums:
        return users.sum(ResidualGradients(model, lowest))

    gradient, U = release_clipped(sums_from, edge, gate, mu_size, mu_sum, f"{name}, shared mean"), model.embedding
    across = gradient.value[0] - U @ (U.T @ gradient.value[0])  # along U heads absorb it
    share = signal_share(across, gradient.noise_std, U.shape[0] - U.shape[1])
    return replace(model, coef=model.slopes + share / (gradient.people * energy) * across), gradient.edge


def _gradients(users: Population, model: SharedModel, lowest: int) -> BinnedSums:
    return users.sum(EmbeddingGradients(model, lowest))
