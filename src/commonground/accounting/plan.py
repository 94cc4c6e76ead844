"""How an estimator divides its budget: shares of μ² as data, and what one release of each may cost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from commonground.accounting.budgets import Budget


@dataclass(frozen=True)
class Share:
    """A part of the budget, spent in equal releases."""

    name: str
    part: float  # of μ², before the parts of a plan are divided by their sum
    what: str  # what is released for it
    repeats: float = 1  # releases that share it


@dataclass(frozen=True)
class Plan:
    """All shares of one recipe. They are divided by their sum, so leaving one out leaves more for the others.

    >>> plan = Plan((Share("start", 1.0, "a first look"), Share("rounds", 3.0, "one sum a round", repeats=12)))
    >>> cost = plan.costs(Budget(epsilon=1.0, delta=1e-6))
    >>> cost["start"] ** 2 + 12 * cost["rounds"] ** 2 < Budget(epsilon=1.0, delta=1e-6).mu ** 2
    True
    >>> round(cost["start"] / cost["rounds"], 6)
    2.0
    """

    shares: tuple[Share, ...]

    def __iter__(self) -> Iterator[Share]:
        return iter(self.shares)

    def without(self, beginning: str) -> "Plan":
        """The plan less the shares whose names begin so."""
        return Plan(tuple(share for share in self.shares if not share.name.startswith(beginning)))

    def where(self, name: str, *, part: float | None = None, repeats: float | None = None) -> "Plan":
        """The plan with another part, or other repeats, for one share; a part of zero takes it out."""
        assert name in {share.name for share in self.shares}, name
        changed = (
            replace(share, part=share.part if part is None else part, repeats=repeats or share.repeats)
            if share.name == name
            else share
            for share in self.shares
        )
        return Plan(tuple(share for share in changed if share.part > 0))

    def with_at_least(self, wanted: dict[str, float], most: float) -> "Plan":
        """The plan in which some shares have at least so large a fraction of μ².

        All that are raised have at ``most`` so much together. The others keep their proportions.

        >>> plan = Plan((Share("few", 0.1, ""), Share("start", 0.3, ""), Share("rounds", 0.6, "")))
        >>> plan.with_at_least({"few": 0.4, "start": 0.2}, most=0.5).fractions()
        {'few': 0.4, 'start': 0.2, 'rounds': 0.4}
        """
        fractions = self.fractions()
        raised = {name: part for name, part in wanted.items() if part > fractions[name]}
        allowed = min(1.0, most / max(sum(raised.values()), 1e-300))
        others = (1.0 - allowed * sum(raised.values())) / sum(
            part for name, part in fractions.items() if name not in raised
        )
        parts = {name: allowed * raised[name] if name in raised else others * part for name, part in fractions.items()}
        return Plan(tuple(replace(share, part=parts[share.name]) for share in self))

    def fractions(self) -> dict[str, float]:
        """Each share's fraction of μ²; together one."""
        whole = sum(share.part for share in self.shares)
        return {share.name: share.part / whole for share in self.shares}

    def costs(self, budget: Budget) -> dict[str, float]:
        """μ of one release of each share, rounded down, so that all together stay within the budget."""
        whole = budget.split(self.fractions())
        return {share.name: whole[share.name] / math.sqrt(share.repeats) for share in self.shares}
