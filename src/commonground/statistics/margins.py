"""Margin losses: which share of a person's rows her best head leaves on the wrong side, or too near to the border."""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.bounded import score_units
from commonground.clipping.sums import ScoreSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.statistic import Statistic

_PEOPLE = 64  # whose scores are added up by one thread
_PASSES = 12  # of the perceptron, for k > 2


@kernel()
def best_head(a, margin, length, v):  # type: ignore[no-untyped-def]
    """Write to ``v`` a head of norm ``length`` with few rows a_i = y_i z_i for which <a_i, v> ≤ margin; returns how many.

    A longer head never does worse, so only directions matter. k = 1: both signs. k = 2: each row is content with the
    directions of an arc, and the sweep finds where most arcs overlap; exact. k > 2: the best of a perceptron's
    iterates, an upper bound on the minimum.
    """
    m, k = a.shape
    if k == 1:
        right = left = 0
        for i in range(m):
            right += a[i, 0] * length > margin
            left += -a[i, 0] * length > margin
        v[0] = length if right >= left else -length
        return m - max(right, left)
    if k == 2:
        starts, ends, arcs = np.empty(2 * m), np.empty(2 * m), 0
        for i in range(m):
            norm = math.hypot(a[i, 0], a[i, 1]) * length
            if not (norm > margin and norm < math.inf):
                continue
            centre, width = math.atan2(a[i, 1], a[i, 0]), math.acos(margin / norm)
            for turn in (0.0, 2 * math.pi):  # twice around: arcs that cross ±π appear in one piece
                starts[arcs], ends[arcs] = centre - width + turn, centre + width + turn
                arcs += 1
        starts, ends = np.sort(starts[:arcs]), np.sort(ends[:arcs])
        covered, most, angle, closing = 0, 0, 0.0, 0
        for s in range(arcs):
            while ends[closing] <= starts[s]:  # open arcs: an end at a start is over
                closing += 1
                covered -= 1
            covered += 1
            if covered > most:  # the overlap lasts until the next start or end
                most, until = covered, ends[closing]
                if s + 1 < arcs:
                    until = min(until, starts[s + 1])
                angle = (starts[s] + until) / 2
        v[0], v[1] = length * math.cos(angle), length * math.sin(angle)
        return m - min(most, m)
    fewest, w = m + 1, np.zeros(k)
    for i in range(m):
        norm = math.sqrt((a[i] * a[i]).sum())
        if norm > 0.0 and norm < math.inf:
            w += a[i] / norm
    for _ in range(_PASSES):
        norm = math.sqrt((w * w).sum())
        if not (norm > 0.0 and norm < math.inf):
            w[:], norm = 1.0, math.sqrt(k)
        wrong = 0
        step = np.zeros(k)
        for i in range(m):
            if not (a[i] * w).sum() * length / norm > margin:
                wrong += 1
                size = math.sqrt((a[i] * a[i]).sum())
                if size > 0.0 and size < math.inf:
                    step += a[i] / size
        if wrong < fewest:
            fewest = wrong
            v[:] = w * (length / norm)
        w += step
    return fewest


@kernel()
def signed_projections(X, y, lo, hi, P, radius):  # type: ignore[no-untyped-def]
    """Rows y_i P x_i, each row first moved into the ball of the given radius; zero where it is not finite."""
    a = np.zeros((hi - lo, P.shape[0]))
    for i in range(lo, hi):
        squared = 0.0
        for c in range(X.shape[1]):
            squared += np.float64(X[i, c]) ** 2
        if not squared < math.inf:
            continue
        factor = min(1.0, radius / math.sqrt(squared)) if squared > 0.0 else 0.0
        if not y[i] > 0.0:
            factor = -factor
        for r in range(P.shape[0]):
            total = 0.0
            for c in range(X.shape[1]):
                total += P[r, c] * X[i, c]
            a[i - lo, r] = factor * total
    return a


@kernel()
def _scores(X, y, offsets, weights, half, P, candidates, margin, length, radius):  # type: ignore[no-untyped-def]
    n, n_candidates, k = offsets.shape[0] - 1, candidates.shape[0], candidates.shape[2]
    sums, v = np.zeros((1, n_candidates), np.int64), np.empty(k)
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        if half:
            hi = lo + (hi - lo) // 2
        if hi == lo:
            continue  # no rows to be wrong about
        a = signed_projections(X, y, lo, hi, P, radius)
        for u in range(n_candidates):
            wrong = best_head(a @ candidates[u], margin, length, v)
            sums[0, u] += score_units(wrong / (hi - lo), weights[j])
    return sums


@dataclass(frozen=True, eq=False)
class MarginScores(Statistic[ScoreSums]):
    """Σ_j w_j min over ‖v‖ ≤ length of the share of her rows with y <M x, Ũ v> ≤ margin, for each of (candidates, k', k) Ũ.

    ``half``: over the first half of her rows (P2 Alg. 3, lines 2 and 4). Rows longer than ``radius`` are shortened to it.
    """

    gives = ScoreSums
    candidates: np.ndarray
    projection: np.ndarray
    half: bool
    margin: float
    length: float
    radius: float

    def of(self, block: Block) -> ScoreSums:
        asked = self.half, self.projection, np.ascontiguousarray(self.candidates)
        how = *asked, self.margin, self.length, self.radius
        sums = over_chunks(block, lambda some: _scores(*some.for_kernels, *how), people=_PEOPLE)
        return ScoreSums(sums.sum(axis=0))
