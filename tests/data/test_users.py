"""Users against a dictionary of lists: whatever the source, the same people with the same rows."""

import gc
import gzip
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from commonground.data import csv, stores
from commonground.data import ids as people_module
from commonground.data.users import Users
from commonground.errors import InputError, UnknownUserError

# --- the slow, obvious version --------------------------------------------------------------------------------------


def numbered_rows(n_rows: int, n_features: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Every row tells which one it is."""
    X = np.arange(n_rows)[:, None] * 100.0 + np.arange(n_features)
    return X, np.arange(n_rows) + 0.5


def rows_by_person(X: np.ndarray, y: np.ndarray, user_ids: Any) -> dict[Any, tuple[list, list]]:
    people: dict[Any, tuple[list, list]] = {}
    for x_row, label, one in zip(X.tolist(), y.tolist(), user_ids, strict=True):
        rows, labels = people.setdefault(one, ([], []))
        rows.append(x_row)
        labels.append(label)
    return people


def read_back(users: Users, max_bytes: int = 32 * 2**20) -> dict[Any, tuple[list, list]]:
    """The people of all blocks, the promises about blocks checked on the way."""
    people, next_person = {}, 0
    for block in users.blocks(max_bytes):
        assert block.first == next_person
        assert block.X.shape == (block.n_rows, users.n_features)
        assert block.X.flags.c_contiguous
        assert block.X.dtype == block.y.dtype
        assert block.offsets.dtype == np.int64
        assert block.offsets[0] == 0
        assert block.offsets[-1] == block.n_rows == len(block.y)
        assert block.n_users == 1 or block.X.nbytes + block.y.nbytes <= max_bytes
        for p in range(block.n_users):
            mine = slice(block.offsets[p], block.offsets[p + 1])
            one = users.ids[block.first + p]
            assert one not in people, "a person in two places"
            people[one] = (block.X[mine].tolist(), block.y[mine].tolist())
        next_person += block.n_users
    assert next_person == users.n_users == len(users.ids)
    return people


def check(users: Users, X: np.ndarray, y: np.ndarray, user_ids: Any, max_bytes: int = 32 * 2**20) -> None:
    expected = rows_by_person(X, y, user_ids)
    assert read_back(users, max_bytes) == expected
    assert users.n_rows == len(y)
    assert users.max_rows_per_user == max(len(labels) for _, labels in expected.values())
    assert users.index_of(list(users.ids)).tolist() == list(range(users.n_users))
    for one in list(expected)[:3]:
        assert tuple(part.tolist() for part in users.rows_of(one)) == expected[one]


@contextmanager
def tiny_batches(rows: int) -> Iterator[None]:
    """Batches of few rows and columns, so that people lie across the seams of small test tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(people_module, "ID_BATCH_ROWS", rows)
        patch.setattr(stores, "BATCH_BYTES", rows * 8)
        patch.setattr(stores, "COLUMNS_AT_ONCE", 1 + rows % 4)
        yield


def as_arrow(X: np.ndarray, y: np.ndarray, user_ids: Any) -> pa.Table:
    return pa.table({"user_id": user_ids, **{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})


# --- the same people and rows from every source ---------------------------------------------------------------------

READERS: dict[str, Callable[[pa.Table, Path], Users]] = {}


def reader(read: Callable[[pa.Table, Path], Users]) -> Callable[[pa.Table, Path], Users]:
    READERS[read.__name__] = read
    return read


@reader
def arrow(table: pa.Table, folder: Path) -> Users:
    return Users.from_table(table)


@reader
def pandas_frame(table: pa.Table, folder: Path) -> Users:
    return Users.from_table(table.to_pandas())


@reader
def polars_frame(table: pa.Table, folder: Path) -> Users:
    return Users.from_table(pl.from_arrow(table))


@reader
def parquet_in_memory(table: pa.Table, folder: Path) -> Users:
    pq.write_table(table, folder / "rows.parquet", row_group_size=5)
    return Users.from_table(folder / "rows.parquet")


@reader
def parquet_streamed(table: pa.Table, folder: Path) -> Users:
    pq.write_table(table, folder / "rows.parquet", row_group_size=5)
    return Users.from_table(str(folder / "rows.parquet"), max_memory=1)


@reader
def parquet_streamed_in_larger_parts(table: pa.Table, folder: Path) -> Users:
    pq.write_table(table, folder / "rows.parquet")
    return Users.from_table(folder / "rows.parquet", max_memory=table.num_rows * 4 * 8 - 1)


@reader
def parquet_folder_streamed(table: pa.Table, folder: Path) -> Users:
    (folder / "parts").mkdir(exist_ok=True)
    for number, start in enumerate(range(0, table.num_rows, 7)):
        pq.write_table(table.slice(start, 7), folder / "parts" / f"{number:03d}.parquet", row_group_size=3)
    (folder / "parts" / "_SUCCESS").touch()
    return Users.from_table(folder / "parts", max_memory=1)


@reader
def csv_in_memory(table: pa.Table, folder: Path) -> Users:
    pa.csv.write_csv(table, folder / "rows.csv")
    return Users.from_table(folder / "rows.csv")


@reader
def csv_streamed(table: pa.Table, folder: Path) -> Users:
    pa.csv.write_csv(table, folder / "rows.csv")
    return Users.from_table(folder / "rows.csv", max_memory=1)


@reader
def gzipped_csv(table: pa.Table, folder: Path) -> Users:
    pa.csv.write_csv(table, folder / "rows.csv")
    (folder / "rows.csv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    # by its guessed size too large for memory, so written to scratch, from where its true size lets it in
    return Users.from_table(folder / "rows.csv.gz", max_memory=table.num_rows * 4 * 8)


letters = st.text("abcXYZ_é", min_size=1, max_size=4).map(lambda text: "u" + text)
ragged_ids = st.one_of(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=8, unique=True),
    st.lists(letters, min_size=2, max_size=8, unique=True),
).flatmap(lambda people: st.lists(st.sampled_from(people), max_size=40).map(lambda more: [*people, *more]))


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_source_gives_the_same_people_and_rows(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    user_ids = data.draw(ragged_ids)
    arrangement = data.draw(st.sampled_from(["as drawn", "sorted", "grouped"]))
    if arrangement == "sorted":
        user_ids = sorted(user_ids)
    elif arrangement == "grouped":  # each person's rows adjacent, people in no order
        user_ids = sorted(user_ids, key=user_ids.index)
    X, y = numbered_rows(len(user_ids))
    with tiny_batches(data.draw(st.integers(1, 9))):
        users = READERS[name](as_arrow(X, y, user_ids), tmp_path_factory.mktemp("table"))
        assert users.streamed == name.endswith(("streamed", "parts"))
        assert (users.feature_names, users.label_name, users.user_name) == (("x0", "x1", "x2"), "y", "user_id")
        # the same order of people as from arrays, so that nothing depends on where the rows are kept
        assert users.ids.tolist() == Users.from_arrays(X, y, user_ids).ids.tolist()
        check(users, X, y, user_ids, max_bytes=data.draw(st.sampled_from([1, 100, 700, 32 * 2**20])))


any_id = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["1", "a", b"a", b"1", 2**70, 1.5, "", ("a", 1), ("b", 2, 3), uuid.UUID(int=1), frozenset({1})]),
)
ID_KINDS = {
    "mixed": any_id,
    "tuples": st.tuples(st.sampled_from("ab"), st.integers(0, 2)),
    "uuids": st.integers(0, 5).map(lambda i: uuid.UUID(int=i)),
    "bytes": st.binary(max_size=2),
    "huge": st.integers(2**64, 2**64 + 3),
    "floats": st.sampled_from([0.0, -0.0, 1.5, -2.0, float("inf")]),
}


@pytest.mark.parametrize("kind", ID_KINDS)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_from_arrays_takes_any_ids(kind: str, data: st.DataObject) -> None:
    user_ids = data.draw(st.lists(ID_KINDS[kind], min_size=2, max_size=30).filter(lambda ids: len(set(ids)) > 1))
    X, y = numbered_rows(len(user_ids))
    as_objects = np.empty(len(user_ids), dtype=object)
    as_objects[:] = user_ids
    for given_ids in (user_ids, tuple(user_ids), as_objects, pd.Series(as_objects)):
        check(Users.from_arrays(X, y, given_ids), X, y, user_ids, max_bytes=150)


ID_COLUMNS = {
    "int8": np.array([3, 1, 3, 2], dtype=np.int8),
    "uint64": np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 5], dtype=np.uint64),
    "big-endian": np.array([3, 1, 3, 2], dtype=">i4"),
    "float32": np.array([0.0, 1.5, -0.0, 2.0], dtype=np.float32),
    "bool": np.array([True, False, True, True]),
    "text": np.array(["b", "a", "b", "c"]),
    "bytes": np.array([b"b", b"a", b"b", b"c"]),
    "every other": np.array([3, 0, 1, 0, 3, 0, 2, 0])[::2],
    "categorical": pd.Series(["b", "a", "b", "c"], dtype="category"),
    "nullable": pd.Series([3, 1, 3, 2], dtype="Int64"),
    "pandas text": pd.Series(["b", "a", "b", "c"], index=[9, 8, 7, 6]),
    "polars": pl.Series(["b", "a", "b", "c"]),
    "polars categorical": pl.Series(["b", "a", "b", "c"], dtype=pl.Categorical),
    "polars objects": pl.Series([("b", 1), ("a", 1), ("b", 1), "c"], dtype=pl.Object),
    "arrow text view": pa.array(["b", "a", "b", "c"], pa.string_view()),
    "arrow dictionary": pa.chunked_array([pa.array(["b", "a"]), pa.array(["b", "c"])]).dictionary_encode(),
    "arrow fixed": pa.array([b"b", b"a", b"b", b"c"], pa.binary(1)),
    "arrow uuid": pa.array([uuid.UUID(int=i).bytes for i in (2, 1, 2, 3)], pa.uuid()),
    "arrow half": pa.array(np.array([3, 1, 3, 2], dtype=np.float16)),
}


