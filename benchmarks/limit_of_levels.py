"""How near few people could come to means shrunk by what nobody may see, if all but the level were known.

    python benchmarks/limit_of_levels.py

Somebody who knows how far labels and people's means spread, and where to clip, spends the whole budget on one clipped mean of
people's mean labels, and shrinks own means to it. Printed: the error on held-out rows ÷ that of means shrunk to the exact mean,
for the computer survey (180 people, five splits) and for the tables of ``few_noisy_answers.py``; and that of own means as they
are. No private learner knows so much beforehand, so a smaller excess is out of reach.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

import commonground as cg
from commonground.accounting.budgets import Budget
from few_noisy_answers import KINDS, table

CLIP, SEEDS = 1.5, 20  # standard deviations of people's means; draws of the noise
Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # labels, people, which rows are held out


def survey() -> Iterator[Table]:
    data = cg.datasets.load("computer-survey")
    ids = np.unique(data.user_ids, return_inverse=True)[1]
    for split in range(5):
        yield data.y.astype(float), ids, np.random.default_rng(split).random(len(ids)) < 0.2


def made_up(people: int) -> Iterator[Table]:
    for rows, kind, seed in itertools.product((2, 6), KINDS, range(4)):
        _, y, ids = table(seed, people, rows, kind)
        yield y, ids, np.random.default_rng(seed).random(len(y)) < 0.25


def errors(y: np.ndarray, ids: np.ndarray, held: np.ndarray, mu: float) -> tuple[float, float]:
    """Of means shrunk to a noisy mean, and of own means, ÷ that of means shrunk to the exact one."""
    seen, who, n = y[~held], ids[~held], int(ids.max()) + 1
    rows = np.bincount(who, minlength=n)
    mean, own = seen.mean(), np.bincount(who, seen, minlength=n) / np.maximum(rows, 1)
    there, means = rows > 0, own[rows > 0]
    within = ((seen - own[who]) ** 2).sum() / max(len(seen) - there.sum(), 1)
    between = max(1e-9, float(np.var(means)) - within * float(np.mean(1 / rows[there])))

    def error_with(level: float, doubt: float) -> float:
        sums = np.bincount(who, seen - level, minlength=n)
        answers = level + (sums / (rows + within / (between + doubt)))[ids[held]]
        return float(np.sqrt(np.mean((answers - y[held]) ** 2)))

    exact, noise = error_with(mean, 0.0), 2 * CLIP * float(means.std()) / (mu * n)
    drawn = [
        error_with(mean + noise * np.random.default_rng(seed).standard_normal(), noise**2) for seed in range(SEEDS)
    ]
    return float(np.mean(drawn)) / exact, error_with(mean, 1e12) / exact


def main() -> None:
    sets: list[tuple[str, Callable[[], Iterator[Table]], tuple[float, ...]]] = [
        ("computer survey, 180", survey, (0.1, 0.5)),
        ("made up, 500", lambda: made_up(500), (0.5,)),
        ("made up, 1,500", lambda: made_up(1_500), (0.1,)),
    ]
    print("| people | ε | all but the level known | own means |\n|---|---|---|---|")
    for name, tables, epsilons in sets:
        for epsilon in epsilons:
            found = np.array([errors(*one, Budget(epsilon, 1e-6).mu) for one in tables()])
            print(f"| {name} | {epsilon:g} | {found[:, 0].mean():.4f} | {found[:, 1].mean():.4f} |")


if __name__ == "__main__":
    main()
