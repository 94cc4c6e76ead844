"""How often fits go wrong by the size of labels alone: the same people, their labels times a factor.

Of 8 rows each of 3 features, labels with a spread of one before the factor. Wrong: R² of people's own predictions below 0.8,
where labels of size one have 0.9 and more; and R² of shared predictions below -1.

python benchmarks/label_sizes.py [--model altmin] [--range]      # with a public range of labels, 40 times their spread
"""

import argparse
import warnings

import numpy as np
import pandas as pd

import commonground as cg
from commonground.accounting.budgets import Budget

MODELS = {
    "fedrep": lambda epsilon: cg.PrivateFedRep(2, epsilon),
    "altmin": lambda epsilon: cg.PrivateAltMin(2, epsilon),
    "single": lambda epsilon: cg.SingleModel(epsilon),
    "single-levels": lambda epsilon: cg.SingleModel(epsilon, own_intercept=True),
}
FACTORS = (1e-6, 1e-3, 1 / 30, 1 / 8, 1.0, 8.0, 30.0, 100.0, 1e3, 1e6)
SETTINGS = ((300, 1.0), (600, 1.0), (1000, 1.0), (1300, 1.0), (1700, 1.0), (2200, 1.0), (300, 4.0))


def people(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(n), 8)
    X = rng.standard_normal((len(who), 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(n)[who] + 0.3 * rng.standard_normal(len(who))
    return X, y / y.std(), who


def schema(factor: float) -> cg.Schema:
    """A public range of labels, and none of features."""
    wide = 20.0 * factor
    columns = [cg.Column(str(a), "feature") for a in range(3)]
    return cg.Schema((cg.Column("who", "person"), cg.Column("y", "label", range=(-wide, wide)), *columns))


def explained(y: np.ndarray, predicted: np.ndarray) -> float:
    return 1.0 - float(np.mean((y - predicted) ** 2) / np.var(y))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--model", choices=MODELS, default="fedrep")
    parser.add_argument("--range", action="store_true")
    asked = parser.parse_args()
    n_runs = asked.runs
    warnings.simplefilter("ignore")
    print(f"| n, ε, n·μ | {' | '.join(f'{factor:.2g}' for factor in FACTORS)} |")
    print("|---" * (len(FACTORS) + 1) + "|")
    for n, epsilon in SETTINGS:
        X, y, who = people(n)
        cells = []
        for factor in FACTORS:
            own = shared = 0
            for _ in range(n_runs):
                users = (
                    cg.Users.from_arrays(pd.DataFrame(X), factor * y, who, schema=schema(factor))
                    if asked.range
                    else None
                )
                model = MODELS[asked.model](epsilon)
                model = model.fit(X, factor * y, users=who) if users is None else model.fit(users)
                own += explained(factor * y, model.predict(X, users=who)) < 0.8
                shared += explained(factor * y, model.billboard_.predict(X)) < -1.0
            cells.append(f"{own} / {shared}")
        print(f"| {n:,}, {epsilon:g}, {n * Budget(epsilon, 1e-6).mu:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