@pytest.mark.parametrize("kind", ID_COLUMNS)
def test_id_columns_of_every_type(kind: str, tmp_path: Path) -> None:
    column = ID_COLUMNS[kind]
    plain = column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else list(column)
    X, y = numbered_rows(4)
    users = Users.from_arrays(X, y, column)
    check(users, X, y, plain)
    assert users.index_of(column)[[0, 2]].tolist() == [users.index_of([plain[0]])[0]] * 2
    if kind.startswith("arrow"):
        pq.write_table(as_arrow(X, y, column), tmp_path / "rows.parquet")
        streamed = Users.from_table(tmp_path / "rows.parquet", max_memory=1)
        check(streamed, X, y, plain)
        assert type(streamed.ids[0]) is type(users.ids[0])


def test_a_pandas_frame_may_have_ids_that_arrow_cannot_hold() -> None:
    X, y = numbered_rows(4)
    user_ids = [("a", 1), "a", 7, ("a", 1)]
    frame = pd.DataFrame({"user_id": pd.Series(user_ids, dtype=object), "x0": X[:, 0], "x1": X[:, 1], "y": y})
    check(Users.from_table(frame), X[:, :2], y, user_ids)


DIFFERENT_PEOPLE = {
    "twenty digits": [f"1000000000000000{i:04d}" for i in range(400)],
    "leading zero": ["07", "7", "007"],
    "decimal point": ["5", "5.0", "5e0"],
    "truth": ["true", "True", "TRUE"],
    "sign": ["+5", "5", "-0", "0"],
    "space": [" 5", "5", "5 "],
    "beyond int64": [str(2**63 - 1), str(2**63), str(2**64)],
    "dates": ["2026-01-02", "2026-01-02 00:00:00"],
}


