"""Each person keeps what serves her best: against refitting for real, and for people of whom it is known what that is."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

import commonground as cg
from commonground.accounting.events import GaussianEvent
from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.data.users import Block
from commonground.heads.choice import FOLDS, HEAD, OWN, SHARED, choose, own_left_out
from commonground.heads.files import Heads
from commonground.heads.kinds import PosteriorHeads, RidgeHeads
from commonground.heads.ridge import STRENGTHS
from commonground.heads.table import HeadTable
from commonground.statistics.statistic import SharedModel


@pytest.mark.parametrize("local_intercept", [False, True])
def test_rows_left_out_without_refitting(local_intercept: bool) -> None:
    """(I − H_FF)⁻¹ r_F equals fitting without the fold, at the strength of all rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    y = X @ rng.standard_normal(4) + rng.standard_normal(30) + 2.0
    A, r = (X - X.mean(axis=0), y - y.mean()) if local_intercept else (X, y)
    v = np.linalg.lstsq(A, r, rcond=None)[0]
    strength = 4 * ((r - A @ v) ** 2).sum() / (30 - 4 - local_intercept) / (v @ v)
    expected = np.empty(30)
    for out in range(FOLDS):
        kept = np.arange(30) % FOLDS != out
        if local_intercept:
            model = Ridge(alpha=strength).fit(X[kept], y[kept])
        else:
            model = Ridge(alpha=strength, fit_intercept=False).fit(X[kept], y[kept])
        expected[~kept] = y[~kept] - model.predict(X[~kept])
    missed = np.empty(30)
    own_left_out(X, y, int(local_intercept), STRENGTHS, missed)
    np.testing.assert_allclose(missed, expected, atol=1e-9)


def three_kinds(rows: int = 40, people: int = 30, d: int = 6) -> tuple[Block, np.ndarray, np.ndarray, np.ndarray]:
    """People in the span of U, people who are like everybody, and people like nobody; in turn."""
    rng = np.random.default_rng(1)
    U, mean = np.linalg.qr(rng.standard_normal((d, 1)))[0], rng.standard_normal(d)
    kind = np.arange(people) % 3
    theta = np.where((kind == HEAD)[:, None], mean + 3.0 * U[:, 0], mean)
    theta[kind == OWN] = 3.0 * rng.standard_normal(((kind == OWN).sum(), d))
    X = rng.standard_normal((people * rows, d))
    noise = np.where(np.repeat(kind, rows) == SHARED, 0.0, 0.1) * rng.standard_normal(people * rows)
    y = (X * np.repeat(theta, rows, axis=0)).sum(axis=1) + noise
    return Block(X, y, np.arange(people + 1) * rows, first=0), U, mean, kind


def board_of(U: np.ndarray, mean: np.ndarray, pays: bool = True) -> Billboard:
    events = (GaussianEvent("a", 0.1, 2.0, 20.0, 10, True),)
    statement = Statement("a test", "default", 1.0, 1e-6, 30, len(U), True, "none", events, sharing_pays=pays)
    return Billboard(U, mean, 0.0, False, None, statement, RidgeHeads(local_choice=True))


def test_everybody_keeps_what_is_clearly_better() -> None:
    block, U, mean, kind = three_kinds()

    usually_head, _ = choose(block, SharedModel(U, mean), None, HEAD)
    assert (usually_head[kind == HEAD] == HEAD).all()
    assert (usually_head[kind == OWN] == OWN).all()
    usually_own, _ = choose(block, SharedModel(U, mean), None, OWN)
    assert (usually_own[kind != SHARED] == OWN).all()  # it has to be ten times better there
    few = replace(block, X=block.X[:4], y=block.y[:4], offsets=np.array([0, 4]))
    assert choose(few, SharedModel(U, mean), None, HEAD)[0] == [HEAD]  # too few rows to judge by


