"""A year of refits under one budget: 52, 4 or 1, from the last board or from scratch, with directions that stay or turn.

    .venv/bin/python benchmarks/refits.py            # writes docs/measured/refits.md and docs/figures/refits.{svg,png}
    .venv/bin/python benchmarks/refits.py --people 2000 --weeks 8 --dry

20,000 people; each week a tenth of them leave and others come, and a tenth of all rows are new. Everybody has 8 rows of 20
features, the newest that she has. The subspace of rank 2 stays, or turns by 60° in the year. A year's ε = 2 (δ = 1e-6) is for
whoever is in every fit. The error is that of people's own predictions on fresh rows, beyond the noise of labels: exact, for 2,000
people who were in no fit, by the directions of that week. Noise is simulated. One seed: the year is an average over 52 weeks.
"""

import argparse
import math
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import commonground as cg
from commonground.accounting.refits import budget_of_each
from commonground.datasets.drifting import DriftingPeople
from commonground.metrics import error_of_heads
from commonground.progress import progress_bar

ROOT = Path(__file__).parents[1]
D, K, ROWS, NEW = 20, 2, 8, 0.1
EPSILON, DELTA = 2.0, 1e-6
PLANS = ((52, True), (52, False), (4, True), (4, False), (1, True))


def world(drift: float) -> DriftingPeople:
    rng = np.random.default_rng(5)
    U = np.linalg.qr(rng.standard_normal((D, K)))[0]
    return DriftingPeople(U, np.diag([0.3, 0.5, 0.3]), 1.0, 0.2 * rng.standard_normal(D), 3.0, math.radians(drift))


@dataclass
class Crowd:
    """Who is there, and what they have answered; older rows go as new ones come."""

    people: DriftingPeople
    n: int

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(11)
        self.parts = self.people.own_parts(self.n, 11)
        self.X, self.y = (np.zeros((self.n, ROWS, D), dtype=np.float32), np.zeros((self.n, ROWS)))
        self._answer(np.ones((self.n, ROWS), dtype=bool), 0.0)
        self.joined = 0

    def week(self, time: float) -> None:
        leaving = self.rng.random(self.n) < NEW
        self.joined += 1
        self.parts[leaving] = self.people.own_parts(int(leaving.sum()), 1000 + self.joined)
        again = self.rng.random((self.n, ROWS)) < NEW
        again[leaving] = True
        self._answer(again, time)

    def _answer(self, which: np.ndarray, time: float) -> None:
        person, row = np.nonzero(which)
        theta, intercepts = self.people.coefficients(self.parts, time)
        X = self.rng.standard_normal((len(person), D), dtype=np.float32)
        noise = self.people.noise**0.5 * self.rng.standard_normal(len(person))
        self.X[person, row] = X
        self.y[person, row] = np.einsum("ij,ij->i", X, theta[person]) + intercepts[person] + noise

    def users(self) -> cg.Users:
        ids = np.repeat(np.arange(self.n), ROWS)
        return cg.Users.from_arrays(self.X.reshape(-1, D), self.y.reshape(-1), ids)


def year(drift: float, n: int, weeks: int, advance: object) -> dict[str, list[float]]:
    """The error of each plan, week by week; one crowd for all of them."""
    people = world(drift)
    crowd, judged = Crowd(people, n), people.own_parts(2000, 77)
    boards: dict[tuple[int, bool], cg.Billboard] = {}
    errors: dict[str, list[float]] = {name(*plan): [] for plan in PLANS} | {"directions known": []}
    for week in range(weeks):
        now = week / 52
        if week:
            crowd.week(now)
        users, fresh, truth = crowd.users(), people.rows(judged, now, ROWS, 5), people.coefficients(judged, now)
        for refits, starts in PLANS:
            if week % (52 // refits) == 0:
                each = budget_of_each(EPSILON, DELTA, refits)
                model = cg.PrivateFedRep(K, each.epsilon, DELTA, keep_heads=False, simulation_seed=week)
                start = boards.get((refits, starts)) if starts else None
                boards[refits, starts] = model.fit(users, start=start).billboard_
            errors[name(refits, starts)].append(error_of_heads(boards[refits, starts], fresh, *truth))
        one = boards[PLANS[0]]
        known = replace(one, embedding=people.embedding_at(now), mean=people.mean, intercept=people.intercept,
                        spread=people.spread, noise=people.noise)  # fmt: skip
        errors["directions known"].append(error_of_heads(known, fresh, *truth))
        advance()  # type: ignore[operator]
    return errors


def name(refits: int, starts: bool) -> str:
    each = f"ε = {budget_of_each(EPSILON, DELTA, refits).epsilon:.3f} each"
    return f"{refits} × {each}" + ("" if refits == 1 else ", start=last board" if starts else ", from scratch")


def draw(found: dict[float, dict[str, list[float]]], file: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    colours = {52: "tab:blue", 4: "tab:orange", 1: "tab:green"}
    for at, (drift, errors) in zip(axes, found.items(), strict=True):
        for plan in PLANS:
            style = "-" if plan[1] else "--"
            at.plot(errors[name(*plan)], style, color=colours[plan[0]], label=name(*plan))
        at.plot(errors["directions known"], ":", color="grey", label="all shared parts known")
        title = "directions stay" if not drift else f"directions turn by {drift:g}° in the year"
        at.set(yscale="log", xlabel="week", title=title)
    axes[0].set_ylabel("excess squared error of own predictions")
    axes[0].legend(fontsize=8)
    FigureCanvasAgg(figure).print_png(str(file.with_suffix(".png")))
    FigureCanvasSVG(figure).print_svg(str(file.with_suffix(".svg")), metadata={"Date": None})


def page(found: dict[float, dict[str, list[float]]], n: int, seconds: float) -> str:
    lines = [
        "# A year of refits under one budget",
        "",
        f"Written by `python benchmarks/refits.py` ({seconds / 60:.0f} minutes on one core; one seed): {n:,} people, a tenth new",
        f"and a tenth of rows new each week, {D} features, rank {K}, {ROWS} rows each, a year of ε = {EPSILON:g}, δ = {DELTA:g}",
        "for whoever is in every fit. Excess squared error of people's own predictions on fresh rows (noise of labels, 1.0, not",
        "counted), for people who were in no fit: averaged over the year, in its first week, and in its last.",
        "",
        "![Error over the year](../figures/refits.svg)",
    ]
    for drift, errors in found.items():
        title = "The subspace stays" if not drift else f"The subspace turns by {drift:g}° in the year"
        lines += ["", f"## {title}", "", "| refits | year | first week | last week |", "|---|---|---|---|"]
        for what, values in errors.items():
            lines.append(f"| {what} | {np.mean(values):.4f} | {values[0]:.4f} | {values[-1]:.4f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--dry", action="store_true", help="Print, and write nothing.")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    started, found = time.monotonic(), {}
    with progress_bar("weeks", 2 * arguments.weeks, True) as advance:
        for drift in (0.0, 60.0):
            found[drift] = year(drift, arguments.people, arguments.weeks, advance)
    text = page(found, arguments.people, time.monotonic() - started)
    print(text)
    if not arguments.dry:
        (ROOT / "docs" / "measured" / "refits.md").write_text(text, encoding="utf-8")
        draw(found, ROOT / "docs" / "figures" / "refits")


if __name__ == "__main__":
    main()