@pytest.mark.parametrize("max_memory", [2**30, 1], ids=["in memory", "streamed"])
@pytest.mark.parametrize("ids", DIFFERENT_PEOPLE.values(), ids=DIFFERENT_PEOPLE)
def test_different_ids_in_a_csv_are_different_people(ids: list[str], max_memory: int, tmp_path: Path) -> None:
    """What a type for numbers would make equal, or round, is told apart by its text."""
    (tmp_path / "rows.csv").write_text("user_id,x,y\n" + "".join(f"{one},{i},2\n" for i, one in enumerate(ids)))
    users = Users.from_table(tmp_path / "rows.csv", features=["x"], max_memory=max_memory)
    assert users.ids.tolist() == ids
    assert [users.rows_of(one)[0].tolist() for one in ids] == [[[float(i)]] for i in range(len(ids))]


@pytest.mark.parametrize("max_memory", [2**30, 1], ids=["in memory", "streamed"])
def test_plain_whole_numbers_in_a_csv_are_numbers(max_memory: int, tmp_path: Path) -> None:
    ids = [-(2**63), -5, 0, 7, 10**18, 2**63 - 1]
    (tmp_path / "rows.csv").write_text("user_id,x,y\n" + "".join(f"{one},1,2\n" for one in ids))
    assert Users.from_table(tmp_path / "rows.csv", max_memory=max_memory).ids.tolist() == ids


@pytest.mark.parametrize("max_memory", [2**30, 1], ids=["in memory", "streamed"])
@pytest.mark.parametrize("text", ["user_id,x,y\nJosé,1,2\nZoë,1,2\n", "user_id,größe,y\n1,1,2\n2,1,2\n"])
def test_a_csv_in_latin_1_is_refused_by_name(text: str, max_memory: int, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"not text in UTF-8.*Latin-1.*iconv"):
        Users.from_table(tmp_path / "rows.csv", max_memory=max_memory)


@example(["07"])
@example(["0", "7", "007"])
@given(st.lists(st.text(st.sampled_from("0157-+. e"), min_size=1, max_size=4), min_size=1, max_size=6))
@settings(deadline=None)
def test_ids_become_numbers_only_where_python_would_write_them_so(texts: list[str]) -> None:
    def obvious(text: str) -> bool:
        try:
            return str(int(text)) == text
        except ValueError:
            return False

    numbers = csv.whole_numbers(pa.array(texts))
    assert (numbers is not None) == all(map(obvious, texts))
    assert [people_module.is_whole_number(text) for text in texts] == [obvious(text) for text in texts]
    if numbers is not None:
        assert [str(one) for one in numbers.to_pylist()] == texts


