"""What the two synthetic figures of P1 and P2 share: one population, many models, population errors averaged over seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from commonground.data.users import Users
from commonground.datasets.synthetic import Truth, make_shared_subspace
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep import PrivateFedRep
from commonground.progress import progress_bar
from commonground.reproduce.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Fit = Callable[[Users, Truth, float, int], float]  # (people, truth, ε, seed) → population MSE


@dataclass(frozen=True)
class Curve:
    """One line of the figure; ``flat`` lines do not depend on ε and are computed once."""

    label: str
    mse: Fit
    flat: bool = False
    style: str = "o-"


def mse_of(model: PersonalModel, users: Users, truth: Truth) -> float:
    """The expected squared error on fresh rows, each person with the head that ``fit`` gave her."""
    board = model.fit(users).billboard_
    assert model.heads_ is not None
    return error(model.heads_ @ board.embedding.T + (0.0 if board.mean is None else board.mean), truth)


def error(coefficients: np.ndarray, truth: Truth) -> float:
    """… of (n, d) coefficients; the label noise is part of it."""
    return float(((coefficients - truth.heads @ truth.embedding.T) ** 2).sum(axis=1).mean() + truth.noise**2)


def fitted(make: Callable[[float, int], PersonalModel]) -> Fit:
    return lambda users, truth, epsilon, seed: mse_of(make(epsilon, seed), users, truth)


def our_default(estimator: type[PrivateAltMin | PrivateFedRep], delta: float) -> Fit:
    """On the papers' people, who have neither intercepts nor a common mean."""

    def made(epsilon: float, seed: int) -> PersonalModel:
        return estimator(2, epsilon, delta, fit_intercept=False, shared_mean=False, simulation_seed=seed)

    return fitted(made)


def errors_of(
    curves: Sequence[Curve], n_users: int, epsilons: Sequence[float], n_seeds: int, show: bool
) -> dict[tuple[str, float], np.ndarray]:
    """(curve, ε) → population MSE by seed."""
    found: dict[tuple[str, float], list[float]] = {}
    steps = n_seeds * sum(1 if curve.flat else len(epsilons) for curve in curves)
    with progress_bar(f"{n_users:,} people, {n_seeds} seeds", steps, show) as advance:
        for seed in range(n_seeds):
            users, truth = make_shared_subspace(n_users=n_users, seed=seed)
            for curve in curves:
                for epsilon in epsilons:
                    if curve.flat and epsilon != epsilons[0]:
                        value = found[curve.label, epsilons[0]][-1]
                    else:
                        value = curve.mse(users, truth, epsilon, seed)
                        advance()
                    found.setdefault((curve.label, epsilon), []).append(value)
    return {key: np.array(values) for key, values in found.items()}


def rows_of(curves: Sequence[Curve], errors: dict[tuple[str, float], np.ndarray], notes: dict[str, str]) -> list[Row]:
    """Flat curves once, the others for every ε. The figures print no numbers, so nothing is judged here."""
    rows, seen = [], set()
    for (label, epsilon), values in errors.items():
        flat = next(curve.flat for curve in curves if curve.label == label)
        if flat and label in seen:
            continue
        seen.add(label)
        spread = float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else None
        setting: dict[str, str | float] = {"curve": label, "epsilon": "any" if flat else epsilon}
        rows.append(Row(setting, float(values.mean()), spread=spread, note=notes.get(label, "population MSE")))
    return rows


def drawing(
    curves: Sequence[Curve], errors: dict[tuple[str, float], np.ndarray], epsilons: Sequence[float], title: str
) -> "Callable[[Figure], None]":
    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for number, curve in enumerate(curves):
            means = [errors[curve.label, epsilon].mean() for epsilon in epsilons]
            axes.plot(epsilons, means, curve.style, color=f"C{number}", label=curve.label)
        axes.set(xscale="log", yscale="log", xlabel="ε per person (δ = 1e-6)", ylabel="population MSE", title=title)
        axes.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        figure.legend(fontsize="x-small", loc="outside lower center", ncols=2)

    return draw
