"""P3, personal budgets for ridge regression: its fourteen tables and nineteen figures.

The printed numbers give back settings that the text leaves out: the losses with and without the penalty differ by
λ·E‖θ‖², which the noise dominates, so each pair of cells tells Σε (or n·min ε, for the baseline at the smallest budget),
and the loss at large λ tells the draw of the synthetic data. Budgets and data are drawn by the paper's rules, and among
many draws that one is kept that is nearest to what was recovered. As in the paper, features and labels are scaled by
their own range, and only the noise (and the sampling) is drawn anew in each of 10,000 runs: nothing here is private.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files

import numpy as np
from matplotlib.figure import Figure
from sklearn.model_selection import train_test_split

from commonground import datasets
from commonground.clipping.ridge import ridge_in_ball, ridge_sensitivity
from commonground.estimators.personal_ridge import coefficient_radius, sampling_probabilities
from commonground.progress import progress_bar
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

DEFAULT_FRACTIONS, DEFAULT_EPSILONS = (0.34, 0.43, 0.23), (0.01, 0.2, 1.0)
RUNS, FAST_RUNS = 10_000, 500
CANDIDATES = 2000  # draws of budgets (and of synthetic data) to choose from
NAMES = {
    "pdp_op": "PDP-OP",
    "non_personalized": "uniform",
    "jorgensen_max": "sample max",
    "jorgensen_mean": "sample mean",
    "non_private": "non-private",
}


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Sweep:
    """One table or figure: what is varied, what is fixed, which methods are compared."""

    name: str
    data: str  # "synthetic" or "medical"
    varied: str
    values: tuple[float, ...]
    methods: tuple[str, ...]
    statistics: tuple[str, ...] = ("mean",)  # or "std", of the test loss over the runs
    alpha: float = 100.0
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS
    epsilons: tuple[float, float, float] = DEFAULT_EPSILONS
    train_fraction: float = 1.0
    level: float | None = 0.0024  # recovered: the synthetic loss with the noise taken out; None: another in each row
    table: int = 0  # where the printed numbers are; 0: a figure, nothing is printed

    def at(self, value: float) -> "Sweep":
        """The settings at one value of what is varied."""
        _, pragmatist, _ = self.fractions
        low, middle, high = self.epsilons
        if self.varied == "lambda":
            return replace(self, alpha=value)
        if self.varied == "epsilon_c":
            return replace(self, epsilons=(value, middle, high))
        if self.varied == "epsilon_m":
            return replace(self, epsilons=(low, value, high))
        if self.varied == "f_c":
            return replace(self, fractions=(value, pragmatist, 1 - value - pragmatist))
        return replace(self, train_fraction=value)


# ---- data and budgets -----------------------------------------------------------------------------------------------


@cache
def medical() -> Data:
    """Scaled by its own range, categories one-hot, a constant feature: d = 12, 1,070 training rows."""
    table = datasets.load("insurance")
    X = (table.X - table.X.min(axis=0)) / np.ptp(table.X, axis=0)
    y = (table.y - table.y.min()) / np.ptp(table.y)
    X = np.column_stack([X, np.ones(len(X))])
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, random_state=21)
    return Data(X, y, X_test, y_test)


@cache
def synthetic(level: float, energy: float = 1 / 3) -> Data:
    """d = 30, 80 rows to train and 20 to test; of many draws the one whose test rows have these mean squares of y and x."""

    def distance(data: Data) -> float:
        off_level, off_energy = np.log(np.mean(data.y_test**2) / level), np.log(np.mean(data.X_test**2) / energy)
        return float(np.hypot(off_level, off_energy))

    return min((_synthetic_draw(seed) for seed in range(CANDIDATES)), key=distance)


def _synthetic_draw(seed: int, d: int = 30) -> Data:
    rng = np.random.default_rng([seed, 0x93])
    theta = rng.standard_normal(d)
    X = rng.random((100, d))
    y = X @ theta / (np.linalg.norm(theta) * np.sqrt(d))
    return Data(X[:80], y[:80], X[80:], y[80:])


def budgets_like(n: int, setting: Sweep, total: float | None, smallest: float | None) -> np.ndarray:
    """Budgets drawn by P3's rule, the smallest of them the recovered one; of many draws, the nearest to the recovered sum."""
    if smallest is not None and not setting.epsilons[0] <= smallest <= setting.epsilons[1]:
        smallest = None  # no draw has it

    def draw(seed: int) -> np.ndarray:
        epsilons = datasets.segmented_budgets(n, setting.fractions, setting.epsilons, seed)
        if smallest is not None:
            epsilons = np.maximum(epsilons, smallest)
            epsilons[np.argmin(epsilons)] = smallest
        return epsilons

    if total is None:
        return draw(seed=0)
    return min(map(draw, range(CANDIDATES)), key=lambda epsilons: abs(float(np.log(epsilons.sum() / total))))


