"""Rows seen through coordinates without making them."""

from dataclasses import dataclass

import numpy as np

from commonground.compiled import kernel


@kernel()
def _scaled(X, centre, scales, Z):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            Z[i, c] = (X[i, c] - centre[c]) * scales[c]


@kernel()
def _turned(X, centre, columns, Z):  # type: ignore[no-untyped-def]
    """(X − centre) @ columns, each row by the same additions wherever it stands: a library may round by place."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            Z[i, c] = 0.0
        for a in range(X.shape[1]):
            x = X[i, a] - centre[a]
            if x != 0.0:  # one-hot rows: one of d
                for c in range(X.shape[1]):
                    Z[i, c] += x * columns[a, c]


@dataclass(frozen=True)
class Coordinates:
    """z = T (x − centre), as factors of people's sums: a product with few columns is made of x, and only sums are turned."""

    transform: np.ndarray | None = None
    centre: np.ndarray | None = None

    def rows(self, X: np.ndarray) -> np.ndarray:
        """z for each row of X, of the same kind of numbers; X itself where nothing changes."""
        T, d, dtype = self.transform, X.shape[1], X.dtype
        if T is None and self.centre is None:
            return X
        centre, Z = np.zeros(d, dtype) if self.centre is None else self.centre.astype(dtype), np.empty_like(X)
        if T is not None and T.ndim == 2:
            _turned(X, centre, np.ascontiguousarray(T.T, dtype=dtype), Z)
        else:
            _scaled(X, centre, np.ones(d, dtype) if T is None else T.astype(dtype), Z)
        return Z

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
