"""What somebody in a hurry overlooks, before budget is spent: in her table (``data.first_look``), and of model and ε with it."""

import warnings
from typing import Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.cli.models import MODELS
from commonground.data.first_look import all_rows, constant_label, label_in_words, look_at_columns, look_at_ids
from commonground.data.population import Population
from commonground.errors import InputError, PrivacyWarning, TableWarning
from commonground.heads.arithmetic import shared_scores

LARGEST_USUAL_EPSILON = 20.0  # ε: odds of e^20, hundreds of millions to one
# A squared error against what is expected of it, in the middle: thirty standard deviations.
LARGEST_USUAL_SURPRISE = 1_000.0
# Answers against labels about a person's own model: a model would explain all but a part in 100,000.
LARGEST_USUAL_WIDTH = 300.0
# For each number in a head. With fewer rows, heads of 2 directions were no better than one number for everybody: 1,500 people,
# 6 features, ε = 4; huber 2.6 at 4 rows, 1.24 at 6, 1.01 at 9, where that one number had 1.66, 1.23 and 1.55.
ROWS_A_NUMBER = 3


def look_at_rows(people: Population, numbers_each: int, what: str) -> None:
    """Warn where half of the people have too few rows for a head that nothing but these rows holds.

    ``numbers_each``: directions, and an intercept. ``what``: the model or board, as the sentence begins.
    """
    block = all_rows(people)
    if block is None or numbers_each <= 1:
        return
    middle = int(np.median(np.diff(block.offsets)))
    if middle < ROWS_A_NUMBER * numbers_each:
        warnings.warn(
            f"{what} fits the {numbers_each} numbers of everybody's head to her own rows alone, and half of these people have "
            f"{middle} rows or fewer: predictions can be far worse than one number for everybody. It is meant for "
            f"{ROWS_A_NUMBER * numbers_each} rows each and more; with fewer take --model fedrep, whose heads are held by a "
            "released prior, or a smaller --rank.",
            TableWarning,
            stacklevel=3,
        )


def look_at_labels(board: Billboard, people: Population) -> None:
    """Warn where labels lie much farther from the shared answers, or nearer, than released spread and noise say: another unit?"""
    block = all_rows(people)
    if block is None or board.class_scores is not None:
        return
    shared = shared_scores(block.X, board.mean, board.intercept)
    look_at_answers(board, shared)
    if board.spread is None or board.noise is None or board.log_odds:
        return
    own = np.asarray(block.X @ board.embedding)
    if board.fit_intercept:
        own = np.column_stack([np.ones(len(own)), own])
    expected = board.noise + ((own @ board.spread) * own).sum(axis=1)
    with np.errstate(over="ignore"):
        surprise = float(np.median((block.y - shared) ** 2 / expected))
    if not 1 / LARGEST_USUAL_SURPRISE < surprise < LARGEST_USUAL_SURPRISE:
        how = "dozens of times farther from" if surprise > 1 else "dozens of times nearer to"
        warnings.warn(
            f"labels lie {how} the board's shared answers than it expects. Either features or labels are in other units than in "
            "training, or the board is mostly noise, as few people at a small ε make it: `commonground evaluate` tells.",
            TableWarning,
            stacklevel=3,
        )


def look_at_answers(board: Billboard, scores: np.ndarray) -> None:
    """Warn where answers differ by hundreds of times what labels differ by about a person's own model: another unit?"""
    if board.class_scores is not None:
        return
    if board.log_odds:
        width = 1.0
    elif board.spread is None or board.noise is None:
        return
    else:
        S = board.spread
        level = S[0, 0] - S[0, 1:] @ np.linalg.pinv(S[1:, 1:]) @ S[1:, 0] if board.fit_intercept else 0.0
        width = float(np.sqrt(board.noise + max(level, 0.0)))
    apart = float(np.median(np.abs(scores - np.median(scores))))
    if apart > LARGEST_USUAL_WIDTH * width:
        warnings.warn(
            f"answers lie {apart / width:.3g} times as far apart as labels lie about a person's own model, by the board. Are "
            "features in the same units as in training? A range in the schema would hold them.",
            TableWarning,
            stacklevel=3,
        )


def look_at_people(people: Population, model: str, epsilon: float, estimator: Any) -> None:
    """Refuse what cannot be meant, warn of what is hardly meant; ε does not matter where people have budgets of their own."""
    if epsilon > LARGEST_USUAL_EPSILON and people.budgets is None and model not in ("own", "nonprivate"):
        warnings.warn(
            f"ε = {epsilon:g} promises next to nothing: what is published may be e^{epsilon:g} times as likely with a person's "
            "rows as with any others. Common choices lie between 0.1 and 8.",
            PrivacyWarning,
            stacklevel=2,
        )
    if people.n_users < 2:
        raise InputError(
            "there is only one person; a guarantee for each among many needs at least two. Check the user ids."
        )
    if not people.rows_are_here:
        return
    known = people.known_part
    look_at_ids(people if known is None else known)
    block = None if known is None else all_rows(known)
    if known is None or block is None:
        return
    people = known
    if finding := constant_label(people, block):
        raise InputError(finding)
    _look_at_classes(people, block.y, model)
    look_at_columns(people, block)
    if MODELS[model].heads_by_own_rows:
        look_at_rows(people, int(estimator.rank) + int(estimator.fit_intercept), f"--model {model}")


def _look_at_classes(people: Population, y: np.ndarray, model: str) -> None:
    meant_for = MODELS[model].labels
    if people.schema is not None and people.schema.label.is_class:
        if meant_for != "two classes":
            warnings.warn(
                f"{label_in_words(people)} is yes or no, or one of two classes. --model classifier answers with its probability, "
                "too; this model fits numbers and tells the nearer class alone.",
                TableWarning,
                stacklevel=3,
            )
        return
    if people.schema is not None and people.schema.label.kind != "number":
        return
    two = bool(np.isin(y, (0.0, 1.0)).all() or np.isin(y, (-1.0, 1.0)).all())
    if meant_for == "two classes" and not two:
        raise InputError(
            f"--model {model} needs labels 0 and 1, or −1 and 1; {label_in_words(people)} has others. "
            "For classes by their names, or several, give a --schema whose label is a category; for numbers "
            "--model fedrep."
        )
    if meant_for == "numbers" and two:
        warnings.warn(
            f"{label_in_words(people)} holds two numbers only. --model classifier answers with one of them and its probability; "
            "this model predicts numbers.",
            TableWarning,
            stacklevel=3,
        )
