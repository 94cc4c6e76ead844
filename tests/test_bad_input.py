"""Whatever table people bring: it works and what is published is finite, or an InputError says what is wrong with it.

Never another exception, never a warning. Values, types, ids and names are drawn by hypothesis; files are damaged byte by byte
in benchmarks/fuzz_readers.py, of which a few seconds run here.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import commonground as cg
from commonground.data.users import Block
from commonground.errors import CommongroundError, InputError
from commonground.heads.kinds import RidgeHeads
from contracts.test_every_estimator import ESTIMATORS, fit, labels_for
from contracts.test_every_estimator import numbers as numbers_of
from contracts.test_every_joint_learner import LEARNERS

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz_readers

pytestmark = pytest.mark.filterwarnings(
    "ignore::commonground.errors.ScaleWarning"
)  # that it is given is tested on its own

EXAMPLES = int(os.environ.get("COMMONGROUND_EXAMPLES", "150"))  # more of them for a longer look
thorough = settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
quick = settings(thorough, max_examples=EXAMPLES * 2 // 5)

# ---- what people may bring ----------------------------------------------------------------------------------------------

EXTREME = [
    0.0, -0.0, 1.0, -1.0, 5e-324, 1e-200, -1e-30, 1e30, 3.4e38, 1e39, 1e150, -1e200, 2.0**63, 1.7976931348623157e308
]  # fmt: skip
ODD = [float("nan"), float("inf"), float("-inf")]
finite = st.one_of(st.floats(-10, 10), st.sampled_from(EXTREME), st.floats(allow_nan=False, allow_infinity=False))
numbers = st.one_of(finite, finite, finite, finite, st.sampled_from(ODD))
text = st.text(max_size=12)
big_integers = st.integers(-(10**400), 10**400)
oddities = st.one_of(
    st.none(), text, st.binary(max_size=4), st.booleans(), big_integers, st.complex_numbers(), st.dates(), st.decimals(),
    st.fractions(), st.just(pd.NA), st.just(pd.NaT), st.lists(st.integers(0, 3), max_size=2), st.just(np.float32(1.5)),
    st.datetimes(), st.timedeltas(), st.uuids(), st.just(object()), st.just(np.datetime64("NaT")),
)  # fmt: skip
ids = st.one_of(
    st.integers(0, 5), st.sampled_from(["a", "b", "A", "", "é", "e\u0301", "\u200b", "\ud800", "名前", "a" * 5000, "1", "1.0"]),
    big_integers, st.floats(), st.binary(max_size=3), st.booleans(), st.uuids(), st.none(), st.just(pd.NA), st.dates(),
    st.tuples(st.integers(0, 2), text), st.frozensets(st.integers(0, 2), max_size=2), st.decimals(), st.fractions(), text,
    st.just(np.int64(3)), st.just(np.str_("a")), st.lists(st.integers(0, 1), max_size=1), st.just(float("nan")),
)  # fmt: skip
plain_ids = st.one_of(st.integers(0, 6), st.integers(-(2**63), 2**63 - 1), st.sampled_from(["a", "b", "c"]))
dtypes = st.sampled_from(
    [
        "f8",
        "f4",
        "f2",
        "longdouble",
        "i1",
        "i4",
        "i8",
        "u1",
        "u8",
        "?",
        ">f8",
        ">i4",
        "c16",
        "M8[s]",
        "m8[s]",
        "U3",
        "S3",
        "O",
    ]
)


@st.composite
def matrices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """Mostly numbers of some type, sometimes lists of anything."""
    kind = draw(st.sampled_from(["float64", "tame", "float32", "any dtype", "objects", "list"]))
    if kind == "float64":
        return draw(hnp.arrays(np.float64, shape, elements=numbers))
    if kind == "tame":
        return draw(hnp.arrays(np.float64, shape, elements=st.floats(-9, 9)))
    if kind == "float32":
        return draw(hnp.arrays(np.float32, shape, elements=st.floats(width=32)))
    if kind == "any dtype":
        dtype = np.dtype(draw(dtypes))
        return draw(hnp.arrays(dtype, shape, elements=numbers if dtype.hasobject else None))
    values = draw(st.lists(st.one_of(numbers, numbers, numbers, oddities), min_size=shape[0], max_size=shape[0]))
    if kind == "list":
        return [[value] * shape[1] if len(shape) == 2 else value for value in values]
    matrix = np.empty(shape, dtype=object)
    for row, value in enumerate(values):
        for place in np.ndindex(*shape[1:]):
            matrix[(row, *place)] = value
    return matrix


@st.composite
def id_columns(draw: st.DrawFn, n: int) -> Any:
    kind = draw(st.sampled_from(["plain", "one kind", "anything", "array", "pandas", "polars", "arrow"]))
    if kind in ("anything", "one kind"):
        if kind == "anything":
            return draw(st.lists(ids, min_size=n, max_size=n))
        one = draw(
            st.sampled_from([st.integers(0, 5), text, st.floats(), st.binary(max_size=2), big_integers, st.uuids()])
        )
        return draw(st.lists(one, min_size=n, max_size=n))
    if kind == "array":
        return draw(hnp.arrays(np.dtype(draw(dtypes.filter(lambda name: name != "O"))), n))
    values = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    if kind == "pandas":
        return pd.Series(values).astype(
            draw(st.sampled_from(["int64", "category", "string", "Int64", "object", "float32"]))
        )
    if kind == "polars":
        return pl.Series(values).cast(draw(st.sampled_from([pl.Int8, pl.UInt64, pl.String, pl.Float32])))
    if kind == "arrow":
        return pa.array(values).cast(draw(st.sampled_from([pa.int8(), pa.string(), pa.uint64(), pa.float32()])))
    return values


def check(make: Any) -> cg.Users | None:
    """The users, or None where an InputError says why there are none."""
    try:
        return make()
    except InputError:
        return None


def check_fit(users: cg.Users) -> None:
    """A short fit publishes finite numbers, and everybody's prediction is a number."""
    try:
        model = cg.PrivateFedRep(rank=1, epsilon=2.0, n_rounds=2, simulation_seed=0).fit(users)
    except InputError:
        assert users.n_users == 1 or users.n_features == 1
        return
    board = model.billboard_
    assert np.isfinite(board.embedding).all()
    assert board.mean is not None
    assert np.isfinite(board.mean).all()
    assert np.isfinite(board.intercept)
    assert np.isfinite([event.noise_std for event in board.statement.events]).all()
    np.testing.assert_allclose(board.embedding.T @ board.embedding, np.eye(1), atol=1e-9)


