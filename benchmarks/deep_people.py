"""A body for people whose heads are profiled out, beside what there is without: docs/deep_people.md.

    python benchmarks/deep_people.py                # measures what docs/measured/deep_people.jsonl lacks (10 CPU minutes)
    python benchmarks/deep_people.py --show         # the tables and the figure from that file

Noise is simulated, so that a run can be repeated. Two populations:

* *simulated*: y = h_j · g(x) + 0.1 · noise with x ~ N(0, I₁₀), 16 rows a person, g: R¹⁰ → R² two random layers with 8 tanh units
  between, h_j ~ N(½, I₂). Error on 16 further rows of each person.
* *writers*: MNIST's 836 writers (QMNIST's column), their digits as 7 × 7 means of 4 × 4 pixels. Accuracy on every fourth image.

Beside heads that are profiled out: *one private model* is the same training without own heads (an infinite ridge), which is
that of ``JointTrainer`` with unit="user" and this loss (a test); *heads at rest* are own heads fitted at its end, as
JointTrainer's are; *own model* is ridge on raw features. All own ridges are chosen by leaving out one's own rows in turn.
ε = ∞ makes the sums public as they are.

δ = 1e-5 everywhere. Every parameter but the sampling probability (which shrinks where people are many) and the rows of a writer
that take part is the default. Seeds 10, 11, … were not looked at while defaults were chosen.
"""

import argparse
import gzip
import json
import math
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

import commonground as cg
from commonground.deep import PeopleTrainer
from commonground.deep.profiled import WithSharedHead
from commonground.gate import SampledReleases
from commonground.progress import progress_bar

DOCS = Path(__file__).parents[1] / "docs"
FILE = DOCS / "measured" / "deep_people.jsonl"
EPSILONS, SEEDS, DELTA = (1.0, 2.0, 4.0, 8.0, math.inf), (10, 11, 12), 1e-5
PEOPLE = (50, 150, 500, 2000, 8000)
D, K, HIDDEN, ROWS = 10, 2, 8, 16

Cell = dict[str, Any]


class Noiseless(SampledReleases):
    """ε = ∞, for comparison only: a statement made through it says that it protects nobody."""

    def release(self, bounded_sum: Any) -> np.ndarray:
        super().release(bounded_sum)
        return np.array(bounded_sum.value)


class Rows:
    """Rows for training and for testing, and whose they are."""

    def __init__(self, X: np.ndarray, y: np.ndarray, users: np.ndarray, test: np.ndarray, classes: Any = None) -> None:
        self.classes = classes
        self.X, self.y, self.users = X[~test], y[~test], users[~test]
        self.test_X, self.test_y, self.test_users = X[test], y[test], users[test]

    def quality(self, answers: np.ndarray) -> float:
        """Mean squared error, or accuracy."""
        right = answers == self.test_y if self.classes is not None else (answers - self.test_y) ** 2
        return float(right.mean())


def simulated(n: int, seed: int) -> tuple[Rows, Rows]:
    """The same people as they are, and seen through the true map."""
    rng = np.random.default_rng([seed, 0xDEE9])
    first, second = (
        rng.standard_normal((D, HIDDEN)) / math.sqrt(D),
        1.3 * rng.standard_normal((HIDDEN, K)) / math.sqrt(HIDDEN),
    )
    X, users = rng.standard_normal((2 * ROWS * n, D)), np.repeat(np.arange(n), 2 * ROWS)
    mapped, heads = np.tanh(2 * X @ first) @ second, 0.5 + rng.standard_normal((n, K))
    y = (mapped * heads[users]).sum(1) + 0.1 * rng.standard_normal(len(X))
    test = np.arange(len(X)) % 2 == 1
    return Rows(X.astype(np.float32), y, users, test), Rows(mapped.astype(np.float32), y, users, test)


def writers(seed: int) -> Rows:
    mnist = cg.datasets.load("mnist")
    assert mnist.test is not None
    folder = Path(cg.datasets.real.os.environ.get(cg.datasets.real.FOLDER_VARIABLE) or "../shared/data")
    with gzip.open(folder / "mnist-writers" / "writers.csv.gz", "rt") as file:
        lines = [line.strip().split(",") for line in file][1:]
    from_test = np.array([line[0] == "test" for line in lines])
    index, users = (np.array([int(line[column]) for line in lines]) for column in (1, 2))
    X, y = np.zeros((len(lines), 7, 7), np.float32), np.zeros(len(lines), np.int64)
    for part, these in ((mnist, ~from_test), (mnist.test, from_test)):
        X[these] = part.X[index[these]].reshape(-1, 7, 4, 7, 4).mean((2, 4)) / 255
        y[these] = part.y[index[these]]
    order = np.random.default_rng([seed, 0x3117]).permutation(len(y))
    return Rows(X.reshape(len(y), -1)[order], y[order], users[order], np.arange(len(y)) % 4 == 0, range(10))


