"""Labelled records divided among owners who see different classes, as in P4's experiments."""

from dataclasses import dataclass

import numpy as np

from commonground.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class OwnersData:
    """Records, whose they are, and records of the same owners to test on.

    Parameters
    ----------
    X : array of shape (records, 1, side, side)
        float32, between 0 and 1.
    y, owners : array of shape (records,)
        int64: the class, and whose the record is.
    users : array of shape (records,)
        int64, numbered across all owners.
    test_X, test_y, test_owners : array
        The same of the records to test on.
    """

    X: np.ndarray
    y: np.ndarray
    owners: np.ndarray
    users: np.ndarray
    test_X: np.ndarray  # noqa: N815 (X as everywhere)
    test_y: np.ndarray
    test_owners: np.ndarray


def across_owners(
    X: np.ndarray, y: np.ndarray, test_X: np.ndarray, test_y: np.ndarray, *, n_owners: int, n_records: int,
    records_per_user: int = 1, seed: int = 0,
) -> OwnersData:  # fmt: skip
    """Some of the records, divided evenly among owners of whom each holds 8 of 10 classes (P4 §4.1).

    All test records of an owner's classes are divided the same way. Every class is missing at one owner in five.

    Parameters
    ----------
    X : array of shape (records, side, side)
        Images as bytes.
    y : array of shape (records,)
        Their classes.
    test_X, test_y : array
        The same to test on.
    n_owners : int
        Among how many they are divided.
    n_records : int
        How many of the records are.
    records_per_user : int, default=1
        By which an owner's records are dealt to users.
    seed : int, default=0
        Of the division.

    Returns
    -------
    OwnersData
    """
    if not 0 < n_records <= len(y):
        raise InputError(f"n_records must lie between 1 and the {len(y)} records there are, got {n_records!r}.")
    # The same records for every number of owners, so that tables differ in the division alone.
    rows = np.random.default_rng([seed, 0x0E75]).choice(len(y), n_records, replace=False)
    rng = np.random.default_rng([seed, n_owners, 0xDEA1])
    n_classes = int(y.max()) + 1
    missing = np.concatenate(
        [rng.permutation(n_classes).reshape(-1, 2) for _ in range(-(-n_owners // (n_classes // 2)))]
    )
    has = np.ones((n_owners, n_classes), dtype=bool)
    has[np.arange(n_owners)[:, None], missing[:n_owners]] = False
    rows, owners = _deal(rows, y, has, rng)
    test_rows, test_owners = _deal(rng.permutation(len(test_y)), test_y, has, rng)
    within = _places(owners)
    users = np.unique(np.stack([owners, within // records_per_user]), axis=1, return_inverse=True)[1]
    return OwnersData(
        _images(X[rows]),
        y[rows].astype(np.int64),
        owners,
        users,
        _images(test_X[test_rows]),
        test_y[test_rows].astype(np.int64),
        test_owners,
    )


def digits_across_owners(n_owners: int = 16, records_per_user: int = 1, seed: int = 0) -> OwnersData:
    """scikit-learn's 1,797 digits of 8 × 8 pixels, a third of them for testing.

    Parameters
    ----------
    n_owners : int, default=16
        Among how many they are divided.
    records_per_user : int, default=1
        By which an owner's records are dealt to users.
    seed : int, default=0
        Of the division.

    Returns
    -------
    OwnersData

    Examples
    --------
    >>> data = digits_across_owners(n_owners=5, seed=1)
    >>> data.X.shape, len(data.test_y), max(len(np.unique(data.y[data.owners == j])) for j in range(5))
    ((1200, 1, 8, 8), 597, 8)
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * (255.0 / 16.0)).astype(np.uint8)
    order = np.random.default_rng([seed, 0xD161]).permutation(len(labels))
    train, test = order[:1200], order[1200:]
    rows = images[train], labels[train], images[test], labels[test]
    return across_owners(*rows, n_owners=n_owners, n_records=1200, records_per_user=records_per_user, seed=seed)


def _deal(rows: np.ndarray, y: np.ndarray, has: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Each class's rows evenly among the owners that hold it; rows come back grouped by owner, in random order inside."""
    owner = np.empty(len(rows), dtype=np.int64)
    for c in range(has.shape[1]):
        here, holders = np.flatnonzero(y[rows] == c), np.flatnonzero(has[:, c])
        owner[here] = rng.permutation(np.resize(rng.permutation(holders), len(here)))
    order = np.argsort(owner, kind="stable")
    return rows[order], owner[order]


def _places(owners: np.ndarray) -> np.ndarray:
    """0, 1, 2, … inside each owner; rows are grouped by owner."""
    starts = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    return np.arange(len(owners)) - np.repeat(starts, np.diff(np.r_[starts, len(owners)]))


def _images(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)[:, None] / np.float32(255.0)
