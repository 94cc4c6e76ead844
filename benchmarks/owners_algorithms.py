"""P4's Algorithms 1 and 2 for convex losses: where each way to learn the shared u is good.

    python benchmarks/owners_algorithms.py [--seeds 2]

Simulated owners, θ_j = u + x_j, 10 features, rows of norm about one, label noise 0.3, noise simulated. Prints three tables: the
error of u for two aggregators over users beside Algorithm 2 as written (``reproduce/p4_smooth.py``: a whole owner a step), what
single steps (recipe="paper") bring beside owners alone, and how Levy et al.'s mean errs by users and rows (Theorem B.3).
Algorithm 2 as written is shown at its best: the radius of users' means is told, and rate and steps are the best of a grid,
chosen by looking at the result. "true": noise for what whole owners cost; "printed": each step at the whole (ε, δ), T steps.
"""

import argparse
import warnings

import numpy as np

import commonground as cg
from commonground.audit.whole_owners import WholeOwners, range_then_clip
from commonground.progress import progress_bar
from commonground.reproduce.p4_smooth import SmoothSteps, algorithm_2

D, NOISE, DELTA, RADIUS = 10, 0.3, 1e-5, 3.0
AGGREGATORS = ("mean", "winsorised")
# owners, users of each, rows of a user, clip norm, ε
USERS = ((20, 50, 20, 1.0, 1.0), (20, 50, 2, 5.0, 1.0), (20, 50, 20, 5.0, 1.0), (20, 50, 100, 5.0, 1.0),
         (10, 400, 20, 5.0, 1.0), (5, 1000, 50, 5.0, 1.0), (2, 2500, 20, 5.0, 1.0), (2, 2500, 20, 1.0, 1.0),
         (2, 10_000, 20, 5.0, 4.0))  # fmt: skip
STEPS, RATES = (30, 100, 300), (0.3, 1.0, 3.0)  # of Algorithm 2 as written
TOLD = 2.0  # radius of users' means, in standard deviations of one coordinate
SINGLE = ((50, 20, 1.0), (50, 20, 4.0), (200, 20, 4.0), (1000, 20, 1.0), (1000, 20, 4.0))  # owners, rows of each, ε


