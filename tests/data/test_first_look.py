"""The same look at a table from Python as from the command line: where nobody has said what the columns are."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import commonground as cg
from commonground.errors import InputError, PrivacyWarning, TableWarning


def table(n_users: int = 30, rows: int = 3, **columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n_rows = n_users * rows
    people = [f"p{place}" for place in range(n_users) for _ in range(rows)]
    return pd.DataFrame({"user_id": people, "a": rng.normal(size=n_rows), "y": rng.normal(size=n_rows), **columns})


def as_arrays(frame: pd.DataFrame, **how: Any) -> cg.Users:
    return cg.Users.from_arrays(frame.drop(columns=["user_id", "y"]), frame["y"], frame["user_id"], **how)


def ids_with(*ids: str) -> list[str]:
    return [*ids, *(f"p{place}" for place in range(90 - len(ids)))]


@pytest.mark.parametrize("make", [cg.Users.from_table, as_arrays])
def test_a_usual_table_says_nothing(make: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(table(count=np.arange(90) % 7))


@pytest.mark.parametrize("make", [cg.Users.from_table, as_arrays])
def test_ids_that_differ_by_blanks_are_refused(make: Any) -> None:
    with pytest.raises(InputError, match="1 ids differ from another one by nothing but blanks"):
        make(table(user_id=ids_with("p1 ")))


@pytest.mark.parametrize(
    ("columns", "kind", "words"),
    [
        ({"user_id": ids_with("P1", "p2", "p2")}, PrivacyWarning, "capital letters alone"),
        ({"user_id": ids_with()}, PrivacyWarning, "everybody has exactly one row"),
        ({"y": 3.0}, TableWarning, "the same in every row: there is nothing to learn"),
        ({"age": [*range(20, 107), 999, 999, 999]}, TableWarning, "stand for a missing cell; rows by column: 'age' 3"),
        ({"same": 1.5}, TableWarning, "the same in every row: 'same'. Such a column only adds noise"),
    ],
)
@pytest.mark.parametrize("make", [cg.Users.from_table, as_arrays])
def test_what_is_hardly_meant_is_a_warning_at_the_callers_line(make: Any, columns: Any, kind: Any, words: str) -> None:
    frame = table().assign(**columns)
    with pytest.warns(kind, match=words) as told:
        make(frame)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_frames_whose_rows_lie_in_another_order_are_told() -> None:
    """Rows are matched by place, as scikit-learn does; an index in another order says that they should not be."""
    frame = table()
    with pytest.warns(TableWarning, match=r"X and y have the same index in another order.*give y.loc\[X.index\]"):
        cg.Users.from_arrays(frame[["a"]], frame.y.sample(frac=1.0, random_state=0), frame.user_id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        part = frame.iloc[30:]
        cg.Users.from_arrays(part[["a"]], part.y.reset_index(drop=True), part.user_id)  # another index altogether


def test_a_column_that_is_the_index_is_told() -> None:
    with pytest.raises(InputError, match=r"'user_id' is the frame's index.*reset_index\(\)"):
        cg.Users.from_table(table().set_index("user_id"))


def test_what_looks_like_an_id_is_refused_in_a_table_and_warned_of_in_a_frame_of_chosen_columns() -> None:
    frame = table(number=np.arange(90) * 3, shop_id=np.arange(90) % 7)
    with pytest.raises(InputError, match="2 things about this table"):
        cg.Users.from_table(frame)
    words = "'number' looks like an index.*'shop_id' looks like an id.*feature_names="
    with pytest.warns(TableWarning, match=words):
        as_arrays(frame)
    with pytest.warns(TableWarning, match=words):
        cg.Users.from_arrays(pl.from_pandas(frame[["a", "number", "shop_id"]]), frame["y"], frame["user_id"])


def test_who_has_said_what_the_columns_are_hears_nothing() -> None:
    frame = table(number=np.arange(90), same=1.5, y=3.0, user_id=ids_with("p1 ", "P2"))
    features = ["a", "number", "same"]
    schema = cg.Schema((cg.Column("user_id", "person"), cg.Column("y", "label"), *map(cg.Column, features)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cg.Users.from_table(frame, features=features)
        cg.Users.from_table(frame, schema=schema)
        as_arrays(frame, feature_names=features)
        as_arrays(frame, schema=schema)
        cg.Users.from_arrays(frame[features].to_numpy(), frame["y"], frame["user_id"])


def test_few_people_may_all_say_the_same() -> None:
    """As one newcomer does who liked whatever she saw."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cg.Users.from_table(table(n_users=2, y=5.0, a=1.0)).n_users == 2
