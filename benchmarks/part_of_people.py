"""What it costs, and saves, to begin a fit on a random part of very many people (``commonground.steps.some_people``).

200,000 simulated people, 10 rows, 50 features, ε = 1: the sine of the largest angle to the true subspace, and seconds, heads
included, with the part and with everybody throughout, the same people and the same seeds of noise.

python benchmarks/part_of_people.py
"""

import math
import time
import warnings

import numpy as np

import commonground as cg
from commonground.steps import some_people

PEOPLE, ROWS, FEATURES, SEEDS = 200_000, 10, 50, range(3)
PART = some_people.ENOUGH_PEOPLE


def fitted(users: cg.Users, rank: int, seed: int) -> tuple[np.ndarray, float]:
    began = time.perf_counter()
    model = cg.PrivateFedRep(rank, epsilon=1.0, simulation_seed=seed).fit(users)
    return model.billboard_.embedding, time.perf_counter() - began


def main() -> None:
    warnings.simplefilter("ignore")  # a simulation's seed is not private
    print(
        "| rank | label noise | distance, part | distance, everybody | ratio of means | seconds, part | seconds, everybody |"
    )
    print("|---|---|---|---|---|---|---|")
    for rank in (2, 5):
        for noise in (0.01, 0.5, 2.0):
            distances: dict[float, list[float]] = {PART: [], math.inf: []}
            seconds: dict[float, list[float]] = {PART: [], math.inf: []}
            for seed in SEEDS:
                users, truth = cg.datasets.make_shared_subspace(
                    PEOPLE, rows_per_user=ROWS, n_features=FEATURES, rank=rank, noise=noise, seed=seed
                )
                for enough in distances:
                    some_people.ENOUGH_PEOPLE = enough  # type: ignore[assignment]
                    U, took = fitted(users, rank, seed)
                    distances[enough].append(cg.metrics.subspace_distance(U, truth.embedding))
                    seconds[enough].append(took)
            part, everybody = (f"{min(d):.5f} to {max(d):.5f}" for d in distances.values())
            ratio = np.mean(distances[PART]) / np.mean(distances[math.inf])
            took = " | ".join(f"{min(s):.2f}" for s in seconds.values())
            print(f"| {rank} | {noise} | {part} | {everybody} | {ratio:.2f} | {took} |", flush=True)


if __name__ == "__main__":
    main()
