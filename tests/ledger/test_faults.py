"""Pull the plug anywhere: what was released is on the book. Small versions of benchmarks/ledger_faults.py.

Where a kill lands is a matter of chance, but a correct ledger passes wherever it lands: no false alarms.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

import ledger_faults as faults
from commonground.accounting.budgets import Budget
from commonground.ledger import DurableLedger, LedgerError
from ledger_faults import LARGE, PEOPLE, PostgresServer


@pytest.fixture
def crowd(address: str) -> str:
    DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    return address


@pytest.mark.parametrize(
    ("trainer", "kills", "within"),
    [pytest.param(faults.release_forever, 12, 0.15, marks=pytest.mark.slow), (faults.train_forever, 4, 0.5)],
)
def test_kill_at_any_time(crowd: str, trainer: Callable[..., None], kills: int, within: float) -> None:
    """Two trainers at a time, each killed at a random moment (kill -9)."""
    result = faults.kill_trainers(crowd, trainer, kills, within, seed=int.from_bytes(os.urandom(4)))
    assert result.kills == kills
    assert result.undercounts == 0
    assert result.releases > 0, "nothing was released, so nothing was tested"
    assert result.charged_not_released >= 0


@pytest.mark.parametrize(
    ("stage", "events", "booked_reservations"),
    [
        ("reserving", ["open"], 0),
        ("charging", ["open", "reserve"], 1),  # between reserve and charge
        ("drawing noise", ["open", "reserve", "charge"], 1),  # between charge and noise
        ("settling", ["open", "reserve", *["charge"] * 4], 1),  # between the last release and settle
    ],
)
def test_kill_between_two_steps(crowd: str, stage: str, events: list[str], booked_reservations: int) -> None:
    result = faults.die_once(crowd, stage)
    people = DurableLedger(crowd).population(PEOPLE)
    account = people.account()
    assert [json.loads(body)["kind"] for body, _ in people.events()] == events
    assert len(account.open) == booked_reservations
    assert result.released <= account.charged <= account.booked
    for name in account.open:
        people.settle(name)  # the operator takes the dead for dead
    assert people.account().booked == account.charged >= result.released


def run(task: Callable[..., None], *arguments: object) -> int | None:
    process = faults._processes.Process(target=task, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def die_in_commit(address: str, folder: str, when: str) -> None:
    """Charge, and die right before or right after the database's commit."""
    people = DurableLedger(address).population(PEOPLE)
    book = people.reserve(Budget(0.01, 1e-6))
    engine = people._storage._engine  # type: ignore[attr-defined]

    def die(connection: Connection) -> None:
        if when == "after":
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.commit() if hasattr(driver, "pgconn") else driver.execute("COMMIT")
        os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "commit", die)
    book.charge(faults.release_event(0.0001))
    Path(folder, "released").touch()


@pytest.mark.parametrize(("when", "charges"), [("before", 0), ("after", 1)])
def test_kill_inside_the_commit_of_a_charge(crowd: str, tmp_path: Path, when: str, charges: int) -> None:
    assert run(die_in_commit, crowd, str(tmp_path), when) == -signal.SIGKILL
    assert not (tmp_path / "released").exists()
    (booking,) = DurableLedger(crowd).population(PEOPLE).account().open.values()
    assert booking.charges == charges
    assert booking.cost == faults.cost_of(Budget(0.01, 1e-6).mu)


@pytest.mark.slow
def test_many_trainers_on_one_budget(address: str) -> None:
    """Eight trainers at once, a budget for three: three are trained, five refused, nothing is overspent."""
    outcome, undercounts, _ = faults.train_together(address, faults.four_releases, trainers=8, affordable=3)
    assert outcome == {"trained": 3, "refused": 5}
    assert undercounts == 0


def test_flipped_bits_and_cut_files(tmp_path: Path) -> None:
    """The same account or a refusal in plain words; never another account, never a traceback."""
    damage = faults.damage_sqlite(tmp_path, flips=120, cuts=40, seed=int.from_bytes(os.urandom(4)))
    assert (damage.undercounts, damage.tracebacks) == (0, 0)
    assert damage.refused > 60  # of 160; about 98 are expected, the rest hits unused space


def test_a_damaged_log_loses_no_release(tmp_path: Path) -> None:
    damage = faults.damage_wal(tmp_path, times=4, seed=int.from_bytes(os.urandom(4)))
    assert damage.tried == 4
    assert (damage.undercounts, damage.tracebacks) == (0, 0)


