"""Answers of which few are yes: log loss of private classifiers against that of the base rate, which takes no features.

    python benchmarks/rare_answers.py [--seeds 3] [--people 1000 5000] [--out docs/measured/rare_answers.md]

Simulated people with 2 to 10 or 2 to 40 rows of 8 features. Their log-odds have a level of their own, or none, and slopes that
all share. A quarter of all rows is held out. Printed for each share of yes, ε and model, over all tables: log loss divided by
that of the base rate (which is not private), mean and worst, of people's own heads and of what strangers are told; and how many
yes are told for each that came.
"""

import argparse
import itertools
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

import commonground as cg

SHARES, EPSILONS, ROWS = (0.01, 0.05, 0.3), (0.5, 1.0, 4.0), (5, 20)
PEOPLE_DIFFER_BY = ((0.0, 0.5), (1.0, 1.0))  # standard deviations of their levels, and of the shared part
LEAST = 1e-7  # probability
MODELS: dict[str, Callable[[float, int], Any]] = {
    "PrivateFedRepClassifier, rank 0": lambda epsilon, seed: cg.PrivateFedRepClassifier(0, epsilon, simulation_seed=seed),
    "PrivateFedRepClassifier, rank 1": lambda epsilon, seed: cg.PrivateFedRepClassifier(1, epsilon, simulation_seed=seed),
    "PrivateAltMin, logistic, rank 1": lambda epsilon, seed: cg.PrivateAltMin(
        1, epsilon, loss="logistic", simulation_seed=seed
    ),
}  # fmt: skip


def table(
    seed: int, people: int, mean_rows: int, yes: float, levels: float, shared: float, d: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, people, mean_rows, int(yes * 1000)])
    ids = np.repeat(np.arange(people), rng.integers(1, 2 * mean_rows, people) + 1)
    X = rng.standard_normal((len(ids), d))
    log_odds = X @ (shared * rng.standard_normal(d) / d**0.5) + levels * rng.standard_normal(people)[ids]
    level = brentq(lambda c: np.mean(1 / (1 + np.exp(-(log_odds + c)))) - yes, -30, 30)
    return X, (rng.random(len(ids)) < 1 / (1 + np.exp(-(log_odds + level)))).astype(float), ids


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    p = np.clip(p, LEAST, 1 - LEAST)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def lines(seeds: int, people: list[int]) -> list[str]:
    found: dict[tuple[float, float, str], list[tuple[float, ...]]] = defaultdict(list)
    for n, rows, yes, (levels, shared), seed in itertools.product(people, ROWS, SHARES, PEOPLE_DIFFER_BY, range(seeds)):
        X, y, ids = table(seed, n, rows, yes, levels, shared)
        held = np.random.default_rng(seed).random(len(y)) < 0.25
        base = log_loss(y[held], np.full(int(held.sum()), y[~held].mean()))
        for epsilon, (name, make) in itertools.product(EPSILONS, MODELS.items()):
            model = make(epsilon, seed).fit(X[~held], y[~held], users=ids[~held])
            own = model.predict_proba(X[held], users=ids[held])[:, 1]
            told = model.billboard_.predict_proba(X[held])[:, 1]
            ratios = log_loss(y[held], own) / base, log_loss(y[held], told) / base
            found[yes, epsilon, name].append((*ratios, own.mean() / y[held].mean(), told.mean() / y[held].mean()))
    table_lines = [
        "| yes | ε | model | own heads (worst) | strangers (worst) | yes told for each that came, own / strangers |",
        "|---|---|---|---|---|---|",
    ]
    for (yes, epsilon, name), results in found.items():
        own, told, own_yes, told_yes = np.array(results).T
        table_lines.append(
            f"| {yes:.0%} | {epsilon:g} | {name} | {own.mean():.3f} ({own.max():.2f}) | {told.mean():.3f} ({told.max():.2f}) | "
            f"{own_yes.mean():.2f} / {told_yes.mean():.2f} |"
        )
    return table_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--people", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    text = "\n".join(lines(arguments.seeds, arguments.people))
    print(text)
    if arguments.out:
        heading = "# Answers of which few are yes\n\n`python benchmarks/rare_answers.py`: log loss ÷ that of the base rate.\n\n"
        arguments.out.write_text(heading + text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
