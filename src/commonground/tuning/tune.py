"""Search for the best settings within one budget: one charge, one statement (``tune``).

**Guarantee.** Unit: one person, replaced by any other; the number of people is public. Everything that reads data passes
the gate: the releases of each fit, within its own part of the budget, on everybody's rows but those that she holds out, by
their places; the choice (``score``); and the last fit, where there is one. They are Gaussian, one after the other, and
their μ² add up to at most that of (ε, δ). Lower ranks are read off released boards and cost nothing. Which candidate wins
is a function of releases.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import clone

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event
from commonground.billboard.board import name_each_other
from commonground.data.population import Population
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.estimators.capabilities import require
from commonground.gate import Gate, Randomness, randomness_from
from commonground.ledger import InMemoryLedger, Ledger, SharedLedger, reserved
from commonground.tally import tally
from commonground.tuning.candidates import Group, candidates_in, groups_of
from commonground.tuning.hold_out import hold_out
from commonground.tuning.repeat import Winner, repeat_and_select, repeated_mu
from commonground.tuning.result import Candidate, Tuned
from commonground.tuning.score import Scores
from commonground.tuning.split import Shares, Split

# Times μ that repetitions must leave to each fit: they have no last one, and may leave out the best setting. At 2.7 times (16
# fits) split was still better (`benchmarks/tuning.py --ways`).
MUCH_MORE = 4.0
EVERY = 5  # one of so many rows of each person is held out


def tune(
    estimator: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
    users: Population,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    way: str = "auto",
    refit: bool | None = None,
    ledger: Ledger | SharedLedger | None = None,
    simulation_seed: int | None = None,
    verbose: bool = False,
    gate: Callable[[Ledger, Randomness], Gate] = Gate,
) -> Tuned:
    """The best of a grid of settings, by people's own held-out errors: one budget for all of it.

    Parameters
    ----------
    estimator : estimator
        One with ``epsilon`` and ``delta``; its other parameters hold for all candidates.
    grid : mapping of str to sequence, or sequence of such mappings
        As for scikit-learn's ``GridSearchCV``. ε, δ and seeds cannot be searched for.
    users : Population
        People with their rows, here; one row in five of each is held out.
    epsilon, delta : float, default=those of the estimator
        Of everything together: fits, choice and the last fit.
    way : {"auto", "split", "repeat"}, default="auto"
        Divide the budget among fits, or repeat-and-select (``tuning.repeat``). "auto": what leaves each fit more of μ, by public
        numbers; a last fit counts for split, so repetitions must leave four times as much. A ledger can pay for split only.
    refit : bool or None, default=None
        With split: fit the winner again, on all rows, with most of the budget; False keeps its fit. None: what is better, to keep
        it where all candidates come from one fit.
    ledger : population of a ``DurableLedger``, default=None
        Pays for all of it, with one reservation.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    gate : callable, default=Gate
        For audits: makes this search's gates, ones that watch what passes.

    Returns
    -------
    Tuned
        ``best`` is the winner, fitted.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=2000, n_features=6, rank=2, noise=0.1, seed=1)
    >>> found = cg.tune(cg.PrivateFedRep(n_rounds=4), {"rank": [0, 1, 2, 3]}, users, epsilon=4.0, simulation_seed=1)
    >>> found.best_settings["rank"] >= 2, found.statement.epsilon_spent <= 4.0
    (True, True)
    """
    candidates = _checked(estimator, grid, users)
    if gate is not Gate and ledger is not None:
        raise InputError("gate= is for audits, which no ledger pays for. Tune without it.")
    groups = groups_of(estimator, candidates)
    budget = Budget(estimator.epsilon if epsilon is None else epsilon, estimator.delta if delta is None else delta)
    shares = Shares.of(len(groups), len(groups) > 1 if refit is None else bool(refit))
    repeats = _repeats(way, budget, groups, shares, watched=gate is not Gate or refit is not None, ledger=ledger)
    if simulation_seed is not None:
        randomness_from(simulation_seed)  # refuses what is no seed
    paid: list[Event] = []
    rows = hold_out(users, EVERY)
    with reserved(ledger, budget, "tuning") as book, tally.paused():
        pays = InMemoryLedger(budget) if book is None else book
        if repeats:
            once = repeat_and_select(estimator, candidates, groups, budget, pays, simulation_seed, users, rows)
            winner, best, scores = once.model, once.best, once.scores
            paid.append(once.event)
        else:
            numbers = range(len(groups) + 1)
            seeds = [None if simulation_seed is None else len(numbers) * int(simulation_seed) + n for n in numbers]
            search = Split(
                estimator,
                candidates,
                groups,
                budget,
                pays,
                randomness_from(simulation_seed),
                seeds,
                paid,
                verbose,
                gate,
            )
            winner, best, scores = search.run(users, rows, shares)
        winner.set_params(epsilon=budget.epsilon, delta=budget.delta, simulation_seed=simulation_seed)
        statement = replace(
            winner.billboard_.statement,
            epsilon=budget.epsilon,
            delta=budget.delta,
            events=tuple(paid),
            simulated=winner.billboard_.statement.simulated or gate is not Gate,
            parameters={**winner.billboard_.statement.parameters, "tuned": _in_words(len(candidates), len(groups))},
        )
        winner.billboard_ = name_each_other(replace(winner.billboard_, statement=statement), book)
    if simulation_seed is None and gate is Gate:
        tally.note_fit(users, tuple(paid), budget.delta, paid_by_ledger=ledger is not None)
    released, told = (
        _after_repetitions(once, groups, budget) if repeats else _after_split(scores, shares, groups, budget)
    )
    return Tuned(
        best=winner,
        best_settings=candidates[best],
        candidates=tuple(
            Candidate(
                candidates[at], *released.get(at, (math.nan, math.nan)), number, dict(group.settings) != candidates[at]
            )
            for at, number, group in _in_order(groups)
        ),
        metric=scores.metric,
        clip=scores.clip,
        **told,
    )


def _in_order(groups: list[Group]) -> list[tuple[int, int, Group]]:
    """Every candidate's place, in order, with the number of the fit that serves it and what else that fit serves."""
    found = [(at, number, group) for number, group in enumerate(groups, 1) for at in group.members]
    return sorted(found, key=lambda one: one[0])


