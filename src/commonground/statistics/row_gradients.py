"""Each person's gradient of the squared error of one model for everybody, features and label scaled by public bounds."""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.sums import ClippedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.moments import PublicScale, within
from commonground.statistics.statistic import Statistic


@kernel(error_model="numpy")
def _gradients(X, y, offsets, weights, theta, clip_norm, features, labels):  # type: ignore[no-untyped-def]
    (low, width, centre, constant), (label_low, label_high, label_centre, label_factor) = features, labels
    d, size = X.shape[1], theta.shape[0]
    sums = np.zeros((1, size))
    own, x = np.empty(size), np.full(size, constant)
    for j in range(offsets.shape[0] - 1):
        own[:] = 0.0
        for i in range(offsets[j], offsets[j + 1]):
            error = -label_factor * (within(y[i], label_low, label_high) - label_centre)
            for a in range(d):
                x[a] = within((X[i, a] - low[a]) / width[a], 0.0, 1.0) - centre
            for a in range(size):
                error += theta[a] * x[a]
            for a in range(size):
                own[a] += 2.0 * error * x[a]
        own /= max(offsets[j + 1] - offsets[j], 1)
        squared = 0.0
        for a in range(size):
            squared += own[a] * own[a]
        if squared < math.inf:  # θ is public; a huge one makes everybody's gradient too large for a number
            sums[0] += weights[j] * min(1.0, clip_norm / math.sqrt(max(squared, 1e-300))) * own
    return sums


@dataclass(frozen=True, eq=False)
class RowGradients(Statistic[ClippedSums]):
    """Σ_j w_j · clip(mean_i 2(θᵀx_ij − y_ij) x_ij; C) over people, x and y as ``scale`` writes them."""

    gives = ClippedSums
    scale: PublicScale
    theta: np.ndarray  # (d,) or (d + 1,) with the constant coordinate
    clip_norm: float

    def of(self, block: Block) -> ClippedSums:
        how = self.theta, self.clip_norm, *self.scale.for_kernels
        sums = over_chunks(block, lambda some: _gradients(*some.for_kernels, *how)).sum(axis=0)
        return ClippedSums(sums, self.clip_norm, block.n_users)
