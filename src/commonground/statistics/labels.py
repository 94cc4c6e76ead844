"""Where people's labels lie, and how far they spread: what is known before any model is."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from commonground.clipping.grid import N_SIGNED_BINS, bins_of, signed_bins
from commonground.clipping.sums import BinnedSums, SizeCounts
from commonground.data.population import Block
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.products import row_products
from commonground.statistics.statistic import WINDOW, Number, Positive, SharedModel, Statistic, WindowStart


def _residual_sums(
    block: Block, model: SharedModel, coordinates: Coordinates
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of each person, the sum of what the shared prediction leaves of her labels, and the sum of its squares."""
    columns, shift = coordinates.columns_for(model.slopes[:, None])
    with np.errstate(over="ignore", invalid="ignore"):
        shared = (row_products(block.X, columns) - shift)[:, 0] if columns.any() else 0.0
        residuals = block.y - (shared + model.intercept)
        squares = residuals * residuals
    m = np.diff(block.offsets)
    some, sums, energies = m > 0, np.zeros(len(m)), np.zeros(len(m))
    if some.any():  # reduceat gives a person without rows the next one's, and raises behind the last row
        with np.errstate(over="ignore", invalid="ignore"):
            sums[some] = np.add.reduceat(residuals, block.offsets[:-1][some])
            energies[some] = np.add.reduceat(squares, block.offsets[:-1][some])
    return m, sums, energies


@dataclass(frozen=True, eq=False)
class LabelMeans(Statistic[BinnedSums]):
    """Person j sends the mean of what the shared prediction leaves of her labels: one number."""

    gives = BinnedSums
    takes_no_directions = True
    sees_through_coordinates = True
    model: SharedModel
    lowest: WindowStart

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:
        m, sums, _ = _residual_sums(block, self.model, coordinates)
        means = sums / np.maximum(m, 1)
        return BinnedSums.of(means[:, None, None], block.person_weights, self.lowest, WINDOW)


@dataclass(frozen=True, eq=False)
class LabelPlaces(Statistic[SizeCounts]):
    """How many people have which mean of what the shared prediction leaves of their labels, below and above zero."""

    gives = SizeCounts
    takes_no_directions = True
    sees_through_coordinates = True
    model: SharedModel

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> SizeCounts:
        m, sums, _ = _residual_sums(block, self.model, coordinates)
        with np.errstate(over="ignore", invalid="ignore"):
            bins = signed_bins(sums / np.maximum(m, 1))
        return SizeCounts.of(bins, block.person_weights, N_SIGNED_BINS)


@dataclass(frozen=True, eq=False)
class LabelEnergies(Statistic[SizeCounts]):
    """How many people have which mean square of what the shared prediction leaves of their labels.

    About their own mean where they have an intercept of their own.
    """

    gives = SizeCounts
    takes_no_directions = True
    sees_through_coordinates = True
    model: SharedModel

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> SizeCounts:
        m, sums, energies = _residual_sums(block, self.model, coordinates)
        own = int(self.model.own_intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            if own:
                energies = np.maximum(energies - sums * sums / np.maximum(m, 1), 0.0)
            bins = bins_of(np.where(m > own, energies / np.maximum(m - own, 1), 0.0))
        return SizeCounts.of(bins, block.person_weights)


@dataclass(frozen=True, eq=False)
class LabelsInUnit(Statistic[Any]):
    """Another statistic of the same people, whose labels are seen from a public number, and divided by a public unit."""

    statistic: Statistic
    unit: Positive
    zero: Number = 0.0

    @property
    def inner(self) -> Statistic[Any]:
        return self.statistic

    def of(self, block: Block) -> Any:
        with np.errstate(over="ignore"):  # beyond floats: what is not finite is nobody's contribution
            labels = ((block.y - self.zero) / self.unit).astype(block.y.dtype)
        return self.statistic.of(replace(block, y=labels))
