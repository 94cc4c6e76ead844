"""Recommendation from sparse one-hot items: held-out error beside what one could do without sharing or without privacy.

python benchmarks/recommendation.py                   # simulated people, 2,000 and 10,000 items; about half an hour
python benchmarks/recommendation.py --jester FILE     # real people: user, item and rating columns; a fifth held out
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import pyarrow.csv
from scipy import sparse

import commonground as cg
from commonground.data.users import Users
from commonground.datasets import Ratings, make_ratings
from commonground.heads.ridge import fit_heads

POPULATIONS = {
    "50,000 people, 2,000 items": {"n_users": 50_000, "n_items": 2_000, "taste": 0.3, "noise": 0.35},
    "100,000 people, 10,000 items": {"n_users": 100_000, "n_items": 10_000, "taste": 0.3, "noise": 0.35},
}
EDGES = (30, 300, 3000)  # ratings of an item: rare, seldom, often, popular


class Task:
    """Training rows as flat arrays, and held-out rows by how often their item is rated."""

    def __init__(self, users: Users, test_X: sparse.csr_array, test_y: np.ndarray, test_ids: np.ndarray):
        self.users, self.test_X, self.test_y = users, test_X, test_y
        self.block = next(iter(users.blocks()))
        self.item, self.y = self.block.X.indices, self.block.y.astype(np.float64)
        self.person = np.repeat(np.arange(users.n_users), np.diff(self.block.offsets))
        self.test_person = users.index_of(test_ids)
        self.times_rated = np.bincount(self.item, minlength=users.n_features)
        self.bucket = np.searchsorted(EDGES, self.times_rated)[test_X.indices]

    def errors(self, prediction: np.ndarray) -> list[float]:
        """RMSE over all held-out rows, then by bucket."""
        squared = (prediction - self.test_y) ** 2
        buckets = [squared[self.bucket == b] for b in range(len(EDGES) + 1)]
        return [float(np.sqrt(some.mean())) if len(some) else float("nan") for some in (squared, *buckets)]

    def with_heads(self, mean: np.ndarray, embedding: np.ndarray) -> list[float]:
        heads, own = fit_heads(self.block, embedding, mean, 0.0, True)
        own_part = ((self.test_X @ embedding) * heads[self.test_person]).sum(axis=1) + own[self.test_person]
        return self.errors(self.test_X @ mean + own_part)

    def own_mean(self) -> list[float]:
        sizes = np.diff(self.block.offsets)
        return self.errors((np.bincount(self.person, self.y) / sizes)[self.test_person])

    def item_mean(self) -> np.ndarray:
        """Item means beside own intercepts, by alternating; not private."""
        mean = np.zeros(self.users.n_features)
        for _ in range(4):
            own = np.bincount(self.person, self.y - mean[self.item]) / np.diff(self.block.offsets)
            mean = np.bincount(self.item, self.y - own[self.person], len(mean)) / (self.times_rated + 5)
        return mean

    def low_rank(self, rank: int, rounds: int = 12) -> tuple[np.ndarray, np.ndarray]:
        """Alternating ridge regressions of items and people; not private."""
        mean, d = self.item_mean(), self.users.n_features
        embedding = 0.1 * np.random.default_rng(0).standard_normal((d, rank))
        for _ in range(rounds):
            heads, own = fit_heads(self.block, embedding, mean, 0.0, True)
            V = np.column_stack([np.ones(len(heads)), heads])[self.person]
            rest = self.y - own[self.person]
            ridge = 5 * np.diag([1.0, *np.full(rank, (heads**2).mean())])
            right = np.stack([np.bincount(self.item, V[:, a] * rest, d) for a in range(rank + 1)], axis=1)
            gram = np.stack(
                [np.bincount(self.item, V[:, a] * V[:, b], d) for a in range(rank + 1) for b in range(rank + 1)], axis=1
            )
            solution = np.linalg.solve(gram.reshape(d, rank + 1, rank + 1) + ridge, right[:, :, None])[:, :, 0]
            mean, embedding = solution[:, 0], solution[:, 1:]
        return mean, embedding

    def private(self, epsilon: float, seed: int, rank: int = 3) -> tuple[list[float], float]:
        started = time.perf_counter()
        model = cg.PrivateFedRep(rank, epsilon, simulation_seed=seed).fit(self.users)
        seconds = time.perf_counter() - started
        return self.errors(model.predict(self.test_X, users=self.users.ids[self.test_person])), seconds


def line(name: str, errors: list[float], note: str = "") -> None:
    cells = ["–" if np.isnan(e) else f"{e:.3f}" for e in errors]
    print(f"| {name} | {' | '.join(cells)} |{note}", flush=True)


def baselines(task: Task) -> None:
    line("own mean", task.own_mean())
    mean = task.item_mean()
    own = np.bincount(task.person, task.y - mean[task.item]) / np.diff(task.block.offsets)
    line("item means and own intercept, not private", task.errors(task.test_X @ mean + own[task.test_person]))
    line("rank 3, not private", task.with_heads(*task.low_rank(3)))


def simulated(seeds: int) -> None:
    for name, parameters in POPULATIONS.items():
        ratings = make_ratings(**parameters, seed=2)  # constants were chosen on those of seed 1
        task = of_ratings(ratings)
        held_out = np.bincount(task.bucket, minlength=len(EDGES) + 1) / len(task.bucket)
        print(f"\n{name}, {task.users.n_rows:,} ratings; held out by how often the item is rated: {held_out.round(3)}")
        print("| | all | < 30 ratings | < 300 | < 3,000 | more |\n|---|---|---|---|---|---|")
        baselines(task)
        for epsilon in (1, 2, 4, 8):
            runs = [task.private(epsilon, seed) for seed in range(seeds)]
            spread = np.ptp([errors[0] for errors, _ in runs])
            note = f" range {spread:.4f}, {np.median([seconds for _, seconds in runs]):.0f} s"
            line(f"PrivateFedRep, ε = {epsilon}", np.mean([errors for errors, _ in runs], axis=0).tolist(), note)
        line("true item means and embedding", task.with_heads(ratings.item_means, ratings.embedding))
        print(f"peak memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MB")


def of_ratings(ratings: Ratings) -> Task:
    return Task(ratings.users, ratings.test_X, ratings.test_y, ratings.test_ids)


def jester(path: Path, seeds: int) -> None:
    table = pyarrow.csv.read_csv(path)
    person, item, y = (table.column(i).to_numpy() for i in range(3))
    y = y / 10.0
    X = cg.one_hot(item, items=np.unique(item))  # the catalogue is published: one hundred jokes
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(person[order], kind="stable")]
    X, y, person = X[order], y[order], person[order]
    within = np.arange(len(y)) - np.searchsorted(person, person)
    size = np.bincount(np.unique(person, return_inverse=True)[1])[np.unique(person, return_inverse=True)[1]]
    test = within < np.round(0.2 * size)
    task = Task(Users.from_arrays(X[~test], y[~test], person[~test]), X[test], y[test], person[test])
    dense = Users.from_arrays(X[~test].toarray(), y[~test], person[~test])
    print("| | all | < 30 ratings | < 300 | < 3,000 | more |\n|---|---|---|---|---|---|")
    baselines(task)
    for epsilon in (0.5, 1, 2, 4):
        runs = [task.private(epsilon, seed) for seed in range(seeds)]
        line(f"sparse, ε = {epsilon}", np.mean([errors for errors, _ in runs], axis=0).tolist())
        models = [cg.PrivateFedRep(3, epsilon, simulation_seed=seed).fit(dense) for seed in range(seeds)]
        predictions = [model.predict(task.test_X, users=person[test]) for model in models]
        line(f"dense, ε = {epsilon}", np.mean([task.errors(p) for p in predictions], axis=0).tolist())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jester", type=Path, help="a CSV of people, items and ratings")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.jester:
        jester(arguments.jester, arguments.seeds)
    else:
        simulated(arguments.seeds)
