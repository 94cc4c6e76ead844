"""Tuning: one budget, one charge, one statement; scores that one person hardly moves; free variants that are free."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError, InputError, PrivacyWarning
from commonground.gate import Gate, Release, randomness_from
from commonground.ledger import DurableLedger, InMemoryLedger
from commonground.tally import tally
from commonground.tuning import repeat
from commonground.tuning.candidates import at_rank, candidates_in, groups_of
from commonground.tuning.hold_out import hold_out
from commonground.tuning.parts import Shares, is_repeated, part_of
from commonground.tuning.score import own_errors, release_scores
from populations import strange_people


def people(n: int = 1500, d: int = 6, seed: int = 0) -> cg.Users:
    """Two directions matter."""
    users, _ = cg.datasets.make_shared_subspace(n, 10, d, rank=2, noise=0.2, seed=seed)
    return users


MODEL = cg.PrivateFedRep(n_rounds=3, local_choice=False)


# ---- what is found, and what it costs ---------------------------------------------------------------------------------------


def test_the_right_rank_is_found_within_one_budget() -> None:
    found = cg.tune(MODEL, {"rank": [0, 1, 2]}, people(), epsilon=4.0, delta=1e-6, simulation_seed=0)
    assert found.best_settings == {"rank": 2}
    assert [one.free for one in found.candidates] == [True, True, False]
    assert found.statement.epsilon == 4.0
    assert 3.9 < found.statement.epsilon_spent <= 4.0
    assert found.best.billboard_.rank == found.best.rank == 2
    assert found.best.epsilon == 4.0
    assert "fit 1" in found.statement.events[0].name
    assert max(map(len, str(found).splitlines())) <= 80
    assert "read off" in found.why
    X, y = people().rows_of(7)
    assert np.mean((found.best.predict(X, users=[7] * len(X)) - y) ** 2) < 0.5 * np.var(y)
    json.dumps(found.to_json())


def test_settings_with_fits_of_their_own_share_the_budget_and_the_winner_is_fitted_again(tmp_path: Path) -> None:
    grid = {"rank": [1, 2], "shared_mean": [True, False]}
    found = cg.tune(MODEL, grid, people(), epsilon=4.0, simulation_seed=0)
    assert {one.fit for one in found.candidates} == {1, 2}
    assert found.shares["last fit"] > 0.5
    names = {event.name.split(":")[0] for event in found.statement.events}
    assert names == {"fit 1", "fit 2", "choice", "last fit"}
    assert found.statement.epsilon_spent <= 4.0
    assert 2 * found.shares["each fit"] + found.shares["choice"] + found.shares["last fit"] == pytest.approx(1.0)
    board = cg.Billboard.load(found.best.billboard_.save(tmp_path / "board"))
    assert "best of 4 candidates" in board.statement.parameters["tuned"]
    assert found.statement.simulated


def test_one_reservation_pays_for_all_of_it_and_ends_it(tmp_path: Path) -> None:
    payer = DurableLedger(tmp_path / "ledger.db", create=True).open_population("people", Budget(3.0, 1e-6))
    users = people(400)
    found = cg.tune(MODEL, {"rank": [0, 1], "shared_mean": [True, False]}, users, 2.0, ledger=payer)
    kinds = [json.loads(body)["kind"] for body, _ in payer.events()]
    assert kinds.count("reserve") == kinds.count("settle") == kinds.count("board") == 1
    assert kinds.count("charge") == len(found.statement.events)
    assert found.statement.ledger is not None
    assert not found.statement.simulated
    account = payer.account()
    assert float(account.booked) == pytest.approx(sum(event.mu**2 for event in found.statement.events), rel=1e-6)
    with pytest.raises(BudgetError):
        cg.tune(MODEL, {"rank": [0, 1]}, users, 2.5, ledger=payer)
    assert payer.account().booked == account.booked


def test_a_search_counts_as_one_fit_and_warns_like_one() -> None:
    tally.forget()
    users = people(300)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PrivacyWarning)
        found = cg.tune(MODEL, {"rank": [0, 1]}, users, 1.0)
        assert not [one for one in told if "same people" in str(one.message)]
        cg.SingleModel(1.0).fit(users)
    said = [str(one.message) for one in told if "same people" in str(one.message)]
    assert len(said) == 1
    assert "fitted 2 times" in said[0]
    assert float(said[0].split("ε = ")[1].split()[0]) > found.statement.epsilon_spent
    tally.forget()


def test_parts_add_up_to_no_more_than_the_whole() -> None:
    whole = Budget(2.0, 1e-6)
    for n_groups in (1, 2, 7):
        for refit in (True, False):
            shares = Shares.of(n_groups, refit)
            mus = [part_of(whole, shares.each).mu] * n_groups + [part_of(whole, shares.choice).mu]
            mus += [part_of(whole, shares.last).mu] if refit else []
            assert 0.9999 * whole.mu < math.sqrt(sum(mu**2 for mu in mus)) <= whole.mu


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ({"epsilon": [1.0, 2.0]}, "comparing values of ε"),
        ({"delta": [1e-5, 1e-6]}, "cannot be searched"),
        ({"simulation_seed": [1, 2]}, "best of several noises"),
        ({"budgets": [None, 1.0]}, "hers to say"),
        ({"colour": [1, 2]}, "has no parameter 'colour'"),
        ({"rank": [1]}, "1 candidates"),
        ({"rank": 1}, "grid must map"),
        ({"rank": []}, "grid must map"),
        ({"rank": "12"}, "grid must map"),
        ({1: [0, 1]}, "grid must map"),
        (7, "grid must map"),
    ],
)
def test_what_must_not_be_searched_for_is_refused(grid: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        cg.tune(MODEL, grid, people(50), 1.0)


@pytest.mark.parametrize(
    "grid", [{"rank": [2, 1], "fit_intercept": (True, False)}, [{"rank": [1, 2]}, {"n_rounds": [3]}, {}]]
)
def test_candidates_come_in_scikit_learns_order(grid: Any) -> None:
    assert candidates_in(MODEL, grid) == list(ParameterGrid(grid))


def test_whom_it_cannot_be_run_on_is_said() -> None:
    users = people(50)
    with pytest.raises(InputError, match="declare ε and δ"):
        cg.tune(cg.OwnDataOnly(), {"user": [None, 0]}, users, 1.0)
    with pytest.raises(InputError, match="Users object"):
        cg.tune(MODEL, {"rank": [0, 1]}, np.zeros((3, 2)), 1.0)
    with pytest.raises(InputError, match="budgets of their own"):
        cg.tune(cg.PrivateFedRep(budgets=1.0), {"rank": [0, 1]}, users, 1.0)
    block = next(users.blocks())
    with pytest.raises(InputError, match="two rows"):
        cg.tune(MODEL, {"rank": [0, 1]}, cg.Users.from_arrays(block.X[:20], block.y[:20], np.arange(20)), 1.0)


@pytest.mark.parametrize("way", ["split", "repeat"])
def test_every_estimator_that_may_be_tuned_is(way: str) -> None:
    """One without heads to keep, too; one that trains across owners is refused before anything is booked."""
    found = cg.tune(cg.SingleModel(), {"fit_intercept": [True, False]}, people(200), 4.0, way=way, simulation_seed=1)
    assert found.best.billboard_.statement.epsilon == 4.0
    with pytest.raises(InputError, match="SingleModel do"):
        cg.tune(cg.JointSGDRegressor(), {"steps": [10, 20]}, people(50), 1.0)


def test_warnings_do_not_tell_how_often_it_was_repeated() -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        cg.tune(MODEL, {"n_rounds": [1, 2]}, people(100), 4.0, delta=0.02, way="repeat", simulation_seed=1)
    assert sum("larger than 1/" in str(one.message) for one in given) == 1


# ---- repeat-and-select ------------------------------------------------------------------------------------------------------


def test_the_best_of_repetitions_is_one_event_and_tells_nothing_of_the_others(tmp_path: Path) -> None:
    users, grid = people(400), {"n_rounds": [1, 2], "shared_mean": [True, False], "rank": [0, 1]}
    found = cg.tune(MODEL, grid, users, 4.0, way="repeat", simulation_seed=1)
    assert found.way == "repeat-and-select"
    (event,) = found.statement.events
    assert event.kind == "repeat-and-select"
    assert 3.9 < found.statement.epsilon_spent <= 4.0
    told = [one for one in found.candidates if not math.isnan(one.score)]
    assert {one.fit for one in told} == {told[0].fit}, "of one repetition alone"
    assert len(told) == 2
    assert found.best_settings in [dict(one.settings) for one in told]
    assert "not published" in str(found)
    assert max(map(len, str(found).splitlines())) <= 80
    board = cg.Billboard.load(found.best.billboard_.save(tmp_path / "board"))
    assert board.statement.epsilon_spent == found.statement.epsilon_spent
    assert "best of a random number of fits" in str(board.statement)
    json.dumps(found.to_json(), allow_nan=False)
    assert found.best.heads_ is not None


def test_repetitions_stay_within_their_own_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that one of them charges to its own book, together."""
    books: list[InMemoryLedger] = []

    def opened(budget: Budget) -> InMemoryLedger:
        books.append(InMemoryLedger(budget))
        return books[-1]

    monkeypatch.setattr(repeat, "InMemoryLedger", opened)
    grid = {"n_rounds": [1, 2], "shared_mean": [True, False]}
    found = cg.tune(MODEL, grid, people(200), 4.0, way="repeat", simulation_seed=3)
    mu = found.statement.events[0].mu
    assert books
    for book in books:
        spent = math.sqrt(sum(event.mu**2 for event in book.events))
        assert 0.99 * mu < spent <= mu


