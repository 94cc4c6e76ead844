"""Each person's gradient for the shared part, summed by size over a block of people."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from commonground.clipping.sums import BinnedSums
from commonground.data.users import Block
from commonground.statistics.kernels import gradients as kernels
from commonground.statistics.kernels.chunks import over_chunks, sum_over_chunks
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.statistic import WINDOW, Number, SharedModel, Statistic, Vector, WindowStart


@dataclass(frozen=True, eq=False)
class EmbeddingGradients(Statistic[BinnedSums]):
    """Person j sends (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²), r_j the residual of her best head v_j under ``model.embedding``.

    Divided by ‖v_j‖², a person with a large head does not set everybody's threshold; divided by her residual degrees of
    freedom instead of her rows, the sum estimates the same thing whatever number of rows people have.
    """

    gives = BinnedSums
    model: SharedModel
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        model, max_rows = self.model, int(np.diff(block.offsets).max())
        shared = model.embedding, model.coef, model.intercept, model.own_intercept
        how: tuple[Any, ...] = *shared, self.lowest, WINDOW, max_rows
        parts = over_chunks(block, lambda some: kernels.embedding_gradients(*some.for_kernels, *how), doubles=False)
        return BinnedSums.of_chunks(parts, self.lowest, block.n_users)


@dataclass(frozen=True, eq=False)
class MeanFeatures(Statistic[BinnedSums]):
    """Person j sends the mean of her rows."""

    gives = BinnedSums
    sees_through_coordinates = True
    lowest: WindowStart

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:

        def of_chunk(some: Block) -> BinnedSums:
            means = np.zeros((some.n_users, some.X.shape[1]))
            kernels.mean_rows(some.X, some.offsets, means)
            return BinnedSums.of(means[:, None, :], some.person_weights, self.lowest, WINDOW)

        return sum_over_chunks(block, of_chunk, coordinates)


@dataclass(frozen=True, eq=False)
class MeanGradients(Statistic[BinnedSums]):
    """Person j sends (X_jᵀ r_j, constant·Σ r_j)/m_j, r_j the residual of the one linear model for everybody.

    ``constant``: the size of the feature that the intercept is the coefficient of; 0 for a model without intercept.
    ``centre``: a public point that is taken from every row first.
    """

    gives = BinnedSums
    takes_no_directions = True
    model: SharedModel
    constant: Number
    lowest: WindowStart
    centre: Vector | None = None

    def of(self, block: Block) -> BinnedSums:
        if self.centre is not None and self.centre.any():
            with np.errstate(over="ignore", invalid="ignore"):
                block = replace(block, X=block.X - self.centre.astype(block.X.dtype))
        model = self.model
        w, max_rows = model.slopes.astype(block.X.dtype), int(np.diff(block.offsets).max())
        how: tuple[Any, ...] = (
            w,
            model.intercept,
            model.own_intercept,
            float(self.constant),
            self.lowest,
            WINDOW,
            max_rows,
        )
        parts = over_chunks(block, lambda some: kernels.mean_gradients(*some.for_kernels, *how), doubles=False)
        return BinnedSums.of_chunks(parts, self.lowest, block.n_users)
