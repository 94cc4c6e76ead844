"""What it costs that features lie far from zero, have other units or are correlated: RMSE on held-out rows, mean of three seeds.

    python benchmarks/far_features.py

The same people and labels in every line, their features moved, stretched or mixed by a public matrix: a linear model of the
one is a linear model of the other. People have levels of their own. Noise is simulated; NonPrivateFedRep is not private.
"""

import warnings

import numpy as np

import commonground as cg

SETTINGS = [(20_000, 20, 3, 4.0), (3_000, 20, 2, 2.0), (1_000, 8, 2, 4.0)]  # people, features, rank, ε


def tables(X: np.ndarray) -> dict[str, np.ndarray]:
    d, rng = X.shape[1], np.random.default_rng(1)
    mixed, one = rng.standard_normal((d, d)) / d**0.5 + np.eye(d), np.eye(1, d)
    return {
        "as they are": X,
        f"correlated, condition {np.linalg.cond(mixed):.0f}": X @ mixed,
        "one 30 standard deviations from zero": X + 30.0 * one,
        "one 1,000": X + 1_000.0 * one,
        "all about 10": X + 10.0 * rng.uniform(0.5, 1.5, d),
        "units from 1/1000 to 1000, all moved by 3": X * 10.0 ** rng.uniform(-3, 3, d) + 3.0,
    }


def main() -> None:
    warnings.simplefilter("ignore")  # of sizes that noise hides: that is what is looked at here
    for n, d, rank, epsilon in SETTINGS:
        users, _ = cg.datasets.make_shared_subspace(n_users=n, n_features=d, rank=rank, noise=0.3, seed=5)
        rows = [(block.X.astype(np.float64), block.y) for block in users.blocks()]
        X, y = (np.concatenate(part) for part in zip(*rows, strict=True))
        ids, held = np.repeat(np.arange(n), 10), np.arange(10 * n) % 10 == 9
        y = y + np.random.default_rng(2).standard_normal(n)[ids]

        def error(model: object, Z: np.ndarray, ids=ids, held=held, y=y) -> float:  # type: ignore[no-untyped-def]
            model.fit(Z[~held], y[~held], users=ids[~held])  # type: ignore[attr-defined]
            return float(np.sqrt(np.mean((model.predict(Z[held], users=ids[held]) - y[held]) ** 2)))  # type: ignore[attr-defined]

        plain = error(cg.NonPrivateFedRep(rank), X)
        print(
            f"\n{n:,} people, {d} features, rank {rank}, ε = {epsilon:g}; not private, features as they are: {plain:.3f}"
        )
        for name, Z in tables(X).items():
            found = [error(cg.PrivateFedRep(rank, epsilon, delta=1e-6, simulation_seed=seed), Z) for seed in (1, 2, 3)]
            print(f"  {name:45} {np.mean(found):.3f} (worst {max(found):.3f})", flush=True)


if __name__ == "__main__":
    main()
