"""The dk × dk statistic of alternating minimisation, built from per-person moments.

With heads v_j fixed, the embedding that fits everybody best solves a linear system whose matrix is

    Σ_j Σ_i vec(x_ij v_jᵀ) vec(x_ij v_jᵀ)ᵀ  =  Σ_j (v_j v_jᵀ) ⊗ X_jᵀX_j.

So a person's d × d moment is computed once, in the cache, and added to k(k+1)/2 blocks: never a dk × dk product for each row
(as P1's Algorithm 2 is written), nor one for each person. Only blocks a ≤ b and entries c ≤ e are added up; the rest follows
by symmetry.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import LARGEST, N_BINS, SMALLEST, bin_of
from commonground.clipping.sums import PositiveSums, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.lanes import LANES
from commonground.statistics.kernels.linear import add_moment, head_in_place, moment_norm_squared
from commonground.statistics.kernels.person import FAST, padded
from commonground.statistics.statistic import ClipNorm, SharedModel, Statistic


def whole_matrix(blocks: np.ndarray, d: int, k: int) -> np.ndarray:
    """(dk, dk) from the upper triangles of the blocks a ≤ b; index a·d + c is that of vec(U), columns one after another."""
    matrix = np.zeros((k, d, k, d))
    for block, a, b in zip(blocks, *np.triu_indices(k), strict=True):
        upper = np.triu(block[:d, :d])
        matrix[a, :, b, :] = matrix[b, :, a, :] = upper + np.triu(upper, 1).T
    return matrix.reshape(k * d, k * d)


@kernel(fastmath=FAST, error_model="numpy")
def _add_moments(X, y, offsets, weights, Ut, w, intercepts, clip_norm, max_rows, counts, sums):  # type: ignore[no-untyped-def]
    """Add people's moments to ``sums`` (if there is a clip), and their sizes to ``counts``."""
    d, k, width = X.shape[1], Ut.shape[0], (X.shape[1] + LANES - 1) // LANES * LANES
    shared_intercept, local_intercept = intercepts
    R, r, A = np.zeros((max_rows, width)), np.empty(max_rows), np.empty((max_rows, k))
    gram, v, factors = np.empty((k, k)), np.empty(k), np.empty(k * (k + 1) // 2)
    for j in range(offsets.shape[0] - 1):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m - k - local_intercept <= 0 or weights[j] == 0.0:  # she says nothing about the embedding, or takes no part
            counts[0] += weights[j]
            continue
        for i in range(m):
            shared = shared_intercept
            for c in range(d):  # stores nothing: a loop that does is added up by where arrays lie
                shared += X[lo + i, c] * w[c]
            r[i] = y[lo + i] - shared
            for c in range(d):
                R[i, c] = X[lo + i, c]
        if local_intercept:
            mean = 0.0
            for i in range(m):
                mean += r[i] / m
            for i in range(m):
                r[i] -= mean
            for c in range(d):
                centre = 0.0
                for i in range(m):
                    centre += R[i, c]
                for i in range(m):
                    R[i, c] -= centre / m
        solved = head_in_place(R, r, m, Ut, A, gram, v)
        vv = 0.0
        for a in range(k):
            vv += v[a] * v[a]
        scale = 1.0 / (m - local_intercept)
        squared = moment_norm_squared(R, m, d) * scale * scale  # v vᵀ/‖v‖² has norm one
        if not (solved and SMALLEST < vv < LARGEST and SMALLEST < squared < LARGEST):
            squared = math.nan
        b = bin_of(squared)
        counts[b] += weights[j]
        if b > 0 and clip_norm > 0.0:
            clip = min(1.0, clip_norm / math.sqrt(squared))
            factor = math.sqrt(weights[j] * clip * scale / vv)
            for a in range(k):
                v[a] *= factor
            add_moment(sums, R, m, v, factors)


def _run(block: Block, model: SharedModel, clip_norm: float) -> tuple[np.ndarray, np.ndarray]:
    Ut, intercepts = np.ascontiguousarray(model.embedding.T), (model.intercept, int(model.own_intercept))
    how, k, width = (Ut, model.slopes, intercepts, clip_norm), len(Ut), padded(Ut.shape[1], LANES)

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray]:
        most = int(np.diff(some.offsets).max())  # of this chunk: one person with many rows makes no other chunk slower
        counts, sums = np.zeros((1, N_BINS)), np.zeros((1, k * (k + 1) // 2 if clip_norm > 0.0 else 0, width, width))
        _add_moments(*some.for_kernels, *how, most, counts[0], sums[0])
        return counts, sums

    counts, sums = over_chunks(block, of_chunk)
    return counts, sums


@dataclass(frozen=True, eq=False)
class EmbeddingMomentSizes(Statistic[SizeCounts]):
    """How many people send a moment of which Frobenius norm; those who have no say in the embedding are in bin 0."""

    gives = SizeCounts
    model: SharedModel

    def of(self, block: Block) -> SizeCounts:
        return SizeCounts(_run(block, self.model, 0.0)[0].sum(axis=0))


@dataclass(frozen=True, eq=False)
class EmbeddingMoments(Statistic[PositiveSums]):
    """Person j sends (v_j v_jᵀ/‖v_j‖²) ⊗ X_jᵀX_j/m_j, clipped as a whole to Frobenius norm ``clip_norm``.

    v_j is her best head under ``model.embedding``. Divided by ‖v_j‖², like gradients: people with large heads are not worth
    more. With an intercept of her own, X_j is taken about its mean.
    """

    gives = PositiveSums
    model: SharedModel
    clip_norm: ClipNorm

    def of(self, block: Block) -> PositiveSums:
        sums = _run(block, self.model, self.clip_norm)[1].sum(axis=0)
        return PositiveSums(whole_matrix(sums, *self.model.embedding.shape), self.clip_norm, block.n_users)
