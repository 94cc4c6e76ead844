"""A ledger with an account for everybody: what it survives, and how large and slow it is with ten million people.

    .venv/bin/python benchmarks/personal_ledger.py kills              # kill -9, 4 × 60 times, SQLite and PostgreSQL
    .venv/bin/python benchmarks/personal_ledger.py size               # 10 million people, 50 fits; about half an hour
    .venv/bin/python benchmarks/personal_ledger.py size --people 100000 --fits 10

A trainer notes each release right after its noise was drawn, and how much everybody counted in it, in files that survive its
death. Nobody's account may ever say less. tests/ledger/test_personal_faults.py runs the same in small.
"""

import argparse
import json
import os
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.accounting.gaussian import gaussian_delta
from commonground.clipping.bounded import BoundedSum, rounding_margin
from commonground.gate import randomness_from
from commonground.gate.release import release
from commonground.ledger import DurableLedger, InMemoryLedger
from commonground.ledger.accounts import steps_of
from commonground.ledger.personal import PersonalPopulation, PersonalReservation
from commonground.ledger.shares import UNIT, units_of
from commonground.progress import progress_bar
from ledger_faults import (
    PEOPLE,
    STAGES,
    Deaths,
    PostgresServer,
    Witness,
    _note_releases,
    die_into,
    kill_into,
    small_crowd,
)

LARGE = Budget(500.0, 1e-6)  # of those who are hardly touched by an experiment that only kills
N_PEOPLE = 200
IDS = np.arange(N_PEOPLE)  # of ``small_crowd``
_RELEASED = struct.Struct("16sd")  # reservation, μ


# --- kill -9 --------------------------------------------------------------------------------------------------------


def open_accounts(address: str) -> PersonalPopulation:
    """Half of the people have little, and run dry on the way."""
    epsilons = np.where(np.arange(N_PEOPLE) % 2, LARGE.epsilon, np.linspace(0.01, 3.0, N_PEOPLE))
    people = DurableLedger(address, create=True).open_population(PEOPLE, LARGE, people=IDS, epsilons=epsilons)
    assert isinstance(people, PersonalPopulation)
    return people


class PersonalWitness(Witness):
    """Also notes how much everybody counts in a fit, before its first release."""

    def __init__(self, folder: str, die_at: str | None = None) -> None:
        super().__init__(folder, die_at)
        self.folder, self.fit = Path(folder), ""

    def booked(self, fit: str, weights: np.ndarray) -> None:
        np.save(self.folder / f"{fit}.npy", weights)
        self.fit = fit

    def released(self, mu: float) -> None:
        os.write(self._released, _RELEASED.pack(self.fit.encode(), mu))


class WatchedPeople:
    """A population that tells the witness what is about to happen."""

    def __init__(self, people: PersonalPopulation, witness: PersonalWitness) -> None:
        self.people, self.witness = people, witness

    def reserve_each(self, *asked: Any, **more: Any) -> "WatchedShares":
        self.witness.at("reserving")
        inner = self.people.reserve_each(*asked, **more)
        self.witness.booked(inner.id, inner.budgets.weights)
        self.witness.at("training")
        return WatchedShares(inner, self.witness)


class WatchedShares:
    def __init__(self, inner: PersonalReservation, witness: PersonalWitness) -> None:
        self.inner, self.witness, self.budgets = inner, witness, inner.budgets

    def charge(self, event: GaussianEvent) -> None:
        self.witness.at("charging")
        self.inner.charge(event)
        self.witness.at("drawing noise")

    @property
    def entry(self) -> Any:
        return self.inner.entry

    def published(self, fingerprint: str) -> None:
        self.inner.published(fingerprint)

    def settle(self) -> None:
        self.inner.settle()

    def __enter__(self) -> "WatchedShares":
        return self

    def __exit__(self, *problem: Any) -> None:
        self.witness.at("settling")
        self.inner.__exit__(*problem)
        self.witness.at("training")


def _watched(address: str, witness: PersonalWitness) -> WatchedPeople:
    people = DurableLedger(address).population(PEOPLE)
    assert isinstance(people, PersonalPopulation)
    people.accounts()  # so that the first fit does not spend most of the time before it is killed on loading libraries
    return WatchedPeople(people, witness)


def release_forever(address: str, folder: str, die_at: str | None = None) -> None:
    """Ledger use at full speed: book everybody's share, four releases through the gate, settle, again."""
    witness = PersonalWitness(folder, die_at)
    people, noise = _watched(address, witness), randomness_from(None)
    release(BoundedSum(np.zeros(3), 1.0, "warm up"), 0.01, InMemoryLedger(LARGE), noise)
    witness.at("training")
    while True:
        with people.reserve_each(IDS, 0.5, 1e-6, rounding_margin(N_PEOPLE), "four releases") as book:
            for _ in range(4):
                mu = book.budgets.largest.mu * 0.45
                release(BoundedSum(np.zeros(3), 1.0, "three numbers"), mu, book, noise)
                witness.released(mu)
                witness.at("training")