# ---- arrays ---------------------------------------------------------------------------------------------------------------


@thorough
@given(st.data())
def test_arrays_of_anything(data: st.DataObject) -> None:
    n, d = data.draw(st.sampled_from([6, 1, 8, 0])), data.draw(st.sampled_from([2, 1, 3, 0]))
    X = data.draw(matrices((n, d)))
    y = data.draw(matrices((data.draw(st.sampled_from([n, n, n, n + 1])),)))
    user_ids = data.draw(id_columns(n))
    users = check(lambda: cg.Users.from_arrays(X, y, user_ids))
    if users is not None:
        assert users.n_rows == n
        assert 1 <= users.n_users <= n
        assert np.isfinite(next(users.blocks()).X).all()
        repr(users.ids)


@quick
@given(st.data())
def test_ids_of_any_kind_keep_people_apart(data: st.DataObject) -> None:
    """Equal ids are one person, others are not: Python's own equality decides, where ids are Python objects."""
    user_ids = data.draw(st.lists(ids, min_size=1, max_size=12))
    X = np.arange(len(user_ids), dtype=float)[:, None]
    users = check(lambda: cg.Users.from_arrays(X, X[:, 0], user_ids))
    if users is not None:
        assert users.n_users == len(set(user_ids))
        for place, one in enumerate(user_ids):
            assert place in users.rows_of(one)[1]


@quick
@given(st.data())
def test_extreme_values_are_learned_from_or_refused(data: st.DataObject) -> None:
    n, d = data.draw(st.integers(2, 24)), data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    wide = st.floats(width=32, allow_nan=False, allow_infinity=False) if dtype is np.float32 else finite
    X = data.draw(hnp.arrays(dtype, (n, d), elements=wide))
    y = data.draw(hnp.arrays(dtype, n, elements=wide))
    users = check(lambda: cg.Users.from_arrays(X, y, data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))))
    assert users is not None
    check_fit(users)


# ---- tables ---------------------------------------------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of any Arrow type, with missing values, under odd names."""
    n = draw(st.sampled_from([6, 3, 8, 1, 0]))
    names = draw(
        st.lists(
            st.one_of(st.sampled_from(["a", "b", "é", ""]), text),
            min_size=draw(st.sampled_from([2, 1, 0])), max_size=3, unique=draw(st.integers(0, 4)) > 0,
        )
    )  # fmt: skip
    kinds = {
        pa.float64(): numbers, pa.float32(): st.floats(width=32), pa.int64(): st.integers(-(2**63), 2**63 - 1),
        pa.uint8(): st.integers(0, 255), pa.bool_(): st.booleans(), pa.string(): text, pa.decimal128(20, 3): st.integers(-99, 99),
        pa.null(): st.none(), pa.date32(): st.dates(), pa.list_(pa.int8()): st.just([1]), pa.binary(): st.binary(max_size=3),
        pa.float16(): st.floats(width=16).map(np.float16), pa.timestamp("s"): st.datetimes(),
    }  # fmt: skip
    columns = []
    for number in range(len(names) + 2):
        usual = number == 0 or draw(st.integers(0, 4)) > 0
        kind = pa.float64() if usual else draw(st.sampled_from(list(kinds)))
        values = st.floats(-5, 5) if usual and draw(st.integers(0, 3)) > 0 else kinds[kind]
        missing = st.none() if draw(st.integers(0, 9)) == 0 else values
        columns.append(pa.array(draw(st.lists(st.one_of(values, missing), min_size=n, max_size=n)), kind))
    users = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    columns[-2] = pa.array(users) if draw(st.integers(0, 2)) > 0 else columns[-2]
    return pa.Table.from_arrays(columns, names=[*names, "user_id", "y"])


