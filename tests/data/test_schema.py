"""The public schema: what cells become depends on it and on the cell alone, wherever the table comes from."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.data import unencoded
from commonground.data.encoding import encoded_column
from commonground.errors import InputError
from commonground.ledger import DurableLedger
from forgery import rewrite

Column = cg.Column
COLUMNS = (
    Column("who", "person"),
    Column("stars", "label", range=(1, 5)),
    Column("age", range=(0, 100), missing="indicator"),
    Column("pay", scale=1000.0, missing=500.0),
    Column("town", kind="category", values=("Oslo", "Bergen"), missing="Oslo"),
    Column("member", kind="yes/no", missing=False),
    Column("joined", kind="date", origin="2020-01-01", unit="days", range=(0, 100), missing="2020-01-11"),
    Column("note", "ignore"),
)
SCHEMA = cg.Schema(COLUMNS)
ROWS = pd.DataFrame(
    {
        "index": range(4),  # not in the schema: ignored
        "who": ["007", "7", "0042", "007"],
        "stars": [1.0, 9.0, 3.0, -2.0],
        "age": [50.0, None, 300.0, 0.0],
        "pay": [1000.0, None, -250.0, 0.0],
        "town": ["Oslo", None, "Bergen", "Paris"],
        "member": ["yes", None, "NO", "True"],
        "joined": ["2020-01-01", None, "2020-02-20", "1999-01-01"],
        "note": ["a", "b", "c", "d"],
    }
)
ENCODED = np.array(  # age, age is missing, pay, Oslo, Bergen, member, joined
    [
        [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, -1.0],
        [0.0, 1.0, 0.5, 1.0, 0.0, 0.0, -0.8],
        [1.0, 0.0, -0.25, 0.0, 1.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0, 0.0, 0.0, 1.0, -1.0],
    ]
)


def sources(folder: Path) -> dict[str, Any]:
    ROWS.to_csv(folder / "rows.csv", index=False)
    ROWS.to_parquet(folder / "rows.parquet")
    typed = ROWS.assign(joined=pd.to_datetime(ROWS.joined), member=[True, None, False, True])
    return {
        "csv": folder / "rows.csv", "parquet": folder / "rows.parquet", "pandas": ROWS, "typed pandas": typed,
        "polars": pl.from_pandas(ROWS), "arrow": pa.Table.from_pandas(typed),
    }  # fmt: skip


def rows_of(users: cg.Users) -> dict[str, tuple[list[Any], list[float]]]:
    return {one: tuple(part.tolist() for part in users.rows_of(one)) for one in users.ids}  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["csv", "parquet", "pandas", "typed pandas", "polars", "arrow"])
@pytest.mark.parametrize("max_memory", [2**30, 1], ids=["in memory", "streamed"])
def test_every_source_becomes_the_same_numbers(kind: str, max_memory: int, tmp_path: Path) -> None:
    users = cg.Users.from_table(sources(tmp_path)[kind], schema=SCHEMA, max_memory=max_memory)
    assert users.feature_names == ("age", "age is missing", "pay", "town=Oslo", "town=Bergen", "member", "joined")
    assert (users.label_name, users.user_name, users.schema) == ("stars", "who", SCHEMA)
    assert rows_of(users) == {
        "007": (ENCODED[[0, 3]].tolist(), [1.0, 1.0]),
        "7": (ENCODED[[1]].tolist(), [5.0]),
        "0042": (ENCODED[[2]].tolist(), [3.0]),
    }


def test_a_row_is_encoded_alike_alone_and_among_others() -> None:
    """Nothing is read off the table as a whole."""
    for row in range(4):
        np.testing.assert_array_equal(SCHEMA.encode(ROWS[row : row + 1])[0], ENCODED[row])
    array = ROWS[["age", "pay", "town", "member", "joined"]].to_numpy(dtype=object)
    np.testing.assert_array_equal(SCHEMA.encode(array), ENCODED)


def test_the_file_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    assert cg.Schema.read(tmp_path / "s.toml") == SCHEMA
    assert cg.Schema.from_json(SCHEMA.to_json()) == SCHEMA
    odd = cg.Schema((Column('wer ist "das"\n', "person"), Column("y", "label"), Column("ø", scale=1e-9)))
    assert cg.Schema.from_toml(odd.to_toml()) == odd


@pytest.mark.parametrize("as_text", [False, True])
def test_what_else_counts_as_empty_is_as_good_as_an_empty_cell(as_text: bool, tmp_path: Path) -> None:
    """Numbers by what they are, however they are written; words as they are written, but for white space around them."""
    columns = (
        Column("who", "person"), Column("y", "label"), Column("age", range=(0, 100), missing="indicator", empty=(99, -1, "?")),
        Column("town", kind="category", values=("Oslo",), missing="indicator", empty=("refused", "n.n.")),
        Column("member", kind="yes/no", missing=True, empty=("?",)),
    )  # fmt: skip
    schema = cg.Schema(columns)
    assert cg.Schema.from_toml(schema.to_toml()) == schema == cg.Schema.from_json(schema.to_json())
    told = {"age": [50, 99.0, -1, 98], "town": ["Oslo", " refused ", "n.n.", "Rome"], "member": ["no", "?", "?", "no"]}
    if as_text:
        told["age"] = ["50", " 99.00", " ?", "98"]
    empty = {"age": [50, None, None, 98], "town": ["Oslo", None, None, "Rome"], "member": ["no", None, None, "no"]}
    np.testing.assert_array_equal(schema.encode(pd.DataFrame(told)), schema.encode(pd.DataFrame(empty)))
    frame = pd.DataFrame(told | {"who": list("abcd"), "y": [1.0, 2.0, 3.0, 4.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with warnings.catch_warnings(action="error"):  # they are no codes to look at any more
        users = cg.Users.from_table(tmp_path / "t.csv", schema=schema)
    np.testing.assert_array_equal(next(users.blocks()).X, schema.encode(pd.DataFrame(empty)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_empty_number_is_known_in_the_width_that_the_table_has(dtype: type) -> None:
    column = Column("x", range=(-3, 3), missing="indicator", empty=(-99.9, 1e300))
    values, misfits = encoded_column(column, pa.array(np.array([-99.9, 1.0], dtype)))
    assert (values[:, 1].tolist(), misfits) == ([1.0, 0.0], [])


def test_an_empty_date_is_known_however_it_is_written() -> None:
    days = ["1900-01-01", "2020-01-05"]
    column = Column("d", kind="date", range=(0, 1e4), missing="indicator", empty=("1900-01-01", "never"))
    moments = pd.to_datetime(pd.Series(days))
    for cells in (
        days,
        ["1900-01-01T00:00", days[1]],
        ["never", days[1]],
        moments,
        moments.dt.date,
        moments.dt.tz_localize("UTC"),
    ):
        values, misfits = encoded_column(column, pa.array(cells, from_pandas=True))
        assert (values[:, 1].tolist(), misfits) == ([1.0, 0.0], []), cells


def test_a_discovered_value_that_counts_as_empty_is_none() -> None:
    town = Column("town", kind="category", values="discover", missing="indicator", empty=("refused", "any"))
    schema = cg.Schema((Column("who", "person"), Column("y", "label"), town))
    assert schema.with_values({"town": ("refused", "Oslo")}).feature_names == ("town=Oslo", "town is missing")


def test_an_empty_cell_of_its_own_kind_is_not_discovered() -> None:
    """Everybody has written it: it would be the first value found."""
    ids = np.repeat(np.arange(400), 3)
    frame = pd.DataFrame({"who": ids, "y": 1.0 * (ids % 2), "town": np.where(ids % 3, "Oslo", "refused")})
    town = Column("town", kind="category", values="discover", missing="indicator", empty=("refused",))
    schema = cg.Schema((Column("who", "person"), Column("y", "label"), town))
    with warnings.catch_warnings(action="ignore"):
        board = cg.PrivateFedRep(0, 8.0, simulation_seed=1).fit(cg.Users.from_table(frame, schema=schema)).billboard_
    assert board.feature_names == ("town=Oslo", "town is missing")


def test_values_may_come_from_a_public_list_and_dates_be_written_as_dates(tmp_path: Path) -> None:
    (tmp_path / "towns.txt").write_text("Oslo\nBergen\n\n", encoding="utf-8")
    (tmp_path / "s.toml").write_text(
        '[columns.who]\nrole = "person"\n[columns.y]\nrole = "label"\n'
        '[columns.town]\nkind = "category"\nvalues_file = "towns.txt"\n'
        '[columns.day]\nkind = "date"\norigin = 2020-01-01\nrange = [2020-01-01, "2020-01-11"]\n',
        encoding="utf-8",
    )
    schema = cg.Schema.read(tmp_path / "s.toml")
    assert schema.features[0].values == ("Oslo", "Bergen")
    assert schema.features[1].range == (0.0, 10.0)


MISTAKES = {
    "two people": (lambda: cg.Schema((*COLUMNS, Column("me", "person"))), "one column with role 'person', this one 2"),
    "no label": (lambda: cg.Schema(COLUMNS[:1] + COLUMNS[2:]), "one column with role 'label', this one 0"),
    "no feature": (lambda: cg.Schema(COLUMNS[:2]), "at least one column with role"),
    "same feature twice": (
        lambda: cg.Schema((*COLUMNS[:2], Column("a", missing="indicator"), Column("a is missing"))), "occurs 2 times"
    ),
    "no values": (lambda: Column("town", kind="category"), "those that occur in the table are private".capitalize()),
    "empty range": (lambda: Column("x", range=(1, 1)), "two finite numbers"),
    "range and scale": (lambda: Column("x", range=(0, 1), scale=2.0), "not both"),
    "kind": (lambda: Column("x", kind="colour"), "kind must be one of number, category"),
    "missing label": (lambda: Column("y", "label", missing=0.0), "only of a feature"),
    "missing that is no value": (lambda: Column("t", kind="category", values=("a",), missing="b"), "one of its values"),
    "empty without a meaning": (lambda: Column("x", empty=(99,)), "say what that means, too, missing"),
    "empty label": (lambda: Column("y", "label", empty=(99,)), "leave rows without a label out"),
    "no word for an empty number": (
        lambda: Column("x", missing=0.0, empty=(None,)), "empty lists numbers and texts where"  # type: ignore[arg-type]
    ),
    "numbers for an empty category": (
        lambda: Column("t", kind="category", values=("a",), missing="a", empty=(9,)), "empty lists texts where"
    ),
    "a value that is empty": (
        lambda: Column("t", kind="category", values=("a", "b"), missing="a", empty=("b",)), "b cannot be both"
    ),
    "white space": (lambda: Column("t", kind="yes/no", missing=True, empty=(" ?",)), "no white space around"),
    "one empty": (lambda: Column("x", missing=0.0, empty=99), "a list of what counts as an empty cell"),  # type: ignore[arg-type]
    "a draft": (lambda: cg.Schema.from_toml("draft = true\n[columns.x]\n"), "still a draft"),
    "a misspelt key": (lambda: cg.Schema.from_toml('[columns.x]\nrole = "feature"\nrnage = [0, 1]\n'), "there is no rnage"),
    "a newer one": (lambda: cg.Schema.from_toml("version = 2\n[columns.x]\n"), "version 2"),
    "not TOML": (lambda: cg.Schema.from_toml("columns: x"), "is not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_a_schema(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("value", [5, -1.5, True, "x", [], [1], ["a", 2], [[1]], {"a": 1}, float("nan"), 10**400])
def test_a_schema_of_anything_is_read_or_refused(value: Any) -> None:
    """It comes with boards that others wrote, too."""
    for key in ("role", "kind", "range", "scale", "values", "longest", "origin", "unit", "missing", "values_file"):
        for kind in ("number", "category", "yes/no", "date"):
            entry = {"role": "feature", "kind": kind, "values": ["a"] if kind == "category" else [], key: value}
            document = {"columns": {"p": {"role": "person"}, "y": {"role": "label"}, "x": entry}}
            try:
                cg.Schema.from_json(document).encode({"x": ["1", "a", "yes", "2020-01-01", None]})
            except InputError:
                continue
    for document in (value, {"columns": value}, {"columns": {"x": value}}, {"draft": value, "columns": {}}):
        with pytest.raises(InputError):
            cg.Schema.from_json(document)


def test_all_that_does_not_fit_is_told_at_once_and_no_cell_is_quoted() -> None:
    bad = ROWS.assign(
        stars=["1", "2", "secret", "3"], pay=["12", "12x", "13y", ""], member="perhaps", joined="yesterday"
    )
    with pytest.raises(InputError, match="does not fit its schema in 4 places") as told:
        cg.Users.from_table(bad, schema=SCHEMA)
    for line in (
        "'pay': row 1 (counting from 0) and 1 more is not a finite number",
        "'member': row 0 (counting from 0) and 3 more is none of yes",
        "'joined': row 0 (counting from 0) and 3 more is not a date",
        "'stars': row 2 (counting from 0) is not a finite number",
    ):
        assert line in str(told.value)
    assert not any(cell in str(told.value) for cell in ("secret", "12x", "perhaps", "yesterday"))


def test_an_empty_cell_without_a_meaning_is_an_error() -> None:
    schema = cg.Schema((*COLUMNS[:2], Column("age", range=(0, 100))))
    with pytest.raises(InputError, match=r"'age': row 1 .* is empty. Say what that means"):
        cg.Users.from_table(ROWS, schema=schema)


def test_columns_that_the_table_lacks_are_all_named() -> None:
    with pytest.raises(InputError, match="no column 'age', 'town'"):
        cg.Users.from_table(ROWS.drop(columns=["age", "town"]), schema=SCHEMA)


# ---- on a board ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1500
    return pd.DataFrame(
        {
            "who": [f"{j:03d}" for j in rng.permutation(np.repeat(np.arange(150), 10))],
            "pay": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(14, 1, n)),
            "town": rng.choice(["Oslo", "Bergen", "Paris"], n),
            "stars": rng.integers(1, 6, n).astype(float),
        }
    )


PUBLIC = cg.Schema(
    (
        Column("who", "person"), Column("stars", "label", range=(2, 4)), Column("pay", range=(0, 1e7), missing="indicator"),
        Column("town", kind="category", values=("Oslo", "Bergen")),
    )
)  # fmt: skip


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> cg.PrivateFedRep:
    return cg.PrivateFedRep(rank=1, epsilon=0.5, simulation_seed=3).fit(cg.Users.from_table(frame, schema=PUBLIC))


def test_a_board_encodes_rows_itself_and_stays_in_range(
    frame: pd.DataFrame, model: cg.PrivateFedRep, tmp_path: Path
) -> None:
    """Training, saving, heads and strangers: the same schema, and every answer within the label's range."""
    board = cg.Billboard.load(model.billboard_.save(tmp_path / "board"))
    assert board.schema == PUBLIC
    assert 2.0 <= board.intercept <= 4.0
    far = frame.assign(pay=1e300)
    for rows in (frame, far):
        for answer in (board.predict(rows), model.predict(rows, users=rows.who)):
            assert answer.min() >= 2.0
            assert answer.max() <= 4.0
    with pytest.raises(InputError, match="whose rows"):
        model.predict(frame)
    me = frame[frame.who == "007"]
    head = board.personalize(me, me.stars)
    np.testing.assert_allclose(head.predict(me), model.predict(me, users=me.who))
    assert head.predict(far[:5]).max() <= 4.0
    assert cg.Users.from_arrays(frame, frame.stars, frame.who, schema=PUBLIC).schema == PUBLIC


