"""Each person's gradient for the shared part, summed by size over a block of people."""

from dataclasses import replace

import numpy as np

from commonground.clipping.sums import BinnedSums
from commonground.data.users import Block
from commonground.statistics.kernels import gradients as kernels

WINDOW = 16  # bins (8 octaves) around the expected size for which sums are kept


def embedding_gradient_sums(
    block: Block,
    embedding: np.ndarray,
    mean: np.ndarray | None,
    intercept: float,
    local_intercept: bool,
    lowest: int,
) -> BinnedSums:
    """Person j sends (X_jᵀ r_j) v_jᵀ / (dof_j ‖v_j‖²), r_j the residual of her best head v_j under ``embedding``.

    Divided by ‖v_j‖², a person with a large head does not set everybody's threshold; divided by her residual degrees of
    freedom instead of her rows, the sum estimates the same thing whatever number of rows people have.
    """
    d, k = embedding.shape
    columns = k + (mean is not None)
    W = np.zeros((2 if columns <= 2 else -(-columns // 4) * 4, d), block.X.dtype)
    W[:k] = embedding.T
    if mean is not None:
        W[k] = mean
    counts, raw, unit = kernels.embedding_gradients(
        block.X, block.y, block.offsets, block.person_weights, W, k, mean is not None, intercept, local_intercept, lowest, WINDOW,
        int(np.diff(block.offsets).max()),
    )  # fmt: skip
    return _binned(block, counts, raw, unit, lowest)


def mean_feature_sums(block: Block, lowest: int) -> BinnedSums:
    """Person j sends the mean of her rows."""
    sizes = np.diff(block.offsets)
    some = sizes > 0  # reduceat gives a person without rows the next one's, and raises behind the last row
    means = np.zeros((block.n_users, block.X.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        totals = np.add.reduceat(block.X.astype(np.float64), block.offsets[:-1][some])
        means[some] = totals / sizes[some, None]
    return BinnedSums.of(means[:, None, :], block.person_weights, lowest, WINDOW)


def mean_gradient_sums(
    block: Block, mean: np.ndarray, intercept: float, centred: bool, constant: float, lowest: int,
    centre: np.ndarray | None = None,
) -> BinnedSums:  # fmt: skip
    """Person j sends (X_jᵀ r_j, constant·Σ r_j)/m_j, r_j the residual of the one linear model for everybody.

    ``constant``: the size of the feature that the intercept is the coefficient of; 0 for a model without intercept.
    ``centre``: a public point that is taken from every row first.
    """
    if centre is not None and centre.any():
        with np.errstate(over="ignore", invalid="ignore"):
            block = replace(block, X=block.X - centre.astype(block.X.dtype))
    counts, raw, unit = kernels.mean_gradients(
        block.X, block.y, block.offsets, block.person_weights, mean.astype(block.X.dtype), intercept, centred,
        float(constant), lowest, WINDOW, int(np.diff(block.offsets).max()),
    )  # fmt: skip
    return _binned(block, counts, raw, unit, lowest)


def _binned(block: Block, counts: np.ndarray, raw: np.ndarray, unit: np.ndarray, lowest: int) -> BinnedSums:
    raw, unit = kernels.sum_over_chunks(raw), kernels.sum_over_chunks(unit)
    return BinnedSums(counts.sum(axis=0), raw, unit, lowest, block.n_users)