def body(n_inputs: int, n_features: int) -> nn.Module:
    draws = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(n_inputs, 32), nn.Tanh(), nn.Linear(32, n_features))
    for layer in (network[0], network[2]):
        assert isinstance(layer, nn.Linear)
        reach = 1 / math.sqrt(layer.in_features)
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -reach, reach, generator=draws)
    return network


def with_heads(model: WithSharedHead, rows: Rows) -> float:
    """Everybody's own head for a network, ridge by leave-one-out; costs nobody anything."""
    trainer = PeopleTrainer(model.body, classes=rows.classes)
    trainer.billboard_, trainer._model = None, model  # type: ignore[assignment]
    return rows.quality(trainer.fit_people(rows.X, rows.y, rows.users).predict(rows.test_X, rows.test_users))


def untrained(network: nn.Module, n_features: int, rows: Rows) -> float:
    return with_heads(WithSharedHead(network, n_features, 1 if rows.classes is None else len(rows.classes)), rows)


def trained(rows: Rows, epsilon: float, seed: int, n_features: int, **settings: Any) -> PeopleTrainer:
    private = math.isfinite(epsilon)
    trainer = PeopleTrainer(
        body(rows.X.shape[1], n_features), epsilon if private else 8.0, DELTA, classes=rows.classes, simulation_seed=seed,
        learning_rate=None if private else 4.0, **settings,
    )  # fmt: skip
    return trainer.fit(rows.X, rows.y, rows.users, gate=SampledReleases if private else Noiseless)


def linear(rows: Rows, epsilon: float, seed: int) -> float:
    users = cg.Users.from_arrays(rows.X, rows.y, rows.users)
    model: Any = cg.NonPrivateFedRep(rank=K)
    if math.isfinite(epsilon):
        model = cg.PrivateFedRep(rank=K, epsilon=epsilon, delta=DELTA, simulation_seed=seed)
    return rows.quality(model.fit(users).predict(rows.test_X, users=rows.test_users))


def cells(rows: Rows, told: Cell, n_features: int, settings: Cell, with_one_model: bool) -> Iterator[Cell]:
    """Every method that is trained, for every ε (one model for all: the first and the last two)."""
    for epsilon in EPSILONS:
        for ridge in (1.0, math.inf) if with_one_model and epsilon not in (2.0, 4.0) else (1.0,):
            began = time.process_time()
            model = trained(rows, epsilon, told["seed"], n_features, ridge=ridge, **settings)
            seconds = time.process_time() - began
            here = {**told, "epsilon": str(epsilon)}
            if math.isfinite(ridge):
                found = rows.quality(model.predict(rows.test_X, rows.test_users))
                yield {**here, "method": "heads profiled out", "quality": found, "cpu_seconds": round(seconds, 1)}
            else:
                found = rows.quality(model.predict(rows.test_X))
                yield {**here, "method": "one private model", "quality": found, "cpu_seconds": round(seconds, 1)}
                yield {**here, "method": "heads at rest", "quality": with_heads(model._model, rows)}
        if rows.classes is None:
            found = linear(rows, epsilon, told["seed"])
            yield {**told, "epsilon": str(epsilon), "method": "linear, PrivateFedRep", "quality": found}


def free(rows: Rows, told: Cell, n_features: int) -> Iterator[Cell]:
    """What costs no budget."""
    n_inputs = rows.X.shape[1]
    public_start = body(n_inputs, n_features)
    for method, network, width in (
        ("own model, raw features", nn.Identity(), n_inputs),
        ("heads on the untrained body", public_start, n_features),
    ):
        yield {**told, "epsilon": "0", "method": method, "quality": untrained(network, width, rows)}