def test_the_way_is_chosen_by_public_numbers_and_a_ledger_pays_for_split_only(tmp_path: Path) -> None:
    budget = Budget(2.0, 1e-6)
    assert not is_repeated("auto", budget, 16, Shares.of(16, True), possible=True)
    assert is_repeated("auto", budget, 60, Shares.of(60, True), possible=True)
    assert not is_repeated("auto", budget, 60, Shares.of(60, True), possible=False)
    payer = DurableLedger(tmp_path / "ledger.db", create=True).open_population("people", budget)
    with pytest.raises(InputError, match="durable ledger"):
        cg.tune(MODEL, {"rank": [0, 1]}, people(50), 1.0, way="repeat", ledger=payer)
    with pytest.raises(InputError, match="way must be"):
        cg.tune(MODEL, {"rank": [0, 1]}, people(50), 1.0, way="guess")


def test_own_means_are_a_reference_that_she_makes_alone() -> None:
    ids = np.repeat(np.arange(3), [6, 1, 2])
    y = np.array([1.0, 10.0, 2.0, 3.0, 4.0, 5.0, 7.0, 1.0, 2.0])
    users = cg.Users.from_arrays(np.ones((9, 2)) + y[:, None], y, ids)
    split = hold_out(users, 5)
    board = cg.SingleModel(1.0, simulation_seed=0).fit(users).billboard_
    np.testing.assert_allclose(repeat._reference(board, split), [(10.0 - 3.0) ** 2, 0.0, 1.0])


