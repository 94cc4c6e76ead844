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
from commonground.billboard.board import name_each_other
from commonground.billboard.statement import Statement
from commonground.data.population import Population
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.estimators.capabilities import require
from commonground.gate import Gate, Randomness, randomness_from
from commonground.ledger import InMemoryLedger, Ledger, SharedLedger, reserved
from commonground.tally import tally
from commonground.tuning.candidates import candidates_in, groups_of
from commonground.tuning.hold_out import hold_out
from commonground.tuning.parts import Shares, is_repeated
from commonground.tuning.repeat import repeat_and_select
from commonground.tuning.result import Candidate, Tuned
from commonground.tuning.search import Found, Search
from commonground.tuning.split import Split

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
    audited = gate is not Gate
    if audited and ledger is not None:
        raise InputError("gate= is for audits, which no ledger pays for. Tune without it.")
    if simulation_seed is not None:
        randomness_from(simulation_seed)  # refuses what is no seed
    groups = groups_of(estimator, candidates)
    budget = Budget(estimator.epsilon if epsilon is None else epsilon, estimator.delta if delta is None else delta)
    search = Search(estimator, candidates, groups, budget, simulation_seed, verbose, gate)
    shares = Shares.of(len(groups), len(groups) > 1 if refit is None else bool(refit))
    possible = not (audited or refit is not None or isinstance(ledger, SharedLedger))
    repeat = is_repeated(way, budget, len(groups), shares, possible)
    rows = hold_out(users, EVERY)
    with reserved(ledger, budget, "tuning") as book, tally.paused():
        pays = InMemoryLedger(budget) if book is None else book
        found = repeat_and_select(search, pays, users, rows) if repeat else Split(search, shares, pays).run(users, rows)
        winner = found.model.set_params(epsilon=budget.epsilon, delta=budget.delta, simulation_seed=simulation_seed)
        board = replace(winner.billboard_, statement=_about_all(search, found, winner.billboard_.statement))
        winner.billboard_ = name_each_other(board, book)
    if simulation_seed is None and not audited:
        tally.note_fit(users, found.paid, budget.delta, paid_by_ledger=ledger is not None)
    return Tuned(
        best=winner,
        best_settings=candidates[found.best],
        candidates=tuple(_told(search, found, at) for at in range(len(candidates))),
        metric=found.scores.metric,
        clip=found.scores.clip,
        way=found.way,
        why=found.why,
        shares=found.shares,
    )


def _about_all(search: Search, found: Found, last: Statement) -> Statement:
    """The statement of the winner's ``last`` fit as one of the whole search."""
    n_fits = len(search.groups)
    words = f"the best of {len(search.candidates)} candidates, from {n_fits} fit{'s' * (n_fits > 1)} within this budget"
    return replace(
        last,
        epsilon=search.budget.epsilon,
        delta=search.budget.delta,
        events=found.paid,
        simulated=last.simulated or search.gate is not Gate,
        parameters={**last.parameters, "tuned": words},
    )


def _told(search: Search, found: Found, candidate: int) -> Candidate:
    """What may be told of a candidate."""
    settings, (number, group) = search.candidates[candidate], search.group_of(candidate)
    score, std = found.released.get(candidate, (math.nan, math.nan))
    return Candidate(settings, score, std, number + 1, dict(group.settings) != settings)


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
