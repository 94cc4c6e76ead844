"""The papers' recipes on real people, beside our defaults: P1's wish (iii).

    python benchmarks/papers_on_people.py [--sets bank-conjoint jester5k] [--runs 2]

RMSE on a held-out fifth of each person's rows, as in benchmarks/real_data.py. The papers' recipes have neither intercepts nor a
mean and assume features of covariance I. So that they are not judged by that, labels are less the public middle of their range,
a constant column stands beside the features (any shared direction may contain it, which gives intercepts), and one-hot columns
are multiplied by the square root of how many there are of a kind, all public numbers; "as it is" has neither middle nor
constant. m is the public number of rows a person; people with other numbers of rows are handled as the recipes say.
"""

import argparse
import warnings
from collections.abc import Iterator

import numpy as np

import commonground as cg
from real_data import rmse, train_and_test

ROWS = {"bank-conjoint": 10, "jester5k": 60}  # m: what most people have at least
SCALE = {"bank-conjoint": 2.0, "jester5k": 10.0}  # 4 and 100 levels
MIDDLE = {"bank-conjoint": 0.5, "jester5k": 0.0}  # of labels 0 and 1, and of ratings from −1 to 1
RANK = {"bank-conjoint": 2, "jester5k": 3}
EPSILONS = (1.0, 4.0, 16.0)


def models(name: str, seed: int) -> Iterator[tuple[str, float, object]]:
    k, m = RANK[name], ROWS[name]
    for epsilon in EPSILONS:
        yield (
            "Private FedRep, paper's recipe",
            epsilon,
            cg.PrivateFedRep(
                k, epsilon, recipe="paper", simulation_seed=seed, paper_settings=cg.PaperSettings(rows_per_user=m)
            ),
        )
        yield (
            "Priv-AltMin, paper's recipe",
            epsilon,
            cg.PrivateAltMin(
                k,
                epsilon,
                recipe="paper",
                simulation_seed=seed,
                paper_settings=cg.AltMinSettings(rows_per_user=m, noise="zcdp"),
            ),
        )
        yield "PrivateFedRep, default", epsilon, cg.PrivateFedRep(k, epsilon, simulation_seed=seed)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--sets", nargs="+", default=list(ROWS), choices=list(ROWS))
    options.add_argument("--runs", type=int, default=2)
    chosen = options.parse_args()
    print("| set | model | ε | RMSE, mean | worst |\n|---|---|---|---|---|", flush=True)
    for name in chosen.sets:
        found: dict[tuple[str, float], list[float]] = {}
        for run in range(chosen.runs):
            train, test = train_and_test(name, run)
            nothing, own = rmse(np.zeros(len(test.y)), test.y), np.bincount(train.ids, train.y)
            means = (own / np.maximum(np.bincount(train.ids), 1))[test.ids]
            found.setdefault(("predicting zero", np.nan), []).append(nothing)
            found.setdefault(("own mean", np.nan), []).append(rmse(means, test.y))
            found.setdefault(("predicting the middle", np.nan), []).append(
                rmse(np.full(len(test.y), MIDDLE[name]), test.y)
            )
            as_it_is, as_it_is_new = SCALE[name] * train.X, SCALE[name] * test.X
            X, X_new = (np.column_stack([rows, np.ones(len(rows))]) for rows in (as_it_is, as_it_is_new))
            users = cg.Users.from_arrays(X, train.y - MIDDLE[name], train.ids)
            plain = cg.Users.from_arrays(as_it_is, train.y, train.ids)
            for label, epsilon, model in models(name, run):
                predicted = model.fit(plain).predict(as_it_is_new, users=test.ids)
                ours = label.endswith("default")  # knows means and intercepts by itself
                found.setdefault((label if ours else f"{label}, as it is", epsilon), []).append(rmse(predicted, test.y))
                if not ours:
                    predicted = MIDDLE[name] + model.fit(users).predict(X_new, users=test.ids)
                    found.setdefault((label, epsilon), []).append(rmse(predicted, test.y))
        for (label, epsilon), errors in found.items():
            at = "–" if np.isnan(epsilon) else f"{epsilon:g}"
            print(f"| {name} | {label} | {at} | {np.mean(errors):.4f} | {max(errors):.4f} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", cg.errors.SharingWarning)
    warnings.simplefilter("ignore", cg.errors.RecipeWarning)
    main()
