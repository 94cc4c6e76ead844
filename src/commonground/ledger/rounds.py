"""What a population pays for Poisson-sampled training: rounds of one kind, counted.

The first fit says what a round is (which steps, with which q and noise, for which unit and neighbours), and with that it is
settled how many such rounds the budget affords. From then on rounds are whole numbers that add up. Whoever looks at results
may choose how many more rounds to make, and stop at any time: fewer are never worse than all. She may not choose *another
kind*: composed privacy-loss distributions are true for steps fixed beforehand, not for steps chosen by looking.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from commonground.accounting.costs import is_count
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent, epsilon_of_steps
from commonground.errors import BudgetError

Step = tuple[float, float, int]  # q, noise multiplier, group size


@dataclass(frozen=True)
class Round:
    """The smallest part of a fit that can be repeated."""

    unit: str
    relation: str
    steps: tuple[tuple[Step, int], ...]  # how many of each in one round

    def epsilon(self, rounds: int, delta: float) -> float:
        """ε of so many rounds at δ, rounded up."""
        return epsilon_of_steps(
            {(q, noise, self.relation, group): n * rounds for (q, noise, group), n in self.steps if rounds}, delta
        )

    def most(self, epsilon: float, delta: float) -> int:
        """How many rounds stay within (ε, δ), to one percent; never more."""
        if not self.epsilon(1, delta) <= epsilon:
            return 0
        low, high = 1, 2
        while self.epsilon(high, delta) <= epsilon and high < 2**40:
            low, high = high, 2 * high
        while high - low > max(low // 100, 1):
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle, delta) <= epsilon else (low, middle)
        return low

    def rounds_of(self, charged: Mapping[Step, int]) -> int:
        """How many rounds are begun by these steps."""
        of = dict(self.steps)
        return max((-(-n // of[step]) for step, n in charged.items()), default=0)

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "relation": self.relation,
            "steps": [[q, noise, group, n] for (q, noise, group), n in self.steps],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Round":
        steps = tuple(((q, noise, group), n) for q, noise, group, n in document["steps"])
        for (q, noise, group), n in steps:
            if not (0 < q <= 1 and 0 < noise < math.inf and is_count(group) and is_count(n)):
                raise ValueError("a step that makes no sense")
        if not steps or len(dict(steps)) < len(steps) or document["relation"] not in (ADD_OR_REMOVE, REPLACE):
            raise ValueError("not a round")
        return cls(document["unit"], document["relation"], steps)


def rounds_in(events: Iterable[SampledGaussianEvent]) -> tuple[Round, int]:
    """A fit's releases as a number of equal rounds."""
    events = tuple(events)
    if len(who := {(event.unit, event.relation) for event in events}) != 1:
        raise BudgetError("the releases of one fit must protect the same unit under the same neighbours.")
    ((unit, relation),) = who
    counts: Counter[Step] = Counter()
    for event in events:
        counts[event.step] += event.steps
    rounds = math.gcd(*counts.values())
    return Round(unit, relation, tuple((step, n // rounds) for step, n in sorted(counts.items()))), rounds
