"""Features at prediction: the same ones as in training, by name and number."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from commonground.data.columns import columns_of
from commonground.data.items import as_csr
from commonground.errors import InputError


def check_features(X: Any, n_features: int, names: Sequence[str] | None) -> np.ndarray:
    """Rows for prediction as a float64 matrix (sparse if they are), or an error that says what does not fit."""
    columns = columns_of(X)
    if columns is not None and names is not None:
        given = [str(name) for name in columns]
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(
                f"the model was trained on features {list(names)}, but {missing} are missing. Got {given}."
            )
        X = X[list(names)]
    matrix = X if sparse.issparse(X) else np.ascontiguousarray(as_floats(X, "features"))
    if matrix.ndim != 2 or matrix.shape[1] != n_features:
        raise InputError(
            f"expected rows of {n_features} features, got an array of shape {matrix.shape}. "
            "One row per prediction, one column per training feature, in the same order."
        )
    if sparse.issparse(matrix):
        return as_csr(matrix, range(n_features)).astype(np.float64)
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(f"row {row}, column {column} of the features is NaN or infinite. Fill it in or drop the row.")
    return matrix


def as_floats(values: Any, what: str) -> np.ndarray:
    """Numbers of any type as float64. Text, dates and complex numbers, which NumPy would convert, are refused."""
    if sparse.issparse(values):
        raise InputError(f"{what} are a sparse matrix, for which there is no version here. Pass X.toarray().")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(over="ignore"):  # a longer float becomes infinite, which is reported by who asked
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{what} must be numbers; encode text columns first.") from None
