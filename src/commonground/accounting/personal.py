"""Personal budgets: everybody her own (ε_i, δ), all under one noise.

The noise of every release is made for the person with the largest budget, μ_max. Person i counts only w_i ≈ μ_i/μ_max in
everything that is summed over people, sums and histograms alike. Replacing her then moves each release by w_i times its
sensitivity, so each costs her w_i times its μ, and all together w_i·μ_max ≤ μ_i: exactly her own (ε_i, δ). Where δ = 0 the
costs are ε_i themselves.

Room is left below μ_i/μ_max, so that the claim holds for numbers in a computer. Weights are multiples of 2⁻²⁰: counts that
are sums of weights are then exact. Replacing a person may change how the others' sums are rounded, and how the sampler rounds
to its grid, and neither becomes less with her weight: the ``rounding_margin`` of n people and one more 2⁻²⁰ are taken off.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget, PureBudget, budget_of
from commonground.accounting.events import Event, epsilon_spent
from commonground.accounting.gaussian import gaussian_mus
from commonground.clipping.bounded import rounding_margin
from commonground.data.users import Users
from commonground.errors import InputError

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

    @cached_property
    def weights(self) -> np.ndarray:
        """How much each person counts."""
        distinct, person = np.unique(self.epsilons, return_inverse=True)
        costs = gaussian_mus(distinct, self.delta) if self.delta else distinct
        share = costs / costs[-1] - rounding_margin(len(self.epsilons))
        below = (np.floor(share * _WEIGHT_STEPS) - 1) / _WEIGHT_STEPS  # one step less: for the sampler's own rounding
        below = np.clip(below, 0.0, 1.0)
        below[-1] = 1.0  # her room for rounding is in the sensitivity itself
        return below[person]

    def spent(self, position: int, events: Iterable[Event]) -> float:
        """The ε that these releases cost one person."""
        weight = self.weights[position]
        if weight == 0.0:
            return 0.0
        room = rounding_margin(len(self.epsilons))
        shares = [(event, min(1.0, weight + room + event.sampler_room)) for event in events]
        return epsilon_spent((event.for_share(share) for event, share in shares), self.delta)

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


def personal_budgets(budgets: Any, users: Users, delta: float, in_order: bool = True) -> PersonalBudgets | None:
    """The budgets given to an estimator, else those of the table, else None.

    ``budgets``: a mapping (or pandas Series) from person to ε; one number for all; or, where the caller knows the order of
    ``users.ids`` (``in_order``), one ε for each person.
    """
    if budgets is None:
        budgets, in_order = users.budgets, True
    if budgets is None:
        return None
    if hasattr(budgets, "to_dict") and hasattr(budgets, "index"):
        budgets = budgets.to_dict()
    if isinstance(budgets, Mapping):
        missing = [user for user in users.ids.tolist() if user not in budgets]
        if missing:
            raise InputError(
                f"budgets lacks {len(missing)} of {users.n_users} people, for example {missing[0]!r}. Give everybody an "
                "epsilon; 0 means: takes no part."
            )
        budgets, in_order = [budgets[user] for user in users.ids.tolist()], True
    try:
        epsilons = np.asarray(budgets, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"budgets must be numbers, one epsilon for each person, got {budgets!r:.80}.") from None
    if epsilons.ndim == 0:
        epsilons = np.full(users.n_users, float(epsilons))
    elif not in_order:
        raise InputError(
            "budgets as a plain list say nothing about whose is which here: people are put into an order of their own. Give "
            "a mapping from person to epsilon, or fit a Users object and follow its ids."
        )
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
    epsilons = epsilons.copy()  # the caller's array may change, what was promised may not
    epsilons.flags.writeable = False
    return PersonalBudgets(epsilons, delta)
