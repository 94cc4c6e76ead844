"""Who gains: errors on rows that heads did not see, person by person. PRIVATE: from rows as they are, for the operator alone.

Of each person with two rows or more a quarter of her rows, at least one, is held out; her head is made from the others, as she
would make it. Beside it the shared prediction, and a model of her own rows alone.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from commonground.data.population import Population
from commonground.data.users import Block
from commonground.errors import InputError
from commonground.heads.arithmetic import row_scores, shared_scores
from commonground.heads.ridge import fit_heads
from commonground.heads.table import probabilities
from commonground.report.drawing import figure, histogram, lines_over
from commonground.report.html import Html, element, paragraph, percent, section, table

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard

LOWEST = (1, 2, 4, 8, 16, 32, 64)  # numbers of own rows from which groups begin
EVERY = 4  # one row in so many is held out
LEVELS = (0.5, 0.8, 0.9, 0.95)
MODELS = ("own head", "shared prediction", "own data alone")
FEWEST_DRAWN = 10  # groups of fewer people are not drawn


@dataclass(frozen=True, repr=False)
class Gains:
    """Private: about people's rows as they are."""

    own_rows: np.ndarray  # (people,) rows that her head saw
    errors: np.ndarray  # (people, 3) mean loss on her held-out rows, by model
    classes: bool  # losses are wrong classes, not squares
    calibration: list[tuple[float, float, int]]  # (mean prediction, mean outcome, rows) by tenth of predictions
    coverage: list[tuple[float, float]]  # (level, share of labels inside); empty where heads know no intervals

    def __repr__(self) -> str:
        return "<Gains: private>"

    @classmethod
    def of(cls, board: "Billboard", people: Population) -> "Gains":
        """Of the people of a table, by the heads that this board would give them."""
        board.require_one_number("a report with held-out rows")
        parts = [_of_block(board, block) for block in people.blocks()]
        own_rows, losses, predicted, labels, inside = (np.concatenate(column) for column in zip(*parts, strict=True))
        if not len(own_rows):
            raise InputError(
                "nobody in the held-out table has two rows or more, so nothing can be held out. Give more rows a"
                " person."
            )
        outcome = (labels > 0).astype(float) if board.log_odds else labels
        known = inside[~np.isnan(inside[:, 0])]
        coverage = [(level, float(known[:, at].mean())) for at, level in enumerate(LEVELS)] if len(known) else []
        return cls(own_rows, losses, _is_class(board), _tenths(predicted, outcome), coverage)

    @property
    def measure(self) -> str:
        return "share of wrong classes" if self.classes else "root mean squared error"

    def error(self, which: np.ndarray) -> np.ndarray:
        """(3,) of these people, each counting once."""
        mean = self.errors[which].mean(axis=0)
        return mean if self.classes else np.sqrt(mean)

    def section(self) -> Html:
        everybody = np.ones(len(self.own_rows), dtype=bool)
        groups = [(f"{low}+", _between(self.own_rows, low)) for low in LOWEST]
        groups = [(name, who) for name, who in groups if who.sum() >= FEWEST_DRAWN]
        rows = [
            (name, f"{int(who.sum()):,}", *(f"{error:.4g}" for error in self.error(who)))
            for name, who in [("everybody", everybody), *((f"{name} own rows", who) for name, who in groups)]
        ]
        lines = [(name, [float(self.error(who)[at]) for _, who in groups]) for at, name in enumerate(MODELS)]
        per_person = self.errors if self.classes else np.sqrt(self.errors)
        better = per_person[:, 0] < per_person[:, 1]
        alone = per_person[:, 0] < per_person[:, 2]
        gain = per_person[:, 1] - per_person[:, 0]
        low, high = np.quantile(gain, (0.01, 0.99))
        edges = np.linspace(min(low, 0.0), max(high, 1e-12), 31)
        counts = np.histogram(np.clip(gain, edges[0], edges[-1]), edges)[0]
        shares = (0.05, 0.25, 0.5, 0.75, 0.95)
        spread = [
            (f"{share:.0%} of people are below", *(f"{value:.4g}" for value in np.quantile(per_person, share, axis=0)))
            for share in shares
        ]
        content = [
            paragraph(
                "INTERNAL, NOT PRIVATE, DO NOT PUBLISH. Computed from people's rows as they are, outside of any"
                " guarantee; so is whatever is chosen by it.",
                class_="warning",
            ),
            table(
                f"{self.measure.capitalize()} on rows held out, by the number of own rows that models saw; people"
                " count alike",
                ("own rows", "people", *MODELS),
                rows,
                numbers=(1, 2, 3, 4),
            ),
        ]
        if len(groups) > 1:
            content.append(
                figure(
                    lines_over(
                        [name for name, _ in groups], lines, "own rows", self.measure, f"{self.measure} by own rows"
                    ),
                    f"The same as a picture; groups of fewer than {FEWEST_DRAWN} people are left out.",
                )
            )
        content += [
            element("h3", "Not only the mean: the distribution over people"),
            paragraph(
                f"With her own head, {percent(float(better.mean()))} of people are better off than with the shared"
                f" prediction, and {percent(float(alone.mean()))} better off than with their own data alone."
            ),
            figure(
                histogram(
                    edges, counts, "gain in error over the shared prediction", "Histogram of gains over people", 0.0
                ),
                "How much each person gains by her head; left of the broken line she loses. The outermost hundredths"
                " are drawn at the ends.",
            ),
            table("Error by person", ("quantile", *MODELS), spread, numbers=(1, 2, 3)),
            element("h3", "Calibration"),
            table(
                "Tenths of predictions by own heads, and what came",
                ("predicted (mean)", "came (mean)", "rows"),
                [(f"{p:.4g}", f"{o:.4g}", f"{n:,}") for p, o, n in self.calibration],
                numbers=(0, 1, 2),
            ),
        ]
        if self.coverage:
            covered = [(percent(level), percent(share)) for level, share in self.coverage]
            content.append(
                table("Intervals: how many labels lie inside", ("promised", "found"), covered, numbers=(0, 1))
            )
        else:
            content.append(paragraph("Heads of this kind know no intervals, so there is no coverage to tell."))
        return section("gains", "Who gains (internal)", *content)