def test_fit_personalize_and_files_agree(tmp_path: Path) -> None:
    block, U, mean, kind = three_kinds()
    board = board_of(U, mean)
    users = cg.Users.from_arrays(block.X, block.y, np.repeat(np.arange(30), 40))
    heads = Heads.fit(board, users)
    assert heads.table.own.people.tolist() == np.flatnonzero(kind == OWN).tolist()
    heads.save(tmp_path / "heads.parquet", board)
    board.save(tmp_path / "board")
    again = Billboard.load(tmp_path / "board")
    assert again.head_kind == RidgeHeads(local_choice=True)
    assert again.statement.sharing_pays is True
    loaded = Heads.load(tmp_path / "heads.parquet", again)
    for person in (0, 1, 2):
        X, y = users.rows_of(person)
        predicted, _ = loaded.predict(board, X, [person] * len(X), strict=True)
        np.testing.assert_allclose(predicted, again.personalize(X, y).predict(X), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(predicted, y, atol=0.5)
    assert "private" in repr(heads.table.own)


def test_too_few_people_are_told_and_keep_their_own() -> None:
    """180 people as in a survey; with 20 times as many it pays."""
    users, _ = cg.datasets.make_shared_subspace(180, 30, 13, 2, noise=1.0, seed=0)
    with pytest.warns(cg.errors.SharingWarning, match="sharing does not pay here: 180 people at ε = 1 are too few"):
        model = cg.PrivateFedRep(rank=2, epsilon=1.0, simulation_seed=1).fit(users)
    assert model.billboard_.statement.sharing_pays is False
    assert "sharing is not expected to pay" in str(model.billboard_.statement)
    assert model.own_models_ is not None
    assert len(model.own_models_.people) > 0.95 * users.n_users
    person = int(model.own_models_.people[0])
    X, _ = users.rows_of(person)
    alone = cg.OwnDataOnly().fit(users).predict(X, users=[person] * len(X))
    np.testing.assert_allclose(model.predict(X, users=[person] * len(X)), alone, rtol=1e-9, atol=1e-9)
    many, _ = cg.datasets.make_shared_subspace(3600, 5, 13, 2, seed=0)
    assert cg.PrivateFedRep(2, 1.0, keep_heads=False, simulation_seed=1).fit(many).billboard_.statement.sharing_pays


def test_the_verdict_is_public() -> None:
    """It depends on n, d, k and the budget, not on anybody's rows."""
    verdicts = set()
    for seed, rows in enumerate([(1, 9), 5, 200]):
        users, _ = cg.datasets.make_shared_subspace(60, rows, 8, 2, noise=2.0**seed, seed=seed)
        model = cg.PrivateFedRep(2, 1.0, keep_heads=False, simulation_seed=seed).fit(users)
        verdicts.add(model.billboard_.statement.sharing_pays)
    assert verdicts == {False}


def test_without_the_choice_everybody_has_a_head() -> None:
    users, _ = cg.datasets.make_shared_subspace(60, 9, 8, 2, noise=1.0, seed=0)
    model = cg.PrivateFedRep(2, 1.0, local_choice=False, simulation_seed=0).fit(users)
    assert model.own_models_ is not None
    assert not len(model.own_models_.people)
    assert model.billboard_.head_kind == PosteriorHeads(local_choice=False)


def test_nobodys_choice_depends_on_other_peoples_rows() -> None:
    """Person 3 at the very edge between two choices, by bisection; person 0 has 7 rows or 8."""
    d, rows_of_3 = 50, 100
    for seed in (1, 5):
        rng = np.random.default_rng(seed)
        U, mean = np.linalg.qr(rng.standard_normal((d, 1)))[0], 1e6 * rng.standard_normal(d)
        board = board_of(U, mean)
        X = [rng.standard_normal((m, d)) for m in (8, 40, 40, rows_of_3)]
        labels = [rows @ mean + 0.3 * rng.standard_normal(len(rows)) for rows in X]
        own = X[3] @ rng.standard_normal(d)

        def kept(t: float, rows_of_0: int, data: Any = (X, labels, own, board)) -> int:
            X, labels, own, board = data
            theirs = [X[0][:rows_of_0], *X[1:]], [labels[0][:rows_of_0], *labels[1:3], labels[3] + t * own]
            offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in theirs[0]])])
            block = Block(np.concatenate(theirs[0]), np.concatenate(theirs[1]), offsets, first=0)
            model = board.embedding, board.mean, board.intercept, board.fit_intercept
            return int(choose(block, SharedModel(*model), None, HEAD)[0][3])

        low, high = 0.0, 4.0
        first = kept(low, 7)
        assert kept(high, 7) != first
        while np.nextafter(low, high) < high:
            middle = (low + high) / 2
            low, high = (middle, high) if kept(middle, 7) == first else (low, middle)
        assert [kept(low, 8), kept(high, 8)] == [kept(low, 7), kept(high, 7)]


MEMORY = """
import resource, sys
import numpy as np
from commonground.heads.choice import own_left_out
from commonground.heads.ridge import STRENGTHS
def peak(rows):
    X = np.ones((rows, 3)) * np.arange(rows)[:, None] % [7, 11, 13]
    missed = np.empty(rows)
    own_left_out(X, X[:, 0] + np.arange(rows) % 5, 1, STRENGTHS, missed)
    assert np.isfinite(missed).all()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB
before = peak(100)
assert peak(4_000) < before + 50, "a matrix of all rows has 122 MiB, twice"
assert peak(200_000) < before + 150
"""


def test_memory_grows_with_a_persons_rows_not_with_their_square() -> None:
    """A matrix of the rows of one fold would have 13 GB at 200,000 rows."""
    subprocess.run([sys.executable, "-c", MEMORY], check=True)


def test_many_rows_left_out_in_turn() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(10_000)
    missed = np.empty(10_000)
    own_left_out(X, y, 1, STRENGTHS, missed)
    v = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    strength = 3 * ((y - y.mean() - (X - X.mean(axis=0)) @ v) ** 2).sum() / (10_000 - 4) / (v @ v)
    for out in range(FOLDS):
        rest = np.arange(10_000) % FOLDS != out
        model = Ridge(alpha=strength).fit(X[rest], y[rest])
        np.testing.assert_allclose(missed[~rest], y[~rest] - model.predict(X[~rest]), atol=1e-9)


