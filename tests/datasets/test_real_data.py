"""Real data sets come from the reader's folder; without it the error says what is missing and where it belongs."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from commonground.datasets import load
from commonground.datasets.real import FOLDER_VARIABLE
from commonground.errors import InputError

KNOWN = [
    "bank-conjoint", "camera-conjoint", "computer-survey", "fashion-mnist", "insurance", "jester5k", "mnist", "school",
]  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
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


def write(folder: Path, name: str, file: str, text: str) -> None:
    (folder / name).mkdir()
    content = text.encode()
    (folder / name / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)


def test_jokes_become_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    write(tmp_path, "jester5k", "jester5k_ratings.csv.gz", "user,joke,rating\n1,1,-1.60\n1,100,2.5\n2,3,9\n")
    data = load("Jester")
    assert data.X.shape == (3, 100)
    assert data.X.dtype == np.float32
    assert np.argwhere(data.X == 1).tolist() == [[0, 0], [1, 99], [2, 2]]
    np.testing.assert_allclose(data.y, [-1.6, 2.5, 9.0], rtol=1e-6)
    assert data.user_ids.tolist() == [1, 1, 2]


def test_a_survey_brings_its_test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    header = "user,split,hotline,price,rating\n"
    write(tmp_path, "computer-survey", "computer_survey.csv", header + "1,train,-1,1,4\n1,test,1,1,7\n2,train,1,-1,0\n")
    data = load("computer survey")
    assert data.feature_names == ("hotline", "price")
    assert data.X.tolist() == [[-1, 1], [1, -1]]
    assert data.y.tolist() == [4, 0]
    assert data.test is not None
    assert (data.test.X.tolist(), data.test.y.tolist(), data.test.user_ids.tolist()) == ([[1, 1]], [7], [1])


def test_conjoint_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    write(tmp_path, "bank-conjoint", "bank_choices.csv", "id,choice,Med_FInt,Low_FInt\n1,1,1,0\n7,0,0,-1\n")
    write(
        tmp_path, "camera-conjoint", "camera_choices.csv",
        "user,task,alternative,chosen,canon,price\n1,1,1,1,0,0.79\n1,1,2,0,1,2.29\n",
    )  # fmt: skip
    bank, camera = load("bank"), load("camera")
    assert (bank.X.tolist(), bank.y.tolist(), bank.user_ids.tolist()) == ([[1, 0], [0, -1]], [1, 0], [1, 7])
    assert (camera.X.tolist(), camera.y.tolist(), camera.user_ids.tolist()) == ([[0, 0.79], [1, 2.29]], [1, 0], [1, 1])


def test_schools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    write(
        tmp_path, "school", "ilea567.csv",
        "ID,year,school,score,fsm,vr1percent,gender,vrband,ethnicity,schoolgender,schooldenom\n"
        "0,1,1,17,24,18,0,3,1,1,1\n1,2,5,30,10,20,1,1,1,1,1\n",
    )  # fmt: skip
    data = load("school")
    assert data.feature_names is not None
    first = dict(zip(data.feature_names, data.X[0], strict=True))
    assert (first["fsm"], first["year=1"], first["year=2"], first["vrband=3"], first["ethnicity=1"]) == (24, 1, 0, 1, 1)
    assert (data.y.tolist(), data.user_ids.tolist()) == ([17, 30], [1, 5])


def test_a_beginning_that_several_have_is_no_name() -> None:
    for name in ("", "m-nist", "jester6"):
        with pytest.raises(InputError, match="known are assistments2015, bank-conjoint"):
            load(name)


@pytest.mark.parametrize(
    ("name", "people", "shape"),
    [
        ("jester5k", 5000, (363_209, 100)),
        ("bank-conjoint", 946, (14_799, 14)),
        ("camera-conjoint", 332, (26_560, 10)),
        ("computer-survey", 180, (2_880, 13)),
        ("school", 139, (15_362, 27)),
    ],
)
def test_the_real_files(name: str, people: int, shape: tuple[int, int]) -> None:
    try:
        data = load(name)
    except InputError as error:
        pytest.skip(str(error))
    assert data.X.shape == shape
    assert len(np.unique(data.user_ids)) == people
    assert np.isfinite(data.X).all()
    assert np.isfinite(data.y).all()
