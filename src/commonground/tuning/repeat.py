"""Tuning by repeat-and-select: settings drawn at random, a secret number of times; only the best is published.

A repetition fits one group of settings and releases the errors of its candidates, both within μ; the number of repetitions is
geometric. What the best costs together with all that is not published: ``accounting.selection`` (arXiv 2110.03620, Theorem 2).

**Guarantee.** Unit and neighbours are those of ``tune``; a repetition is private by its own μ, its setting drawn without data.
Scores of repetitions are compared with each other, so they are differences from something that is the same for all: for numbers,
everybody's error by the mean of her own training rows, which is local; else nothing. How many repetitions there were, and what
the others released, stays secret. How long the search takes is not protected.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.accounting.selection import RepeatedSelectionEvent, largest_mu
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.errors import BudgetError
from commonground.estimators.checks import check_budget
from commonground.evaluation.own_errors import kind_of
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger, Ledger
from commonground.tally import tally
from commonground.tuning.candidates import Group
from commonground.tuning.hold_out import HeldOut
from commonground.tuning.parts import part_of
from commonground.tuning.score import Scores, own_errors, release_scores
from commonground.tuning.split import CHOICE, boards_of, with_board

TRIES = 3  # expected repetitions for each group: a given one is left out with probability 1/4


@dataclass(frozen=True)
class Winner:
    """The one repetition that is published."""

    model: Any  # fitted
    best: int  # its place among the candidates
    score: float  # released
    scores: Scores  # of all candidates of its fit
    event: RepeatedSelectionEvent  # what all of it cost


def repeated_mu(budget: Budget, n_groups: int) -> float:
    """μ of one repetition, so that the best of them stays within the budget."""
    return largest_mu(budget.epsilon, budget.delta, float(TRIES * n_groups), 1.0)


def repeat_and_select(
    estimator: Any, candidates: list[dict[str, Any]], groups: list[Group], budget: Budget, book: Ledger, seed: int | None,
    people: Population, rows: HeldOut,
) -> Winner:  # fmt: skip
    """Charge, draw, repeat; keep the best."""
    mu = repeated_mu(budget, len(groups))
    one = Budget(gaussian_epsilon(mu * (1 - 1e-7), budget.delta) * (1 - 1e-7), budget.delta)
    event = RepeatedSelectionEvent("fit and score", mu, float(TRIES * len(groups)), len(groups), seed is not None)
    check_budget(budget.epsilon, budget.delta, people.n_users)  # warns, once
    gate = Gate(book, randomness_from(seed))
    winner: Winner | None = None
    with tally.paused(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how often they are given would tell how often it was repeated
        for number, place in enumerate(gate.repetitions(event)):
            inner = None if seed is None else 1000 * seed + number
            found = _once(estimator, candidates, groups[place], one, inner, event, rows)
            if winner is None or found.score < winner.score:
                winner = found
    assert winner is not None
    board = boards_of(candidates, _group_of(groups, winner.best), winner.model)[winner.best]
    model = with_board(winner.model, candidates[winner.best], board, people)
    return Winner(model, winner.best, winner.score, winner.scores, event)


def _once(
    estimator: Any,
    candidates: list[dict[str, Any]],
    group: Group,
    budget: Budget,
    seed: int | None,
    event: RepeatedSelectionEvent,
    rows: HeldOut,
) -> Winner:
    """One repetition: a fit and the scores of what it gives, charged to a book of its own that holds μ."""
    whole = InMemoryLedger(budget)
    share = part_of(budget, 1.0 - CHOICE)
    model = clone(estimator).set_params(**group.settings, epsilon=share.epsilon, delta=share.delta)
    changes = {"simulation_seed": seed, "keep_heads": False, "verbose": False}
    model.set_params(**{name: value for name, value in changes.items() if name in model.get_params(deep=False)})
    model.fit(rows.seen, ledger=whole)
    if not all(released.cost.mu for released in whole.events):
        raise BudgetError("repeat-and-select is for fits with Gaussian noise alone. Give way='split'.")
    boards = boards_of(candidates, group, model)
    errors, metric = own_errors([boards[at] for at in group.members], rows)
    opened = Gate(whole, randomness_from(None if seed is None else seed + 500))
    compared = np.column_stack([_reference(model.billboard_, rows), errors])
    scores = release_scores(compared, metric, opened, part_of(budget, CHOICE).mu)
    best = int(np.argmin(scores.value[1:]))
    return Winner(model, group.members[best], float(scores.value[1 + best]), scores, event)


def _reference(board: Billboard, rows: HeldOut) -> np.ndarray:
    """(people,) what everybody's errors are compared with: her own, by the mean of her training rows. Private."""
    if kind_of(board) != "numbers":
        return np.zeros(rows.seen.n_users)
    means = np.concatenate([_own_means(block) for block in rows.seen.blocks()])
    found = np.zeros(rows.seen.n_users)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rows.asked.blocks():
            sizes = np.diff(block.offsets)
            who = np.repeat(np.arange(len(sizes)), sizes)
            place = rows.position[block.first : block.first + block.n_users]
            squares = np.square(np.asarray(block.y, dtype=np.float64) - means[place][who])
            found[place] = np.bincount(who, squares, minlength=len(sizes)) / np.maximum(sizes, 1)
    return found


def _own_means(block: Any) -> np.ndarray:
    sizes = np.diff(block.offsets)
    who = np.repeat(np.arange(len(sizes)), sizes)
    return np.asarray(
        np.bincount(who, np.asarray(block.y, dtype=np.float64), minlength=len(sizes)) / np.maximum(sizes, 1)
    )


def _group_of(groups: list[Group], candidate: int) -> Group:
    return next(group for group in groups if candidate in group.members)
