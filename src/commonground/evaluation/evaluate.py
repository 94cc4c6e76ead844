"""Evaluate a board and its people's heads on held-out rows: charged, released, with the interval that the noise leaves."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import DELTA, EVALUATION_EPSILON
from commonground.errors import InputError
from commonground.evaluation.own_errors import Asker, metrics_for
from commonground.evaluation.release import Limit, exact_measures, release_measures
from commonground.evaluation.result import Evaluation
from commonground.gate import Gate, randomness_from
from commonground.heads.table import HeadTable
from commonground.ledger import BookedLedger, InMemoryLedger, Ledger, SharedLedger, reserved
from commonground.tally import tally


def evaluate(
    board: Billboard,
    people: Population,
    heads: HeadTable | None = None,
    position: np.ndarray | None = None,
    *,
    epsilon: float = EVALUATION_EPSILON,
    delta: float = DELTA,
    ledger: Ledger | SharedLedger | None = None,
    internal: bool = False,
    confidence: float = 0.95,
    metrics: Sequence[str] | None = None,
    label_range: tuple[float, float] | None = None,
    clip: float | None = None,
    weights: np.ndarray | None = None,
    simulation_seed: int | None = None,
) -> Evaluation:
    """The errors of ``board`` on the rows of ``people``, none of which it, or anybody's head, was made from.

    Other people's answers must not depend on a person's rows in any other way than by the board.

    Parameters
    ----------
    board : Billboard
        What answers.
    people : Population
        With the rows that were held out.
    heads : HeadTable or None, default=None
        Made from other rows; None: everybody is given the shared prediction.
    position : array of shape (n_users,), or None, default=None
        Where each of them stands in ``heads``; -1: she has none, and is given the shared prediction. None: nobody has one.
    epsilon, delta : float, default=0.1 and 1e-6
        For this evaluation alone.
    ledger : population of a ``DurableLedger``, default=None
        Pays for it.
    internal : bool, default=False
        Exact numbers, NOT private; nothing is charged.
    confidence : float, default=0.95
        Of each interval.
    metrics : sequence of str, or None, default=None
        Of "rmse", "mae", "coverage", or "log_loss", "accuracy", "auc"; each further one adds noise to all.
    label_range : tuple of two floats, or None, default=None
        Public, where the schema has none: answers are kept within, and no row's error is larger.
    clip : float or None, default=None
        Public: the largest error of a person that counts, in the unit of labels. None: read off a release.
    weights : array of shape (n_users,), or None, default=None
        From 0 to 1: how much each counts, and what she pays of the cost, where people have budgets of their own.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments; the result is then not private.

    Returns
    -------
    Evaluation
    """
    _check(board, people, internal, confidence)
    asked = metrics_for(board, heads, metrics)
    bounds = _bounds(board, label_range)
    limit = _limit(clip, bounds)
    if board.statement.budgets is not None and weights is None and not internal:
        raise InputError(
            "people of this board have budgets of their own, and who has how much is not in it: everybody would pay in full. Ask "
            "the model that was fitted (model.evaluate), or give internal=True (--internal) for numbers that are not private."
        )
    n_users, counted = people.n_users, position is not None
    if position is not None:
        # Who was trained on and has no held-out row is one of the people, too: that she has none is private.
        trained = board.statement.n_users if heads is None else len(heads)
        n_users = trained + int((position < 0).sum())
    if heads is None or position is None:
        heads, position = None, np.full(people.n_users, -1)
    weights = np.ones(people.n_users) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    if weights.shape != (people.n_users,) or not ((weights >= 0.0) & (weights <= 1.0)).all():
        raise InputError(f"weights must be a number from 0 to 1 for each of {people.n_users} people.")
    errors = Asker(board, heads, asked, bounds).errors(people, position, weights)
    told: dict[str, Any] = {
        "of": board.statement.algorithm,
        "by": "the shared prediction" if heads is None else "people's own heads",
        "n_users": n_users,
        "presence_is_private": counted,
        "delta": float(delta),
        "confidence": float(confidence),
    }
    if internal:
        return Evaluation(
            exact_measures(errors), epsilon=math.inf, clip=None, clip_released=False, events=(), simulated=False, **told
        )
    budget = Budget(epsilon, delta)
    with reserved(ledger, budget, "evaluation") as book:
        gate = Gate(InMemoryLedger(budget) if book is None else book, randomness_from(simulation_seed))
        measures, used = release_measures(errors, n_users, limit, budget, gate, confidence)
    if ledger is None:
        tally.note(people, gate.events)
    found = Evaluation(
        measures,
        epsilon=budget.epsilon,
        clip=None if used is None else used.size,
        clip_released=used is not None and used.released,
        events=gate.events,
        simulated=gate.randomness.simulated or board.statement.simulated,
        **told,
    )
    return replace(found, ledger=book.entry) if isinstance(book, BookedLedger) else found


def _check(board: Billboard, people: Population, internal: bool, confidence: float) -> None:
    board.require_one_number("evaluate")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence must lie between 0 and 1, got {confidence!r}. 0.95 is common.")
    if not people.features_are_known:
        raise InputError(
            "the held-out table has categories whose values are not known. Read it by the board's schema: "
            "Users.from_table(table, schema=model.billboard_.schema)."
        )
    if not people.rows_are_here:
        raise InputError(
            "held-out rows must be here; another engine has those. Read them with Users.from_table(table)."
        )
    if people.n_features != board.n_features:
        raise InputError(
            f"the held-out rows have {people.n_features} features, and the board {board.n_features}. Read them as it was trained."
        )
    if not internal and not board.statement.private:
        raise InputError(
            "this model is not private: everybody's answers depend on everybody's rows, so no noise on their errors protects "
            "anybody. Give internal=True (--internal) for the exact numbers, which are not private either."
        )


def _bounds(board: Billboard, label_range: tuple[float, float] | None) -> tuple[float, float] | None:
    """The public range of labels: given, or the schema's."""
    if label_range is None:
        return None if board.schema is None or board.log_odds else board.schema.label.range
    low, high = label_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"label_range must be two finite numbers, the lower first, got {label_range!r}.")
    return float(low), float(high)


def _limit(clip: float | None, bounds: tuple[float, float] | None) -> Limit:
    if clip is not None and not (math.isfinite(clip) and clip > 0):
        raise InputError(f"clip must be a finite number > 0, in the unit of labels, got {clip!r}.")
    return Limit(None if clip is None else float(clip), None if bounds is None else bounds[1] - bounds[0])
