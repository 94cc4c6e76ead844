"""Each person's second moment of her rows, features and label scaled by public bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from commonground.clipping.sums import PositiveSums
from commonground.compiled import kernel
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.statistic import Statistic


@dataclass(frozen=True)
class PublicScale:
    """z = (x′ − centre, constant, label_scale · (y′ − label_centre)), x′ in [0, 1] by the bounds of each feature.

    Rows outside of the bounds are moved to them. ``constant=0`` leaves that coordinate out.
    """

    low: np.ndarray  # (d,) public bounds of the features
    high: np.ndarray
    label_low: float
    label_high: float
    label_unit: float  # the y′ = 1 in units of the label
    centre: float
    label_centre: float  # in units of the label
    constant: float
    label_scale: float

    @property
    def squared_radius(self) -> float:
        """The largest ‖z‖² that rows within the bounds can have."""
        far = max(abs(self.label_low - self.label_centre), abs(self.label_high - self.label_centre)) / self.label_unit
        feature = max(self.centre, 1 - self.centre) ** 2
        return len(self.low) * feature + self.constant**2 + (self.label_scale * far) ** 2

    @property
    def for_kernels(self) -> tuple[tuple[Any, ...], tuple[float, ...]]:
        """Of features: low ends, widths, centre, constant; of labels: both ends, centre, factor."""
        features = self.low, self.high - self.low, self.centre, self.constant
        return features, (self.label_low, self.label_high, self.label_centre, self.label_scale / self.label_unit)

    def linear_model(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients and intercept in the units of the data, for y′ − label_centre = θᵀ(x′ − centre, constant)."""
        d = len(self.low)
        coef = self.label_unit * theta[:d] / (self.high - self.low)
        fixed = self.constant * theta[d] if self.constant else 0.0
        at_zero = fixed - self.centre * theta[:d].sum()
        return coef, float(self.label_centre + self.label_unit * at_zero - coef @ self.low)


@njit(inline="always")
def within(value, low, high):  # type: ignore[no-untyped-def]
    """Moved to the nearest bound; NaN to the lower one."""
    return high if value > high else value if value > low else low


@kernel(error_model="numpy")
def _moments(X, y, offsets, weights, features, labels):  # type: ignore[no-untyped-def]
    (low, width, centre, constant), (label_low, label_high, label_centre, label_factor) = features, labels
    d = X.shape[1]
    size = d + 1 + (constant > 0)
    sums = np.zeros((1, size, size))
    own, z = np.empty((size, size)), np.full(size, constant)
    for j in range(offsets.shape[0] - 1):
        own[:] = 0.0
        for i in range(offsets[j], offsets[j + 1]):
            for a in range(d):
                z[a] = within((X[i, a] - low[a]) / width[a], 0.0, 1.0) - centre
            z[size - 1] = label_factor * (within(y[i], label_low, label_high) - label_centre)
            for a in range(size):
                for b in range(a + 1):
                    own[a, b] += z[a] * z[b]
        sums[0] += weights[j] / max(offsets[j + 1] - offsets[j], 1) * own
    return sums


@dataclass(frozen=True, eq=False)
class RowMoments(Statistic[PositiveSums]):
    """Σ_j w_j · mean_i z_ij z_ijᵀ over people."""

    gives = PositiveSums
    scale: PublicScale

    def of(self, block: Block) -> PositiveSums:
        how = self.scale.for_kernels
        lower = over_chunks(block, lambda some: _moments(*some.for_kernels, *how)).sum(axis=0)
        return PositiveSums(lower + np.tril(lower, -1).T, self.scale.squared_radius, block.n_users)
