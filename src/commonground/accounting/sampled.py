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
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from scipy.stats import binom

from commonground.accounting.gaussian import gaussian_mu
from commonground.errors import BudgetError

ADD_OR_REMOVE, REPLACE = "add-or-remove-one", "replace-one"


@dataclass(frozen=True)
class SampledGaussianEvent:
    """A number of equal steps, charged together before the first of them is drawn."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def epsilon_of_sampled(events: Iterable[SampledGaussianEvent], delta: float) -> float:
    """ε of all these steps together at δ, rounded up. Equal steps are counted, so n at once cost what n one by one cost."""
    counts: dict[tuple[float, float, str, int], int] = {}
    for event in events:
        kind = (event.sampling_probability, event.noise_multiplier, event.relation, event.group_size)
        counts[kind] = counts.get(kind, 0) + event.steps
    if len({relation for _, _, relation, _ in counts}) > 1:
        raise BudgetError(
            "releases under different neighbouring relations do not add up: each relation needs a ledger of its own."
        )
    return _epsilon(tuple(sorted(counts.items())), delta)


@functools.lru_cache(maxsize=4096)
def _epsilon(counts: tuple[tuple[tuple[float, float, str, int], int], ...], delta: float) -> float:
    import dp_accounting
    from dp_accounting import pld

    if not counts:
        return 0.0
    relation = {
        ADD_OR_REMOVE: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[counts[0][0][2]]
    # Losses are rounded up to this grid, so a coarse one only overstates ε (by less than 0.1 % here); fine grids are slow
    # where one step's loss is large.
    fine = all(multiplier >= 3.0 and group == 1 for (_, multiplier, _, group), _ in counts)
    accountant = pld.PLDAccountant(relation, 1e-4 if fine else 1e-3)
    for (q, multiplier, _, group), steps in counts:
        gaussian = dp_accounting.GaussianDpEvent(multiplier)
        event: dp_accounting.DpEvent = dp_accounting.PoissonSampledDpEvent(q, gaussian)
        if group > 1:  # dp-accounting composes mixtures for adding or removing only, and says so
            drawn = range(group + 1)
            event = dp_accounting.dp_event.MixtureOfGaussiansDpEvent(
                multiplier, [float(k) for k in drawn], binom.pmf(drawn, group, q).tolist()
            )
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, steps))
    return float(accountant.get_epsilon(delta))


def noise_multiplier_for(
    epsilon: float, delta: float, q: float, steps: int, relation: str = ADD_OR_REMOVE, group_size: int = 1
) -> float:
    """The smallest noise multiplier, to four digits, whose steps stay within (ε, δ); never on the other side.

    >>> multiplier = noise_multiplier_for(1.0, 1e-4, q=0.2, steps=150)
    >>> bool(7.9 < multiplier < 7.94)
    True
    """

    def fits(multiplier: float) -> bool:
        return _epsilon((((q, multiplier, relation, group_size), steps),), delta) <= epsilon

    # Where the central limit of many small steps puts it; then outwards until the answer lies between.
    share = gaussian_mu(epsilon, delta) / (q * math.sqrt(steps) * group_size)
    low = high = 1.0 / math.sqrt(math.log1p(share * share))
    width = 1.01
    while not fits(high):
        low, high, width = high, high * width, width * width
        if high > 2**24:
            raise BudgetError(f"no noise makes {steps} steps at q = {q:g} cost at most ε = {epsilon:g}, δ = {delta:g}")
    while low == high or fits(low):
        low, high, width = low / width, low, width * width
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return math.nextafter(high, math.inf)
