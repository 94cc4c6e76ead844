"""Personal budgets: everybody her own (ε_i, δ), all under one noise.

The noise of every release is made for the person with the largest budget, μ_max. Person i counts only w_i ≈ μ_i/μ_max in
everything that is summed over people, sums and histograms alike. Replacing her then moves each release by w_i times its
sensitivity, so each costs her w_i times its μ, and all together w_i·μ_max ≤ μ_i: exactly her own (ε_i, δ). Where δ = 0 the
costs are ε_i themselves.

Two roundings are taken off the weights, so that the claim holds for numbers in a computer. Weights are multiples of 2⁻²⁰:
counts that are sums of weights are then exact. And replacing a person may change how the others' sums are rounded, which
does not become less with her weight: that room, the ``rounding_margin`` of n people, is left below μ_i/μ_max.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget, PureBudget, budget_of
from commonground.accounting.events import Event, epsilon_spent
from commonground.accounting.gaussian import gaussian_mus
from commonground.clipping import rounding_margin
from commonground.errors import InputError
from commonground.users import Users

_WEIGHT_STEPS = 2.0**20


@dataclass(frozen=True, eq=False)
class PersonalBudgets:
    """Everybody's ε, in the order of ``Users.ids``; who has 0 takes no part."""

    epsilons: np.ndarray  # (n,)
    delta: float

    @property
    def largest(self) -> Budget | PureBudget:
        """The budget that the noise is made for; nobody spends more."""
        return budget_of(float(self.epsilons.max()), self.delta)

    @property
    def weights(self) -> np.ndarray:
        """How much each person counts."""
        distinct, person = np.unique(self.epsilons, return_inverse=True)
        costs = gaussian_mus(distinct, self.delta) if self.delta else distinct
        below = np.floor((costs / costs[-1] - rounding_margin(len(self.epsilons))) * _WEIGHT_STEPS) / _WEIGHT_STEPS
        below = np.clip(below, 0.0, 1.0)
        below[-1] = 1.0  # her room for rounding is in the sensitivity itself
        return below[person]

    def spent(self, position: int, events: Iterable[Event]) -> float:
        """The ε that these releases cost one person."""
        factor = cost_factor(self.weights[position], len(self.epsilons))
        return epsilon_spent((event.for_share(factor) for event in events), self.delta) if factor else 0.0

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


def cost_factor(weight: float, n_users: int) -> float:
    """By how much a release moves when a person of this weight is replaced, relative to its sensitivity; at most."""
    return 0.0 if weight == 0.0 else min(1.0, weight + rounding_margin(n_users))


def personal_budgets(budgets: Any, users: Users, delta: float) -> PersonalBudgets | None:
    """The budgets given to an estimator, else those of the table, else None.

    ``budgets``: a mapping from person to ε, one ε for each person in the order of ``users.ids``, or one number for all.
    """
    if budgets is None:
        budgets = users.budgets
    if budgets is None:
        return None
    if isinstance(budgets, Mapping):
        missing = [user for user in users.ids.tolist() if user not in budgets]
        if missing:
            raise InputError(
                f"budgets lacks {len(missing)} of {users.n_users} people, for example {missing[0]!r}. Give everybody an "
                "epsilon; 0 means: takes no part."
            )
        budgets = [budgets[user] for user in users.ids.tolist()]
    try:
        epsilons = np.asarray(budgets, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"budgets must be numbers, one epsilon for each person, got {budgets!r:.80}.") from None
    if epsilons.ndim == 0:
        epsilons = np.full(users.n_users, float(epsilons))
    if epsilons.shape != (users.n_users,):
        raise InputError(
            f"budgets has shape {epsilons.shape} but there are {users.n_users} people; give one epsilon for each, in "
            "the order of users.ids, or a mapping from person to epsilon."
        )
    allowed = (epsilons == 0) | ((epsilons >= SMALLEST_EPSILON) & np.isfinite(epsilons))
    if not allowed.all():
        raise InputError(
            f"a personal epsilon must be finite and at least {SMALLEST_EPSILON:g}, or 0 to take no part; got "
            f"{epsilons[~allowed][0]!r} for person {users.ids.tolist()[int(np.argmin(allowed))]!r}."
        )
    if not epsilons.any():
        raise InputError("all personal budgets are 0: nobody takes part, so nothing can be learned.")
    return PersonalBudgets(epsilons, delta)