def train_forever(address: str, folder: str, die_at: str | None = None) -> None:
    """Real training, again and again."""
    witness = PersonalWitness(folder, die_at)
    people, users = _watched(address, witness), small_crowd()
    cg.SingleModel(epsilon=0.5).fit(users)  # warm up: compiled code is loaded before the clock starts
    _note_releases(witness)
    witness.at("training")
    while True:
        cg.SingleModel(epsilon=0.5).fit(users, ledger=people)


@dataclass
class Killed(Deaths):
    overdrawn: int = 0
    owed: list[Fraction] = field(
        default_factory=lambda: [Fraction(0)] * N_PEOPLE
    )  # μ² that was really released of each

    def note_releases(self, folder: Path) -> None:
        """What a dead trainer had released, at everybody's own weight. Exact: weights and μ are fractions."""
        released = (folder / "released").read_bytes() if (folder / "released").exists() else b""
        for fit, mu in _RELEASED.iter_unpack(released):
            self.releases += 1
            squares = np.load(folder / f"{fit.decode()}.npy") ** 2 * mu**2  # rounded; a part in 2⁵⁰ is given for it
            cheaper = [Fraction(one) * (1 - Fraction(1, 2**50)) for one in squares.tolist()]
            self.owed = [have + more for have, more in zip(self.owed, cheaper, strict=True)]

    def compare(self, people: PersonalPopulation) -> None:
        accounts = people.accounts()  # in the order of digests
        positions = people._positions(IDS)
        self.undercounts += sum(
            owed * UNIT > paid for owed, paid in zip(self.owed, accounts.used[positions].tolist(), strict=True)
        )
        self.overdrawn += int((accounts.used > accounts.limits).sum())


def kill_trainers(address: str, trainer: Callable[..., None], kills: int, within: float, seed: int) -> Killed:
    """Of a ledger with an account for everybody: all of them are compared."""
    result = Killed()
    kill_into(result, address, trainer, kills, within, seed)
    return result


def die_once(address: str, stage: str) -> Killed:
    result = Killed()
    die_into(result, address, release_forever, stage)
    return result


def kills(options: argparse.Namespace) -> int:
    folder, server, failures = Path(tempfile.mkdtemp(prefix="personal-ledger-")), PostgresServer(), 0
    print(
        "| database | what was done to it | what happened | accounts undercounted | overdrawn |\n|---|---|---|---|---|"
    )
    for database in ("SQLite", "PostgreSQL"):
        for what, trainer, within in (
            ("kill -9 while using the ledger", release_forever, 0.5),
            ("kill -9 while training", train_forever, 0.8),
        ):
            address = str(folder / f"{trainer.__name__}.db") if database == "SQLite" else server.new_database()
            open_accounts(address)
            killed = kill_trainers(address, trainer, options.kills, within, seed=1)
            where = ", ".join(f"{killed.stages[stage]} {stage}" for stage in STAGES if killed.stages[stage])
            people = DurableLedger(address).population(PEOPLE)
            assert isinstance(people, PersonalPopulation)
            dry = people.people_in_short()["run_dry"]
            print(
                f"| {database} | {what} | {killed.kills} kills ({where}); {killed.releases:,} releases; {dry} of {N_PEOPLE} "
                f"people ran dry | {killed.undercounts} | {killed.overdrawn} |",
                flush=True,
            )
            failures += killed.undercounts + killed.overdrawn + (killed.releases < options.kills / 4)
    server.close()
    shutil.rmtree(folder, ignore_errors=True)
    return failures


# --- ten million people -----------------------------------------------------------------------------------------------


def own_budgets(n: int) -> np.ndarray:
    """From 0.1 to 2 in thousandths, the small ones more often; one in a hundred takes no part."""
    rng = np.random.default_rng(0)
    epsilons = np.round(np.clip(rng.lognormal(-0.5, 0.8, n), 0.1, 2.0), 3)
    epsilons[rng.random(n) < 0.01] = 0.0
    return epsilons


