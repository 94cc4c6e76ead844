"""People who answer little and noisily, at a small ε, against what they would have without sharing.

    python benchmarks/few_noisy_answers.py [--seeds 2]

Simulated tables of 500 to 3,000 people with about two or six rows of 12 features, labels about 3.5: stars, weak features,
categories and features that say who somebody is; the latter two in other units, as noise may hide how large labels are. Printed
for each n, ε and rank: the error of PrivateFedRep against the better of its own shared prediction and people's own means, shrunk
by what only somebody who sees all labels can know; mean and worst.
"""

import argparse
import itertools
import warnings
from collections import defaultdict

import numpy as np

import commonground as cg

# Kind of table → the unit of its labels.
KINDS = {"stars, levels": 1.0, "weak features": 7.0, "categories, levels, features of a person": 0.05}


def table(seed: int, n: int, mean_rows: int, kind: str, d: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n, mean_rows, d])
    ids = np.repeat(np.arange(n), np.clip(rng.poisson(mean_rows, n), 1, None) + 1)
    X = rng.standard_normal((len(ids), d))
    if "categories" in kind:
        X[:, : d // 2] = rng.random((len(ids), d // 2)) < 0.2
        X[:, -1], X[:, -2] = rng.standard_normal(n)[ids], rng.integers(0, 2, n)[ids]
    levels = (0.4 if "levels" in kind else 0.1) * rng.standard_normal(n)
    slopes = (0.1 if "weak" in kind else 0.5) * rng.standard_normal(d) / d**0.5
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = 3.5 + Z @ slopes + levels[ids] + 0.2 * Z[:, 0] * rng.standard_normal(n)[ids] + rng.standard_normal(len(ids))
    return X, KINDS[kind] * (np.clip(np.round(y), 1, 5) if "stars" in kind else y), ids


def own_means_shrunk(y: np.ndarray, ids: np.ndarray, asked: np.ndarray, n: int) -> np.ndarray:
    mean, rows = y.mean(), np.bincount(ids, minlength=n)
    sums, some = np.bincount(ids, y - mean, minlength=n), rows > 0
    own = sums / np.maximum(rows, 1)
    within = ((y - mean - own[ids]) ** 2).sum() / max(len(y) - some.sum(), 1)
    between = max(1e-9, float(np.var(own[some])) - within * float(np.mean(1 / rows[some])))
    return np.asarray(mean + (sums / (rows + within / between))[asked])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore")
    ratios: dict[tuple[int, float, int], list[float]] = defaultdict(list)
    for n, epsilon, rank in itertools.product((500, 1500, 3000), (0.1, 0.5, 1.0), (0, 1, 2)):
        if n * epsilon < 100:  # nearly all is hidden: people keep their own means
            continue
        for mean_rows, kind, seed in itertools.product((2, 6), KINDS, seeds):
            X, y, ids = table(seed, n, mean_rows, kind)
            held = np.random.default_rng(seed).random(len(y)) < 0.25
            model = cg.PrivateFedRep(rank, epsilon, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
            unknown = np.full(int(held.sum()), n)
            answers = (
                model.predict(X[held], users=ids[held]),
                model.predict(X[held], users=unknown),
                own_means_shrunk(y[~held], ids[~held], ids[held], n),
            )
            private, shared, own = (float(np.sqrt(np.mean((answer - y[held]) ** 2))) for answer in answers)
            ratios[n, epsilon, rank].append(private / min(shared, own))
    print(
        "| people | ε | rank | error ÷ the better of shared prediction and own mean, shrunk (worst) |\n|---|---|---|---|"
    )
    for (n, epsilon, rank), found in ratios.items():
        print(f"| {n:,} | {epsilon:g} | {rank} | {np.mean(found):.3f} ({max(found):.2f}) |")


if __name__ == "__main__":
    main()
