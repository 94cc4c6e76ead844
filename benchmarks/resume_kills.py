"""Trainings that are killed (kill -9) at random moments, again and again, and resumed until there is a board.

    .venv/bin/python benchmarks/resume_kills.py             # 60 kills, about three minutes
    .venv/bin/python benchmarks/resume_kills.py --kills 10

Every value that the gate hands to the fit is noted in a file that survives the trainer's death, with its place. After each
kill and at the end:

- the ledger has charged at least what was handed on, and never more than was declared;
- what was handed on at one place is one value, whatever number of processes came to it: nothing was drawn twice and seen;
- the board's releases are the charges of its reservation, one for one, and the ledger names this board alone.

tests/ledger/test_resumed.py runs the same in small.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.costs import cost_of
from commonground.billboard.in_ledger import problem_with
from commonground.gate.journal import Journal
from commonground.gate.journalled import JournalledGate
from commonground.ledger import DurableLedger
from commonground.progress import progress_bar

PEOPLE, DECLARED = "people", Budget(1.0, 1e-6)
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["commonground.cli.app", "opendp.prelude"])


@dataclass
class Resumed:
    """What became of the killed."""

    kills: int = 0
    boards: int = 0
    undercounts: int = 0
    drawn_twice: int = 0  # places at which two different values were handed on
    problems: list[str] = field(default_factory=list)
    at: Counter[int] = field(default_factory=Counter)  # releases handed on when the kill came
    unwritten: int = 0  # kills between a charge and its value


def train_to_the_end(address: str, folder: str) -> None:
    """One process: the same command as ever, and it notes what the gate hands on."""
    notes = os.open(Path(folder) / "handed on", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def noting(verb: str) -> Any:
        inner = getattr(JournalledGate, verb)

        def noted(self: JournalledGate, private: Any, cost: float) -> Any:
            public = inner(self, private, cost)
            value = public.value.tobytes() if hasattr(public, "value") else str(public.index).encode()
            digest = hashlib.sha256(value).hexdigest()[:16]
            os.write(notes, f"{self._position.at} {public.event.mu!r} {digest}\n".encode())
            return public

        return noted

    JournalledGate.release = noting("release")  # type: ignore[method-assign]
    users, _ = cg.datasets.make_shared_subspace(n_users=1500, rows_per_user=5, n_features=10, rank=2, seed=0)
    cg.SingleModel(epsilon=0.05).fit(users)  # warm up: what must be compiled or loaded is there before the clock starts
    (Path(folder) / "started").touch()
    people = DurableLedger(address).population(PEOPLE)
    model = cg.PrivateFedRep(2, DECLARED.epsilon, DECLARED.delta, keep_heads=False)
    journal = Journal(Path(folder) / "journal")  # as `train` does: it stays until the board is written
    board = model.fit(users, ledger=people, checkpoint=journal).billboard_
    board.save(Path(folder) / "board")
    journal.remove()


def kill_and_resume(address: str, kills: int, within: float, seed: int) -> Resumed:
    """Kill trainers until so many are dead, each within so many seconds; go on with each fit until it has a board."""
    chance, result = random.Random(seed), Resumed()
    with progress_bar("kills", kills, True) as advance:
        while result.kills < kills:
            folder = Path(tempfile.mkdtemp(prefix="fit-"))
            while not (folder / "board" / "statement.json").exists():
                spare = result.kills >= kills
                process = _processes.Process(target=train_to_the_end, args=(address, str(folder)))
                (folder / "started").unlink(missing_ok=True)
                process.start()
                while not (folder / "started").exists() and process.is_alive():
                    time.sleep(0.002)
                process.join(None if spare else chance.uniform(0, within))
                if process.is_alive():
                    process.kill()
                    process.join()
                    result.kills += 1
                    advance()
                elif process.exitcode:
                    result.problems.append(f"ended with {process.exitcode}")
                    return result
                look(result, address, folder, killed=process.exitcode == -signal.SIGKILL)
            result.boards += 1
            problem = problem_with(folder / "board", DurableLedger(address))
            result.problems += [] if problem is None else [problem]
    return result


def look(result: Resumed, address: str, folder: Path, killed: bool) -> None:
    """Compare the ledger with what was handed on."""
    lines = (folder / "handed on").read_text().splitlines() if (folder / "handed on").exists() else []
    handed: dict[int, set[tuple[str, str]]] = {}
    for line in lines:
        place, mu, digest = line.split()
        handed.setdefault(int(place), set()).add((mu, digest))
    result.drawn_twice += sum(len(values) > 1 for values in handed.values())
    mine = sum((cost_of(float(mu)) for values in handed.values() for mu, _ in values), Fraction(0))
    account = DurableLedger(address).population(PEOPLE).account()
    open_here = list(account.open.values())
    charged = open_here[-1].charged if open_here else mine
    result.undercounts += not mine <= charged <= cost_of(DECLARED.mu)
    result.undercounts += len(open_here) > 1
    if killed:
        result.at[len(handed)] += 1
        result.unwritten += bool(open_here) and open_here[-1].charges > len(handed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    address = str(Path(tempfile.mkdtemp(prefix="ledger-")) / "budget.db")
    DurableLedger(address, create=True).open_population(PEOPLE, Budget(1000.0, 1e-6))
    started = time.monotonic()
    result = kill_and_resume(address, arguments.kills, 1.5, arguments.seed)
    for name in ("kills", "boards", "undercounts", "drawn_twice", "unwritten", "problems"):
        print(f"{name}: {getattr(result, name)}")
    print(f"kills by releases handed on: {dict(sorted(result.at.items()))}; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
