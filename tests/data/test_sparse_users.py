"""Users of sparse rows are grouped, cut and refused like those of dense ones."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import commonground as cg
from commonground.errors import InputError

IDS = ["bo", "al", "bo", "cy", "al", "bo"]
X = np.arange(24.0).reshape(6, 4) * (np.arange(24).reshape(6, 4) % 3 == 0)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_matrix, sparse.csc_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_are_those_of_dense_users(kind: type, dtype: type) -> None:
    rows = cg.Users.from_arrays(kind(X.astype(dtype)), np.arange(6), IDS)
    dense = cg.Users.from_arrays(X.astype(dtype), np.arange(6), IDS)
    assert rows.sparse
    assert not rows.streamed
    for some in (rows, rows.weighted(np.array([1.0, 0.0, 0.5]))):
        of_dense = dense if some is rows else dense.weighted(some._weights)
        for own, expected in zip(some.blocks(), of_dense.blocks(), strict=True):
            assert own.sparse
            assert own.X.dtype == expected.X.dtype
            np.testing.assert_array_equal(own.X.toarray(), expected.X)
            np.testing.assert_array_equal(own.y, expected.y)
            np.testing.assert_array_equal(own.offsets, expected.offsets)
    np.testing.assert_array_equal(rows.rows_of("bo")[0].toarray(), dense.rows_of("bo")[0])


def test_blocks_of_any_size_are_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    users = cg.Users.from_arrays(sparse.random_array((300, 9), density=0.3, rng=rng), np.ones(300), np.arange(300) // 7)
    whole = next(iter(users.blocks())).X
    parts = [block.X for block in users.blocks(max_bytes=4_000)]
    assert len(parts) > 5
    np.testing.assert_array_equal(sparse.vstack(parts).toarray(), whole.toarray())


def test_places_stored_twice_are_added_up() -> None:
    twice = sparse.csr_array((np.array([1.0, 2.0, 5.0]), np.array([3, 3, 0]), np.array([0, 2, 3])), shape=(2, 4))
    users = cg.Users.from_arrays(twice, [1, 2], ["a", "b"])
    np.testing.assert_array_equal(users.rows_of("a")[0].toarray(), [[0, 0, 0, 3]])


def test_bad_values_are_named_by_place() -> None:
    bad = sparse.csr_array(X)
    bad.data[4] = np.nan
    row, column = np.argwhere(np.isnan(bad.toarray()))[0]
    with pytest.raises(InputError, match=rf"Row {row} .*'{'abcd'[column]}'"):
        cg.Users.from_arrays(bad, np.ones(6), IDS, feature_names=list("abcd"))
    for wrong in (lambda: cg.Users.from_arrays(sparse.csr_array(X), np.ones(5), IDS),
                  lambda: cg.Users.from_arrays(sparse.csr_array(X.astype(complex)), np.ones(6), IDS),
                  lambda: cg.Users.from_arrays(sparse.csr_array((0, 4)), [], [])):  # fmt: skip
        with pytest.raises(InputError):
            wrong()


RATINGS = pd.DataFrame(
    {"user_id": ["u2", "u1", "u2", "u3"], "item": [30, 10, 10, 20], "rating": [1.0, 2.0, 3.0, 4.0], "e": [1, 2, 1, 3]}
)


def test_a_table_of_ratings() -> None:
    users = cg.Users.from_table(RATINGS, label="rating", item="item", items=[10, 20, 30, 40], budget="e")
    assert users.feature_names == ("10", "20", "30", "40")
    X, y = users.rows_of("u2")
    np.testing.assert_array_equal(X.toarray(), [[0, 0, 1, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(y, [1, 3])
    np.testing.assert_array_equal(users.budgets, [2, 1, 3])


def test_the_catalogue_is_asked_for_and_kept_to() -> None:
    with pytest.raises(InputError, match=r"catalogue.*private"):
        cg.Users.from_table(RATINGS, label="rating", item="item")
    with pytest.raises(InputError, match="Row 3") as caught:
        cg.Users.from_table(RATINGS, label="rating", item="item", items=[10, 30])
    assert "20" not in str(caught.value), "which item it was is somebody's rating"
    for wrong in ({"items": [10, 20, 30]}, {"item": "item", "items": [10, 20, 30, 10]}, {"item": "item", "items": "items.txt"},
                  {"item": "item", "items": [10, 20, 30], "features": ["e"]}):  # fmt: skip
        with pytest.raises(InputError):
            cg.Users.from_table(RATINGS, label="rating", **wrong)
