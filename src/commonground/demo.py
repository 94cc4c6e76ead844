"""The demo: what private sharing brings to simulated people, as a table, a figure and a billboard."""

import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from commonground import datasets, metrics
from commonground.billboard import Billboard
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.single_model import SingleModel
from commonground.progress import progress_bar

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PUBLISHED = 1.0  # the ε of the billboard that the demo leaves behind


@dataclass(frozen=True)
class Result:
    name: str
    epsilon: float | None  # None: no guarantee, or none needed
    mse: float
    seconds: float


def run_demo(out: Path, n_users: int, seed: int, as_json: bool) -> None:
    """Train everything on one population, which has neither a mean nor intercepts, as in the papers; print the table, write figure, numbers and billboard under ``out``."""
    users, truth = datasets.make_shared_subspace(n_users=n_users, seed=seed)
    floor = metrics.population_mse(truth.embedding, users, truth)
    models: list[tuple[str, float | None, PersonalModel]] = [
        ("own data only", None, OwnDataOnly(fit_intercept=False)),
        ("one private model for all", 1.0, SingleModel(1.0, fit_intercept=False)),
        *[("Private FedRep", e, PrivateFedRep(2, e, fit_intercept=False, shared_mean=False)) for e in EPSILONS],
        ("FedRep without privacy", None, NonPrivateFedRep(2, fit_intercept=False, shared_mean=False)),
    ]
    results = [Result("true embedding (floor)", None, floor, 0.0)]
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar(f"training on {n_users:,} people", len(models), enabled=not as_json) as advance:
        for name, epsilon, model in models:
            started = time.perf_counter()
            board = model.fit(users).billboard_
            seconds = time.perf_counter() - started
            results.append(Result(name, epsilon, metrics.population_mse(board, users, truth), seconds))
            if name == "Private FedRep" and epsilon == PUBLISHED:
                published = board
            advance()
    published.save(out / "billboard")
    _write_csv(results, out / "results.csv")
    _draw(results, out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "results": [vars(result) for result in results]}, indent=2))
    else:
        _print(results, published, out, n_users)


def _print(results: list[Result], published: Billboard, out: Path, n_users: int) -> None:
    floor = results[0].mse
    table = Table(title=f"{n_users:,} people, 10 rows each, 50 features, 2 shared directions; δ = 1e-6")
    for heading in ("model", "ε", "error (MSE)", "÷ floor", "seconds"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for result in results:
        epsilon = "–" if result.epsilon is None else f"{result.epsilon:g}"
        table.add_row(result.name, epsilon, f"{result.mse:.3g}", f"{result.mse / floor:,.3f}", f"{result.seconds:.1f}")
    console = Console()
    console.print(table)
    console.print(
        "Own data alone has no model to share and needs no ε; 'without privacy' protects nobody.\n"
        f"Figure: {out / 'mse_vs_epsilon.png'} · numbers: {out / 'results.csv'} · billboard at ε = 1: {out / 'billboard'}\n"
        f"Next: commonground statement {out / 'billboard'}",
        highlight=False,
        soft_wrap=True,
    )


def _write_csv(results: list[Result], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "epsilon", "mse", "mse_over_floor", "seconds"])
        for result in results:
            writer.writerow([result.name, result.epsilon, result.mse, result.mse / results[0].mse, result.seconds])


def _draw(results: list[Result], out: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    private = {r.epsilon: r.mse for r in results if r.name == "Private FedRep" and r.epsilon is not None}
    axes.plot(list(private), list(private.values()), "o-", color="C0", label="Private FedRep")
    lines = [r for r in results if r.name != "Private FedRep"]
    for result, style, colour in zip(lines, ("-", ":", "-.", "--"), ("0.5", "C3", "C1", "C2"), strict=True):
        label = result.name if result.epsilon is None else f"{result.name}, ε = {result.epsilon:g}"
        axes.axhline(result.mse, ls=style, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="ε per person (δ = 1e-6)", ylabel="population MSE")
    axes.set_xticks(list(private), [f"{epsilon:g}" for epsilon in private])
    axes.minorticks_off()
    axes.set_title("What sharing brings, and what privacy costs")
    axes.legend(loc="center right")
    for suffix in ("png", "svg"):
        figure.savefig(out / f"mse_vs_epsilon.{suffix}", dpi=150)
