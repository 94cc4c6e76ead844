"""How far one machine goes, and what Ray costs and survives. Each fit runs in a process of its own.

    python benchmarks/scale.py local --folder /tmp/scale            # 0.1, 1 and 10 million people: about 9 GB of Parquet
    python benchmarks/scale.py ray --folder /tmp/scale --people 1000000
    python benchmarks/scale.py kill --folder /tmp/scale --people 100000

People have 10 rows of 20 features (float32) and share two directions. Tables are written once, person by person, and stay in
the folder. "One read" decodes all columns of all files, batch after batch, and does nothing with them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

D, ROWS, RANK, NOISE = 20, 10, 2, 0.1
PEOPLE_PER_FILE, PEOPLE_AT_ONCE = 250_000, 10_000
SETTINGS = {"rank": RANK, "epsilon": 1.0, "delta": 1e-8, "keep_heads": False, "simulation_seed": 1}
console = Console(width=130)


def write_people(folder: Path, n: int, seed: int = 0) -> Path:
    """Parquet files of n people; the same for the same n and seed."""
    target = folder / f"people-{n}"
    if target.exists():
        return target
    draft = folder / f"draft-{n}"
    draft.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    embedding = np.linalg.qr(rng.standard_normal((D, RANK)))[0].astype(np.float32)
    schema = pa.schema([("user_id", pa.int64()), ("y", pa.float32()), *((f"x{a}", pa.float32()) for a in range(D))])
    options: dict[str, Any] = {"use_dictionary": ["user_id"], "compression": "none"}  # random numbers do not compress
    for first in range(0, n, PEOPLE_PER_FILE):
        with pq.ParquetWriter(draft / f"{first:09}.parquet", schema, **options) as writer:
            for start in range(first, min(first + PEOPLE_PER_FILE, n), PEOPLE_AT_ONCE):
                people = np.arange(start, min(start + PEOPLE_AT_ONCE, first + PEOPLE_PER_FILE, n))
                X = rng.standard_normal((len(people), ROWS, D), dtype=np.float32)
                heads = rng.standard_normal((len(people), RANK), dtype=np.float32)
                y = np.einsum("jid,dk,jk->ji", X, embedding, heads, optimize=True)
                y += NOISE * rng.standard_normal(y.shape, dtype=np.float32)
                columns = [np.repeat(people, ROWS), y.ravel(), *np.ascontiguousarray(X.reshape(-1, D).T)]
                writer.write_table(pa.table(columns, schema=schema))
    draft.rename(target)
    return target


def one_read(folder: Path) -> np.ndarray:
    """Seconds on the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    for path in sorted(folder.iterdir()):
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=2**16) as file:
            for _ in file.iter_batches(12_000, use_threads=False):
                pass
    return np.array([time.perf_counter() - clock, time.process_time() - processor])


# --- one fit, in this process --------------------------------------------------------------------------------------------


def fit(folder: Path, engine: str, max_memory: int, rounds: int | None, cores: int) -> dict[str, float]:
    os.environ["NUMBA_NUM_THREADS"] = str(cores)
    sys.modules["pandas"] = None  # type: ignore[assignment] # a development tool, which scikit-learn would load (50 MB)
    import commonground as cg

    start_up, processor = 0.0, time.process_time
    if engine == "ray":
        from commonground.engines.ray import connect, ray

        started = time.perf_counter()
        ray.init("local", num_cpus=cores, include_dashboard=False, log_to_driver=False)
        readers = connect(None)
        start_up = time.perf_counter() - started

        def processor() -> float:
            """Of this process and the readers."""
            asked = [reader.__ray_call__.remote(lambda _: time.process_time()) for reader in readers._at_home]
            return time.process_time() + sum(ray.get(asked))

    started, started_processor = time.perf_counter(), processor()
    users = cg.Users.from_table(folder, engine=engine, max_memory=max_memory)
    opened, opened_processor = time.perf_counter(), processor()
    model = cg.PrivateFedRep(**SETTINGS, n_rounds=rounds).fit(users)
    ended, ended_processor = time.perf_counter(), processor()
    peak_kib = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert peak_kib is not None
    return {
        "start up": start_up, "open": opened - started, "open, processor": opened_processor - started_processor,
        "fit": ended - opened, "fit, processor": ended_processor - opened_processor,
        "peak MB": int(peak_kib[1]) * 1024 / 1e6, "reads": len(reads_of(model)),
    }  # fmt: skip


def reads_of(model: Any) -> list[str]:
    """Rows are read once for each release, except that a round's sizes and clipped sum share one read."""
    return [event.name for event in model.billboard_.statement.events if not event.name.endswith(": clipped sum")]


