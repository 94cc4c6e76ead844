"""A person's head, choice and predictions are functions of the billboard and of her own rows, bit by bit.

The billboard stays as it is; one person brings other values, another number of rows, numbers at the ends of the float range or
none at all; blocks are cut elsewhere. Everybody else must get the very bytes that she would get alone.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.base import clone

import commonground as cg
from commonground.billboard.board import Billboard
from commonground.data.users import Block, _block_edges
from commonground.estimators.answers import _Places
from commonground.heads.files import Heads
from commonground.heads.kinds import RidgeHeads
from commonground.heads.table import HeadTable
from contracts.test_every_estimator import ESTIMATORS, fit, labels_for, numbers
from contracts.test_every_joint_learner import LEARNERS

pytestmark = pytest.mark.slow

D, SIZES = 8, (7, 3, 12, 40, 1, 9, 2, 30, 5, 6, 8, 11, 55, 4)
each = pytest.mark.parametrize("name", ESTIMATORS)
Person = tuple[np.ndarray, np.ndarray]


@cache
def population() -> tuple[Person, ...]:
    """People near and far from one subspace, so that some keep a head, some the shared part, some a model of their own."""
    rng = np.random.default_rng(5)
    everybody = []
    for j, m in enumerate(SIZES):
        X = rng.standard_normal((m, D))
        theta = rng.standard_normal(2) if j % 3 else np.zeros(2)
        y = X[:, :2] @ theta + X @ rng.standard_normal(D) * (j % 2) + 0.1 * rng.standard_normal(m)
        everybody.append((X, y))
    return tuple(everybody)


def others_of_person_0() -> dict[str, Person]:
    """What she might bring instead of her 7 rows."""
    rng = np.random.default_rng(6)

    def rows(m: int, size: float = 1.0) -> Person:
        X = rng.choice([-1.0, 1.0], (m, D)) * size if size != 1.0 else rng.standard_normal((m, D))
        return X, rng.choice([-1.0, 1.0], m) * (size if size != 1.0 else 1.0)

    return {
        "other values": rows(7),
        "no rows": rows(0),
        "one row": rows(1),
        "one row more": rows(8),
        "10,000 rows": rows(10_000),
        **{f"numbers of {size:g}": rows(8, size) for size in (5e-324, 1e-162, 1e-30, 1e155, 1.7e308)},
        "NaN": rows(8, np.nan),
        "infinite": rows(8, np.inf),
    }


class Grouped:
    """Rows grouped by person, any numbers in them, in blocks of at most so many rows."""

    rows_are_here, weights = True, None  # None: everybody takes part in full

    def __init__(self, parts: tuple[Person, ...], most_rows: int = 10**9):
        self.parts, self.n_users = parts, len(parts)
        self.offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in parts])])
        self.edges = _block_edges(self.offsets, most_rows)

    def blocks(self) -> Iterator[Block]:
        X, y = (np.concatenate([part[what] for part in self.parts]) for what in (0, 1))
        for first, end in pairwise(self.edges):
            start, stop = self.offsets[first], self.offsets[end]
            rows = X[start:stop].copy() if first % 2 else X[start:stop]  # elsewhere in memory, too
            yield Block(rows, y[start:stop], self.offsets[first : end + 1] - start, first)


@cache
def fitted(name: str) -> Any:
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 150, 1500)
    X = rng.standard_normal((1500, D))
    y = (X[:, :2] * rng.standard_normal((150, 2))[ids]).sum(axis=1) + 0.1 * rng.standard_normal(1500)
    return fit(ESTIMATORS[name], X, labels_for(ESTIMATORS[name], y), users=ids)


def boards_of(board: Billboard) -> list[Billboard]:
    """The one that was published; and, where people may choose, those by which they keep something else."""
    if not getattr(board.head_kind, "local_choice", False):
        return [board]
    pays = replace(board, statement=replace(board.statement, sharing_pays=True))
    if board.head_kind != RidgeHeads(local_choice=True):
        return [board, pays, replace(board, statement=replace(board.statement, sharing_pays=False))]
    root = np.random.default_rng(1).standard_normal((board.rank, board.rank))
    return [board, pays, replace(pays, prior=root @ root.T + np.eye(board.rank))]


def with_heads(model: Any, board: Billboard, users: Any) -> Any:
    """The model with heads of these people on this billboard."""
    model = copy(model)
    model.billboard_, model.user_ids_ = board, np.arange(users.n_users)
    model._place = _Places(model.user_ids_)
    model.heads_ = HeadTable.fit(board, users)
    return model


def bytes_of(model: Any, person: int, X: np.ndarray, before: np.ndarray) -> tuple[bytes, ...]:
    """Her head, her intercept, her own model, and what she is told about rows X if other people's rows come ``before``."""
    own = model.own_models_
    asked = np.concatenate([before, X])
    whose = [-1] * len(before) + [person] * len(X)
    answers = numbers(model)(asked, users=whose)[len(before) :]
    at = np.flatnonzero(own.people == person)
    return (
        model.heads_[person].tobytes(),
        model.own_intercepts_[person].tobytes(),
        own.coef[at].tobytes(),
        answers.tobytes(),
    )


