"""Private learners beside what a user would take instead, on real people: a constant, one's own mean, a mixed model.

    python benchmarks/mixed_models.py [jester5k simulated …] [--seeds 5] [--epsilon 1 4] [--split 7] [--no-dense]

A fifth of everybody's rows is held out. "simulated": 125,000 people who differ by a level and one direction. Beside them, where
they are installed (pip install statsmodels gpboost), what users of mixed models take: statsmodels' MixedLM for sets that are
small enough for it, and gpboost's, both with own intercepts. No constant of the package was chosen on ASSISTments; half of
Jester's people were looked at.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

import commonground as cg

SETS = ("computer-survey", "school", "bank-conjoint", "jester5k", "assistments2015")
RANKS = {"jester5k": (3, 5, 6, 7), "assistments2015": (0, 1, 2)}  # one-hot rows
SIMULATED = 125_000, 8, 10  # people, rows of each, features
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
MOST_ROWS_FOR_STATSMODELS = 20_000


class Split:
    """Rows to learn from and rows held out."""

    def __init__(self, data: Any, seed: int, *, one_hot: bool) -> None:
        held = np.random.default_rng(seed).random(len(data.y)) < 0.2
        self.one_hot, rows = one_hot, sparse.csr_array(data.X) if one_hot else data.X
        self.X, self.y, self.ids = rows[~held], data.y[~held].astype(float), data.user_ids[~held]
        self.held_X, self.held_y, self.held_ids = rows[held], data.y[held].astype(float), data.user_ids[held]

    def judge(self, answers: np.ndarray) -> tuple[float, float]:
        """RMSE, and AUC where labels are two."""
        two = len(np.unique(self.held_y)) == 2
        auc = float(roc_auc_score(self.held_y, answers)) if two else float("nan")
        return float(np.sqrt(np.mean((answers - self.held_y) ** 2))), auc


def without_features(split: Split) -> Iterator[tuple[str, np.ndarray]]:
    """A constant; the mean of one's own labels; the same, pulled to the constant by what people differ by (not private)."""
    mean = split.y.mean()
    people, place = np.unique(np.concatenate([split.ids, split.held_ids]), return_inverse=True)
    own, held = place[: len(split.ids)], place[len(split.ids) :]
    rows = np.bincount(own, minlength=len(people))
    sums = np.bincount(own, split.y - mean, minlength=len(people))
    within = np.mean((split.y - mean - (sums / np.maximum(rows, 1))[own]) ** 2)
    between = max(1e-9, np.var((sums / np.maximum(rows, 1))[rows > 0]) - within / max(np.median(rows[rows > 0]), 1))
    yield "the mean label", np.full(len(held), mean)
    yield "own mean", mean + (sums / np.maximum(rows, 1))[held]
    yield "own mean, shrunk", mean + (sums / (rows + within / between))[held]


