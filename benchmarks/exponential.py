"""The exponential mechanism beside gradient methods, where it can be run: few features (P1's question ii).

    python benchmarks/exponential.py [--people 2000] [--seeds 3] [--out docs/figures/exponential_subspace.svg]

MSE ÷ floor, the worst and the median of the seeds, and seconds of one fit. The noise is simulated, so that seeds repeat.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import commonground as cg

CASES = [(3, 1), (4, 1), (6, 1), (8, 1), (4, 2), (6, 2)]
EPSILONS = [0.25, 1.0, 4.0]
PLAIN = {"fit_intercept": False}


def methods(d: int, k: int, epsilon: float, seed: int) -> dict[str, Any]:
    """Estimators by name; P1's net where it has a candidate within 0.25 and is small enough."""
    common: dict[str, Any] = {"simulation_seed": seed}
    found = {
        "exponential, zoom (pure ε)": cg.ExponentialSubspace(k, epsilon, **PLAIN, **common),
        "exponential, one stage (pure ε)": cg.ExponentialSubspace(k, epsilon, n_stages=1, **PLAIN, **common),
        "exponential, paper, random (pure ε)": cg.ExponentialSubspace(
            k, epsilon, recipe="paper", loss_bound=1.0, **common
        ),
        "PrivateFedRep (δ = 1e-6)": cg.PrivateFedRep(k, epsilon, 1e-6, shared_mean=False, **PLAIN, **common),
    }
    if k == 1 and d <= 4:
        found["exponential, paper, net 0.1 (pure ε)"] = cg.ExponentialSubspace(
            k, epsilon, recipe="paper", candidates="net", net_width=0.1, loss_bound=1.0, **common
        )
    if hasattr(cg, "PrivateAltMin"):
        found["PrivateAltMin (δ = 1e-6)"] = cg.PrivateAltMin(k, epsilon, 1e-6, shared_mean=False, **PLAIN, **common)
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--people", type=int, default=2000)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--out", type=Path, default=Path("docs/figures/exponential_subspace.svg"))
    chosen = options.parse_args()
    warnings.simplefilter("ignore", cg.errors.RecipeWarning)
    table: dict[tuple[int, int], dict[str, dict[float, list[float]]]] = {}
    print(f"{chosen.people:,} people, 10 rows each, label noise 0.01, {chosen.seeds} seeds\n")
    print("| d | k | ε | method | MSE ÷ floor, median | worst | seconds |\n|---|---|---|---|---|---|---|")
    for d, k in CASES:
        populations = [
            cg.datasets.make_shared_subspace(n_users=chosen.people, n_features=d, rank=k, seed=seed)
            for seed in range(chosen.seeds)
        ]
        for epsilon in EPSILONS:
            for name in methods(d, k, epsilon, 0):
                ratios, seconds = [], []
                for seed, (users, truth) in enumerate(populations):
                    model = methods(d, k, epsilon, seed)[name]
                    start = time.perf_counter()
                    board = model.fit(users).billboard_
                    seconds.append(time.perf_counter() - start)
                    floor = cg.metrics.population_mse(truth.embedding, users, truth)
                    ratios.append(cg.metrics.population_mse(board, users, truth) / floor)
                table.setdefault((d, k), {}).setdefault(name, {})[epsilon] = ratios
                print(
                    f"| {d} | {k} | {epsilon:g} | {name} | {np.median(ratios):,.2f} | {max(ratios):,.2f} | "
                    f"{np.median(seconds):.1f} |",
                    flush=True,
                )
    draw(table, chosen.out)


def draw(table: dict[tuple[int, int], dict[str, dict[float, list[float]]]], out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "commonground"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 5.5), sharex=True, sharey=True, layout="constrained")
    colours: dict[str, str] = {}
    for axis, ((d, k), by_method) in zip(axes.flat, table.items(), strict=True):
        for name, by_epsilon in by_method.items():
            colour = colours.setdefault(name, f"C{len(colours)}")
            epsilons = sorted(by_epsilon)
            axis.plot(epsilons, [np.median(by_epsilon[e]) for e in epsilons], marker="o", color=colour, label=name)
            axis.fill_between(
                epsilons,
                [min(by_epsilon[e]) for e in epsilons],
                [max(by_epsilon[e]) for e in epsilons],
                color=colour,
                alpha=0.15,
            )
        axis.set(xscale="log", yscale="log", title=f"d = {d}, k = {k}")
        axis.axhline(1.0, color="grey", lw=0.5)
    figure.supxlabel("ε")
    figure.supylabel("MSE ÷ floor")
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})
    print(f"\nFigure: {out}")


if __name__ == "__main__":
    main()
