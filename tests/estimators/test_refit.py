"""A fit that goes on from an earlier board: better than from scratch, no worse where the board misleads, and honest about it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import compose
from commonground.datasets.drifting import DriftingPeople
from commonground.errors import InputError
from commonground.estimators.fedrep import default
from commonground.ledger import DurableLedger
from commonground.metrics import error_of_heads, subspace_distance
from commonground.statistics.statistic import SharedModel

D, N = 12, 3000
RNG = np.random.default_rng(7)
U = np.linalg.qr(RNG.standard_normal((D, 2)))[0]
WORLD = DriftingPeople(U, np.diag([0.3, 1.0, 0.6]), 0.5, 0.3 * RNG.standard_normal(D), 2.0, drift=1.5)
BARE = DriftingPeople(U, np.diag([1.0, 0.6]), 0.5, drift=1.5)
PARTS, BARE_PARTS = WORLD.own_parts(N, 1), BARE.own_parts(N, 1)
pytestmark = pytest.mark.filterwarnings("ignore")


def people(time: float, seed: int = 0) -> cg.Users:
    return WORLD.rows(PARTS, time, 6, seed)


def fit(users: cg.Users, epsilon: float, seed: int, start: Any = None, **how: Any) -> cg.Billboard:
    return (
        cg.PrivateFedRep(2, epsilon, keep_heads=False, simulation_seed=seed, **how).fit(users, start=start).billboard_
    )


def error(board: cg.Billboard, time: float) -> float:
    return error_of_heads(board, people(time, 99), *WORLD.coefficients(PARTS, time))


GOOD = fit(people(0.0), 8.0, 0)


def test_a_refit_at_a_small_budget_keeps_what_a_good_board_knows() -> None:
    """Error of four refits and of four fits from scratch at the same ε: below on average, by far."""
    started = [error(fit(people(0.0, s), 0.3, s, GOOD), 0.0) for s in range(1, 5)]
    scratch = [error(fit(people(0.0, s), 0.3, s), 0.0) for s in range(1, 5)]
    assert np.mean(started) < 0.6 * np.mean(scratch)
    assert np.mean(started) < 1.3 * error(GOOD, 0.0)


def test_it_follows_directions_that_have_turned() -> None:
    """By 43°, and at a budget that can see it: nearer to where they are now, and not much behind a fit from scratch."""
    refitted = fit(people(0.5), 4.0, 3, GOOD)
    now = WORLD.embedding_at(0.5)
    assert subspace_distance(refitted.embedding, now) < 0.4 * subspace_distance(GOOD.embedding, now)
    assert error(refitted, 0.5) < 0.5 * error(GOOD, 0.5)
    assert error(refitted, 0.5) < 1.3 * error(fit(people(0.5), 4.0, 3), 0.5)


def test_a_worthless_board_does_little_harm() -> None:
    other = np.linalg.qr(np.random.default_rng(3).standard_normal((D, 2)))[0]
    wrong = replace(GOOD, embedding=other, mean=np.zeros(D), intercept=0.0)
    assert error(fit(people(0.0), 4.0, 2, wrong), 0.0) < 0.5 * error(wrong, 0.0)


def test_a_level_of_labels_that_has_moved_is_found() -> None:
    moved = replace(WORLD, intercept=6.0)
    refitted = fit(moved.rows(PARTS, 0.0, 6, 5), 4.0, 1, GOOD)
    assert abs(refitted.intercept - 6.0) < 0.7


def test_without_mean_and_intercepts() -> None:
    how: dict[str, Any] = {"fit_intercept": False, "shared_mean": False, "n_rounds": 3}
    users = BARE.rows(BARE_PARTS, 0.0, 6, 0)
    board = fit(users, 20.0, 0, **{**how, "n_rounds": 12})
    started, scratch = (
        np.mean([subspace_distance(fit(users, 0.3, s, b, **how).embedding, U) for s in (1, 2, 3)])
        for b in (board, None)
    )
    assert started < 0.7 * scratch
    by_itself = fit(users, 0.3, 1, board, **{**how, "n_rounds": None})
    assert subspace_distance(by_itself.embedding, U) < 0.7 * scratch


def test_yes_or_no_and_sparse_rows() -> None:
    X, y = (np.concatenate(arrays) for arrays in zip(*((b.X, b.y) for b in people(0.0).blocks()), strict=True))
    ids = np.repeat(np.arange(N), 6)
    yes = cg.PrivateFedRepClassifier(2, 8.0, classes=(-1, 1), keep_heads=False, simulation_seed=0)
    labels = np.where(y > 2.0, 1, -1)
    first = yes.fit(X, labels, users=ids).billboard_
    again = yes.fit(X, labels, users=ids, start=first).billboard_
    assert again.statement.parameters["start"] == first.fingerprint
    assert subspace_distance(again.embedding, U) < 0.3
    rows = sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    model = cg.PrivateFedRep(2, 8.0, keep_heads=False, simulation_seed=0)
    first = model.fit(rows, y, users=ids).billboard_
    assert subspace_distance(model.fit(rows, y, users=ids, start=first).billboard_.embedding, U) < 0.6


@pytest.mark.parametrize("own_intercept", [True, False])
def test_a_model_comes_back_from_the_coordinates_as_it_went(own_intercept: bool) -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2 + own_intercept, 4))
    old = SharedModel(U, rng.standard_normal(D), 1.5, own_intercept, root @ root.T, 0.7)
    for transform in (None, rng.uniform(0.5, 2.0, D), rng.standard_normal((D, D))):
        centre = rng.standard_normal(D) if own_intercept else None
        seen = default.Coordinates(None, None, transform, centre, np.zeros(D, int), np.arange(D))  # type: ignore[arg-type]
        back = default.orthonormal(seen.for_features(seen.from_features(old)))
        np.testing.assert_allclose(back.coef, old.coef, atol=1e-9)
        assert back.intercept == pytest.approx(1.5)
        np.testing.assert_allclose(covariance_of(back), covariance_of(old), atol=1e-9)


def covariance_of(model: SharedModel) -> np.ndarray:
    """Of people's own intercepts and coefficients for x, whatever basis the model has."""
    assert model.spread is not None
    own = int(model.own_intercept)
    basis = np.zeros((own + D, own + model.rank))
    basis[:own, :own], basis[own:, own:] = 1.0, model.embedding
    return np.asarray(basis @ model.spread @ basis.T)