def test_who_has_few_rows_keeps_her_head_whatever_rows_others_have() -> None:
    """Sharing does not pay, so those with many rows keep their own model; one such person must not decide for the others."""
    d, m = 4, 6
    rng = np.random.default_rng(0)
    board = cg.PrivateFedRep(1, 1.0, keep_heads=False, simulation_seed=3).fit(
        rng.standard_normal((60, d)), rng.standard_normal(60), users=np.repeat(np.arange(10), m)
    ).billboard_  # fmt: skip
    assert board.statement.sharing_pays is False
    tables = []
    for extra in (m, 40):
        rng = np.random.default_rng(1)
        rows, ids = rng.standard_normal((9 * m + extra, d + 1)), np.r_[np.repeat(np.arange(9), m), [9] * extra]
        tables.append(HeadTable.fit(board, cg.Users.from_arrays(rows[:, 1:].copy(), rows[:, 0].copy(), ids)))
    assert tables[0].weights[:-1].tobytes() == tables[1].weights[:-1].tobytes()
    assert [table.own.people.tolist() for table in tables] == [[], [9]]


def own_keepers(labels_scale: float = 1.0) -> tuple[Billboard, np.ndarray, np.ndarray, np.ndarray]:
    """A board that says that sharing does not pay, and of 400 people 40 rows each, like nobody else."""
    rng, d = np.random.default_rng(0), 5
    U, mean = np.linalg.qr(rng.standard_normal((d, 1)))[0], rng.standard_normal(d)
    X, ids = rng.standard_normal((400 * 40, d)), np.repeat(np.arange(400), 40)
    y = labels_scale * ((X * (2.0 * rng.standard_normal((400, d)))[ids]).sum(axis=1) + rng.standard_normal(len(ids)))
    changed = replace(board_of(U, mean, pays=False), head_kind=PosteriorHeads(True), spread=np.eye(1), noise=30.0)
    return changed, X, y, ids


def test_intervals_of_who_keeps_her_own_model_are_about_that_model() -> None:
    """The board's noise is 30 times too large, and a head's errors are others; 1,600 labels, standard error 0.8 %."""
    board, X, y, ids = own_keepers()
    held = np.arange(len(y)) % 10 == 0
    heads = Heads.fit(board, cg.Users.from_arrays(X[~held], y[~held], ids[~held]))
    assert len(heads.table.own.people) == 400
    found, _ = heads.predict(board, X[held], list(ids[held]), strict=True)
    std = heads.std(board, X[held], list(ids[held]))
    inside = (np.abs(y[held] - found) < 1.6448536 * std).mean()
    assert 0.87 < inside < 0.93
    mine = ~held & (ids == 7)
    head = board.personalize(X[mine], y[mine])
    np.testing.assert_array_equal(head.predict(X[:3], return_std=True)[1], np.full(3, std[ids[held] == 7][0]))
    low, high = head.interval(X[:3]).T
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * std[ids[held] == 7][0])


@pytest.mark.parametrize("labels_scale", [1.0, 1e120])
def test_that_noise_is_of_rows_left_out(labels_scale: float) -> None:
    board, X, y, _ = own_keepers(labels_scale)
    A, r = X[:40], y[:40]
    v = np.linalg.lstsq(A, r, rcond=None)[0]
    strength = (
        5 * ((r - A @ v) / labels_scale) @ ((r - A @ v) / labels_scale) / 35 / ((v / labels_scale) @ (v / labels_scale))
    )
    missed = np.empty(40)
    for out in range(FOLDS):
        kept = np.arange(40) % FOLDS != out
        model = Ridge(alpha=strength, fit_intercept=False).fit(A[kept], r[kept] / labels_scale)
        missed[~kept] = r[~kept] / labels_scale - model.predict(A[~kept])
    variance = missed @ missed / 40 * stats.t(40).var()
    _, std = board.personalize(A, r).predict(X[:1], return_std=True)
    np.testing.assert_allclose(std / labels_scale, variance**0.5, rtol=1e-6)


def test_errors_beyond_the_range_of_floats_are_infinite_and_hers_alone() -> None:
    board, X, y, _ = own_keepers()
    huge = np.where(np.arange(40) % 2, 1e308, -1e308)
    both = board.head_kind.fit(Block(X[:80], np.r_[huge, y[40:80]], np.array([0, 40, 80]), 0), board)
    alone = board.head_kind.fit(Block(X[40:80], y[40:80], np.array([0, 40]), 0), board)
    assert both.doubts is not None
    assert alone.doubts is not None
    assert both.doubts.noises[0] == np.inf
    assert 0.3 < both.doubts.noises[1] == alone.doubts.noises[0] < 3.0
    assert not both.doubts.covariances.any()
