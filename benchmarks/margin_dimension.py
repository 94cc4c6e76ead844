"""Does the error of the margin classifier grow with the number of features? (P2, Theorem 17: it does not.)

    python benchmarks/margin_dimension.py [--people 1000] [--seeds 3] [--out docs/figures/margin_classifier.svg]
    python benchmarks/margin_dimension.py --nuisance all --out docs/figures/margin_classifier_all.svg

Test error on ten fresh rows of each person, three to train; median, best and worst of the seeds. The noise is simulated, so
that seeds repeat. What says nothing about the class lies in four directions at every d, so that rows span five dimensions
however many features there are; or (--nuisance all) in all d − 1 others.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import commonground as cg

DIMENSIONS = {"few": [50, 200, 1000, 5000], "all": [50, 200, 1000, 2000]}
FEW = 4
MARGIN = 0.3  # of the classes; the classifier asks for its default, 0.1
TRAIN, TEST = 3, 10  # rows of each person


def methods(d: int, epsilon: float, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"margin classifier, k' = {dim} (pure ε)": cg.PrivateMarginClassifier(
            1, epsilon, projected_dim=dim, simulation_seed=seed, candidate_seed=seed
        )
        for dim in (8, 16)
    }
    found["margin classifier, paper, k' = 8 (pure ε)"] = cg.PrivateMarginClassifier(
        1, epsilon, recipe="paper", projected_dim=8, simulation_seed=seed, candidate_seed=seed
    )
    if d <= 1000:  # the first step of FedRep releases d²/2 numbers, and own data needs d coefficients a person
        found["own data only"] = cg.OwnDataOnly(fit_intercept=False)
        found["PrivateFedRep on ±1 (δ = 1e-6)"] = cg.PrivateFedRep(
            1, epsilon, 1e-6, fit_intercept=False, shared_mean=False, simulation_seed=seed
        )
    return found


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--people", type=int, default=1000)
    options.add_argument("--epsilon", type=float, default=1.0)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--nuisance", choices=["few", "all"], default="few")
    options.add_argument("--out", type=Path, default=Path("docs/figures/margin_classifier.svg"))
    chosen = options.parse_args()
    ids, ids_new = (np.repeat(np.arange(chosen.people), rows) for rows in (TRAIN, TEST))
    errors: dict[str, dict[int, list[float]]] = {}
    print(
        f"{chosen.people:,} people, {TRAIN} rows each, margin {MARGIN}, ε = {chosen.epsilon:g}, {chosen.seeds} seeds, "
        f"nuisance in {'four' if chosen.nuisance == 'few' else 'all other'} directions\n"
    )
    print("| d | method | test error, median | best | worst | seconds |\n|---|---|---|---|---|---|")
    for d in DIMENSIONS[chosen.nuisance]:
        nuisance = FEW if chosen.nuisance == "few" else d - 1
        seconds: dict[str, float] = {}
        for seed in range(chosen.seeds):
            users = cg.datasets.make_margin_classes(
                chosen.people, TRAIN + TEST, d, margin=MARGIN, n_nuisance=nuisance, seed=seed
            )
            block = next(users.blocks(max_bytes=2**33))
            train = np.tile(np.arange(TRAIN + TEST) < TRAIN, chosen.people)
            X, y, X_new, y_new = block.X[train], block.y[train], block.X[~train], block.y[~train]
            for name, model in methods(d, chosen.epsilon, seed).items():
                start = time.perf_counter()
                model.fit(X, y, users=ids)
                seconds[name] = time.perf_counter() - start
                wrong = float((np.sign(model.predict(X_new, users=ids_new)) != y_new).mean())
                errors.setdefault(name, {}).setdefault(d, []).append(wrong)
        for name in seconds:
            found = errors[name][d]
            print(
                f"| {d:,} | {name} | {np.median(found):.3f} | {min(found):.3f} | {max(found):.3f} | {seconds[name]:.1f} |",
                flush=True,
            )
    draw(errors, chosen.out)


def draw(errors: dict[str, dict[int, list[float]]], out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "commonground"
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name, by_dimension in errors.items():
        ds = sorted(by_dimension)
        (line,) = axis.plot(ds, [np.median(by_dimension[d]) for d in ds], marker="o", label=name)
        axis.fill_between(
            ds,
            [min(by_dimension[d]) for d in ds],
            [max(by_dimension[d]) for d in ds],
            color=line.get_color(),
            alpha=0.15,
        )
    axis.set(xscale="log", xlabel="features d", ylabel="test error", ylim=(0, 0.55))
    axis.legend(fontsize=8)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, metadata={"Date": None})
    print(f"\nFigure: {out}")


if __name__ == "__main__":
    main()
