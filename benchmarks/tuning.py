"""Tuning within one budget, beside fixed settings and beside a naive search: 12 candidates on Jester at a total ε = 2.

python benchmarks/tuning.py                 # writes docs/measured/tuning.md and docs/figures/tuning.{png,svg}
python benchmarks/tuning.py --choose        # on simulated people: keep the winner's fit, or fit again, and with how much
python benchmarks/tuning.py --ways          # on simulated people: split against repeat-and-select, 16 fits to compare

A fifth of everybody's rows is held out from everything, searches included, to tell errors by (not private: a benchmark).
"""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import commonground as cg
from commonground.accounting.gaussian import gaussian_epsilon, gaussian_mu
from commonground.datasets.real import load
from commonground.progress import progress_bar
from commonground.tuning import parts as rules

EPSILON, DELTA = 2.0, 1e-6
GRID: dict[str, list[Any]] = {"rank": [0, 1, 2, 3, 4, 5], "shared_mean": [True, False]}
ROOT = Path(__file__).parents[1]


def rmse(model: Any, X: Any, y: np.ndarray, ids: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X, users=ids) - y) ** 2)))


def jester() -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    data = load("jester5k")
    order = np.argsort(data.user_ids, kind="stable")
    X, y, ids = sparse.csr_array(data.X[order]), data.y[order], data.user_ids[order]
    _, first = np.unique(ids, return_index=True)
    place = np.arange(len(ids)) - np.repeat(first, np.diff(np.append(first, len(ids))))
    return X, y, ids, place % 5 == 3


def naive_epsilon(n_fits: int) -> float:
    """What n fits of ε = 2 cost the same people together, before anybody has looked at an error."""
    return gaussian_epsilon(gaussian_mu(EPSILON, DELTA) * math.sqrt(n_fits), DELTA)


def on_jester(seeds: int) -> None:
    X, y, ids, out = jester()
    train = cg.Users.from_arrays(X[~out], y[~out], ids[~out])
    test = X[out], y[out], ids[out]
    settings = [{"rank": r, "shared_mean": m} for r in GRID["rank"] for m in GRID["shared_mean"]]
    fixed = np.zeros((seeds, len(settings)))
    tuned, chosen, ranks_only = [], [], []
    with progress_bar("tuning on Jester", seeds * (len(settings) + 1), True) as advance:
        for seed in range(seeds):
            found = cg.tune(cg.PrivateFedRep(), GRID, train, EPSILON, DELTA, simulation_seed=seed)
            tuned.append(rmse(found.best, *test))
            chosen.append(found)
            one_fit = cg.tune(cg.PrivateFedRep(), {"rank": GRID["rank"]}, train, EPSILON, DELTA, simulation_seed=seed)
            ranks_only.append(rmse(one_fit.best, *test))
            advance()
            for at, one in enumerate(settings):
                model = cg.PrivateFedRep(epsilon=EPSILON, delta=DELTA, simulation_seed=seed, **one)
                fixed[seed, at] = rmse(model.fit(train), *test)
                advance()
    write(settings, fixed, tuned, ranks_only, chosen)


def write(
    settings: list[dict[str, Any]], fixed: np.ndarray, tuned: list[float], ranks_only: list[float], chosen: list[Any]
) -> None:
    means, best = fixed.mean(axis=0), int(fixed.mean(axis=0).argmin())
    default, worst = settings.index({"rank": 2, "shared_mean": True}), int(means.argmax())
    naive = [float(row[row.argmin()]) for row in fixed]
    lines = [
        "# Tuning on Jester, measured",
        "",
        f"`python benchmarks/tuning.py`: 5,000 people, {len(settings)} candidates, total ε = {EPSILON:g}, δ = {DELTA:g}, "
        f"simulation seeds 0 to {len(tuned) - 1}. RMSE on a fifth of everybody's rows that nothing was trained or chosen on.",
        "",
        "| search | RMSE by seed | mean | ε that people pay |",
        "|---|---|---|---|",
        f"| `tune`, {len(settings)} candidates, 2 fits and a last one | {_list(tuned)} | {np.mean(tuned):.3f} | {EPSILON:g} |",
        f"| `tune`, 6 ranks of the default, 1 fit, kept | {_list(ranks_only)} | {np.mean(ranks_only):.3f} | {EPSILON:g} |",
        *(
            f"| {name} ({_words(settings[at])}) | {_list(fixed[:, at])} | {means[at]:.3f} | {EPSILON:g} |"
            for name, at in (
                ("best fixed setting, known from elsewhere", best),
                ("the default", default),
                ("worst", worst),
            )
        ),
        f"| naive: {len(settings)} fits, the best kept by exact errors | {_list(naive)} | {np.mean(naive):.3f} | "
        f"{naive_epsilon(len(settings)):.2f} for the fits, and none holds for the choice |",
        "",
        "| seed | chosen | released difference to the next best, ± noise |",
        "|---|---|---|",
    ]
    for seed, found in enumerate(chosen):
        scores = sorted(one.score for one in found.candidates)
        noise = max(one.std for one in found.candidates)
        lines.append(f"| {seed} | {_words(found.best_settings)} | {scores[1] - scores[0]:.3f} ± {noise:.3f} |")
    lines += ["", chosen[0].why, "", "| fixed setting at ε = 2 | mean RMSE |", "|---|---|"]
    lines += [f"| {_words(one)} | {mean:.3f} |" for one, mean in zip(settings, means, strict=True)]
    lines += ["", "![Error by setting, and of the search](../figures/tuning.svg)", ""]
    (ROOT / "docs" / "measured" / "tuning.md").write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))
    draw(settings, fixed, tuned, naive)


