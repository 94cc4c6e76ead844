"""How fast a private round is, and how much memory a table larger than memory takes. Ratios come from one run.

    make bench

Absolute times drift on shared machines; the ratio to one read of the same rows (X.sum()) does not. A round is everything
between two embeddings: contributions, sizes and clipped sum through the gate (OpenDP noise), step.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.rounds import release_clipped

PUBLISHED_PEOPLE_PER_SECOND = 3_500  # P2's published script, one method, measured on two cores
console = Console(width=120)


def best_of(run: Callable[[], object], repeats: int = 7) -> float:
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def population(n: int, rows: int | tuple[int, int], d: int, seed: int = 0) -> cg.Users:
    rng = np.random.default_rng(seed)
    sizes = np.full(n, rows) if isinstance(rows, int) else rng.integers(rows[0], rows[1] + 1, n)
    X = rng.standard_normal((sizes.sum(), d), dtype=np.float32)
    return cg.Users.from_arrays(X, rng.standard_normal(len(X), dtype=np.float32), np.repeat(np.arange(n), sizes))


def sums_over_people(users: cg.Users, k: int) -> float:
    """Seconds for the part of a round that reads the rows."""
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((users.n_features, k)))[0]
    return best_of(
        lambda: [EmbeddingGradients(SharedModel(U, None, 0.0, False), 113).of(block) for block in users.blocks()]
    )


def private_round(users: cg.Users, k: int) -> float:
    """Seconds for one round, gate included: drawing the noise takes about 12 µs a number, whatever the number of people."""
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((users.n_features, k)))[0]

    def sums_from(lowest: int):  # type: ignore[no-untyped-def]
        parts = [EmbeddingGradients(SharedModel(U, None, 0.0, False), lowest).of(block) for block in users.blocks()]
        return sum(parts[1:], start=parts[0])

    def run() -> None:
        gate = Gate(InMemoryLedger(Budget(8.0, 1e-6)), randomness_from(None))
        release_clipped(sums_from, 121, gate, mu_size=0.1, mu_sum=0.1, name="round")

    return best_of(run)


def one_read(users: cg.Users) -> float:
    X = next(iter(users.blocks(max_bytes=2**40))).X
    return best_of(X.sum)


def rounds_against_reads() -> None:
    table = Table(title="One private round ÷ one read of the rows (float32, 50 features)")
    for name in (
        "people",
        "rows each",
        "k",
        "read, ms",
        "sums ÷ read",
        "round, ms",
        "round ÷ read",
        "people / s",
        "× published script",
    ):
        table.add_column(name, justify="right")
    for rows, ks in ((10, (1, 2, 3, 5, 8)), ((1, 39), (2, 3, 5, 8))):
        users = population(200_000, rows, 50)
        read = one_read(users)
        for k in ks:
            sums, seconds = sums_over_people(users, k), private_round(users, k)
            speed = users.n_users / seconds
            table.add_row(
                f"{users.n_users:,}", str(rows), str(k), f"{read * 1e3:.1f}", f"{sums / read:.2f}", f"{seconds * 1e3:.1f}",
                f"{seconds / read:.2f}", f"{speed:,.0f}", f"{speed / PUBLISHED_PEOPLE_PER_SECOND:,.0f}",
            )  # fmt: skip
    console.print(table)


def whole_fits() -> None:
    """PrivateFedRep by default, from rows in memory to a billboard, and to everybody's head."""
    n, rows, d = 200_000, 10, 50
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(n), rows), rng.standard_normal((n * rows, d), dtype=np.float32)
    own, U = rng.standard_normal((n, 2)), np.linalg.qr(rng.standard_normal((d, 2)))[0]
    y = X @ (rng.standard_normal(d) / d**0.5) + ((X @ U) * own[ids]).sum(axis=1) + 0.5 * rng.standard_normal(n * rows)
    users, few = cg.Users.from_arrays(X, y, ids), cg.Users.from_arrays(X[:20_000], y[:20_000], ids[:20_000])
    cg.PrivateFedRep(2, simulation_seed=0).fit(few)  # compiles
    table = Table(title=f"A whole fit ÷ one read of the rows ({n:,} people, {rows} rows each, {d} features, float32)")
    for name in ("", "read, ms", "fit, s", "processor time, s", "fit ÷ read", "releases"):
        table.add_column(name, justify="right" if name else "left")
    for keep, label in ((False, "without heads"), (True, "with everybody's head")):
        read, model = one_read(users), cg.PrivateFedRep(2, keep_heads=keep, simulation_seed=0)
        began, worked = time.perf_counter(), time.process_time()
        model.fit(users)
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        events = len(model.billboard_.statement.events)
        table.add_row(
            label, f"{read * 1e3:.1f}", f"{seconds:.1f}", f"{worked:.1f}", f"{seconds / read:.0f}", f"{events}"
        )
    console.print(table)