def mixed_lm(split: Split) -> np.ndarray:
    import statsmodels.api as sm

    X = np.column_stack([np.ones(len(split.y)), split.X])
    keep = np.flatnonzero(np.r_[True, X[:, 1:].std(axis=0) > 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = sm.MixedLM(split.y, X[:, keep], split.ids).fit()
    own = {person: float(effect.iloc[0]) for person, effect in fitted.random_effects.items()}
    held = np.column_stack([np.ones(len(split.held_y)), split.held_X])[:, keep] @ fitted.fe_params
    return np.asarray(held + np.array([own.get(person, 0.0) for person in split.held_ids]))


def gpboost_model(split: Split) -> np.ndarray:
    import gpboost

    def rows(X: Any) -> np.ndarray:
        dense = X.toarray() if sparse.issparse(X) else X
        return np.column_stack([np.ones(len(dense)), dense])

    X = rows(split.X)
    keep = np.flatnonzero(np.r_[True, X[:, 1:].std(axis=0) > 0])
    if split.one_hot:  # columns of ones add up to the constant
        keep = keep[1:]
    model = gpboost.GPModel(group_data=split.ids, likelihood="gaussian")
    model.fit(y=split.y, X=X[:, keep])
    return np.asarray(model.predict(group_data_pred=split.held_ids, X_pred=rows(split.held_X)[:, keep])["mu"])


def simulated() -> Any:
    """People whose labels are a shared model, an own level, an own coefficient on one shared direction, and noise."""
    people, rows, d = SIMULATED
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(people), rows), rng.standard_normal((people * rows, d))
    direction, own = rng.standard_normal(d) / d**0.5, rng.standard_normal((people, 2))
    shared = X @ (rng.standard_normal(d) / d**0.5)
    y = shared + 0.7 * own[ids, 0] + 0.7 * own[ids, 1] * (X @ direction) + rng.standard_normal(len(ids)) + 3.0
    return SimpleNamespace(X=X, y=y, user_ids=ids)


def others(split: Split) -> Iterator[str]:
    """What users of mixed models take, if it is here."""
    for label, fit, possible in (
        ("statsmodels MixedLM", mixed_lm, len(split.y) <= MOST_ROWS_FOR_STATSMODELS),
        ("gpboost", gpboost_model, True),
    ):
        try:
            began = time.perf_counter()
            if possible:
                answers = fit(split)
                yield _line(label, "none", 0, [split.judge(answers)], [], time.perf_counter() - began)
        except ImportError:
            yield f"| {label} (not installed) | | | | | | |"
        except ValueError as error:  # statsmodels, where own intercepts vary by nothing
            yield f"| {label} ({str(error).splitlines()[0]}) | | | | | | |"


def lines_of(
    name: str, n_seeds: int, epsilons: list[float], dense: bool, held_out: int | None, altmin: bool
) -> Iterator[str]:
    data = simulated() if name == "simulated" else cg.datasets.load(name)
    two = len(np.unique(data.y)) == 2
    one_hot = name in RANKS
    ranks = RANKS.get(name, (0, 1, 2))
    splits = [seed if held_out is None else held_out for seed in range(n_seeds)]
    first = Split(data, splits[0], one_hot=one_hot)
    yield f"\n## {name}: {len(np.unique(data.user_ids)):,} people, {len(data.y):,} rows\n"
    yield "| model | ε | rank | RMSE, mean (worst) | AUC, mean (worst) | 90 % intervals hold | seconds |"
    yield "|---|---|---|---|---|---|---|"
    by_label: dict[str, list[tuple[float, float]]] = {}
    for split in [first, *(Split(data, held, one_hot=one_hot) for held in splits[1:] if held_out is None)]:
        for label, answers in without_features(split):
            by_label.setdefault(label, []).append(split.judge(answers))
    for label, found in by_label.items():
        yield _line(label, "", "", found, [], 0.0)
    yield from others(first)
    for rank in ranks:
        yield _tried(
            "NonPrivateFedRep", lambda seed, k=rank: cg.NonPrivateFedRep(k), data, "none", rank, splits[:1], one_hot
        )
    for epsilon in epsilons:
        for rank in ranks:
            kinds: list[tuple[str, Callable[[int], Any], bool]] = [
                ("PrivateFedRep", lambda seed, k=rank, e=epsilon: cg.PrivateFedRep(k, e, simulation_seed=seed), False)
            ]
            if one_hot:
                kinds.append(("PrivateFedRep, sparse", kinds[0][1], True))
                kinds = kinds if dense else kinds[1:]
            if two:
                kinds.append(
                    (
                        "PrivateFedRepClassifier" + (", sparse" if one_hot else ""),
                        lambda seed, k=rank, e=epsilon: cg.PrivateFedRepClassifier(k, e, simulation_seed=seed),
                        one_hot,
                    )
                )
            if altmin and rank and not one_hot:
                kinds.append(
                    (
                        "PrivateAltMin",
                        lambda seed, k=rank, e=epsilon: cg.PrivateAltMin(k, e, simulation_seed=seed),
                        False,
                    )
                )
            for label, make, as_sparse in kinds:
                yield _tried(label, make, data, epsilon, rank, splits, as_sparse)


def _tried(label: str, make: Any, data: Any, epsilon: Any, rank: int, splits: list[int], one_hot: bool) -> str:
    results, inside, seconds = [], [], 0.0
    for seed, held_out in enumerate(splits):
        split, began = Split(data, held_out, one_hot=one_hot), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make(seed).fit(split.X, split.y, users=split.ids)
            seconds += (time.perf_counter() - began) / len(splits)
            if isinstance(model, cg.PrivateFedRepClassifier):
                results.append(split.judge(model.predict_proba(split.held_X, users=split.held_ids)[:, 1]))
                continue
            answers, std = model.predict(split.held_X, users=split.held_ids, return_std=True)
        results.append(split.judge(answers))
        inside.append(float((np.abs(split.held_y - answers) < 1.645 * std).mean()))
    return _line(label, epsilon, rank, results, inside, seconds)


def _line(
    label: str, epsilon: Any, rank: Any, results: list[tuple[float, float]], inside: list[float], seconds: float
) -> str:
    errors, areas = np.array(results).T
    auc = "" if np.isnan(areas).any() else f"{areas.mean():.4f} ({areas.min():.4f})"
    held = f"{np.mean(inside):.1%}" if inside else ""
    return (
        f"| {label} | {epsilon} | {rank} | {errors.mean():.4f} ({errors.max():.4f}) | {auc} | {held} | {seconds:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--split", type=int, help="the same rows held out for all seeds; without: others for each")
    parser.add_argument("--no-dense", action="store_true", help="one-hot rows as sparse rows only")
    parser.add_argument("--altmin", action="store_true", help="dense rows with PrivateAltMin, too")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    written = ["# Private learners beside mixed models, on real people"]
    print(written[0])
    for name in arguments.sets:
        how = arguments.epsilon, not arguments.no_dense, arguments.split, arguments.altmin
        for line in lines_of(name, arguments.seeds, *how):
            print(line, flush=True)
            written.append(line)
    if arguments.out:
        arguments.out.write_text("\n".join(written) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