def nobody_above_her_own(people: PersonalPopulation, ids: np.ndarray, epsilons: np.ndarray) -> dict[str, Any]:
    """Everybody's sum of q² · units over all fits, in limbs of 20 bits and so exactly, against what her own ε allows."""
    accounts, persons = people.accounts(), people.account().persons
    assert persons is not None
    limbs = np.zeros((3, persons.n), dtype=np.int64)
    bar = progress_bar("adding up", len(persons.fits), sys.stderr.isatty())
    with people._storage.reading() as connection, bar as advance:
        for fit in persons.fits:
            steps = steps_of(connection, people.name, persons, fit).astype(np.int64)
            square, units = steps * steps, units_of(fit.cost)
            for limb in range(3):
                limbs[limb, : len(steps)] += square * ((units >> (20 * limb)) & (2**20 - 1 if limb < 2 else -1))
            for limb in range(2):
                limbs[limb + 1] += limbs[limb] >> 20
                limbs[limb] &= 2**20 - 1
            advance()
    limits = accounts.limits
    above = (limbs[2] > limits) | ((limbs[2] == limits) & (limbs[:2] > 0).any(axis=0))
    understated = limbs[2] > accounts.used  # the accounts round each fit up
    positions = people._positions(ids)
    distinct, which = np.unique(epsilons, return_inverse=True)
    highest = np.zeros(len(distinct), dtype=np.int64)
    np.maximum.at(highest, which, limits[positions])
    beyond = [
        e for e, units in zip(distinct.tolist(), highest.tolist(), strict=True)
        if (gaussian_delta((units / UNIT) ** 0.5, e) > people.account().budget.delta if units else False)  # type: ignore[union-attr]
    ]  # fmt: skip
    return {
        "people above their own limit": int(above.sum()),
        "accounts below the exact sum": int(understated.sum()),
        "distinct ε whose limit allows more": len(beyond),
        "largest share of a limit that is used": float((accounts.used / np.maximum(limits, 1)).max()),
    }


def size(options: argparse.Namespace) -> int:
    n, folder, clock = options.people, Path(tempfile.mkdtemp(prefix="personal-ledger-")), time.monotonic
    address, rng, took, facts = str(folder / "budget.db"), np.random.default_rng(1), {}, {}
    ids, epsilons, started = np.arange(n) * 7 + 1_000_000, own_budgets(n), clock()
    people = DurableLedger(address, create=True).open_population(
        "all", Budget(2.0, 1e-9), people=ids, epsilons=epsilons
    )
    took["opening the accounts"] = clock() - started
    facts["file after opening"] = os.path.getsize(address)
    seconds: dict[str, list[float]] = {"reserve": [], "charge": [], "settle": []}
    with progress_bar("fits", options.fits, True) as advance:
        for fit in range(options.fits):
            assert isinstance(people, PersonalPopulation)
            wishes = np.full(n, 0.3)
            wishes[rng.integers(10) :: 10] = 0.0  # one in ten is not asked for anything this week
            started = clock()
            book = people.reserve_each(ids, wishes, 1e-9, rounding_margin(n), f"week {fit}")
            seconds["reserve"].append(clock() - started)
            for part in (0.5, 0.3, 0.1):
                mu = book.budgets.largest.mu * part**0.5
                started = clock()
                book.charge(GaussianEvent("numbers", mu, 1.0, 1.000001 / mu, 1000, False))
                seconds["charge"].append(clock() - started)
            started = clock()
            book.settle()
            seconds["settle"].append(clock() - started)
            if fit == 0 or fit == options.fits - 1:
                taking = int((book.budgets.weights > 0).sum())
                facts[f"took part in fit {fit + 1}"] = f"{taking:,} of {np.count_nonzero(wishes):,}"
            advance()
    took["reserve, the first (ids become digests)"] = seconds["reserve"].pop(0)
    for what, times in seconds.items():
        took[f"{what}, median of {len(times)}"], took[f"{what}, slowest"] = float(np.median(times)), max(times)
    facts["file"] = os.path.getsize(address)
    started = clock()
    fresh = DurableLedger(address).population("all")
    assert isinstance(fresh, PersonalPopulation)
    fresh.accounts()
    took["all accounts, in a new process's handle"] = clock() - started
    started = clock()
    fresh.person(int(ids[n // 3]))
    took["one person's account"] = clock() - started
    exact = nobody_above_her_own(fresh, ids, epsilons)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"\n{n:,} people, {options.fits} fits, SQLite\n\n| what | |\n|---|---|")
    for what, value in took.items():
        print(f"| {what} | {value:.2f} s |" if value >= 0.01 else f"| {what} | {value * 1000:.1f} ms |")
    for what, value in {**facts, "memory, most": memory}.items():
        print(f"| {what} | {value / 1e6:,.0f} MB |" if isinstance(value, int) else f"| {what} | {value} |")
    print(f"| bytes per person and fit | {(facts['file'] - facts['file after opening']) / n / options.fits:.2f} |")
    for what, value in exact.items():
        print(f"| {what} | {value} |")
    print(json.dumps({"short": fresh.people_in_short()}))
    shutil.rmtree(folder)
    return (
        exact["people above their own limit"]
        + exact["accounts below the exact sum"]
        + exact["distinct ε whose limit allows more"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["kills", "size"])
    parser.add_argument("--kills", type=int, default=60, help="of each of four kinds")
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--fits", type=int, default=50)
    options = parser.parse_args()
    sys.exit(bool({"kills": kills, "size": size}[options.what](options)))


if __name__ == "__main__":
    main()
