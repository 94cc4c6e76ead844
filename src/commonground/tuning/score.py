"""Candidates compared by everybody's own held-out errors, in one release.

**Guarantee.** Unit: one person, replaced by any other. Candidates' boards are public, so what she sends is all that changes: a
one in a histogram of sizes (√2), and the vector of her own errors less her error by the first candidate, clipped to norm C (2C).
"""

from dataclasses import dataclass

import numpy as np

from commonground.billboard.board import Billboard
from commonground.clipping.grid import N_BINS, lower_edge
from commonground.clipping.sums import BinnedSums
from commonground.denoise.histograms import located_quantile
from commonground.evaluation.own_errors import Asker, kind_of
from commonground.gate import Gate
from commonground.heads.table import HeadTable
from commonground.statistics.statistic import WINDOW
from commonground.tuning.hold_out import HeldOut

SIZES = 0.2  # of the choice's μ², for the histogram of sizes
CLIP_QUANTILE = 0.8  # of people, whose vectors of differences are not clipped
METRIC = {"numbers": "rmse", "log-odds": "log_loss", "signs": "accuracy", "classes": "accuracy"}


@dataclass(frozen=True)
class Scores:
    """Mean differences in error from the first candidate, released; smaller is better."""

    value: np.ndarray  # (n_candidates,): the first is zero
    std: float  # of the noise on each but the first
    clip: float  # the largest norm of a person's differences that counts
    metric: str  # what they are differences of


def own_errors(boards: list[Billboard], rows: HeldOut) -> tuple[np.ndarray, str]:
    """(people, candidates) everybody's own mean error on her held-out rows, by each candidate; and what it is. Private."""
    n, found = rows.seen.n_users, []
    for board in boards:
        metric = METRIC[kind_of(board)]
        heads = HeadTable.fit(board, rows.seen)
        bounds = None if board.schema is None or board.log_odds else board.schema.label.range
        asker = Asker(board, heads, (metric,), bounds)
        asked = asker.errors(rows.asked, rows.position, np.ones(rows.asked.n_users)).of[metric]
        errors = np.full(n, np.nan)
        errors[rows.position] = 1.0 - asked if metric == "accuracy" else asked
        found.append(errors)
    return np.column_stack(found), metric


def release_scores(errors: np.ndarray, metric: str, gate: Gate, mu: float) -> Scores:
    """One histogram and one vector; who has no held-out row, or an error that is no number, sends zeros."""
    n = len(errors)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = errors[:, 1:] - errors[:, :1]
    apart = np.where(np.isfinite(apart).all(axis=1, keepdims=True), apart, 0.0)[:, None, :]
    everybody = np.ones(n)
    sizes = gate.release(BinnedSums.of(apart, everybody, 1, 1).whole_histogram("sizes of differences"), mu * SIZES**0.5)
    edge = int(np.clip(round(located_quantile(sizes.value, sizes.noise_std, CLIP_QUANTILE)), 2, N_BINS - 1))
    lowest = int(np.clip(edge - WINDOW // 2, 1, N_BINS - WINDOW))
    sums = BinnedSums.of(apart, everybody, lowest, WINDOW)
    released = gate.release(sums.clipped_at(edge, "differences of errors"), mu * (1.0 - SIZES) ** 0.5 * (1 - 1e-9))
    value = np.concatenate([[0.0], released.value.ravel() / n])
    return Scores(value, released.noise_std / n, lower_edge(edge), metric)
