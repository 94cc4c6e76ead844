"""Every cell of P4's tables, one JSON line each; made for a GPU, where all of it takes minutes.

python benchmarks/joint_tables.py table1 table4 table2 figure1 --out cells.jsonl [--seeds 5] [--part 0 --parts 2]
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from commonground.reproduce.p4 import (
    LAYERS,
    RECORDS_PER_USER,
    Cell,
    Study,
    figure1_cells,
    table1_cells,
    table2_cells,
    table4_cells,
)


def jobs(what: str, seeds: int, study: Study) -> Iterable[tuple[str, Callable[[], Iterable[Cell]]]]:
    name, _, few = what.partition(":")  # table2:2 runs two seeds of table 2
    for seed in range(int(few or seeds)):
        if name == "table1":
            for dataset in study.datasets:
                yield name, lambda d=dataset, s=seed: table1_cells(study, d, s)  # type: ignore[misc]
        if name == "table2":
            for personal in LAYERS:
                yield name, lambda p=personal, s=seed: table2_cells(study, p, 256, s)  # type: ignore[misc]
        if name in ("table4", "table4-eps"):
            for k in RECORDS_PER_USER:
                for epsilon in (1.0,) if name == "table4" else (3.0, 8.0):
                    for level in ("clip", "group") if k > 1 and name == "table4" else ("clip",):
                        yield (
                            "table4",
                            lambda k=k, e=epsilon, v=level, s=seed: table4_cells(study, k, e, v, (256, 4), s),  # type: ignore[misc]
                        )
        if name == "figure1":
            for epsilon in (1.0, 2.0, 5.0, 10.0, 100.0):
                yield name, lambda e=epsilon, s=seed: figure1_cells(study, e, s)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no new job after so many seconds")
    parser.add_argument("--fast", action="store_true", help="scikit-learn's digits, to try it out")
    arguments = parser.parse_args()
    study, began = Study(arguments.fast), time.perf_counter()
    todo = [job for what in arguments.what for job in jobs(what, arguments.seeds, study)]
    with open(arguments.out, "a", encoding="utf-8") as out:
        for at, (table, run) in enumerate(todo):
            if at % arguments.parts != arguments.part:
                continue
            if time.perf_counter() - began > arguments.seconds:
                print(f"stopped before job {at} of {len(todo)}")
                break
            start = time.perf_counter()
            for cell in run():
                print(json.dumps({"table": table, **cell}), file=out, flush=True)
            print(f"{table} {at + 1}/{len(todo)}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