def test_a_full_disk_and_a_read_only_one(tmp_path: Path) -> None:
    answer = faults.in_small_filesystem(tmp_path)
    if answer is None:
        pytest.skip("this kernel does not let us mount a small file system")
    full, fixed = answer["disk full"], answer["read-only disk"]
    assert "the disk is full. Free some space" in full["message"]
    assert not full["undercount"]
    assert "it is read-only" in fixed["message"]
    assert fixed["same"], "a read-only ledger can still be read"


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The same without mounting anything: the kernel refuses files above a size."""
    file = str(tmp_path / "budget.db")
    run(faults.reserve_until_refused, file, str(tmp_path), 60_000)
    reserved, message = json.loads((tmp_path / "answer").read_text())
    assert "Nothing was released" in message
    assert len(DurableLedger(file).verify()[PEOPLE].open) >= reserved > 10


def test_a_read_only_server(postgres: PostgresServer) -> None:
    address = postgres.new_database()
    DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    people = DurableLedger(f"{address}%20-cdefault_transaction_read_only%3Don").population(PEOPLE)
    with pytest.raises(LedgerError, match="it is read-only"):
        people.reserve(Budget(0.1, 1e-6))
    assert people.account().booked == 0


def test_a_locked_ledger_says_so(crowd: str) -> None:
    """Somebody holds the database: wait, then a clear message, nothing charged; and on it goes when she is gone."""
    people = DurableLedger(crowd, timeout=0.3).population(PEOPLE)
    with DurableLedger(crowd)._storage.writing() as connection:
        connection.exec_driver_sql("UPDATE commonground_populations SET n_events = n_events")
        with pytest.raises(LedgerError, match=r"is locked: another program held it for more than 0\.3 s"):
            people.reserve(Budget(0.1, 1e-6))
        assert people.account().booked == 0  # reading does not wait
    people.reserve(Budget(0.1, 1e-6))
    assert len(people.account().open) == 1


def test_a_frozen_trainer_does_not_hold_the_others_for_good(postgres: PostgresServer) -> None:
    """A process stopped inside a transaction: PostgreSQL ends its session, and its charge does not happen.

    (A SQLite lock ends with its process; as long as that is frozen, the others are told that the ledger is locked.)
    """
    crowd = postgres.new_database()
    DurableLedger(crowd, create=True).open_population(PEOPLE, LARGE)

    def freeze_and_wake() -> None:
        with DurableLedger(crowd, timeout=1)._storage.writing() as connection:
            connection.exec_driver_sql("UPDATE commonground_populations SET n_events = 77")
            DurableLedger(crowd, timeout=30).population(PEOPLE).reserve(Budget(0.1, 1e-6))  # another, who waits

    with pytest.raises(LedgerError):
        freeze_and_wake()
    assert len(DurableLedger(crowd).verify()[PEOPLE].open) == 1


def test_a_stopped_server_is_not_called_damaged(postgres: PostgresServer) -> None:
    """Whoever goes back to a backup because a server was down forgets what was spent since."""
    address = postgres.new_database()
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    book = people.reserve(Budget(0.1, 1e-6))
    before = people.account()
    uses: list[Callable[[], object]] = [
        lambda: people.reserve(Budget(0.1, 1e-6)),
        lambda: book.charge(faults.release_event(0.001)),
        people.account,
        lambda: DurableLedger(address).verify(),
        lambda: DurableLedger(address, create=True),
    ]
    postgres.stop()
    try:
        for use in uses:
            with pytest.raises(LedgerError) as caught:
                use()
            assert "cannot be reached" in str(caught.value)
            assert "do not go back to a backup" in str(caught.value)
            assert "damaged" not in str(caught.value)
    finally:
        postgres.start()
    assert people.account() == before, "and on it goes when the server is back"
    book.charge(faults.release_event(0.001))


def test_a_server_that_stops_inside_a_transaction_is_not_called_damaged(postgres: PostgresServer) -> None:
    address = postgres.new_database()
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    before = people.account()

    def cut_off(how: Callable[[], None]) -> None:
        with DurableLedger(address)._storage.writing() as connection:
            connection.exec_driver_sql("UPDATE commonground_populations SET n_events = 77")
            how()
            connection.exec_driver_sql("UPDATE commonground_populations SET n_events = 78")

    for how in (postgres.stop, postgres.kill):
        try:
            with pytest.raises(LedgerError, match=r"cannot be reached.*do not go back to a backup"):
                cut_off(how)
        finally:
            postgres.start()
        assert people.account() == before


@pytest.mark.parametrize("address", ["u@127.0.0.1:1/b", "u@nowhere.invalid/b", "u@/b?host=/no/such/folder"])
def test_a_server_that_is_not_there_is_not_called_damaged(address: str) -> None:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with pytest.raises(LedgerError, match=r"cannot be reached.*do not go back to a backup"):
        DurableLedger(f"postgresql://{address}", timeout=1)


def test_a_server_that_does_not_wait_for_its_disk_is_refused(postgres: PostgresServer) -> None:
    address = postgres.new_database()
    DurableLedger(address, create=True)
    try:
        postgres.execute("ALTER SYSTEM SET fsync = off")
        postgres.execute("SELECT pg_reload_conf()")
        for _ in range(100):
            if postgres.execute("SHOW fsync") == [("off",)]:
                break
            time.sleep(0.05)
        with pytest.raises(LedgerError, match="fsync = off"):
            DurableLedger(address)
    finally:
        postgres.execute("ALTER SYSTEM RESET fsync")
        postgres.execute("SELECT pg_reload_conf()")
