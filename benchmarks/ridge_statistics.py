"""Where the constants of PersonalBudgetRidge's methods "statistics" and "descent" come from: simulated populations only.

    python benchmarks/ridge_statistics.py

Populations of 500 to 3,000 people with 4 to 20 features (uniform, skewed, one-hot), a noisy and sometimes bent linear label,
P3's default budgets. Mean over populations and draws of test loss ÷ variance of the labels (at most 3 each), one constant
changed at a time from the defaults.
"""

import argparse
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.estimators import personal_ridge
from commonground.progress import progress_bar

CHANGES: dict[str, tuple[float, ...]] = {
    "LABEL_SCALE": (0.6, 1.2, 1.6, 2.0, 2.6),
    "RIDGE": (0.2, 0.35, 0.6, 1.0, 1.5),
    "CONSTANT": (0.25, 0.5, 1.0),
    "INTERCEPT_RIDGE": (0.01, 0.1, 0.3, 1.0),
}
DESCENT: dict[str, tuple[float, ...]] = {"N_ROUNDS": (10, 20, 40, 80), "CLIP": (0.1, 0.2, 0.4)}
TEST_ROWS = 500


def population(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 0x57A7])
    d, n = int(rng.choice([4, 8, 12, 20])), int(rng.choice([500, 1000, 3000])) + TEST_ROWS
    columns: list[np.ndarray] = []
    while len(columns) < d:
        kind = rng.integers(3)
        if kind < 2:
            columns.append(rng.random(n) if kind == 0 else rng.beta(2, 5, n))
        else:
            values = int(rng.integers(2, 5))
            category = rng.integers(values, size=n)
            columns += [(category == value).astype(float) for value in range(values)]
    X = np.column_stack(columns[:d])
    signal = X @ (rng.standard_normal(d) * rng.exponential(size=d))
    label = signal + signal.std() * rng.uniform(0.2, 1.0) * rng.standard_normal(n)
    return X, ((label - label.min()) / np.ptp(label)) ** int(rng.choice([1, 2]))


def mean_loss(populations: list[tuple[np.ndarray, np.ndarray]], draws: int, method: str = "statistics") -> float:
    losses = []
    for X, y in populations:
        n = len(y) - TEST_ROWS
        budgets = cg.datasets.segmented_budgets(n)
        for seed in range(draws):
            model = cg.PersonalBudgetRidge(method, None, (0, 1), (0, 1), budgets, simulation_seed=seed)
            error = np.mean((model.fit(X[:n], y[:n]).predict(X[n:]) - y[n:]) ** 2)
            losses.append(min(3.0, error / y[n:].var()))
    return float(np.mean(losses))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=24)
    parser.add_argument("--draws", type=int, default=10)
    arguments = parser.parse_args()
    people = [population(seed) for seed in range(arguments.populations)]
    with progress_bar("training", sum(map(len, (CHANGES | DESCENT).values())), enabled=True) as advance:
        for method, changes in (("statistics", CHANGES), ("descent", DESCENT)):
            table = Table(title=f"Method {method!r}: test loss ÷ variance of the labels")
            for heading in ("constant", "value", "loss", ""):
                table.add_column(heading, justify="left" if heading == "constant" else "right")
            for name, values in changes.items():
                for value in values:
                    default = getattr(personal_ridge, name) == value
                    with patch.object(personal_ridge, name, value):
                        loss = mean_loss(people, arguments.draws, method)
                    table.add_row(name, f"{value:g}", f"{loss:.4f}", "default" if default else "")
                    advance()
            Console().print(table)