# ---- the printed numbers --------------------------------------------------------------------------------------------


@cache
def printed() -> dict[tuple[int, float, str, str], tuple[float, str]]:
    """(table, value, metric, method) → (number, "misprint" or nothing)."""
    text = (files("commonground.reproduce") / "printed" / "p3.csv").read_text(encoding="utf-8")
    return {
        (int(row["table"]), float(row["value"]), row["metric"], row["method"]): (float(row["printed"]), row["note"])
        for row in csv.DictReader(text.splitlines())
    }


def recovered(sweep: Sweep, value: float, method: str, data: Data) -> float | None:
    """Σε of PDP-OP, or n·min ε of the baseline, from the two printed losses of a cell."""
    table = {13: 11, 14: 12}.get(sweep.table, sweep.table)  # standard deviations of the same runs
    if method == "non_personalized" and table in (11, 12):
        table -= 10  # where that column is printed
    cells = [printed().get((table, value, metric, method)) for metric in ("unregularized", "regularized")]
    if any(cell is None or cell[1] for cell in cells):
        return None
    alpha = sweep.at(value).alpha
    n, d = data.X.shape
    ridge = np.linalg.solve(data.X.T @ data.X / n + alpha * np.eye(d), data.X.T @ data.y / n)
    squared_noise = (cells[1][0] - cells[0][0]) / alpha - ridge @ ridge  # type: ignore[index]
    if squared_noise < ridge @ ridge:  # the coefficients themselves are too large a part
        return None
    rate = np.sqrt(d * (d + 1) / squared_noise)
    return float(rate * ridge_sensitivity(d, alpha, 1.0, coefficient_radius(alpha, d)))


def recovered_data(sweep: Sweep, value: float | None = None) -> Data:
    """The synthetic draw that the printed losses imply, at one value or (None) for the whole sweep.

    Where the noise is overwhelming (the baseline at the smallest budget) the loss is E‖z‖²/d times mean ‖x‖²; PDP-OP's loss
    less that part is what is left without noise, the mean square of the labels.
    """
    if "non_personalized" not in sweep.methods:
        return synthetic(sweep.level or 0.0024)

    def losses(at: float, method: str) -> tuple[float, float]:
        plain, penalised = (
            printed()[sweep.table, at, metric, method][0] for metric in ("unregularized", "regularized")
        )
        return plain, (penalised - plain) / sweep.at(at).alpha

    drowned = [plain / squared for plain, squared in (losses(at, "non_personalized") for at in sweep.values)]
    energy = min(drowned)  # the least that the labels have added
    if value is None:
        return synthetic(sweep.level or 0.0024, energy)
    plain, squared = losses(value, "pdp_op")
    return synthetic(max(plain - squared * energy, 1e-3), energy)


# ---- the methods ----------------------------------------------------------------------------------------------------


def noise_of_rate_one(runs: int, d: int, seed: int) -> np.ndarray:
    """Density ∝ exp(−‖z‖): Gamma(d) radius, uniform direction."""
    rng = np.random.default_rng([seed, 0x1A])
    directions = rng.standard_normal((runs, d))
    return directions * (rng.gamma(d, size=runs) / np.linalg.norm(directions, axis=1))[:, None]


def coefficients(method: str, data: Data, epsilons: np.ndarray, alpha: float, noise: np.ndarray) -> np.ndarray:
    """(runs, d) released coefficients."""
    n, d = data.X.shape
    radius = coefficient_radius(alpha, d)
    if method in ("pdp_op", "non_personalized"):
        if method == "non_personalized":
            epsilons = np.full(n, epsilons.min())
        weights = epsilons / epsilons.sum()
        theta = ridge_in_ball((data.X * weights[:, None]).T @ data.X, data.X.T @ (weights * data.y), alpha, radius)
        return theta + noise * ridge_sensitivity(d, alpha, epsilons.sum(), radius)
    threshold = float(epsilons.max() if method == "jorgensen_max" else epsilons.mean())
    probabilities = sampling_probabilities(epsilons, threshold)
    rng = np.random.default_rng([d, 0x5A])
    total = probabilities.sum()
    products = (data.X[:, :, None] * data.X[:, None, :]).reshape(n, d * d)
    thetas = np.empty_like(noise)
    for start in range(0, len(noise), 1000):
        part = slice(start, start + 1000)
        drawn = (rng.random((len(noise[part]), n)) < probabilities).astype(np.float64)
        gram = (drawn @ products).reshape(-1, d, d) / total + alpha * np.eye(d)
        thetas[part] = np.linalg.solve(gram, (drawn @ (data.X * data.y[:, None]) / total)[:, :, None])[:, :, 0]
    return thetas + noise * ridge_sensitivity(d, alpha, total * threshold, radius)


