"""Classes: PrivateFedRepClassifier beside frequencies, one class against the rest, and open multinomial regression.

    python benchmarks/classes.py [people jester5k computer-survey bank-conjoint] [--seeds 5] [--epsilon 0.5 1 2 4] [--out page.md]

A fifth of everybody's rows is held out, the same for all seeds. Simulated people have four classes and intercepts of their own;
of Jester a rating from -10 to 10 is cut at thirds of its scale, of the computer survey one from 0 to 10 below 4 and above 6.
The bank's choices between two cards are yes-or-no labels. AUC: of each class against the rest, on average. Calibration: how far
what is told is from what is true, by tenths of what is told of each class, on average. Seconds are of this process's CPU. With
--out, a figure is drawn, too.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.progress import progress_bar
from commonground.statistics.classes import contrasts

SETS = ("people", "jester5k", "computer-survey", "bank-conjoint")
LIMITS = {"jester5k": (-10 / 3, 10 / 3), "computer-survey": (3.5, 6.5)}
EPSILONS, DELTA = (0.5, 1.0, 2.0, 4.0), 1e-6
NO_NOISE = 1e5  # ε
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "classes"


@dataclass(frozen=True)
class Rows:
    """Rows to learn from and rows held out; labels are places of classes."""

    X: Any
    y: np.ndarray
    ids: np.ndarray
    held: np.ndarray

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1

    def fit(self, model: Any, labels: np.ndarray | None = None) -> Any:
        y, seen = self.y if labels is None else labels, ~self.held
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(self.X[seen], y[seen], users=self.ids[seen])

    def told(self, model: Any) -> np.ndarray:
        return np.asarray(model.predict_proba(self.X[self.held], users=self.ids[self.held]))

    def judge(self, p: np.ndarray) -> tuple[float, ...]:
        """Log loss, accuracy, AUC, calibration."""
        y = self.y[self.held]
        loss = -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12)).mean()
        off = [np.mean([abs(a - b) for a, b in curve(p[:, c], y == c)]) for c in range(self.n_classes)]
        auc = np.mean([roc_auc_score(y == c, p[:, c]) for c in range(self.n_classes)])
        return float(loss), float((p.argmax(axis=1) == y).mean()), float(auc), float(np.mean(off))


def curve(told: np.ndarray, true: np.ndarray) -> list[tuple[float, float]]:
    """(what is told, what is true) by tenths of what is told."""
    groups = np.array_split(np.argsort(told, kind="stable"), 10)
    return [(float(told[some].mean()), float(true[some].mean())) for some in groups]


def rows_of(name: str) -> Rows:
    if name == "people":
        X, y, ids = simulated()
    else:
        data = cg.datasets.load(name)
        if data.test is not None:
            data = data.test.__class__(
                np.concatenate([data.X, data.test.X]),
                np.concatenate([data.y, data.test.y]),
                np.concatenate([data.user_ids, data.test.user_ids]),
            )
        one_hot = name == "jester5k"
        X, y, ids = sparse.csr_array(data.X) if one_hot else data.X, _cut(data.y, name), data.user_ids
    return Rows(X, y, ids, np.random.default_rng(7).random(len(y)) < 0.2)


def _cut(labels: np.ndarray, name: str) -> np.ndarray:
    return np.digitize(labels, LIMITS[name]) if name in LIMITS else (labels > 0).astype(int)


def simulated(n: int = 5000, rows: int = 12, d: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four classes, of which one in ten labels is the rarest; own contrasts have the standard deviation 0.8."""
    rng, B = np.random.default_rng(0), contrasts(4)
    ids, X = np.repeat(np.arange(n), rows), rng.standard_normal((n * rows, d))
    own, slopes = 0.8 * rng.standard_normal((n, 3)), 0.5 * rng.standard_normal((d, 3))
    p = np.exp((X @ slopes + B.T @ np.log([0.4, 0.3, 0.2, 0.1]) + own[ids]) @ B.T)
    p /= p.sum(axis=1, keepdims=True)
    return X, (rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1), ids


def open_baselines(rows: Rows) -> Iterator[tuple[str, np.ndarray]]:
    """Not private: frequencies; own ones, pulled to them as much as suits the labels best; multinomial regression."""
    seen, K = ~rows.held, rows.n_classes
    frequencies = np.bincount(rows.y[seen], minlength=K) / seen.sum()
    yield "frequencies of classes, not private", np.tile(frequencies, (int(rows.held.sum()), 1))
    people, place = np.unique(rows.ids, return_inverse=True)
    counts = np.bincount(place[seen] * K + rows.y[seen], minlength=len(people) * K).reshape(-1, K).astype(float)

    def left_out(strength: float) -> float:
        """Of each label to learn from, its log loss by the person's other labels."""
        others = counts[place[seen]] - np.eye(K)[rows.y[seen]] + strength * frequencies
        mine = others[np.arange(len(others)), rows.y[seen]]
        return float(-np.log(mine / others.sum(axis=1)).mean())

    strength = min(2.0 ** np.arange(-2, 10), key=left_out)
    pulled = counts + strength * frequencies
    yield "own frequencies, shrunk, not private", (pulled / pulled.sum(axis=1, keepdims=True))[place[rows.held]]
    shared = LogisticRegression(max_iter=300).fit(rows.X[seen], rows.y[seen])
    yield "multinomial regression, not private", shared.predict_proba(rows.X[rows.held])


