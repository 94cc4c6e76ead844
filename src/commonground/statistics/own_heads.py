"""What everybody's head says about heads in general: in which directions they lie, and how far they stand out of the noise.

Both are scale-free: a person says no more than another, whatever her labels' size.
"""

from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import LARGEST, SMALLEST, bins_of
from commonground.clipping.sums import DirectionSums, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.linear import centre_in_place, head_in_place
from commonground.statistics.statistic import SharedModel, Statistic


@kernel(error_model="numpy")
def _heads(X, y, offsets, Ut, w, shared_intercept, local_intercept, directions, ratios, noises):  # type: ignore[no-untyped-def]
    """Unit vectors along people's heads, k s²/‖v‖² with s² the variance of their residuals, and s²; zero where there is none."""
    n, d, k = offsets.shape[0] - 1, X.shape[1], Ut.shape[0]
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        dof = m - k - local_intercept
        if dof < 1:
            continue
        R, r, A = np.empty((m, d)), np.empty(m), np.empty((m, k))
        for i in range(m):
            r[i] = y[lo + i] - shared_intercept
            for c in range(d):
                R[i, c] = X[lo + i, c]
                r[i] -= R[i, c] * w[c]
        if local_intercept:
            centre_in_place(R, r, m)
        gram, v = np.empty((k, k)), np.empty(k)
        solved = head_in_place(R, r, m, Ut, A, gram, v)
        squared = 0.0
        for a in range(k):
            squared += v[a] * v[a]
        if solved and SMALLEST < squared < LARGEST:
            explained, noise = A @ v, 0.0
            for i in range(m):
                noise += (r[i] - explained[i]) * (r[i] - explained[i])
            for a in range(k):
                directions[j, a] = v[a] / np.sqrt(squared)
            noises[j] = noise / dof
            ratios[j] = k * noise / dof / squared


def _run(block: Block, model: SharedModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    Ut = np.ascontiguousarray(model.embedding.T)

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        given = np.zeros((some.n_users, len(Ut))), np.zeros(some.n_users), np.zeros(some.n_users)
        intercepts = float(model.intercept), int(model.own_intercept)
        _heads(some.X, some.y, some.offsets, Ut, model.slopes, *intercepts, *given)
        return given

    directions, ratios, noises = over_chunks(block, of_chunk)
    return directions, ratios, noises


@dataclass(frozen=True, eq=False)
class HeadDirections(Statistic[DirectionSums]):
    """Σ_j v_j v_jᵀ/‖v_j‖², v_j the least-squares head of person j; zero for a person with no more rows than coefficients."""

    gives = DirectionSums
    model: SharedModel

    def of(self, block: Block) -> DirectionSums:
        return DirectionSums.of(_run(block, self.model)[0], block.person_weights)


@dataclass(frozen=True, eq=False)
class HeadNoise(Statistic[SizeCounts]):
    """How many people have which k s²/‖v‖², the noise of their labels against one coordinate of their head."""

    gives = SizeCounts
    model: SharedModel

    def of(self, block: Block) -> SizeCounts:
        ratios = _run(block, self.model)[1]
        return SizeCounts.of(bins_of(ratios), block.person_weights)


@dataclass(frozen=True, eq=False)
class LabelNoise(Statistic[SizeCounts]):
    """How many people have which s², the variance of their labels about their least-squares head."""

    gives = SizeCounts
    model: SharedModel

    def of(self, block: Block) -> SizeCounts:
        return SizeCounts.of(bins_of(_run(block, self.model)[2]), block.person_weights)
