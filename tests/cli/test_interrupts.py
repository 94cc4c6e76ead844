"""Signals to a real process that trains on a durable ledger: one line, 130 or 143, nothing left booked, no board half-written."""

import contextlib
import json
import logging
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import commonground as cg
from commonground import interrupts
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.cli.ledger import _settle_own
from commonground.gate.journal import Entry, Journal
from commonground.interrupts import Interrupts, before_the_end
from commonground.ledger import DurableLedger

START = "import sys; from commonground.cli import main; sys.argv[0] = 'commonground'; main()"
# Moments: so many events of the ledger after the command began, and seconds more.
MOMENTS = [(1, 0.0), (2, 0.0), (5, 0.05), (40, 0.013)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Large enough for kernels to be at work most of the time."""
    rng = np.random.default_rng(0)
    people, rows, d = 4000, 8, 12
    frame = pd.DataFrame(rng.standard_normal((people * rows, d)), columns=[f"x{a}" for a in range(d)])
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    few = cg.Users.from_arrays(np.eye(12), np.ones(12), np.repeat(np.arange(4), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cg.PrivateFedRep(rank=1, epsilon=1.0, delta=1e-6).fit(few)  # compiles here: what is interrupted is to be work
    frame.assign(user_id=np.repeat(np.arange(people), rows), y=rng.standard_normal(people * rows)).to_parquet(path)
    return path


@pytest.mark.parametrize(
    ("number", "moments"),
    [
        pytest.param(signal.SIGINT, MOMENTS[1::2], id="Ctrl-C"),
        pytest.param(signal.SIGTERM, MOMENTS[2:3], id="SIGTERM"),
        pytest.param(signal.SIGINT, MOMENTS[::2], id="Ctrl-C at other moments", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, MOMENTS, id="SIGTERM at all moments", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_training_says_so_and_gives_back_what_it_did_not_spend(
    number: signal.Signals, moments: list[tuple[int, float]], table: Path, tmp_path: Path
) -> None:
    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(1000.0, 1e-6))
    paid = [
        "--ledger",
        str(tmp_path / "l.db"),
        "--population",
        "p",
        "--epsilon",
        "1",
        "--rounds",
        "1000",
        "--no-checkpoint",
    ]
    for events, seconds in moments:
        before, charged = len(people.events()), people.account().charged
        command = [sys.executable, "-c", START, "train", str(table), "--out", str(tmp_path / "board"), *paid, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while len(people.events()) < before + events and process.poll() is None:
            time.sleep(0.02)
        time.sleep(seconds)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 128 + number, err
        assert err.splitlines() == [f"interrupted: by {number.name}, before there was a result."]
        assert out == ""
        assert not people.account().open, "the reservation is settled"
        assert events < 3 or people.account().charged > charged, "what was charged stays charged"
        assert not (tmp_path / "board").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_training_goes_on_with_the_same_command(
    number: signal.Signals, table: Path, tmp_path: Path
) -> None:
    """The budget is enough for one training."""
    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(1.0, 1e-6))
    paid = ["--ledger", str(tmp_path / "l.db"), "--population", "p", "--epsilon", "1"]
    board, kept = tmp_path / "board", tmp_path / "board.checkpoint"
    command = [sys.executable, "-c", START, "train", str(table), "--out", str(board), *paid, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(people.events()) < 12 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    (reservation,) = people.account().open
    said, releases, so_far = err.splitlines(), people.account().open[reservation].charges, people.account().charged
    assert len(said) == 1
    assert re.match(
        rf"interrupted: by {number.name}, before there was a result. \d+ releases are kept in {re.escape(str(kept))}: the same "
        rf"again goes on from there. Reservation {reservation} of population 'p' stays booked for it; to give back what is left "
        rf"of that: commonground ledger settle LEDGER {reservation} --population p$",
        said[0],
    )
    assert out == ""
    assert not board.exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert f"Going on from {kept}: " in again.stderr
    events = json.loads(again.stdout)["events"]
    account = people.account()
    assert not account.open
    assert not kept.exists()
    assert account.charged > so_far
    assert sum(json.loads(body)["kind"] == "charge" for body, _ in people.events()) == len(events) > releases


def test_compiled_code_that_turns_an_interruption_into_another_error_is_understood(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from commonground.cli import app as cli

    def kernel() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as pressed:
            raise SystemError("a result with an exception set") from pressed

    monkeypatch.setattr(cli, "app", kernel)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130
    assert capsys.readouterr().err.strip() == "interrupted: by SIGINT, before there was a result."
    monkeypatch.setattr(cli, "app", lambda: (_ for _ in ()).throw(SystemError("a bug")))
    with pytest.raises(SystemError, match="a bug"):
        cli.main()


def test_what_was_interrupted_lets_go_of_its_locks_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interruption between entering a ``with`` block and its first line: nobody else would leave the block."""
    from commonground.cli import app as cli

    held, seen = [True], list[bool]()

    @contextlib.contextmanager
    def lock() -> Iterator[None]:
        try:
            yield
        finally:
            held[0] = False

    def interrupted() -> None:
        manager = lock()
        manager.__enter__()
        before_the_end(lambda: seen.append(held[0]))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130
    assert seen == [False]


def test_a_reservation_that_was_not_settled_on_the_way_is_settled_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may come just when budget was booked, or while it is given back. Another process's booking is left alone."""
    from commonground.cli import app as cli
    from commonground.ledger import Reservation

    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(10.0, 1e-6))
    other = people.reserve(Budget(1.0, 1e-6), "somebody else's, of a process with the same number")
    monkeypatch.setattr(Reservation, "__exit__", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(
        "user_id,a,b,c,y\n" + "".join(f"{i // 2},{i % 3},{i % 5},{i % 7},{i % 4}\n" for i in range(40))
    )
    paid = ["--ledger", "l.db", "--population", "p", "--rounds", "1", "--no-checkpoint"]
    monkeypatch.setattr("sys.argv", ["commonground", "train", "t.csv", "--out", "b", "--json", *paid])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    assert list(people.account().open) == [other.id]


def test_what_a_journal_goes_on_with_is_not_settled(tmp_path: Path) -> None:
    people = DurableLedger(tmp_path / "l.db", create=True).open_population("p", Budget(10.0, 1e-6))
    to_go_on, other = people.reserve(Budget(1.0, 1e-6)), people.reserve(Budget(1.0, 1e-6))
    journal = Journal(tmp_path / "j")
    journal.begin({})
    journal.pay_from("p", to_go_on.id)
    journal.write(Entry(GaussianEvent("z", 0.1, 1.0, 11.0, 1, False), np.zeros(1), True, None))
    _settle_own(people, set(), journal)
    assert list(people.account().open) == [to_go_on.id] != [other.id]


def test_what_is_done_before_the_end_is_not_interrupted() -> None:
    done = []
    before_the_end(lambda: done.append(signal.raise_signal(signal.SIGTERM)))
    handler = signal.getsignal(signal.SIGTERM)
    with Interrupts() as both:
        both.finish()
    assert done == [None]
    assert both.signal is signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is handler
    assert not interrupts._to_do


def test_a_connection_whose_closing_is_interrupted_has_nothing_to_add() -> None:
    """SQLAlchemy would log the interruption with its traceback."""
    pool = logging.getLogger("sqlalchemy.pool.impl.QueuePool")
    with Interrupts():
        assert pool.isEnabledFor(logging.ERROR)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert not pool.isEnabledFor(logging.ERROR)
    assert pool.isEnabledFor(logging.ERROR)