@each
def test_others_keep_every_bit_of_their_models(name: str) -> None:
    model = fitted(name)
    parts = tuple((X, labels_for(model, y)) for X, y in population())
    new_rows = np.random.default_rng(9).standard_normal((11, D))
    for board in boards_of(model.billboard_):
        alone = [bytes_of(with_heads(model, board, Grouped((part,))), 0, new_rows, new_rows[:0]) for part in parts[1:]]
        for what, changed in others_of_person_0().items():
            for most_rows in (10**9, 60, 17):
                everybody = with_heads(model, board, Grouped((changed, *parts[1:]), most_rows))
                assert np.isfinite(everybody.heads_).all()
                assert np.isfinite(everybody.own_intercepts_).all()
                assert np.isfinite(everybody.own_models_.coef).all()
                for person, hers in enumerate(alone, start=1):
                    told = bytes_of(everybody, person, new_rows, new_rows[: person % 5])
                    assert told == hers, f"person {person} sees that person 0 brought {what}"


def test_some_choose_a_head_some_the_shared_part_some_their_own() -> None:
    """Else the test above would show less than it says."""
    board = boards_of(fitted("PrivateFedRep").billboard_)[1]
    mean, U = np.zeros(D) if board.mean is None else board.mean, board.embedding
    rng, several = np.random.default_rng(2), []
    for theta in (mean + 3.0 * U[:, 0], 3.0 * rng.standard_normal(D)):
        X = rng.standard_normal((40, D))
        several.append((X, X @ theta + board.intercept + 1e-3 * rng.standard_normal(40)))
    for _ in range(200):  # of those who are like everybody and have few rows, some had better have no head
        X = rng.standard_normal((5, D))
        several.append((X, X @ mean + board.intercept + rng.standard_normal(5)))
    found = with_heads(fitted("PrivateFedRep"), board, Grouped(tuple(several)))
    own = np.isin(np.arange(len(several)), found.own_models_.people)
    kept = set(np.where(own, "own", np.where(found.heads_.weights.any(axis=1), "head", "shared")).tolist())
    assert kept == {"own", "head"}  # who has few rows keeps her head, which is as near to the shared part as she needs


