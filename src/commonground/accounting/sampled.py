"""Poisson-sampled Gaussian releases (DP-SGD), composed by dp-accounting's privacy-loss distributions.

In each step every unit (a record, or a user with all of her records) is drawn with probability q, independently; the drawn
units' contributions, each of norm at most C, are added up and noise of standard deviation σ = noise_multiplier · C is added.
What a step costs depends on who is a neighbour:

- ``add-or-remove-one``: a unit's contribution is there or missing. The sum moves by at most C. This is what the field reports.
- ``replace-one``: a unit is replaced by any other. The sum moves by at most 2C; dp-accounting is told, and doubles.

A group of k records that are drawn independently (user-level privacy by *group privacy*) moves the sum by Binomial(k, q)
times C: a mixture of Gaussians, which dp-accounting composes exactly, too. That is never worse than the generic lemma for
groups, kε and k·e^{kε}·δ.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from commonground.accounting.base_event import BaseEvent
from commonground.accounting.costs import Cost
from commonground.accounting.gaussian import gaussian_mu
from commonground.errors import BudgetError

ADD_OR_REMOVE, REPLACE = "add-or-remove-one", "replace-one"
StepKind = tuple[float, float, str, int]  # sampling probability, noise multiplier, relation, group size


@dataclass(frozen=True)
class StepsCost(Cost):
    """Of training on Poisson samples: steps of one kind are counted, and composed in the end."""

    measure: ClassVar[str] = "steps"
    alone: ClassVar[str] = "sampled and other releases do not add up: give each kind a ledger of its own."
    steps: Mapping[StepKind, int]

    @property
    def amount(self) -> float:
        return float(sum(self.steps.values()))

    @classmethod
    def epsilon_of(cls, events: Sequence[Any], delta: float) -> float:
        if len(units := {event.unit or "not named" for event in events}) > 1:
            raise BudgetError(
                f"releases that protect different units ({', '.join(sorted(units))}) do not add up: each needs its own ledger."
            )
        if len({event.relation for event in events}) > 1:
            raise BudgetError(
                "releases under different neighbouring relations do not add up: each relation needs a ledger of its own."
            )
        steps: Counter[StepKind] = Counter()
        for event in events:
            steps.update(event.cost.steps)
        return epsilon_of_steps(steps, delta) if delta > 0 else math.inf


@dataclass(frozen=True)
class SampledGaussianEvent(BaseEvent):
    """A number of equal steps, charged together before the first of them is drawn."""

    kind: ClassVar[str] = "sampled-gaussian"
    name: str
    sampling_probability: float  # q, of each unit in each step
    noise_multiplier: float  # noise_std / contribution
    steps: int
    relation: str  # ADD_OR_REMOVE or REPLACE
    group_size: int  # units drawn independently that belong to one person; 1: the unit is the person
    contribution: float  # C, the largest norm one unit can contribute
    noise_std: float
    entries: int  # numbers released in each step
    simulated: bool  # the noise can be recomputed from a seed: no protection
    unit: str = ""  # whom it protects: "record", "user", "owner"; files from before it was recorded do not say

    @property
    def cost(self) -> "StepsCost":
        return StepsCost(
            {(self.sampling_probability, self.noise_multiplier, self.relation, self.group_size): self.steps}
        )

    @property
    def makes_sense(self) -> bool:
        return super().makes_sense and self.sampling_probability <= 1.0

    @property
    def supported(self) -> bool:
        return 0 < self.noise_multiplier * self.contribution <= self.noise_std < math.inf

    @property
    def sensitivity(self) -> float:
        """The most that one unit moves a step's sum under its relation."""
        return self.contribution * (2.0 if self.relation == REPLACE else 1.0)

    @property
    def noise(self) -> str:
        return f"Gaussian, std {self.noise_std:.4g}, {self.steps} steps at q = {self.sampling_probability:g}"

    @property
    def noise_scale(self) -> float:
        return self.noise_std

    @property
    def step(self) -> tuple[float, float, int]:
        """What one step is: q, noise multiplier, group size."""
        return float(self.sampling_probability), float(self.noise_multiplier), int(self.group_size)

    def for_share(self, share: float) -> Self:
        return replace(self, noise_multiplier=self.noise_multiplier / share)

    def charged(self) -> dict[str, Any]:
        who = {"unit": self.unit, "relation": self.relation}
        return {"step": list(self.step), "steps": int(self.steps), **who, "noise_std": float(self.noise_std)}

    def loss(self) -> Any:
        ((kind, steps),) = self.cost.steps.items()
        return _loss(kind, steps, coarse=not _fine(kind))


