"""Which learner for which people: MSE ÷ floor and seconds on the same data, at the same (ε, δ), over several seeds.

    python benchmarks/compare_learners.py                      # 5 seeds, some minutes on two cores
    python benchmarks/compare_learners.py --seeds 2 --only AltMin
    python benchmarks/compare_learners.py --seeds 3 --figure docs/figures/private_altmin.svg      # the figure instead

Populations: the papers' (isotropic features), the same with features that are correlated (standard deviations along random
directions differ by a factor of 3 or 10), and fewer people. Label noise 0.01, 10 rows, 50 features, rank 2, δ = 1e-6. The floor
is the error of heads that know the true embedding, fitted on the same rows. Noise is simulated, so that the table can be
repeated; nothing is tuned per row. Heads are those that ``fit`` gives to people: the papers' recipes use half of their rows.
"""

import argparse
import csv
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.datasets import Truth
from commonground.estimators.base import PersonalModel
from commonground.heads.ridge import fit_heads
from commonground.progress import progress_bar

EPSILON, DELTA = 1.0, 1e-6
PLAIN = {"fit_intercept": False, "shared_mean": False}

# A new learner is one line here: name → model for a seed.
LEARNERS: dict[str, Callable[[int], PersonalModel]] = {
    "PrivateFedRep": lambda seed: cg.PrivateFedRep(2, EPSILON, DELTA, simulation_seed=seed, **PLAIN),
    "PrivateFedRep, paper": lambda seed: cg.PrivateFedRep(2, EPSILON, DELTA, recipe="paper", simulation_seed=seed),
    "PrivateAltMin": lambda seed: cg.PrivateAltMin(2, EPSILON, DELTA, simulation_seed=seed, **PLAIN),
    "PrivateAltMin, paper, epochs": lambda seed: cg.PrivateAltMin(
        2, EPSILON, DELTA, recipe="paper", simulation_seed=seed
    ),
    "PrivateAltMin, paper, groups": lambda seed: cg.PrivateAltMin(
        2, EPSILON, DELTA, recipe="paper", simulation_seed=seed, paper_settings=cg.AltMinSettings(schedule="groups")
    ),
    # "ExponentialSubspace": its place.
    "SingleModel": lambda seed: cg.SingleModel(EPSILON, DELTA, fit_intercept=False, simulation_seed=seed),
    "OwnDataOnly": lambda seed: cg.OwnDataOnly(fit_intercept=False),
    "NonPrivateFedRep": lambda seed: cg.NonPrivateFedRep(2, **PLAIN),
}


@dataclass(frozen=True)
class Population:
    name: str
    n_users: int
    spread: float = 1.0  # how much the standard deviations of features differ, along random directions

    def drawn(self, seed: int) -> tuple[cg.Users, Truth, np.ndarray]:
        """People, the truth before features were stretched, and the matrix S of x → S x that stretched them."""
        users, truth = cg.datasets.make_shared_subspace(self.n_users, seed=seed)
        d = users.n_features
        if self.spread == 1.0:
            return users, truth, np.eye(d)
        rotation = np.linalg.qr(np.random.default_rng([seed, 0xC0]).standard_normal((d, d)))[0]
        S = rotation * np.logspace(0, -math.log10(self.spread), d)
        block = next(users.blocks(max_bytes=2**40))
        stretched = (block.X @ S.T).astype(np.float32)
        return cg.Users.from_arrays(stretched, block.y, np.repeat(users.ids, np.diff(block.offsets))), truth, S


POPULATIONS = (
    Population("isotropic, n = 20,000", 20_000),
    Population("isotropic, n = 5,000", 5_000),
    Population("correlated × 3, n = 20,000", 20_000, 3.0),
    Population("correlated × 3, n = 5,000", 5_000, 3.0),
    Population("correlated × 10, n = 20,000", 20_000, 10.0),
)


def error(coefficients: np.ndarray, truth: Truth, S: np.ndarray) -> float:
    """On fresh rows S x with x ~ N(0, I)."""
    wrong = coefficients @ S - truth.heads @ truth.embedding.T
    return float((wrong**2).sum(axis=1).mean()) + truth.noise**2