def test_losses(
    method: str, data: Data, epsilons: np.ndarray, alpha: float, noise: np.ndarray
) -> dict[str, np.ndarray]:
    """Each run's mean squared error on the test rows, and the same plus α‖θ‖²."""
    if method == "non_private":  # printed: without the penalty the fit without penalty, with it the one with it
        n, d = data.X.shape
        plain = np.linalg.lstsq(data.X, data.y, rcond=None)[0]
        ridge = np.linalg.solve(data.X.T @ data.X / n + alpha * np.eye(d), data.X.T @ data.y / n)
        plain_loss, ridge_loss = (np.mean((data.y_test - data.X_test @ theta) ** 2) for theta in (plain, ridge))
        return {
            "unregularized": np.array([plain_loss]),
            "regularized": np.array([ridge_loss + alpha * ridge @ ridge]),
        }
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
    return Outcome(rows, _claims(sweep, rows), partial(_draw, sweep, rows))


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
            epsilons = budgets_like(n, setting, total, None if at_minimum is None else at_minimum / n)
        if sweep.level is None and total is not None:
            whole = recovered_data(sweep, value)
        yield value, Data(whole.X[:n], whole.y[:n], whole.X_test, whole.y_test), epsilons, noise


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _row(sweep: Sweep, value: float, metric: str, method: str, loss: np.ndarray, statistic: str) -> Row:
    number, note = printed().get((sweep.table, value, metric, method), (None, ""))
    ours = float(loss.mean() if statistic == "mean" else loss.std())
    spread = float(loss.std() / np.sqrt(len(loss) * (1 if statistic == "mean" else 2))) if len(loss) > 1 else None
    judged = sweep.data == "medical" and sweep.varied == "lambda" and method not in ("non_personalized", "non_private")
    setting: dict[str, str | float] = {
        sweep.varied: value, "loss": f"{metric}, {statistic}", "method": NAMES[method]
    }  # fmt: skip
    return Row(setting, ours, number, 0.1 if judged and not note else None, spread, note)


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
        off = []
        for point in points:
            base = cells[*point, best]
            for other in private[1:]:
                row = cells[*point, other]
                if not (row.note or base.note) and row.printed is not None and base.printed is not None:
                    distance = abs(np.log((row.ours / base.ours) / (row.printed / base.printed)))
                    off.append((float(distance), f"{sweep.varied} {point[0]:g}, {point[1]}, {other}"))
        within = sum(distance <= float(np.log(1.15)) for distance, _ in off)
        furthest, where = max(off)
        claims.append(
            Claim(
                "the ratios between methods are those printed, within 15 % (misprints left out)",
                within == len(off),
                f"{within} of {len(off)}; furthest: {np.expm1(furthest):.0%} at {where}",
            )
        )
    return claims


def _draw(sweep: Sweep, rows: list[Row], figure: Figure) -> None:
    plots = figure.subplots(len(sweep.statistics), 2, squeeze=False)
    for statistic, pair in zip(sweep.statistics, plots, strict=True):
        for axes, metric in zip(pair, ("unregularized", "regularized"), strict=True):
            for method in sweep.methods:
                wanted = {"loss": f"{metric}, {statistic}", "method": NAMES[method]}
                own = [row for row in rows if wanted.items() <= row.setting.items()]
                values = [float(row.setting[sweep.varied]) for row in own]
                line = axes.plot(values, [row.ours for row in own], "o-", ms=3, label=NAMES[method])
                if any(row.printed for row in own):
                    axes.plot(values, [row.printed or np.nan for row in own], "x", color=line[0].get_color())
            axes.set(xlabel=sweep.varied, yscale="log", title=f"{metric} test loss, {statistic}")
            if sweep.varied == "lambda":
                axes.set_xscale("log")
    plots[0, 0].legend(fontsize="small", title="× printed" if sweep.table else None)


# ---- all of them ----------------------------------------------------------------------------------------------------

_TWO, _THREE = ("pdp_op", "non_personalized"), ("pdp_op", "jorgensen_max", "jorgensen_mean")
_FOUR = (*_THREE, "non_private")
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
        *[table(number, "lambda", _THREE, statistics=("std",)) for number in (13, 14)],
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
    recovered_ones = "; budgets and data drawn until they match what the printed cells imply" if sweep.table else ""
    return f"{fixed}; {RUNS:,} runs (fast: {FAST_RUNS}){recovered_ones}. NOT private: scaled by the data's own range."


RESULTS = [
    PaperResult(
        sweep.name,
        f"Ridge with personal budgets, {sweep.data} data, {' and '.join(sweep.statistics)} of the test loss "
        f"{_TITLES[sweep.varied]}",
        _settings(sweep),
        partial(run_sweep, sweep),
    )
    for sweep in _sweeps()
]
