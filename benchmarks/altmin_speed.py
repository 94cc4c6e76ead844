"""How fast Private AltMin's system is built: per-person moments against the row-by-row way of the published experiments.

    python benchmarks/altmin_speed.py                     # 20,000 people, 10 rows, 50 features, rank 2
    python benchmarks/altmin_speed.py --people 200000

The slow way does what the published script does for each person and round: a least-squares head from her first 5 rows, then
for each of these rows vec(x vᵀ), clipped, its dk × dk outer product and its product with the clipped label, added up in NumPy
float64. It is timed on the first people only (--slow-people) and given per person. Both run in this one process, on the same
people, the fast way best of several repetitions; the sums are compared, too. A whole round adds noise and the solution.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.estimators.altmin import paper as altmin_paper
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.statistics.paper.altmin import System
from commonground.steps.moment_system import release_moment_system

ETA = ZETA = 1e-4


def row_by_row(X: np.ndarray, y: np.ndarray, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ W Wᵀ and Σ ỹ W over (people, rows, d) arrays, one row after another."""
    size = U.size
    matrix, vector = np.zeros((size, size)), np.zeros(size)
    for rows, labels in zip(X, y, strict=True):
        v = np.linalg.lstsq(rows @ U, labels, rcond=None)[0]
        for x, label in zip(rows, labels, strict=True):
            W = np.outer(x, v).ravel(order="F")
            W = W * min(1.0, ETA / np.linalg.norm(W))
            matrix += np.outer(W, W)
            vector += np.clip(label, -ZETA, ZETA) * W
    return matrix, vector


def seconds(work: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Of the clock, and of all processors together: the latter hardly changes when others use the machine, too."""
    clock, processors = [], []
    for _ in range(repetitions):
        started = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - started[0])
        processors.append(time.process_time() - started[1])
    return min(clock), min(processors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--slow-people", type=int, default=2_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=10)
    arguments = parser.parse_args()
    n, some, k = arguments.people, arguments.slow_people, arguments.rank
    users, truth = cg.datasets.make_shared_subspace(n, 10, arguments.features, k, seed=0)
    U, settings = truth.embedding, altmin_paper.AltMinSettings()
    block = next(users.blocks(max_bytes=2**40))
    X = block.X[: some * 10].reshape(some, 10, -1)[:, :5].astype(np.float64)
    y = block.y[: some * 10].reshape(some, 10)[:, :5].astype(np.float64)

    def fast(people: cg.Users = users) -> object:
        return altmin_paper._system(people, U, settings)

    def whole_round(seed: int | None) -> object:
        gate = Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(seed))
        matrix, vector = altmin_paper._system(users, U, settings)
        noisy = gate.release(matrix.bounded("matrix"), 0.05), gate.release(vector.bounded("vector"), 0.05)
        return np.linalg.qr(altmin_paper._solve(*noisy).reshape(k, -1).T)[0]

    def moments() -> object:
        gate = Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(0))
        return release_moment_system(users, U, None, False, gate, 0.02, 0.08)

    first = cg.Users.from_arrays(block.X[: some * 10], block.y[: some * 10], np.repeat(np.arange(some), 10))
    ours = first.sum(System(U, 10, False, ETA, ZETA)).matrix.value
    slow = [n / some * spent for spent in seconds(lambda: row_by_row(X, y, U), 3)]
    theirs = row_by_row(X, y, U)[0]
    wrong = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    timed = {
        "row by row, as published": slow,
        "from moments: both sums": seconds(fast, arguments.repetitions),
        "… with simulated noise, solved, QR": seconds(lambda: whole_round(0), arguments.repetitions),
        "… with OpenDP's noise, solved, QR": seconds(lambda: whole_round(None), 3),
        "default recipe: sizes and moments of all rows, released, repaired": seconds(moments, 3),
    }
    table = Table(title=f"One round, {n:,} people, 10 rows, {arguments.features} features, rank {k}")
    for heading in ("what", "ms", "people a second", "× row by row", "… in processor time"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for what, (clock, processors) in timed.items():
        ratios = f"{slow[0] / clock:,.0f}", f"{slow[1] / processors:,.0f}"
        table.add_row(what, f"{1e3 * clock:,.1f}", f"{n / clock:,.0f}", *ratios)
    console = Console(width=120)
    console.print(table)
    console.print(f"Largest difference of the two matrices, relative: {wrong:.1e} (heads have a tiny ridge).")


if __name__ == "__main__":
    main()
