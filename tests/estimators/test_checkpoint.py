"""Every estimator that spends can be interrupted anywhere and resumed: the same board, nothing paid twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.errors import CheckpointError, InputError
from commonground.gate import Gate
from commonground.gate.journalled import JournalledGate
from commonground.steps import some_people

RNG, IDS = np.random.default_rng(0), np.repeat(np.arange(120), 6)
X, Y = RNG.standard_normal((720, 5)), RNG.standard_normal(720)
USERS = cg.Users.from_arrays(X, Y, IDS)
YES_OR_NO = cg.Users.from_arrays(X, np.sign(Y), IDS)
OWN = np.where(np.arange(120) % 2, 1.0, 2.0)
BOUNDS: dict[str, Any] = {"feature_bounds": (-3.0, 3.0), "label_bounds": (-4.0, 4.0)}
FITS: dict[str, Callable[[], Any]] = {
    "default": lambda: cg.PrivateFedRep(1, 2.0, simulation_seed=1),
    "many people": lambda: cg.PrivateFedRep(
        1, 400.0, n_rounds=3, fit_intercept=False, shared_mean=False, simulation_seed=1
    ),
    "few people": lambda: cg.PrivateFedRep(1, 2.0, fit_intercept=False, shared_mean=False, simulation_seed=1),
    "paper": lambda: cg.PrivateFedRep(1, 2.0, recipe="paper", simulation_seed=1),
    "own budgets": lambda: cg.PrivateFedRep(1, budgets=OWN, simulation_seed=1),
    "classifier": lambda: cg.PrivateFedRepClassifier(1, 2.0, classes=(-1, 1), simulation_seed=1),
    "altmin": lambda: cg.PrivateAltMin(1, 2.0, simulation_seed=1),
    "altmin, paper": lambda: cg.PrivateAltMin(1, 2.0, recipe="paper", simulation_seed=1),
    "single model": lambda: cg.SingleModel(2.0, simulation_seed=1),
    "exponential": lambda: cg.ExponentialSubspace(1, 2.0, simulation_seed=1),
    "margin": lambda: cg.PrivateMarginClassifier(1, 2.0, simulation_seed=1),
    "ridge, sample": lambda: cg.PersonalBudgetRidge("sample", 1.0, **BOUNDS, budgets=OWN, simulation_seed=1),
    "ridge, statistics": lambda: cg.PersonalBudgetRidge("statistics", **BOUNDS, budgets=OWN, delta=1e-6, simulation_seed=1),
}  # fmt: skip


class PlugError(Exception):
    """Somebody has pulled it."""


def pulled_after(monkeypatch: pytest.MonkeyPatch, releases: int) -> None:
    """As the next value would be handed on, after so many were."""
    keep, handed = JournalledGate._keep, [0]

    def keeps(self: JournalledGate, *what: Any) -> None:
        if handed[0] == releases:
            raise PlugError
        keep(self, *what)
        handed[0] += 1

    monkeypatch.setattr(JournalledGate, "_keep", keeps)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_interrupted_and_resumed_twice_it_is_the_board_of_one_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, file = FITS[name], tmp_path / "fit.journal"
    users = YES_OR_NO if name in ("margin", "classifier") else USERS
    whole = fit().fit(users).billboard_
    n = len(whole.statement.events)
    for releases in sorted({1, n // 2} - {0, n}):
        with monkeypatch.context() as patch:
            pulled_after(patch, releases)
            with pytest.raises(PlugError) as plug:
                fit().fit(users, checkpoint=file)
        assert f"releases are kept in {file}" in plug.value.__notes__[0]
    board = fit().fit(users, checkpoint=str(file)).billboard_
    assert board.fingerprint == whole.fingerprint
    assert board.statement == whole.statement
    assert not file.exists()


def test_nothing_is_left_of_a_fit_that_has_released_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pulled_after(monkeypatch, 0)
    with pytest.raises(PlugError):
        cg.SingleModel(2.0).fit(USERS, checkpoint=tmp_path / "j")
    assert not (tmp_path / "j").exists()


def test_another_fit_is_refused_and_the_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "j"
    with monkeypatch.context() as patch:
        pulled_after(patch, 2)
        with pytest.raises(PlugError):
            cg.PrivateFedRep(1, 2.0, simulation_seed=1).fit(USERS, checkpoint=file)
    before = file.read_bytes()
    others = [
        (cg.PrivateFedRep(2, 2.0, simulation_seed=1), USERS, "rank: 1 there, 2 here"),
        (cg.PrivateFedRep(1, 1.0, simulation_seed=1), USERS, "epsilon"),
        (cg.PrivateFedRep(1, 2.0, simulation_seed=2), USERS, "simulation_seed"),
        (cg.PrivateFedRep(1, 2.0), USERS, "simulation_seed"),
        (cg.SingleModel(2.0, simulation_seed=1), USERS, "estimator"),
        (cg.PrivateFedRep(1, 2.0, simulation_seed=1), cg.datasets.make_shared_subspace(119, 6, 5, 1)[0], "people"),
        (cg.PrivateFedRep(1, 2.0, budgets=OWN, simulation_seed=1), USERS, "their own budgets"),
    ]
    for model, users, why in others:
        with pytest.raises(CheckpointError, match=f"another fit.*{why}"):
            model.fit(users, checkpoint=file)
        assert file.read_bytes() == before
    other_ids = cg.Users.from_arrays(X, Y, IDS + 1)
    with pytest.raises(CheckpointError, match="who they are"):
        cg.PrivateFedRep(1, 2.0, simulation_seed=1).fit(other_ids, checkpoint=file)


def test_a_fit_by_another_schema_is_another_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values were released of labels in another unit."""

    def people(highest: float) -> cg.Users:
        label = cg.Column("y", "label", range=(-highest, highest))
        schema = cg.Schema((cg.Column("who", "person"), label, *map(cg.Column, "abcde")))
        return cg.Users.from_arrays(X, Y, IDS, schema=schema)

    model, file = cg.PrivateFedRep(1, 2.0, simulation_seed=1), tmp_path / "j"
    with monkeypatch.context() as patch:
        pulled_after(patch, 2)
        with pytest.raises(PlugError):
            model.fit(people(4.0), checkpoint=file)
    with pytest.raises(CheckpointError, match=r"another fit.*schema"):
        model.fit(people(4000.0), checkpoint=file)
    model.fit(people(4.0), checkpoint=file)
    assert not file.exists()


