"""The experiments of benchmarks/personal_ledger.py in small: kill -9 at any time, and nobody's account says too little."""

import os
from pathlib import Path

import numpy as np
import pytest

from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.ledger import DurableLedger
from commonground.ledger.personal import PersonalPopulation
from personal_ledger import die_once, kill_trainers, nobody_above_her_own, open_accounts, release_forever


@pytest.mark.parametrize("stage", ["reserving", "charging", "drawing noise", "settling"])
def test_a_trainer_that_dies_at_a_stage(stage: str, tmp_path: Path) -> None:
    address = str(tmp_path / "b.db")
    open_accounts(address)
    killed = die_once(address, stage)
    people = DurableLedger(address).population("people")
    assert isinstance(people, PersonalPopulation)
    killed.compare(people)
    assert (killed.undercounts, killed.overdrawn) == (0, 0)
    assert len(people.account().open) == (stage != "reserving")
    if stage == "settling":
        assert killed.releases == 4
        killed.owed = [2 * owed for owed in killed.owed]  # and the comparison would notice
        killed.compare(people)
        assert killed.undercounts > 100


def test_trainers_killed_at_any_time(address: str) -> None:
    open_accounts(address)
    killed = kill_trainers(address, release_forever, kills=2, within=0.4, seed=int.from_bytes(os.urandom(4)))
    assert (killed.kills, killed.undercounts, killed.overdrawn) == (2, 0, 0)


def test_the_exact_check_of_all_agrees_and_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("commonground.ledger.new_people.PEOPLE_IN_PIECE", 64)
    ids, own = np.arange(150), np.round(np.linspace(0.1, 2.0, 150), 3)
    book = DurableLedger(tmp_path / "b.db", create=True)
    people = book.open_population("all", Budget(2.0, 1e-6), people=ids, epsilons=own)
    assert isinstance(people, PersonalPopulation)
    for _ in range(4):
        with people.reserve_each(ids, 0.9, 1e-6, 1e-9) as fit:
            mu = fit.budgets.largest.mu * 0.999
            fit.charge(GaussianEvent("numbers", mu, 1.0, 1.000001 / mu, 10, False))
    result = nobody_above_her_own(people, ids, own)
    assert [value for what, value in result.items() if what.startswith(("people", "accounts", "distinct"))] == [0, 0, 0]
    assert nobody_above_her_own(people, ids, own / 2)["distinct ε whose limit allows more"] == 150
