"""People as a column of X: what scikit-learn's searches, scorers and pipelines cut into folds and hand on stays whole."""

from typing import Any

import numpy as np
from scipy import sparse

from commonground.data.columns import columns_of
from commonground.errors import InputError, is_whole


def without_user_column(X: Any, user: Any, name: str, n_columns: int | None = None) -> tuple[Any, Any]:
    """The features without the column of users, and whose row each is, of rows that have both.

    ``X`` is a frame of pandas or polars with a column named ``user``, or an array with one at this position, of ``n_columns``
    in training. ``name`` is the model's, for errors.
    """
    names = columns_of(X)
    if names is not None:
        if user not in names:
            raise InputError(f"user={user!r} is no column of X; there are {[str(name) for name in names]}.")
        return X[[name for name in names if name != user]], _known(X[user])
    if sparse.issparse(X):
        raise InputError("sparse rows have no room for ids; give users=ids, with one id for each row.")
    X = np.asarray(X)
    if not is_whole(user):
        raise InputError(
            f"user={user!r} is a column's name, but X is an array without names. Give a position, or a frame."
        )
    if X.ndim != 2:
        raise InputError(f"X must have rows and columns, got an array of shape {X.shape}. Reshape your data.")
    if n_columns not in (None, X.shape[1]):
        raise InputError(
            f"X has {X.shape[1]} features, but {name} is expecting {n_columns} features as input, people too."
        )
    if not -X.shape[1] <= user < X.shape[1]:
        raise InputError(f"user={user} is no column of X, an array of shape {X.shape}.")
    features = np.delete(X, user, axis=1)
    return (features if features.dtype != object else np.array(features.tolist())), _known(X[:, user])


def _known(ids: Any) -> Any:
    numbers = np.asarray(ids)
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        row = int(np.argmin(np.isfinite(numbers)))
        raise InputError(f"row {row} belongs to nobody: its user id is NaN or infinite. Fill it in, or drop the row.")
    return ids
