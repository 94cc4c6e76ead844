"""P3, personal budgets for ridge regression: its fourteen tables and nineteen figures.

As in the paper, only the noise (and the sampling) is drawn anew in each of 10,000 runs: nothing here is private.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from commonground.clipping.ridge import printed_radius, ridge_in_ball
from commonground.estimators.personal_ridge import sampling_probabilities
from commonground.progress import progress_bar
from commonground.reproduce import p3_wishes
from commonground.reproduce.p3_settings import (
    Data,
    Sweep,
    budgets_like,
    medical,
    noise_of_rate_one,
    printed,
    printed_sensitivity,
    recovered,
    recovered_data,
)
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RUNS, FAST_RUNS = 10_000, 500
TOLERANCE = {"medical": 0.1, "synthetic": 0.15}  # 80 people: what one draw of them decides is larger
NAMES = {
    "pdp_op": "PDP-OP",
    "non_personalized": "uniform",
    "jorgensen_max": "sample max, ÷ drawn",
    "jorgensen_mean": "sample mean, ÷ drawn",
    "expected_max": "sample max, ÷ expected (ours)",
    "expected_mean": "sample mean, ÷ expected (ours)",
    "non_private": "non-private",
}


# ---- the methods ----------------------------------------------------------------------------------------------------


def coefficients(method: str, data: Data, epsilons: np.ndarray, alpha: float, noise: np.ndarray) -> np.ndarray:
    """(runs, d) released coefficients."""
    n, d = data.X.shape
    radius = printed_radius(alpha, d)
    if method in ("pdp_op", "non_personalized"):
        if method == "non_personalized":
            epsilons = np.full(n, epsilons.min())
        weights = epsilons / epsilons.sum()
        theta = ridge_in_ball((data.X * weights[:, None]).T @ data.X, data.X.T @ (weights * data.y), alpha, radius)
        return theta + noise * printed_sensitivity(d, alpha, epsilons.sum())
    threshold = float(epsilons.max() if method.endswith("max") else epsilons.mean())
    probabilities = sampling_probabilities(epsilons, threshold)
    rng = np.random.default_rng([d, 0x5A])
    total = probabilities.sum()
    products = (data.X[:, :, None] * data.X[:, None, :]).reshape(n, d * d)
    thetas = np.empty_like(noise)
    for start in range(0, len(noise), 1000):
        part = slice(start, start + 1000)
        drawn = (rng.random((len(noise[part]), n)) < probabilities).astype(np.float64)
        # The paper divides by the number drawn, which the size of its noise then tells; ours by the expected number.
        people = np.full(len(drawn), total) if method.startswith("expected") else np.maximum(drawn.sum(axis=1), 1.0)
        gram = (drawn @ products).reshape(-1, d, d) / people[:, None, None] + alpha * np.eye(d)
        rhs = drawn @ (data.X * data.y[:, None]) / people[:, None]
        scale = printed_sensitivity(d, alpha, threshold) / people
        thetas[part] = np.linalg.solve(gram, rhs[:, :, None])[:, :, 0] + noise[part] * scale[:, None]
    return thetas


def test_losses(
    method: str, data: Data, epsilons: np.ndarray, alpha: float, noise: np.ndarray
) -> dict[str, np.ndarray]:
    """Each run's mean squared error on the test rows, and the same plus α‖θ‖²."""
    if method == "non_private":  # printed: without the penalty the fit without penalty, with it the one with it
        n, d = data.X.shape
        plain = np.linalg.lstsq(data.X, data.y, rcond=None)[0]
        ridge = np.linalg.solve(data.X.T @ data.X / n + alpha * np.eye(d), data.X.T @ data.y / n)
        plain_loss, ridge_loss = (np.mean((data.y_test - data.X_test @ theta) ** 2) for theta in (plain, ridge))
        return {"unregularized": np.array([plain_loss]), "regularized": np.array([ridge_loss + alpha * ridge @ ridge])}
    thetas = coefficients(method, data, epsilons, alpha, noise)
    errors = ((data.y_test[:, None] - data.X_test @ thetas.T) ** 2).mean(axis=0)
    return {"unregularized": errors, "regularized": errors + alpha * (thetas**2).sum(axis=1)}


