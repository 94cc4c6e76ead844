"""Private FedRep's recipe for three classes and more: shared scores of classes, and everybody's own class intercepts.

Released, in this order: coordinates in which features vary alike; how often each class occurs; how large people's gradients are;
rounds that improve the shared scores, one step of Newton's each; and, after each round, a look at how far people's own intercepts
vary (``steps.prior``). In rounds people's own parts are at their posterior mode. All classes are learned at once: a person's
gradient for all of them is one vector, clipped as a whole. One model for each class against the rest would pay for coordinates,
clips and looks once for each (docs/classes.md has both measured).

**Guarantee.** Unit: a person with all her rows, replaced by any other. What reads data passes the gate, at the shares of
``PLAN``: coordinates (``fedrep.coordinates``: for dense rows clipped profiles of feature scales and clipped sums of mean rows,
2C each, with histograms of sizes, √2, one of feature energies, √2, where people are many, and moments of features, √2; for sparse
ones the sum of people's feature shares, √2);
a histogram of feature energies (√2); everybody's shares of classes, a vector without negative entries whose sum is at most one
(√2); one histogram of gradient sizes (√2); in each round the sum of gradients, each clipped to C (2C); and for each look a sum of
clipped moments (√2 C). All else is made of these; classes and their number are declared.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.grid import N_BINS
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window, effective_people, quantile_bin
from commonground.denoise.shrinkage import sure_share
from commonground.estimators.fedrep.coordinates import Coordinates, plan_of_coordinates, release_coordinates
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.classes import ClassGradients, ClassModel, ClassMoments, ClassShares, contrasts
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.statistic import WINDOW, SharedModel
from commonground.steps.coordinates import coefficients_for_features
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.prior import FIRST_DOUBT, FIRST_SHARE, LATER_DOUBT, better_prior
from commonground.steps.rounds import FIRST_QUANTILE, ClippedGradient

N_ROUNDS = 4
# A class with a smaller share of labels counts in steps as if it had this one: dividing by less would amplify noise.
RAREST = 0.02
STEP = 1.2  # length of a step, in steps of Newton's: clipped gradients are shorter than the likelihood's
MOST_SCORES, MOST_LEVEL = 1.0, 0.2  # variance of scores, and of shared intercepts, that one step may be taken to make
LEVEL_DOUBT = 2.0  # times the variance of the noise: the most that is taken to be unknown of a class's share
# n μ of a release that is precise to 7 % of all people; few people pay more for sizes and shares to reach it
PRECISE_RELEASE = 20.0
MOST_TO_SEE = 0.2  # the largest share of such a release; rounds have 0.7
PLAN = Plan(
    (
        Share("features", 0.03, "how often each feature occurs (sparse rows)"),
        Share("scales", 0.006, "scales of features, against each other (dense rows)"),
        Share("centre locate", 0.003, "where features lie (dense rows): one histogram"),
        Share("centre sizes", 0.003, "a histogram that chooses the clip of the centre"),
        Share("centre", 0.02, "clipped sums of people's mean rows"),
        Share("correlations", 0.06, "moments of features; less where less is enough (dense rows)"),
        Share("first scale", 0.004, "how large features are, before they are centred: one number (many people)"),
        Share("scale", 0.004, "how large features are: one number"),
        Share("level", 0.016, "how often each class occurs; more where people are few"),
        Share("sizes", 0.01, "how large people's gradients are: one histogram, for the clip of all rounds"),
        Share("rounds", 0.7, "clipped gradient sums for the scores of all classes", N_ROUNDS),
        Share("prior", 0.1, "looks at the prior of people's own class intercepts", N_ROUNDS),
    )
)


def class_recipe(
    users: Population, n_classes: int, n_rounds: int | None, budget: Budget, gate: Gate, verbose: bool
) -> ClassModel:
    """Shared scores and the prior of people's own class intercepts; labels are places of classes, 0 to K − 1."""
    rounds = n_rounds or N_ROUNDS
    mu = plan_for(users, rounds, budget.mu).costs(budget)
    with progress_bar("training", rounds, verbose) as advance:
        seen = release_coordinates(users, users, True, gate, mu)
        energy = release_feature_energy(seen.users, False, gate, mu["scale"])
        model, unknown = _release_level(seen.users, n_classes, gate, mu["level"])
        constant = energy**0.5  # as large as the features, which vary alike here
        gradients = partial(_gradients, seen.users, constant)
        sizes, quantile = _release_sizes(gradients(model, 1), gate, mu["sizes"]), FIRST_QUANTILE
        for t in range(rounds):
            edge = sizes.edge(quantile)
            sums = gradients(model, edge - WINDOW // 2).clipped_at(edge, f"class scores, round {t + 1}: clipped sum")
            released = gate.release(sums, mu["rounds"])
            gradient = ClippedGradient(released.value, released.noise_std, sizes.worth(edge), edge)
            model, quantile = _better_scores(seen, model, gradient, energy, constant), gradient.next_quantile()
            doubt = FIRST_DOUBT if t < rounds - 1 else LATER_DOUBT
            model = _release_better_prior(seen.users, model, gate, mu["prior"], f"prior, look {t + 1}", doubt)
            advance()
    return _for_features(seen, replace(model, spread=model.spread + unknown))


def plan_for(users: Population, rounds: int, mu: float) -> Plan:
    """What each release may cost, from public numbers."""
    plan = PLAN
    plan = plan.where("rounds", repeats=rounds).where("prior", repeats=rounds)
    plan = plan_of_coordinates(plan, users, True, mu, users.total_weight)
    seen = (PRECISE_RELEASE / (users.total_weight * mu)) ** 2
    for share in PLAN:
        if share.name in ("scale", "level", "sizes"):
            plan = plan.where(share.name, part=float(np.clip(seen, share.part, MOST_TO_SEE)))
    return plan


@dataclass(frozen=True)
class Sizes:
    """How many people send gradients of which size, as it was released: what is left of a label is always about as large."""

    counts: np.ndarray
    first: int  # bin
    all_people: float

    def edge(self, quantile: float) -> int:
        """The bin at whose lower edge so many of them are below."""
        at = round(quantile_bin(self.counts, self.first, quantile))
        return int(np.clip(at, WINDOW // 2 + 1, N_BINS - WINDOW // 2))

    def worth(self, edge: int) -> float:
        """How many unclipped people a sum that is clipped there is worth; noise may not make them a few, or more than all."""
        unclipped = effective_people(self.counts, self.first, edge)
        return float(np.clip(unclipped, 0.1 * self.all_people, self.all_people))


def _release_sizes(sums: BinnedSums, gate: Gate, mu: float) -> Sizes:
    released = gate.release(sums.whole_histogram("class scores: where sizes lie"), mu)
    first = densest_window(released.value, released.noise_std)
    return Sizes(released.value[first : first + LOCATING_WIDTH], first, sums.total_weight)


def _release_level(users: Population, n_classes: int, gate: Gate, mu: float) -> tuple[ClassModel, np.ndarray]:
    """The model of how often classes occur, with a weak prior; and the variance of what noise leaves unknown of it."""
    released = gate.release(users.sum(ClassShares(n_classes)).bounded("how often each class occurs"), mu)
    noise = released.noise_std / users.total_weight
    # Sums of shares are at most the number of people, and as many where all have rows.
    off = released.value / users.total_weight - 1.0 / n_classes
    shares = 1.0 / n_classes + sure_share(off, noise, n_classes) * off
    shares = np.maximum(shares, max(noise, 1e-3 / n_classes))
    shares /= shares.sum()
    B = contrasts(n_classes)
    unknown = B.T @ np.diag(LEVEL_DOUBT * np.minimum(noise / shares, 1.0) ** 2) @ B
    level = B.T @ np.log(shares)
    spread = FIRST_SHARE * np.linalg.inv(_curvature(B, level[None])) + unknown
    return ClassModel(np.zeros((users.n_features, n_classes - 1)), level, spread), unknown


def _curvature(B: np.ndarray, contrasts_of: np.ndarray) -> np.ndarray:
    """(K − 1, K − 1): by which a change of contrasts changes probabilities of classes, by contrasts.

    The mean over some points, (points, K − 1) contrasts; no class is taken for too rare at any of them.
    """
    scores = contrasts_of @ B.T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = np.maximum(p / p.sum(axis=1, keepdims=True), RAREST)
    p /= p.sum(axis=1, keepdims=True)
    return np.asarray(B.T @ (np.diag(p.mean(axis=0)) - p.T @ p / len(p)) @ B)


def _usual_contrasts(model: ClassModel, energy: float) -> np.ndarray:
    """2 (K − 1) points with the mean and the covariance of what rows and people have: scores bend less where they differ."""
    q = len(model.intercept)
    root = prior_factor(energy * model.coef.T @ model.coef + model.spread) * q**0.5
    return np.concatenate([model.intercept + root.T, model.intercept - root.T])


def _better_scores(
    seen: Coordinates, model: ClassModel, gradient: ClippedGradient, energy: float, constant: float
) -> ClassModel:
    """One step of Newton's on W and a, as far as the released gradient tells."""
    B, d = contrasts(model.n_classes), len(model.coef)
    bend = gradient.people / STEP * _curvature(B, _usual_contrasts(model, energy))
    coef, most = model.coef.copy(), MOST_SCORES / (energy * d)
    for group in np.unique(seen.groups):
        here = seen.groups == group
        coef[here] += _step(gradient.value[:, :d].T[here], gradient.noise_std, energy * bend, most)
    level = _step(gradient.value[:, d:].T, gradient.noise_std, constant * bend, MOST_LEVEL)
    return replace(model, coef=coef, intercept=model.intercept + level[0])


def _step(gradient: np.ndarray, noise_std: float, bend: np.ndarray, most: float) -> np.ndarray:
    """(features, K − 1) changes whose gradient this is, up to noise: their mean, given that they are of one size.

    The size is read off the gradient, nothing if that may be all noise, and is at most ``most`` (a variance). Where scores bend
    little, a class being rare, noise is not made larger than changes are.
    """
    excess = sure_share(gradient, noise_std, gradient.size) * float((gradient**2).sum())
    variance = min(excess / (len(gradient) * float((bend**2).sum())), most)
    return np.asarray(
        variance * gradient @ bend @ np.linalg.inv(variance * bend @ bend + noise_std**2 * np.eye(len(bend)))
    )


def _release_better_prior(
    users: Population, model: ClassModel, gate: Gate, mu: float, name: str, doubt: float
) -> ClassModel:
    """One look, as at any prior: contrasts are directions that everybody has, and shared intercepts their coefficients."""
    released = gate.release(users.sum(ClassMoments(model)).bounded(name), mu)
    as_directions = SharedModel(np.eye(len(model.spread)), model.intercept, spread=model.spread, log_odds=True)
    better = better_prior(as_directions, released.value, released.noise_std, users.total_weight, doubt)
    assert better.spread is not None
    return replace(model, intercept=better.slopes, spread=better.spread)


def _for_features(seen: Coordinates, model: ClassModel) -> ClassModel:
    """The model of z = T (x − centre) as one of x."""
    coef = coefficients_for_features(seen.transform, model.coef)
    moved = 0.0 if seen.centre is None else seen.centre @ coef
    return replace(model, coef=np.ascontiguousarray(coef), intercept=model.intercept - moved)


def _gradients(users: Population, constant: float, model: ClassModel, lowest: int) -> BinnedSums:
    return users.sum(ClassGradients(model, constant, lowest))
