"""Each person's own direction: where the initial embedding comes from.

Person j fits her rows alone with a little ridge, θ_j = argmin ‖y_j − X_j θ‖² + λ‖θ‖², and sends only the direction
u_j = θ_j/‖θ_j‖. With m < d rows this is the minimum-norm interpolator, whose cos² with the truth is about m/d: better than
that of Σ y x (m/(m+d)). A unit vector needs no clipping threshold and no bound on the labels.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import bin_of
from commonground.clipping.sums import DirectionSums, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import sum_over_chunks
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.lanes import LANES, pointer
from commonground.statistics.kernels.linear import add_moment, centre_in_place, solve_in_place
from commonground.statistics.kernels.person import FAST, gram_of
from commonground.statistics.sparse_features import parts_within, sparse_energy_counts
from commonground.statistics.statistic import Flag, Frame, SharedModel, Statistic

_RIDGE = 0.05  # of the mean eigenvalue: labels are noisy, and a near-singular Gram matrix would amplify that


@kernel(fastmath=FAST, error_model="numpy")
def _directions(  # type: ignore[no-untyped-def]
    X, y, offsets, w, intercept, local_intercept, R, labels, gram, moment, one, factors, theta, directions
):
    n, d = offsets.shape[0] - 1, X.shape[1]
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m - local_intercept < 1:
            continue
        for i in range(m):
            shared = intercept
            for a in range(d):  # stores nothing: a loop that does is added up by where arrays lie
                shared += X[lo + i, a] * w[a]
            labels[i] = y[lo + i] - shared
            for a in range(d):
                R[i, a] = X[lo + i, a]
        if local_intercept:
            centre_in_place(R, labels, m)
        energy = 0.0
        for i in range(m):
            for a in range(d):
                energy += R[i, a] * R[i, a]
        if not (energy > 0.0 and energy < math.inf):
            continue
        size = min(m, d)
        for a in range(d):
            theta[a] = 0.0
        if m <= d:
            gram_of(pointer(R), R.shape[1], d, m - 1, pointer(gram), gram.shape[1])
        else:
            for a in range(R.shape[1]):
                for c in range(R.shape[1]):
                    moment[0, a, c] = 0.0
            add_moment(moment, R, m, one, factors)
            for a in range(d):
                for c in range(a + 1):
                    gram[a, c] = moment[0, c, a]
                along = 0.0
                for i in range(m):
                    along += R[i, a] * labels[i]
                theta[a] = along
        for i in range(size):
            gram[i, i] += _RIDGE * energy / size
        if not solve_in_place(gram, labels[:m] if m <= d else theta):
            continue
        if m <= d:
            for i in range(m):
                for a in range(d):
                    theta[a] += R[i, a] * labels[i]
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
    sees_through_coordinates = True
    model: SharedModel

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> DirectionSums:
        return sum_over_chunks(
            block, lambda some: DirectionSums.of(self._of_people(some), some.person_weights), coordinates
        )

    def _of_people(self, some: Block) -> np.ndarray:
        d, most = some.X.shape[1], int(np.diff(some.offsets).max())
        # Lanes of columns, and rows four by four
        width, height = (-(-d // LANES) * LANES, -(-(min(most, d) + 1) // 4) * 4)
        room = (
            np.zeros((most + 4, width)),
            np.empty(most),
            np.empty((height, height)),
            np.empty((1, width, width)),
            np.ones(1),
            np.empty(1),
            np.empty(d),
        )
        directions, model = np.zeros((some.n_users, d)), self.model
        y, intercept = some.y.astype(np.float64, copy=False), float(model.intercept)
        _directions(some.X, y, some.offsets, model.slopes, intercept, int(model.own_intercept), *room, directions)
        return directions


@dataclass(frozen=True, eq=False)
class DirectionsWithin(Directions):
    """The same for the parts of people's directions within a (d, r) subspace, each again of norm one."""

    subspace: Frame

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> DirectionSums:

        def of_chunk(some: Block) -> DirectionSums:
            return DirectionSums.of(parts_within(self._of_people(some), self.subspace), some.person_weights)

        return sum_over_chunks(block, of_chunk, coordinates)


@kernel(error_model="numpy")
def _energy_bins(X, offsets, local_intercept, sums, bins):  # type: ignore[no-untyped-def]
    n, d = offsets.shape[0] - 1, X.shape[1]
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
                x = np.float64(X[i, a])
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
    sees_through_coordinates = True
    own_intercept: Flag

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> SizeCounts:
        if block.sparse:
            return sparse_energy_counts(block, self.own_intercept)

        def of_chunk(some: Block) -> SizeCounts:
            bins = np.zeros(some.n_users, np.int64)
            _energy_bins(some.X, some.offsets, int(self.own_intercept), np.empty(some.X.shape[1]), bins)
            return SizeCounts.of(bins, some.person_weights)

        return sum_over_chunks(block, of_chunk, coordinates)