# ---- one result -----------------------------------------------------------------------------------------------------


def run_sweep(sweep: Sweep, fast: bool, show_progress: bool) -> Outcome:
    runs = FAST_RUNS if fast else RUNS
    rows: list[Row] = []
    with progress_bar(sweep.name, len(sweep.values), show_progress) as advance:
        for value, data, epsilons, noise in _points(sweep, runs):
            for method in sweep.methods:
                losses = test_losses(method, data, epsilons, sweep.at(value).alpha, noise)
                for metric, loss in losses.items():
                    rows.extend(_row(sweep, value, metric, method, loss, kind) for kind in sweep.statistics)
            advance()
    return Outcome(rows, _claims(sweep, rows), partial(_draw, sweep, rows, fast))


def _points(sweep: Sweep, runs: int) -> Iterator[tuple[float, Data, np.ndarray, np.ndarray]]:
    """What each value of the sweep is computed from; where only λ varies, one draw of budgets serves all."""
    whole = medical() if sweep.data == "medical" else recovered_data(sweep)
    d = whole.X.shape[1]
    noise = noise_of_rate_one(runs, d, seed=0)
    found = {
        method: [recovered(sweep, value, method, whole) for value in sweep.values]
        for method in ("pdp_op", "non_personalized")
    }
    if sweep.varied == "lambda":
        found = {method: [_median(totals)] * len(totals) for method, totals in found.items()}
    epsilons: np.ndarray | None = None
    for at, value in enumerate(sweep.values):
        setting = sweep.at(value)
        n = round(setting.train_fraction * len(whole.y))
        total, at_minimum = found["pdp_op"][at], found["non_personalized"][at]
        if epsilons is None or sweep.varied != "lambda":
            # A thousand budgets add up to nearly the same sum in every draw: there the paper's rule alone decides.
            known = None if sweep.data == "medical" else total
            epsilons = budgets_like(n, setting, known, None if at_minimum is None else at_minimum / n)
        if sweep.level is None and total is not None:
            whole = recovered_data(sweep, value)
        yield value, Data(whole.X[:n], whole.y[:n], whole.X_test, whole.y_test), epsilons, noise


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _row(sweep: Sweep, value: float, metric: str, method: str, loss: np.ndarray, statistic: str) -> Row:
    number, note = printed().get((sweep.table, value, metric, method), (None, ""))  # "expected" stands in no table
    ours = float(loss.mean() if statistic == "mean" else loss.std())
    spread = float(loss.std() / np.sqrt(len(loss) * (1 if statistic == "mean" else 2))) if len(loss) > 1 else None
    setting: dict[str, str | float] = {sweep.varied: value, "loss": f"{metric}, {statistic}", "method": NAMES[method]}
    if method == "non_private" or note:
        return Row(setting, ours, number, None, spread, note)
    # n·min ε of the baseline is recovered from its own cell, and so is Σε of PDP-OP where people are few.
    fitted = method == "non_personalized" or (method == "pdp_op" and sweep.data == "synthetic")
    return Row(setting, ours, number, TOLERANCE[sweep.data], spread, fitted=fitted)


def _claims(sweep: Sweep, rows: list[Row]) -> list[Claim]:
    """The order of the methods at every point, and (on synthetic data) the ratios between their losses."""
    private = [NAMES[method] for method in sweep.methods if method != "non_private"]
    cells = {tuple(row.setting.values()): row for row in rows}
    points = [
        (value, f"{metric}, {statistic}")
        for value in sweep.values
        for metric in ("unregularized", "regularized")
        for statistic in sweep.statistics
    ]
    best = NAMES["pdp_op"]
    lost = [
        f"{sweep.varied} {point[0]:g}, {point[1]}"
        for point in points
        if any(cells[*point, best].ours > cells[*point, other].ours for other in private)
    ]
    claims = [
        Claim(
            f"{best} has the smallest {' and '.join(sweep.statistics)} loss of the private methods at every point",
            not lost,
            f"{len(points) - len(lost)} of {len(points)} points" + (f"; not at {'; '.join(lost[:4])}" if lost else ""),
        )
    ]
    if sweep.table and sweep.data == "synthetic":
        claims += [_ratio_claim(sweep, cells, points, others) for others in _groups(private[1:]) if others]
    return claims


