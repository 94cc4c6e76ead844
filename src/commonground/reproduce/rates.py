"""How the risk grows with n, d, k, ε and m: measured exponents beside those of P1's Theorem 4.2 and P2's Theorem 10."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
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
from commonground.theory import altmin_risk, fedrep_risk

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
_HARDLY_ANY_OTHER_TERM = 10**15  # rows a person: what is left of a bound is its privacy term


def bound_of(method: str, point: Point, rows: int | None = None) -> float:
    """The theorem's risk at this point, for heads ~ N(0, I) and without the cost of the final heads (label noise 0).

    Both theorems know the heads by their largest norm: in P1 through μ² = Γ²/k, in P2 by Γ itself. Here Γ = √k + √(2 log n) in
    both, so that the same people are compared: privacy terms Γ⁶k²d³/(ε²n²) and Γ⁶kd²/(ε²n²), where P1's Theorem 1.1 prints
    k⁵d³ for Γ² ≈ k. Private FedRep's rounds have half of the budget.
    """
    largest = math.sqrt(point.k) + math.sqrt(2 * math.log(point.n))
    sizes = point.n, point.m if rows is None else rows, point.d, point.k
    if method == ALTMIN:
        return altmin_risk(*sizes, point.epsilon, DELTA, 0.0, largest_head=largest)
    return fedrep_risk(*sizes, point.epsilon / 2, DELTA / 2, 0.0, n_rounds=5, largest_head=largest)


def theorem_exponent(method: str, varied: str, base: Point, values: tuple[float, ...]) -> float:
    """Of the privacy term over these values, Γ's logarithm of n left out.

    >>> [round(theorem_exponent(FEDREP, varied, Point(), GRID[varied]), 2) for varied in GRID]
    [-2.0, -2.0, 2.0, 1.75, 0.0]
    """
    if varied == "n":
        return -2.0
    if varied == "m":
        return 0.0
    points = [replace(base, **_changed(varied, value)) for value in values]
    bounds = np.array([bound_of(method, point, rows=_HARDLY_ANY_OTHER_TERM) for point in points])
    return fitted_exponent(np.array(values), bounds)[0]


def _changed(varied: str, value: float) -> dict[str, Any]:
    return {varied: value if varied == "epsilon" else int(value)}


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
    grid: dict[str, tuple[float, ...]] = {"n": (2_000, 4_000)} if fast else GRID
    rows, exponent, below = [], {}, {ALTMIN: 0.0, FEDREP: 0.0}
    with progress_bar("rates", len(METHODS) * sum(len(values) for values in grid.values()), show) as advance:
        for method, (varied, values) in product(METHODS, grid.items()):
            points = [replace(base, **_changed(varied, value)) for value in values]
            risks = np.array([_risks_at(method, point, 1 if fast else 2, advance) for point in points])
            if method in below:
                bounds = np.array([bound_of(method, point) for point in points])
                below[method] = max(below[method], float((risks / bounds[:, None]).max()))
            slope, error = fitted_exponent(np.repeat(values, risks.shape[1]), risks.ravel())
            exponent[method, varied] = slope
            printed = theorem_exponent(method, varied, base, values) if method in below else None
            note = "risk " + ", ".join(f"{risk:.2g}" for risk in risks.mean(axis=1))
            rows.append(Row({"method": method, "exponent of": varied}, slope, printed, spread=error, note=note))
    return Outcome(rows) if fast else Outcome(rows, _claims(base, exponent, below))


def _risks_at(method: str, point: Point, n_seeds: int, advance: Callable[[], None]) -> list[float]:
    found = [excess_of_embedding(METHODS[method], point, seed) for seed in range(n_seeds)]
    advance()
    return found


def _claims(base: Point, exponent: dict[tuple[str, str], float], below: dict[str, float]) -> list[Claim]:
    """``exponent`` by method and what was varied; ``below``: the largest share that a measured risk is of its bound."""
    in_k = {method: theorem_exponent(method, "k", base, GRID["k"]) for method in below}
    ratio = {v: exponent[ALTMIN, v] - exponent[FEDREP, v] for v in ("d", "k")}
    return [
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
        Claim(
            "k enters as both theorems have it for these heads (within 0.5)",
            all(abs(exponent[method, "k"] - in_k[method]) <= 0.5 for method in below),
            ", ".join(f"{exponent[method, 'k']:.2f} where {in_k[method]:.2f} is printed" for method in below),
        ),
        Claim(
            "every measured risk lies below its theorem (constants one but for the noise's, no logarithms)",
            max(below.values()) < 1,
            ", ".join(f"{method}: at most {share:.2g} of it" for method, share in below.items()),
        ),
    ]


RESULT = PaperResult(
    "p2-rates",
    "Exponents of the risk in n, ε, d, k and m, beside Theorem 4.2 of P1 and Theorem 10 of P2",
    "One at a time around n = 10,000, m = 40, d = 40, k = 2, ε = 8, label noise 0.01, three values each, 2 seeds; the risk that "
    "the embedding adds to the best heads on it; T = 5. In the column 'printed': the theorems' exponents of the privacy term "
    "for heads ~ N(0, I), whose largest norm Γ enters both as Γ⁶: Γ⁶k²d³ and Γ⁶kd² (k⁵ and k⁴ where k is large).",
    _run,
    fast="n = 2,000 and 4,000, d = 10, one seed",
)