def test_a_schema_that_was_exchanged_is_not_believed(model: cg.PrivateFedRep, tmp_path: Path) -> None:
    folder = model.billboard_.save(tmp_path / "board")
    other = PUBLIC.with_values({"town": ("Oslo", "Paris")}).to_json()
    rewrite(folder, lambda document: document.update(schema=other))
    with pytest.raises(cg.errors.BillboardError, match="its schema makes other features"):
        cg.Billboard.load(folder)


def test_a_board_from_before_schemas_is_read_as_before(tmp_path: Path) -> None:
    users, _ = cg.datasets.make_shared_subspace(30, n_features=3, rank=1, seed=0)
    board = cg.SingleModel(simulation_seed=1).fit(users).billboard_
    new = ("schema", "date", "label")
    folder = rewrite(
        board.save(tmp_path / "board"), lambda d: d.update(schema_version=5) or [d.pop(name) for name in new]
    )
    old = cg.Billboard.load(folder)
    assert (old.schema, old.statement.date, old.statement.label) == (None, "", None)
    np.testing.assert_array_equal(old.mean, board.mean)
    assert "Made with commonground" in str(old.statement).replace("Made, with", "Made with")


def test_people_to_discover_have_no_rows_yet(frame: pd.DataFrame) -> None:
    schema = cg.Schema((*PUBLIC.columns[:3], Column("town", kind="category", values="discover")))
    people: Any = cg.Users.from_table(frame, schema=schema)
    assert isinstance(people, unencoded.Unencoded)
    person, values = people.values_of("town")
    told = {(people.ids[p], value.decode()) for p, value in zip(person, values, strict=True)}
    assert told == set(zip(frame.who, frame.town, strict=True))
    with pytest.raises(InputError, match="takes a share of one"):
        cg.NonPrivateFedRep(rank=1).fit(people)


