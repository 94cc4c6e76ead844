"""What a first use waits for, in an empty cache: starting, compiling, fitting; seconds of one core, as machines are shared.

python benchmarks/first_use.py
python benchmarks/first_use.py --commands     # every model's first and second `train`, and `evaluate TABLE`
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STARTS = {
    "import commonground": ("-c", "import commonground"),
    "commonground --help": ("-m", "commonground", "--help"),
    "commonground --version": ("-m", "commonground", "--version"),
    "commonground predict --help": ("-m", "commonground", "predict", "--help"),
    "commonground train --help": ("-m", "commonground", "train", "--help"),
    "cg.PrivateFedRep": ("-c", "import commonground as cg; cg.PrivateFedRep; cg.Users"),
}


def seconds(*arguments: str, environment: dict[str, str] | None = None) -> tuple[float, float]:
    """Wall and processor time of a Python of its own."""
    before, started = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


def first_fit(n_users: int) -> None:
    """In this process, whose cache is empty: what is compiled, what it takes; the second fit; one person's head."""
    import warnings

    import numpy as np
    from numba.core import event

    import commonground as cg

    warnings.simplefilter("ignore")

    class Compiled(event.Listener):
        """Seconds of each function without those that it calls, by room."""

        def __init__(self) -> None:
            self.begun: list[list[float]] = []
            self.seconds: dict[str, list[float]] = {}

        def on_start(self, event):  # type: ignore[no-untyped-def]
            self.begun.append([time.process_time(), 0.0])

        def on_end(self, event):  # type: ignore[no-untyped-def]
            started, of_others = self.begun.pop()
            whole = time.process_time() - started
            module = event.data["dispatcher"].py_func.__module__.split(".")
            room = module[1] if module[0] == "commonground" else "numba's own"
            self.seconds.setdefault(room, []).append(whole - of_others)
            if self.begun:
                self.begun[-1][1] += whole

    compiled = Compiled()
    event.register("numba:compile", compiled)
    users, _ = cg.datasets.make_shared_subspace(
        n_users=n_users, rows_per_user=10, n_features=20, rank=2, noise=0.5, seed=0
    )
    fits = []
    for _ in range(2):
        started = time.process_time()
        model = cg.PrivateFedRep(rank=2, epsilon=4.0, delta=1e-6).fit(users)
        fits.append(time.process_time() - started)
    print(f"first fit of {n_users:,} people {fits[0]:6.1f}   second {fits[1]:6.1f}")
    started = time.process_time()
    rng = np.random.default_rng(0)
    model.billboard_.personalize(rng.standard_normal((7, 20)), rng.standard_normal(7))
    print(f"one newcomer's head, of another type of numbers {time.process_time() - started:6.1f}")
    for room, parts in sorted(compiled.seconds.items(), key=lambda item: -sum(item[1])):
        print(f"  compiled for {room:12} {sum(parts):6.1f} in {len(parts)} functions")


def first_commands() -> None:
    """Each in an empty cache of its own, and once more: 2,000 people, 4 features, labels as the model wants them."""
    from commonground.cli.models import MODELS

    for name, entry in MODELS.items():
        if name != "ridge":  # which needs a schema
            _twice(f"train --model {name}", entry.labels == "two classes", "train", "--model", name, "--force")
    _twice("evaluate TABLE", False, "evaluate")


def _twice(title: str, classes: bool, command: str, *options: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.csv"
        _write_rows(table, classes)
        asked = command, str(table), "--user", "person", "--out", str(Path(folder) / "out"), *options
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        first, second = (seconds("-m", "commonground", *asked, environment=environment) for _ in range(2))
    print(
        f"{title:25} first {first[1]:5.1f} s of cores, {first[0]:5.1f} s; second {second[1]:4.1f}, {second[0]:4.1f}",
        flush=True,
    )


def _write_rows(path: Path, classes: bool) -> None:
    draw = random.Random(0).gauss
    lines = ["person,y,a,b,c,d"]
    for person in range(2_000):
        head = draw(0, 1)
        for _ in range(8):
            x = [draw(0, 1) for _ in range(4)]
            y = head * (x[0] + x[1]) + 0.1 * draw(0, 1)
            lines.append(",".join(map(str, [f"p{person:05}", int(y > 0) if classes else y, *x])))
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=5_000)
    parser.add_argument("--commands", action="store_true", help="first and second run of each model's `train`")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.in_this_process:
        first_fit(asked.people)
    elif asked.commands:
        first_commands()
    else:
        for name, arguments in STARTS.items():
            wall, used = min((seconds(*arguments) for _ in range(3)), key=lambda pair: pair[1])
            print(f"{name:30} {used:5.2f} s of a core, {wall:5.2f} s", flush=True)
        with tempfile.TemporaryDirectory() as empty:
            subprocess.run(
                [sys.executable, __file__, "--in-this-process", "--people", str(asked.people)],
                check=True, env={**os.environ, "NUMBA_CACHE_DIR": empty, "NUMBA_NUM_THREADS": "1"},
            )  # fmt: skip
