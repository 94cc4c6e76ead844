"""Partitions hold whole people: nobody straddles two, nobody is lost. No cluster is needed to check that."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commonground.clipping.sums import ClippedSums
from commonground.data.columns import Columns
from commonground.data.ids import canonical_ids
from commonground.data.population import Block, add_up
from commonground.data.sources import ParquetSource
from commonground.data.users import Users
from commonground.engines.partitions import FilePart, FilePeople, Reader, Reading, SplitPart, lie_apart, partition_of
from commonground.errors import InputError

COLUMNS = Columns("user_id", "y", ("a", "b"))


def write_table(folder: Path, seed: int, ids: pa.DataType, n_users: int = 60, n_files: int = 3) -> pa.Table:
    """Rows of everybody, scattered over all files."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.repeat(np.arange(n_users), rng.integers(1, 9, n_users)))
    named = pa.array(rows).cast(pa.string()).cast(ids) if ids != pa.int64() else pa.array(rows - 20)
    values = {name: rng.standard_normal(len(rows)).astype(np.float32) for name in ("y", "a", "b")}
    table = pa.table({"user_id": named, **values, "eps": 0.25 + rows % 3})
    size = -(-len(rows) // n_files)
    for file in range(n_files):
        pq.write_table(table.slice(file * size, size), folder / f"{file}.parquet", row_group_size=17)
    return table


def split_everything(folder: Path, scratch: Path, n: int) -> tuple[Reader, Reading, list[SplitPart]]:
    reader, reading = Reader(), Reading(COLUMNS, "eps", 2**30, scratch)
    files = ParquetSource(sorted(folder.glob("*.parquet"))).each_file()
    halves = [FilePart(f, *cut) for f in files for cut in ((0, f.n_rows // 2), (f.n_rows // 2, f.n_rows))]
    for number, part in enumerate(halves):
        reader.split(part, reading, n, number)
    return reader, reading, [SplitPart(scratch, len(halves), number) for number in range(n)]


@pytest.mark.parametrize("ids", [pa.int64(), pa.string(), pa.binary(), pa.float64()], ids=str)
def test_a_split_table_has_everybody_once_with_all_her_rows_in_order(
    tmp_path: Path, seed: int, ids: pa.DataType
) -> None:
    table = write_table(tmp_path, seed, ids)
    whole = Users.from_table(table, features=["a", "b"], budget="eps")
    (tmp_path / "scratch").mkdir()
    reader, reading, partitions = split_everything(tmp_path, tmp_path / "scratch", 5)
    seen: list[object] = []
    for number, partition in enumerate(partitions):
        opened = reader.open(number, partition, reading)
        users = reader._users[number]
        assert (opened.n_users, opened.n_rows) == (users.n_users, users.n_rows)
        for one, budget in zip(users.ids.tolist(), opened.budgets, strict=True):
            for here, there in zip(users.rows_of(one), whole.rows_of(one), strict=True):
                np.testing.assert_array_equal(here, there)
            assert budget == whole.budgets[whole.index_of([one])[0]]
        seen += users.ids.tolist()
    assert sorted(seen) == sorted(whole.ids.tolist())
    assert len(set(seen)) == len(seen)


def test_the_partition_of_a_person_does_not_depend_on_who_else_is_there() -> None:
    for values in (np.arange(-50, 50), np.arange(100) / 4, np.arange(100).astype("S4"), np.arange(100).astype("U4")):
        ids = canonical_ids(pa.array(values), 0, "ids")
        together = partition_of(ids, 7)
        assert together.tolist() == [partition_of(ids[i : i + 1], 7)[0] for i in range(100)]
        assert np.bincount(together, minlength=7).min() > 3  # 14 expected; below 4 once in 2,000 choices of a hash


class OneReader(Reader):
    """Stands in for the readers of a cluster."""

    def map(self, method: str, calls: dict[int, tuple[Any, ...]], what: str) -> list[Any]:
        return [getattr(self, method)(*call) for call in calls.values()]


@pytest.mark.parametrize("arrangement", ["grouped", "one file, scattered", "grouped, but she is in two files"])
def test_however_a_table_is_cut_everybody_is_in_one_partition(tmp_path: Path, seed: int, arrangement: str) -> None:
    cut = pytest.importorskip("commonground.engines.ray").cut
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(200), rng.integers(2, 9, 200))
    if arrangement == "one file, scattered":
        ids = rng.permutation(ids)
    table = pa.table({"user_id": ids, **{name: rng.standard_normal(len(ids)) for name in ("y", "a", "b")}})
    half = int(np.searchsorted(ids, 100)) + (arrangement == "grouped, but she is in two files")
    files = [table] if arrangement == "one file, scattered" else [table.slice(0, half), table.slice(half)]
    for number, rows in enumerate(files):
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    (tmp_path / "scratch").mkdir()
    reader, reading = OneReader(), Reading(COLUMNS, None, 2**30, tmp_path / "scratch")
    partitions = cut(ParquetSource(sorted(tmp_path.glob("*.parquet"))), reading, reader)
    assert len(partitions) >= 8
    assert all(isinstance(part, FilePart) for part in partitions) == (arrangement == "grouped")
    opened = [reader.open(number, partition, reading) for number, partition in enumerate(partitions)]
    seen = np.concatenate([users.ids for users in reader._users.values()])
    assert sorted(seen.tolist()) == list(range(200))
    assert sum(part.n_rows for part in opened) == len(ids)


def test_people_count_as_much_in_a_partition_as_they_should(tmp_path: Path) -> None:
    write_table(tmp_path, 3, pa.int64())
    (tmp_path / "scratch").mkdir()
    reader, reading, (partition, *_) = split_everything(tmp_path, tmp_path / "scratch", 2)
    opened = reader.open(0, partition, reading)
    asked = (0, partition, reading, opened.size)
    weights = np.linspace(0, 1, opened.n_users)
    got = reader.sum(*asked, weights, SumOfWeights())
    np.testing.assert_allclose(got.value, weights.sum())
    assert reader.sum(*asked, np.zeros(opened.n_users), SumOfWeights()) is None


class SumOfWeights:
    def of(self, block: Block) -> ClippedSums:
        return ClippedSums(np.array([block.person_weights.sum()]), 1.0, block.n_users)


def people(lowest: object, highest: object) -> FilePeople:
    return FilePeople(True, lowest, highest, (0, 1))


def test_files_that_share_a_person_do_not_lie_apart() -> None:
    assert lie_apart([people(5, 9), people(0, 4)])
    assert not lie_apart([people(5, 9), people(0, 5)])
    assert not lie_apart([people("a", "z"), people("b", "c"), people("x", "y")])
    assert lie_apart([people("a", "b"), people("bb", "c")])


def test_a_file_is_cut_between_people(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.permutation(50), rng.integers(1, 9, 50))
    pq.write_table(pa.table({"user_id": rows, "y": rows / 2, "a": rows / 3, "b": rows / 4}), tmp_path / "t.parquet")
    file = ParquetSource([tmp_path / "t.parquet"])
    found = Reader().describe(file, COLUMNS, part_rows=20)
    assert found.grouped
    assert (found.lowest, found.highest) == (0, 49)
    assert found.cuts[0] == 0
    assert found.cuts[-1] == len(rows)
    assert len(found.cuts) > 5
    assert all(rows[cut - 1] != rows[cut] for cut in found.cuts[1:-1])


def test_a_reader_keeps_to_its_memory_and_sums_the_same_from_disk(tmp_path: Path) -> None:
    write_table(tmp_path, 1, pa.int64())
    (tmp_path / "scratch").mkdir()
    reader, reading, partitions = split_everything(tmp_path, tmp_path / "scratch", 4)
    tight = Reader()
    small = Reading(COLUMNS, None, 1200, tmp_path / "scratch")
    sums = []
    for one, room in ((reader, reading), (tight, small)):
        opened = [one.open(number, partition, room) for number, partition in enumerate(partitions)]
        parts = [
            one.sum(number, partition, room, size.size, None, SumOfLabels())
            for number, (partition, size) in enumerate(zip(partitions, opened, strict=True))
        ]
        sums.append(add_up(parts).value)
    np.testing.assert_array_equal(sums[0], sums[1])
    assert 0 < sum(tight._kept.values()) <= 1200
    assert sum(users.streamed for users in tight._users.values()) > 0


class SumOfLabels:
    def of(self, block: Block) -> ClippedSums:
        return ClippedSums(np.array([block.y.astype(float).sum()]), 1.0, block.n_users)


def test_a_partition_that_changed_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path, 1, pa.int64())
    (tmp_path / "scratch").mkdir()
    reader, reading, partitions = split_everything(tmp_path, tmp_path / "scratch", 2)
    n_users, n_rows = reader.open(0, partitions[0], reading).size
    with pytest.raises(InputError, match="are not those that were there"):
        Reader().sum(0, partitions[0], reading, (n_users + 1, n_rows), None, SumOfLabels())
    with pytest.raises(InputError, match="are not those that were there"):
        Reader().sum(0, partitions[0], reading, (n_users, n_rows - 1), None, SumOfLabels())


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    table = write_table(tmp_path, 1, pa.int64())
    values = table.slice(0, 40).column("a").to_numpy().copy()
    values[33] = np.nan
    bad = table.slice(0, 40).set_column(2, "a", pa.array(values))
    pq.write_table(bad, tmp_path / "0.parquet")
    (tmp_path / "scratch").mkdir()
    with pytest.raises(InputError, match=r"0\.parquet: Row 33 \(counting from 0\) of column 'a' is NaN"):
        split_everything(tmp_path, tmp_path / "scratch", 2)
