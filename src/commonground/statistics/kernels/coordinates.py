"""Rows seen through coordinates without making them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Coordinates:
    """z = T (x − centre), as factors of people's sums: a product with few columns is made of x, and only sums are turned."""

    transform: np.ndarray | None = None
    centre: np.ndarray | None = None

    def columns_for(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """C and s with x C − s = z · columns."""
        T = self.transform
        if T is not None:
            columns = T.T @ columns if T.ndim == 2 else T[:, None] * columns
        return columns, np.zeros(columns.shape[1]) if self.centre is None else self.centre @ columns

    def for_kernels(self, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tᵀ, of no size where it is a vector or nothing; scales; the centre."""
        T, centre = self.transform, np.zeros(d) if self.centre is None else self.centre
        if T is None or T.ndim == 1:
            return np.empty((0, 0)), np.ones(d) if T is None else np.ascontiguousarray(T), centre
        return np.ascontiguousarray(T.T), np.ones(d), centre