def some_simulated(n: int, seed: int, told: Cell) -> Iterator[Cell]:
    rows, through_the_truth = simulated(n, seed)
    found = untrained(nn.Identity(), K, through_the_truth)
    yield {**told, "epsilon": "0", "method": "heads on the true map", "quality": found}
    yield from free(rows, told, 4)
    yield from cells(rows, told, 4, {"sampling_probability": min(0.1, 200 / n)}, with_one_model=seed == SEEDS[0])


def some_writers(n: int, seed: int, told: Cell) -> Iterator[Cell]:
    rows = writers(seed)
    yield from free(rows, told, 12)
    yield from cells(rows, told, 12, {"rows_per_person": 64}, with_one_model=True)


JOBS = [
    *(("simulated", n, SEEDS[0], some_simulated) for n in PEOPLE),
    *(
        ("simulated", n, seed, some_simulated) for seed in SEEDS[1:] for n in PEOPLE[:-1]
    ),  # the largest takes long, once
    *(("writers", 836, seed, some_writers) for seed in SEEDS[:2]),  # two are enough where 17,500 images are judged
]


OWN = "own model, raw features"
METHODS = ("heads on the true map", "heads profiled out", "linear, PrivateFedRep", "heads at rest", "one private model",
           "own model, raw features", "heads on the untrained body")  # fmt: skip


def show(found: list[Cell]) -> None:
    tables = {(c["data"], c["n"]) for c in found}
    for data, n in sorted(tables):
        print(f"\n{data}, {n} people")
        print(f"| | {' | '.join(f'ε = {e:g}' for e in EPSILONS)} |\n|---|{'---|' * len(EPSILONS)}")
        for method in METHODS:
            columns = []
            for epsilon in (str(e) for e in EPSILONS):
                values = [c["quality"] for c in found if (c["data"], c["n"], c["method"]) == (data, n, method)
                          and c["epsilon"] in ("0", epsilon)]  # fmt: skip
                spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
                columns.append(f"{np.mean(values):.3f}{spread}" if values else "–")
            if set(columns) != {"–"}:
                print(f"| {method} | " + " | ".join(columns) + " |")
    print("\nsimulated: heads profiled out ÷ own model, lowest and highest of the seeds")
    of = {(c["n"], c["seed"], c["method"], c["epsilon"]): c["quality"] for c in found if c["data"] == "simulated"}
    for n in PEOPLE:
        seeds = sorted({seed for people, seed, *_ in of if people == n})
        ratios = [[of[n, seed, METHODS[1], str(e)] / of[n, seed, OWN, "0"] for seed in seeds] for e in EPSILONS]
        print(f"| {n:,} | {' | '.join(f'{min(r):.2f} to {max(r):.2f}' for r in ratios)} |")
    spent = sum(c.get("cpu_seconds", 0.0) for c in found)
    print(f"\nCPU seconds of all trainings: {spent:.0f}")
    draw(found)


def draw(found: list[Cell]) -> None:
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for method in METHODS:
        for axes, epsilon in ((left, "1.0"), (right, "8.0")):
            line = {
                n: [c["quality"] for c in found if (c["data"], c["n"], c["method"]) == ("simulated", n, method)
                    and c["epsilon"] in ("0", epsilon)]
                for n in PEOPLE
            }  # fmt: skip
            dashed = method in ("heads on the true map", "own model, raw features", "heads on the untrained body")
            axes.plot(list(line), [np.mean(v) for v in line.values()], "--" if dashed else "o-", label=method)
            axes.set(xscale="log", yscale="log", xlabel="people", title=f"simulated people, ε = {float(epsilon):g}")
    left.set_ylabel("mean squared error on further rows")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    for kind in ("svg", "png"):
        figure.savefig(
            DOCS / "figures" / f"deep_people.{kind}", dpi=130, metadata={"Date": None} if kind == "svg" else None
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="tables and figure of what was measured")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # that sharing may not pay, which is what is measured
    done = {tuple(cell["job"]) for cell in known()}
    left = [job for job in JOBS if job[:3] not in done and not given.show]
    with progress_bar("parts", len(left), bool(left)) as advance:
        for data, n, seed, part in left:
            told = {"job": [data, n, seed], "data": data, "n": n, "seed": seed}
            found = [json.dumps(cell) + "\n" for cell in part(n, seed, told)]
            with FILE.open("a", encoding="utf-8") as file:  # a part is there as a whole, or will be measured again
                file.write("".join(found))
            advance()
    show(known())


def known() -> list[Cell]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


if __name__ == "__main__":
    main()
