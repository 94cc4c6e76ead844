"""Which features people with sparse rows have, and how large they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from commonground.clipping.grid import N_BINS, bins_of
from commonground.clipping.sums import FeatureShares, SizeCounts
from commonground.data.population import Block
from commonground.statistics.statistic import Statistic


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
    return SizeCounts(np.bincount(bins, block.person_weights, minlength=N_BINS))


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