def owners(n: int, users: int, rows: int, spread: float, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(D)
    u *= 2 / np.linalg.norm(u)
    own = spread * rng.standard_normal((n, D))
    owner, new = np.repeat(np.arange(n), users * rows), np.repeat(np.arange(n), 50)
    X, X_new = (rng.standard_normal((len(of), D)) / np.sqrt(D) for of in (owner, new))
    y = (X * (u + own[owner])).sum(axis=1) + NOISE * rng.standard_normal(len(owner))
    user = np.repeat(np.arange(n * users), rows)
    y_new = (X_new * (u + own[new])).sum(axis=1)
    return {"X": X, "y": y, "owner": owner, "user": user, "X_new": X_new, "y_new": y_new, "new": new, "u": u}


def aggregators(seeds: int) -> None:
    columns = (*AGGREGATORS, "as written, true", "as written, printed (spends up to)")
    print("| owners | users each | rows a user | C | ε | " + " | ".join(columns) + " |\n|" + "---|" * 9)
    for n, users, rows, clip, epsilon in USERS:
        errors: dict[str, list[float]] = {name: [] for name in AGGREGATORS}
        for seed in range(seeds):
            data = owners(n, users, rows, 0.1, seed)
            for name in AGGREGATORS:
                model = cg.JointSGDRegressor(
                    epsilon, DELTA, unit="user", aggregator=name, records_per_user=rows, fit_intercept=False, steps=200,
                    clip_norm=clip, radius=RADIUS, learning_rate=3.0, simulation_seed=seed,
                ).fit(data["X"], data["y"], data["owner"], data["user"])  # fmt: skip
                found = model.billboard_.arrays["coefficients"].ravel()
                errors[name].append(((found - data["u"]) ** 2).sum() / ((data["u"]) ** 2).sum())
        cells = " | ".join(f"{np.mean(errors[name]):.4f}" for name in AGGREGATORS)
        true, printed, spent = as_written(n, users, rows, clip, epsilon, seeds)
        print(
            f"| {n} | {users} | {rows} | {clip:g} | {epsilon:g} | {cells} | {true:.4f} | {printed:.4f} ({spent:.1f}) |",
            flush=True,
        )


def as_written(n: int, users: int, rows: int, clip: float, epsilon: float, seeds: int) -> tuple[float, float, float]:
    """Algorithm 2 at its best of a grid, with true and with printed noise, and the ε that the latter may spend."""
    found: dict[str, list[tuple[float, float]]] = {"true": [], "printed": []}
    with progress_bar(f"{n} owners", len(STEPS) * len(RATES) * seeds, True) as advance:
        for steps in STEPS:
            draws = WholeOwners(n, steps, D, DELTA)
            levels = {"true": draws.per_coordinate_for(epsilon), "printed": draws.per_coordinate(epsilon)}
            for rate in RATES:
                errors: dict[str, list[float]] = {name: [] for name in levels}
                for seed in range(seeds):
                    data = owners(n, users, rows, 0.1, seed)
                    X, y = data["X"].reshape(n, users, rows, D), data["y"].reshape(n, users, rows)
                    at_start = np.einsum("jkr,jkrd->jkd", -y, X) / rows
                    told = TOLD * float(at_start.std(axis=1).mean())
                    for name, each in levels.items():
                        settings = SmoothSteps(steps, each, told, clip, rate, RADIUS)
                        u = algorithm_2(X, y, settings, np.random.default_rng([seed, steps]))
                        errors[name].append(float(((u - data["u"]) ** 2).sum() / (data["u"] ** 2).sum()))
                    advance()
                for name in levels:
                    found[name].append((float(np.mean(errors[name])), draws.cost(levels["printed"])))
    (true, _), (printed, spent) = min(found["true"]), min(found["printed"])
    return true, printed, spent


def means_of_users(seeds: int) -> None:
    """Theorem B.3: the error of the mean falls as 1/√rows (through τ) and as 1/users."""
    print("\n| users | rows a user | error of the mean ÷ the true mean's norm, ε = 4 a step |\n|---|---|---|")
    each = WholeOwners(1, 1, D, DELTA).per_coordinate(4.0)
    for users, rows in ((500, 20), (2000, 20), (8000, 20), (8000, 5), (8000, 80)):
        squares = []
        for seed in range(10 * seeds):
            rng = np.random.default_rng([seed, users, rows])
            truth = rng.standard_normal(D)
            truth /= np.linalg.norm(truth)
            means = truth + rng.standard_normal((users, D)) / rows**0.5
            (found,) = range_then_clip(means, each, TOLD / rows**0.5, 5.0, rng)
            squares.append(float(((found - truth) ** 2).sum()))
        print(f"| {users} | {rows} | {np.sqrt(np.mean(squares)):.4f} |", flush=True)


def single_steps(seeds: int) -> None:
    print("\n| owners | rows each | ε | u alone | fitted towards u | own rows alone | predicting zero | Theorem 3.1 |")
    print("|---|---|---|---|---|---|---|---|")
    for n, rows, epsilon in SINGLE:
        found: list[tuple[float, ...]] = []
        for seed in range(seeds):
            data = owners(n, 1, rows, 0.05, seed)
            model = cg.JointSGDRegressor(
                epsilon, DELTA, recipe="paper", fit_intercept=False, steps=20_000, radius=RADIUS, simulation_seed=seed
            ).fit(data["X"], data["y"], data["owner"])
            alone = cg.OwnDataOnly(fit_intercept=False).fit(data["X"], data["y"], users=data["owner"])
            guesses = (
                model.predict(data["X_new"]), model.predict(data["X_new"], data["new"]),
                alone.predict(data["X_new"], users=data["new"]), np.zeros(len(data["y_new"])),
            )  # fmt: skip
            found.append(tuple(float(((guess - data["y_new"]) ** 2).mean()) for guess in guesses))
        promised = 2 * cg.theory.owners_risk(  # of half the squared error, at C = 1
            n, rows, D, epsilon, DELTA, shared_diameter=RADIUS, personal_diameter=RADIUS / n**0.5
        )
        cells = " | ".join(f"{mean:.4f}" for mean in np.mean(found, axis=0))
        print(f"| {n} | {rows} | {epsilon:g} | {cells} | {promised:.2f} |", flush=True)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=2)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    aggregators(chosen.seeds)
    means_of_users(chosen.seeds)
    single_steps(chosen.seeds)