def draw(settings: list[dict[str, Any]], fixed: np.ndarray, tuned: list[float], naive: list[float]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for mean, style in ((True, "o-"), (False, "s--")):
        at = [i for i, one in enumerate(settings) if one["shared_mean"] is mean]
        ranks = [settings[i]["rank"] for i in at]
        axes.plot(
            ranks, fixed[:, at].mean(axis=0), style, label=f"fixed, {'with' if mean else 'without'} shared mean, ε = 2"
        )
        axes.fill_between(ranks, fixed[:, at].min(axis=0), fixed[:, at].max(axis=0), alpha=0.15)
    axes.axhline(np.mean(tuned), color="black", label="tune: 12 candidates, ε = 2 together")
    axes.axhspan(min(tuned), max(tuned), color="black", alpha=0.12)
    cost = naive_epsilon(len(settings))
    axes.axhline(
        np.mean(naive),
        color="red",
        linestyle=":",
        label=f"naive: ε = {cost:.1f} for its fits, none for its choice",
    )
    axes.set(
        xlabel="rank", ylabel="RMSE on rows held out", title="Jester, 5,000 people: settings, and a search among them"
    )
    axes.legend()
    for suffix in ("png", "svg"):
        figure.savefig(
            ROOT / "docs" / "figures" / f"tuning.{suffix}",
            dpi=150,
            metadata={"Date": None} if suffix == "svg" else None,
        )


def choose(seeds: int) -> None:
    """Keep or fit again: mean squared error of the winner on fresh rows, over simulated people."""
    grid = {"rank": [0, 1, 2, 3, 4], "shared_mean": [True, False]}
    for n_users, epsilon in ((3000, 1.0), (3000, 2.0), (8000, 1.0)):
        for last in (0.0, 0.4, 0.6, 0.8):
            errors = []
            for seed in range(seeds):
                users, _ = cg.datasets.make_shared_subspace(n_users, 16, 20, rank=2, noise=0.7, seed=seed)
                block = next(users.blocks(max_bytes=2**31))
                ids, out = np.repeat(users.ids, np.diff(block.offsets)), np.arange(block.n_rows) % 4 == 0
                train = cg.Users.from_arrays(block.X[~out], block.y[~out], ids[~out])
                rules.LAST = last
                found = cg.tune(cg.PrivateFedRep(), grid, train, epsilon, refit=last > 0, simulation_seed=seed)
                errors.append(rmse(found.best, block.X[out], block.y[out], ids[out]))
            print(
                f"n = {n_users}, ε = {epsilon:g}, last fit {last:.0%} of the rest: RMSE {np.mean(errors):.4f}",
                flush=True,
            )


def ways(seeds: int) -> None:
    """Split against repeat-and-select, where every candidate needs a fit of its own."""
    grid = {"n_rounds": [1, 2, 4, 8], "shared_mean": [True, False], "fit_intercept": [True, False]}
    for way in ("split", "repeat"):
        errors = []
        for seed in range(seeds):
            users, _ = cg.datasets.make_shared_subspace(3000, 16, 10, rank=2, noise=0.7, seed=seed)
            block = next(users.blocks(max_bytes=2**31))
            ids, out = np.repeat(users.ids, np.diff(block.offsets)), np.arange(block.n_rows) % 4 == 0
            train = cg.Users.from_arrays(block.X[~out], block.y[~out], ids[~out])
            found = cg.tune(cg.PrivateFedRep(2), grid, train, EPSILON, way=way, simulation_seed=seed)
            errors.append(rmse(found.best, block.X[out], block.y[out], ids[out]))
        print(
            f"16 fits to compare, n = 3000, ε = {EPSILON:g}, {way}: RMSE {np.mean(errors):.4f} ({_list(errors)})",
            flush=True,
        )


def _words(setting: dict[str, Any]) -> str:
    return f"rank {setting['rank']}, {'with' if setting['shared_mean'] else 'without'} shared mean"


def _list(values: Any) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--ways", action="store_true")
    asked = parser.parse_args()
    (choose if asked.choose else ways if asked.ways else on_jester)(asked.seeds)
