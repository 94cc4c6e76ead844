"""What a fit wants of everybody, and what can be had of it."""

import math

import numpy as np

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget, PureBudget, budget_of
from commonground.accounting.costs import cost_of
from commonground.accounting.gaussian import epsilon_within, gaussian_epsilons, gaussian_mus
from commonground.accounting.personal import BudgetsLeft
from commonground.errors import InputError
from commonground.ledger.shares import STEPS, UNIT, cost_table, room_for, steps_within, units_above, weights_of


class Wishes:
    """One ε for each person of a fit, the distinct ones once."""

    def __init__(self, distinct: np.ndarray, which: np.ndarray, delta: float, rounding_room: float) -> None:
        self.distinct, self.which, self.delta, self.rounding_room = distinct, which, delta, rounding_room
        self.mus = gaussian_mus(distinct, delta)
        self.units = units_above(self.mus)
        self.room = room_for(rounding_room)

    @classmethod
    def of(cls, epsilons: np.ndarray, delta: float, rounding_room: float) -> "Wishes":
        distinct, which = np.unique(epsilons, return_inverse=True)
        if not len(distinct) or not np.isfinite(distinct).all() or distinct[0] < 0 or not distinct[-1] > 0:
            raise InputError("what a fit wants of people must be finite ε from 0 on, and more than 0 of somebody.")
        return cls(distinct, which, delta, rounding_room)

    @property
    def largest(self) -> Budget | PureBudget:
        return budget_of(float(self.distinct[-1]), self.delta)

    def affordable(self, left: np.ndarray) -> Budget | None:
        """The largest budget that somebody both has and is asked for: the noise is made for her. None: nobody has any."""
        most = int(np.minimum(self.units[self.which], left).max())
        if not most:
            return None
        declared = np.flatnonzero(self.units == most)
        if len(declared):
            return Budget(float(self.distinct[declared[-1]]), self.delta)
        epsilon = epsilon_within(math.sqrt(most / UNIT), self.delta)
        return Budget(epsilon, self.delta) if epsilon >= SMALLEST_EPSILON else None

    def steps(self, left: np.ndarray, budget: Budget) -> np.ndarray:
        """(n,) steps of 2⁻²⁰ that everybody pays for."""
        wished = np.minimum(np.floor(self.mus / budget.mu * STEPS), STEPS).astype(np.int64)
        return steps_within(cost_table(cost_of(budget.mu)), left, wished[self.which], self.room)

    def granted(self, steps: np.ndarray, budget: Budget) -> BudgetsLeft:
        distinct = np.flatnonzero(np.bincount(steps, minlength=STEPS + 1))
        of_steps = np.zeros(STEPS + 1)  # ε of each number of steps that occurs
        of_steps[distinct] = np.minimum(gaussian_epsilons(distinct / STEPS * budget.mu, budget.delta), budget.epsilon)
        of_steps[STEPS] = budget.epsilon
        return BudgetsLeft(of_steps[steps], budget.delta, self.rounding_room, weights_of(steps, self.room))
