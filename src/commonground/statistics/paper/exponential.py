"""How much each candidate subspace lowers each person's Lipschitz loss: the score of P1's Algorithm 4.

**Why the label cancels.** For a loss ℓ(a; y) that is ξ-Lipschitz in a, features clipped to L_f and heads of norm at most C,
|ℓ(a; y) − ℓ(0; y)| ≤ ξ|a| ≤ ξ L_f C, whatever y is. The loss at a = 0 is the same for all candidates and does not change which
is chosen, so it is taken off: what is left, the *gain* of the best head over no head at all, lies between 0 (v = 0 is allowed)
and ξ L_f C. Replacing a person moves a sum of gains by at most ξ L_f C, and that is all that the choice has to hide.

The gain is computed as a difference, never as two losses: with a label of 10⁹ their difference would be rounding.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from commonground.clipping.bounded import score_units
from commonground.clipping.sums import ScoreSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.statistic import Statistic
from commonground.threads import each

_CANDIDATES = 8  # that a thread scores at a time
_STEPS = 60  # of accelerated projected gradient; a head that is not quite the best one costs utility, not privacy


@njit(inline="always")
def _huber(r, slope):  # type: ignore[no-untyped-def]
    size = abs(r)
    return 0.5 * r * r if size <= slope else slope * (size - 0.5 * slope)


@njit
def _gain(y, a, slope):  # type: ignore[no-untyped-def]
    """ℓ(0; y) − ℓ(a; y) for Huber's loss, which is ``slope``-Lipschitz; at most slope·|a|."""
    r = y - a
    if abs(y) > slope and abs(r) > slope and (y > 0.0) == (r > 0.0):
        return slope * a if y > 0.0 else -slope * a
    return _huber(y, slope) - _huber(r, slope)


@njit(error_model="numpy")
def best_gain(A, labels, rows, slope, bound, v):  # type: ignore[no-untyped-def]
    """The mean gain of a nearly best head of norm at most ``bound``, which is left in ``v``; A holds clipped features."""
    k = A.shape[1]
    curvature = 0.0
    v[:] = 0.0
    for i in range(rows):
        for a in range(k):
            curvature += A[i, a] * A[i, a] / rows
    if not 0.0 < curvature < math.inf:
        return 0.0
    ahead, last, gradient, momentum = np.zeros(k), np.zeros(k), np.empty(k), 1.0
    for _ in range(_STEPS):
        gradient[:] = 0.0
        for i in range(rows):
            r = labels[i]
            for a in range(k):
                r -= A[i, a] * ahead[a]
            r = min(max(r, -slope), slope)
            for a in range(k):
                gradient[a] -= r * A[i, a] / rows
        norm = 0.0
        for a in range(k):
            v[a] = ahead[a] - gradient[a] / curvature
            norm += v[a] * v[a]
        shrink = min(1.0, bound / math.sqrt(norm)) if norm > 0.0 else 1.0
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        for a in range(k):
            v[a] *= shrink
            ahead[a] = v[a] + (momentum - 1.0) / following * (v[a] - last[a])
            last[a] = v[a]
        momentum = following
    gain = 0.0
    for i in range(rows):
        prediction = 0.0
        for a in range(k):
            prediction += A[i, a] * v[a]
        gain += _gain(labels[i], prediction, slope) / rows
    return gain


@kernel(error_model="numpy")
def _add_lipschitz_scores(columns, X, y, offsets, weights, clip, bound, slope, sums):  # type: ignore[no-untyped-def]
    """columns: (candidates, k, d), those of U."""
    n_candidates, k, d = columns.shape
    n, most = offsets.shape[0] - 1, 0
    for j in range(n):
        most = max(most, (offsets[j + 1] - offsets[j]) // 2)
    for u in range(n_candidates):
        A, labels, v = np.empty((most, k)), np.empty(most), np.empty(k)
        total = 0
        for j in range(n):
            lo, rows = offsets[j], (offsets[j + 1] - offsets[j]) // 2
            for i in range(rows):
                labels[i], norm = y[lo + i], 0.0
                for a in range(k):
                    A[i, a] = 0.0
                    for c in range(d):
                        A[i, a] += columns[u, a, c] * np.float64(X[lo + i, c])
                    norm += A[i, a] * A[i, a]
                factor = min(1.0, clip / math.sqrt(norm)) if 0.0 < norm < math.inf else 0.0  # clip(Uᵀx; L_f)
                for a in range(k):
                    A[i, a] = factor * A[i, a] if factor > 0.0 else 0.0
            gain = best_gain(A, labels, rows, slope, bound, v) if rows else 0.0
            total += score_units(1.0 - gain / (slope * clip * bound), weights[j])
        sums[u] += total


@dataclass(frozen=True, eq=False)
class LipschitzScores(Statistic[ScoreSums]):
    """Σ_j (1 − gain_j(U) / ξ L_f C), on the first half of everybody's rows (P1 Alg. 4, line 1), with Huber's loss of slope ξ.

    One for who gains nothing from U, nothing for who gains as much as is possible.
    """

    gives = ScoreSums
    candidates: np.ndarray
    feature_clip: float
    head_bound: float
    slope: float

    def of(self, block: Block) -> ScoreSums:
        sums = np.zeros(len(self.candidates), dtype=np.int64)
        columns = np.ascontiguousarray(self.candidates.transpose(0, 2, 1))
        bounds = self.feature_clip, self.head_bound, self.slope
        rows = block.X, block.y, block.offsets, block.person_weights

        def score(first: int) -> None:
            some = slice(first, first + _CANDIDATES)
            _add_lipschitz_scores(columns[some], *rows, *bounds, sums[some])

        each(score, range(0, len(sums), _CANDIDATES))
        return ScoreSums(sums)
