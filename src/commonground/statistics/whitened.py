"""Each person's best guess at what the embedding misses, given her rows, beside her head, and both of one length.

She fits θ_j = argmin ‖y_j − X_j θ‖² + λ‖θ − U Uᵀθ‖²: ridge that leaves the span of U free and pays for what is outside. Her
head is v_j = Uᵀθ_j, and e_j = θ_j − U v_j, with few rows, is the projection of the missing part onto what her rows can see beside
the head: for m rows in d dimensions its cos² with the truth is (m − k)/(d − k). A gradient X_jᵀr_j points partly along the
rows' own scatter, and reaches (m − k)/(m + d). It costs a small solve per person, so it is used where people are few and every
bit of signal counts.

**One vector, z = (U v/‖v‖ + e/‖e‖)/√2, says both.** The part of Σ z zᵀ across the span of U is ½ Σ e vᵀ/(‖e‖‖v‖): in which
direction the embedding is wrong. Replacing a person moves Σ z zᵀ by √2, so that part is as noisy against what it says as Σ e
vᵀ/(‖e‖‖v‖) alone would be, which two opposite people move by 2. The part outside of the span, ½ Σ e eᵀ/‖e‖², comes for
nothing: in which directions anything is missed at all.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import bin_of
from commonground.clipping.sums import DirectionSums, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks, sum_over_chunks
from commonground.statistics.kernels.linear import solve_in_place
from commonground.statistics.statistic import SharedModel, Statistic

_RIDGE = 0.1  # of the mean eigenvalue
_FREE = 1e6  # how much more the span of U may vary than what is outside of it


@kernel(error_model="numpy")
def _best_guesses(X, y, offsets, U, local_intercept):  # type: ignore[no-untyped-def]
    """Everybody's z, and the bin of ‖e‖/‖v‖ times d over what her rows can see; zero and bin 0 where there is none."""
    n, d, k = offsets.shape[0] - 1, X.shape[1], U.shape[1]
    guesses, bins = np.zeros((n, d)), np.zeros(n, np.int64)
    v = np.empty(k)
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        seen = min(m - local_intercept, d) - k
        if seen <= 0:
            continue
        rows, r = X[lo:hi].astype(np.float64), y[lo:hi].astype(np.float64)
        if local_intercept:
            r -= r.mean()
            for a in range(d):
                rows[:, a] -= rows[:, a].mean()
        A = rows @ U
        size = min(m, d)
        ridge = _RIDGE * (rows * rows).sum() / size
        if m <= d:  # the prior covariance I + FREE·U Uᵀ, seen by the rows
            inner = rows @ rows.T + _FREE * (A @ A.T)
            for i in range(m):
                inner[i, i] += ridge
            solved = solve_in_place(inner, r)
            e = rows.T @ r
        else:
            inner = rows.T @ rows - ridge * _FREE / (1.0 + _FREE) * (U @ U.T)
            for a in range(d):
                inner[a, a] += ridge
            e = rows.T @ r
            solved = solve_in_place(inner, e)
        for c in range(k):
            v[c] = (U[:, c] * e).sum()
            for a in range(d):
                e[a] -= U[a, c] * v[c]
        if m <= d:
            v *= 1.0 + _FREE
        missed, held = (e * e).sum(), (v * v).sum()
        scale = d * (1.0 + _RIDGE) / seen
        bins[j] = bin_of(scale * scale * missed / held if solved else math.nan)
        if bins[j] > 0:
            for a in range(d):
                along = 0.0
                for c in range(k):
                    along += U[a, c] * v[c]
                guesses[j, a] = math.sqrt(0.5) * (along / math.sqrt(held) + e[a] / math.sqrt(missed))
    return guesses, bins


@dataclass(frozen=True, eq=False)
class BestGuesses(Statistic[DirectionSums]):
    """Σ_j z_j z_jᵀ over people: what person j's rows say is missed, and her head, as one vector of length one."""

    gives = DirectionSums
    model: SharedModel

    def of(self, block: Block) -> DirectionSums:
        return sum_over_chunks(
            block, lambda some: DirectionSums.of(_guesses_of(some, self.model)[0], some.person_weights)
        )


@dataclass(frozen=True, eq=False)
class MissedSizes(Statistic[SizeCounts]):
    """How many people miss how much against their heads, scaled up by the share of all directions that their rows can see."""

    gives = SizeCounts
    model: SharedModel

    def of(self, block: Block) -> SizeCounts:
        bins = over_chunks(block, lambda some: _guesses_of(some, self.model)[1])
        return SizeCounts.of(bins, block.person_weights)


def _guesses_of(some: Block, model: SharedModel) -> tuple[np.ndarray, np.ndarray]:
    X, y = some.X.astype(np.float64, copy=False), some.y.astype(np.float64, copy=False)
    guesses, bins = _best_guesses(X, y, some.offsets, model.embedding, int(model.own_intercept))
    return guesses, bins
