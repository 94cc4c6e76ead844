"""Private FedRep's default recipe, for dense and sparse rows alike: rounds on the likelihood of everybody's labels.

Person j's labels are y = w₀ᵀx + c + b_j + (Uᵀx)ᵀv_j + e, her own part (b_j, v_j) ~ N(0, S), e ~ N(0, s²). Released, in this
order: coordinates in which features vary alike; a level c of labels; a first w₀; a first U, from everybody's own direction;
rounds that improve U, every fourth w₀; and, between them, looks at S and s² (``steps.prior``). In rounds people's own parts are
averaged out by their posterior, so real people, who answer little and noisily, give honest gradients. U has the scale of people's
coefficients; how long it is comes from S, a few numbers that are released far more precisely than any direction.

**Guarantee.** Unit: a person, replaced by any other. What reads data passes the gate, at the shares of ``PLAN``: for dense rows
clipped profiles of feature scales (2C, with histograms of sizes, √2) and moments of features (√2), for sparse ones the sum of
people's feature shares (√2); histograms of numbers of rows, of feature and of label energies (√2 each); people's mean labels
(a histogram, √2, and the clipped sum, 2C, twice); gradients of w₀ and U (the same in each round, after one histogram that locates
each); directions of people's own coefficients (√2); and for each look at the prior, a sum of clipped moments (√2 C). All else is
made of these. Of very many people a random part is enough for scales, centre, moments and energies of features, for where
sizes lie and for the prior, and for what rounds over everybody will improve: the level, the first w₀ and U, the first rounds
(``steps.some_people``). It costs as much as if everybody took part.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import BinnedSums, from_symmetric_half
from commonground.data.population import Population
from commonground.denoise.shrinkage import signal_share, sure_share
from commonground.denoise.spectra import visible_rank, without_single_features
from commonground.estimators.fedrep.coordinates import Coordinates, plan_of_coordinates, release_coordinates
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.convex_gradients import SignedLabels
from commonground.statistics.directions import Directions
from commonground.statistics.labels import LabelMeans
from commonground.statistics.posterior import PosteriorGradients
from commonground.statistics.sparse_features import SparseDirections
from commonground.statistics.statistic import SharedModel
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.prior import (
    FIRST_DOUBT,
    curvature_at,
    first_prior,
    orthonormal,
    release_better_prior,
    with_directions,
    with_weak_log_odds,
)
from commonground.steps.rounds import FIRST_QUANTILE, ClippedGradient, locate_sizes, release_clipped
from commonground.steps.rows import release_full_rows, rows_are_seen
from commonground.steps.some_people import share_looked_at, some_people

FIRST_ROUNDS, FEWEST_LATER, MOST_LATER = 4, 3, 14
MEAN_ROUNDS = 3  # for a first w₀, before there is an embedding
MEAN_EVERY = 4  # later on, every fourth round goes to w₀, whose residuals have shrunk with the embedding's error
LEVEL_ROUNDS = 2
LEVEL_DOUBT = 2.0  # what noise hides of a level may be somewhat more than its variance
LEVEL_SEEN = 17.0  # n μ of one release, from which on a level and a spread of labels are seen; a few people pay more
MOST_FOR_LEVEL = 40.0  # times what many people pay
ALL_HIDDEN = 30.0  # n μ of the whole budget, below which noise hides nearly all: people then rest on their own means
HIDDEN_SHARE = 0.01  # of the variance of people's own directions that is left then
NO_LEVEL, NO_LOG_ODDS = 100.0, 4.0  # room for own intercepts then, against the labels' variance; of log-odds, as it is
LOOKS_AT_START = 2  # at the prior, once there are directions
LOOKS_AT_OLD = 1  # at the prior of an earlier board, before its rounds
ROUNDS_DOUBT = 0.4  # by how much the prior is expected to be off after rounds, whose noise lengthens weak directions
OLD_DOUBT = 0.1  # by how much that is expected to be off, unless it stands out
LOOK_EVERY = 4  # rounds
STEP = 1.7  # of a Newton step on the likelihood: clipping takes more from those who say more
LONGEST_STEP = 1.25  # that a gradient and the one after it may tell of, against the way to the bottom of their valley
LOW_QUANTILE = 0.15  # of people's sizes, where rounds clip that are all noise
_LIKELIEST = 0.02, 0.98  # shares of yes beyond which a level of labels is not believed
PLAN = Plan(
    (
        Share("features", 0.03, "how often each feature occurs (sparse rows)"),
        Share("scales", 0.006, "scales of features, against each other (dense rows)"),
        Share("centre locate", 0.003, "where features lie (dense rows, own intercepts): one histogram"),
        Share("centre sizes", 0.003, "a histogram that chooses the clip of the centre"),
        Share("centre", 0.02, "clipped sums of people's mean rows"),
        Share("correlations", 0.06, "moments of features; less where less is enough (dense rows)"),
        Share("rows", 0.004, "from how many rows on a person counts in full: one number"),
        Share("first scale", 0.004, "how large features are, before they are centred: one number (many people)"),
        Share("scale", 0.004, "how large features are: one number"),
        Share("level locate", 0.003, "where people's mean labels lie on the whole grid: one histogram"),
        Share("level sizes", 0.003, "a histogram that chooses the clip of mean labels", LEVEL_ROUNDS),
        Share("level", 0.01, "clipped sums of people's mean labels", LEVEL_ROUNDS),
        Share("spread", 0.004, "how far labels spread: one number"),
        Share("mean locate", 0.004, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.008, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.12, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share("init", 0.27, "a first embedding, from everybody's own direction"),
        Share("prior", 0.03, "first looks at the prior of people's own parts", MEAN_ROUNDS - 1 + LOOKS_AT_START),
        Share("locate", 0.005, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.02, "a histogram that chooses each round's clip, all rounds together"),
        Share("rounds", 0.5, "clipped gradient sums for the embedding, every fourth for the mean; all rounds together"),
        Share("later prior", 0.06, "looks at the prior between rounds; all together"),
    )
)


def default_recipe(
    users: Population, rank: int | Literal["auto"], own_intercept: bool, shared_mean: bool, log_odds: bool,
    n_rounds: int | None, budget: Budget, gate: Gate, verbose: bool, start: SharedModel | None = None,
) -> SharedModel:  # fmt: skip
    """The shared model, of labels or of ``log_odds``, with the prior of heads and the noise of labels.

    ``start``: an earlier one, of the same parts and with a spread, in place of first estimates. Its rounds begin with the mean.
    """
    looked_at = some_people(users, gate, budget.mu)
    plan = plan_for(users, rank, own_intercept, shared_mean, log_odds, budget.mu, start is not None)
    if log_odds:
        users, looked_at = users.seen_through(SignedLabels), looked_at.seen_through(SignedLabels)
    mu = plan.costs(budget)
    expected = 0 if rank == 0 else n_rounds or FIRST_ROUNDS + FEWEST_LATER
    with progress_bar("training", expected + (MEAN_ROUNDS if shared_mean else 0), verbose) as advance:
        seen = release_coordinates(users, looked_at, own_intercept, gate, mu)
        full_rows = release_full_rows(users, gate, mu["rows"]) if "rows" in mu else 1.0
        users, looked_at, d = seen.users, seen.looked_at, users.n_features
        energy = release_feature_energy(looked_at, False, gate, mu["scale"])
        model = SharedModel(np.zeros((d, 0)), np.zeros(d) if shared_mean else None, 0.0, own_intercept)
        hidden, unknown = False, 0.0  # is nearly all; the variance of what is not known of the level
        # As large as the features, which vary alike here.
        constant = energy**0.5 if shared_mean and own_intercept else 0.0
        if start is not None:
            model = seen.from_features(start)
        else:
            if constant:
                model, unknown = _release_level(looked_at, model, gate, mu)
            model = _as_log_odds(model) if log_odds else first_prior(users, model, gate, mu["spread"])
            model = _with_unknown_level(model, unknown)
            if constant and users.total_weight * budget.mu < ALL_HIDDEN:
                hidden, unknown = True, NO_LOG_ODDS if log_odds else NO_LEVEL * (model.noise + unknown)
        # A step of a person's gradient, one row's worth, that leads as far as the error; log-odds bend less than labels.
        curvature = energy * (curvature_at(model.intercept) if log_odds else 1.0)
        mean_edge, mean_quantile, quantile = 0, FIRST_QUANTILE, FIRST_QUANTILE
        # What rounds over everybody will improve is begun on those looked at.
        first_users = users if start is not None or rank == 0 or n_rounds else looked_at
        if shared_mean:
            gradients = partial(_gradients, first_users, full_rows, True, constant)
            where = partial(_gradients, looked_at, full_rows, True, constant, model)
            mean_edge = locate_sizes(where, gate, mu["mean locate"], "shared mean")
            for t in range(MEAN_ROUNDS if start is None or rank == 0 else 0):
                name = f"shared mean, round {t + 1}"
                one_round = mu["mean sizes"], mu["mean rounds"]
                gradient = release_clipped(partial(gradients, model), mean_edge, gate, *one_round, name, mean_quantile)
                model, mean_edge = _better_mean(seen, model, gradient, curvature, constant), gradient.edge
                mean_quantile = gradient.next_quantile(LOW_QUANTILE)
                if t > 0:
                    model = release_better_prior(
                        looked_at, model, gate, mu.get("prior", 0.0), f"prior, look {t}", FIRST_DOUBT
                    )
                advance()
        if rank == 0:
            for t in range(0 if shared_mean else LOOKS_AT_START):
                model = release_better_prior(
                    looked_at, model, gate, mu.get("prior", 0.0), f"prior, look {t + 1}", FIRST_DOUBT
                )
            return _finished(seen, model, unknown, hidden)
        if start is None:
            directions = _initial_embedding(first_users, seen.popular, rank, model, gate, mu["init"])
            if directions.shape[1] == 0:
                return _finished(seen, model, unknown, hidden)
            model = with_directions(model, directions, curvature)
        for t in range(LOOKS_AT_START if start is None else LOOKS_AT_OLD):
            doubt = FIRST_DOUBT if start is None else OLD_DOUBT
            model = release_better_prior(looked_at, model, gate, mu["prior"], f"prior of heads, look {t + 1}", doubt)
        where = partial(_gradients, looked_at, full_rows, False, 0.0, model)
        edge = locate_sizes(where, gate, mu["locate"], "embedding")
        noise_before, last, t = model.noise, n_rounds or FIRST_ROUNDS, 0
        newton, before = STEP, None
        while t < last:
            name = f"round {t + 1}"
            part = 1.0 if n_rounds else 0.5  # first rounds have half of what all of them may cost
            of_all = (part / (last if n_rounds or t < FIRST_ROUNDS else last - FIRST_ROUNDS)) ** 0.5
            one_round = mu["sizes"] * of_all, mu["rounds"] * of_all
            if shared_mean and t % MEAN_EVERY == (MEAN_EVERY - 1 if start is None else 0):
                of_mean = partial(_gradients, users, full_rows, True, constant, model)
                gradient = release_clipped(of_mean, mean_edge, gate, *one_round, f"{name}, shared mean", mean_quantile)
                model, mean_edge = _better_mean(seen, model, gradient, curvature, constant), gradient.edge
                mean_quantile, before = gradient.next_quantile(LOW_QUANTILE), None
            else:
                asked = first_users if t < FIRST_ROUNDS else users
                of_embedding = partial(_gradients, asked, full_rows, False, 0.0, model)
                gradient = release_clipped(of_embedding, edge, gate, *one_round, name, quantile)
                edge, quantile = gradient.edge, gradient.next_quantile(LOW_QUANTILE)
                newton *= _not_beyond_the_valley(before, gradient)
                before = gradient
                found = gradient.value.T if start is None else _across(gradient.value.T, model.embedding)
                step = newton / (gradient.people * curvature) * seen.signal_in(found, gradient.noise_std, signal_share)
                # No step is longer than the embedding: what is so far off is noise, and looks at the prior tell the length.
                length, longest = float(np.linalg.norm(step)), float(np.linalg.norm(model.embedding))
                step = step * (longest / length) if length > longest else step
                model = replace(model, embedding=np.ascontiguousarray(model.embedding + step))
            t += 1
            advance()
            if t == last or t % LOOK_EVERY == 0:
                in_this_part = last if n_rounds or t <= FIRST_ROUNDS else last - FIRST_ROUNDS
                mu_look = mu["later prior"] * (part / -(-in_this_part // LOOK_EVERY)) ** 0.5
                doubt = ROUNDS_DOUBT if start is None else OLD_DOUBT
                model = release_better_prior(looked_at, model, gate, mu_look, f"{name}: prior of heads", doubt)
                before = None  # another length of the embedding, another gradient
            if not n_rounds and t == last == FIRST_ROUNDS:
                last += later_rounds(noise_before, model.noise)
    return _finished(seen, model, unknown, hidden)


def _finished(seen: Coordinates, model: SharedModel, unknown: float, hidden: bool) -> SharedModel:
    """The model of features as they are; where noise has ``hidden`` nearly all, a level to begin with and little more."""
    if hidden:
        U, slopes = model.embedding, None if model.coef is None else np.zeros_like(model.coef)
        model = replace(model, embedding=HIDDEN_SHARE**0.5 * U, coef=slopes)
    return orthonormal(seen.for_features(_with_unknown_level(model, unknown)))


def plan_for(
    users: Population, rank: int | Literal["auto"], own_intercept: bool, shared_mean: bool, log_odds: bool, mu: float,
    started: bool = False,
) -> Plan:  # fmt: skip
    """What each release may cost, from public numbers; with an earlier board, first estimates cost nothing."""
    plan = PLAN.without("spread") if log_odds or started else PLAN
    plan = plan_of_coordinates(plan, users, own_intercept, mu, share_looked_at(users, mu) * users.total_weight)
    seen = (LEVEL_SEEN / (users.total_weight * mu)) ** 2
    for share in plan:
        if share.name in {"scale", "spread", "level locate", "level sizes", "level"}:
            plan = plan.where(share.name, part=share.part * min(max(seen / share.part, 1.0), MOST_FOR_LEVEL))
    of_rows = next(share.part for share in PLAN if share.name == "rows")
    plan = plan if rows_are_seen(users.total_weight, mu * of_rows**0.5) else plan.without("rows")
    looks = (MEAN_ROUNDS - 1) * (shared_mean and own_intercept)  # before there are directions: at own intercepts alone
    looks += LOOKS_AT_START if rank != 0 or (own_intercept and not shared_mean) else 0
    plan = plan.where("prior", repeats=looks) if looks else plan.without("prior")
    plan = plan if shared_mean else plan.without("mean")
    plan = plan if shared_mean and own_intercept and not started else plan.without("level")
    if started and rank != 0:
        plan = plan.without("init").without("mean sizes").without("mean rounds").where("prior", repeats=LOOKS_AT_OLD)
    if rank == 0:
        plan = plan.without("init").without("locate").without("sizes").without("rounds").without("later")
        return plan.where("mean rounds", part=0.7) if shared_mean else plan
    return plan


def later_rounds(noise_before: float, noise_now: float) -> int:
    """How many rounds are worth it after the first ones, from what is released: the more, the more they have found.

    Where labels are mostly noise, their noise has hardly fallen; few rounds are then enough, and each of them tells more.
    """
    halvings = max(0.0, np.log2(noise_before / noise_now))
    return int(np.clip(round(FEWEST_LATER + 5.0 * halvings), FEWEST_LATER, MOST_LATER))


def _release_level(
    users: Population, model: SharedModel, gate: Gate, mu: dict[str, float]
) -> tuple[SharedModel, float]:
    """The model with the middle of people's mean labels as its intercept; and the variance of what noise leaves unknown of it."""

    def sums_from(model: SharedModel, lowest: int) -> BinnedSums:
        return users.sum(LabelMeans(model, lowest))

    edge = locate_sizes(partial(sums_from, model), gate, mu["level locate"], "level of labels")
    for t in range(LEVEL_ROUNDS):
        one_round = mu["level sizes"], mu["level"]
        found = release_clipped(partial(sums_from, model), edge, gate, *one_round, f"level of labels {t + 1}")
        share = signal_share(found.value, found.noise_std, 1)
        level = model.intercept + share * float(found.value[0, 0]) / found.people
        model, edge = replace(model, intercept=level), found.edge
    unknown = LEVEL_DOUBT * (found.noise_std / found.people) ** 2
    if users.total_weight * mu["level"] < LEVEL_SEEN:  # not even where it lies is known: as much as one person may say
        unknown += lower_edge(found.edge) ** 2
    return model, unknown