def one_against_the_rest(rows: Rows, epsilon: float, seed: int) -> np.ndarray:
    """A model for each class, each with its part of μ², and probabilities brought to a sum of one."""
    part = gaussian_epsilon(Budget(epsilon, DELTA).mu / rows.n_classes**0.5, DELTA)
    chances = []
    for c in range(rows.n_classes):
        model = cg.PrivateFedRepClassifier(0, part, DELTA, simulation_seed=100 * seed + c)
        chances.append(rows.told(rows.fit(model, (rows.y == c).astype(int)))[:, 1])
    p = np.column_stack(chances)
    return p / p.sum(axis=1, keepdims=True)


def together(rows: Rows, epsilon: float, seed: int) -> np.ndarray:
    classes = tuple(range(rows.n_classes))
    return rows.told(rows.fit(cg.PrivateFedRepClassifier(0, epsilon, DELTA, classes=classes, simulation_seed=seed)))


def with_directions(rows: Rows, epsilon: float, seed: int) -> np.ndarray:
    return rows.told(rows.fit(cg.PrivateFedRepClassifier(2, epsilon, DELTA, simulation_seed=seed)))


def line(label: str, epsilon: str, found: list[tuple[float, ...]], seconds: str) -> str:
    (loss, right, auc, off), worst = np.mean(found, axis=0), np.max(found, axis=0)[0]
    spread = f" ({worst:.4f})" if len(found) > 1 else ""
    return f"| {label} | {epsilon} | {loss:.4f}{spread} | {right:.4f} | {auc:.4f} | {off:.4f} | {seconds} |"


def lines_of(name: str, seeds: int, epsilons: tuple[float, ...], advance: Callable[[], None]) -> Iterator[str]:
    rows = rows_of(name)
    people, shares = len(np.unique(rows.ids)), np.bincount(rows.y) / len(rows.y)
    yield f"\n## {name}\n"
    yield (
        f"{people:,} people, {len(rows.y):,} rows of {rows.X.shape[1]} features; shares of classes "
        f"{', '.join(f'{share:.2f}' for share in shares)}.\n"
    )
    yield "| model | ε | log loss (worst seed) | accuracy | AUC | calibration | CPU s |\n|---|---|---|---|---|---|---|"
    for label, p in open_baselines(rows):
        yield line(label, "", [rows.judge(p)], "")
    yield line("the same without noise", "", [rows.judge(together(rows, NO_NOISE, 0))], "")
    other = ("one against the rest", one_against_the_rest)
    if rows.n_classes == 2:
        other = ("PrivateFedRepClassifier, two directions", with_directions)
    for epsilon in epsilons:
        for label, told in (("PrivateFedRepClassifier", together), other):
            start, found = time.process_time(), []
            for seed in range(seeds):
                found.append(rows.judge(told(rows, epsilon, seed)))
                advance()
            yield line(label, f"{epsilon:g}", found, f"{(time.process_time() - start) / seeds:.1f}")


def draw(sets: list[str], epsilon: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(sets), figsize=(4.2 * len(sets), 4.9), layout="constrained", squeeze=False)
    for axis, name in zip(axes[0], sets, strict=True):
        rows = rows_of(name)
        p = together(rows, epsilon, 0)
        axis.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
        for c in range(rows.n_classes):
            axis.plot(
                *zip(*curve(p[:, c], rows.y[rows.held] == c), strict=True), "o-", ms=4, lw=1.2, label=f"class {c}"
            )
        axis.set(title=name, xlabel="told probability", ylabel="share of held-out labels", xlim=(0, 1), ylim=(0, 1))
        axis.set_aspect("equal")
        axis.legend(frameon=False, loc="upper left")
    figure.suptitle(f"PrivateFedRepClassifier, ε = {epsilon:g}: tenths of what is told of each class")
    for ending in (".png", ".svg"):
        figure.savefig(FIGURE.with_suffix(ending), dpi=120, metadata={"Date": None} if ending == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    written = [
        "# Classes: measured",
        "",
        "Written by `python benchmarks/classes.py --out docs/measured/classes.md`.",
    ]
    fits = 2 * arguments.seeds * len(arguments.epsilon) * len(arguments.sets)
    with progress_bar("fitting", fits, True) as advance:
        for name in arguments.sets:
            for text in lines_of(name, arguments.seeds, tuple(arguments.epsilon), advance):
                print(text, flush=True)
                written.append(text)
    if arguments.out:
        arguments.out.write_text("\n".join(written) + "\n", encoding="utf-8")
        draw(list(arguments.sets), 1.0)


if __name__ == "__main__":
    main()