def test_rows_may_have_changed_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an intercept: which releases find a level follows from releases."""
    old, new = (cg.Users.from_arrays(X, factor * Y, IDS) for factor in (1.0, -3.0))
    with monkeypatch.context() as patch:
        pulled_after(patch, 4)
        with pytest.raises(PlugError):
            cg.SingleModel(2.0, fit_intercept=False).fit(old, checkpoint=tmp_path / "j")
    statement = cg.SingleModel(2.0, fit_intercept=False).fit(new, checkpoint=tmp_path / "j").billboard_.statement
    assert statement.epsilon_spent <= 2.0
    assert [e.name for e in statement.events] == [
        e.name for e in cg.SingleModel(2.0, fit_intercept=False).fit(new).billboard_.statement.events
    ]


def test_values_of_categories_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"user_id": np.repeat(np.arange(400), 3), "x": rng.standard_normal(1200)})
    frame = rows.assign(town=rng.choice(["Oslo", "Rome"], 1200), y=rng.standard_normal(1200))
    columns = (
        cg.Column("user_id", "person"),
        cg.Column("y", "label", range=(-5, 5)),
        cg.Column("x", range=(-4, 4)),
        cg.Column("town", kind="category", values="discover"),
    )
    schema = cg.Schema(columns)

    def fit(**how: Any) -> Any:
        return cg.SingleModel(4.0, simulation_seed=1).fit(cg.Users.from_table(frame, schema=schema), **how).billboard_

    whole = fit()
    with monkeypatch.context() as patch:
        pulled_after(patch, 2)
        with pytest.raises(PlugError):
            fit(checkpoint=tmp_path / "j")
    assert fit(checkpoint=tmp_path / "j").fingerprint == whole.fingerprint


def test_who_has_nothing_to_keep_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="releases nothing that a checkpoint could keep"):
        cg.OwnDataOnly().fit(USERS, checkpoint=tmp_path / "j")
    with pytest.raises(InputError, match="gate= is for audits"):
        cg.SingleModel(2.0).fit(USERS, checkpoint=tmp_path / "j", gate=lambda ledger, randomness: None)  # type: ignore[arg-type, return-value]
    assert not (tmp_path / "j").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_fit_that_looked_at_a_part_goes_on_with_another_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real noise: who took part is written down nowhere, and the releases that are asked for are the same all the same."""
    for name, value in (("ENOUGH_PEOPLE", 40), ("ENOUGH_SEEN", 1.0), ("SEEN_OF_MOMENTS", 0.0)):
        monkeypatch.setattr(some_people, name, value)
    model, file = cg.PrivateFedRep(1, 20.0, n_rounds=2, delta=1e-6), tmp_path / "fit.journal"
    with monkeypatch.context() as patch:
        pulled_after(patch, 9)
        with pytest.raises(PlugError):
            model.fit(USERS, checkpoint=file)
    drawn: list[np.ndarray] = []
    part = Gate.part
    monkeypatch.setattr(Gate, "part", lambda self, n, size: drawn.append(part(self, n, size)) or drawn[-1])
    events = model.fit(USERS, checkpoint=file).billboard_.statement.events
    assert [chosen.sum() for chosen in drawn] == [40]
    assert sum(event.mu**2 for event in events) == pytest.approx(Budget(20.0, 1e-6).mu ** 2, rel=1e-6)