def _with_unknown_level(model: SharedModel, variance: float) -> SharedModel:
    """The model whose own intercepts have room for what is not known of the level: then everybody's own mean tells it."""
    if not (model.own_intercept and variance > 0.0):
        return model
    assert model.spread is not None
    spread = model.spread.copy()
    spread[0, 0] += variance / (curvature_at(model.intercept) * 4) ** 2 if model.log_odds else variance
    return replace(model, spread=spread)


def _as_log_odds(model: SharedModel) -> SharedModel:
    """A model of mean labels ±1 as one of log-odds, with a weak prior."""
    yes = float(np.clip((1.0 + model.intercept) / 2, *_LIKELIEST))
    return with_weak_log_odds(replace(model, intercept=float(np.log(yes / (1.0 - yes))), log_odds=True))


def _as_labels(model: SharedModel) -> SharedModel:
    """A model of log-odds as one of labels ±1, to first order."""
    if not model.log_odds:
        return model
    slope = 2.0 * curvature_at(model.intercept)
    return replace(model, coef=slope * model.slopes, intercept=float(np.tanh(model.intercept / 2)), log_odds=False)


def _initial_embedding(
    users: Population, popular: np.ndarray, rank: int | Literal["auto"], model: SharedModel, gate: Gate, mu: float
) -> np.ndarray:
    """The top-k eigenvectors of the released moment of everybody's own direction, on popular features; zero on others."""
    bare, size = replace(_as_labels(model), spread=None), len(popular)
    asked = SparseDirections(bare, popular) if users.sparse else Directions(bare)
    released = gate.release(users.sum(asked).bounded("initial embedding"), mu)
    moment = from_symmetric_half(released.value, size)
    if isinstance(rank, str):
        rank = visible_rank(np.linalg.eigvalsh(moment), released.noise_std, users.total_weight)
    U = np.zeros((users.n_features, rank))
    if rank:
        U[popular] = np.linalg.eigh(without_single_features(moment, rank, released.noise_std))[1][:, -rank:]
    return U


