"""Everybody's own errors on her own held-out rows: from her head, or the shared prediction where she has none. Private."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from commonground.billboard.board import Billboard
from commonground.clipping.shares import MassSums
from commonground.data.population import Block, Population
from commonground.errors import InputError
from commonground.heads.arithmetic import shared_scores
from commonground.heads.table import HeadTable, interval_of, probabilities

LEVEL = 0.9  # of the intervals whose coverage is told
LEAST_PROBABILITY = 0.01  # log loss is that of probabilities kept within this and one minus this
MOST_LOG_LOSS = float(-np.log(LEAST_PROBABILITY))
SCORE_EDGES = np.arange(-4.0, 4.01, 0.5)  # log-odds: cells of the ROC curve
CELLS = len(SCORE_EDGES) + 1

MEANS = ("rmse", "mae", "coverage", "log_loss", "accuracy")  # means over people; "auc" is not one
OF_KIND = {
    "numbers": ("rmse", "mae", "coverage"),
    "log-odds": ("log_loss", "accuracy", "auc"),
    "signs": ("accuracy", "auc"),
    "classes": ("accuracy",),
}
BY_DEFAULT = {**OF_KIND, "numbers": ("rmse", "coverage")}


def kind_of(board: Billboard) -> str:
    """What this board's answers are: numbers, log-odds, signs, or places in a list of classes."""
    if board.log_odds:
        return "log-odds"
    if board.answers_by_sign:
        return "signs"
    listed = board.schema is not None and board.schema.label.is_class
    return "classes" if listed else "numbers"


def metrics_for(board: Billboard, heads: HeadTable | None, asked: Sequence[str] | None) -> tuple[str, ...]:
    """What can be told of this board: those asked for, or the usual ones."""
    kind = kind_of(board)
    known = tuple(name for name in OF_KIND[kind] if name != "coverage" or _knows_intervals(board, heads))
    if asked is None:
        return tuple(name for name in BY_DEFAULT[kind] if name in known)
    asked = (asked,) if isinstance(asked, str) else tuple(asked)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked:
        raise InputError(
            f"metrics must be some of {', '.join(known)} for this model, whose answers are {kind}; got {asked!r}."
        )
    return tuple(name for name in known if name in asked)


def _knows_intervals(board: Billboard, heads: HeadTable | None) -> bool:
    return heads is not None and heads.doubts is not None and board.spread is not None and board.noise is not None


@dataclass(frozen=True, repr=False)
class OwnErrors:
    """Private: person j's are row j's; NaN where she has no held-out row, or none that gives a number."""

    of: dict[str, np.ndarray]  # metric → (people,): mean squared errors for "rmse"
    weights: np.ndarray  # (people,) how much each counts
    masses: MassSums | None  # of scores by label, for the ROC curve

    def __repr__(self) -> str:
        return "<OwnErrors: private>"

    @property
    def n_users(self) -> int:
        return len(self.weights)


@dataclass(frozen=True)
class Asker:
    """Asks a board and its people's heads about held-out rows, block by block."""

    board: Billboard
    heads: HeadTable | None  # none: everybody gets the shared prediction
    metrics: tuple[str, ...]
    # Public: answers are kept within, and no error counts for more than its width.
    label_range: tuple[float, float] | None = None
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", kind_of(self.board))

    def errors(self, people: Population, position: np.ndarray, weights: np.ndarray) -> OwnErrors:
        """Of everybody, given where each stands in ``heads`` (-1: nowhere) and how much she counts."""
        found = {name: np.full(people.n_users, np.nan) for name in self.metrics if name in MEANS}
        masses = None
        everybody = people if people.weights is None else people.weighted(np.ones(people.n_users))
        for block in everybody.blocks():
            here = slice(block.first, block.first + block.n_users)
            rows = self._rows(block, position[here])
            for name, values in found.items():
                values[here] = _means(rows[name], block)
            if "auc" in self.metrics:
                some = MassSums.of(_cells(rows["cell"].astype(np.int64), rows["known"], block), weights[here])
                masses = some if masses is None else masses + some
        return OwnErrors(found, weights, masses)

    def _rows(self, block: Block, position: np.ndarray) -> dict[str, np.ndarray]:
        """What each row says, by metric."""
        board, heads = self.board, self.heads
        at = np.repeat(position, np.diff(block.offsets))
        labels = np.asarray(block.y, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scores = (
                shared_scores(block.X, board.mean, board.intercept)
                if heads is None
                else heads.predict(board, block.X, at)
            )
            if self.kind == "numbers":
                return self._of_numbers(block, at, scores, labels)
            if self.kind == "classes":
                last = len(board.schema.label.values) - 1 if board.schema and board.schema.label.values else 1
                right = np.clip(np.rint(scores), 0, last) == labels
                return {"accuracy": np.where(np.isnan(scores + labels), np.nan, right)}
            return self._of_signs(block, at, scores, labels)

    def _of_numbers(
        self, block: Block, at: np.ndarray, scores: np.ndarray, labels: np.ndarray
    ) -> dict[str, np.ndarray]:
        answers = self.board.in_label_range(scores)
        if self.label_range is not None:
            answers = np.clip(answers, *self.label_range)
        apart = np.abs(answers - labels)
        if self.label_range is not None:
            apart = np.minimum(apart, self.label_range[1] - self.label_range[0])
        rows = {"mae": apart, "rmse": apart**2}
        if "coverage" in self.metrics:
            assert self.heads is not None
            low, high = interval_of(answers, self.heads.std(self.board, block.X, at), LEVEL).T
            rows["coverage"] = np.where(np.isnan(low + high + labels), np.nan, (low <= labels) & (labels <= high))
        return rows

    def _of_signs(self, block: Block, at: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
        yes, known = labels > 0.0, ~np.isnan(scores + labels)
        doubt = np.zeros(len(labels))
        if self.kind == "log-odds" and _knows_intervals(self.board, self.heads):
            assert self.heads is not None
            doubt = self.heads.std(self.board, block.X, at)
        chance = probabilities(scores, doubt)[:, 1]
        known &= ~np.isnan(chance)
        kept = np.clip(chance, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        cell = np.searchsorted(SCORE_EDGES, np.log(kept / (1.0 - kept)) if self.kind == "log-odds" else scores)
        return {
            "accuracy": np.where(known, (scores > 0.0) == yes, np.nan),
            "log_loss": np.where(known, -np.log(np.where(yes, kept, 1.0 - kept)), np.nan),
            "cell": cell + CELLS * yes,
            "known": known,
        }


def _means(rows: np.ndarray, block: Block) -> np.ndarray:
    """Everybody's mean over her own rows, added up in their order; NaN for nobody's."""
    sizes = np.diff(block.offsets)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.bincount(block.person_of_row, np.asarray(rows, float), minlength=len(sizes))
        return np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)


def _cells(cell: np.ndarray, known: np.ndarray, block: Block) -> np.ndarray:
    """(people, 2·CELLS) how many of her rows fall into which cell: those of no first, then those of yes."""
    who = block.person_of_row
    flat = np.bincount(who[known] * (2 * CELLS) + cell[known], minlength=block.n_users * 2 * CELLS)
    return flat.reshape(block.n_users, 2 * CELLS).astype(np.float64)
