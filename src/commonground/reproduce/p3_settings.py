"""P3's settings, data and budgets, with what its text leaves out recovered from the printed numbers.

The losses with and without the penalty differ by λ·E‖θ‖², which the noise dominates, so each pair of cells tells Σε (or n·min
ε, for the baseline at the smallest budget), and the loss at large λ tells the draw of the synthetic data. Budgets and data are
drawn by the paper's rules, and among many draws that one is kept that is nearest to what was recovered. As in the paper,
features and labels are scaled by their own range: nothing here is private.
"""

import csv
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
from sklearn.model_selection import train_test_split

from commonground import datasets
from commonground.clipping.ridge import printed_radius

DEFAULT_FRACTIONS, DEFAULT_EPSILONS = (0.34, 0.43, 0.23), (0.01, 0.2, 1.0)
CANDIDATES = 2000  # draws of budgets (and of synthetic data) to choose from


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


def noise_of_rate_one(runs: int, d: int, seed: int) -> np.ndarray:
    """Density ∝ exp(−‖z‖): Gamma(d) radius, uniform direction."""
    rng = np.random.default_rng([seed, 0x1A])
    directions = rng.standard_normal((runs, d))
    return directions * (rng.gamma(d, size=runs) / np.linalg.norm(directions, axis=1))[:, None]


def printed_sensitivity(d: int, alpha: float, total_weight: float) -> float:
    """Of Theorem 2.1; the package's own is tighter (``clipping.ridge.gradient_gap``)."""
    return float(2 * np.sqrt(d) * (1 + np.sqrt(d) * printed_radius(alpha, d)) / (alpha * total_weight))


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
    return float(rate * printed_sensitivity(d, alpha, 1.0))


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