def _between(own_rows: np.ndarray, low: int) -> np.ndarray:
    following = [other for other in LOWEST if other > low]
    return (own_rows >= low) & (own_rows < (following[0] if following else np.inf))


def _is_class(board: "Billboard") -> bool:
    listed = board.schema is not None and board.schema.label.is_class
    return listed or board.log_odds or board.answers_by_sign


def _losses(board: "Billboard", scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    if not _is_class(board):
        return (board.in_label_range(scores) - labels) ** 2
    if board.log_odds or board.answers_by_sign:
        return ((scores > 0) != (labels > 0)).astype(float)
    return (np.rint(scores) != labels).astype(float)


def _tenths(predicted: np.ndarray, outcome: np.ndarray) -> list[tuple[float, float, int]]:
    groups = np.array_split(np.argsort(predicted, kind="stable"), min(10, len(predicted)))
    return [(float(predicted[g].mean()), float(outcome[g].mean()), len(g)) for g in groups]


def _of_block(board: "Billboard", block: Block) -> tuple[np.ndarray, ...]:
    """Own rows and losses of people who have two rows or more; scores, labels and intervals of rows held out."""
    sizes = np.diff(block.offsets)
    place = np.concatenate([np.arange(size) for size in sizes]) if len(sizes) else np.zeros(0, int)
    who = block.person_of_row
    out = (place % EVERY == 1) & (sizes[who] > 1)
    kept = Block(
        block.X[~out],
        block.y[~out],
        np.concatenate([[0], np.cumsum(np.bincount(who[~out], minlength=len(sizes)))]),
        block.first,
    )
    heads, X, labels, asked = (
        board.head_kind.fit(kept, board),
        block.X[out],
        np.asarray(block.y[out], float),
        who[out],
    )
    scores = heads.predict(board, X, asked)
    std = None if heads.doubts is None else np.where(heads.own.of(asked) < 0, heads.std(board, X, asked), np.nan)
    predicted = (
        probabilities(scores, np.zeros(len(scores)) if std is None else np.nan_to_num(std))[:, 1]
        if board.log_odds
        else scores
    )
    losses = np.column_stack(
        [
            _losses(board, answer, labels)
            for answer in (scores, shared_scores(X, board.mean, board.intercept), _alone(board, kept, X, asked))
        ]
    )
    counts = np.bincount(asked, minlength=len(sizes))
    sums = np.column_stack([np.bincount(asked, losses[:, at], minlength=len(sizes)) for at in range(3)])
    some = counts > 0
    return (
        (sizes - counts)[some],
        sums[some] / counts[some, None],
        predicted,
        labels,
        _inside(board, std, scores, labels),
    )


def _alone(board: "Billboard", kept: Block, X: Any, asked: np.ndarray) -> np.ndarray:
    """A ridge model of her own rows; of ratings of items her own mean, as items that she has not rated tell nothing."""
    if sparse.issparse(X):
        sums, counts = np.add.reduceat(np.append(kept.y, 0.0), kept.offsets[:-1]), np.diff(kept.offsets)
        return (np.where(counts > 0, sums, 0.0) / np.maximum(counts, 1))[asked]
    y = np.where(kept.y > 0, 1.0, -1.0) if board.log_odds or board.answers_by_sign else kept.y
    block = Block(kept.X, y, kept.offsets, kept.first)
    everything = np.eye(X.shape[1])
    weights, intercepts = fit_heads(block, everything, None, 0.0, True)
    nothing, nobody = np.zeros((0, X.shape[1])), np.full(len(asked), -1)
    return row_scores(X, None, everything, weights, asked, nothing, nobody) + intercepts[asked]


def _inside(board: "Billboard", std: np.ndarray | None, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(rows, levels) whether the label lies in the interval; NaN where heads know none, or labels are yes and no."""
    if std is None or board.log_odds:
        return np.full((len(labels), len(LEVELS)), np.nan)
    reach = np.array([NormalDist().inv_cdf(0.5 + level / 2) for level in LEVELS])
    inside = (np.abs(labels - scores)[:, None] <= reach * std[:, None]).astype(float)
    return np.where(np.isnan(std)[:, None], np.nan, inside)  # a model of her own rows alone knows none
