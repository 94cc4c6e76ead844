"""What is told of an account: what is left, why a fit is refused, and a summary for machines."""

from fractions import Fraction
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget
from commonground.errors import BudgetError
from commonground.ledger.account import Account
from commonground.ledger.rounds import Round


def summary(account: Account) -> dict[str, Any]:
    """An account for machines; ε at the population's δ, each rounded against the spender."""
    assert account.budget is not None

    def epsilon(cost: Fraction, pure: Fraction, rounds: int) -> float:
        return account.epsilon_of_rounds(rounds) or account.epsilon_of(cost, pure)

    return {
        "population": account.population,
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "people": account.persons.n if account.persons else None,  # with accounts of their own
        "personal_budgets": [{"epsilon": epsilon, "people": people} for epsilon, people in account.personal],
        "epsilon_charged": epsilon(account.charged, account.charged_pure, account.charged_rounds),
        "epsilon_booked": epsilon(account.booked, account.booked_pure, account.booked_rounds),
        "epsilon_left": _down(account.epsilon_left),
        "epsilon_left_pure": _down(account.left_pure),  # for a fit with δ = 0
        "mu_squared_limit": float(account.limit),
        "mu_squared_charged": float(account.charged),
        "mu_squared_booked": float(account.booked),
        "rounds_booked": account.booked_rounds,  # of sampled training
        "rounds_limit": account.most_rounds,
        "settled_fits": account.fits,
        "open_reservations": [
            {
                "reservation": booking.id,
                "epsilon": booking.epsilon,
                "delta": booking.delta,
                "epsilon_charged": epsilon(booking.charged, booking.charged_pure, account.rounds_charged(booking)),
                **{name: vars(booking)[name] for name in ("charges", "purpose", "by", "at")},
            }
            for booking in account.open.values()
        ],
        "n_events": account.count,
        "head": account.head,
    }


def left_in_words(account: Account) -> str:
    assert account.budget is not None
    people, pure = f"Population {account.population!r}", bool(account.booked_pure) or not account.limit
    total = f"ε = {_down(account.smallest):g} at δ = {account.budget.delta:g}"
    if account.booked_rounds:
        left = account.most_rounds - account.booked_rounds
        return f"{people} has {left:,} of {account.most_rounds:,} rounds of sampled training left of {total}."
    words = f"{people} has ε = {_down(account.epsilon_left):g} left of {total}"
    if pure:
        return f"{words}, for fits with δ = 0." if account.limit else f"{words}."
    return f"{words} (Gaussian costs add as squares, so these ε do not subtract)."


def too_many_rounds(account: Account, budget: Budget, one: Round) -> BudgetError:
    if account.booked or account.booked_pure or (account.booked_rounds and one != account.round):
        return BudgetError(
            f"population {account.population!r} has paid for releases of another kind than these sampled steps (other noise, "
            "sampling, unit or neighbours, or no sampling at all): what both cost together is not known when the second "
            "is chosen by looking at the first. Nothing was released. Repeat the kind of training that was paid for, or "
            "divide the budget between two populations beforehand."
        )
    left = account.epsilon_of_rounds(max(account.most_rounds - account.booked_rounds, 0))
    return BudgetError(_not_enough(account, budget, left, " for further training of this kind"))


def too_much(account: Account, budget: Budget | PureBudget) -> BudgetError:
    if account.booked_rounds:
        return BudgetError(
            f"population {account.population!r} has paid for training on Poisson samples, which other releases are not added to. "
            "Nothing was released. Divide their budget between two populations beforehand."
        )
    if account.limit and (account.booked if not budget.delta else account.booked_pure):
        spent, asked = ("Gaussian", "pure") if account.booked else ("pure", "Gaussian")
        return BudgetError(
            f"population {account.population!r} has paid for {spent} fits, and this one is {asked}: the two kinds are not "
            "mixed, as choosing between them by looking at results would cost more than both. Nothing was released. Use one "
            "kind on these people, or divide their budget between two populations beforehand."
        )
    left = account.left_pure if not budget.delta else account.epsilon_of(account.left)
    message = _not_enough(account, budget, left)
    if account.open:
        held = account.epsilon_of(account.booked - account.settled, account.booked_pure - account.settled_pure)
        message += (
            f" {len(account.open)} open reservations hold ε = {_down(held):g} of it; if their process is dead, "
            "`commonground ledger settle` gives back what they did not use."
        )
    return BudgetError(message)


def _not_enough(account: Account, budget: Budget | PureBudget, left: float, purpose: str = "") -> str:
    assert account.budget is not None
    return (
        f"population {account.population!r} has ε = {_down(left):g} left of ε = {_down(account.smallest):g} at δ = "
        f"{account.budget.delta:g}{purpose}, but this fit asks for (ε = {budget.epsilon:g}, δ = {budget.delta:g}). Nothing was "
        "released. Ask for less, or stop: these people have given what was agreed."
    )


def _down(epsilon: float) -> float:
    """Four decimals, rounded down: never promise more than is left (the factor: a whole 2 must not read 1.9999)."""
    return int(epsilon * (1 + 1e-8) * 1e4) / 1e4
