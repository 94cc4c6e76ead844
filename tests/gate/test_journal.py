"""A journal keeps what was released, and a gate with one gives it out again: to the same release, paid once."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.clipping.bounded import BoundedScores, BoundedSum
from commonground.errors import CheckpointError
from commonground.gate import randomness_from
from commonground.gate.journal import Entry, Journal
from commonground.gate.journalled import JournalledGate
from commonground.ledger import InMemoryLedger

FIT = {"estimator": "SingleModel", "people": 10}


def event(name: str = "z", entries: int = 3) -> GaussianEvent:
    return GaussianEvent(name, 0.1, 1.0, 10.1, entries, False)


def written(path: Path, releases: int = 3) -> list[np.ndarray]:
    journal = Journal(path)
    journal.begin(FIT)
    journal.pay_from("customers", "abc")
    values = [np.random.default_rng(i).standard_normal(3) for i in range(releases)]
    for i, value in enumerate(values):
        journal.write(Entry(event(f"release {i}"), value, True, None))
    journal.close()
    return values


def gate_on(path: Path, seed: int | None = 1, budget: float = 50.0) -> JournalledGate:
    journal, book = Journal(path), InMemoryLedger(Budget(budget, 1e-6))
    journal.begin(FIT)
    return JournalledGate(book, randomness_from(seed), journal=journal, book=book)


def pass_all(gate: JournalledGate, upto: int = 4, shift: float = 0.0) -> list[Any]:
    verbs = [
        lambda: gate.release(BoundedSum(np.arange(6.0).reshape(2, 3) + shift, 1.0, "sum"), 0.3).value,
        lambda: gate.select(BoundedScores(np.array([5, 1, 9]) * 2**20, 3, "choice"), 0.2).index,
        lambda: gate.perturb(BoundedSum(np.ones(4) + shift, 2.0, "vector"), 0.5).value,
        lambda: gate.release(BoundedSum(np.ones(2) + shift, 1.0, "last"), 0.3).value,
    ]
    return [verb() for verb in verbs[:upto]]


def test_what_was_written_is_read_to_the_last_bit_and_is_its_owners_alone(tmp_path: Path) -> None:
    values = written(tmp_path / "j")
    assert stat.S_IMODE(os.stat(tmp_path / "j").st_mode) == 0o600
    again = Journal(tmp_path / "j")
    assert again.description == FIT
    assert again.payer == ("customers", "abc")
    assert [entry.event for entry in again.entries] == [event(f"release {i}") for i in range(3)]
    assert all(np.array_equal(entry.value, value) for entry, value in zip(again.entries, values, strict=True))


def test_cut_off_anywhere_it_has_all_whole_records_and_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    for cut in range(0, len(whole), 7):
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        journal = Journal(path)
        kept, size = len(journal.entries), path.stat().st_size
        assert whole.startswith(path.read_bytes())
        assert size <= cut
        journal.begin(FIT)
        journal.write(Entry(event("new"), np.zeros(3), True, None))
        journal.close()
        again = Journal(path)
        assert [entry.event.name for entry in again.entries] == [*(f"release {i}" for i in range(kept)), "new"]
        again.close()
        path.unlink()


def test_damage_before_the_end_is_an_error_and_nobody_elses_file_is_touched(tmp_path: Path) -> None:
    written(tmp_path / "j")
    sound = (tmp_path / "j").read_bytes()
    for at in range(0, int(len(sound) * 0.6), 11):
        changed = bytearray(sound)
        changed[at] ^= 1
        (tmp_path / "j").write_bytes(changed)
        with pytest.raises(CheckpointError, match="not a checkpoint, or it is damaged"):
            Journal(tmp_path / "j")
        assert (tmp_path / "j").read_bytes() == changed
    for other in (b"my,notes", b"user_id,y\n1,2\n", b"x" * 9000):
        (tmp_path / "other").write_bytes(other)
        with pytest.raises(CheckpointError, match="not a checkpoint"):
            Journal(tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == other
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(CheckpointError, match="cannot be written"):
        Journal(tmp_path / "link")


def test_one_process_at_a_time_and_one_fit(tmp_path: Path) -> None:
    written(tmp_path / "j")
    first = Journal(tmp_path / "j")
    with pytest.raises(CheckpointError, match="another process is using"):
        Journal(tmp_path / "j")
    with pytest.raises(CheckpointError, match=r"people: 10 there, 11 here.*ledger settle LEDGER abc"):
        first.begin({**FIT, "people": 11})
    first.close()
    Journal(tmp_path / "j").remove()
    assert not (tmp_path / "j").exists()


@pytest.mark.parametrize("done", range(5))
def test_an_interrupted_fit_comes_to_the_same_end_and_pays_once(tmp_path: Path, done: int) -> None:
    whole = pass_all(gate_on(tmp_path / "whole"))
    interrupted = gate_on(tmp_path / "j")
    pass_all(interrupted, done)
    interrupted.journal.close()
    gate = gate_on(tmp_path / "j")
    again = pass_all(gate)
    assert all(np.array_equal(a, b) for a, b in zip(whole, again, strict=True))
    assert len(gate.events) == len(gate.ledger.events) == len(gate.journal.entries) == 4  # type: ignore[attr-defined]


def test_recorded_values_are_given_out_whatever_the_rows_are_now_and_nothing_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = gate_on(tmp_path / "j", seed=None)
    values = pass_all(first, 3)
    first.journal.close()
    for draw in ("add_gaussian_noise", "add_l2_laplace_noise", "choose_smallest"):
        for verb in ("release", "perturb", "select"):
            monkeypatch.setattr(
                f"commonground.gate.{verb}.{draw}", lambda *_: pytest.fail("noise was drawn"), raising=False
            )
    again = pass_all(gate_on(tmp_path / "j", seed=None), 3, shift=7.0)
    assert all(np.array_equal(a, b) for a, b in zip(values, again, strict=True))


@pytest.mark.parametrize(
    ("name", "sensitivity", "mu", "entries"),
    [("other", 1.0, 0.3, 6), ("sum", 2.0, 0.3, 6), ("sum", 1.0, 0.2, 6), ("sum", 1.0, 0.3, 5)],
)
def test_a_value_is_not_given_out_for_another_release(
    tmp_path: Path, name: str, sensitivity: float, mu: float, entries: int
) -> None:
    first = gate_on(tmp_path / "j")
    pass_all(first, 1)
    first.journal.close()
    gate = gate_on(tmp_path / "j")
    with pytest.raises(CheckpointError, match="does not belong to this fit"):
        gate.release(BoundedSum(np.zeros(entries), sensitivity, name), mu)
    assert not gate.ledger.events  # type: ignore[attr-defined]


def test_the_value_is_on_the_disk_before_it_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, synced = gate_on(tmp_path / "j"), []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_size))
    (value,) = pass_all(gate, 1)
    assert synced == [(tmp_path / "j").stat().st_size]
    gate.journal.close()
    assert np.array_equal(Journal(tmp_path / "j").entries[0].value, value)


def test_a_full_disk_ends_the_fit_and_leaves_a_sound_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_on(tmp_path / "j")
    pass_all(gate, 1)
    real = os.write

    def full(handle: int, octets: Any) -> int:
        if len(octets) < 60:
            raise OSError(28, "No space left on device")
        return real(handle, bytes(octets)[:50])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*run the same again"):
        gate.select(BoundedScores(np.array([5, 1, 9]) * 2**20, 3, "choice"), 0.2)
    monkeypatch.setattr(os, "write", real)
    gate.journal.close()
    assert [entry.event.name for entry in Journal(tmp_path / "j").entries] == ["sum"]


def test_who_was_drawn_is_not_written_down(tmp_path: Path) -> None:
    gate = gate_on(tmp_path / "j", seed=None)
    before = (tmp_path / "j").stat().st_size
    gate.sample(np.full(50, 0.5))
    assert (tmp_path / "j").stat().st_size == before
    pass_all(gate, 1)
    lines = [json.loads(line[65:]) for line in (tmp_path / "j").read_bytes().split(b"\n")[:1]]
    assert lines[0]["kind"] == "fit"
