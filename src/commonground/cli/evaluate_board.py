"""`commonground evaluate BOARD TABLE`: errors of a board, and of people's heads, on held-out rows; released at a charge."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.billboard.files import STATEMENT
from commonground.cli.options import given, pair, print_json, split
from commonground.cli.tables import newcomers_in
from commonground.cli.use import heads_in
from commonground.data.ids import in_the_type_of, plain_list
from commonground.defaults import EVALUATION_EPSILON
from commonground.errors import InputError
from commonground.evaluation import evaluate

if TYPE_CHECKING:
    from commonground.ledger import Population


@dataclass(frozen=True)
class BoardAsked:
    """What was asked for at the command line."""

    board: Path
    table: str
    heads: Path | None
    user: str | None
    label: str | None
    item: str | None
    label_range: str | None
    metrics: str | None
    clip: float | None
    epsilon: float | None
    delta: float
    confidence: float
    internal: bool


def evaluate_board(
    asked: BoardAsked, ledger: str | None, population: str | None, misplaced: Mapping[str, Any], as_json: bool
) -> str:
    """Read, charge, release; the result in words, or nothing where it was printed as JSON."""
    wrong = given(misplaced)
    if asked.internal:
        wrong += given({"--ledger": ledger, "--population": population, "--epsilon": asked.epsilon})
    if wrong:
        why = "with --internal nothing is released or paid for" if asked.internal else "a board knows these"
        raise InputError(f"{', '.join(wrong)} does not go with this evaluation of a board: {why}. Leave it out.")
    board = Billboard.load(asked.board)
    payer = _payer(ledger, population, asked.board)
    people = newcomers_in(board, asked.table, asked.user, asked.label, asked.item)
    kept, position = None, None
    if asked.heads is not None:
        own = heads_in(asked.heads, board)
        ids = plain_list(people.ids)
        kept, position = own.table, own._places(in_the_type_of(own.ids, ids))
        if not (np.asarray(position) >= 0).any():
            raise InputError("none of these people has a head. Are ids written in the same way as for `personalize`?")
    found = evaluate(
        board,
        people,
        kept,
        position,
        epsilon=EVALUATION_EPSILON if asked.epsilon is None else asked.epsilon,
        delta=asked.delta,
        ledger=payer,
        internal=asked.internal,
        confidence=asked.confidence,
        metrics=split(asked.metrics),
        label_range=None if asked.label_range is None else pair(asked.label_range, "--label-range"),
        clip=asked.clip,
    )
    if as_json:
        print_json({"billboard": str(asked.board), **found.to_json()})
        return ""
    return str(found) if payer is None else f"{found}\n{payer.left_in_words()}"


def _payer(ledger: str | None, population: str | None, board: Path) -> "Population | None":
    from commonground.cli.ledger import population_in

    people = population_in(ledger, population)
    if people is not None:
        from commonground.billboard.in_ledger import refuse_older_than_boards

        refuse_older_than_boards(people, Path(board).absolute().parent)
    return people


def refuse_options_of_boards(table: str, asked: Mapping[str, Any], out: Path | None) -> None:
    """Before a table alone is evaluated."""
    wrong = given(asked)
    if wrong or (Path(table) / STATEMENT).exists():
        what = ", ".join(wrong) or f"{table} is a board, which"
        raise InputError(
            f"{what} belongs to `commonground evaluate BOARD TABLE`: give a board and a table of held-out rows."
        )
    if out is None:
        raise InputError("evaluating models on a table writes a table and a figure: give --out FOLDER.")
