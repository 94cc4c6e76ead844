"""Data that nobody tuned the defaults for: correlated and heavy-tailed features, units, outliers, ragged people, unknown rank.

    python benchmarks/frontier.py --hard --seeds 5

Three tables, with n people, ε = 1, δ = 1e-6, simulated noise and defaults only:

1. MSE ÷ floor, of some beside FedRep without privacy. The floor is the error of heads that know the true embedding, on
   the same rows; errors are those on fresh rows, averaged over people who are not outliers.
2. Rows per person log-uniform on 1 to 200: the mean error of heads against that of ridge on own rows, by number of rows.
3. rank="auto": on how many draws it is the true one.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from rich.console import Console
from rich.table import Table

import commonground as cg
from commonground.heads.ridge import fit_heads
from commonground.progress import progress_bar

PLAIN = {"fit_intercept": False, "shared_mean": False}
D, K, ROWS, NOISE = 50, 2, 10, 0.01


@dataclass(frozen=True)
class Drawn:
    users: cg.Users
    theta: np.ndarray  # (n, d) everybody's coefficients before features were stretched
    embedding: np.ndarray  # (d, k) the true one, for the features as they are
    stretch: np.ndarray  # (d, d) S of the features S x
    judged: np.ndarray  # (n,) who is not an outlier


def drawn(kind: str, n: int, seed: int) -> Drawn:
    rng = np.random.default_rng([seed, 0xFA2D])
    U, heads = np.linalg.qr(rng.standard_normal((D, K)))[0], rng.standard_normal((n, K))
    ids, X = np.repeat(np.arange(n), ROWS), rng.standard_normal((n * ROWS, D))
    S, outlier, noise = np.eye(D), np.zeros(n, bool), rng.standard_normal(n * ROWS)
    if kind.startswith("covariance"):
        S = np.linalg.qr(rng.standard_normal((D, D)))[0] * np.logspace(0, -math.log10(KINDS[kind]) / 2, D)
    elif kind == "t₃ features":
        X = rng.standard_t(3, X.shape) / math.sqrt(3)
    elif kind == "t₃ rows":
        X /= np.sqrt(rng.chisquare(3, (len(X), 1)))
    elif kind == "two units, 1 : 10⁶":
        S = np.diag(np.where(np.arange(D) % 2, 1e6, 1.0))
    elif kind == "t₃ label noise":
        noise = rng.standard_t(3, len(X)) / math.sqrt(3)
    y = ((X @ U) * heads[ids]).sum(axis=1) + NOISE * noise
    X = X @ S.T
    if kind == "1 % of people × 1,000":
        outlier = rng.random(n) < 0.01
        X[outlier[ids]] *= 1e3
        y[outlier[ids]] *= 1e3 * rng.standard_normal(int(outlier[ids].sum()))
    users = cg.Users.from_arrays(X.astype(np.float32), y.astype(np.float32), ids)
    true = np.ascontiguousarray(np.linalg.qr(np.linalg.solve(S.T, U))[0])
    return Drawn(users, heads @ U.T, true, S, ~outlier)


KINDS = {
    "isotropic": 1.0,
    "covariance, condition 10": 10.0,
    "covariance, condition 100": 100.0,
    "two units, 1 : 10⁶": 1.0,
    "t₃ features": 1.0,
    "t₃ rows": 1.0,
    "t₃ label noise": 1.0,
    "1 % of people × 1,000": 1.0,
}
COMPARED = (
    "isotropic",
    "covariance, condition 100",
    "t₃ features",
)  # with FedRep without privacy, which takes its time


def error(data: Drawn, coefficients: np.ndarray) -> float:
    wrong = (coefficients @ data.stretch - data.theta)[data.judged]
    return float((wrong**2).sum(axis=1).mean()) + NOISE**2


def floor(data: Drawn) -> float:
    heads = [fit_heads(block, data.embedding, None, 0.0, False)[0] for block in data.users.blocks()]
    return error(data, np.concatenate(heads) @ data.embedding.T)


def fitted(data: Drawn, model: cg.PrivateFedRep | cg.NonPrivateFedRep) -> float:
    board = model.fit(data.users).billboard_
    assert model.heads_ is not None
    return error(data, model.heads_ @ board.embedding.T)


def hard_data(n: int, seeds: int) -> Table:
    table = Table(title=f"MSE ÷ floor, n = {n:,}, ε = 1, {seeds} seeds")
    for name in ("data", "median", "worst", "without privacy (first seed)"):
        table.add_column(name, justify="left" if name == "data" else "right")
    with progress_bar("hard data", len(KINDS) * seeds, enabled=True) as advance:
        for kind in KINDS:
            ratios, without = [], math.nan
            for seed in range(seeds):
                data = drawn(kind, n, seed)
                lowest = floor(data)
                ratios.append(fitted(data, cg.PrivateFedRep(K, 1.0, simulation_seed=seed, **PLAIN)) / lowest)
                if seed == 0 and kind in COMPARED:
                    without = fitted(data, cg.NonPrivateFedRep(K, **PLAIN)) / lowest
                advance()
            print(kind, *(f"{ratio:.4f}" for ratio in ratios))
            table.add_row(
                kind, f"{np.median(ratios):.4f}", f"{max(ratios):.4f}", f"{without:.4f}" if kind in COMPARED else ""
            )
    return table


BUCKETS = (1, 2, 3, 4, 5, 6, 8, 11, 16, 32, 64, 128, 201)


def ragged(n: int, noise: float, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Everybody's number of rows, and the errors of her shared and of her own model."""
    rng = np.random.default_rng([seed, 5])
    U = np.linalg.qr(rng.standard_normal((D, rank)))[0]
    theta, rows = rng.standard_normal((n, rank)) @ U.T, np.exp(rng.uniform(0, math.log(201), n)).astype(int)
    ids = np.repeat(np.arange(n), rows)
    X = rng.standard_normal((len(ids), D), dtype=np.float32)
    y = (X * theta[ids]).sum(axis=1) + noise * rng.standard_normal(len(ids))
    users = cg.Users.from_arrays(X, y.astype(np.float32), ids)
    errors = []
    for model in (cg.PrivateFedRep(rank, 1.0, simulation_seed=seed, **PLAIN), cg.OwnDataOnly(fit_intercept=False)):
        board = model.fit(users).billboard_
        assert model.heads_ is not None
        errors.append(((model.heads_ @ board.embedding.T - theta) ** 2).sum(axis=1) + noise**2)
    return rows, np.array(errors)