def _groups(others: list[str]) -> tuple[list[str], list[str]]:
    """Printed methods that nothing was fitted to, and the one to which n·min ε was."""
    fitted, ours = NAMES["non_personalized"], [NAMES[method] for method in _EXPECTED]
    return [name for name in others if name not in (fitted, *ours)], [name for name in others if name == fitted]


def _ratio_claim(
    sweep: Sweep, cells: dict[tuple[str | float, ...], Row], points: list[tuple[float, str]], others: list[str]
) -> Claim:
    off = []
    for point in points:
        base = cells[*point, NAMES["pdp_op"]]
        for other in others:
            row = cells[*point, other]
            if not (row.note or base.note) and row.printed is not None and base.printed is not None:
                distance = abs(np.log((row.ours / base.ours) / (row.printed / base.printed)))
                off.append((float(distance), f"{sweep.varied} {point[0]:g}, {point[1]}, {other}"))
    within = sum(distance <= float(np.log(1.15)) for distance, _ in off)
    furthest, where = max(off)
    fitted = ", whose n·min ε was recovered from the same cells," if others == [NAMES["non_personalized"]] else ""
    return Claim(
        f"ratios of {' and '.join(others)}{fitted} to PDP-OP are those printed, within 15 % (misprints left out)",
        within == len(off),
        f"{within} of {len(off)}; furthest: {np.expm1(furthest):.0%} at {where}",
    )


def _draw(sweep: Sweep, rows: list[Row], fast: bool, figure: "Figure") -> None:
    plots = figure.subplots(len(sweep.statistics), 2, squeeze=False)
    for statistic, pair in zip(sweep.statistics, plots, strict=True):
        for axes, metric in zip(pair, ("unregularized", "regularized"), strict=True):
            for method in sweep.methods:
                wanted = {"loss": f"{metric}, {statistic}", "method": NAMES[method]}
                own = [row for row in rows if wanted.items() <= row.setting.items()]
                values = [float(row.setting[sweep.varied]) for row in own]
                line = axes.plot(values, [row.ours for row in own], "o-", ms=3, label=NAMES[method])
                if any(row.printed for row in own) and not fast:
                    axes.plot(values, [row.printed or np.nan for row in own], "x", color=line[0].get_color())
            axes.set(xlabel=sweep.varied, yscale="log", title=f"{metric} test loss, {statistic}")
            if sweep.varied == "lambda":
                axes.set_xscale("log")
    plots[0, 0].legend(fontsize="small", title="× printed" if sweep.table and not fast else None)


# ---- all of them ----------------------------------------------------------------------------------------------------

_TWO, _THREE = ("pdp_op", "non_personalized"), ("pdp_op", "jorgensen_max", "jorgensen_mean")
_EXPECTED = ("expected_max", "expected_mean")
_FOUR = (*_THREE, *_EXPECTED, "non_private")
_MANY_CONSERVATIVE = {"fractions": (0.54, 0.37, 0.09)}
_F_C = {"fractions": (0.34, 0.37, 0.29)}
_TITLES = {
    "lambda": "over the penalty λ",
    "epsilon_c": "over the smallest budget of the conservative",
    "epsilon_m": "over the budget that parts conservative and pragmatist",
    "f_c": "over the share of conservative people",
    "train_fraction": "over the share of the training rows used",
}
_FIGURE_VALUES = {
    "lambda": {"synthetic": 11, "medical": 12},
    "epsilon_c": {"synthetic": 3, "medical": 4},
    "epsilon_m": {"synthetic": 5, "medical": 6},
    "f_c": {"synthetic": 7, "medical": 8},
    "train_fraction": {"synthetic": 9, "medical": 10},
}  # the table that has the same sweep


