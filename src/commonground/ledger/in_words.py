"""What is told of an account: what is left, why a fit is refused, and a summary for machines."""

from fractions import Fraction
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import PureCost
from commonground.errors import BudgetError
from commonground.ledger.account import Account
from commonground.ledger.rounds import Round


def summary(account: Account) -> dict[str, Any]:
    """An account for machines; ε at the population's δ, each rounded against the spender."""
    assert account.budget is not None

    return {
        "population": account.population,
        "epsilon": account.budget.epsilon,
        "delta": account.budget.delta,
        "people": account.persons.n if account.persons else None,  # with accounts of their own
        "personal_budgets": [{"epsilon": epsilon, "people": people} for epsilon, people in account.personal],
        "epsilon_charged": account.epsilon_of_rounds(account.charged_rounds) or account.epsilon_in(account.charged_in),
        "epsilon_booked": account.epsilon_of_rounds(account.booked_rounds) or account.epsilon_in(account.booked_in),
        "epsilon_left": _down(account.epsilon_left),
        "epsilon_left_pure": _down(account.epsilon_left_in(PureCost)),  # for a fit with δ = 0
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
                "epsilon_charged": account.epsilon_of_rounds(account.rounds_charged(booking))
                or account.epsilon_of(booking.charged, booking.kind),
                **{name: vars(booking)[name] for name in ("charges", "purpose", "by", "at")},
            }
            for booking in account.open.values()
        ],
        "n_events": account.count,
        "head": account.head,
    }


def left_in_words(account: Account) -> str:
    assert account.budget is not None
    people = f"Population {account.population!r}"
    total = f"ε = {_down(account.smallest):g} at δ = {account.budget.delta:g}"
    if account.booked_rounds:
        left = account.most_rounds - account.booked_rounds
        return f"{people} has {left:,} of {account.most_rounds:,} rounds of sampled training left of {total}."
    words = f"{people} has ε = {_down(account.epsilon_left):g} left of {total}"
    return f"{words}{account.kind.remark if account.limit else ''}."


def too_many_rounds(account: Account, budget: Budget, one: Round) -> BudgetError:
    if account.kinds_booked or (account.booked_rounds and one != account.round):
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
    kind = type(budget.whole)
    if account.limit and (others := [other for other in account.kinds_booked if other is not kind]):
        return BudgetError(
            f"population {account.population!r} has paid for {others[0].word} fits, and this one is {kind.word}: the two kinds "
            "are not mixed, as choosing between them by looking at results would cost more than both. Nothing was released. Use "
            "one kind on these people, or divide their budget between two populations beforehand."
        )
    message = _not_enough(account, budget, account.epsilon_left_in(kind))
    if account.open:
        held = account.epsilon_in(lambda kind: sum((r.cost for r in account.open_in(kind)), Fraction(0)))
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