@thorough
@given(table=tables(), data=st.data())
def test_tables_of_anything(table: pa.Table, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    kind = data.draw(st.sampled_from(["arrow", "pandas", "polars", "parquet", "csv"]))
    folder = tmp_path_factory.getbasetemp()
    source: Any = table
    try:
        if kind == "pandas":
            source = table.to_pandas()
        elif kind == "polars":
            source = pl.from_arrow(table)
        elif kind == "parquet":
            pq.write_table(table, source := folder / "any.parquet")
        elif kind == "csv":
            pa.csv.write_csv(table, source := folder / "any.csv")
    except (pa.ArrowException, pl.exceptions.PolarsError, ValueError):
        return  # a table that such a file or frame cannot hold
    users = check(lambda: cg.Users.from_table(source, max_memory=data.draw(st.sampled_from([1, 2**20]))))
    if users is not None:
        assert users.n_rows >= users.n_users >= 1
        check_fit(users)


# ---- new rows for a billboard ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def board() -> cg.Billboard:
    users, _ = cg.datasets.make_shared_subspace(50, n_features=3, seed=0)
    return cg.PrivateFedRep(1, simulation_seed=0, n_rounds=2).fit(users).billboard_


@quick
@given(st.data())
def test_newcomers_bring_anything(board: cg.Billboard, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 4))
    X, y = data.draw(matrices((n, data.draw(st.sampled_from([3, 3, 3, 2]))))), data.draw(matrices((n,)))
    try:
        head = board.personalize(X, y)
    except CommongroundError:
        return
    assert head.coef.shape == (3,)
    assert (
        np.isfinite(head.coef).all() or np.abs(np.asarray(y, dtype=np.float64)).max() > 1e100
    )  # her own, not published


# ---- one person among others ----------------------------------------------------------------------------------------------

SIZES_OF_NUMBERS = [
    5e-324, 1e-310, 1e-200, 3e-162, 1e-162, 1e-161, 1e-154, 1e-77, 1e-38, 1e-20, 1.0, 1e20, 1e38, 1e77, 1e154, 1e200, 1.7e308,
    np.nan, np.inf,
]  # fmt: skip
ROW_COUNTS = [0, 1, 2, 3, 5, 6, 9, 40, 10_000]


@cache
def model_of(name: str, extreme: float = 0.0) -> Any:
    """A fit on 60 people, of whom one has numbers of an extreme size."""
    estimator = ESTIMATORS[name]
    rng = np.random.default_rng(0)
    X, ids = rng.standard_normal((420, 4)), np.arange(420) // 7
    y = X[:, 0] * rng.standard_normal(60)[ids] + rng.standard_normal(420)
    if extreme:
        X[:7] = extreme * rng.choice([-1.0, 0.5, 1.0], (7, 4))
        y[:7] = extreme * rng.choice([-1.0, 1.0], 7)
    return fit(estimator, X, labels_for(estimator, y), users=ids)


