"""What people are told whom nobody knows: the shared answer's error on held-out rows, against that of the mean label.

    python benchmarks/shared_answers.py [--seeds 5] [--out FILE]

Tables of people who are few, or whose rows and labels lie far from zero: simulated ones, and the small real sets where they are
there (no constant was chosen on these). "Least squares" is one model for all rows, not private. Noise is simulated.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import commonground as cg
from commonground.accounting.budgets import Budget
from few_noisy_answers import table

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, labels, whose they are
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
REAL = ("computer-survey", "camera-conjoint", "bank-conjoint", "school")


def far_rows(n: int, d: int, level: float, seed: int) -> Rows:
    """Features two spreads from zero, labels about a level; people do not differ."""
    rng = np.random.default_rng([seed, n, d])
    ids = np.repeat(np.arange(n), 8)
    X = rng.standard_normal((len(ids), d)) + 2.0 * rng.standard_normal(d)
    return X, (X - X.mean(axis=0)) @ rng.standard_normal(d) / d**0.5 + level + rng.standard_normal(len(ids)), ids


def offers(n: int, seed: int) -> Rows:
    """Five offers in each of ten choices; the last of them is none, and has no features."""
    rng = np.random.default_rng([seed, n])
    choices = n * 10
    X = np.concatenate([rng.random((choices, 4, 9)) < 0.4, np.zeros((choices, 1, 9))], axis=1)
    prices = np.concatenate([rng.uniform(0.8, 2.8, (choices, 4, 1)), np.zeros((choices, 1, 1))], axis=1)
    worth = X @ rng.uniform(0.3, 1.0, 9) - 1.2 * prices[:, :, 0] + rng.gumbel(size=(choices, 5))
    chosen = (worth == worth.max(axis=1, keepdims=True)).astype(float)
    return np.concatenate([X, prices], axis=2).reshape(-1, 10), chosen.ravel(), np.repeat(np.arange(n), 50)


def tables() -> Iterator[tuple[str, Callable[[int], Rows]]]:
    """Names of tables, and how each is made from a seed."""
    for n in (300, 1_000, 3_000):
        yield f"stars, {n:,} people", lambda seed, n=n: table(seed, n, 4, "stars, levels")
        yield f"far rows, labels at 3, {n:,} people", lambda seed, n=n: far_rows(n, 20, 3.0, seed)
        yield f"far rows, labels at 50, {n:,} people", lambda seed, n=n: far_rows(n, 10, 50.0, seed)
    yield "offers, 300 people", lambda seed: offers(300, seed)
    for name in REAL:
        try:
            data = cg.datasets.load(name)
        except cg.errors.InputError:
            continue
        rows = np.asarray(data.X, dtype=np.float64), np.asarray(data.y, dtype=np.float64), data.user_ids
        yield name, lambda seed, rows=rows: rows


def errors(rows: Rows, epsilon: float, seed: int) -> tuple[float, float, float]:
    """Of the single model, of the shared part of PrivateFedRep (rank 1), and of least squares, against the mean label's."""
    X, y, ids = rows
    held = np.random.default_rng(seed).random(len(y)) < 0.2
    mean = float(np.sqrt(np.mean((y[held] - y[~held].mean()) ** 2)))
    with_ones = np.column_stack([np.ones(len(y)), X])
    answers = [
        model.fit(X[~held], y[~held], users=ids[~held]).billboard_.predict(X[held])
        for model in (cg.SingleModel(epsilon, simulation_seed=seed), cg.PrivateFedRep(1, epsilon, simulation_seed=seed))
    ]
    answers.append(with_ones[held] @ np.linalg.lstsq(with_ones[~held], y[~held], rcond=None)[0])
    single, shared, least_squares = (float(np.sqrt(np.mean((told - y[held]) ** 2))) / mean for told in answers)
    return single, shared, least_squares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = ["| table | n·μ at ε = 1 | least squares | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |"]
    lines.append("|---" * (3 + len(EPSILONS)) + "|")
    print(*lines, sep="\n")
    for name, make in tables():
        cells, least_squares = [], 0.0
        for epsilon in EPSILONS:
            found = np.array([errors(make(seed), epsilon, seed) for seed in range(arguments.seeds)])
            single, shared, least_squares = found.mean(axis=0)
            cells.append(f"{single:.2f} ({found[:, 0].max():.2f}), {shared:.2f} ({found[:, 1].max():.2f})")
        people = len(np.unique(make(0)[2]))
        lines.append(
            f"| {name} | {people * Budget(1.0, 1e-6).mu:.0f} | {least_squares:.2f} | " + " | ".join(cells) + " |"
        )
        print(lines[-1], flush=True)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
