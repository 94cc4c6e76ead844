"""What the ledger survives, counted: kill -9, full disks, damaged files, dying servers, fifty trainers on one budget.

    .venv/bin/python benchmarks/ledger_faults.py            # everything, several minutes
    .venv/bin/python benchmarks/ledger_faults.py --scale 0.1

A trainer writes down what it has really released, right after each draw of noise, in a file that survives its death. The
ledger must never say less. tests/ledger/test_faults.py runs the same experiments in small.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.costs import cost_of
from commonground.accounting.events import GaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError, CommongroundError
from commonground.gate import gate as gate_module
from commonground.gate import randomness_from
from commonground.gate.release import release
from commonground.ledger import DurableLedger, InMemoryLedger, LedgerError, Population, Reservation
from commonground.ledger.account import Account

PEOPLE = "people"
LARGE = Budget(1000.0, 1e-6)  # hardly touched by an experiment that only kills
STAGES = ("starting", "reserving", "training", "charging", "drawing noise", "settling")
_processes = multiprocessing.get_context("forkserver")  # children start from a clean process that has imported us
_processes.set_forkserver_preload(["commonground.cli.app", "opendp.prelude"])


# --- what a trainer has really done ---------------------------------------------------------------------------------


class Witness:
    """Notes of a trainer for those who find it dead: where it was, and what it had released."""

    def __init__(self, folder: str, die_at: str | None = None) -> None:
        self._released = os.open(Path(folder) / "released", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._stage = os.open(Path(folder) / "stage", os.O_WRONLY | os.O_CREAT)
        self._die_at = die_at

    def at(self, stage: str) -> None:
        os.pwrite(self._stage, bytes([STAGES.index(stage)]), 0)
        if stage == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def released(self, mu: float) -> None:
        os.write(self._released, struct.pack("d", mu))


def stage_of(folder: Path) -> str | None:
    with suppress(FileNotFoundError):
        noted = (folder / "stage").read_bytes()
        return STAGES[noted[0]] if noted else None
    return None


def released_in(folder: Path) -> list[float]:
    with suppress(FileNotFoundError):
        return [mu for (mu,) in struct.iter_unpack("d", (folder / "released").read_bytes())]
    return []


class WatchedPopulation:
    """A population that tells the witness what is about to happen."""

    def __init__(self, population: Population, witness: Witness) -> None:
        self.population, self.witness = population, witness

    def reserve(self, budget: Budget, purpose: str = "") -> "WatchedReservation":
        self.witness.at("reserving")
        inner = self.population.reserve(budget, purpose)
        self.witness.at("training")
        return WatchedReservation(inner, self.witness)


class WatchedReservation:
    def __init__(self, inner: Reservation, witness: Witness) -> None:
        self.inner, self.witness = inner, witness

    def charge(self, event: GaussianEvent) -> None:
        self.witness.at("charging")
        self.inner.charge(event)
        self.witness.at("drawing noise")

    def __enter__(self) -> "WatchedReservation":
        return self

    def __exit__(self, *problem: Any) -> None:
        self.witness.at("settling")
        self.inner.__exit__(*problem)
        self.witness.at("training")


def release_forever(address: str, folder: str, die_at: str | None = None) -> None:
    """Ledger use at full speed: reserve, four releases through the gate, settle, again."""
    witness = Witness(folder, die_at)
    people = WatchedPopulation(DurableLedger(address).population(PEOPLE), witness)
    budget, noise = Budget(0.01, 1e-6), randomness_from(None)
    mu = budget.mu / 2
    release(BoundedSum(np.zeros(3), 1.0, "warm up"), mu, InMemoryLedger(LARGE), noise)
    witness.at("training")
    while True:
        with people.reserve(budget, "four releases") as book:
            for _ in range(4):
                release(BoundedSum(np.zeros(3), 1.0, "three numbers"), mu, book, noise)
                witness.released(mu)
                witness.at("training")


def train_forever(address: str, folder: str, die_at: str | None = None) -> None:
    """Real training, again and again."""
    witness = Witness(folder, die_at)
    people = WatchedPopulation(DurableLedger(address).population(PEOPLE), witness)
    users = small_crowd()
    cg.SingleModel(epsilon=0.05).fit(users)  # warm up: compiled code is loaded before the clock starts
    _note_releases(witness)
    witness.at("training")
    while True:
        cg.SingleModel(epsilon=0.05).fit(users, ledger=people)


def _note_releases(witness: Witness) -> None:
    def noted(bounded_sum: BoundedSum, mu: float, *rest: Any) -> Any:
        public = release(bounded_sum, mu, *rest)
        witness.released(mu)
        witness.at("training")
        return public

    gate_module.release = noted  # type: ignore[assignment]


def small_crowd() -> cg.Users:
    return cg.datasets.make_shared_subspace(n_users=200, rows_per_user=4, n_features=4, rank=1, seed=0)[0]


# --- kill -9 --------------------------------------------------------------------------------------------------------


@dataclass
class Deaths:
    """What the dead are known to have done; what that means for a ledger, its kinds below know."""

    kills: int = 0
    stages: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    undercounts: int = 0
    abandoned: int = 0  # reservations that the dead left open

    def note(self, folder: Path) -> None:
        """One dead trainer, from the notes that it left."""
        self.kills += 1
        self.stages[stage_of(folder) or "starting"] += 1
        self.note_releases(folder)
        shutil.rmtree(folder)

    def note_releases(self, folder: Path) -> None:
        raise NotImplementedError

    def compare(self, people: Any) -> None:
        """Count where a population's book says less than was released."""
        raise NotImplementedError