def in_a_process_of_its_own(*arguments: object) -> dict[str, float]:
    run = subprocess.run([sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=False)
    answers = [line for line in run.stdout.splitlines() if line.startswith("{")]  # Ray writes there, too
    if run.returncode or not answers:
        raise SystemExit(f"exit code {run.returncode}\n{run.stdout}\n{run.stderr}")
    result: dict[str, float] = json.loads(answers[-1])
    return result


# --- tables ------------------------------------------------------------------------------------------------------------


def local(folder: Path, sizes: list[int], options: list[str]) -> None:
    table = Table(
        title="PrivateFedRep on one machine, rows streamed from Parquet; seconds on the clock (of the processor)"
    )
    headings = (
        "people", "Parquet, GB", "one read", "open", "fit", "reads", "fit ÷ one read", "µs a person", "peak, MB",
        "1.5 × budget + 300 MB",
    )  # fmt: skip
    for heading in headings:
        table.add_column(heading, justify="right")
    for n in sizes:
        data = write_people(folder, n)
        n_bytes = sum(path.stat().st_size for path in data.iterdir())
        budget = max(n * ROWS * (D + 1) * 4 // 10, 64 * 2**20)
        one_read(data)
        read = one_read(data)
        got = in_a_process_of_its_own("fit", "--folder", data, "--max-memory", budget, *options)
        read = (read + one_read(data)) / 2  # before and after: machines are shared
        fit = np.array([got["fit"], got["fit, processor"]])
        allowed = 1.5 * budget / 1e6 + 300
        table.add_row(
            f"{n:,}", f"{n_bytes / 1e9:.2f}", both(read, 2), both([got["open"], got["open, processor"]], 1), both(fit, 1),
            f"{got['reads']:.0f}", both(fit / read, 1), both(1e6 * fit / n, 1), f"{got['peak MB']:,.0f}",
            f"{allowed:,.0f} {'met' if got['peak MB'] <= allowed else 'MISSED'}",
        )  # fmt: skip
        console.print(table)


def both(seconds: Any, digits: int) -> str:
    return f"{seconds[0]:.{digits}f} ({seconds[1]:.{digits}f})"


def ray_overhead(folder: Path, n: int, options: list[str]) -> None:
    data = write_people(folder, n)
    table = Table(
        title=f"{n:,} people, the same cores; seconds on the clock (of the processor, all processes together)"
    )
    for heading in ("rows", "engine", "start Ray", "open", "fit", "fit ÷ local", "open + fit ÷ local", "driver, MB"):
        table.add_column(heading, justify="left" if heading in ("rows", "engine") else "right")
    for rows, max_memory in (("in memory", 2 * 2**30), ("streamed", 2**20)):
        base = None
        for engine in ("local", "ray"):
            got = in_a_process_of_its_own(
                "fit", "--folder", data, "--max-memory", max_memory, "--engine", engine, *options
            )
            opened, fit = (np.array([got[what], got[f"{what}, processor"]]) for what in ("open", "fit"))
            base = base or (opened, fit)
            table.add_row(
                rows, engine, f"{got['start up']:.1f}", both(opened, 1), both(fit, 1), both(fit / base[1], 2),
                both((opened + fit) / (base[0] + base[1]), 2), f"{got['peak MB']:,.0f}",
            )  # fmt: skip
        console.print(table)


def kill(folder: Path, n: int) -> None:
    data = write_people(folder, n)
    for killed_in in (4, 12, 20):
        got = in_a_process_of_its_own("killed", "--folder", data, "--killed-in", killed_in)
        console.print(
            f"{n:,} people, a node killed {got['after']:.2f} s into sum {got['sum']:.0f} of {got['sums']:.0f}: the longest sum "
            f"from there on took {got['longest']:.1f} s (median of all: {got['median']:.2f} s); the billboard differs from the "
            f"local one by {got['difference']:.1e} at most"
        )


def fit_with_a_node_killed(folder: Path, killed_in: int) -> dict[str, float]:
    """Two nodes of one core each; the second one goes in the middle of a sum."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    import commonground as cg

    expected = cg.PrivateFedRep(**SETTINGS).fit(cg.Users.from_table(folder)).billboard_
    cluster = Cluster()
    node: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    cluster.add_node(**node)
    second = cluster.add_node(**node)
    users = cg.Users.from_table(folder, engine="ray", address=cluster.address)
    on_ray, times = users.engine.sum, []

    started = [0.0]
    killed: list[float] = []  # in which sum, and how long after it had begun

    def remove() -> None:
        killed.extend([len(times) + 1, time.perf_counter() - started[0]])
        cluster.remove_node(second, allow_graceful=False)

    class Killing:
        def sum(self, weights: Any, statistic: Any) -> Any:
            if len(times) + 1 == killed_in:
                threading.Timer(times[-1] / 2, remove).start()
            started[0] = time.perf_counter()
            total = on_ray(weights, statistic)
            times.append(time.perf_counter() - started[0])
            return total

    users.engine = Killing()
    board = cg.PrivateFedRep(**SETTINGS).fit(users).billboard_
    assert expected.mean is not None
    assert board.mean is not None
    difference = max(np.abs(board.embedding - expected.embedding).max(), np.abs(board.mean - expected.mean).max())
    ray.shutdown()
    cluster.shutdown()
    return {
        "sum": killed[0], "after": killed[1], "sums": len(times), "longest": max(times[killed_in - 1 :]),
        "median": float(np.median(times)), "difference": float(difference),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["local", "ray", "kill", "fit", "killed"])
    parser.add_argument("--folder", type=Path, required=True, help="where tables are written (for fit: a table)")
    parser.add_argument("--people", type=int, nargs="*", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--max-memory", type=int, default=2 * 2**30)
    parser.add_argument("--engine", default="local")
    parser.add_argument(
        "--rounds", type=int, help="gradient rounds; as many as the estimator takes by itself if not given"
    )
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--killed-in", type=int, default=3)
    given = parser.parse_args()
    options = ["--cores", str(given.cores)] + ([] if given.rounds is None else ["--rounds", str(given.rounds)])
    if given.what == "local":
        local(given.folder, given.people, options)
    elif given.what == "ray":
        ray_overhead(given.folder, given.people[0], options)
    elif given.what == "kill":
        kill(given.folder, given.people[0])
    elif given.what == "fit":
        print(json.dumps(fit(given.folder, given.engine, given.max_memory, given.rounds, given.cores)))
    else:
        print(json.dumps(fit_with_a_node_killed(given.folder, given.killed_in)))
