"""Every cell of P4's tables, one JSON line each; made for a GPU, which several processes share.

python benchmarks/joint_tables.py speed table1 baselines fedavg table2 figure1 table4 --out cells.jsonl [--processes 8]

Speed is measured first, alone on the machine. Jobs are begun in the order in which they are named; cells are added to the
file as they are made, so a run that is cut short loses little. Those of the documentation are in docs/measured/joint_cells.jsonl,
and ``--have`` that file leaves out jobs of FedAvg and of table 4 whose cells it holds. FedAvg fills a GPU by itself: give it one
process. Torch, NumPy, SciPy, scikit-learn, dp-accounting and safetensors must be installed; for the others see stand_ins.py.
"""

import argparse
import gc
import itertools
import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

import stand_ins  # noqa: F401  (before commonground)
from commonground.reproduce.p4_cells import (
    LAYERS,
    RECORDS_PER_USER,
    TABLE_4_OWNERS,
    Cell,
    Study,
    figure1_cells,
    table1_baseline_cells,
    table1_joint_cells,
    table2_cells,
    table4_cells,
    table4_levels,
)
from commonground.reproduce.p4_fedavg import WAYS, table1_fedavg_cells
from joint_speed import throughput, training_runs

Job = tuple[str, Callable[..., Iterable[Cell]], tuple[Any, ...]]  # the table, what makes its cells, and of what


def jobs(what: str, seeds: list[int], study: Study, have: set[tuple[Any, ...]]) -> Iterable[Job]:
    few = 16 if study.fast else 256
    if what == "fedavg":  # every data set and seed side by side; cheap ones first
        for n in study.owners[::-1]:
            cells = {s: {("table1", d, n, s, way) for d in study.datasets for way in WAYS} for s in seeds}
            if wanted := [s for s in seeds if not cells[s] <= have]:
                yield "table1", table1_fedavg_cells, (study, n, study.datasets, wanted)
    if what == "table4":  # one job for each noise, which takes longer to calibrate than a GPU to train with it
        for k, epsilon in itertools.product(RECORDS_PER_USER[::-1], (1.0, 3.0, 8.0)):
            for level in table4_levels(k, epsilon == 1.0):
                every = itertools.product(TABLE_4_OWNERS, seeds)
                if missing := [(n, seed) for n, seed in every if ("table4", k, epsilon, level, n, seed) not in have]:
                    yield what, table4_row, (study, k, epsilon, level, missing)
    for seed in seeds:
        for dataset in study.datasets:
            if what == "table1":
                yield what, table1_joint_cells, (study, dataset, seed)
            if what == "baselines":
                yield "table1", table1_baseline_cells, (study, dataset, seed)
        if what == "table2":
            for personal in LAYERS:
                yield what, table2_cells, (study, personal, few, seed)
        if what == "figure1":
            for epsilon in (1.0, 2.0, 5.0, 10.0, 100.0):
                yield what, figure1_cells, (study, epsilon, seed)


def table4_row(study: Study, k: int, epsilon: float, level: str, ns_and_seeds: list[tuple[int, int]]) -> Iterable[Cell]:
    for n, seed in ns_and_seeds:
        yield from table4_cells(study, k, epsilon, level, n, seed)


def measured(file: Path | None) -> set[tuple[Any, ...]]:
    """What tells apart the cells of FedAvg and of table 4 that a file holds."""
    fields = {
        "table1": ("dataset", "n", "seed", "method"),
        "table4": ("records_per_user", "epsilon", "level", "n", "seed"),
    }
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    cells = [cell for cell in map(json.loads, lines) if cell["table"] in fields]
    return {(cell["table"], *(cell[name] for name in fields[cell["table"]])) for cell in cells}


def speed() -> Iterable[Cell]:
    """Training runs with noise from real entropy, then per-sample gradients a second."""
    for seconds in training_runs(3):
        yield {"seconds": seconds}
    yield {"rows": 512, "records_per_second": throughput(512, 1.0)}


def work(todo: list[Job], taken: Any, began: float, seconds: float, out: Path, share: float) -> None:
    """Take jobs until there are none, or no time."""
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)
    while True:
        with taken.get_lock():
            at, taken.value = taken.value, taken.value + 1
        if at >= len(todo) or time.time() - began > seconds:
            return
        table, make, of = todo[at]
        start = time.time()
        try:
            for cell in make(*of):
                line = json.dumps({"table": table, **cell, "at": round(time.time() - began, 1)})
                with open(out, "a", encoding="utf-8") as file:
                    file.write(f"{line}\n")  # one write a line: processes share the file
        except Exception:  # one job that fails must not take the others with it
            traceback.print_exc()
        gc.collect()  # what a recording holds on a GPU goes with it
        torch.cuda.empty_cache()
        print(
            f"{time.time() - began:6.1f} s: {at + 1} of {len(todo)}, {table}, {time.time() - start:.1f} s", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--have", type=Path, help="cells that are measured")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(5)))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so many seconds")
    parser.add_argument("--fast", action="store_true", help="scikit-learn's digits, to try it out")
    arguments = parser.parse_args()
    began, study, have = time.time(), Study(arguments.fast), measured(arguments.have)
    torch.set_num_threads(1)  # threads do not outlive a fork
    for dataset in study.datasets:
        study.data(dataset, 4, 0)  # images are read once, for all processes
    todo = [job for what in arguments.what for job in jobs(what, arguments.seeds, study, have)]
    together = multiprocessing.get_context("fork")

    def run(todo: list[Job], n_processes: int, seconds: float) -> None:
        given = (todo, together.Value("i", 0), began, seconds - 8, arguments.out, 0.9 / n_processes)
        processes = [together.Process(target=work, args=given) for _ in range(n_processes)]
        for process in processes:
            process.start()
        for process in processes:
            left = seconds - (time.time() - began)
            process.join(None if left == float("inf") else max(left, 0.1))
            if process.is_alive():
                process.kill()

    if "speed" in arguments.what:
        run([("speed", speed, ())], 1, min(arguments.seconds, 60.0))
    run(todo, arguments.processes, arguments.seconds)


if __name__ == "__main__":
    main()
