"""Coordinates in which features vary alike, for dense and for sparse rows: the first thing that the default recipes release.

**Guarantee.** What reads data passes the gate, at shares of the recipe's plan: clipped profiles of feature scales, clipped mean
rows (2C each, with histograms of sizes, √2), a histogram of feature energies (√2), moments of features of norm one (√2); of
sparse rows, the sum of people's feature shares (√2). What is made of these is free.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from commonground.accounting.plan import Plan
from commonground.data.population import Population
from commonground.gate import Gate
from commonground.statistics.sparse_features import FeatureFrequencies
from commonground.statistics.statistic import SharedModel
from commonground.steps.coordinates import (
    FAR_FROM_ZERO,
    SCALE_ROUNDS,
    coefficients_for_features,
    features_for_coefficients,
    release_correlations,
    release_scales,
    seen_in_coordinates,
    share_of_correlations,
)
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.prior import coefficients_of_variance_one
from commonground.steps.shared_mean import CENTRE_ROUNDS, FeatureCentre, centre_rounds, release_feature_centre

START_FEATURES = 200  # of sparse rows: the most popular ones
# Standard deviations of noise, added to every feature's popularity, so that one which cannot be told from zero is not scaled up.
FLOOR = 2.0


@dataclass(frozen=True)
class Coordinates:
    """People whose rows are seen in coordinates z = T (x − centre), in which features vary alike; and the way back to x."""

    users: Population
    looked_at: Population  # whom releases of a few numbers ask: all of them, or a random part of very many
    transform: np.ndarray | None  # z = T (x − centre), a matrix or a vector of scales
    centre: np.ndarray | None
    groups: np.ndarray  # (d,) int: which power of four the most popular feature is more popular by
    popular: np.ndarray  # positions of those that a first embedding is made on
    step_factors: np.ndarray | float = 1.0  # (d,) of steps: smaller where a feature varies more than most
    centre_doubt: float = math.inf  # of z: standard deviation of what is not known of each feature's centre

    def signal_in(self, gradient: np.ndarray, noise_std: float, share: Callable[..., float]) -> np.ndarray:
        """A released (d, …) gradient, each group of features times the ``share`` of it that is signal, for a step."""
        kept = np.zeros_like(gradient)
        for group in np.unique(self.groups):
            here = gradient[self.groups == group]
            kept[self.groups == group] = share(here, noise_std, here.size) * here
        return np.asarray((kept.T * self.step_factors).T)

    def for_features(self, model: SharedModel) -> SharedModel:
        """The model of z as one of x, whose own intercepts are those of x = 0."""
        U = coefficients_for_features(self.transform, model.embedding)
        coef = None if model.coef is None else coefficients_for_features(self.transform, model.coef)
        model = replace(model, embedding=U, coef=coef)
        if self.centre is None or model.spread is None:
            return model
        turn = np.eye(len(model.spread))
        turn[0, 1:] = -self.centre @ U
        spread, moved = turn @ model.spread @ turn.T, 0.0 if coef is None else float(coef @ self.centre)
        return replace(model, intercept=model.intercept - moved, spread=(spread + spread.T) / 2)

    def from_features(self, model: SharedModel) -> SharedModel:
        """The way back: a model of x, with a spread, as one of z, in which people's coefficients have variance one."""
        assert model.spread is not None
        if self.centre is not None:
            turn = np.eye(len(model.spread))
            turn[0, 1:] = self.centre @ model.embedding
            moved = 0.0 if model.coef is None else float(model.coef @ self.centre)
            spread = turn @ model.spread @ turn.T
            model = replace(model, intercept=model.intercept + moved, spread=(spread + spread.T) / 2)
        U = features_for_coefficients(self.transform, model.embedding)
        coef = None if model.coef is None else features_for_coefficients(self.transform, model.coef)
        return coefficients_of_variance_one(replace(model, embedding=U, coef=coef))


