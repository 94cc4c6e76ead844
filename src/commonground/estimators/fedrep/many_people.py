"""Private FedRep where people share nothing but an embedding, and are many: the papers' populations, without mean and intercepts.

In the order of training: coordinates, how large features are, a first embedding, rounds that improve it (each: a histogram of
gradient sizes chooses the clip, then the clipped sum), and a prior for heads. P2's Algorithm 1 with three changes: the clip
follows the residual, the step knows its noise (``steps.rounds``), and people's gradients are scale-free.

**Guarantee.** Unit: a person, replaced by any other. What reads data passes the gate, at the shares of ``PLAN``: clipped profiles
of feature scales (2C, with histograms of sizes, √2) and moments of features (√2), one histogram of feature energies (√2), the
directions of people's own coefficients (√2), gradients of the embedding (a histogram of their sizes, √2, and the clipped sum, 2C,
in each round), their heads' directions, and two histograms of noise (√2 each). All else is made of these.
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
from commonground.statistics.statistic import SharedModel
from commonground.steps.coordinates import (
    coefficients_for_features,
    features_for_coefficients,
    release_coordinates,
    seen_in_coordinates,
    share_of_correlations,
)
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.head_prior import release_head_prior
from commonground.steps.noisy_start import release_noisy_start
from commonground.steps.prior import orthonormal
from commonground.steps.rounds import locate_sizes, release_clipped

N_ROUNDS = 16
ROUNDS_FROM_OLD = 6  # from an earlier board's embedding
# Those of correlations are spent only where they can be seen.
PLAN = Plan(
    (
        Share("scales", 0.008, "scales of features, against each other"),
        Share("correlations", 0.08, "moments of features; less where less is enough"),
        Share("scale", 0.01, "how large features are: one number"),
        Share("init", 0.11, "a first embedding, from everybody's own direction"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.06, "a histogram that chooses each round's clip", N_ROUNDS),
        Share("rounds", 0.65, "clipped gradient sums for the embedding", N_ROUNDS),
        Share("prior", 0.006, "the prior of heads, for people with few rows"),
    )
)


def recipe_for_many(
    users: Population,
    rank: int | Literal["auto"],
    n_rounds: int | None,
    budget: Budget,
    gate: Gate,
    verbose: bool,
    start: SharedModel | None = None,
) -> SharedModel:
    """The shared model, with the prior of heads and the noise of labels; from the embedding of ``start``, if there is one."""
    d, n_rounds = users.n_features, n_rounds or (N_ROUNDS if start is None else ROUNDS_FROM_OLD)
    plan = plan_for(n_rounds, users.total_weight, d, budget.mu)
    mu = (plan if start is None else plan.without("init")).costs(budget)
    with progress_bar("training", n_rounds, verbose) as advance:
        transform = release_coordinates(users, False, gate, mu["scales"], mu.get("correlations", 0.0))
        users = seen_in_coordinates(users, transform)
        energy = release_feature_energy(users, False, gate, mu["scale"])
        model = SharedModel(np.zeros((d, 0)))
        if start is None:
            model = replace(model, embedding=release_noisy_start(users, rank, model, gate, mu["init"]))
        else:
            old = features_for_coefficients(transform, start.embedding)
            model = replace(model, embedding=np.ascontiguousarray(np.linalg.qr(old)[0]))
        edge = locate_sizes(partial(_gradients, users, model), gate, mu["locate"], "embedding")
        for t in range(n_rounds):
            sums_from = partial(_gradients, users, model)
            gradient = release_clipped(sums_from, edge, gate, mu["sizes"], mu["rounds"], f"round {t + 1}")
            edge = gradient.edge
            U = _step(model.embedding, gradient.value.T, gradient.noise_std, gradient.people, energy)
            model = replace(model, embedding=U)
            advance()
        model = release_head_prior(users, model, gate, mu["prior"])
    return orthonormal(replace(model, embedding=coefficients_for_features(transform, model.embedding)))


def plan_for(n_rounds: int, n_people: float, d: int, mu: float) -> Plan:
    """What each release may cost, from public numbers."""
    correlations = next(share.part for share in PLAN if share.name == "correlations")
    plan = PLAN.where("correlations", part=share_of_correlations(n_people, d, mu, correlations))
    return plan.where("sizes", repeats=n_rounds).where("rounds", repeats=n_rounds)


def _step(U: np.ndarray, gradient: np.ndarray, noise_std: float, people: float, energy: float) -> np.ndarray:
    """Alg. 1, line 10. The average signal of the scale-free gradients is energy/k times the error: hence the factor."""
    d, k = U.shape
    across = gradient - U @ (U.T @ gradient)  # along U nothing can be learned: heads absorb it
    share = signal_share(across, noise_std, (d - k) * k)
    return np.ascontiguousarray(np.linalg.qr(U + share * k / (people * energy) * across)[0])


def _gradients(users: Population, model: SharedModel, lowest: int) -> BinnedSums:
    return users.sum(EmbeddingGradients(model, lowest))
