"""When does a feature of another size, or far from zero, spoil a fit? Prints the table of docs/schema.md (about two minutes).

    python benchmarks/feature_scales.py

Made-up people with 10 rows of 6 features; one feature is multiplied by a factor, or moved by an offset. Errors are root mean
squared errors on held-out rows over the labels' standard deviation, the largest of three seeds: of people's own predictions,
and of the shared one. Noise is simulated.
"""

import warnings

import numpy as np

import commonground as cg
from commonground.accounting.budgets import Budget

SETTINGS = [(n, epsilon) for n in (300, 1500, 6000) for epsilon in (0.3, 1.0, 3.0)]
CHANGES = [("factor", 1.0), ("factor", 100.0), ("factor", 5e6), ("offset", 10.0), ("offset", 1000.0)]
MODELS = {"PrivateFedRep": cg.PrivateFedRep, "SingleModel": cg.SingleModel}


def errors(model: str, n: int, epsilon: float, change: str, size: float, seed: int) -> tuple[float, float]:
    """Of own and of shared predictions, in standard deviations of labels."""
    rng = np.random.default_rng(seed)
    ids, X, own = np.repeat(np.arange(n), 10), rng.standard_normal((10 * n, 6)), rng.standard_normal((n, 2))
    y = 2.0 + 0.5 * X.sum(axis=1) + (X[:, :2] * own[ids]).sum(axis=1) + 0.5 * rng.standard_normal(10 * n)
    X[:, 0] = X[:, 0] * size if change == "factor" else X[:, 0] + size
    asked = rng.random(10 * n) < 0.2
    fitted = MODELS[model](epsilon=epsilon, simulation_seed=seed).fit(X[~asked], y[~asked], users=ids[~asked])
    answers = fitted.predict(X[asked], users=ids[asked]), fitted.billboard_.predict(X[asked])
    own_error, shared_error = (float(np.sqrt(np.mean((answer - y[asked]) ** 2)) / y.std()) for answer in answers)
    return own_error, shared_error


def main() -> None:
    warnings.simplefilter("ignore")
    heads = [f"{change} {size:g}" for change, size in CHANGES]
    for model in MODELS:
        print(f"\n| {model}: n | ε | n·μ/√d | {' | '.join(heads)} |\n|---|---|---|{'---|' * len(heads)}")
        for n, epsilon in SETTINGS:
            cells = []
            for change, size in CHANGES:
                found = [errors(model, n, epsilon, change, size, seed) for seed in range(3)]
                own, shared = (max(one[which] for one in found) for which in (0, 1))
                cells.append(f"{own:.2g} / {shared:.2g}" if model == "PrivateFedRep" else f"{shared:.2g}")
            reach = n * Budget(epsilon, 1e-6).mu / 6**0.5
            print(f"| {n:,} | {epsilon:g} | {reach:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