def release_coordinates(
    users: Population, looked_at: Population, own_intercept: bool, gate: Gate, mu: dict[str, float]
) -> Coordinates:
    everything = np.arange(users.n_features)
    if not users.sparse:
        transform, found = _scales_and_centre(looked_at, own_intercept, gate, mu)
        centre, doubt = (None, math.inf) if found is None else (found.value, found.doubt)
        transform = release_correlations(looked_at, transform, centre, False, gate, mu.get("correlations", 0.0))
        seen, some = (seen_in_coordinates(people, transform, centre) for people in (users, looked_at))
        return Coordinates(seen, some, transform, centre, np.zeros_like(everything), everything, 1.0, doubt)
    released = gate.release(users.sum(FeatureFrequencies()).bounded("popularity of features"), mu["features"])
    noise = released.noise_std
    counts = np.maximum(released.value, 0.0) + FLOOR * noise
    # Where the noise hides them all, its own size stands in for their sum.
    shares = counts / max(float(released.value.sum()), noise * len(counts) ** 0.5)
    # On this scale one step fits all features, and the error that noise of one size leaves in predictions is the least.
    scales = 1.0 / np.sqrt(len(shares) * shares)
    groups = np.floor(np.log2(shares.max() / shares) / 2).astype(int)
    popular = np.sort(np.argsort(-shares, kind="stable")[:START_FEATURES])
    # The floor makes rare features vary less than popular ones after scaling; one step length for all would overshoot on these.
    varies = np.maximum(released.value, 0.0) / counts
    step_factors = 1.0 / np.maximum(varies / max(float(varies.mean()), 1e-300), 1.0)
    seen = users.scaled(scales)
    return Coordinates(seen, seen, scales, None, groups, popular, step_factors)


def _scales_and_centre(
    looked_at: Population, own_intercept: bool, gate: Gate, mu: dict[str, float]
) -> tuple[np.ndarray | None, FeatureCentre | None]:
    """Factors that bring features to one scale, and where features lie, unless there is no intercept to take that up.

    How large a feature is says nothing of how it varies if it lies far from zero, as years do. So many people are asked for both
    in turn: scales about zero, the centre, scales of features far from zero about that, and the centre once more. Scales of
    others stay those about zero: a feature that few people have does not vary for most.
    """
    if not own_intercept:
        return release_scales(looked_at, False, gate, mu["scales"]), None
    find_centre = partial(
        release_feature_centre,
        looked_at,
        gate,
        mu_locate=mu["centre locate"],
        mu_size=mu["centre sizes"],
        mu_sum=mu["centre"],
    )
    if "first scale" not in mu:
        scales = release_scales(looked_at, False, gate, mu["scales"])
        return scales, find_centre(scales=scales)
    half, last = mu["scales"] / 2**0.5, CENTRE_ROUNDS - 1
    scales = release_scales(looked_at, False, gate, half, range(2))
    seen = seen_in_coordinates(looked_at, scales)
    energy = release_feature_energy(seen, False, gate, mu["first scale"], "feature energy before centring")
    centre = find_centre(scales=scales, rounds=range(last))
    scaled = centre.value if scales is None else centre.value * scales
    far = np.where(scaled**2 > FAR_FROM_ZERO * energy, centre.value, 0.0)
    scales = release_scales(looked_at, False, gate, half, range(2, 4), scales, far if far.any() else None)
    return scales, find_centre(scales=scales, rounds=range(last, last + 1), before=centre)


def plan_of_coordinates(plan: Plan, users: Population, own_intercept: bool, mu: float, looked_at: float) -> Plan:
    """The plan with what coordinates of such people need, from public numbers; ``looked_at`` of them are asked."""
    part = {share.name: share.part for share in plan}
    if users.sparse:
        return plan.without("scales").without("correlations").without("centre").without("first scale")
    of_correlations = share_of_correlations(looked_at, users.n_features, mu, part["correlations"])
    plan = plan.without("features").where("correlations", part=of_correlations)
    if not own_intercept:
        return plan.without("centre").without("first scale")
    rounds = centre_rounds(looked_at, users.n_features, mu * part["centre"] ** 0.5)
    plan = plan.where("centre", repeats=rounds).where("centre sizes", repeats=rounds)
    if rounds == 1:
        return plan.without("first scale")
    return plan.where("scales", part=part["scales"] * 4 / SCALE_ROUNDS)  # one round more, each at the same cost