def floor(users: cg.Users, truth: Truth, S: np.ndarray) -> float:
    U = np.ascontiguousarray(np.linalg.qr(np.linalg.inv(S).T @ truth.embedding)[0])
    heads = [fit_heads(block, U, None, 0.0, False)[0] for block in users.blocks()]
    return error(np.concatenate(heads) @ U.T, truth, S)


def measured(model: PersonalModel, users: cg.Users, truth: Truth, S: np.ndarray) -> float:
    board = model.fit(users).billboard_
    assert model.heads_ is not None
    return error(model.heads_ @ board.embedding.T + (0.0 if board.mean is None else board.mean), truth, S)


SPREADS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)


def draw(path: Path, seeds: int) -> None:
    """The error of the learners of embeddings against how much the features' scales differ."""
    from matplotlib.figure import Figure

    shown = {"PrivateFedRep": "v-", "PrivateAltMin": "^-", "OwnDataOnly": ":", "NonPrivateFedRep": "--"}
    ratios: dict[str, list[list[float]]] = {name: [] for name in shown}
    with progress_bar("figure", len(SPREADS) * seeds, enabled=True) as advance:
        for spread in SPREADS:
            for found in ratios.values():
                found.append([])
            for seed in range(seeds):
                users, truth, S = Population("", 20_000, spread).drawn(seed)
                lowest = floor(users, truth, S)
                for name, found in ratios.items():
                    found[-1].append(measured(LEARNERS[name](seed), users, truth, S) / lowest)
                advance()
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, style in shown.items():
        axes.plot(SPREADS, [np.median(found) for found in ratios[name]], style, label=name)
        print(
            name, *(f"{spread:g}: {np.median(found):.4g}" for spread, found in zip(SPREADS, ratios[name], strict=True))
        )
    axes.set(
        xscale="log", yscale="log", ylabel="MSE ÷ floor", xlabel="largest ÷ smallest standard deviation of the features",
        title=f"20,000 people, 10 rows, 50 features, rank 2, ε = {EPSILON:g}, δ = {DELTA:g}",
    )  # fmt: skip
    axes.set_xticks(SPREADS, [f"{spread:g}" for spread in SPREADS])
    axes.minorticks_off()
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="learners whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--figure", type=Path, default=None)
    arguments = parser.parse_args()
    if arguments.figure is not None:
        draw(arguments.figure, arguments.seeds)
        return
    learners = {name: make for name, make in LEARNERS.items() if arguments.only in name}
    ratios: dict[str, dict[str, list[float]]] = {name: {p.name: [] for p in POPULATIONS} for name in learners}
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    warm_up, _ = cg.datasets.make_shared_subspace(100, seed=0)  # compile before the clock runs
    for make in learners.values():
        make(0).fit(warm_up)
    with progress_bar("learners", len(learners) * len(POPULATIONS) * arguments.seeds, enabled=True) as advance:
        for population in POPULATIONS:
            for seed in range(arguments.seeds):
                users, truth, S = population.drawn(seed)
                lowest = floor(users, truth, S)
                for name, make in learners.items():
                    started = time.perf_counter()
                    ratios[name][population.name].append(measured(make(seed), users, truth, S) / lowest)
                    if population is POPULATIONS[0]:
                        seconds[name].append(time.perf_counter() - started)
                    advance()
    table = Table(title=f"MSE ÷ floor, median (worst) of {arguments.seeds} seeds; ε = {EPSILON:g}, δ = {DELTA:g}")
    table.add_column("learner")
    for population in POPULATIONS:
        table.add_column(population.name, justify="right")
    table.add_column("s a fit, n = 20,000", justify="right")
    for name, found in ratios.items():
        cells = [f"{np.median(values):,.4g} ({max(values):,.4g})" for values in found.values()]
        table.add_row(name, *cells, f"{np.median(seconds[name]):.2f}")
    Console(width=160).print(table)
    arguments.out.mkdir(exist_ok=True)
    with open(arguments.out / "compare_learners.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["learner", "population", "seed", "mse_over_floor"])
        writer.writerows(
            [name, population, seed, value]
            for name, found in ratios.items()
            for population, values in found.items()
            for seed, value in enumerate(values)
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore", cg.errors.RecipeWarning)
    main()
