"""Real data sets, read from a folder where the reader keeps them; none comes with the package.

The folder is named by the environment variable COMMONGROUND_DATA; without it, ``../shared/data`` is tried.
"""

import gzip
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow.csv import read_csv

from commonground.errors import InputError

FOLDER_VARIABLE = "COMMONGROUND_DATA"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features, labels, and whose rows they are; values as in the files, not scaled.

    Parameters
    ----------
    X : array of shape (n_rows, …)
    y, user_ids : array of shape (n_rows,)
    feature_names : tuple of str or None, default=None
        None: pixels.
    test : DataSet or None, default=None
        Where the data set itself sets rows aside.
    """

    X: np.ndarray
    y: np.ndarray
    user_ids: np.ndarray
    feature_names: tuple[str, ...] | None = None
    test: "DataSet | None" = None


@dataclass(frozen=True)
class _Source:
    official_name: str
    files: tuple[str, ...]
    read: Callable[[list[Path]], DataSet]


def load(name: str) -> DataSet:
    """A real data set by its name, or by a beginning of it that no other has.

    "assistments2015", "bank-conjoint", "camera-conjoint", "computer-survey", "jester5k" and "school" have many rows a person
    (or school);
    in "insurance", "mnist" and "fashion-mnist" each row is a person's.

    Parameters
    ----------
    name : str
        Of the data set.

    Returns
    -------
    DataSet

    Examples
    --------
    >>> load("imagenet")
    Traceback (most recent call last):
    commonground.errors.InputError: there is no data set 'imagenet'; known are assistments2015, bank-conjoint, camera-conjoint, computer-survey, fashion-mnist, insurance, jester5k, mnist, school.
    """  # noqa: E501
    wanted = name.lower().replace(" ", "-").replace("_", "-")
    names = [known for known in sorted(_SOURCES) if wanted and known.startswith(wanted)]
    if len(names) != 1:
        raise InputError(f"there is no data set {name!r}; known are {', '.join(sorted(_SOURCES))}.")
    name, source = names[0], _SOURCES[names[0]]
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
    """Every row is a person."""
    table = read_csv(paths[0])
    X, names = _features(table, numbers=("age", "bmi", "children"), categories=("sex", "smoker", "region"))
    y = table["charges"].to_numpy().astype(np.float64)
    return DataSet(X, y, np.arange(len(y)), names)


def _read_jester(paths: list[Path]) -> DataSet:
    """One feature for each joke, one where it was rated; ratings from -10 to 10."""
    return _one_of_a_hundred(paths[0], "joke", "rating", "user")


def _read_assistments(paths: list[Path]) -> DataSet:
    """One feature for each of 100 skills, one where an exercise trains it; whether the answer was right."""
    return _one_of_a_hundred(paths[0], "skill", "correct", "student")


def _one_of_a_hundred(path: Path, of: str, label: str, user: str) -> DataSet:
    """A hundred features, of which one is 1 in each row: the one whose number, from 1 on, stands in the column."""
    table = read_csv(path)
    place = table[of].to_numpy() - 1
    X = np.zeros((len(place), 100), np.float32)
    X[np.arange(len(place)), place] = 1.0
    names = tuple(f"{of} {number}" for number in range(1, 101))
    return DataSet(X, table[label].to_numpy().astype(np.float32), table[user].to_numpy(), names)


def _read_computer_survey(paths: list[Path]) -> DataSet:
    """13 attributes of a computer, -1 or 1; how likely one is to buy it, 0 to 10. Four rows a person are for testing."""
    table = read_csv(paths[0])
    names = tuple(table.column_names[2:-1])
    everything = DataSet(_columns(table, names), _columns(table, ["rating"])[:, 0], table["user"].to_numpy(), names)
    for_test = np.array(table["split"].to_pylist()) == "test"
    return replace(_part(everything, ~for_test), test=_part(everything, for_test))


def _read_camera(paths: list[Path]) -> DataSet:
    """Attributes of one of five cameras on offer (the last is none of them), and whether it was chosen."""
    table = read_csv(paths[0])
    names = tuple(table.column_names[4:])
    return DataSet(_columns(table, names), _columns(table, ["chosen"])[:, 0], table["user"].to_numpy(), names)


def _read_bank(paths: list[Path]) -> DataSet:
    """By how much two credit cards differ in 14 attributes, and whether the first was chosen."""
    table = read_csv(paths[0])
    names = tuple(table.column_names[2:])
    return DataSet(_columns(table, names), _columns(table, ["choice"])[:, 0], table["id"].to_numpy(), names)


def _read_school(paths: list[Path]) -> DataSet:
    """Examination scores of pupils; a school is taken as the person, its pupils as its rows."""
    table = read_csv(paths[0])
    X, names = _features(
        table,
        numbers=("fsm", "vr1percent", "gender"),
        categories=("year", "vrband", "ethnicity", "schoolgender", "schooldenom"),
    )
    return DataSet(X, _columns(table, ["score"])[:, 0], table["school"].to_numpy(), names)


def _columns(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    return np.column_stack([table[name].to_numpy().astype(np.float64) for name in names])


def _features(table: pa.Table, numbers: Sequence[str], categories: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Numbers as they are; a column of zeros and ones for each value of a category."""
    names, columns = list(numbers), [_columns(table, numbers)]
    for category in categories:
        values = table[category].to_pylist()
        for value in sorted(set(values)):
            names.append(f"{category}={value}")
            columns.append(np.array([[float(one == value)] for one in values]))
    return np.hstack(columns), tuple(names)


def _part(data: DataSet, rows: np.ndarray) -> DataSet:
    return DataSet(data.X[rows], data.y[rows], data.user_ids[rows], data.feature_names)


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


_IMAGES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_SOURCES = {
    "bank-conjoint": _Source('R package bayesm, data set "bank"', ("bank_choices.csv",), _read_bank),
    "camera-conjoint": _Source('R package bayesm, data set "camera"', ("camera_choices.csv",), _read_camera),
    "computer-survey": _Source(
        'conjoint analysis of personal computers, "lenk_data"', ("computer_survey.csv",), _read_computer_survey
    ),
    "fashion-mnist": _Source("Fashion-MNIST of zalandoresearch", _IMAGES, _read_images),
    "insurance": _Source("Medical Cost Personal Datasets, insurance.csv", ("insurance.csv",), _read_insurance),
    "assistments2015": _Source("2015 ASSISTments Skill Builder Data", ("answers.csv.gz",), _read_assistments),
    "jester5k": _Source(
        'Jester data set 1, the sample "Jester5k" of R package recommenderlab',
        ("jester5k_ratings.csv.gz",),
        _read_jester,
    ),
    "mnist": _Source("The MNIST database of handwritten digits", _IMAGES, _read_images),
    "school": _Source(
        "Inner London Education Authority school effectiveness data, ilea567", ("ilea567.csv",), _read_school
    ),
}