def _values(table: int) -> tuple[float, ...]:
    return tuple(dict.fromkeys(value for number, value, _, _ in printed() if number == table))


def _sweeps() -> list[Sweep]:
    def table(number: int, varied: str, methods: tuple[str, ...], **fixed: object) -> Sweep:
        data, alpha = ("synthetic", 100.0) if number % 2 else ("medical", 1.0)
        fixed = {"alpha": alpha, **fixed}
        return Sweep(f"p3-table{number:02d}", data, varied, _values(number), methods, table=number, **fixed)  # type: ignore[arg-type]

    def figure(number: int, data: str, varied: str, kind: str, **fixed: object) -> Sweep:
        fixed = {"alpha": 100.0 if data == "synthetic" else 1.0, **fixed}
        values = _values(_FIGURE_VALUES[varied][data])
        return Sweep(f"p3-fig{number:02d}", data, varied, values, _THREE, (kind,), **fixed)  # type: ignore[arg-type]

    low_middle = {**_MANY_CONSERVATIVE, "epsilons": (0.01, 0.5, 1.0)}
    tables = [
        table(1, "lambda", _TWO),
        table(2, "lambda", _TWO),
        *[table(number, "epsilon_c", _TWO, **low_middle, level=0.0106) for number in (3, 4)],
        *[table(number, "epsilon_m", _TWO, **low_middle, level=0.0106) for number in (5, 6)],
        *[table(number, "f_c", _TWO, **_F_C, level=0.0073) for number in (7, 8)],
        table(
            9, "train_fraction", _TWO, **_MANY_CONSERVATIVE, level=None
        ),  # not the caption's: see published misprints
        table(10, "train_fraction", _TWO),
        *[table(number, "lambda", _FOUR) for number in (11, 12)],
        *[table(number, "lambda", (*_THREE, *_EXPECTED), statistics=("std",)) for number in (13, 14)],
    ]
    first = replace(figure(1, "medical", "f_c", "mean", **_F_C, alpha=0.7), statistics=("mean", "std"))
    figures = [first]
    for start, kind in ((2, "mean"), (12, "std")):  # the same sweeps, twice
        for at, (varied, fixed) in enumerate(
            [("epsilon_c", low_middle), ("epsilon_m", low_middle), ("f_c", _F_C), ("train_fraction", {})]
        ):
            for offset, data in enumerate(("synthetic", "medical")):
                figures.append(figure(start + 2 * at + offset, data, varied, kind, **fixed))
    figures += [figure(10 + at, data, "lambda", "std") for at, data in enumerate(("synthetic", "medical"))]
    return tables + sorted(figures, key=lambda sweep: sweep.name)


def _settings(sweep: Sweep) -> str:
    fixed = f"budgets {sweep.epsilons}, shares {sweep.fractions} of conservative, pragmatist and liberal people"
    if sweep.varied != "lambda":
        fixed += f", λ = {sweep.alpha:g}"
    recovered_ones = ""
    if sweep.table and sweep.data == "synthetic":
        recovered_ones = "; budgets and data drawn until they match what the printed cells imply ('fitted')"
    elif sweep.table:
        recovered_ones = (
            "; budgets by the paper's rule, the smallest as the printed cells imply (only 'uniform' uses it: 'fitted')"
        )
    return f"{fixed}; {RUNS:,} runs{recovered_ones}. NOT private: scaled by the data's own range."


RESULTS = [
    PaperResult(
        sweep.name,
        f"Ridge with personal budgets, {sweep.data} data, {' and '.join(sweep.statistics)} of the test loss "
        f"{_TITLES[sweep.varied]}",
        _settings(sweep),
        partial(run_sweep, sweep),
        fast=f"{FAST_RUNS} runs instead of {RUNS:,}",
    )
    for sweep in _sweeps()
]
RESULTS.append(p3_wishes.RESULT)