def strange_blocks(dtype: type) -> Iterator[Block]:
    """People whose features, labels, single rows or single columns are of every size, with every number of rows."""
    rng = np.random.default_rng(1)
    for m in ROW_COUNTS:
        people = []
        for size in SIZES_OF_NUMBERS if m < 10_000 else [1e-162, 1.0, 1.7e308]:
            X, y = rng.choice([-1.0, 0.5, 1.0], (m, 4)), rng.choice([-1.0, 1.0], m)
            one_row, one_column = np.arange(m)[:, None] == 0, np.arange(4) == 1
            people += [
                (X * size, y), (X, y * size), (X * size, y * size), (np.where(one_row, X * size, X), y),
                (np.where(one_column, X * size, X), y), (X * size, y / size),
            ]  # fmt: skip
        offsets = m * np.arange(len(people) + 1)
        X, y = (np.concatenate([person[what] for person in people]).astype(dtype) for what in (0, 1))
        yield Block(np.ascontiguousarray(X), y, offsets, first=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_everybodys_head_is_finite_whatever_her_rows(name: str, dtype: type) -> None:
    """Heads, choices and predictions: nothing raises, nothing warns; who has impossible numbers keeps the shared prediction."""
    model = model_of(name)
    with np.errstate(all="ignore"):  # making the numbers, not using them
        blocks = list(strange_blocks(dtype))
    boards = [model.billboard_]
    if model.billboard_.head_kind == RidgeHeads(local_choice=True):
        pays = replace(model.billboard_, statement=replace(model.billboard_.statement, sharing_pays=True))
        boards += [pays, replace(pays, prior=np.diag([1.0, 1e-3]))]
    for board in boards:
        for block in blocks:
            everybody = board.head_kind.fit(block, board)
            heads, own = everybody.weights, everybody.own
            assert np.isfinite(heads).all()
            assert np.isfinite(everybody.intercepts).all()
            assert np.isfinite(own.coef).all()
            person = np.repeat(np.arange(block.n_users), np.diff(block.offsets))
            usual = np.ones((len(person), 4))
            answers = everybody.predict(board, block.X, person)
            assert len(answers) == len(person)  # one number each, or one for each class
            if not np.abs(heads).max(initial=0.0) > 1e300 and not np.abs(own.coef).max(initial=0.0) > 1e300:
                assert np.isfinite(everybody.predict(board, usual, person)).all()


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("extreme", [5e-324, 1e-162, 1.7e308])
def test_one_persons_rows_stop_nobodys_fit(name: str, extreme: float) -> None:
    model = model_of(name, extreme)
    assert np.isfinite(model.billboard_.embedding).all()
    assert np.isfinite(model.heads_).all()
    usual = np.ones((60, 4))
    assert np.isfinite(numbers_of(model)(usual[1:], users=list(range(1, 60)))).all()


@pytest.mark.parametrize("name", [name for name in LEARNERS if name.startswith("JointSGD")])
@pytest.mark.parametrize("size", SIZES_OF_NUMBERS[:-2])
def test_an_owners_coefficients_are_finite_whatever_its_rows(name: str, size: float) -> None:
    learner, rng = LEARNERS[name], np.random.default_rng(0)
    shared = rng.standard_normal(learner._n_outputs * 4)
    for m in (1, 3, 40):
        X = size * rng.choice([-1.0, 0.5, 1.0], (m, 4))
        assert np.isfinite(learner._solve(X, rng.integers(0, 2, m), shared, 1.0)).all()


# ---- parameters -----------------------------------------------------------------------------------------------------------

moderate = st.one_of(st.floats(-10, 10), st.sampled_from([*ODD, 0.0, -0.0, 5e-324, 1e-6, 1e4]), st.integers(-2, 4))
anything = st.one_of(moderate, oddities.filter(lambda value: not isinstance(value, int | np.generic)))


@settings(quick, max_examples=EXAMPLES // 6)
@given(rank=anything, epsilon=anything, delta=anything, n_rounds=anything, seed=anything)
def test_parameters_of_anything(rank: Any, epsilon: Any, delta: Any, n_rounds: Any, seed: Any) -> None:
    users, _ = cg.datasets.make_shared_subspace(20, 4, n_features=3, rank=1, seed=0)
    for arguments in (
        {"rank": rank},
        {"epsilon": epsilon},
        {"delta": delta},
        {"n_rounds": n_rounds},
        {"simulation_seed": seed},
    ):
        try:
            model = cg.PrivateFedRep(**{"rank": 1, "n_rounds": 1, "simulation_seed": 0, **arguments})
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warnings.warn", lambda *_, **__: None)  # a large delta warns, rightly
                board = model.fit(users).billboard_
        except InputError:
            continue
        assert np.isfinite(board.embedding).all()
        assert board.statement.epsilon_spent <= board.statement.epsilon


# ---- damaged files --------------------------------------------------------------------------------------------------------


def test_damaged_files_are_refused_or_read_alike(tmp_path: Path) -> None:
    """A few hundred of the files that benchmarks/fuzz_readers.py makes by the ten thousand."""
    for reader in fuzz_readers.readers(tmp_path):
        tally = fuzz_readers.fuzz(reader, runs=20 if reader.name == "CSV, streamed" else 120, seed=7)
        assert not tally.bugs, tally.bugs[0][:500]
        assert tally.outcomes["refused"] > 0


def test_a_polars_name_with_a_zero_character_is_an_error_and_no_panic() -> None:
    frame = pl.DataFrame({"user_id": [1, 1, 2], "y": [0.0, 1.0, 2.0], "a\0b": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="zero character"):
        cg.Users.from_table(frame, user="user_id", label="y")
