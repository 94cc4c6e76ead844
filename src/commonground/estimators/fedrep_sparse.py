"""Private FedRep for sparse rows: ratings of items that are popular or rare, one-hot."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.clipping import BinnedSums, from_symmetric_half, lower_edge
from commonground.contributions.sparse_rows import (
    feature_share_sums,
    pair_direction_sums,
    sparse_energy_counts,
    sparse_gradient_sums,
)
from commonground.engines import sum_over_people
from commonground.estimators.rounds import Door, locate_sizes, release_clipped, signal_share
from commonground.estimators.shared_mean import SharedMean
from commonground.thresholds import LOCATING_WIDTH, densest_window, quantile_bin
from commonground.users import Users

N_ROUNDS = 8
MEAN_ROUNDS = 2
MEAN_EVERY = 4
START_FEATURES = 200
FLOOR = 2.0
GROUPED = True
SHARES = {
    "features": 0.06,
    "scale": 0.01,
    "mean locate": 0.01,
    "mean sizes": 0.02,
    "mean rounds": 0.20,
    "init": 0.15,
    "locate": 0.02,
    "sizes": 0.05,
    "rounds": 0.48,
}


def sparse_recipe(users, rank, local_intercept, shared_mean, budget, door, advance=lambda: None, trace=None):
    d, k = users.n_features, rank
    shares = SHARES if shared_mean else {n: s for n, s in SHARES.items() if not n.startswith("mean")}
    mu = budget.split({name: share / sum(shares.values()) for name, share in shares.items()})
    popularity, groups = release_popularity(users, door, mu["features"])
    counts = door.release(sum_over_people(users, sparse_energy_counts, local_intercept).bounded("feature energy"), mu["scale"])
    first = densest_window(counts.value, counts.noise_std)
    energy = lower_edge(quantile_bin(counts.value[first : first + LOCATING_WIDTH], first, 0.5)) ** 2
    scales = 1 / np.sqrt(d * popularity)
    users = users.scaled(scales)
    shared = None
    none = np.zeros((d, 0))
    if shared_mean:
        shared = SharedMean(np.zeros(d), 0.0, 0)
        sums_from = partial(_sums, users, none, shared, local_intercept, False, local_intercept)
        edge = locate_sizes(sums_from, door, mu["mean locate"], "shared mean")
        for t in range(MEAN_ROUNDS):
            sums_from = partial(_sums, users, none, shared, local_intercept, False, local_intercept)
            gradient = release_clipped(sums_from, edge, door, mu["mean sizes"] / MEAN_ROUNDS**0.5, mu["mean rounds"] / MEAN_ROUNDS**0.5, f"shared mean, round {t + 1}")
            edge = gradient.edge
            step = shrunk(gradient.value[0][:d, None], gradient.noise_std, groups)[:, 0] / gradient.people
            intercept = shared.intercept + (float(gradient.value[0][d]) / gradient.people if local_intercept else 0.0)
            shared = SharedMean(shared.coef + step / energy, intercept, edge)
            if trace: trace(f"mean {t}", scales * shared.coef, shared.intercept, None, popularity)
    mean, intercept = (None, 0.0) if shared is None else (shared.coef, shared.intercept)
    popular = np.sort(np.argsort(-popularity)[:START_FEATURES])
    pairs = sum_over_people(users, pair_direction_sums, popular, mean, intercept, local_intercept)
    half = door.release(pairs.bounded("initial embedding"), mu["init"]).value
    U = np.zeros((d, k))
    U[popular] = np.linalg.eigh(from_symmetric_half(half, len(popular)))[1][:, -k:]
    if trace: trace("init", scales * shared.coef, shared.intercept, scales[:, None] * U, popularity)
    edge = locate_sizes(partial(_sums, users, U, shared, local_intercept, True, False), door, mu["locate"], "embedding")
    for t in range(N_ROUNDS):
        name = f"round {t + 1}"
        one = mu["sizes"] / N_ROUNDS**0.5, mu["rounds"] / N_ROUNDS**0.5
        if shared is not None and t % MEAN_EVERY == MEAN_EVERY - 1:
            gradient = release_clipped(partial(_sums, users, U, shared, local_intercept, False, False), shared.edge, door, *one, name)
            across = gradient.value[0] - U @ (U.T @ gradient.value[0])
            step = shrunk(across[:, None], gradient.noise_std, groups)[:, 0]
            shared = SharedMean(shared.coef + step / (gradient.people * energy), shared.intercept, gradient.edge)
        else:
            gradient = release_clipped(partial(_sums, users, U, shared, local_intercept, True, False), edge, door, *one, name)
            edge = gradient.edge
            G = gradient.value.T
            across = G - U @ (U.T @ G)
            U = np.linalg.qr(U + k / (gradient.people * energy) * shrunk(across, gradient.noise_std, groups))[0]
        if trace: trace(name, scales * shared.coef, shared.intercept, scales[:, None] * U, popularity)
        advance()
    if shared is not None:
        shared = SharedMean(scales * shared.coef, shared.intercept, shared.edge)
    return shared, np.ascontiguousarray(np.linalg.qr(scales[:, None] * U)[0])


def release_popularity(users, door, mu):
    released = door.release(sum_over_people(users, feature_share_sums).bounded("features"), mu)
    counts = np.maximum(released.value, 0.0) + FLOOR * released.noise_std
    popularity = counts / np.maximum(released.value, 0.0).sum()
    groups = np.round(np.log2(popularity)).astype(int)
    groups -= groups.min()
    return popularity, groups if GROUPED else 0 * groups


def shrunk(gradient, noise_std, groups):
    shares = np.array([signal_share(gradient[groups == g], noise_std, gradient[groups == g].size) if (groups == g).any() else 0.0 for g in range(groups.max() + 1)])
    return shares[groups][:, None] * gradient


def _sums(users, U, shared, centred, outer, with_intercept, lowest):
    mean, intercept = (None, 0.0) if shared is None else (shared.coef, shared.intercept)
    return sum_over_people(users, sparse_gradient_sums, U, mean, intercept, centred, outer, with_intercept, lowest)
