"""Private FedRep's default recipe, for dense and sparse rows alike: rounds on the likelihood of everybody's labels.

Person j's labels are y = w₀ᵀx + c + b_j + (Uᵀx)ᵀv_j + e, her own part (b_j, v_j) ~ N(0, S), e ~ N(0, s²). Released, in this
order: coordinates in which features vary alike; a level c of labels, or how many are yes; a first w₀; a first U, from
everybody's own direction; rounds that improve U, every fourth w₀; and, between them, looks at S and s² (``steps.prior``). In
rounds people's own parts are averaged out by their posterior, so real people, who answer little and noisily, give honest
gradients. U has the scale of people's coefficients; how long it is comes from S, a few numbers that are released far more
precisely than any direction.

**Guarantee.** Unit: a person, replaced by any other. What reads data passes the gate, at the shares of ``PLAN``: for dense rows
clipped profiles of feature scales (2C, with histograms of sizes, √2) and moments of features (√2), for sparse ones the sum of
people's feature shares (√2); histograms of numbers of rows, of feature and of label energies (√2 each); people's mean labels (a
histogram, √2, twice where the first hides them, else the clipped sum, 2C, twice) and, after all rounds, what the model leaves
of them (2C), or, of yes-or-no labels, everybody's shares of yes and no (√2) and what the model tells instead (2C); gradients of
w₀ and U (the same in each round, after one histogram that locates each); directions of people's own coefficients (√2); and for
each look at the prior, a sum of clipped moments (√2 C). All else is made of these. Of very many people a random part is enough
for scales, centre, moments and energies of features, for where sizes lie and for the prior, and for what rounds over everybody
will improve: the level, the first w₀ and U, the first rounds (``steps.some_people``). It costs as much as if everybody took
part.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.clipping.grid import nearest_edge
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.denoise.shrinkage import signal_share, sure_share
from commonground.denoise.spectra import visible_rank, without_single_features
from commonground.estimators.fedrep.compile_ahead import start_compiling
from commonground.estimators.fedrep.coordinates import Coordinates, release_coordinates
from commonground.estimators.fedrep.default_plan import (
    FIRST_ROUNDS,
    FitSettings,
    hardly_visible,
    later_rounds,
    learnable_rank,
    levels_only,
    plan_for,
)
from commonground.estimators.fedrep.first_model import release_first_model, release_last_level
from commonground.gate import Gate
from commonground.progress import progress_bar
from commonground.statistics.convex_gradients import SignedLabels
from commonground.statistics.posterior import PosteriorGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.initial_embedding import release_direction_moment, release_embedding_in_looks
from commonground.steps.label_units import LabelUnit
from commonground.steps.prior import (
    COMMON_LEVEL,
    EVEN_ODDS,
    FIRST_DOUBT,
    curvature_at,
    orthonormal,
    release_better_prior,
    with_directions,
    without_noise,
)
from commonground.steps.rounds import Clip, ClippedGradient, locate_sizes
from commonground.steps.rows import release_full_rows
from commonground.steps.some_people import some_people
from commonground.steps.yes_level import release_told_share, release_yes_share

EXPECTED_ROWS = 10  # of a person, where people are too few to see the sizes of their gradients
MEAN_EVERY = 4  # rounds: every fourth goes to w₀, whose residuals have shrunk with the embedding's error
LOOK_EVERY = 4  # rounds
# Relative error expected of the prior after rounds, whose noise lengthens weak directions.
DOUBT_AFTER_ROUNDS = 0.4
DOUBT_OF_REFIT = 0.1  # the same of an earlier board's prior
NEWTON_STEPS = 1.7  # length of a step, in steps of Newton's: clipped gradients are shorter than the likelihood's
MOST_OVERSHOOT = 1.25  # longest step along a direction, relative to the distance of the maximum along it
MOST_EXPLAINED = 1.0
IDLE = 1e-9  # of the noise of labels: the variance of coefficients about which nothing is learned
LOWEST_QUANTILE = 0.15  # of people's sizes: the clip after a round that was nothing but noise


def default_recipe(
    users: Population, asked: FitSettings, budget: Budget, gate: Gate, verbose: bool = False
) -> SharedModel:
    """The shared model, of labels or of log-odds, with the prior of heads and the noise of labels.

    Its phases: coordinates; level of labels and a first prior, or an earlier model; a first w₀; a first U; looks at the prior;
    rounds; the level at last. ``users`` are weighted by their budgets already; ``budget`` is that of the largest weight.
    """
    if not asked.log_odds:
        start_compiling(users)
    unit = LabelUnit() if asked.log_odds else LabelUnit.of(asked.label_range, with_level=asked.shared_intercept)
    start = None if asked.start is None else unit.of_model(asked.start)
    asked = replace(asked, label_range=unit.of_range(asked.label_range), start=start)
    return unit.as_labels(_recipe_in_unit(unit.seen_by(users), asked, budget, gate, verbose))


def _recipe_in_unit(users: Population, asked: FitSettings, budget: Budget, gate: Gate, verbose: bool) -> SharedModel:
    """The same for labels that are of a size near one, as far as is public."""
    looked_at, wanted = some_people(users, gate, budget.mu), asked.rank
    asked = replace(asked, rank=learnable_rank(users, asked, budget.mu))
    mu = plan_for(users, asked, budget.mu).costs(budget)
    if asked.log_odds:
        users, looked_at = users.seen_through(SignedLabels), looked_at.seen_through(SignedLabels)
    if levels_only(users, asked, budget.mu):
        yes = release_yes_share(users, gate, mu["yes share"]) if asked.log_odds else None
        return with_idle_directions(release_first_model(users, asked, yes, gate, mu)[0], wanted)
    with progress_bar("training", asked.expected_rounds, verbose) as advance:
        seen = release_coordinates(users, looked_at, asked.own_intercept, gate, mu)
        full_rows = release_full_rows(users, gate, mu["rows"]) if "rows" in mu else 1.0
        energy = release_feature_energy(seen.looked_at, False, gate, mu["scale"])
        yes = release_yes_share(seen.looked_at, gate, mu["yes share"]) if "yes share" in mu else None
        if asked.start is None:
            model, place = release_first_model(seen.looked_at, asked, yes, gate, mu)
        else:
            model, place = seen.from_features(asked.start), None
        # The likelihood's curvature for a row's worth of gradient, on average over features; log-odds bend less than labels.
        curvature = energy * (curvature_at(model.intercept) if asked.log_odds else 1.0)
        hidden_directions = hardly_visible(users, asked.rank, budget.mu)
        fit = Training(asked, seen, full_rows, energy, curvature, hidden_directions, gate, mu, advance)
        model, mean = fit.first_mean(model)
        if asked.rank == 0:
            model = fit.first_looks(model, "prior", FIRST_DOUBT)
        elif asked.start is None:
            model = fit.first_embedding(model)
        if model.rank:
            doubt = FIRST_DOUBT if asked.start is None else DOUBT_OF_REFIT
            model = fit.rounds(fit.first_looks(model, "prior of heads", doubt), mean)
        if yes is not None:
            model = release_told_share(seen.looked_at, model, yes, gate, mu["yes told"])
        elif "last level" in mu:
            model = release_last_level(seen.looked_at, model, place, energy, seen.centre_doubt, gate, mu["last level"])
    return with_idle_directions(orthonormal(seen.for_features(model)), wanted)


@dataclass(frozen=True)
class MeanSteps:
    """What a round of the mean leaves for the next one; all of it is public."""

    clip: Clip
    length: float = 1.0  # of the next step; shorter where rounds were seen to overshoot
    before: ClippedGradient | None = None  # of the last such round


@dataclass(frozen=True)
class RoundState:
    """What a round of the embedding or of the mean leaves for the next one; all of it is public."""

    model: SharedModel
    clip: Clip
    mean: MeanSteps | None  # None: there is no shared mean
    newton_steps: float = NEWTON_STEPS  # length of the next step; shorter where rounds were seen to overshoot
    before: ClippedGradient | None = None  # of the round before, if it was one of the embedding, of the same length


@dataclass(frozen=True)
class Training:
    """One fit after its first releases: whom it asks, what is known of their features, and what a release may cost.

    Its methods are the phases of the recipe, in the order in which it goes through them.
    """

    asked: FitSettings
    seen: Coordinates  # everybody, and the part of them that looks at a few numbers ask; features of one variance
    full_rows: float  # rows, from which on a person counts in full
    energy: float  # E x², the variance of a feature in these coordinates
    curvature: float  # by which a gradient of one person changes with the model
    hardly_visible: bool  # directions are, beside the noise
    gate: Gate
    mu: dict[str, float]  # name of a share → cost of one of its releases
    advance: Callable[[], None]  # of the progress bar, by one round

    @property
    def constant(self) -> float:
        """The entry of rows that stands for the intercept in gradients of the mean: as large as features; 0: there is none."""
        return self.energy**0.5 if self.asked.shared_intercept else 0.0

    @property
    def first_people(self) -> Population:
        """Whom first rounds ask, which later ones over everybody will improve: a part is enough of very many."""
        rounds_follow = self.asked.start is None and self.asked.rank != 0 and not self.asked.n_rounds
        return self.seen.looked_at if rounds_follow else self.seen.users

    def gradients(self, of_mean: bool, people: Population, model: SharedModel, lowest: int) -> BinnedSums:
        """The sum of people's gradients, of the mean or of the embedding, by bins of size from ``lowest`` on."""
        constant = self.constant if of_mean else 0.0
        return people.sum(PosteriorGradients(model, of_mean, constant, lowest, self.full_rows))

    def first_clip(self, of_mean: bool, model: SharedModel, name: str) -> Clip:
        """The clip of the first round, from where sizes of gradients lie; of few people, from where they are expected."""
        mu = self.mu.get("mean locate" if of_mean else "locate")
        if mu is None:
            left_of_labels = curvature_at(model.intercept) if model.log_odds else model.noise
            expected = self.energy * len(model.slopes) * left_of_labels / EXPECTED_ROWS
            return Clip(nearest_edge(expected**0.5))
        return Clip(locate_sizes(partial(self.gradients, of_mean, self.seen.looked_at, model), self.gate, mu, name))

    def look(self, model: SharedModel, mu: float, name: str, doubt: float) -> SharedModel:
        """The model with a better prior of people's own parts; ``doubt``: by how much it is expected to be off."""
        return release_better_prior(self.seen.looked_at, model, self.gate, mu, name, doubt)

    def first_mean(self, model: SharedModel) -> tuple[SharedModel, MeanSteps | None]:
        """The model with a first w₀, without directions, and how further rounds of it go on."""
        if not self.asked.shared_mean:
            return model, None
        steps = MeanSteps(self.first_clip(True, model, "shared mean"))
        for t in range(self.asked.first_mean_rounds):
            one_round = self.mu.get("mean sizes", 0.0), self.mu["mean rounds"]
            model, steps = self.better_mean(model, steps, self.first_people, one_round, f"shared mean, round {t + 1}")
            if t > 0:
                model = self.look(model, self.mu.get("prior", 0.0), f"prior, look {t}", FIRST_DOUBT)
            self.advance()
        return model, steps

    def first_embedding(self, model: SharedModel) -> SharedModel:
        """The model with the top-k eigenvectors of the released moment of everybody's own direction, on popular features.

        Without any where the rank is to be found and none stands out of the noise.
        """
        users, popular, rank = self.first_people, self.seen.popular, self.asked.rank
        bare = replace(_as_labels(model), spread=None)
        if self.hardly_visible and rank != "auto":
            found = release_embedding_in_looks(
                users, rank, bare, self.gate, self.mu["init"], popular, without_single_features
            )
        else:
            moment, noise_std = release_direction_moment(users, bare, self.gate, self.mu["init"], popular)
            if rank == "auto":
                rank = visible_rank(np.linalg.eigvalsh(moment), noise_std, users.total_weight)
            if not rank:
                return model
            found = np.linalg.eigh(without_single_features(moment, rank, noise_std))[1][:, -rank:]
        directions = np.zeros((users.n_features, rank))
        directions[popular] = found
        return with_directions(model, directions, self.energy * (EVEN_ODDS if self.asked.log_odds else 1.0))

    def first_looks(self, model: SharedModel, name: str, doubt: float) -> SharedModel:
        """The model with a better prior, before any round of the embedding."""
        for t in range(self.asked.looks_before_rounds):
            model = self.look(model, self.mu.get("prior", 0.0), f"{name}, look {t + 1}", doubt)
        return model

    def rounds(self, model: SharedModel, mean: MeanSteps | None) -> SharedModel:
        """The model after all rounds: so many as are asked for, or first ones, and then as many as these show to be worth it."""
        state = RoundState(model, self.first_clip(False, model, "embedding"), mean)
        if self.asked.n_rounds:
            return self.stage(state, range(self.asked.n_rounds), 1.0).model
        state = self.stage(state, range(FIRST_ROUNDS), 0.5)
        later = later_rounds(model.noise, state.model.noise, self.hardly_visible)
        return self.stage(state, range(FIRST_ROUNDS, FIRST_ROUNDS + later), 0.5).model

    def stage(self, state: RoundState, rounds: range, part: float) -> RoundState:
        """These rounds, with looks between them, for a ``part`` of what all rounds and all looks between them may cost."""
        of_all = (part / len(rounds)) ** 0.5
        one_round = self.mu.get("sizes", 0.0) * of_all, self.mu["rounds"] * of_all
        mu_look = self.mu["later prior"] * (part / -(-len(rounds) // LOOK_EVERY)) ** 0.5
        doubt = DOUBT_AFTER_ROUNDS if self.asked.start is None else DOUBT_OF_REFIT
        # The last of every four rounds is one of the mean; in a refit, where no rounds of the mean came before, the first.
        turn_of_mean = MEAN_EVERY - 1 if self.asked.start is None else 0
        for t in rounds:
            name = f"round {t + 1}"
            if self.asked.shared_mean and t % MEAN_EVERY == turn_of_mean:
                state = self.mean_round(state, one_round, name)
            else:
                people = self.first_people if t < FIRST_ROUNDS else self.seen.users
                state = self.embedding_round(state, people, one_round, name)
            self.advance()
            if t + 1 == rounds.stop or (t + 1) % LOOK_EVERY == 0:
                # The prior has another length of the embedding, so the next gradient says nothing about the step before.
                state = replace(
                    state, model=self.look(state.model, mu_look, f"{name}: prior of heads", doubt), before=None
                )
        return state

    def mean_round(self, state: RoundState, one_round: tuple[float, float], name: str) -> RoundState:
        """A better w₀ and level, from everybody."""
        assert state.mean is not None
        model, mean = self.better_mean(state.model, state.mean, self.seen.users, one_round, f"{name}, shared mean")
        return replace(state, model=model, mean=mean, before=None)

    def embedding_round(
        self, state: RoundState, people: Population, one_round: tuple[float, float], name: str
    ) -> RoundState:
        """A better U: a step along the part of the released gradient that is signal."""
        gradient = state.clip.release(partial(self.gradients, False, people, state.model), self.gate, *one_round, name)
        newton_steps = state.newton_steps * without_overshoot(state.before, gradient)
        U = state.model.embedding
        found = gradient.value.T if self.asked.start is None else _across(gradient.value.T, U)
        signal = self.seen.signal_in(found, gradient.noise_std, signal_share)
        step = newton_steps / (gradient.people * self.curvature) * signal
        # No step is longer than the embedding: what is so far off is noise, and looks at the prior tell the length.
        step_norm, longest = float(np.linalg.norm(step)), float(np.linalg.norm(U))
        step = step * (longest / step_norm) if step_norm > longest else step
        model = replace(state.model, embedding=np.ascontiguousarray(U + step))
        return replace(
            state, model=model, clip=gradient.next_clip(LOWEST_QUANTILE), newton_steps=newton_steps, before=gradient
        )

    def better_mean(
        self, model: SharedModel, last: MeanSteps, people: Population, one_round: tuple[float, float], name: str
    ) -> tuple[SharedModel, MeanSteps]:
        """The model one step on along w₀ and, where the gradient has an entry for it, the level."""
        gradient = last.clip.release(partial(self.gradients, True, people, model), self.gate, *one_round, name)
        length = last.length * without_overshoot(last.before, gradient)
        steps = MeanSteps(gradient.next_clip(LOWEST_QUANTILE), length, gradient)
        return self._after_step(model, gradient, length), steps

    def _after_step(self, model: SharedModel, gradient: ClippedGradient, length: float) -> SharedModel:
        d = len(model.slopes)
        worth = gradient.people * self.curvature
        # All slopes together explain no more than labels vary: what noise hides at that size is not believed.
        noise = 1.0 / EVEN_ODDS if model.log_odds else model.noise
        explained, hidden = MOST_EXPLAINED * noise / self.energy, d * (gradient.noise_std / worth) ** 2
        step = self.seen.signal_in(gradient.value[0, :d], gradient.noise_std, sure_share) * length / worth
        model = replace(model, coef=model.slopes + step * explained / (explained + hidden))
        if not self.asked.shared_intercept:
            return model
        assert model.spread is not None
        per_value = self.constant / worth
        off = per_value * gradient.value[0, d:]
        expected = COMMON_LEVEL * float(model.spread[0, 0]) ** 0.5
        moved = without_noise(off, np.full(1, (per_value * gradient.noise_std) ** 2), expected)
        return replace(model, intercept=model.intercept + float(moved[0]))


def without_overshoot(before: ClippedGradient | None, after: ClippedGradient) -> float:
    """What to shorten steps by, from two released gradients in a row.

    Along a direction whose curvature is h times what steps take for granted, a step s leaves (1 − sh) of a gradient. Where
    features still vary more in some directions than in others, sh may be above 2 there: then rounds climb instead.
    """
    if before is None:
        return 1.0
    first, second = before.value / before.people, after.value / after.people
    # Noise makes what is left smaller, whether it is above or below zero.
    left = float(np.vdot(first, second)) / max(float(np.vdot(first, first)), 1e-300)
    return min(1.0, MOST_OVERSHOOT / (1.0 - left)) if left < 0.0 else 1.0


def with_idle_directions(model: SharedModel, rank: int | Literal["auto"]) -> SharedModel:
    """The model with as many directions as were asked for: on further ones everybody's coefficients are next to zero."""
    assert model.spread is not None
    if rank == "auto" or model.rank >= rank:
        return model
    (d, k), known = model.embedding.shape, len(model.spread)
    directions = np.linalg.qr(np.column_stack([model.embedding, np.eye(d, rank)]))[0][:, k:rank]
    spread = IDLE * model.noise * np.eye(known + rank - k)
    spread[:known, :known] = model.spread
    return replace(model, embedding=np.column_stack([model.embedding, directions]), spread=spread)


def _as_labels(model: SharedModel) -> SharedModel:
    """A model of log-odds as one of labels ±1, to first order."""
    if not model.log_odds:
        return model
    slope = 2.0 * curvature_at(model.intercept)
    return replace(model, coef=slope * model.slopes, intercept=float(np.tanh(model.intercept / 2)), log_odds=False)


def _across(gradient: np.ndarray, U: np.ndarray) -> np.ndarray:
    """The part of a gradient across the span of an earlier embedding, whose scale that board's looks have told well."""
    Q = np.linalg.qr(U)[0]
    return np.asarray(gradient - Q @ (Q.T @ gradient))
