"""How close Private FedRep comes to the floor: MSE ÷ floor for the settings of the papers, with defaults only.

    python benchmarks/frontier.py            # 20 seeds a row, a few minutes on two cores
    python benchmarks/frontier.py --seeds 3

The floor is the population MSE of heads fitted with the true embedding on the same rows. Noise is simulated, so that the
table can be repeated; nothing is tuned per row. Prints mean, worst and the target, and writes CSV beside it.
"""

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.progress import progress_bar


@dataclass(frozen=True)
class Setting:
    n: int
    epsilon: float
    rank: int = 2
    rows: int = 10
    d: int = 50
    noise: float = 0.01
    target: float | None = None  # of the worst seed
    recipe: str = "default"


SETTINGS = [
    Setting(20_000, 1.0, target=1.005),
    Setting(20_000, 0.25),
    Setting(20_000, 0.1, target=1.20),
    Setting(5_000, 1.0, target=1.04),
    Setting(3_000, 1.0),
    Setting(2_000, 1.0, target=1.4),
    Setting(1_500, 1.0),
    Setting(1_000, 1.0, target=5.0),
    Setting(1_000, 2.0),
    Setting(20_000, 1.0, rank=5, target=1.03),
    Setting(5_000, 1.0, rows=20),
    Setting(5_000, 1.0, rows=4, target=2.0),
    Setting(20_000, 1.0, d=200),
    Setting(20_000, 1.0, noise=1.0),
    Setting(20_000, 1.0, recipe="paper"),
]


def ratio(setting: Setting, seed: int) -> float:
    users, truth = cg.datasets.make_shared_subspace(
        setting.n, setting.rows, setting.d, setting.rank, setting.noise, seed=seed
    )
    model = cg.PrivateFedRep(
        setting.rank, setting.epsilon, recipe=setting.recipe, fit_intercept=False, shared_mean=False, keep_heads=False,
        simulation_seed=seed,
    )  # fmt: skip
    board = model.fit(users).billboard_
    floor = cg.metrics.population_mse(truth.embedding, users, truth)
    return cg.metrics.population_mse(board, users, truth) / floor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most-people", type=int, default=10**9, help="leave out larger populations")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    arguments = parser.parse_args()
    table = Table(title=f"MSE ÷ floor over {arguments.seeds} seeds, δ = 1e-6, defaults only")
    columns = ["n", "ε", "d", "k", "rows", "noise", "recipe", "mean", "median", "worst", "target (worst)", "s/fit"]
    for name in columns:
        table.add_column(name, justify="right")
    written = []
    settings = [setting for setting in SETTINGS if setting.n <= arguments.most_people]
    with progress_bar("frontier", len(settings) * arguments.seeds, enabled=True) as advance:
        for s in settings:
            started, ratios = time.perf_counter(), []
            for seed in range(arguments.seeds):
                ratios.append(ratio(s, seed))
                advance()
            seconds = (time.perf_counter() - started) / arguments.seeds
            mean, median, worst = np.mean(ratios), np.median(ratios), max(ratios)
            row = [f"{s.n:,}", f"{s.epsilon:g}", s.d, s.rank, s.rows, s.noise, s.recipe, f"{mean:.4g}", f"{median:.4g}"]
            verdict = "" if s.target is None else f"{s.target:g} {'met' if worst <= s.target else 'MISSED'}"
            table.add_row(*map(str, row), f"{worst:.5g}", verdict, f"{seconds:.1f}")
            written.append([*row, worst, s.target, seconds])
    Console(width=130).print(table)
    arguments.out.mkdir(exist_ok=True)
    with open(arguments.out / "frontier.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *written])


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", cg.errors.RecipeWarning)
    main()
