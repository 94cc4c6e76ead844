"""Personal budgets: everybody her own (ε_i, δ), all under one noise.

The noise of every release is made for the person with the largest budget, μ_max. Person i counts only w_i ≈ μ_i/μ_max in
everything that is summed over people, sums and histograms alike. Replacing her then moves each release by w_i times its
sensitivity, so each costs her w_i times its μ, and all together w_i·μ_max ≤ μ_i: exactly her own (ε_i, δ). Where δ = 0 the
costs are ε_i themselves.

Room is left below μ_i/μ_max, so that the claim holds for numbers in a computer. Weights are multiples of 2⁻²⁰: counts that
are sums of weights are then exact. Replacing a person may change how the others' sums are rounded, and how the sampler rounds
to its grid, and neither becomes less with her weight: the ``rounding_margin`` of n people and one more 2⁻²⁰ are taken off.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget, PureBudget, budget_of
from commonground.accounting.events import Event, epsilon_spent
from commonground.accounting.gaussian import gaussian_mus

_WEIGHT_STEPS = 2.0**20


@dataclass(frozen=True, eq=False)
class PersonalBudgets:
    """Everybody's ε, in the order of ``Users.ids``; who has 0 takes no part."""

    epsilons: np.ndarray  # (n,)
    delta: float  # the same for everybody; 0: their ε are spent without Gaussian noise
    # how far replacing anybody may move a sum by the rounding of others, as a share of its sensitivity
    # (``clipping.rounding_margin``)
    rounding_room: float

    @property
    def largest(self) -> Budget | PureBudget:
        """The budget that the noise is made for; nobody spends more."""
        return budget_of(float(self.epsilons.max()), self.delta)

    @cached_property
    def weights(self) -> np.ndarray:
        """How much each person counts."""
        distinct, person = np.unique(self.epsilons, return_inverse=True)
        costs = gaussian_mus(distinct, self.delta) if self.delta else distinct
        share = costs / costs[-1] - self.rounding_room
        below = (np.floor(share * _WEIGHT_STEPS) - 1) / _WEIGHT_STEPS  # one step less: for the sampler's own rounding
        below = np.clip(below, 0.0, 1.0)
        below[-1] = 1.0  # her room for rounding is in the sensitivity itself
        return below[person]

    def spent(self, position: int, events: Iterable[Event]) -> float:
        """The ε that these releases cost one person."""
        weight = self.weights[position]
        if weight == 0.0:
            return 0.0
        own = (event.for_share(min(1.0, weight + self.rounding_room + event.sampler_room)) for event in events)
        return epsilon_spent(own, self.delta)

    def distribution(self) -> dict[str, Any]:
        """What the statement tells: how many people have which budgets, not who."""
        part = self.epsilons[self.epsilons > 0]
        shares = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
        quantiles = np.quantile(part, shares, method="lower")
        return {
            "people": len(self.epsilons),
            "taking no part": int(len(self.epsilons) - len(part)),
            "quantiles": {f"{share:g}": float(value) for share, value in zip(shares, quantiles, strict=True)},
        }


@dataclass(frozen=True, eq=False)
class BudgetsLeft(PersonalBudgets):
    """What everybody has left for one fit, by a ledger that keeps her account and has said how much she counts.

    ``epsilons`` are what each takes part with; 0: not at all.
    """

    shares: np.ndarray  # (n,): how much each counts

    @property
    def weights(self) -> np.ndarray:
        """How much each person counts."""
        return self.shares
