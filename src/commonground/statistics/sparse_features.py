"""Which features people with sparse rows have, and how large they are."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from commonground.clipping.grid import CHUNK, bins_of
from commonground.clipping.sums import DirectionSums, FeatureShares, SizeCounts
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.products import row_products
from commonground.statistics.statistic import SharedModel, Statistic

_LEAST_WITHIN = 1e-6  # of a direction's norm: what is left of less is rounding


def _sum_per_person(block: Block, X: sparse.csr_array) -> sparse.csr_array:
    """(people, d): the sum of each person's rows of X."""
    ones = np.ones(block.n_rows)
    return sparse.csr_array((ones, np.arange(block.n_rows), block.offsets), shape=(block.n_users, block.n_rows)) @ X


def sparse_energy_counts(block: Block, local_intercept: bool) -> SizeCounts:
    """What ``FeatureEnergies`` gives."""
    X: Any = block.X.astype(np.float64)
    m = np.diff(block.offsets)
    with np.errstate(over="ignore", invalid="ignore"):
        energy = _sum_per_person(block, X.power(2)).sum(axis=1)
        if local_intercept:
            energy -= _sum_per_person(block, X).power(2).sum(axis=1) / m
        dof = m - local_intercept
        bins = bins_of(np.where(dof < 1, 0.0, energy / (np.maximum(dof, 1) * X.shape[1])))
    return SizeCounts.of(bins, block.person_weights)


@dataclass(frozen=True, eq=False)
class FeatureFrequencies(Statistic[FeatureShares]):
    """Person j sends the squares of her rows added up by feature, scaled to norm one: which features she has at all.

    For one-hot items that are rated once, 1/√m for each of her m items.
    """

    gives = FeatureShares

    def of(self, block: Block) -> FeatureShares:
        X: Any = block.X.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            energies = _sum_per_person(block, X.power(2))
        return FeatureShares.of(energies, block.person_weights)


@kernel(error_model="numpy")
def parts_within(directions, subspace):  # type: ignore[no-untyped-def]
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
class SparseDirections(Statistic[DirectionSums]):
    """Σ_j u_j u_jᵀ over people, u_j the direction of X_jᵀ r_j on some features, r_j what the shared part leaves of her labels.

    For one-hot rows it is what ``Directions`` gives of those features, in time and memory of the non-zeros; with a ``subspace``
    (features, r), what ``DirectionsWithin`` gives.
    """

    gives = DirectionSums
    takes_no_directions = True
    model: SharedModel
    features: np.ndarray  # positions
    subspace: np.ndarray | None = None

    def of(self, block: Block) -> DirectionSums:
        model, m = self.model, np.diff(block.offsets)
        X: Any = block.X.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            r = block.y - (row_products(X, model.slopes[:, None])[:, 0] + model.intercept)
            if model.own_intercept:
                person = block.person_of_row
                r = r - (np.bincount(person, r, block.n_users) / np.maximum(m, 1))[person]
            X.data = X.data * np.repeat(r, np.diff(X.indptr))
            pulled = _sum_per_person(block, X)[:, self.features]
            total = None
            for start in range(0, block.n_users, 8 * CHUNK):
                people = slice(start, start + 8 * CHUNK)
                rows = pulled[people].toarray()
                norms = np.sqrt((rows * rows).sum(axis=1))
                usual = (norms > 1e-100) & (norms < np.inf)
                rows = np.where(usual[:, None], rows / np.where(usual, norms, 1.0)[:, None], 0.0)
                rows = rows if self.subspace is None else parts_within(rows, self.subspace)
                part = DirectionSums.of(rows, block.person_weights[people])
                total = part if total is None else total + part
        assert total is not None  # a block has people
        return total
