"""What the default recipe is asked for, and what each of its releases may cost: shares of the budget, from public numbers."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from commonground.accounting.plan import Plan, Share
from commonground.data.population import Population
from commonground.defaults import FEDREP_ROUNDS
from commonground.estimators.fedrep.coordinates import START_FEATURES, plan_of_coordinates
from commonground.estimators.fedrep.few_people import SHARING_PAYS_FROM, information
from commonground.statistics.statistic import SharedModel
from commonground.steps.rows import rows_are_seen
from commonground.steps.some_people import share_looked_at

MEAN_ROUNDS = 3  # for a first w₀, before there is an embedding
LEVEL_ROUNDS = 2
LOOKS_AT_LEVELS = 3  # at the prior of own intercepts, before anything else is learned of few people
LOOKS_BEFORE_ROUNDS = 2  # at the prior, once there are directions
LOOKS_OF_REFIT = 1  # the same in a refit, which begins with an earlier board's prior
# n μ of one release, from which on it is of use: few people pay more for these, and less for all else. A level of labels that is
# off is the largest part of the error of few people. Chosen on simulated tables of 500 to 3,000 people.
VISIBLE_FROM = {
    "scale": 17.0, "level place": 16.0, "level": 9.0, "last level": 9.0, "spread": 10.0, "level prior": 8.0,
    "yes share": 40.0, "yes told": 20.0,
}  # fmt: skip
# n μ of a histogram of gradient sizes; with less, they are clipped where they are expected to be.
SIZES_SEEN_FROM = 10.0
FEW_BELOW = 300.0  # n μ of the whole budget, below which the prior of own intercepts is looked at first
LEVELS_ONLY_BELOW = 30.0  # the same, below which noise hides nearly all but where labels lie and how far they spread
LEVELS = "level place", "level", "spread", "level prior", "yes share"
MOST_FOR_VISIBLE = 0.6
FIRST_ROUNDS = 4
FEWEST_LATER_ROUNDS, MOST_LATER_ROUNDS = (rounds - FIRST_ROUNDS for rounds in FEDREP_ROUNDS)
# few_people.information, below which noise hides most of what people share: then a first embedding in several looks finds more of
# it, and one later round of more budget brings as much as three. Of few features there is little to leave out of a later look.
# Chosen on simulated ratings and half of Jester's people; that few features lose by it was seen on the survey's and the bank's.
HARDLY_VISIBLE_BELOW, FEWEST_FEATURES_FOR_LOOKS = 200.0, 40
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
        Share("spread", 0.004, "how far labels spread: one number"),
        Share("level place", 0.006, "where people's mean labels lie: one histogram"),
        Share("level", 0.01, "clipped sums of people's mean labels", LEVEL_ROUNDS),
        Share("yes share", 0.02, "how many answers are yes (log-odds)"),
        Share("level prior", 0.004, "looks at the prior of own intercepts (few people)", LOOKS_AT_LEVELS),
        Share("mean locate", 0.004, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.008, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.12, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share(
            "init", 0.27, "a first embedding, from everybody's own direction; in three looks where it is hardly visible"
        ),
        Share("prior", 0.03, "first looks at the prior of people's own parts", MEAN_ROUNDS - 1 + LOOKS_BEFORE_ROUNDS),
        Share("locate", 0.005, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.02, "a histogram that chooses each round's clip, all rounds together"),
        Share("rounds", 0.5, "clipped gradient sums for the embedding, every fourth for the mean; all rounds together"),
        Share("later prior", 0.06, "looks at the prior between rounds; all together"),
        Share("last level", 0.005, "a clipped sum of what the model leaves of people's labels"),
        Share("yes told", 0.01, "how often the model tells people yes: a clipped sum (log-odds)"),
    )
)


@dataclass(frozen=True)
class FitSettings:
    """The shared model that a fit is asked for. All of it is public."""

    rank: int | Literal["auto"]  # directions; "auto": as many as stand out of the noise of the first embedding
    own_intercept: bool = True
    shared_mean: bool = True
    log_odds: bool = False  # labels are yes or no, and the model tells the log-odds of yes
    label_range: tuple[float, float] | None = None  # public: all labels are within it
    n_rounds: int | None = None  # for embedding and mean together; None: as many as the first ones show to be worth it
    start: SharedModel | None = None  # an earlier model with the same parts and a spread, in place of first estimates

    @property
    def shared_intercept(self) -> bool:
        """Whether the level of labels is learned: it is part of a shared mean whose people have intercepts of their own."""
        return self.shared_mean and self.own_intercept

    @property
    def first_mean_rounds(self) -> int:
        """Rounds for w₀ before there is an embedding. In a refit rounds of the embedding begin with the mean."""
        return MEAN_ROUNDS if self.shared_mean and (self.start is None or self.rank == 0) else 0

    @property
    def looks_before_rounds(self) -> int:
        """Looks at the prior after those rounds; without directions, rounds of the mean have had them."""
        if self.rank == 0:
            return 0 if self.shared_mean else LOOKS_BEFORE_ROUNDS
        return LOOKS_BEFORE_ROUNDS if self.start is None else LOOKS_OF_REFIT

    @property
    def first_looks(self) -> int:
        """All looks before rounds of the embedding, after rounds of the mean but the first, too; none at parts nobody has."""
        after_mean_rounds = max(self.first_mean_rounds - 1, 0) * self.own_intercept
        return after_mean_rounds + self.looks_before_rounds * (self.own_intercept or self.rank != 0)

    @property
    def expected_rounds(self) -> int:
        """All rounds, as far as they are known before the first."""
        of_embedding = 0 if self.rank == 0 else self.n_rounds or FIRST_ROUNDS + FEWEST_LATER_ROUNDS
        return of_embedding + (MEAN_ROUNDS if self.shared_mean else 0)


def plan_for(users: Population, asked: FitSettings, mu: float) -> Plan:
    """The shares of one fit, whose whole budget is ``mu``: ``PLAN`` without what such a fit does not release."""
    refit = asked.start is not None
    if levels_only(users, asked, mu):
        return _plan_for_levels(asked)
    plan = for_labels(PLAN, asked.log_odds)
    plan = plan.without("spread") if refit else plan
    few = users.total_weight * mu < FEW_BELOW
    looks_at_levels = asked.shared_intercept and not refit and few
    plan = plan if looks_at_levels else plan.without("level prior")
    plan = plan_of_coordinates(plan, users, asked.own_intercept, mu, share_looked_at(users, mu) * users.total_weight)
    of_rows = next(share.part for share in PLAN if share.name == "rows")
    plan = plan if rows_are_seen(users.total_weight, mu * of_rows**0.5) else plan.without("rows")
    looks = asked.first_looks
    plan = plan.where("prior", repeats=looks) if looks else plan.without("prior")
    plan = plan if asked.shared_mean else plan.without("mean")
    plan = plan if asked.shared_intercept and not refit else plan.without("level")
    plan = plan if asked.shared_intercept else plan.without("last level").without("yes")
    if refit and asked.rank != 0:
        plan = plan.without("init").without("mean sizes").without("mean rounds")
    if asked.rank == 0:
        plan = plan.without("init").without("locate").without("sizes").without("rounds").without("later")
        plan = plan.where("mean rounds", part=0.7) if asked.shared_mean else plan
    reach = users.total_weight * mu
    needed = {
        each.name: each.repeats * (VISIBLE_FROM[each.name] / reach) ** 2 for each in plan if each.name in VISIBLE_FROM
    }
    return _without_hidden_sizes(plan.with_at_least(needed, MOST_FOR_VISIBLE), reach, asked.expected_rounds)


def _without_hidden_sizes(plan: Plan, reach: float, rounds: int) -> Plan:
    """The plan without histograms of gradient sizes in which noise would hide people; ``reach``: n μ of the whole budget."""
    parts = plan.fractions()
    for sizes, place, times in (("mean sizes", "mean locate", MEAN_ROUNDS), ("sizes", "locate", rounds)):
        if sizes in parts and reach * (parts[sizes] / times) ** 0.5 < SIZES_SEEN_FROM:
            plan = plan.without(sizes).without(place)
    return plan


def levels_only(users: Population, asked: FitSettings, mu: float) -> bool:
    """Whether all that can be learned is where labels lie and how far they spread; from public numbers."""
    return asked.shared_intercept and asked.start is None and users.total_weight * mu < LEVELS_ONLY_BELOW


def _plan_for_levels(asked: FitSettings) -> Plan:
    levels = (
        replace(share, part=share.repeats * VISIBLE_FROM[share.name] ** 2) for share in PLAN if share.name in LEVELS
    )
    return for_labels(Plan(tuple(levels)), asked.log_odds)


def for_labels(plan: Plan, log_odds: bool) -> Plan:
    """The plan without what is asked of labels of the other kind: numbers have a place and a spread, answers are yes or no."""
    others = ("spread", "level place", "level", "last level") if log_odds else ("yes share", "yes told")
    return Plan(tuple(share for share in plan if share.name not in others))


def learnable_rank(users: Population, asked: FitSettings, mu: float) -> int | Literal["auto"]:
    """As many of the directions that are asked for as people are enough for; from public numbers.

    One at least where nothing else is learned.
    """
    if asked.rank == "auto" or asked.start is not None:
        return asked.rank
    people, d = users.total_weight, users.n_features
    d = min(d, START_FEATURES) if users.sparse else d  # directions are first looked for on popular ones
    enough = (k for k in range(asked.rank, 0, -1) if information(people, d, k, mu) >= SHARING_PAYS_FROM)
    return next(enough, 0 if asked.shared_mean or asked.own_intercept else 1)


def hardly_visible(users: Population, rank: int | Literal["auto"], mu: float) -> bool:
    """Whether shared directions are, with a whole budget ``mu``; from public numbers."""
    if rank == "auto" or rank == 0 or users.n_features < FEWEST_FEATURES_FOR_LOOKS:
        return False
    return information(users.total_weight, users.n_features, rank, mu) < HARDLY_VISIBLE_BELOW


def later_rounds(noise_before: float, noise_now: float, hardly_visible: bool) -> int:
    """How many rounds are worth it after the first ones, from released variances of labels' noise before and after these.

    Where labels are mostly noise, it has hardly fallen; few rounds are then enough, and each of them gets more of the budget.
    """
    halvings = max(0.0, np.log2(noise_before / noise_now))
    fewest = 1 if hardly_visible else FEWEST_LATER_ROUNDS
    return int(np.clip(round(fewest + 5.0 * halvings), fewest, MOST_LATER_ROUNDS))
