"""When it pays to read only some of the people in a round: accuracy and time over sample rates, from one run.

python benchmarks/sampling.py [--people 20000 200000 1000000] [--seeds 3]
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.contributions.gradients import embedding_gradient_sums
from commonground.engines import sum_over_people

RATES = (None, 0.5, 0.1, 0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[20_000, 200_000, 1_000_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.25, 1.0, 8.0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    table = Table(title="Private FedRep, d = 50, k = 2, 10 rows, noise 0.01, δ = 1e-6: MSE ÷ floor, mean (worst)")
    for heading in ("people", "ε", "sample rate", "MSE ÷ floor", "ms a round"):
        table.add_column(heading, justify="right")
    for n in given.people:
        users, truth = cg.datasets.make_shared_subspace(n_users=n, seed=0)
        floor = cg.metrics.population_mse(truth.embedding, users, truth)
        for epsilon in given.epsilons:
            for rate in RATES:
                if rate is not None and rate * n < 1000:
                    continue
                ratios = np.array([error(users, truth, epsilon, rate, seed) for seed in range(given.seeds)]) / floor
                table.add_row(
                    f"{n:,}", f"{epsilon:g}", "everybody" if rate is None else f"{rate:g}",
                    f"{ratios.mean():.4f} ({ratios.max():.4f})", f"{1000 * seconds_a_round(users, truth, rate):.1f}",
                )  # fmt: skip
    Console(width=100).print(table)


def error(users: cg.Users, truth: cg.datasets.Truth, epsilon: float, rate: float | None, seed: int) -> float:
    model = cg.PrivateFedRep(
        rank=2, epsilon=epsilon, fit_intercept=False, shared_mean=False, n_rounds=16, sample_rate=rate, keep_heads=False,
        simulation_seed=seed,
    )  # fmt: skip
    return cg.metrics.population_mse(model.fit(users).billboard_, users, truth)


def seconds_a_round(users: cg.Users, truth: cg.datasets.Truth, rate: float | None) -> float:
    """Both passes over the rows, each over a sample of its own; one over everybody for None. Best of five."""
    rng, best = np.random.default_rng(0), np.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(1 if rate is None else 2):
            people = users if rate is None else users.weighted((rng.random(users.n_users) < rate).astype(float))
            sum_over_people(people, embedding_gradient_sums, truth.embedding, None, 0.0, False, 113)
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
