"""Arrays of numbers out of whatever was given, or an error that says what is wrong with it."""

import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse

from commonground.data.columns import bad_value, not_numeric
from commonground.data.ids import no_rows
from commonground.errors import InputError

# --- numbers --------------------------------------------------------------------------------------------------------


def one_array(values: Any, if_ragged: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(if_ragged) from None


def two_dimensional(X: Any) -> np.ndarray:
    if sparse.issparse(X):
        matrix = X
    else:
        matrix = one_array(X, "The rows of X have different lengths. Give each row one number per feature.")
    if matrix.shape[:1] == (0,):
        raise no_rows()
    if matrix.ndim != 2:
        raise InputError(
            f"X must be two-dimensional (rows, features), got shape {matrix.shape}. "
            "Use X.reshape(-1, 1) for a single feature."
        )
    if matrix.shape[1] == 0:
        raise InputError("X has no features (0 columns). At least one is needed.")
    return matrix


def as_numbers(matrix: np.ndarray, names: Sequence[object], is_label: bool = False) -> np.ndarray:
    """C-contiguous float32 if it was float32, else float64; the first column that holds anything else is named."""
    if matrix.dtype == object:
        for j, name in enumerate(names):
            for row, value in enumerate(matrix[:, j]):
                if value is None or type(value).__name__ == "NAType":  # pandas' NA, which need not be installed
                    raise bad_value(row, name, "missing")
                if not isinstance(value, numbers.Real | Decimal | np.bool):
                    raise not_numeric(name, f"a {type(value).__name__}", is_label)
    elif matrix.dtype.kind not in "biuf":
        # One text among the rows of a list makes NumPy turn all of them into text.
        text = [name for j, name in enumerate(names) if not holds_numbers(matrix[:, j])]
        raise not_numeric(text[0] if text else names[0], matrix.dtype, is_label)
    try:
        return np.ascontiguousarray(matrix, dtype=np.float32 if matrix.dtype == np.float32 else np.float64)
    except (OverflowError, ValueError):  # Python's own numbers: an integer of 400 digits, a Decimal that is no number
        for j, name in enumerate(names):
            for row, value in enumerate(matrix[:, j]):
                if not fits_float(value):
                    raise bad_value(row, name, "too large for float64, or not a number") from None
        raise


def fits_float(value: Any) -> bool:
    try:
        float(value)
    except (OverflowError, ValueError):
        return False
    return True


def holds_numbers(column: np.ndarray) -> bool:
    """Whether a column of text could be read as numbers."""
    if column.dtype.kind not in "US":
        return False
    try:
        column.astype(np.float64)
    except ValueError:
        return False
    return True
