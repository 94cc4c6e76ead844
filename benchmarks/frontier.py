"""How close Private FedRep comes to the floor: MSE ÷ floor for the settings of the papers, with defaults only.

    python benchmarks/frontier.py            # 20 seeds a row, a few minutes on two cores
    python benchmarks/frontier.py --seeds 3
    python benchmarks/frontier.py --hard --seeds 5                                   # data nobody tuned for, instead
    python benchmarks/frontier.py --figure docs/figures/private_fedrep.svg --seeds 3 # the figure instead

The floor is the population MSE of heads fitted with the true embedding on the same rows. Noise is simulated, so that the
table can be repeated; nothing is tuned per row. Prints mean, worst and the target, and writes CSV beside it.
"""

import argparse
import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
import hard_people
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


DEFAULT = Setting(20_000, 1.0)
# What each panel varies, from the papers' setting.
PANELS: dict[str, tuple[str, tuple[float, ...]]] = {
    "rank": ("rank k", (1, 2, 3, 5, 8)),
    "d": ("features d", (10, 20, 50, 100, 200)),
    "rows": ("rows a person", (4, 6, 10, 20, 40)),
    "noise": ("standard deviation of label noise", (0.01, 0.1, 0.3, 1.0)),
}
PEOPLE, EPSILONS = (1_000, 2_000, 5_000, 10_000, 20_000), (0.25, 1.0, 4.0)


def draw(path: Path, seeds: int) -> None:
    """What privacy adds to the error, against the number of people at several ε, and against what is varied in PANELS."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    axes = figure.subplot_mosaic([["n", "rank", "d"], ["n", "rows", "noise"]])
    with progress_bar("figure", len(PEOPLE) * len(EPSILONS) + sum(len(v) for _, v in PANELS.values()), True) as advance:

        def excess(setting: Setting) -> float:
            advance()
            found = float(np.median([ratio(setting, seed) for seed in range(seeds)]))
            print(setting, f"{found:.4f}")
            return max(found - 1, 3e-4)  # heads with a released prior may be better than the floor's, which have none

        for epsilon in EPSILONS:
            axes["n"].plot(
                PEOPLE, [excess(Setting(n, epsilon)) for n in PEOPLE], "o-", label=f"ε = {epsilon:g}", markersize=4
            )
        for name, (label, values) in PANELS.items():
            axes[name].plot(values, [excess(replace(DEFAULT, **{name: value})) for value in values], "o-", markersize=4)
            axes[name].set(xscale="log", yscale="log", xlabel=label, ylim=(3e-4, 1))
            axes[name].set_xticks(values, [f"{value:g}" for value in values])
            axes[name].minorticks_off()
    axes["n"].set(xscale="log", yscale="log", xlabel="people", ylabel="MSE ÷ floor − 1")
    axes["n"].set_xticks(PEOPLE, [f"{n:,}" for n in PEOPLE])
    axes["n"].minorticks_off()
    axes["n"].legend()
    figure.suptitle(
        "What privacy adds to the error (50 features, rank 2, 10 rows, noise 0.01; right: n = 20,000, ε = 1)"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most-people", type=int, default=10**9, help="leave out larger populations")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--hard", action="store_true", help="data nobody tuned for (hard_people.py)")
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()
    if arguments.hard:
        hard_people.print_tables(arguments.seeds)
        return
    if arguments.figure is not None:
        draw(arguments.figure, arguments.seeds)
        return
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