# ---- what is free ----------------------------------------------------------------------------------------------------------


def test_ranks_share_a_fit_where_the_spectrum_tells_and_not_elsewhere() -> None:
    grid = {"rank": [1, 2, 3], "shared_mean": [True, False]}
    assert [group.settings["rank"] for group in groups_of(MODEL, candidates_in(MODEL, grid))] == [3, 3]
    paper = cg.PrivateFedRep(recipe="paper")
    assert len(groups_of(paper, candidates_in(paper, grid))) == 6
    altmin = cg.PrivateAltMin()
    assert len(groups_of(altmin, candidates_in(altmin, {"rank": [1, 2, 3]}))) == 3


def test_a_lower_rank_keeps_the_directions_of_largest_spread() -> None:
    board = cg.PrivateFedRep(3, 8.0, n_rounds=3, simulation_seed=0).fit(people()).billboard_
    assert at_rank(board, 3) is board
    two, none = at_rank(board, 2), at_rank(board, 0)
    np.testing.assert_allclose(two.embedding.T @ two.embedding, np.eye(2), atol=1e-12)
    assert two.spread.shape == (3, 3)
    assert none.spread.shape == (1, 1)
    assert none.spread[0, 0] == pytest.approx(board.spread[0, 0])
    own = np.linalg.eigvalsh(board.spread[1:, 1:])
    np.testing.assert_allclose(np.linalg.eigvalsh(two.spread[1:, 1:]), own[1:], atol=1e-12)
    assert two.statement.parameters["rank"] == 2
    whole = board.embedding @ board.spread[1:, 1:] @ board.embedding.T
    part = two.embedding @ two.spread[1:, 1:] @ two.embedding.T
    assert np.linalg.norm(whole - part, 2) == pytest.approx(own[0], rel=1e-6)