def _better_mean(
    seen: Coordinates, model: SharedModel, gradient: ClippedGradient, curvature: float, constant: float
) -> SharedModel:
    """One step on w₀, and on the intercept where the gradient has an entry for it, of size ``constant``."""
    d = len(model.slopes)
    step = seen.signal_in(gradient.value[0, :d], gradient.noise_std, sure_share) / (gradient.people * curvature)
    last = gradient.value[0, d:]
    share = sure_share(last, gradient.noise_std, 1) if constant else 0.0
    level = share * float(last.sum()) * constant / (gradient.people * curvature) if constant else 0.0
    return replace(model, coef=model.slopes + step, intercept=model.intercept + level)


def _not_beyond_the_valley(before: ClippedGradient | None, now: ClippedGradient) -> float:
    """What to shorten steps by, from two released gradients in a row.

    Along a direction whose curvature is h times what steps take for granted, a step s leaves (1 − sh) of a gradient. Where
    features still vary more in some directions than in others, sh may be above 2 there: then rounds climb instead.
    """
    if before is None:
        return 1.0
    first, second = before.value / before.people, now.value / now.people
    left = float(np.vdot(first, second)) / max(
        float(np.vdot(first, first)), 1e-300
    )  # noise makes it smaller, either way
    return min(1.0, LONGEST_STEP / (1.0 - left)) if left < 0.0 else 1.0


def _across(gradient: np.ndarray, U: np.ndarray) -> np.ndarray:
    """What turns an old embedding, less what would only stretch it: its scale is known from many people's looks, to be kept."""
    Q = np.linalg.qr(U)[0]
    return np.asarray(gradient - Q @ (Q.T @ gradient))


def _gradients(
    users: Population, full_rows: float, of_mean: bool, constant: float, model: SharedModel, lowest: int
) -> BinnedSums:
    return users.sum(PosteriorGradients(model, of_mean, constant, lowest, full_rows))