@dataclass
class Killed(Deaths):
    released: Fraction = Fraction(0)
    charged_not_released: int = 0  # killed between charge and noise: overcounted, as it must be

    def note_releases(self, folder: Path) -> None:
        mus = released_in(folder)
        self.releases += len(mus)
        self.released += sum((cost_of(mu) for mu in mus), Fraction(0))

    def compare(self, people: Population) -> None:
        # What was released was charged, and what is charged is booked. Exact fractions: no tolerance.
        account = people.account()
        self.undercounts += not self.released <= account.charged <= account.booked <= account.limit


def kill_into(
    result: Deaths, address: str, trainer: Callable[..., None], kills: int, within: float, seed: int, together: int = 2
) -> Any:
    """Start trainers, two at a time, kill each within so many seconds, and compare after each pair; the population."""
    chance = random.Random(seed)
    while result.kills < kills:
        folders = [Path(tempfile.mkdtemp(prefix="trainer-")) for _ in range(min(together, kills - result.kills))]
        trainers = [_processes.Process(target=trainer, args=(address, str(folder))) for folder in folders]
        for process in trainers:
            process.start()
        ends = []
        for process, folder in zip(trainers, folders, strict=True):
            while stage_of(folder) is None and process.is_alive():
                time.sleep(0.002)
            ends.append(time.monotonic() + chance.uniform(0, within))
        for end, process in sorted(zip(ends, trainers, strict=True), key=lambda pair: pair[0]):
            time.sleep(max(0.0, end - time.monotonic()))
            process.kill()
        for process, folder in zip(trainers, folders, strict=True):
            process.join()
            assert process.exitcode == -signal.SIGKILL, f"the trainer ended by itself: {process.exitcode}"
            result.note(folder)
        people = DurableLedger(address).population(PEOPLE)  # verifies the whole chain
        result.compare(people)
        result.abandoned += len(people.account().open)
        if chance.random() < 0.5:
            for booking in list(people.account().open):
                people.settle(booking)
            result.compare(people)
    return people


def kill_trainers(
    address: str, trainer: Callable[..., None], kills: int, within: float, seed: int, together: int = 2
) -> Killed:
    """Of a ledger with one account for all."""
    result = Killed()
    people = kill_into(result, address, trainer, kills, within, seed, together)
    charges = sum(json.loads(body)["kind"] == "charge" for body, _ in people.events())
    result.charged_not_released = charges - result.releases
    result.compare(people)
    return result


def die_into(result: Deaths, address: str, trainer: Callable[..., None], stage: str) -> None:
    """One trainer that kills itself exactly at a stage."""
    folder = Path(tempfile.mkdtemp(prefix="trainer-"))
    process = _processes.Process(target=trainer, args=(address, str(folder), stage))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    result.note(folder)


