"""The demo: what private sharing brings to simulated people, as a table, a figure and a billboard."""

import csv
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from commonground import datasets, metrics, plots
from commonground.cli.options import print_json
from commonground.errors import PrivacyWarning, RecipeWarning, SharingWarning
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.nonprivate_fedrep import NonPrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.single_model import SingleModel
from commonground.progress import progress_bar

EPSILONS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PAPER_EPSILONS = (1.0, 2.0, 4.0, 8.0)
OURS, PAPER = "Private FedRep", "Private FedRep, paper's recipe"
PUBLISHED = 1.0  # the ε of the billboard that the demo leaves behind


@dataclass(frozen=True)
class Result:
    name: str
    epsilon: float | None  # None: no guarantee, or none needed
    mse: float
    seconds: float


def run_demo(out: Path, n_users: int, seed: int, as_json: bool) -> None:
    """Train everything on one population; print the table, write figure, numbers and billboard under ``out``.

    The population has neither a mean nor intercepts, as in the papers, so the models are told so.
    """
    users, truth = datasets.make_shared_subspace(n_users=n_users, seed=seed)
    floor = metrics.population_mse(truth.embedding, users, truth)
    models: list[tuple[str, float | None, PersonalModel]] = [
        ("own data only", None, OwnDataOnly(fit_intercept=False)),
        ("one private model for all", 1.0, SingleModel(1.0, fit_intercept=False)),
        *[(OURS, e, PrivateFedRep(2, e, fit_intercept=False, shared_mean=False, keep_heads=False)) for e in EPSILONS],
        *[(PAPER, e, PrivateFedRep(2, e, recipe="paper", keep_heads=False)) for e in PAPER_EPSILONS],
        ("FedRep without privacy", None, NonPrivateFedRep(2, fit_intercept=False, shared_mean=False)),
    ]
    results = [Result("true embedding (floor)", None, floor, 0.0)]
    out.mkdir(parents=True, exist_ok=True)
    with (
        warnings.catch_warnings(),
        progress_bar(f"training on {n_users:,} people", len(models), enabled=not as_json) as advance,
    ):
        warnings.simplefilter("ignore", RecipeWarning)  # the paper's batches do not fit its own setting
        warnings.simplefilter("ignore", PrivacyWarning)  # people who do not exist may be fitted often
        warnings.simplefilter("ignore", SharingWarning)  # where sharing does not pay is what the table shows
        for name, epsilon, model in models:
            started = time.perf_counter()
            board = model.fit(users).billboard_
            seconds = time.perf_counter() - started
            results.append(Result(name, epsilon, metrics.population_mse(board, users, truth), seconds))
            if name == OURS and epsilon == PUBLISHED:
                published = board
            advance()
    published.save(out / "billboard")
    _write_csv(results, out / "results.csv")
    plots.write([_figure(results)], out / "mse_vs_epsilon")
    if as_json:
        print_json({"out": str(out), "results": [vars(result) for result in results]})
    else:
        _print(results, out, n_users)


def _print(results: list[Result], out: Path, n_users: int) -> None:
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
        f"Figure: {out / 'mse_vs_epsilon.svg'} · numbers: {out / 'results.csv'} · billboard at ε = 1: {out / 'billboard'}\n"
        f"Next: commonground statement {out / 'billboard'}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _write_csv(results: list[Result], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "epsilon", "mse", "mse_over_floor", "seconds"])
        for result in results:
            writer.writerow([result.name, result.epsilon, result.mse, result.mse / results[0].mse, result.seconds])


def _figure(results: list[Result]) -> plots.Panel:
    lines = []
    for name in (OURS, PAPER):
        curve = {r.epsilon: r.mse for r in results if r.name == name and r.epsilon is not None}
        lines.append(plots.Line(name, list(curve), list(curve.values())))
    levels = [r for r in results if r.name not in (OURS, PAPER)]
    for result, dash, colour in zip(
        levels, ("", "2 3", "8 3 2 3", "7 4"), ("#7f7f7f", *plots.COLOURS[2:5]), strict=True
    ):
        label = result.name if result.epsilon is None else f"{result.name}, ε = {result.epsilon:g}"
        lines.append(plots.Line(label, [], [result.mse], colour, dash))
    return plots.Panel(
        lines,
        "ε per person (δ = 1e-6)",
        "population MSE",
        "What sharing brings, and what privacy costs",
        log_x=True,
        log_y=True,
        x_ticks=EPSILONS,
    )
