"""What private personalisation brings real people, beside what they have without it.

    python benchmarks/real_data.py                              # all sets, a row of CSV for each fit
    python benchmarks/real_data.py --sets school --runs 2
    python benchmarks/real_data.py --draw                       # table and figure from the CSV
    python benchmarks/real_data.py --halves                     # Jester: people on whom constants were chosen, and the others

Needs the data sets of ``cg.datasets.load``. A fifth of each person's rows is held out (the computer survey brings its own test
rows); every run has another split and two other seeds of the simulated noise. RMSE over all held-out rows. Labels and
percentages are divided by public constants. Which constants were chosen on which people: docs/real_data.md.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import commonground as cg
from commonground.accounting.budgets import Budget

EPSILONS = (0.5, 1.0, 2.0, 4.0)
TITLES = {
    "jester5k": "Jester, 5,000 people, 100 jokes",
    "bank-conjoint": "bank conjoint, 946 people",
    "camera-conjoint": "camera conjoint, 332 people",
    "computer-survey": "computer survey, 180 people",
    "school": "ILEA, 139 schools",
}
LABEL_UNITS = {"jester5k": 10.0, "computer-survey": 10.0, "school": 70.0}
COLUMNS = ["set", "model", "epsilon", "run", "rmse", "sharing pays", "own models", "seconds"]


@dataclass(frozen=True)
class Rows:
    X: np.ndarray
    y: np.ndarray
    ids: np.ndarray


def train_and_test(name: str, run: int) -> tuple[Rows, Rows]:
    data = cg.datasets.load(name)
    unit = LABEL_UNITS.get(name, 1.0)
    everything = Rows(data.X, (data.y / unit).astype(data.y.dtype), data.user_ids)
    if name == "school":
        everything.X[:, :2] /= 100.0  # percentages
    if data.test is not None:
        return everything, Rows(data.test.X, data.test.y / unit, data.test.user_ids)
    return held_out_fifth(everything, run)


def held_out_fifth(everything: Rows, run: int) -> tuple[Rows, Rows]:
    ids = everything.ids
    order = np.lexsort((np.random.default_rng([run, 0x5917]).random(len(ids)), ids))
    starts = np.flatnonzero(np.r_[True, np.diff(ids[order]) != 0])
    sizes = np.diff(np.r_[starts, len(ids)])
    held_out = np.zeros(len(ids), dtype=bool)
    held_out[order] = np.arange(len(ids)) - np.repeat(starts, sizes) < np.repeat(np.round(sizes / 5), sizes)
    return tuple(Rows(everything.X[part], everything.y[part], ids[part]) for part in (~held_out, held_out))


def rmse(predicted: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((predicted - y) ** 2)))


def rank_at(name: str, epsilon: float) -> int:
    return 3 if name == "jester5k" and epsilon >= 1 else 2  # fewer directions where the budget is small


def models(name: str, run: int, epsilons: Sequence[float]) -> Iterator[tuple[str, float, cg.PrivateFedRep]]:
    for seed in (run, 100 + run):
        for epsilon in epsilons:
            yield "Private FedRep", epsilon, cg.PrivateFedRep(rank_at(name, epsilon), epsilon, simulation_seed=seed)
        yield "one private model", 1.0, cg.SingleModel(1.0, simulation_seed=seed)
    yield "own data", np.nan, cg.OwnDataOnly()
    if name != "jester5k" or run == 0:  # minutes there
        yield "own data towards the pooled model (not private)", np.nan, cg.OwnDataOnly(towards="pooled")
        yield "FedRep (not private)", np.nan, cg.NonPrivateFedRep(rank_at(name, 1.0), max_iterations=40)


def measure(name: str, run: int, epsilons: Sequence[float]) -> Iterator[list[object]]:
    train, test = train_and_test(name, run)
    users = cg.Users.from_arrays(train.X, train.y, train.ids)
    person, sums = np.unique(train.ids), np.bincount(train.ids, train.y)
    own_mean = (sums[person] / np.bincount(train.ids)[person])[np.searchsorted(person, test.ids)]
    yield [
        name,
        "global mean (not private)",
        np.nan,
        run,
        rmse(np.full(len(test.y), train.y.mean()), test.y),
        "",
        "",
        0,
    ]
    yield [name, "own mean", np.nan, run, rmse(own_mean, test.y), "", "", 0]
    for label, epsilon, model in models(name, run, epsilons):
        started = time.perf_counter()
        model.fit(users)
        pays, alone = model.billboard_.statement.sharing_pays, len(model.own_models_.people) / users.n_users
        error = rmse(model.predict(test.X, users=test.ids), test.y)
        yield [name, label, epsilon, run, error, "" if pays is None else pays, alone, time.perf_counter() - started]


def measure_halves(runs: int) -> None:
    """Jester's people in two halves, constants chosen on the first; ε such that n·μ, and so signal to noise, is that of all."""
    data = cg.datasets.load("jester5k")
    order = np.random.default_rng(20260).permutation(np.unique(data.user_ids))
    for title, people in (("tuning", order[: len(order) // 2]), ("others", order[len(order) // 2 :])):
        here = np.isin(data.user_ids, people)
        half = Rows(data.X[here], data.y[here] / np.float32(LABEL_UNITS["jester5k"]), data.user_ids[here])
        for as_of_all in EPSILONS[:3]:
            mu = 2 * Budget(as_of_all, 1e-6).mu
            epsilon, errors = brentq(lambda e, mu=mu: Budget(e, 1e-6).mu - mu, as_of_all, 20 * as_of_all), []
            for run in range(runs):
                train, test = held_out_fifth(half, 1000 + run)
                model = cg.PrivateFedRep(rank_at("jester5k", as_of_all), epsilon, simulation_seed=1000 + run)
                model.fit(cg.Users.from_arrays(train.X, train.y, train.ids))
                errors.append(rmse(model.predict(test.X, users=test.ids), test.y))
            print(
                f"{title}, ε = {epsilon:.3f} for {as_of_all:g}: {np.mean(errors):.4f} ({max(errors):.4f})", flush=True
            )


def draw(path: Path, figure: Path) -> None:
    """A table in Markdown, mean (worst) over runs, and one panel a set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in TITLES if any(row["set"] == name for row in rows)]
    labels = list(dict.fromkeys((row["model"], row["epsilon"]) for row in rows))
    labels.sort(key=lambda label: (label[0] == "Private FedRep", label[0] == "one private model", label[1]))
    print("| model | ε | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 2))
    for model, epsilon in labels:
        cells = []
        for name in names:
            found = [r for r in rows if (r["set"], r["model"], r["epsilon"]) == (name, model, epsilon)]
            errors = [float(r["rmse"]) for r in found]
            note = " †" if any(r["sharing pays"] == "False" for r in found) else ""
            cells.append(f"{np.mean(errors):.4f} ({max(errors):.4f}){note}" if errors else "–")
        print(f"| {model} | {'–' if epsilon == 'nan' else epsilon} | " + " | ".join(cells) + " |")
    colours = dict(zip([m for m, _ in labels if "Private" not in m], plt.cm.tab10.colors, strict=False))
    canvas, axes = plt.subplots(1, len(names), figsize=(3.1 * len(names), 3.4), layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        here = [row for row in rows if row["set"] == name]
        for model in dict.fromkeys(row["model"] for row in here):
            mine = [row for row in here if row["model"] == model]
            errors = [float(row["rmse"]) for row in mine]
            if model == "Private FedRep":
                at = [float(row["epsilon"]) for row in mine]
                levels = sorted(set(at))
                means = [np.mean([e for e, x in zip(errors, at, strict=True) if x == level]) for level in levels]
                axis.plot(at, errors, ".", color="black", alpha=0.35)
                axis.plot(levels, means, color="black", marker="o", label=model)
            elif model == "one private model":
                axis.plot([1.0], [np.mean(errors)], "x", color=colours[model], label=f"{model}, ε = 1")
            else:
                axis.axhline(np.mean(errors), color=colours[model], label=model, linewidth=1.2)
        shown = [float(row["rmse"]) for row in here if row["model"] != "one private model"]  # which may explode
        axis.set_ylim(0.98 * min(shown), 1.02 * max(shown))
        axis.set(xscale="log", xticks=EPSILONS, title=TITLES[name], xlabel="ε")
        axis.set_xticklabels([f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
    axes[0][0].set_ylabel("RMSE on held-out rows")
    handles = {
        label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, fontsize=8)
    canvas.savefig(figure, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first-run", type=int, default=0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--out", type=Path, default=Path("bench/real_data.csv"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/real_data.png"))
    parser.add_argument(
        "--halves", action="store_true", help="only compare the people of Jester on whom constants were chosen"
    )
    parser.add_argument("--draw", action="store_true", help="only draw what was measured before")
    arguments = parser.parse_args()
    if arguments.halves:
        return measure_halves(arguments.runs)
    if not arguments.draw:
        arguments.out.parent.mkdir(exist_ok=True)
        with open(arguments.out, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                writer.writerow(COLUMNS)
            for name in arguments.sets:
                for run in range(arguments.first_run, arguments.runs):
                    for row in measure(name, run, arguments.epsilons):
                        writer.writerow(row)
                        file.flush()
                        print(*row, flush=True)
    draw(arguments.out, arguments.figure)


if __name__ == "__main__":
    warnings.simplefilter("ignore", cg.errors.SharingWarning)
    main()