def die_once(address: str, stage: str) -> Killed:
    result = Killed()
    die_into(result, address, release_forever, stage)
    return result


# --- many trainers on one budget ------------------------------------------------------------------------------------


def fit_once(people: Population | None, budget: Budget) -> list[float]:
    """Real training; what it released."""
    model = cg.SingleModel(epsilon=budget.epsilon, delta=budget.delta).fit(small_crowd(), ledger=people)
    return [event.mu for event in model.billboard_.statement.events]


def four_releases(people: Population | None, budget: Budget) -> list[float]:
    """The ledger's side of training alone: no compiled code to load."""
    if people is not None:
        with people.reserve(budget) as book:
            for _ in range(4):
                release(BoundedSum(np.zeros(3), 1.0, "z"), budget.mu / 2, book, randomness_from(None))
    return [budget.mu / 2] * 4


def compete(address: str, train: Callable[..., list[float]], budget: Budget, folder: str, number: int) -> None:
    people = DurableLedger(address).population(PEOPLE)
    train(None, budget)  # warm up, outside the ledger
    (Path(folder) / f"ready {number}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.005)
    try:
        answer: list[Any] = ["trained", train(people, budget)]
    except BudgetError:
        answer = ["refused", []]
    except Exception:
        answer = [traceback.format_exc(), []]
    (Path(folder) / f"answer {number}").write_text(json.dumps(answer))


def train_together(
    address: str, train: Callable[..., list[float]], trainers: int, affordable: int
) -> tuple[Counter[str], int, float]:
    """So many trainers at once on a budget for ``affordable`` of them: how they ended, undercounts, seconds."""
    folder, budget = Path(tempfile.mkdtemp(prefix="trainers-")), Budget(0.5, 1e-6)
    whole = Budget(cg.accounting.gaussian.gaussian_epsilon(budget.mu * (affordable + 0.5) ** 0.5, 1e-6), 1e-6)
    people = DurableLedger(address, create=True).open_population(PEOPLE, whole)
    processes = [
        _processes.Process(target=compete, args=(address, train, budget, str(folder), number))
        for number in range(trainers)
    ]
    for process in processes:
        process.start()
    while len(list(folder.glob("ready *"))) < trainers and all(process.exitcode is None for process in processes):
        time.sleep(0.01)
    started = time.monotonic()
    (folder / "go").touch()
    for process in processes:
        process.join()
    seconds = time.monotonic() - started
    ends = [json.loads((folder / f"answer {number}").read_text()) for number in range(trainers)]
    shutil.rmtree(folder)
    released = sum((cost_of(mu) for _, mus in ends for mu in mus), Fraction(0))
    account = people.account()
    return (
        Counter(how for how, _ in ends),
        int(not released <= account.charged <= account.booked <= account.limit or bool(account.open)),
        seconds,
    )


# --- damaged files --------------------------------------------------------------------------------------------------


@dataclass
class Damage:
    tried: int = 0
    refused: int = 0
    unharmed: int = 0  # the damage lies in unused space: the same account
    undercounts: int = 0
    tracebacks: int = 0

    def look(self, address: str, truth: Account) -> None:
        self.tried += 1
        try:
            account = DurableLedger(address, timeout=5).population(PEOPLE).account()
        except CommongroundError:
            self.refused += 1
        except Exception:
            traceback.print_exc()
            self.tracebacks += 1
        else:
            self.unharmed += account == truth
            self.undercounts += account != truth


def spend_a_little(address: str, fits: int) -> Population:
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    budget = Budget(0.1, 1e-6)
    for fit in range(fits):
        with people.reserve(budget, f"fit {fit}") as book:
            for _ in range(3):
                book.charge(release_event(budget.mu / 2))
    people.reserve(budget, "abandoned").charge(release_event(budget.mu / 2))
    return people


def reserve_until_refused(address: str, folder: str, size: int) -> None:
    """A full disk for those who may not mount one: the kernel lets no file grow beyond ``size``."""
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    reserved = 0
    try:
        while True:
            people.reserve(Budget(0.01, 1e-6))
            reserved += 1
    except LedgerError as problem:
        (Path(folder) / "answer").write_text(json.dumps([reserved, str(problem)]))


def release_event(mu: float) -> GaussianEvent:
    return GaussianEvent("three numbers", mu, 1.0, 1.000001 / mu, 3, False)


def damage_sqlite(folder: Path, flips: int, cuts: int, seed: int) -> Damage:
    """Flip bits anywhere in the file, cut it anywhere; every time from a good copy."""
    good, bad, chance, result = folder / "good.db", folder / "bad.db", random.Random(seed), Damage()
    truth = spend_a_little(str(good), 12).account()
    whole = good.read_bytes()

    def look(content: bytes) -> None:
        for suffix in ("-wal", "-shm"):
            bad.with_name(bad.name + suffix).unlink(missing_ok=True)
        bad.write_bytes(content)
        result.look(str(bad), truth)

    for _ in range(flips):
        at, bit = chance.randrange(len(whole)), chance.randrange(8)
        look(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
    for _ in range(cuts):
        look(whole[: chance.randrange(len(whole))])
    return result


def hold_open(address: str) -> None:
    """An operator's shell, left open: as long as it is there, SQLite does not tidy its log away by itself."""
    connection = sqlite3.connect(address)
    connection.execute("SELECT count(*) FROM commonground_events").fetchall()
    while True:
        time.sleep(1)


def damage_wal(folder: Path, times: int, seed: int) -> Damage:
    """Kill a trainer so that it leaves a write-ahead log behind; then flip a bit in it, cut it, or remove it."""
    chance, result = random.Random(seed), Damage()
    for number in range(times):
        address, log, content = str(folder / f"log{number}.db"), folder / f"log{number}.db-wal", b""
        DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
        released = Fraction(0)
        while not content:
            witness = Path(tempfile.mkdtemp(prefix="trainer-"))
            trainer = _processes.Process(target=release_forever, args=(address, str(witness)))
            shell = _processes.Process(target=hold_open, args=(address,))
            for process in (shell, trainer):
                process.start()
            while len(released_in(witness)) < 5:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.02))
            for process in (trainer, shell):
                process.kill()
                process.join()
            content = log.read_bytes() if log.exists() else b""
            released += sum((cost_of(mu) for mu in released_in(witness)), Fraction(0))
            shutil.rmtree(witness)
        at, kind = chance.randrange(len(content)), chance.randrange(3)
        if kind == 0:
            log.write_bytes(content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :])
        elif kind == 1:
            log.write_bytes(content[:at])
        else:
            log.unlink()
        result.tried += 1
        try:
            result.undercounts += not released <= DurableLedger(address).population(PEOPLE).account().charged
            result.unharmed += 1
        except CommongroundError:
            result.refused += 1
    return result


