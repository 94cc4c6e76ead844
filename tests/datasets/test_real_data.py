"""Real data sets come from the reader's folder; without it the error says what is missing and where it belongs."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from commonground.datasets import load
from commonground.datasets.real import FOLDER_VARIABLE
from commonground.errors import InputError


@pytest.mark.parametrize("name", ["insurance", "mnist", "fashion-mnist"])
def test_a_missing_file_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=f"'{name}'.*{FOLDER_VARIABLE}") as error:
        load(name)
    assert str(tmp_path / name) in str(error.value)


def test_categories_become_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "insurance").mkdir()
    (tmp_path / "insurance" / "insurance.csv").write_text(
        "age,sex,bmi,children,smoker,region,charges\n20,female,30.5,1,no,southwest,1000.5\n40,male,25,0,yes,northeast,9\n"
    )
    data = load("insurance")
    assert data.feature_names is not None
    assert dict(zip(data.feature_names, data.X[0], strict=True)) == {
        "age": 20, "bmi": 30.5, "children": 1, "sex=female": 1, "sex=male": 0, "smoker=no": 1, "smoker=yes": 0,
        "region=northeast": 0, "region=southwest": 1,
    }  # fmt: skip
    assert data.y.tolist() == [1000.5, 9.0]
    assert data.user_ids.tolist() == [0, 1]


def test_image_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    (tmp_path / "mnist").mkdir()
    images, labels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4), np.array([7, 1], dtype=np.uint8)
    for part in ("train", "t10k"):
        for kind, array in (("images", images), ("labels", labels)):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
            path = tmp_path / "mnist" / f"{part}-{kind}-idx{array.ndim}-ubyte.gz"
            path.write_bytes(gzip.compress(header + array.tobytes()))
    data = load("mnist")
    assert data.test is not None
    np.testing.assert_array_equal(data.X, images)
    np.testing.assert_array_equal(data.test.y, labels)
