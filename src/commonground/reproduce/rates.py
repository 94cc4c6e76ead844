"""How the risk grows with n, d, k, ε and m: measured exponents beside those of P1's Theorem 4.2 and P2's Theorem 10."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from commonground.datasets.synthetic import make_shared_subspace
from commonground.errors import RecipeWarning, SharingWarning
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.altmin.paper import AltMinSettings
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep import PaperSettings, PrivateFedRep
from commonground.progress import progress_bar
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

DELTA = 1e-6


@dataclass(frozen=True)
class Point:
    """One population and budget."""

    n: int = 10_000
    d: int = 40
    k: int = 2
    epsilon: float = 8.0
    m: int = 40


GRID: dict[str, tuple[float, ...]] = {
    "n": (5_000, 10_000, 20_000),
    "epsilon": (4.0, 8.0, 16.0),
    "d": (20, 40, 80),
    "k": (1, 2, 4),
    "m": (20, 40, 80),
}
Make = Callable[[Point, int], PersonalModel]
FEDREP, ALTMIN = "Private FedRep, paper's recipe", "Priv-AltMin, paper's recipe"
_PLAIN: dict[str, Any] = {"fit_intercept": False, "shared_mean": False, "keep_heads": False}
METHODS: dict[str, Make] = {
    ALTMIN: lambda p, seed: PrivateAltMin(
        p.k, p.epsilon, DELTA, recipe="paper", simulation_seed=seed, keep_heads=False,
        paper_settings=AltMinSettings(5, rows_per_user=p.m, noise="zcdp"),
    ),
    FEDREP: lambda p, seed: PrivateFedRep(
        p.k, p.epsilon, DELTA, recipe="paper", simulation_seed=seed, keep_heads=False,
        paper_settings=PaperSettings(rows_per_user=p.m),
    ),
    "PrivateAltMin, default": lambda p, seed: PrivateAltMin(p.k, p.epsilon, DELTA, simulation_seed=seed, **_PLAIN),
    "PrivateFedRep, default": lambda p, seed: PrivateFedRep(p.k, p.epsilon, DELTA, simulation_seed=seed, **_PLAIN),
}  # fmt: skip
# Exponents of the privacy term: P1's Theorem 1.1 has d³k⁵/(ε²n²), P2's Theorem 10 d²k/(n²ε²). Neither has m in it.
THEOREM = {
    ALTMIN: {"n": -2.0, "epsilon": -2.0, "d": 3.0, "k": 5.0, "m": 0.0},
    FEDREP: {"n": -2.0, "epsilon": -2.0, "d": 2.0, "k": 1.0, "m": 0.0},
}


def excess_of_embedding(make: Make, point: Point, seed: int) -> float:
    """What the published embedding costs the best heads on it: mean ‖(I − ÛÛᵀ) U* v_j‖²."""
    users, truth = make_shared_subspace(point.n, point.m, point.d, point.k, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecipeWarning)
        warnings.simplefilter("ignore", SharingWarning)
        U = np.linalg.qr(make(point, seed).fit(users).billboard_.embedding)[0]
    missed = truth.embedding - U @ (U.T @ truth.embedding)
    return float(np.einsum("nk,kl,nl->n", truth.heads, missed.T @ missed, truth.heads).mean())


def fitted_exponent(values: np.ndarray, risks: np.ndarray) -> tuple[float, float]:
    """Slope of log risk on log value by least squares, and its standard error.

    >>> slope, error = fitted_exponent(np.array([1.0, 2.0, 4.0]), np.array([8.0, 2.0, 0.5]))
    >>> round(slope, 9), error < 1e-12
    (-2.0, True)
    """
    x, y = np.log(values), np.log(risks)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    return slope, float(np.sqrt(residual @ residual / max(len(x) - 2, 1) / (x @ x)))


def _run(fast: bool, show: bool) -> Outcome:
    base = replace(Point(), n=2_000, d=10) if fast else Point()
    grid = {"n": (2_000, 4_000)} if fast else GRID
    seeds = range(1 if fast else 2)
    rows, exponent = [], {}
    with progress_bar("rates", len(METHODS) * sum(len(values) for values in grid.values()), show) as advance:
        for method, make in METHODS.items():
            for varied, values in grid.items():
                xs, risks = [], []
                for value in values:
                    changed: dict[str, Any] = {varied: value if varied == "epsilon" else int(value)}
                    point = replace(base, **changed)
                    xs += [value] * len(seeds)
                    risks += [excess_of_embedding(make, point, seed) for seed in seeds]
                    advance()
                slope, error = fitted_exponent(np.array(xs), np.array(risks))
                exponent[method, varied] = slope
                means = np.array(risks).reshape(len(values), -1).mean(axis=1)
                note = "risk " + ", ".join(f"{risk:.2g}" for risk in means)
                printed = THEOREM.get(method, {}).get(varied)
                rows.append(Row({"method": method, "exponent of": varied}, slope, printed, spread=error, note=note))
    if fast:
        return Outcome(rows)
    ratio = {v: exponent[ALTMIN, v] - exponent[FEDREP, v] for v in ("d", "k")}
    return Outcome(
        rows,
        [
            Claim(
                "n and ε enter as 1/(nε)² (within 0.5) in both papers' recipes",
                all(abs(exponent[method, v] + 2) <= 0.5 for method in (ALTMIN, FEDREP) for v in ("n", "epsilon")),
                ", ".join(f"{v}: {exponent[ALTMIN, v]:.2f} and {exponent[FEDREP, v]:.2f}" for v in ("n", "epsilon")),
            ),
            Claim(
                "P2, section 3.3: its risk is smaller than Priv-AltMin's by a factor dk (both exponents differ by about one)",
                all(abs(difference - 1) <= 0.5 for difference in ratio.values()),
                ", ".join(f"exponent of {v} differs by {difference:+.2f}" for v, difference in ratio.items()),
            ),
        ],
    )


RESULT = PaperResult(
    "p2-rates",
    "Exponents of the risk in n, ε, d, k and m, beside Theorem 4.2 of P1 and Theorem 10 of P2",
    "One at a time around n = 10,000, m = 40, d = 40, k = 2, ε = 8, label noise 0.01, three values each, 2 seeds; the risk that "
    "the embedding adds to the best heads on it; T = 5. In the column 'printed': the theorems' exponents of the privacy term.",
    _run,
    fast="n = 2,000 and 4,000, d = 10, one seed",
)