@pytest.mark.parametrize(
    ("model", "label_range", "what"),
    [
        (cg.PrivateFedRep(1, loss="cubic"), (1, 5), "loss of PrivateFedRep"),
        (cg.PrivateFedRep(1, n_rounds=0), (1, 5), "n_rounds of PrivateFedRep"),
        (cg.PrivateFedRep("all"), (1, 5), "rank of PrivateFedRep"),  # type: ignore[arg-type]
        (cg.PrivateFedRep(1, device="abacus"), (1, 5), "device='abacus'"),
        (cg.PrivateFedRep(1), (-1e200, 1e200), "Give them in another unit"),
        (cg.PrivateAltMin(1, loss="cubic"), (1, 5), "loss of PrivateAltMin"),
        (cg.PrivateAltMin(1, n_rounds=-1), (1, 5), "n_rounds of PrivateAltMin"),
        (cg.PrivateAltMin(1), (-1e200, 1e200), "Give them in another unit"),
        (cg.SingleModel(fit_intercept=False, own_intercept=True), (1, 5), "needs fit_intercept=True"),
        (cg.SingleModel(), (-1e200, 1e200), "Give them in another unit"),
    ],
)
def test_settings_are_refused_before_values_are_discovered(
    model: Any, label_range: tuple[float, float], what: str, tmp_path: Path
) -> None:
    """What people had paid for the values of a category was once lost to a misspelt loss."""
    columns = (Column("who", "person"), Column("stars", "label", range=label_range), *map(Column, ("pay", "age")))
    schema = cg.Schema((*columns, Column("town", kind="category", values="discover")))
    n, rng = 60, np.random.default_rng(0)
    table = {"who": np.arange(n) // 3, "town": ["Oslo", "Rome"] * (n // 2)}
    rows = pd.DataFrame(table | {name: rng.normal(size=n) for name in ("stars", "pay", "age")})
    book = DurableLedger(tmp_path / "budget.db", create=True).open_population("people", Budget(3.0, 1e-6))
    with pytest.raises(InputError, match=what):
        model.fit(cg.Users.from_table(rows, schema=schema), ledger=book)
    assert not [body for body, _ in book.events() if json.loads(body)["kind"] == "charge"]


def test_a_column_of_budgets_stands_beside_a_schema(tmp_path: Path) -> None:
    rows = ROWS.assign(eps=[0.5, 1.0, 2.0, 0.5])
    rows.to_csv(tmp_path / "t.csv", index=False)
    for source in (rows, tmp_path / "t.csv"):
        for schema in (SCHEMA, cg.Schema((*COLUMNS, Column("eps", "ignore")))):
            users = cg.Users.from_table(source, schema=schema, budget="eps")
            assert dict(zip(users.ids.tolist(), users.budgets.tolist(), strict=True)) == {
                "007": 0.5, "7": 1.0, "0042": 2.0
            }  # fmt: skip
            assert users.feature_names == SCHEMA.feature_names


@pytest.mark.parametrize(
    ("asked", "schema", "what"),
    [
        ({"features": ["age"]}, SCHEMA, "role 'ignore'"),
        ({"item": "town", "items": ["Oslo"]}, SCHEMA, "category"),
        ({"engine": "ray"}, SCHEMA, r"Schema\.encode"),
        ({"budget": "pay"}, SCHEMA, "role 'ignore'"),
        ({"budget": "note"}, cg.Schema((*COLUMNS, Column("x", kind="category", values="discover"))), "List them.*: x"),
    ],
)
def test_what_does_not_go_with_a_schema_is_refused_with_what_does(asked: Any, schema: cg.Schema, what: str) -> None:
    with pytest.raises(InputError, match=what):
        cg.Users.from_table(ROWS, schema=schema, **asked)


def texts(cells: list[bytes]) -> pa.Array:
    """A column that says it is text, whatever its bytes are."""
    return pa.Array.from_buffers(pa.string(), len(cells), pa.array(cells, pa.binary()).buffers())


def test_text_that_python_cannot_decode_does_not_stop_a_fit_that_has_paid() -> None:
    schema = cg.Schema(
        (*PUBLIC.columns[:3], *(Column(name, kind="category", values="discover") for name in ("town", "job")))
    )
    n, rng = 600, np.random.default_rng(0)
    rows = {"who": np.arange(n) // 3, "stars": rng.normal(3.0, 1.0, n), "pay": rng.normal(5e6, 1e6, n)}
    usual = [b"Oslo", b"Rome"] * (n // 2)
    names = []
    for odd in (b"Oslo", b"\xed\xa0\x80"):  # half of a pair of UTF-16, which Arrow takes for UTF-8
        table = pa.table({**rows, "town": texts(usual), "job": texts([odd, *usual[1:]])})
        users = cg.Users.from_table(table, schema=schema)
        names.append(cg.PrivateFedRep(rank=0, epsilon=20.0, simulation_seed=1).fit(users).billboard_.feature_names)
    assert names[0] == names[1]
    assert "job=Oslo" in names[0]
    with pytest.raises(InputError, match="'job' holds text that is not UTF-8"):
        cg.Users.from_table(
            pa.table({**rows, "town": texts(usual), "job": texts([b"\xff\xfe", *usual[1:]])}), schema=schema
        )


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_table_of_no_rows_is_not_drafted(tmp_path: Path, name: str) -> None:
    """Of Parquet it was a traceback, of a CSV a draft that ignores everything."""
    empty = pd.DataFrame({"u": np.zeros(0, int), "x": np.zeros(0), "y": np.zeros(0)})
    getattr(empty, f"to_{name.removeprefix('rows.')}")(tmp_path / name, index=False)
    with pytest.raises(InputError, match="There are no rows"):
        cg.Schema.draft(tmp_path / name, user="u", label="y")
