"""What one person sends in P1's Algorithms 2 and 3, as printed, except that the sums are built from her moments.

Her rows beyond the public number m are not used, so that clipping each row bounds her as a whole: with q rows in a statistic,
each ‖W_i‖ ≤ η and |ỹ_i| ≤ ζ, her Σ W_i W_iᵀ has Frobenius norm at most q η², her Σ ỹ_i W_i norm at most q η ζ, and her sum over
p pairs of rows at most p ζ². A row that is not finite sends nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import LARGEST, SMALLEST
from commonground.clipping.sums import ClippedSums, PositiveSums, SymmetricSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.embedding_moments import whole_matrix
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.lanes import LANES
from commonground.statistics.kernels.linear import add_moment, head_in_place
from commonground.statistics.kernels.person import FAST, padded
from commonground.statistics.statistic import Statistic


@kernel(fastmath=FAST, error_model="numpy")
def _add_system(X, y, offsets, weights, Ut, m_public, parts, split, clips, blocks, vector):  # type: ignore[no-untyped-def]
    """Add people's Σ W Wᵀ and Σ ỹ W to ``blocks`` and ``vector``."""
    d, k, width = X.shape[1], Ut.shape[0], (X.shape[1] + LANES - 1) // LANES * LANES
    most, (eta, zeta) = m_public // parts, clips
    R, r, A = np.zeros((most, width)), np.empty(most), np.empty((most, k))
    gram, v, g, factors = np.empty((k, k)), np.empty(k), np.empty(d), np.empty(k * (k + 1) // 2)
    for j in range(offsets.shape[0] - 1):
        q = min(offsets[j + 1] - offsets[j], m_public) // parts
        if weights[j] == 0.0 or q < 1:
            continue
        lo = offsets[j]
        for i in range(q):
            for c in range(d):
                R[i, c] = X[lo + i, c]
            r[i] = y[lo + i]
        solved = head_in_place(R, r, q, Ut, A, gram, v)  # Alg. 1, line 5
        vv = 0.0
        for a in range(k):
            vv += v[a] * v[a]
        if not (solved and SMALLEST < vv < LARGEST):
            continue
        if split:
            lo += q
            for i in range(q):
                for c in range(d):
                    R[i, c] = X[lo + i, c]
        for c in range(d):
            g[c] = 0.0
        used = 0
        for i in range(q):  # Alg. 2, line 1; R becomes c_i x_i
            xx = 0.0
            for c in range(d):
                xx += R[i, c] * R[i, c]
            label = np.float64(y[lo + i])
            if not (SMALLEST < xx < LARGEST and math.isfinite(label)):
                continue
            clip = min(1.0, eta / math.sqrt(xx * vv))
            label = min(max(label, -zeta), zeta)
            for c in range(d):
                value = clip * R[i, c]
                R[used, c] = value
                g[c] += label * value
            used += 1
        for a in range(k):  # Alg. 2, line 2
            for c in range(d):
                vector[a, c] += weights[j] * v[a] * g[c]
            v[a] *= math.sqrt(weights[j])
        add_moment(blocks, R, used, v, factors)


@kernel(error_model="numpy")
def _add_pairs(X, y, offsets, weights, m_public, zeta, total):  # type: ignore[no-untyped-def]
    """Add people's pairs to ``total``, upper triangle."""
    d = X.shape[1]
    x1, x2, Z = np.empty(d), np.empty(d), np.empty((d, d))
    for j in range(offsets.shape[0] - 1):
        lo = offsets[j]
        Z[:] = 0.0
        for p in range(min(offsets[j + 1] - lo, m_public) // 2):
            i = lo + 2 * p
            n1, n2 = 0.0, 0.0
            for c in range(d):
                x1[c], x2[c] = X[i, c], X[i + 1, c]
                n1 += x1[c] * x1[c]
                n2 += x2[c] * x2[c]
            y1, y2 = np.float64(y[i]), np.float64(y[i + 1])
            finite = math.isfinite(y1) and math.isfinite(y2)
            if not (finite and SMALLEST < n1 < LARGEST and SMALLEST < n2 < LARGEST):
                continue
            s = min(max(y1, -zeta), zeta) * min(max(y2, -zeta), zeta) / math.sqrt(n1 * n2)
            for c in range(d):
                s1, s2 = 0.5 * s * x1[c], 0.5 * s * x2[c]
                for e in range(c, d):
                    Z[c, e] += s1 * x2[e] + s2 * x1[e]
        for c in range(d):
            for e in range(c, d):
                total[c, e] += weights[j] * Z[c, e]


@dataclass(frozen=True, repr=False)
class SystemSums:
    """Both sums of Algorithm 2 from one read of the rows; private."""

    matrix: PositiveSums
    vector: ClippedSums

    def __repr__(self) -> str:
        return "<SystemSums: private>"

    def __add__(self, other: "SystemSums") -> "SystemSums":
        return SystemSums(self.matrix + other.matrix, self.vector + other.vector)


@dataclass(frozen=True, eq=False)
class System(Statistic[SystemSums]):
    """Σ W Wᵀ and Σ ỹ W over people (Alg. 2, lines 1 and 2).

    ``split``: the head from the first quarter of her rows and W from the second, as printed. Otherwise both from her first
    half: with the 10 rows of the experiments a quarter is two rows, too few for a head of two coordinates.
    """

    gives = SystemSums
    embedding: np.ndarray
    rows_per_user: int
    split: bool
    eta: float
    zeta: float

    def of(self, block: Block) -> SystemSums:
        parts, eta, zeta = 4 if self.split else 2, self.eta, self.zeta
        (d, k), width = self.embedding.shape, padded(len(self.embedding), LANES)
        how = np.ascontiguousarray(self.embedding.T), self.rows_per_user, parts, self.split, (eta, zeta)

        def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray]:
            blocks, vector = np.zeros((1, k * (k + 1) // 2, width, width)), np.zeros((1, k, d))
            _add_system(*some.for_kernels, *how, blocks[0], vector[0])
            return blocks, vector

        matrices, vectors = over_chunks(block, of_chunk)
        rows = self.rows_per_user // parts
        return SystemSums(
            PositiveSums(whole_matrix(matrices.sum(axis=0), *self.embedding.shape), rows * eta**2, block.n_users),
            ClippedSums(vectors.sum(axis=0).ravel(), rows * eta * zeta, block.n_users),
        )


@dataclass(frozen=True, eq=False)
class NormalisedPairs(Statistic[SymmetricSums]):
    """Σ_j Σ_i sym(x xʹᵀ/(‖x‖‖xʹ‖)) clip(y; ζ) clip(yʹ; ζ) over disjoint pairs of rows (Alg. 3, line 1).

    The paper's sym repeats the upper triangle; ours is the mean of a matrix and its transpose, which never is longer than
    the matrix.
    """

    gives = SymmetricSums
    rows_per_user: int
    zeta: float

    def of(self, block: Block) -> SymmetricSums:
        d = block.X.shape[1]

        def of_chunk(some: Block) -> np.ndarray:
            total = np.zeros((1, d, d))
            _add_pairs(*some.for_kernels, self.rows_per_user, self.zeta, total[0])
            return total

        upper = over_chunks(block, of_chunk).sum(axis=0)
        return SymmetricSums(upper + np.triu(upper, 1).T, self.rows_per_user // 2 * self.zeta**2, block.n_users)
