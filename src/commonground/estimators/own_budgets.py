"""Everybody's own ε as it is given to an estimator: by name, by position, or in the table."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from commonground.accounting.budgets import SMALLEST_EPSILON, Budget, PureBudget
from commonground.accounting.personal import PersonalBudgets
from commonground.clipping.bounded import rounding_margin
from commonground.data.population import Population
from commonground.errors import InputError, PrivacyWarning
from commonground.ledger import PersonalBooking, PersonalLedger


def personal_budgets(budgets: Any, users: Population, delta: float, in_order: bool = True) -> PersonalBudgets | None:
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
            f"{epsilons[~allowed][0]:g} for person {users.ids.tolist()[int(np.argmin(allowed))]!r}."
        )
    if not epsilons.any():
        raise InputError("all personal budgets are 0: nobody takes part, so nothing can be learned.")
    epsilons = epsilons.copy()  # the caller's array may change, what was promised may not
    epsilons.flags.writeable = False
    return PersonalBudgets(epsilons, delta, rounding_margin(users.n_users))


def booked_for_each(
    ledger: PersonalLedger, people: Population, wanted: PersonalBudgets | Budget | PureBudget, purpose: str
) -> PersonalBooking:
    """What a fit wants of everybody, booked with her own account: the smaller of that and what she has left."""
    if not people.rows_are_here:
        raise InputError(
            "a ledger with an account for everybody needs to know who is in the fit, and here others have the rows and the ids. "
            "Read the table in this process, or use a population without personal accounts."
        )
    each = wanted.epsilons if isinstance(wanted, PersonalBudgets) else np.full(people.n_users, wanted.epsilon)
    booking = ledger.reserve_each(people.ids, each, wanted.delta, rounding_margin(people.n_users), purpose)
    largest = float(booking.budgets.epsilons.max())
    if largest < each.max():
        try:
            warnings.warn(
                f"this fit wants up to ε = {each.max():g} of a person, and nobody has more than ε = {largest:.4g} left: the "
                "noise is made for that, and is as much larger.",
                PrivacyWarning,
                stacklevel=4,
            )
        except PrivacyWarning:  # where warnings are errors
            booking.settle()
            raise
    return booking