@each
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_in_memory_from_a_file_and_alone(name: str, dtype: type, tmp_path: Path) -> None:
    model = fitted(name)
    parts = [(X.astype(dtype), y.astype(dtype)) for X, y in population()]
    parts = [(X, labels_for(model, y).astype(dtype)) for X, y in parts]
    X, y = (np.concatenate([part[what] for part in parts]) for what in (0, 1))
    ids = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    table = pa.table({f"x{c}": X[:, c] for c in range(D)} | {"user_id": ids, "y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=20)
    streamed = cg.Users.from_table(tmp_path / "rows.parquet", max_memory=1)
    assert streamed.streamed
    in_small_blocks = cg.Users.from_table(tmp_path / "rows.parquet", max_memory=1)
    in_small_blocks.blocks = partial(in_small_blocks.blocks, 2 * 20 * (D + 1) * np.dtype(dtype).itemsize)  # type: ignore[method-assign]
    assert len(list(in_small_blocks.blocks())) > 5
    for board in boards_of(model.billboard_):
        in_memory = with_heads(model, board, cg.Users.from_arrays(X, y, ids))
        assert in_memory.own_models_ is not None
        for users in (streamed, in_small_blocks):
            again = with_heads(model, board, users)
            assert again.heads_.weights.tobytes() == in_memory.heads_.weights.tobytes()
            assert again.own_intercepts_.tobytes() == in_memory.own_intercepts_.tobytes()
            assert again.own_models_.people.tobytes() == in_memory.own_models_.people.tobytes()
            assert again.own_models_.coef.tobytes() == in_memory.own_models_.coef.tobytes()
        board = Billboard.load(board.save(tmp_path / "board"))
        files = Heads.fit(board, in_small_blocks)
        files = Heads.load(files.save(tmp_path / "heads.parquet", board), board)
        assert files.table.weights.tobytes() == in_memory.heads_.weights.tobytes()
        answers = numbers(in_memory)(X, users=ids)
        assert files.predict(board, X, ids.tolist(), strict=True)[0].tobytes() == answers.tobytes()
        for person, (rows, labels) in enumerate(parts):
            head = board.personalize(rows, labels)
            assert head.weights.tobytes() == in_memory.heads_[person].tobytes()
            assert head.predict(rows).tobytes() == answers[ids == person].tobytes()


def test_sparse_rows_have_the_heads_of_dense_ones() -> None:
    model = fitted("PrivateFedRep")
    board = replace(model.billboard_, head_kind=RidgeHeads())
    X, y = (np.concatenate([part[what] for part in population()]) for what in (0, 1))
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    ids = np.repeat(np.arange(len(SIZES)), SIZES)
    dense = with_heads(model, board, cg.Users.from_arrays(X, y, ids))
    thin = with_heads(model, board, cg.Users.from_arrays(sparse.csr_array(X), y, ids))
    assert thin.heads_.weights.tobytes() == dense.heads_.weights.tobytes()
    assert thin.predict(sparse.csr_array(X), users=ids).tobytes() == dense.predict(X, users=ids).tobytes()


@pytest.mark.parametrize("where", ["a fit", "a file"])
def test_people_of_later_blocks_keep_their_own_models(where: str) -> None:
    """Each block counts its people from zero; a model of one's own must not go to somebody at the start of the table."""
    model = fitted("PrivateFedRep")
    parts = population()
    one, several = Grouped(parts), Grouped(parts, most_rows=17)
    assert len(several.edges) > 5
    if where == "a fit":
        expected, found = (with_heads(model, model.billboard_, users).own_models_ for users in (one, several))
    else:
        for users in (one, several):
            users.ids = np.arange(users.n_users)  # type: ignore[attr-defined]
        expected, found = (Heads.fit(model.billboard_, users).table.own for users in (one, several))  # type: ignore[arg-type]
    assert len(expected.people) > 1
    assert found.people.tolist() == expected.people.tolist()
    assert found.coef.tobytes() == expected.coef.tobytes()


# ---- owners ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in LEARNERS if name.startswith("JointSGD")])
def test_other_owners_keep_every_bit_of_their_coefficients(name: str) -> None:
    """What is shared is given; the owner's part and its answers come from its own rows."""
    model = clone(LEARNERS[name])
    rng = np.random.default_rng(3)
    shared = rng.standard_normal(model._n_outputs * (D + 1))
    theirs = [(rng.standard_normal((m, D)), rng.integers(0, 2, m)) for m in SIZES]

    def coefficients(parts: list[Any]) -> list[bytes]:
        rows = model._rows(np.concatenate([X for X, _ in parts]))
        labels = model._labels(np.concatenate([y for _, y in parts]))
        owner = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
        solved = [model._solve(rows[owner == j], labels[owner == j], shared, 1.0) for j in range(len(parts))]
        assert np.isfinite(solved).all()
        return [one.tobytes() for one in solved]

    before = coefficients(theirs)
    for m, size in ((8, 1.0), (1, 1.0), (500, 1.0), (8, 5e-324), (8, 1e-162), (8, 1e200), (8, 1.7e308)):
        X = size * rng.choice([-1.0, 1.0], (m, D))
        assert coefficients([(X, rng.integers(0, 2, m)), *theirs[1:]])[1:] == before[1:]
    fitted_model = clone(LEARNERS[name]).fit(
        np.concatenate([X for X, _ in theirs]), np.concatenate([y for _, y in theirs]),
        np.repeat(np.arange(len(SIZES)), SIZES), users=np.arange(sum(SIZES)),
    )  # fmt: skip
    X = rng.standard_normal((9, D))
    hers = fitted_model._scores(X, [3] * 9).tobytes()
    for before_her in (1, 2, 3, 8):
        asked = np.concatenate([np.full((before_her, D), 1e300), X])
        assert fitted_model._scores(asked, [0] * before_her + [3] * 9)[before_her:].tobytes() == hers


@pytest.mark.parametrize("name", [name for name in LEARNERS if name.startswith("JointSGD")])
def test_an_owners_part_comes_from_its_own_rows(name: str) -> None:
    rng = np.random.default_rng(4)
    X, y, owner = rng.standard_normal((99, D)), rng.integers(0, 2, 99), np.arange(99) % 3
    model = clone(LEARNERS[name]).fit(X, y, owner, users=np.arange(99))
    rows, labels = model._rows(X[owner == 1]), model._labels(y[owner == 1])
    expected = model._solve(rows, labels, model._shared, model.ridge) - model._shared
    assert model._of_owners[1].tobytes() == expected.tobytes()