def test_an_id_column_of_a_large_csv_may_turn_from_numbers_into_text(tmp_path: Path) -> None:
    n_rows = 400_000  # the first block, from which types are guessed, ends before the last row
    lines = [f"{i % 7},{i},0" for i in range(n_rows)] + ["anna,1.5,1"]
    (tmp_path / "rows.csv").write_text("user_id,x,y\n" + "\n".join(lines))
    users = Users.from_table(tmp_path / "rows.csv", features=["x"], max_memory=1)
    assert users.ids.tolist() == ["0", "1", "2", "3", "4", "5", "6", "anna"]
    assert users.rows_of("anna")[0].tolist() == [[1.5]]
    assert Users.from_table(tmp_path / "rows.csv", features=["x"]).ids.tolist() == users.ids.tolist()


def test_wide_tables_are_grouped_one_set_of_columns_after_the_other(tmp_path: Path) -> None:
    """Also the seam where the label is alone in its set."""
    for n_features in (31, 32, 33, 100):
        X, y = numbered_rows(60, n_features)
        for user_ids in (np.arange(60) // 4, np.arange(60) % 7):
            pq.write_table(as_arrow(X, y, user_ids), tmp_path / "wide.parquet")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(stores, "STREAMED_BYTES", 0)
                users = Users.from_table(tmp_path / "wide.parquet", max_memory=9 * 8 * n_features)
            assert isinstance(users._rows, stores.ScratchRows)
            check(users, X, y, user_ids.tolist(), max_bytes=8000)


# --- blocks ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["grouped", "shuffled"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any, Any]:
    """A file of 3,000 people with 1 to 60 rows, one of them with 4,000; its X, y and ids."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 60, 3000)
    counts[1234] = 4000
    user_ids = np.repeat(np.arange(3000) * 3, counts)
    if request.param == "shuffled":
        user_ids = rng.permutation(user_ids)
    X, y = numbered_rows(len(user_ids), 4)
    path = tmp_path_factory.mktemp("large") / "rows.parquet"
    pq.write_table(as_arrow(X, y, user_ids), path, row_group_size=20_000)
    return path, X, y, user_ids


@pytest.mark.parametrize(("max_bytes", "n_blocks"), [(1, 3000), (5000, None), (2**20, 8), (2**30, 1)])
def test_blocks_are_the_same_every_time_and_everywhere(large: Any, max_bytes: int, n_blocks: int | None) -> None:
    path, X, y, user_ids = large
    in_memory = Users.from_arrays(X, y, user_ids)
    streamed = Users.from_table(path, max_memory=2**19)
    assert (in_memory.streamed, streamed.streamed) == (False, True)
    check(in_memory, X, y, user_ids.tolist(), max_bytes)
    expected = list(in_memory.blocks(max_bytes))
    assert n_blocks in (len(expected), None)
    for _ in range(2):
        for mine, theirs in zip(streamed.blocks(max_bytes), expected, strict=True):
            assert mine.first == theirs.first
            np.testing.assert_array_equal(mine.offsets, theirs.offsets)
            np.testing.assert_array_equal(mine.X, theirs.X)
            np.testing.assert_array_equal(mine.y, theirs.y)


def test_a_person_larger_than_a_block_comes_alone(large: Any) -> None:
    path, _, y, user_ids = large
    users = Users.from_table(path, max_memory=1)
    block = next(block for block in users.blocks(20_000) if block.n_rows >= 4000)
    assert (block.n_users, block.first) == (1, 1234)
    assert users.rows_of(1234 * 3)[1].tolist() == y[user_ids == 1234 * 3].tolist()


def test_grouped_rows_in_memory_are_not_copied() -> None:
    X, y = numbered_rows(6)
    assert all(np.shares_memory(block.X, X) for block in Users.from_arrays(X, y, [1, 1, 2, 2, 3, 3]).blocks(1))
    assert np.shares_memory(next(Users.from_arrays(X, y, [5, 5, 1, 1, 3, 3]).blocks()).X, X)
    X32 = X.astype(np.float32)
    assert np.shares_memory(next(Users.from_arrays(X32, y, list("aabbcc")).blocks()).X, X32)


# --- types of numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["float32", "float32"], np.float32),
        (["float32", "float64"], np.float64),
        (["float32", "int8"], np.float64),
        (["bool", "uint16"], np.float64),
        (["float16", "float16"], np.float64),
    ],
)
def test_float32_stays_and_all_else_becomes_float64(kinds: list[str], expected: type, tmp_path: Path) -> None:
    columns = {f"x{j}": np.array([0, 1, 1], dtype=kind) for j, kind in enumerate(kinds)}
    table = pa.table({"user_id": ["a", "b", "a"], **columns, "y": np.array([1, 2, 3])})
    pq.write_table(table, tmp_path / "rows.parquet")
    for source, max_memory in [(table, 1), (tmp_path / "rows.parquet", 1), (tmp_path / "rows.parquet", 2**20)]:
        block = next(Users.from_table(source, max_memory=max_memory).blocks())
        assert block.X.dtype == block.y.dtype == expected
        assert block.X.tolist() == [[0, 0], [1, 1], [1, 1]]
    X = np.stack(list(columns.values()), axis=1)
    block = next(Users.from_arrays(X, [1, 2, 3], ["a", "b", "a"]).blocks())
    assert block.X.dtype == (np.float32 if X.dtype == np.float32 else np.float64)


def test_decimals_and_python_numbers_are_numbers() -> None:
    table = pa.table({"user_id": [1, 2], "x": pa.array([1, 2]).cast(pa.decimal128(25, 2)), "y": [True, False]})
    assert next(Users.from_table(table).blocks()).X.tolist() == [[1.0], [2.0]]
    objects = np.array([[1, True], [2.5, np.float32(3)]], dtype=object)
    assert Users.from_arrays(objects, [0, 1], [1, 2]).rows_of(1)[0].tolist() == [[1.0, 1.0]]


def test_a_frame_given_as_matrix_brings_its_names() -> None:
    frame = pd.DataFrame({"age": [1, 2], "height": [3, 4]})
    for X in (frame, pl.from_pandas(frame)):
        assert Users.from_arrays(X, [0, 1], ["a", "b"]).feature_names == ("age", "height")
    assert Users.from_arrays(frame.to_numpy(), [0, 1], ["a", "b"]).feature_names is None
    assert Users.from_arrays(frame.to_numpy(), [0, 1], ["a", "b"], feature_names=["u", "v"]).feature_names == ("u", "v")


def test_features_can_be_chosen_in_any_order() -> None:
    table = pa.table({"note": ["n", "m"], "who": [1, 2], "a": [1, 2], "b": [3, 4], "t": [5, 6]})
    users = Users.from_table(table, user="who", label="t", features=["b", "a"])
    assert users.feature_names == ("b", "a")
    assert users.rows_of(2)[0].tolist() == [[4.0, 2.0]]


# --- looking people up ----------------------------------------------------------------------------------------------


def test_index_of_finds_people_and_says_who_is_unknown() -> None:
    X, y = numbered_rows(4)
    numbered = Users.from_arrays(X, y, np.array([30, 10, 30, 20]))
    for wanted in (np.array([20, 5, 30, 99]), [20, 5, 30, 99], pd.Series([20, 5, 30, 99]), pl.Series([20, 5, 30, 99])):
        assert numbered.index_of(wanted).tolist() == [1, -1, 2, -1]
    assert numbered.index_of(np.array([20.0, 20.5])).tolist() == [1, -1]
    assert numbered.index_of(["20", None]).tolist() == [-1, -1]
    assert numbered.index_of([]).tolist() == []
    assert numbered.index_of([20]).dtype == np.int64
    named = Users.from_arrays(X, y, ["c", "a", "c", "b"])
    for names in (["b", "z", "c"], np.array(["b", "z", "c"]), pa.array(["b", "z", "c"])):
        assert named.index_of(names).tolist() == [1, -1, 2]


def test_large_unsigned_ids_are_told_apart() -> None:
    """As float64, in which NumPy compares int64 with uint64, these would be one number."""
    X, y = numbered_rows(3)
    users = Users.from_arrays(X, y, np.array([2**63 + 1, 2**63, 2**63 + 1], dtype=np.uint64))
    assert users.n_users == 2
    assert users.index_of([2**63, 2**63 + 1, 2**63 + 2, -1]).tolist() == [0, 1, -1, -1]
    assert users.index_of(np.array([-1, 5])).tolist() == [-1, -1]
    signed = Users.from_arrays(X[:2], y[:2], np.array([2**60, 2**60 + 1]))
    assert signed.index_of(np.array([2**60 + 1, 2**60], dtype=np.uint64)).tolist() == [1, 0]


def test_asking_for_people_wrongly() -> None:
    users = Users.from_arrays([[1.0], [2.0]], [0, 1], ["a", "b"])
    with pytest.raises(UnknownUserError, match="no person with id 'z'"):
        users.rows_of("z")
    with pytest.raises(InputError, match=r"got 'ab'.*Write \['ab'\]"):
        users.index_of("ab")
    with pytest.raises(InputError, match="cannot be an id"):
        users.index_of([["a"]])
    with pytest.raises(InputError, match="max_bytes must be a positive"):
        next(users.blocks(0))


def test_what_is_printed_is_public() -> None:
    users = Users.from_arrays(np.ones((17, 5)), np.ones(17), [1] * 13 + [2] * 4)
    assert repr(users) == str(users) == "Users(n_users=2, n_features=5)"


# --- bad input: arrays ----------------------------------------------------------------------------------------------

X3, Y3, ID3 = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 2.0, 3.0], ["a", "b", "a"]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("X", "y", "user_ids", "names", "message"),
    [
        ([], [], [], None, "no rows"),
        (np.empty((0, 2)), [], [], None, "no rows"),
        (np.empty((3, 0)), Y3, ID3, None, "no features"),
        ([1.0, 2.0, 3.0], Y3, ID3, None, r"two-dimensional.*\(3,\).*reshape"),
        (np.ones((3, 2, 1)), Y3, ID3, None, r"two-dimensional.*\(3, 2, 1\)"),
        ([[1.0], [2.0, 3.0]], [1, 2], [1, 2], None, "different lengths"),
        (X3, [1.0, 2.0], ID3, None, "X has 3 rows, y has 2 and user_ids has 3"),
        (X3, Y3, ["a", "b"], None, "user_ids has 2"),
        (X3, [[1.0], [2.0], [3.0]], ID3, None, r"y must be one-dimensional.*\(3, 1\)"),
        (X3, Y3, "abc", None, "user_ids must be a list.*'abc'"),
        (X3, Y3, 7, None, "user_ids must be a list.*7"),
        (X3, Y3, np.ones((3, 1)), None, r"user_ids must be one-dimensional.*\(3, 1\)"),
        (X3, Y3, [["a"], ["b"], ["a"]], None, "user_ids holds something that cannot be an id"),
        (X3, Y3, np.array(["2020-01-01"] * 3, dtype="M8[D]"), None, "date32.*text or integers"),
        (X3, Y3, ["a", None, "b"], None, "user_ids has no id in row 1"),
        (X3, Y3, [("a",), "b", NAN], None, "user_ids has no id in row 2"),
        (X3, Y3, np.array([1.0, NAN, 2.0]), None, "user_ids has no id in row 1"),
        (X3, Y3, pd.Series([1, 2, None], dtype="Int64"), None, "user_ids has no id in row 2"),
        (X3, Y3, pd.Series([1, "b", pd.NA], dtype=object), None, "user_ids has no id in row 2"),
        (X3, Y3, pl.Series(["a", None, "b"]), None, "user_ids has no id in row 1"),
        (X3, Y3, pa.chunked_array([["a", "b"], [None]]), None, "user_ids has no id in row 2"),
        (X3, Y3, pa.nulls(3), None, "user_ids has no id in row 0"),
        ([[1.0, 2.0], [3.0, NAN], [INF, 6.0]], Y3, ID3, None, "Row 1 .* of column 1 is NaN"),
        ([[1.0, 2.0], [3.0, 4.0], [-INF, 6.0]], Y3, ID3, ["age", "size"], "Row 2 .* of column 'age' is infinite"),
        (X3, [1.0, INF, NAN], ID3, None, "Row 1 .* of column 'y' is infinite"),
        (np.array(X3, dtype=np.float32), [1.0, 1e300, 2.0], ID3, None, "Row 1 .* 'y' .* too large for float32"),
        ([[1.0, "red"], [3.0, "4"], [5.0, "6"]], Y3, ID3, None, "Column 1 is not numeric"),
        ([[1.0, "red"], [3.0, "4"], [5.0, "6"]], Y3, ID3, ["a", "b"], "Column 'b' is not numeric.*in a schema"),
        ([["1", "2"]] * 3, Y3, ID3, None, "Column 0 is not numeric"),
        (np.array([[1.0, None]] * 3, dtype=object), Y3, ID3, None, r"Row 0 \(counting from 0\) of column 1 is missing"),
        (pd.DataFrame({"u": [1, 2, 3], "v": ["p", "q", "r"]}), Y3, ID3, None, "Column 'v' is not numeric.*a str"),
        (np.ones((3, 2)) * 1j, Y3, ID3, None, "Column 0 is not numeric: it holds complex128"),
        (X3, ["yes", "no", "no"], ID3, None, "Column 'y' is not numeric"),
        (X3, Y3, ID3, ["a", "a"], "feature_names: the name 'a' occurs 2 times"),
        (X3, Y3, ID3, ["a"], "X has 2 columns but feature_names has 1"),
    ],
)
def test_bad_arrays(X: Any, y: Any, user_ids: Any, names: Any, message: str) -> None:
    with np.errstate(all="raise"), pytest.raises(InputError, match=message):
        Users.from_arrays(X, y, user_ids, feature_names=names)


# --- bad input: tables ----------------------------------------------------------------------------------------------

GOOD = {"user_id": ["a", "b", "a"], "age": [1.0, 2.0, 3.0], "size": [4, 5, 6], "y": [0.0, 1.0, 0.0]}


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"user": "userid"}, "no column 'userid'; the table has 'user_id', 'age', 'size', 'y'.*mean 'user_id'"),
        ({}, {"label": "target"}, "no column 'target'.*Pass user="),
        ({}, {"features": ["age", "sizes"]}, "no column 'sizes'.*Did you mean 'size'"),
        ({}, {"features": "age"}, r"list of column names, got 'age'. Write features=\['age'\]"),
        ({}, {"features": []}, "no feature columns"),
        ({}, {"features": ["age", "age"]}, "features: the name 'age' occurs 2 times"),
        ({}, {"features": ["age", "user_id"]}, "'user_id' is the user or the label"),
        ({}, {"features": ["y", "age"]}, "'y' is the user or the label"),
        ({}, {"user": "y"}, "both column 'y'"),
        ({}, {"max_memory": 0}, "max_memory must be a positive"),
        ({"age": ["old", "new", "old"]}, {}, "Column 'age' is not numeric.*holds text.*in a schema.*features="),
        ({"y": ["yes", "no", "no"]}, {}, "Column 'y' is not numeric"),
        ({"age": [1.0, None, 3.0]}, {}, "Row 1 .* of column 'age' is missing"),
        ({"y": [None, 1.0, 3.0]}, {}, "Row 0 .* of column 'y' is missing"),
        ({"size": [None, None, None]}, {}, "Row 0 .* of column 'size' is missing"),
        ({"age": [1.0, 2.0, -INF]}, {}, "Row 2 .* of column 'age' is infinite"),
        ({"user_id": ["a", None, "b"]}, {}, "Column 'user_id' has no id in row 1"),
        ({name: [] for name in GOOD}, {"features": []}, "no feature columns"),
    ],
)
@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "parquet", "streamed", "csv", "csv streamed"])
def test_bad_tables(kind: str, change: dict, arguments: dict, message: str, tmp_path: Path) -> None:
    table = pa.table({**GOOD, **change})
    if kind == "arrow":
        source: Any = table
    elif kind == "pandas":
        source = pd.DataFrame({**GOOD, **change})
    elif kind == "polars":
        source = pl.DataFrame({**GOOD, **change})
    elif kind in ("parquet", "streamed"):
        source = tmp_path / "rows.parquet"
        pq.write_table(table, source)
    else:
        source = tmp_path / "rows.csv"
        pa.csv.write_csv(table, source)
    if "streamed" in kind:
        arguments = {"max_memory": 1, **arguments}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(InputError, match=message) as caught:
        Users.from_table(source, scratch=scratch, **arguments)
    assert not list(scratch.iterdir()), f"left behind, and not only until {caught} is forgotten"


def test_bad_sources(tmp_path: Path) -> None:
    def path_of(name: str, content: bytes = b"") -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    (tmp_path / "no tables").mkdir()
    (tmp_path / "two kinds").mkdir()
    pq.write_table(pa.table(GOOD), tmp_path / "two kinds" / "1.parquet")
    pq.write_table(pa.table({**GOOD, "size": [1.0, 2.0, 3.0]}), tmp_path / "two kinds" / "2.parquet")
    pq.write_table(pa.table(GOOD), tmp_path / "cut.parquet")
    cut = (tmp_path / "cut.parquet").read_bytes()
    twice = pa.table([["a", "b"], [1, 2], [1, 2], [0, 1]], names=["user_id", "x", "x", "y"])
    twice_pandas = pd.DataFrame([["a", 1, 2, 0], ["b", 1, 2, 0]], columns=["user_id", "x", "x", "y"])
    for source, message in [
        (tmp_path / "nowhere.csv", "no file .*nowhere.csv.*working folder"),
        (path_of("rows.xlsx", b"x"), "unknown suffix.*.csv, .csv.gz or .parquet"),
        (path_of("empty.csv"), "is empty"),
        (path_of("empty.parquet"), "is empty"),
        (path_of("header.csv", b"user_id,x,y\n"), "no rows"),
        (path_of("ragged.csv", b"user_id,x,y\na,1,2\nb,1\n"), "cannot be read as CSV.*Expected 3 columns, got 2"),
        (path_of("twice.csv", b"user_id,x,x,y\na,1,2,3\nb,1,2,3\n"), "'x' occurs 2 times"),
        (path_of("gap.csv", b"user_id,x,y\na,1,2\n,1,2\nb,1,2\n"), "no id in row 1.*In CSV"),
        (path_of("cut.parquet", cut[: len(cut) // 2]), "not a readable Parquet file"),
        (path_of("not.parquet", b"hello hello hello"), "not a readable Parquet file"),
        (path_of("false.csv.gz", b"user_id,x,y\na,1,2\nb,1,2\n"), "cannot be read as CSV"),
        (tmp_path / "no tables", "no .parquet files"),
        (tmp_path / "two kinds", "2.parquet has other columns or types"),
        (pa.table({"user_id": [1, 2], "x": np.ones(2, np.float32), "y": [1.0, 1e300]}), "Row 1 .*large for float32"),
        (twice, "'x' occurs 2 times"),
        (twice_pandas, "'x' occurs 2 times"),
        (pa.table(GOOD).slice(0, 0), "no rows"),
        (pd.DataFrame(GOOD).iloc[:0], "no rows"),
        ({"user_id": [1]}, "A table must be a pandas.*got dict"),
        (pl.LazyFrame(GOOD), "not been computed yet. Give frame.collect"),
        (pd.Series([1, 2]), "A table must be a pandas.*got Series"),
    ]:
        with pytest.raises(InputError, match=message):
            Users.from_table(source)


def test_a_scratch_folder_that_is_not_there(tmp_path: Path) -> None:
    pq.write_table(pa.table(GOOD), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"scratch=.*cannot be used"):
        Users.from_table(tmp_path / "rows.parquet", max_memory=1, scratch=tmp_path / "nowhere")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(GOOD), tmp_path / "rows.parquet")
    append = stores.append
    monkeypatch.setattr(stores, "append", lambda path, values: append(Path("/dev/full"), values))
    with pytest.raises(InputError, match="scratch folder is full"):
        Users.from_table(tmp_path / "rows.parquet", max_memory=1)


# --- scratch files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_scratch_files_are_private_and_go_with_the_object(suffix: str, tmp_path: Path) -> None:
    source = tmp_path / f"rows{suffix}"
    (pq.write_table if suffix == ".parquet" else pa.csv.write_csv)(pa.table(GOOD), source)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    users = Users.from_table(source, max_memory=1, scratch=scratch)
    (folder,) = scratch.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["X", "y"]
    blocks = users.blocks(1)
    next(blocks)
    del users
    gc.collect()
    assert folder.exists(), "still being read"
    assert len(list(blocks)) == 1
    del blocks
    gc.collect()
    assert not list(scratch.iterdir())


def test_a_grouped_file_needs_no_scratch(tmp_path: Path) -> None:
    pq.write_table(pa.table({**GOOD, "user_id": ["b", "b", "a"]}), tmp_path / "rows.parquet")
    users = Users.from_table(tmp_path / "rows.parquet", max_memory=1, scratch=tmp_path / "nowhere")
    assert users.ids.tolist() == ["b", "a"]


def test_a_file_that_changes_is_not_given_to_the_wrong_people(tmp_path: Path) -> None:
    pq.write_table(pa.table({**GOOD, "user_id": ["a", "a", "b"]}), tmp_path / "rows.parquet")
    users = Users.from_table(tmp_path / "rows.parquet", max_memory=1)
    pq.write_table(pa.table({**GOOD, "user_id": ["a", "bb", "bb"]}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="changed after it was opened"):
        next(users.blocks())
    (tmp_path / "rows.parquet").unlink()
    with pytest.raises(InputError, match="changed after it was opened"):
        users.rows_of("a")


# --- memory ---------------------------------------------------------------------------------------------------------

MEASURE = """
import importlib.abc
import sys

class NotInstalled(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("pandas", "polars"):
            raise ImportError(name)

sys.meta_path.insert(0, NotInstalled())
from commonground.data.users import Users

def peak():  # MiB; unlike ru_maxrss, not inherited from the parent process
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) / 1024

before = peak()
users = Users.from_table(sys.argv[1], max_memory=int(sys.argv[2]), scratch=sys.argv[3])
rows = sum(block.n_rows for _ in range(2) for block in users.blocks(int(sys.argv[2])))
print(peak() - before, rows, users.streamed, type(users._rows).__name__)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize(("arrangement", "kept"), [("grouped", "FileRows"), ("shuffled", "ScratchRows")])
def test_memory_follows_the_block_and_not_the_table(arrangement: str, kept: str, tmp_path: Path) -> None:
    n_rows, n_features, budget = 800_000, 9, 6 * 2**20  # 61 MiB as a matrix, in one row group
    rng = np.random.default_rng(0)
    user_ids = np.arange(n_rows) // 80
    if arrangement == "shuffled":
        user_ids = rng.permutation(user_ids)
    X = rng.standard_normal((n_rows, n_features))
    pq.write_table(as_arrow(X, X[:, 0], user_ids), tmp_path / "rows.parquet", row_group_size=n_rows)
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "rows.parquet"), str(budget), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    growth, rows, streamed, found = result.stdout.split()
    assert (int(rows), streamed, found) == (2 * n_rows, "True", kept)
    # MiB: 1.5 budgets and what Arrow keeps for 10 open columns; the whole table would add 125
    assert float(growth) < 1.5 * 6 + 60


@pytest.mark.parametrize("ordered", [True, False])
def test_people_are_found_across_batches(seed: int, ordered: bool) -> None:
    """Somebody may go on in the next batch, fill several, or come back much later."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        ids = rng.integers(0, 6, rng.integers(1, 15))
        ids = np.sort(ids) if ordered else ids
        cuts = np.sort(rng.integers(0, len(ids) + 1, 3))
        batches = [pa.array(part) for part in np.split(ids, cuts) if len(part)]
        found = people_module.find_people(lambda rows, batches=batches: iter(batches), "ids", None)
        names, counts = np.unique(ids, return_counts=True)
        order = np.argsort(found.ids())
        assert found.ids()[order].tolist() == names.tolist()
        assert np.diff(found.offsets)[order].tolist() == counts.tolist()
        assert found.grouped == (1 + (ids[1:] != ids[:-1]).sum() == len(names))
