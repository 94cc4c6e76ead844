"""A fit that a ledger pays for, interrupted and resumed: every release is charged once, and only one process goes on."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import commonground as cg
import resume_kills
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.billboard.in_ledger import problem_with
from commonground.errors import BudgetError, CheckpointError, LedgerError
from commonground.estimators.altmin.paper import AltMinSettings
from commonground.gate.journal import Journal
from commonground.gate.journalled import JournalledGate
from commonground.ledger import DurableLedger, Population
from commonground.ledger.releases import as_charged
from commonground.ledger.resumed import resume

RNG = np.random.default_rng(0)
USERS = cg.Users.from_arrays(RNG.standard_normal((400, 3)), RNG.standard_normal(400), np.repeat(np.arange(100), 4))
BUDGET = Budget(1.0, 1e-6)


@pytest.fixture
def people(address: str) -> Population:
    """With a budget for exactly one fit."""
    return DurableLedger(address, create=True).open_population("p", BUDGET)


class PlugError(Exception):
    """Somebody has pulled it."""


def fit(people: Population, file: Path) -> Any:
    return cg.SingleModel(1.0, fit_intercept=False).fit(USERS, ledger=people, checkpoint=file).billboard_


def interrupted(people: Population, file: Path, releases: int, monkeypatch: pytest.MonkeyPatch, written: bool) -> None:
    """After so many releases; the last one's value is in the journal or not."""
    keep, handed = JournalledGate._keep, [0]

    def keeps(self: JournalledGate, *what: Any) -> None:
        handed[0] += 1
        if handed[0] < releases or written:
            keep(self, *what)
        if handed[0] == releases:
            raise PlugError

    with monkeypatch.context() as patch:
        patch.setattr(JournalledGate, "_keep", keeps)
        with pytest.raises(PlugError):
            fit(people, file)


def of_kind(people: Population, kind: str) -> list[dict[str, Any]]:
    return [event for event in (json.loads(body) for body, _ in people.events()) if event["kind"] == kind]


