"""Each person's gradient of the squared error of one model for everybody, features and label scaled by public bounds."""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.grid import CHUNK
from commonground.clipping.sums import ClippedSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.moments import PublicScale, within
from commonground.statistics.statistic import Statistic


@kernel(error_model="numpy")
def _gradients(  # type: ignore[no-untyped-def]
    X, y, offsets, weights, theta, clip_norm, low, width, centre, constant, label_low, label_high, label_centre, label_factor
):  # fmt: skip
    n, d, size = offsets.shape[0] - 1, X.shape[1], theta.shape[0]
    n_chunks = (n + CHUNK - 1) // CHUNK
    sums = np.zeros((n_chunks, size))
    for chunk in range(n_chunks):
        own, x = np.empty(size), np.full(size, constant)
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
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
                sums[chunk] += weights[j] * min(1.0, clip_norm / math.sqrt(max(squared, 1e-300))) * own
    return sums


@dataclass(frozen=True, eq=False)
class RowGradients(Statistic[ClippedSums]):
    """Σ_j w_j · clip(mean_i 2(θᵀx_ij − y_ij) x_ij; C) over people, x and y as ``scale`` writes them."""

    gives = ClippedSums
    scale: PublicScale
    theta: np.ndarray  # (d,) or (d + 1,) with the constant coordinate
    clip_norm: float

    def of(self, block: Block) -> ClippedSums:
        scale = self.scale
        sums = over_chunks(
            block,
            lambda some: _gradients(
                some.X, some.y, some.offsets, some.person_weights, self.theta, self.clip_norm, scale.low,
                scale.high - scale.low, scale.centre, scale.constant, scale.label_low, scale.label_high, scale.label_centre,
                scale.label_scale / scale.label_unit,
            ),
        ).sum(axis=0)  # fmt: skip
        return ClippedSums(sums, self.clip_norm, block.n_users)