def epsilon_of_steps(counts: Mapping[StepKind, int], delta: float) -> float:
    """ε of so many steps of each kind, rounded up."""
    return _epsilon(tuple(sorted(counts.items())), delta)


@functools.lru_cache(maxsize=4096)
def _epsilon(counts: tuple[tuple[StepKind, int], ...], delta: float) -> float:
    if not counts:
        return 0.0
    coarse = not all(_fine(kind) for kind, _ in counts)
    losses = [_loss(kind, steps, coarse) for kind, steps in counts]
    return float(functools.reduce(lambda one, other: one.compose(other), losses).get_epsilon_for_delta(delta))


def _fine(kind: StepKind) -> bool:
    _, multiplier, _, group = kind
    return multiplier >= 3.0 and group == 1


@functools.lru_cache(maxsize=8)  # large
def _loss(kind: StepKind, steps: int, coarse: bool) -> Any:
    """Losses are rounded up to a grid, so a coarse one only overstates ε; a fine one is slow where a step's loss is large."""
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution
    from scipy.stats import binom

    q, multiplier, relation, group = kind
    grid = 1e-3 if coarse else 1e-4
    neighbours = {
        ADD_OR_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,  # the multiplier is of C; dp-accounting doubles
    }[relation]
    if group == 1:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            multiplier, value_discretization_interval=grid, sampling_prob=q, neighboring_relation=neighbours
        )
    elif relation == ADD_OR_REMOVE:
        drawn = range(group + 1)
        one = privacy_loss_distribution.from_mixture_gaussian_mechanism(
            multiplier,
            [float(k) for k in drawn],
            binom.pmf(drawn, group, q).tolist(),
            value_discretization_interval=grid,
        )
    else:
        raise BudgetError(
            "group privacy is accounted for adding or removing only; replacement needs user_level='clip'."
        )
    return one.self_compose(steps)


def noise_multiplier_for(
    epsilon: float,
    delta: float,
    q: float,
    steps: int,
    relation: str = ADD_OR_REMOVE,
    group_size: int = 1,
    beside: float | None = None,
) -> float:
    """The smallest noise multiplier, to four digits (three for groups), whose steps stay within (ε, δ); never on the other side.

    ``beside``: as many further steps, with this many times the noise, are to fit into the same budget.

    >>> multiplier = noise_multiplier_for(1.0, 1e-4, q=0.2, steps=150)
    >>> bool(7.9 < multiplier < 7.94)
    True
    """

    def fits(multiplier: float) -> bool:
        counts = [((q, multiplier, relation, group_size), steps)]
        if beside is not None:
            counts.append(((q, beside * multiplier, relation, 1), steps))
        return _epsilon(tuple(sorted(counts)), delta) <= epsilon

    if group_size > 1:  # a mixture is slow to compose; it needs at most k times the noise of one record
        low, high, close = 0.0, group_size * noise_multiplier_for(epsilon, delta, q, steps, relation), 1e-3
    else:  # where the central limit of many small steps puts it
        share = gaussian_mu(epsilon, delta) / (q * math.sqrt(steps))
        low, high, close = 0.0, 1.0 / math.sqrt(math.log1p(share * share)), 1e-4
    width = 1.01
    while not fits(high):
        low, high, width = high, high * width, width * width
        if high > 2**24:
            raise BudgetError(f"no noise makes {steps} steps at q = {q:g} cost at most ε = {epsilon:g}, δ = {delta:g}")
    while not low and fits(high / width):
        high, width = high / width, width * width
    low = low or high / width
    while high - low > close * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return math.nextafter(high, math.inf)
