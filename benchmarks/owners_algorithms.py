"""P4's Algorithms 1 and 2 for convex losses: where each way to learn the shared u is good.

    python benchmarks/owners_algorithms.py [--seeds 2]

Simulated owners, θ_j = u + x_j, 10 features, rows of norm about one, label noise 0.3, noise simulated. Prints two tables: the
error of u for two aggregators over users, and what single steps (recipe="paper") bring beside owners alone.
"""

import argparse
import warnings

import numpy as np

import commonground as cg

D, NOISE, DELTA, RADIUS = 10, 0.3, 1e-5, 3.0
AGGREGATORS = ("mean", "winsorised")
# owners, users of each, rows of a user, clip norm, ε
USERS = ((20, 50, 20, 1.0, 1.0), (20, 50, 2, 5.0, 1.0), (20, 50, 20, 5.0, 1.0), (20, 50, 100, 5.0, 1.0),
         (10, 400, 20, 5.0, 1.0), (5, 1000, 50, 5.0, 1.0))  # fmt: skip
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
    print(
        "| owners | users each | rows a user | C | ε | " + " | ".join(AGGREGATORS) + " |\n|---|---|---|---|---|---|---|"
    )
    for n, users, rows, clip, epsilon in USERS:
        errors = {name: [] for name in AGGREGATORS}
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
        print(f"| {n} | {users} | {rows} | {clip:g} | {epsilon:g} | {cells} |", flush=True)


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
    single_steps(chosen.seeds)