def test_first_estimates_are_not_released_and_the_rest_is_within_the_budget() -> None:
    board = fit(people(0.0), 1.0, 1, GOOD)
    names = " ".join(event.name for event in board.statement.events)
    assert "initial embedding" not in names
    assert "level of labels: where it lies" not in names
    assert "level of labels 1" not in names
    assert "label energy" not in names
    assert compose(event.mu for event in board.statement.events) <= Budget(1.0, 1e-6).mu
    scratch = fit(people(0.0), 1.0, 1)
    assert len(board.statement.events) < len(scratch.statement.events)
    largest = max(e.mu for e in board.statement.events if e.name.startswith("round"))
    assert largest > 1.2 * max(e.mu for e in scratch.statement.events if e.name.startswith("round"))


def test_the_statement_names_the_board_and_says_that_costs_add_up(tmp_path: Path) -> None:
    users = people(0.0)
    book = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(2.0, 1e-6))
    first = cg.PrivateFedRep(2, 1.0, keep_heads=False).fit(users, ledger=book).billboard_
    second = cg.PrivateFedRep(2, 1.0, keep_heads=False).fit(users, ledger=book, start=first).billboard_
    assert f"goes on from the earlier board {first.fingerprint[:12]}…, whose cost comes on top" in str(second.statement)
    second.save(tmp_path / "b")
    assert cg.Billboard.load(tmp_path / "b").statement == second.statement
    assert float(book.account().charged) > 1.9 * Budget(1.0, 1e-6).mu ** 2
    assert "goes on" not in str(first.statement)