# ---- what one person can change --------------------------------------------------------------------------------------------


class Watching(Gate):
    """Gives out the histogram of the first population, so that all clip alike, and keeps what it was asked for."""

    def release(self, private: Any, mu: float) -> Release:
        self.asked.append(private)  # type: ignore[attr-defined]
        if len(self.asked) == 1 and self.first is not None:  # type: ignore[attr-defined]
            return self.first  # type: ignore[attr-defined, no-any-return]
        return super().release(private, mu)


def watched(errors: np.ndarray, first: Release | None) -> tuple[list[BoundedSum], Release]:
    gate = Watching(InMemoryLedger(Budget(50.0, 1e-6)), randomness_from(0))
    object.__setattr__(gate, "asked", [])
    object.__setattr__(gate, "first", first)
    release_scores(errors, "rmse", gate, 1.0)
    asked = gate.asked  # type: ignore[attr-defined]
    return asked, first or Gate(InMemoryLedger(Budget(50.0, 1e-6)), randomness_from(0)).release(
        asked[0], 1.0 * 0.2**0.5
    )


def test_nobodys_errors_move_scores_by_more_than_is_said() -> None:
    rng = np.random.default_rng(0)
    rest = rng.random((60, 4)) * [1.0, 1.0, 2.0, 0.5]
    (sizes, differences), first = watched(np.vstack([rest, rng.random((1, 4))]), None)
    strange = [math.nan, math.inf, -math.inf, 0.0, 5e-324, 1e-200, 1e200, 1.7e308, -1.7e308, 1.0]
    reached = 0.0
    for _ in range(400):
        own = rng.choice(strange, (1, 4)) if rng.random() < 0.7 else 10.0 ** rng.uniform(-300, 300, (1, 4))
        (other_sizes, other), _ = watched(np.vstack([rest, own]), first)
        assert np.linalg.norm(other_sizes.value - sizes.value) <= sizes.sensitivity
        moved = float(np.linalg.norm(other.value - differences.value))
        assert moved <= differences.sensitivity == other.sensitivity
        reached = max(reached, moved / differences.sensitivity)
    assert reached > 0.4


def test_what_she_holds_out_depends_on_nobody_else_and_others_errors_keep_every_bit() -> None:
    users = people(30, d=4)
    board = cg.PrivateFedRep(1, 8.0, n_rounds=2, simulation_seed=0).fit(users).billboard_
    block = next(users.blocks())
    ids = np.repeat(np.arange(30), np.diff(block.offsets))
    reference: np.ndarray | None = None
    for rows, labels in strange_people(4).values():
        if not (np.isfinite(rows).all() and np.isfinite(labels).all()):
            continue
        others = ids != 3
        first, last = ids < 3, ids > 3
        neighbour = cg.Users.from_arrays(
            np.concatenate([block.X[first], rows, block.X[last]]),
            np.concatenate([block.y[first], labels, block.y[last]]),
            np.concatenate([ids[first], np.full(len(labels), 3), ids[last]]),
        )
        split = hold_out(neighbour, 5)
        assert split.seen.n_users == 30
        errors, _ = own_errors([board, at_rank(board, 0)], split)
        kept = np.delete(errors, 3, axis=0)
        reference = kept if reference is None else reference
        np.testing.assert_array_equal(kept, reference)
        assert others.sum() == 290


def test_a_fifth_is_held_out_and_who_has_one_row_keeps_it() -> None:
    sizes = [1, 2, 6, 7, 11]
    ids = np.repeat(np.arange(5), sizes)
    users = cg.Users.from_arrays(np.arange(len(ids))[:, None] + np.zeros(2), np.arange(len(ids)), ids)
    split = hold_out(users, 5)
    assert [len(split.asked.rows_of(p)[1]) for p in range(1, 5)] == [1, 1, 2, 2]
    assert [len(split.seen.rows_of(p)[1]) for p in range(5)] == [1, 1, 5, 5, 9]
    assert "private" in repr(split)