@pytest.mark.parametrize("written", [True, False], ids=["its value written", "its value lost"])
def test_a_resumed_fit_finishes_within_its_own_reservation(
    people: Population, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    for releases in (2, 3):  # twice in a row
        interrupted(people, tmp_path / "j", releases, monkeypatch, written)
        assert len(people.account().open) == 1
    board = fit(people, tmp_path / "j")
    assert not people.account().open
    assert [e["event"] for e in of_kind(people, "charge")] == [as_charged(e) for e in board.statement.events]
    assert len(of_kind(people, "reserve")) == len(of_kind(people, "settle")) == 1
    assert len(of_kind(people, "claim")) == 2
    board.save(tmp_path / "board")
    assert problem_with(tmp_path / "board", DurableLedger(address)) is None
    with pytest.raises(BudgetError, match=r"has ε = .* left"):
        fit(people, tmp_path / "j")


def test_groups_that_are_paid_for_by_the_first_are_so_after_an_interruption(
    people: Population, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1's disjoint groups: more releases than charges, and the journal knows which are which."""
    model = cg.PrivateAltMin(1, 1.0, recipe="paper", paper_settings=AltMinSettings(n_rounds=3, schedule="groups"))
    keep, handed = JournalledGate._keep, [0]

    def keeps(self: JournalledGate, *what: Any) -> None:
        keep(self, *what)
        handed[0] += 1
        if handed[0] == 5:
            raise PlugError

    with monkeypatch.context() as patch:
        patch.setattr(JournalledGate, "_keep", keeps)
        with pytest.raises(PlugError):
            model.fit(USERS, ledger=people, checkpoint=tmp_path / "j")
    charged = [entry.charged for entry in Journal(tmp_path / "j").entries]
    assert len(charged) == 5 > sum(charged) == len(of_kind(people, "charge"))
    board = model.fit(USERS, ledger=people, checkpoint=tmp_path / "j").billboard_
    assert [e["event"] for e in of_kind(people, "charge")] == [as_charged(e) for e in board.statement.events]


def test_a_copy_of_the_journal_cannot_go_on_beside_it(
    people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(people, tmp_path / "j", 3, monkeypatch, written=True)
    shutil.copy(tmp_path / "j", tmp_path / "copy")
    interrupted(people, tmp_path / "j", 1, monkeypatch, written=True)
    before = len(people.events())
    with pytest.raises(CheckpointError, match="resumed from another copy"):
        fit(people, tmp_path / "copy")
    assert len(people.events()) == before, "and the newer one can still go on"
    fit(people, tmp_path / "j")
    with pytest.raises(CheckpointError, match="resumed from another copy"):
        fit(people, tmp_path / "copy")


def test_a_journal_from_before_several_charges_is_refused(
    people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(people, tmp_path / "j", 2, monkeypatch, written=True)
    keep = JournalledGate._keep

    def copying(self: JournalledGate, *what: Any) -> None:
        if len(self.journal.entries) == 3:
            shutil.copy(tmp_path / "j", tmp_path / "copy")
        keep(self, *what)
        if len(self.journal.entries) == 6:
            raise PlugError

    with monkeypatch.context() as patch:
        patch.setattr(JournalledGate, "_keep", copying)
        with pytest.raises(PlugError):
            fit(people, tmp_path / "j")
    with pytest.raises(CheckpointError, match=r"has 6 releases.*checkpoint 3: one of them is an older copy"):
        fit(people, tmp_path / "copy")
    fit(people, tmp_path / "j")


@pytest.mark.parametrize("last", [False, True], ids=["on the way", "at the end"])
def test_a_process_that_was_taken_for_dead_cannot_go_on(
    people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    """It is resumed from a copy of its journal while it lives: neither a further charge nor a board of it."""
    n = len(cg.SingleModel(1.0, fit_intercept=False).fit(USERS).billboard_.statement.events)
    keep, moment = JournalledGate._keep, n if last else 3

    def resumed_elsewhere(self: JournalledGate, *what: Any) -> None:
        keep(self, *what)
        if len(self.journal.entries) == moment and self.journal.path.name == "j":
            shutil.copy(tmp_path / "j", tmp_path / "copy")
            with monkeypatch.context() as inner:
                inner.setattr(JournalledGate, "_keep", keep)
                if not last:
                    interrupted(people, tmp_path / "copy", 1, inner, written=True)
                else:
                    fit(people, tmp_path / "copy")

    with monkeypatch.context() as patch:
        patch.setattr(JournalledGate, "_keep", resumed_elsewhere)
        with pytest.raises((BudgetError, LedgerError), match=r"another process|no open"):
            fit(people, tmp_path / "j")


def test_a_board_that_was_lost_after_the_end_is_made_again(
    people: Population, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after settling and before the board was written: the journal is there, and gives the same board."""

    def killed(*_: Any) -> None:
        raise PlugError

    with monkeypatch.context() as patch:
        patch.setattr("commonground.estimators.checkpoints.Checkpoint.done", killed)
        with pytest.raises(PlugError):
            fit(people, tmp_path / "j")
    assert not people.account().open
    charged = people.account().charged
    board = fit(people, tmp_path / "j")
    assert people.account().charged == charged
    board.save(tmp_path / "board")
    assert problem_with(tmp_path / "board", DurableLedger(address)) is None
    assert not (tmp_path / "j").exists()


def test_a_fit_that_an_operator_has_given_up_is_not_resumed(
    people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(people, tmp_path / "j", 3, monkeypatch, written=False)
    (reservation,) = people.account().open
    people.settle(reservation)
    with pytest.raises(CheckpointError, match="was settled, with 3 releases charged of which 2"):
        fit(people, tmp_path / "j")


def test_a_charge_pays_for_its_own_release_only(people: Population) -> None:
    small, large = (GaussianEvent("z", mu, 1.0, 1.1 / mu, 1, False) for mu in (0.01, 0.1))
    booked = people.reserve(BUDGET)
    booked.charge(small)
    resumed = resume(people, booked.id, (), "claim", n_written=0)
    with pytest.raises(BudgetError, match="not the fit that was interrupted"):
        resumed.charge(large)
    resumed.charge(small)
    assert len(of_kind(people, "charge")) == 1
    resumed.charge(large)
    assert len(of_kind(people, "charge")) == 2


def test_a_fit_that_is_refused_leaves_no_file(people: Population, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="asks for"):
        cg.SingleModel(3.0, fit_intercept=False).fit(USERS, ledger=people, checkpoint=tmp_path / "j")
    assert not (tmp_path / "j").exists()


def test_another_ledger_is_refused(people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(people, tmp_path / "j", 3, monkeypatch, written=True)
    other = DurableLedger(tmp_path / "other.db", create=True).open_population("p", Budget(9.0, 1e-6))
    with pytest.raises(LedgerError, match="has no reservation"):
        fit(other, tmp_path / "j")
    with pytest.raises(CheckpointError, match="ledger: p there, None here"):
        cg.SingleModel(1.0, fit_intercept=False).fit(USERS, checkpoint=tmp_path / "j")
    assert not other.account().charged


def test_an_error_of_the_fit_itself_gives_back_what_is_left(
    people: Population, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(self: JournalledGate, *what: Any) -> None:
        self.journal.entries.append(what)  # type: ignore[arg-type]
        raise cg.errors.InputError("these rows cannot be used")

    with monkeypatch.context() as patch:
        patch.setattr(JournalledGate, "_keep", wrong)
        with pytest.raises(cg.errors.InputError):
            fit(people, tmp_path / "j")
    assert not people.account().open
    assert not (tmp_path / "j").exists()


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")


@pytest.mark.slow
def test_kill_at_any_time_and_resume(address: str, quiet: None) -> None:
    """A correct ledger passes wherever a kill lands: no false alarms. benchmarks/resume_kills.py, in small."""
    killed_and_resumed(address, kills=6)


def test_killed_once_and_resumed(tmp_path: Path, quiet: None) -> None:
    killed_and_resumed(str(tmp_path / "budget.db"), kills=1)


def killed_and_resumed(address: str, kills: int) -> None:
    DurableLedger(address, create=True).open_population(resume_kills.PEOPLE, Budget(1000.0, 1e-6))
    result = resume_kills.kill_and_resume(address, kills, within=0.8, seed=int.from_bytes(os.urandom(4)))
    assert result.kills == kills
    assert result.boards >= 1
    assert (result.undercounts, result.drawn_twice, result.problems) == (0, 0, [])
