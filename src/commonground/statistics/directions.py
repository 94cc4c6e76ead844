"""Each person's own direction: where the initial embedding comes from.

Person j fits her rows alone with a little ridge, θ_j = argmin ‖y_j − X_j θ‖² + λ‖θ‖², and sends only the direction
u_j = θ_j/‖θ_j‖. With m < d rows this is the minimum-norm interpolator, whose cos² with the truth is about m/d: better than
that of Σ y x (m/(m+d)). A unit vector needs no clipping threshold and no bound on the labels.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import N_BINS, bin_of
from commonground.clipping.sums import DirectionSums, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.sparse_features import sparse_energy_counts
from commonground.statistics.statistic import Flag, Frame, SharedModel, Statistic

_LEAST_WITHIN = 1e-6  # of a direction's norm: what is left of less is rounding
_RIDGE = 0.05  # of the mean eigenvalue: labels are noisy, and a near-singular Gram matrix would amplify that


@kernel()
def solve_in_place(gram, rhs):  # type: ignore[no-untyped-def]
    """Cholesky without LAPACK, which would raise on one person's strange rows and stop everybody's training."""
    size = rhs.shape[0]
    for c in range(size):
        for b in range(c):
            gram[c, c] -= gram[c, b] * gram[c, b]
            rhs[c] -= gram[c, b] * rhs[b]
        if not gram[c, c] > 0.0:
            return False
        gram[c, c] = math.sqrt(gram[c, c])
        rhs[c] /= gram[c, c]
        for q in range(c + 1, size):
            for b in range(c):
                gram[q, c] -= gram[q, b] * gram[c, b]
            gram[q, c] /= gram[c, c]
    for c in range(size - 1, -1, -1):
        for b in range(c + 1, size):
            rhs[c] -= gram[b, c] * rhs[b]
        rhs[c] /= gram[c, c]
    return True


@kernel(error_model="numpy", inline="always")
def centre_in_place(rows, labels, m):  # type: ignore[no-untyped-def]
    """Take their means out of the columns of the first m rows, and out of their labels: an intercept of her own."""
    mean = 0.0
    for i in range(m):
        mean += labels[i]
    mean /= m
    for i in range(m):
        labels[i] -= mean
    for a in range(rows.shape[1]):
        mean = 0.0
        for i in range(m):
            mean += rows[i, a]
        mean /= m
        for i in range(m):
            rows[i, a] -= mean


@kernel(error_model="numpy")
def _directions(X, y, offsets, w, intercept, local_intercept, directions):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        if m - local_intercept < 1:
            continue
        rows, labels = np.empty((m, d)), np.empty(m)
        for i in range(m):
            labels[i] = y[lo + i] - intercept
            for a in range(d):
                rows[i, a] = X[lo + i, a]
                labels[i] -= rows[i, a] * w[a]
        if local_intercept:
            centre_in_place(rows, labels, m)
        energy = 0.0
        for i in range(m):
            for a in range(d):
                energy += rows[i, a] * rows[i, a]
        if not (energy > 0.0 and energy < math.inf):
            continue
        size = min(m, d)
        gram, theta, columns = np.empty((size, size)), np.empty(d), rows.T
        if m <= d:
            np.dot(rows, columns, gram)
        else:
            np.dot(columns, rows, gram)
        for i in range(size):
            gram[i, i] += _RIDGE * energy / size
        solution = labels
        if m > d:
            solution = np.dot(columns, labels, theta)
        if not solve_in_place(gram, solution):
            continue
        if m <= d:
            np.dot(columns, solution, theta)
        norm = 0.0
        for a in range(d):
            norm += theta[a] * theta[a]
        norm = math.sqrt(norm)
        if norm > 0.0 and norm < math.inf:
            for a in range(d):
                directions[j, a] = theta[a] / norm


@dataclass(frozen=True, eq=False)
class Directions(Statistic[DirectionSums]):
    """Σ_j u_j u_jᵀ over people, u_j the direction of person j's own coefficients beside the shared part."""

    gives = DirectionSums
    takes_no_directions = True
    model: SharedModel

    def of(self, block: Block) -> DirectionSums:
        return DirectionSums.of(self._of_people(block), block.person_weights)

    def _of_people(self, block: Block) -> np.ndarray:
        model = self.model

        def of_chunk(some: Block) -> np.ndarray:
            directions, intercepts = np.zeros((some.n_users, some.X.shape[1])), (model.intercept, model.own_intercept)
            _directions(
                some.X, some.y, some.offsets, model.slopes, float(intercepts[0]), int(intercepts[1]), directions
            )
            return directions

        return np.asarray(over_chunks(block, of_chunk))


@kernel(error_model="numpy")
def _within(directions, subspace):  # type: ignore[no-untyped-def]
    """Each row by the same additions wherever it stands, then of norm one; zero where next to nothing lies within."""
    n, (d, r) = directions.shape[0], subspace.shape
    within = np.zeros((n, r))
    for j in range(n):
        for a in range(d):
            for c in range(r):
                within[j, c] += directions[j, a] * subspace[a, c]
        norm = 0.0
        for c in range(r):
            norm += within[j, c] * within[j, c]
        norm = math.sqrt(norm)
        for c in range(r):
            within[j, c] = within[j, c] / norm if norm > _LEAST_WITHIN else 0.0 * within[j, c]
    return within


@dataclass(frozen=True, eq=False)
class DirectionsWithin(Directions):
    """The same for the parts of people's directions within a (d, r) subspace, each again of norm one."""

    subspace: Frame

    def of(self, block: Block) -> DirectionSums:
        return DirectionSums.of(_within(self._of_people(block), self.subspace), block.person_weights)


@kernel(error_model="numpy")
def _energy_bins(X, offsets, local_intercept, bins):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
    sums = np.empty(d)
    for j in range(n):
        lo, hi = offsets[j], offsets[j + 1]
        m = hi - lo
        if m - local_intercept < 1:
            continue
        energy = 0.0
        for a in range(d):
            sums[a] = 0.0
        for i in range(lo, hi):
            for a in range(d):
                x = X[i, a]
                sums[a] += x
                energy += x * x
        if local_intercept:
            about_zero = 0.0
            for a in range(d):
                about_zero += sums[a] * sums[a]
            energy -= about_zero / m
        bins[j] = bin_of(energy / ((m - local_intercept) * d))


@dataclass(frozen=True, eq=False)
class FeatureEnergies(Statistic[SizeCounts]):
    """How many people have which mean squared feature value (about their own mean, with an intercept of their own)."""

    gives = SizeCounts
    own_intercept: Flag

    def of(self, block: Block) -> SizeCounts:
        if block.sparse:
            return sparse_energy_counts(block, self.own_intercept)

        def of_chunk(some: Block) -> np.ndarray:
            bins = np.zeros(some.n_users, np.int64)
            _energy_bins(some.X, some.offsets, int(self.own_intercept), bins)
            return bins

        bins = over_chunks(block, of_chunk)
        return SizeCounts(np.bincount(bins, block.person_weights, minlength=N_BINS))