def _repeats(
    way: str,
    budget: Budget,
    groups: list[Group],
    shares: Shares,
    *,
    watched: bool,
    ledger: Ledger | SharedLedger | None,
) -> bool:
    """Whether to repeat and select, by public numbers alone."""
    if way not in ("auto", "split", "repeat"):
        raise InputError(f"way must be 'auto', 'split' or 'repeat', got {way!r}.")
    possible = not isinstance(ledger, SharedLedger) and not watched
    if way == "repeat" and not possible:
        raise InputError("repeat-and-select goes with neither a durable ledger, which adds up μ², nor refit= or gate=.")
    if way != "auto" or not possible or len(groups) == 1:
        return way == "repeat"
    return repeated_mu(budget, len(groups)) > MUCH_MORE * budget.mu * shares.each**0.5


Released = dict[int, tuple[float, float]]  # by a candidate's place: its score, and the standard deviation of its noise


def _after_split(
    scores: Scores, shares: Shares, groups: list[Group], budget: Budget
) -> tuple[Released, dict[str, Any]]:
    """What is known of candidates, and what is told of the way. Others are compared with the first, which has no noise."""
    released = {at: (float(value), scores.std if at else 0.0) for at, value in enumerate(scores.value)}
    return released, {
        "way": "split",
        "why": _why(len(released), len(groups), shares, budget),
        "shares": {"each fit": shares.each, "choice": shares.choice, "last fit": shares.last},
    }


def _after_repetitions(once: Winner, groups: list[Group], budget: Budget) -> tuple[Released, dict[str, Any]]:
    """The same. Nothing is known of what did not win."""
    (members,) = (group.members for group in groups if once.best in group.members)
    scores = zip(members, once.scores.value[1:].tolist(), strict=True)
    return {at: (score, once.scores.std) for at, score in scores}, {
        "way": "repeat-and-select",
        "why": f"Repeat-and-select (arXiv 2110.03620): about {once.event.mean:.0f} repetitions of settings drawn at random, each "
        f"with μ = {once.event.mu:.2g} of {budget.mu:.2g}; {len(groups)} fits side by side would have had "
        f"{budget.mu * Shares.of(len(groups), True).each ** 0.5:.2g} each. Of what did not win nothing is known, nor how "
        "many repetitions there were.",
        "shares": {"each repetition": (once.event.mu / budget.mu) ** 2},
    }


def _checked(estimator: Any, grid: Any, users: Any) -> list[dict[str, Any]]:
    known = estimator.get_params(deep=False)
    if not isinstance(estimator, PersonalModel) or not {"epsilon", "delta"} <= set(known):
        raise InputError(
            f"{type(estimator).__name__} does not declare ε and δ, which a search divides among its fits. PrivateFedRep, "
            "PrivateFedRepClassifier, PrivateAltMin and SingleModel do."
        )
    if not isinstance(users, Population) or not users.features_are_known or not users.rows_are_here:
        raise InputError("give tune a Users object with its rows here: Users.from_arrays or Users.from_table.")
    if known.get("budgets") is not None or users.budgets is not None:
        raise InputError("people with budgets of their own cannot be tuned on yet. Tune on those who have the same ε.")
    if known.get("device", "cpu") != "cpu":
        raise InputError(
            "tune holds rows out in this processor's memory; leave device out, and fit the winner with it."
        )
    candidates = candidates_in(estimator, grid)
    for settings in candidates:
        require(clone(estimator).set_params(**settings).variant_for(users), {"evaluation": True})
    return candidates


def _in_words(n_candidates: int, n_groups: int) -> str:
    return f"the best of {n_candidates} candidates, from {n_groups} fit{'s' * (n_groups > 1)} within this budget"


def _why(n_candidates: int, n_groups: int, shares: Shares, budget: Budget) -> str:
    free = n_candidates - n_groups
    fits = f"{n_groups} fit{'s' * (n_groups > 1)} ({shares.each:.1%}{' each' * (n_groups > 1)})"
    words = f"Split: μ² is divided among {fits}, the choice ({shares.choice:.1%})"
    words += (
        f" and a last fit of the winner on all rows ({shares.last:.1%})."
        if shares.last
        else "; the winner's fit is kept."
    )
    if free:
        words += f" {free} of {n_candidates} candidates are read off other fits' released spectra and cost nothing."
    if n_groups > 1:
        words += " " + _other_way(n_groups, shares, budget)
    return words


def _other_way(n_groups: int, shares: Shares, budget: Budget) -> str:
    """What repeat-and-select would leave, by public numbers."""
    each, last = (budget.mu * share**0.5 for share in (shares.each, shares.last))
    here = f"{each:.2g} to each and {last:.2g} to the last" if last else f"{each:.2g} to each"
    return (
        f"Of μ = {budget.mu:.2g}, split leaves {here}; repeat-and-select, which no ledger can add up, would leave "
        f"{repeated_mu(budget, n_groups):.2g} to each, and has no last fit."
    )