# --- a full disk, a read-only one -----------------------------------------------------------------------------------


def in_small_filesystem(folder: Path) -> dict[str, Any] | None:
    """Both tasks below, where ``folder`` is a file system of 2 MB. None where the kernel does not let us."""
    inside = f"mount -t tmpfs -o size=2m none {folder} && exec {sys.executable} {__file__} --small-disk {folder}"
    done = subprocess.run(["unshare", "-rm", "sh", "-c", inside], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def task_full_disk(folder: Path) -> dict[str, Any]:
    """Release until the disk is full; then make room and look."""
    address = str(folder / "budget.db")
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    free = shutil.disk_usage(folder).free
    (folder / "filler").write_bytes(b"x" * (free - 200_000))
    budget, noise, released, message = Budget(0.01, 1e-6), randomness_from(None), Fraction(0), ""
    while not message:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "the reservation stays booked": settling needs room, too
                with people.reserve(budget) as book:
                    for _ in range(4):
                        release(BoundedSum(np.zeros(3), 1.0, "z"), budget.mu / 2, book, noise)
                        released += cost_of(budget.mu / 2)
        except LedgerError as problem:
            message = str(problem)
    (folder / "filler").unlink()
    account = DurableLedger(address).verify()[PEOPLE]
    with DurableLedger(address).population(PEOPLE).reserve(budget) as book:  # and on it goes
        book.charge(release_event(budget.mu / 2))
    return {"message": message, "events": account.count, "undercount": not released <= account.charged}


def task_read_only(folder: Path) -> dict[str, Any]:
    """A ledger on a medium that has become read-only: can be shown, cannot be spent from."""
    address = str(folder / "second.db")
    truth = spend_a_little(address, 2).account()
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    people = DurableLedger(address).population(PEOPLE)
    try:
        people.reserve(Budget(0.01, 1e-6))
        message = ""
    except LedgerError as problem:
        message = str(problem)
    return {"message": message, "same": people.account() == truth}


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


class PostgresServer:
    """A real server in a folder, by pgserver."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # pgserver asks platformdirs for a run folder that a container does not have
            import pgserver

        # Not below pytest's folder: each new pytest closes that to other users, and the server runs as one.
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.server = pgserver.get_server(self.folder, cleanup_mode="stop")
        self._databases = 0

    def new_database(self) -> str:
        """A schema of its own: as separate for a ledger as a database, and made in a moment."""
        self._databases += 1
        self.execute(f"CREATE SCHEMA ledger_{self._databases}")
        return f"{self.server.get_uri()}&options=-csearch_path%3Dledger_{self._databases}"

    def execute(self, statement: str, address: str | None = None) -> list[Any]:
        import psycopg

        with psycopg.connect(address or self.server.get_uri(), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        for _ in range(50):
            try:
                self.server.ensure_postgres_running()
                self.execute("SELECT 1")
                return
            except Exception:  # its predecessor's memory is not gone yet
                time.sleep(0.2)
        raise RuntimeError("PostgreSQL does not start")

    def kill(self) -> None:
        os.kill(self.server.get_pid(), signal.SIGKILL)
        time.sleep(0.3)

    def stop(self, how: str = "fast") -> None:
        from pgserver._commands import pg_ctl

        pg_ctl(["-w", "-m", how, "stop"], pgdata=self.server.pgdata, user=self.server.system_user)

    def close(self) -> None:
        self.stop("immediate")  # its folder is thrown away: nothing needs to be written back
        self.server.cleanup_mode = None  # it is stopped already
        self.server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


def charge_until_it_fails(address: str, folder: str) -> None:
    with suppress(LedgerError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release_forever(address, folder)


def kill_server(server: PostgresServer, times: int, seed: int) -> tuple[Killed, int]:
    """kill -9 of the server in the middle of charges; it recovers, and nothing is missing. (result, clear messages)"""
    address, chance, result, ended_well = server.new_database(), random.Random(seed), Killed(), 0
    DurableLedger(address, create=True).open_population(PEOPLE, LARGE)
    for _ in range(times):
        folder = Path(tempfile.mkdtemp(prefix="trainer-"))
        process = _processes.Process(target=charge_until_it_fails, args=(address, str(folder)))
        process.start()
        while not released_in(folder):
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.5))
        server.kill()
        process.join()
        ended_well += process.exitcode == 0
        result.note(folder)
        server.start()
        people = DurableLedger(address).population(PEOPLE)
        result.compare(people)
        result.abandoned += len(people.account().open)
    return result, ended_well


def damage_postgres(server: PostgresServer, flips: int, seed: int) -> Damage:
    """Stop the server, flip one bit in a table's file, start it, look; repair by writing the good file back."""
    address, chance, result = server.new_database(), random.Random(seed), Damage()
    truth = spend_a_little(address, 12).account()
    server.execute("VACUUM FREEZE", address)
    server.execute("CHECKPOINT", address)
    paths = [
        Path(server.server.pgdata) / server.execute(f"SELECT pg_relation_filepath('{table}')", address)[0][0]
        for table in ("commonground_events", "commonground_populations")
    ]
    server.stop()
    good = [path.read_bytes() for path in paths]
    for _ in range(flips):
        which = chance.choices([0, 1], [3, 1])[0]
        content = bytearray(good[which])
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        paths[which].write_bytes(content)
        server.start()
        result.look(address, truth)
        server.stop()
        paths[which].write_bytes(good[which])
    server.start()
    return result


# --- the table ------------------------------------------------------------------------------------------------------


@contextmanager
def timed(rows: list[tuple[str, ...]], database: str, what: str) -> Iterator[list[str]]:
    started, cells = time.monotonic(), []
    yield cells
    rows.append((database, what, *cells, f"{time.monotonic() - started:.0f} s"))
    print(" | ".join(rows[-1]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--small-disk", type=Path, help="internal: run the disk tasks in this folder")
    options = parser.parse_args()
    if options.small_disk:
        tasks = {"disk full": task_full_disk, "read-only disk": task_read_only}
        print(json.dumps({what: task(options.small_disk) for what, task in tasks.items()}))
        return

    def scaled(count: int) -> int:
        return max(1, round(count * options.scale))

    folder = Path(tempfile.mkdtemp(prefix="ledger-faults-"))
    server = PostgresServer()
    rows: list[tuple[str, ...]] = []
    failures = 0
    print("database | experiment | what happened | undercounts | time")
    for database in ("SQLite", "PostgreSQL"):

        def address(name: str, database: str = database) -> str:
            return str(folder / f"{name}.db") if database == "SQLite" else server.new_database()

        for what, trainer, kills, within in (
            ("kill -9, ledger use", release_forever, scaled(200), 0.4),
            ("kill -9, training", train_forever, scaled(200), 0.6),
        ):
            with timed(rows, database, what) as cells:
                place = address(trainer.__name__)
                DurableLedger(place, create=True).open_population(PEOPLE, LARGE)
                killed = kill_trainers(place, trainer, kills, within, seed=1)
                where = ", ".join(f"{killed.stages[stage]} {stage}" for stage in STAGES if killed.stages[stage])
                cells += [
                    f"{killed.kills} kills ({where}); {killed.releases} releases seen, {killed.charged_not_released} more "
                    f"charged; {killed.abandoned} reservations found open",
                    str(killed.undercounts),
                ]
                failures += killed.undercounts + (killed.releases < kills / 4)  # few releases, little tested
        with timed(rows, database, "many trainers, one budget") as cells:
            n, affordable = scaled(50), max(1, scaled(20))
            outcome, undercounts, seconds = train_together(address("together"), fit_once, n, affordable)
            ends = ", ".join(f"{count} {how}" for how, count in outcome.items())
            cells += [f"{n} at once, budget for {affordable}: {ends} in {seconds:.1f} s", str(undercounts)]
            failures += undercounts + (outcome != {"trained": affordable, "refused": n - affordable})
    for what, damaged in (
        ("bit flips and cuts", lambda: damage_sqlite(folder, scaled(1500), scaled(500), seed=2)),
        ("damaged log after kill -9", lambda: damage_wal(folder, scaled(50), seed=3)),
    ):
        with timed(rows, "SQLite", what) as cells:
            damage = damaged()
            cells += [
                f"{damage.tried} tried: {damage.refused} refused, {damage.unharmed} unharmed",
                str(damage.undercounts),
            ]
            failures += damage.undercounts + damage.tracebacks
    place = folder / "disk"
    place.mkdir()
    for what, answer in (in_small_filesystem(place) or {"disk": {"message": "no small disk possible here"}}).items():
        with timed(rows, "SQLite", what) as cells:
            cells += [answer["message"], str(int(answer.get("undercount", False)))]
            failures += answer.get("undercount", False) + (not answer.get("same", True))
    with timed(rows, "PostgreSQL", "kill -9 of the server") as cells:
        killed, clear = kill_server(server, scaled(10), seed=4)
        cells += [
            f"{killed.kills} kills; {clear} trainers stopped with a message; {killed.releases} releases",
            str(killed.undercounts),
        ]
        failures += killed.undercounts
    with timed(rows, "PostgreSQL", "bit flips on the disk") as cells:
        damage = damage_postgres(server, scaled(60), seed=5)
        cells += [
            f"{damage.tried} tried: {damage.refused} refused, {damage.unharmed} unharmed",
            str(damage.undercounts),
        ]
        failures += damage.undercounts + damage.tracebacks
    server.close()
    shutil.rmtree(folder, ignore_errors=True)
    print(f"undercounts and other failures: {failures}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
