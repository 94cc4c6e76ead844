"""How badly each candidate subspace explains each person's labels, summed over people.

A person's rows enter through XᵀX, Xᵀy and yᵀy alone, so all candidates are scored by short products, whatever her number
of rows: what the best head on U leaves unexplained is yᵀy − (Uᵀb)ᵀ (UᵀGU)⁻¹ (Uᵀb). Each person's are added up by themselves and
in one order: with a library's products over many people, the last bits of her score would depend on who stands beside her.
"""

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from commonground.clipping.bounded import score_units
from commonground.clipping.sums import ScoreSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.statistic import Statistic
from commonground.threads import each

_PEOPLE, _CANDIDATES = 512, 1024  # scored together: their products stay in the cache
_CANDIDATES_PER_THREAD = 64  # candidates that one thread scores at a time
SMALLEST_SHARE = 1e-6  # of her labels' energy; what is explained better than this counts as explained
_RIDGE = 1e-12  # of the trace: keeps collinear rows from dividing by zero


@kernel()
def _moments(X, y, offsets, half, centred):  # type: ignore[no-untyped-def]
    """XᵀX as a half vector (off-diagonals × 2), Xᵀy, yᵀy and the rows that are free to differ, for each person."""
    n, d = offsets.shape[0] - 1, X.shape[1]
    G, b, c, m = np.zeros((n, d * (d + 1) // 2)), np.zeros((n, d)), np.zeros(n), np.zeros(n)
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        if half:
            hi = lo + (hi - lo) // 2
        m[j] = hi - lo
        means, label_mean = np.zeros(d), 0.0
        if centred and hi > lo:
            for i in range(lo, hi):
                label_mean += y[i] / m[j]
                for a in range(d):
                    means[a] += X[i, a] / m[j]
            m[j] -= 1.0
        for i in range(lo, hi):
            r = np.float64(y[i]) - label_mean
            c[j] += r * r
            at = 0
            for a in range(d):
                x = np.float64(X[i, a]) - means[a]
                b[j, a] += x * r
                G[j, at] += x * x
                at += 1
                for e in range(a + 1, d):
                    G[j, at] += 2.0 * x * (np.float64(X[i, e]) - means[e])
                    at += 1
    return G, b, c, m


@kernel()
def _add_scores(pairs, columns, G, b, c, m, weights, loss_bound, sums):  # type: ignore[no-untyped-def]
    """pairs: (candidates, k(k+1)/2, d(d+1)/2), whose products with G are UᵀGU; columns: (candidates, k, d), those of U."""
    n_candidates, k, n = columns.shape[0], columns.shape[1], c.shape[0]
    for u in range(n_candidates):
        L, z, H = np.empty((k, k)), np.empty(k), np.empty(pairs.shape[1])
        total = 0
        for j in range(n):
            if m[j] <= k:  # as many coefficients as rows: explained, whatever the candidate
                continue
            for at in range(H.shape[0]):
                value = 0.0
                for s in range(G.shape[1]):
                    value += pairs[u, at, s] * G[j, s]
                H[at] = value
            trace, at = 0.0, 0
            for a in range(k):
                trace += H[at]
                at += k - a
            left, at = c[j], 0
            for a in range(k):  # Cholesky, column by column: H[a, e] for e ≥ a
                for e in range(a, k):
                    value = H[at]
                    at += 1
                    for s in range(a):
                        value -= L[a, s] * L[e, s]
                    if e == a:
                        L[a, a] = math.sqrt(max(value, 0.0) + _RIDGE * trace)
                    else:
                        L[e, a] = value / L[a, a] if L[a, a] > 0.0 else 0.0
                value = 0.0
                for s in range(b.shape[1]):
                    value += columns[u, a, s] * b[j, s]
                for s in range(a):
                    value -= L[a, s] * z[s]
                z[a] = value / L[a, a] if L[a, a] > 0.0 else 0.0
                left -= z[a] * z[a]
            if loss_bound > 0.0:  # P1: mean squared error, as a share of its bound
                score = max(left, 0.0) / (m[j] * loss_bound)
            elif c[j] > 0.0:  # ours: the logarithm of the unexplained share, from nothing (0) to everything (1)
                score = 1.0 - math.log(min(max(left / c[j], SMALLEST_SHARE), 1.0)) / math.log(SMALLEST_SHARE)
            else:
                score = c[j]  # no labels to explain: 0 for every candidate; NaN stays NaN
            total += score_units(score, weights[j])
        sums[u] += total


def _scores(pairs: np.ndarray, columns: np.ndarray, given: tuple[Any, ...], some: slice) -> np.ndarray:
    sums = np.zeros(len(pairs[some]), dtype=np.int64)
    _add_scores(pairs[some], columns[some], *given, sums)
    return sums


@dataclass(frozen=True, eq=False)
class SubspaceScores(Statistic[ScoreSums]):
    """Σ_j w_j score_j(U) for each of (candidates, d, k) orthonormal U.

    ``loss_bound > 0``: the mean squared error of her best head on U, as a share of the bound, at most one (P1 Alg. 4, line
    1). ``loss_bound = 0``: the logarithm of the share of her labels' energy that it leaves unexplained, between 1e-6 and 1.
    ``half``: on the first half of her rows only. ``centred``: with an intercept of her own.
    """

    gives = ScoreSums
    candidates: np.ndarray
    half: bool
    centred: bool
    loss_bound: float

    def of(self, block: Block) -> ScoreSums:
        n_candidates, d, k = self.candidates.shape
        sums = np.zeros(n_candidates, dtype=np.int64)
        upper = np.triu_indices(d)
        for start in range(0, block.n_users, _PEOPLE):
            offsets, weights = block.offsets[start : start + _PEOPLE + 1], block.person_weights[start : start + _PEOPLE]
            rows = slice(offsets[0], offsets[-1])
            X, y = (array[rows].astype(np.float64, copy=False) for array in (block.X, block.y))
            G, b, c, m = _moments(X, y, offsets - rows.start, self.half, self.centred)
            for first in range(0, n_candidates, _CANDIDATES):
                U = self.candidates[first : first + _CANDIDATES]
                pairs = np.empty((len(U), k * (k + 1) // 2, len(upper[0])))
                for at, (a, e) in enumerate(itertools.combinations_with_replacement(range(k), 2)):
                    outer = U[:, :, a, None] * U[:, None, :, e]
                    pairs[:, at] = ((outer + outer.transpose(0, 2, 1)) / 2)[:, upper[0], upper[1]]
                columns = np.ascontiguousarray(U.transpose(0, 2, 1))
                given = G, b, c, m, weights, self.loss_bound
                scored = [slice(at, at + _CANDIDATES_PER_THREAD) for at in range(0, len(U), _CANDIDATES_PER_THREAD)]
                parts = each(partial(_scores, pairs, columns, given), scored)
                sums[first : first + _CANDIDATES] += np.concatenate(parts)
        return ScoreSums(sums)