def ragged_people(n: int) -> Table:
    settings = ((0.01, 2), (0.3, 5), (1.0, 2))
    table = Table(title=f"Mean error of heads ÷ that of ridge on own rows, n = {n:,}, rows log-uniform on 1 to 200")
    table.add_column("rows", justify="right")
    found = []
    for noise, rank in settings:
        table.add_column(f"noise {noise:g}, rank {rank}", justify="right")
        found.append(ragged(n, noise, rank, seed=0))
    for low, end in pairwise(BUCKETS):
        cells = []
        for rows, errors in found:
            here = (rows >= low) & (rows < end)
            shared, own = errors[:, here].mean(axis=1)
            cells.append(f"{shared:.4g} ÷ {own:.4g} = {shared / own:.3f}")
        table.add_row(f"{low}" if end == low + 1 else f"{low} to {end - 1}", *cells)
    return table


def ranks_found(draws: int) -> Table:
    table = Table(title=f'rank="auto": right on how many of {draws} draws')
    for name in ("n", "ε", "d", "true rank", "rows", "noise", "right"):
        table.add_column(name, justify="right")
    settings = (
        (20_000, 1.0, 50, 1, 10, 0.01),
        (20_000, 1.0, 50, 2, 10, 0.01),
        (20_000, 1.0, 50, 5, 10, 0.01),
        (20_000, 1.0, 50, 10, 10, 0.01),
        (20_000, 1.0, 50, 3, 10, 1.0),
        (20_000, 1.0, 50, 2, 4, 0.01),
        (20_000, 0.25, 50, 2, 10, 0.01),
        (5_000, 1.0, 50, 2, 10, 0.01),
        (5_000, 1.0, 20, 3, 10, 0.1),
        (2_000, 2.0, 20, 2, 10, 0.01),
    )
    for n, epsilon, d, rank, rows, noise in settings:
        right = 0
        for seed in range(draws):
            users, _ = cg.datasets.make_shared_subspace(n, rows, d, rank, noise, seed=seed)
            model = cg.PrivateFedRep("auto", epsilon, n_rounds=1, keep_heads=False, simulation_seed=seed, **PLAIN)
            right += model.fit(users).billboard_.rank == rank
        table.add_row(f"{n:,}", f"{epsilon:g}", str(d), str(rank), str(rows), f"{noise:g}", f"{right}")
    return table


def print_tables(seeds: int, n: int = 20_000) -> None:
    console = Console(width=130)
    console.print(hard_data(n, seeds))
    console.print(ragged_people(n // 2))
    console.print(ranks_found(10))