def test_what_cannot_be_started_from_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    users = people(0.0)
    book = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(2.0, 1e-6))
    real = replace(GOOD, statement=replace(GOOD.statement, simulated=False))
    other = replace(real, feature_names=tuple(f"x{i}" for i in range(D)))
    named = cg.Users.from_arrays(
        np.eye(D)[[0, 1, 2, 3]], np.zeros(4), [1, 1, 2, 2], feature_names=[f"z{i}" for i in range(D)]
    )
    refused: list[tuple[Any, cg.Users, Any, str]] = [
        (cg.PrivateFedRep(2, 1.0), users, GOOD, "protects nobody"),
        (
            cg.PrivateFedRep(2, 1.0),
            users,
            replace(real, statement=replace(real.statement, epsilon=np.inf)),
            "protects nobody",
        ),
        (cg.PrivateFedRep(3, 1.0), users, real, "has rank = 2, and this fit 3"),
        (cg.PrivateFedRep(2, 1.0, fit_intercept=False), users, real, "has fit_intercept = True"),
        (cg.PrivateFedRep(2, 1.0, shared_mean=False), users, real, "has shared_mean = True"),
        (cg.PrivateFedRep(2, 1.0, loss="logistic"), users, real, "logistic"),
        (cg.PrivateFedRep(2, 1.0), users, replace(real, spread=None), "no prior of heads"),
        (cg.PrivateFedRep(2, 1.0), named, other, "about other features"),
        (cg.PrivateFedRep(1, 1.0), cg.datasets.make_shared_subspace(20, 3, 4, 1)[0], real, "is about 12 features"),
        (cg.PrivateFedRep(2, 1.0), users, "board", "must be a Billboard"),
        (cg.SingleModel(1.0), users, real, "no version for an earlier board"),
        (cg.PrivateFedRep(2, 1.0, recipe="paper"), users, real, "no version for an earlier board"),
    ]
    for model, crowd, start, why in refused:
        with pytest.raises(InputError, match=why):
            model.fit(crowd, ledger=book, start=start)
        assert not book.account().charged, why


def test_a_resumed_refit_must_start_from_the_same_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from commonground.gate.journalled import JournalledGate

    keep = JournalledGate._keep

    def once(self: JournalledGate, *what: Any) -> None:
        keep(self, *what)
        raise KeyboardInterrupt

    monkeypatch.setattr(JournalledGate, "_keep", once)
    model = cg.PrivateFedRep(2, 1.0, keep_heads=False, simulation_seed=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(people(0.0), start=GOOD, checkpoint=tmp_path / "j")
    with pytest.raises(cg.errors.CheckpointError, match="start"):
        model.fit(people(0.0), checkpoint=tmp_path / "j")


def test_a_board_with_idle_directions_is_gone_on_from_whatever_is_popular() -> None:
    """A board of few people has a direction along its first item alone; a gradient there, across it, is nothing at all."""

    def ratings(n: int) -> cg.Users:
        rng, per, items = np.random.default_rng(0), 8, 30
        chances = np.r_[60.0, np.ones(items - 1)] / (items + 59.0)  # one hit, the others alike
        ids, item = np.repeat(np.arange(n), per), rng.choice(items, size=n * per, p=chances)
        X = sparse.csr_array((np.ones(n * per), (np.arange(n * per), item)), shape=(n * per, items))
        return cg.Users.from_arrays(X, rng.normal(size=n)[ids] + rng.normal(size=n * per), ids)

    old = cg.PrivateFedRep(1, 1.0, simulation_seed=0).fit(ratings(60)).billboard_
    np.testing.assert_array_equal(np.abs(old.embedding[:, 0]), np.eye(30)[0])
    board = cg.PrivateFedRep(1, 1.0, simulation_seed=1, keep_heads=False).fit(ratings(4000), start=old).billboard_
    assert np.isfinite(board.embedding).all()