def growth() -> None:
    table = Table(title="How the time of a round grows (base: 50,000 people, 50 features, k = 2, 10 rows)")
    for name in ("what", "×1, ms", "×2, ms", "×4, ms", "×4 ÷ ×1"):
        table.add_column(name, justify="left" if name == "what" else "right")
    base = {"n": 50_000, "d": 50, "k": 2, "rows": 10}
    for what in base:
        times = []
        for factor in (1, 2, 4):
            s = {**base, what: base[what] * factor}
            times.append(private_round(population(s["n"], s["rows"], s["d"]), s["k"]))
        table.add_row(what, *(f"{t * 1e3:.1f}" for t in times), f"{times[2] / times[0]:.1f}")
    console.print(table)


CHILD = """
import re, sys, time
sys.modules["pandas"] = None  # a development tool here, which scikit-learn would load (50 MB) where it is installed
from pathlib import Path
import commonground as cg
path, budget = sys.argv[1], int(sys.argv[2])
users = cg.Users.from_table(path, max_memory=budget)
assert users.streamed
started = time.perf_counter()
cg.PrivateFedRep(2, 1.0, n_rounds=3, keep_heads=False, fit_intercept=False, shared_mean=False).fit(users)
peak_kib = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())  # ru_maxrss would count the parent, too
print(int(peak_kib[1]) * 1024, time.perf_counter() - started)
"""


def memory(budget: int) -> None:
    """Train on a Parquet table ten times the block budget, in a process of its own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    d, rows_each = 50, 10
    n = 10 * budget // (rows_each * d * 4)
    table = Table(title=f"Training on a Parquet table 10 × larger than the block budget of {budget / 2**20:.0f} MiB")
    for name in ("rows", "table, MiB", "peak memory, MiB", "target: 1.5 × budget + 300 MB", "seconds"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for order in ("sorted by person", "shuffled"):
            path, rng = Path(folder) / f"{order}.parquet", np.random.default_rng(0)
            schema = pa.schema(
                [("user_id", pa.int64()), ("y", pa.float32()), *[(f"x{a}", pa.float32()) for a in range(d)]]
            )
            with pq.ParquetWriter(path, schema) as writer:
                for start in range(0, n, 5_000):
                    ids = np.repeat(np.arange(start, min(start + 5_000, n)), rows_each)
                    if order == "shuffled":
                        ids = rng.integers(0, n, len(ids))
                    X = rng.standard_normal((d, len(ids)), dtype=np.float32)
                    columns = [ids, rng.standard_normal(len(ids), dtype=np.float32), *X]
                    writer.write_table(pa.table(columns, schema=schema))
            result = subprocess.run(
                [sys.executable, "-c", CHILD, str(path), str(budget)], capture_output=True, text=True, check=True
            )
            peak, seconds = map(float, result.stdout.split())
            allowed = 1.5 * budget + 300e6
            verdict = f"{allowed / 2**20:,.0f} {'met' if peak <= allowed else 'MISSED'}"
            size = n * rows_each * d * 4
            table.add_row(order, f"{size / 2**20:,.0f}", f"{peak / 2**20:,.0f}", verdict, f"{seconds:.1f}")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory-budget-mib", type=int, default=64)
    arguments = parser.parse_args()
    rounds_against_reads()
    whole_fits()
    growth()
    memory(arguments.memory_budget_mib * 2**20)
