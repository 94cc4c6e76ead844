"""What people with many rows gain or lose when a little better is enough to leave their heads (``commonground.heads.choice``).

1,000 simulated people who share two directions, and, where a data set is at hand, the 139 schools: the error on new rows by
the rule for many rows, ÷ the one by the rule for few. Every seed is printed.

python benchmarks/own_or_head.py
"""

import itertools
import warnings

import numpy as np

import commonground as cg
from commonground.heads import choice, kinds
from commonground.heads.files import Heads

PEOPLE, NEW_ROWS, SEEDS = 1_000, 20, range(300, 303)
RULES = choice.CLEARLY, choice.CLEARLY_WITH_MANY_ROWS
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def who_share(rows: int, features: int, noise: float, seed: int) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(seed)
    U, mean = np.linalg.qr(rng.standard_normal((features, 2)))[0], rng.standard_normal(features) / features**0.5
    theta, levels = mean + rng.standard_normal((PEOPLE, 2)) @ U.T, 0.5 * rng.standard_normal(PEOPLE)

    def answers(each: int) -> Rows:
        ids = np.repeat(np.arange(PEOPLE), each)
        X = rng.standard_normal((len(ids), features))
        return X, (X * theta[ids]).sum(axis=1) + levels[ids] + noise * rng.standard_normal(len(ids)), ids

    return answers(rows), answers(NEW_ROWS)


def schools(run: int) -> tuple[Rows, Rows]:
    from real_data import train_and_test

    seen, new = train_and_test("school", run)
    return (seen.X, seen.y, seen.ids), (new.X, new.y, new.ids)


def ratio(seen: Rows, new: Rows, rank: int, epsilon: float, seed: int) -> str:
    users = cg.Users.from_arrays(*seen)
    board = cg.PrivateFedRep(rank, epsilon, keep_heads=False, simulation_seed=seed).fit(users).billboard_
    errors = []
    for clearly in RULES:
        kinds.CLEARLY_WITH_MANY_ROWS = clearly
        predicted, _ = Heads.fit(board, users).predict(board, new[0], list(new[2]), True)
        errors.append(float(np.mean((predicted - new[1]) ** 2)) ** 0.5)
    return f"{errors[1] / errors[0]:.4f}"


def main() -> None:
    warnings.simplefilter("ignore")  # a simulation's seed is not private
    print("| rows | features | label noise | ε = 1 | ε = 4 |\n|---|---|---|---|---|")
    for rows, features, noise in itertools.product((40, 60, 100), (4, 8, 16), (0.5, 3.0)):
        found = [
            " ".join(ratio(*who_share(rows, features, noise, seed), 2, epsilon, seed) for seed in SEEDS)
            for epsilon in (1.0, 4.0)
        ]
        print(f"| {rows} | {features} | {noise} | {' | '.join(found)} |", flush=True)
    try:
        schools(0)
    except FileNotFoundError as missing:
        print(missing)
        return
    for rank in (0, 1):
        found = [" ".join(ratio(*schools(run), rank, epsilon, run) for run in range(3)) for epsilon in (1.0, 4.0)]
        print(f"| schools, rank {rank} | 27 | – | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
