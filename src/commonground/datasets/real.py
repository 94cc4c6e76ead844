"""Real data sets, read from a folder where the reader keeps them; none comes with the package.

The folder is named by the environment variable COMMONGROUND_DATA; without it, ``../shared/data`` is tried.
"""

import csv
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from commonground.errors import InputError

FOLDER_VARIABLE = "COMMONGROUND_DATA"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features, labels, and whose rows they are; values as in the files, not scaled."""

    X: np.ndarray
    y: np.ndarray
    user_ids: np.ndarray
    feature_names: tuple[str, ...] | None = None  # None: pixels
    test: "DataSet | None" = None  # where the data set itself sets rows aside


@dataclass(frozen=True)
class _Source:
    official_name: str
    files: tuple[str, ...]
    read: Callable[[list[Path]], DataSet]


def load(name: str) -> DataSet:
    """A real data set by name: "insurance", "mnist" or "fashion-mnist".

    >>> load("imagenet")
    Traceback (most recent call last):
    commonground.errors.InputError: there is no data set 'imagenet'; known are fashion-mnist, insurance, mnist.
    """
    if name not in _SOURCES:
        raise InputError(f"there is no data set {name!r}; known are {', '.join(sorted(_SOURCES))}.")
    source = _SOURCES[name]
    folder = Path(os.environ.get(FOLDER_VARIABLE) or Path("..") / "shared" / "data")
    paths = [folder / name / file for file in source.files]
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"data set {name!r} ({source.official_name}) is not at {path}. It does not come with commonground: "
                f"get it from its official source and put {', '.join(source.files)} into a folder {name!r} below the "
                f"one that the environment variable {FOLDER_VARIABLE} names."
            )
    return source.read(paths)


def _read_insurance(paths: list[Path]) -> DataSet:
    """Numbers as they are, categories one-hot; every row is a person."""
    with open(paths[0], newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names, columns = [], []
    for column in ("age", "bmi", "children"):
        names.append(column)
        columns.append([float(row[column]) for row in rows])
    for column in ("sex", "smoker", "region"):
        for value in sorted({row[column] for row in rows}):
            names.append(f"{column}={value}")
            columns.append([float(row[column] == value) for row in rows])
    y = np.array([float(row["charges"]) for row in rows])
    return DataSet(np.array(columns).T, y, np.arange(len(y)), tuple(names))


def _read_images(paths: list[Path]) -> DataSet:
    """Images (n, 28, 28) as bytes, labels 0 to 9; every image is a person's."""
    train_X, train_y, test_X, test_y = (_read_idx(path) for path in paths)
    test = DataSet(test_X, test_y, np.arange(len(test_y)))
    return DataSet(train_X, train_y, np.arange(len(train_y)), test=test)


def _read_idx(path: Path) -> np.ndarray:
    with gzip.open(path) as file:
        content = file.read()
    n_axes = content[3]
    shape = np.frombuffer(content, ">i4", count=n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


_IMAGES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
           "t10k-labels-idx1-ubyte.gz")  # fmt: skip
_SOURCES = {
    "insurance": _Source("Medical Cost Personal Datasets, insurance.csv", ("insurance.csv",), _read_insurance),
    "mnist": _Source("The MNIST database of handwritten digits", _IMAGES, _read_images),
    "fashion-mnist": _Source("Fashion-MNIST of zalandoresearch", _IMAGES, _read_images),
}
