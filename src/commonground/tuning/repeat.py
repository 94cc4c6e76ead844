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

from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import epsilon_within
from commonground.accounting.selection import RepeatedSelectionEvent
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
from commonground.tuning.parts import CHOICE, TRIES, Shares, part_of, repeated_mu
from commonground.tuning.score import Scores, own_errors, release_scores
from commonground.tuning.search import Found, Search


@dataclass(frozen=True)
class Repetition:
    """One fit, and the best of the candidates that it serves."""

    model: Any  # fitted
    best: int  # its place among the candidates
    score: float  # released
    scores: Scores  # of all candidates of its fit


def repeat_and_select(search: Search, book: Ledger, people: Population, rows: HeldOut) -> Found:
    """Charge, draw, repeat; keep the best."""
    budget, n_groups, seed = search.budget, len(search.groups), search.seed
    mu = repeated_mu(budget, n_groups)
    one = Budget(epsilon_within(mu, budget.delta), budget.delta)
    event = RepeatedSelectionEvent("fit and score", mu, float(TRIES * n_groups), n_groups, seed is not None)
    check_budget(budget.epsilon, budget.delta, people.n_users)  # warns, once
    gate = Gate(book, randomness_from(seed))
    winner: Repetition | None = None
    with tally.paused(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how often they are given would tell how often it was repeated
        for number, place in enumerate(gate.repetitions(event)):
            inner = None if seed is None else 1000 * seed + number
            found = _repeat_once(search, search.groups[place], one, inner, rows)
            if winner is None or found.score < winner.score:
                winner = found
    assert winner is not None
    _, group = search.group_of(winner.best)
    board = search.boards_of(group, winner.model)[winner.best]
    model = search.with_board(winner.model, winner.best, board, people)
    why = (
        f"Repeat-and-select (arXiv 2110.03620): about {event.mean:.0f} repetitions of settings drawn at random, each "
        f"with μ = {mu:.2g} of {budget.mu:.2g}; {n_groups} fits side by side would have had "
        f"{budget.mu * Shares.of(n_groups, True).each ** 0.5:.2g} each. Of what did not win nothing is known, nor how "
        "many repetitions there were."
    )
    shares = {"each repetition": (mu / budget.mu) ** 2}
    released = _scores_of(group, winner)
    return Found(model, winner.best, (event,), winner.scores, released, "repeat-and-select", why, shares)


def _scores_of(group: Group, winner: Repetition) -> dict[int, tuple[float, float]]:
    """Those of the winning fit, by place. Nothing is known of what did not win."""
    scores = zip(group.members, winner.scores.value[1:].tolist(), strict=True)
    return {at: (score, winner.scores.std) for at, score in scores}


def _repeat_once(search: Search, group: Group, budget: Budget, seed: int | None, rows: HeldOut) -> Repetition:
    """One repetition: a fit and the scores of what it gives, charged to a book of its own that holds μ."""
    whole = InMemoryLedger(budget)
    model = search.model(
        group.settings, part_of(budget, 1.0 - CHOICE), simulation_seed=seed, keep_heads=False, verbose=False
    )
    model.fit(rows.seen, ledger=whole)
    if not all(released.cost.mu for released in whole.events):
        raise BudgetError("repeat-and-select is for fits with Gaussian noise alone. Give way='split'.")
    boards = search.boards_of(group, model)
    errors, metric = own_errors([boards[at] for at in group.members], rows)
    opened = Gate(whole, randomness_from(None if seed is None else seed + 500))
    compared = np.column_stack([_reference(model.billboard_, rows), errors])
    scores = release_scores(compared, metric, opened, part_of(budget, CHOICE).mu)
    best = int(np.argmin(scores.value[1:]))
    return Repetition(model, group.members[best], float(scores.value[1 + best]), scores)


def _reference(board: Billboard, rows: HeldOut) -> np.ndarray:
    """(people,) what everybody's errors are compared with: her own, by the mean of her training rows. Private."""
    if kind_of(board) != "numbers":
        return np.zeros(rows.seen.n_users)
    means = np.concatenate([_own_means(block) for block in rows.seen.blocks()])
    found = np.zeros(rows.seen.n_users)
    with np.errstate(over="ignore", invalid="ignore"):
        for block in rows.asked.blocks():
            sizes = np.diff(block.offsets)
            who = block.person_of_row
            place = rows.position[block.first : block.first + block.n_users]
            squares = np.square(np.asarray(block.y, dtype=np.float64) - means[place][who])
            found[place] = np.bincount(who, squares, minlength=len(sizes)) / np.maximum(sizes, 1)
    return found


def _own_means(block: Any) -> np.ndarray:
    sizes = np.diff(block.offsets)
    sums = np.bincount(block.person_of_row, np.asarray(block.y, dtype=np.float64), minlength=len(sizes))
    return np.asarray(sums / np.maximum(sizes, 1))
