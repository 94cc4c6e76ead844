"""What personal budgets bring, and that they are kept.

    python benchmarks/personal_budgets.py fedrep      # Private FedRep: everybody at min ε, personal, everybody at max ε
    python benchmarks/personal_budgets.py medical     # ridge on Medical Cost (needs the data set), 1,000 draws of noise
    python benchmarks/personal_budgets.py share       # error against the share of conservative people; writes the figure
    python benchmarks/personal_budgets.py attack      # how well the best attack finds a person, by her budget

Noise is simulated throughout, so that runs can be repeated.
"""

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import beta, norm
from sklearn.linear_model import LinearRegression

import commonground as cg
from commonground.accounting.gaussian import gaussian_mu
from commonground.audit.neighbours import TARGET, neighbours
from commonground.audit.replay import evidence, record
from commonground.data.users import Users
from commonground.progress import progress_bar
from commonground.reproduce import p3_settings

N_USERS = 20_000
SHARES_OF_CONSERVATIVE = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
RIDGE_ROWS, RIDGE_FEATURES = 5000, 5
ALPHAS = (0.03, 0.1, 0.3, 1.0, 3.0)


def scaled_mix(
    n: int, low: float, high: float, fractions: tuple[float, float, float] = p3_settings.DEFAULT_FRACTIONS
) -> np.ndarray:
    """P3's mix of budgets, moved and stretched so that its smallest is ``low`` and its largest ``high``."""
    epsilons = cg.datasets.segmented_budgets(n, fractions)
    smallest, largest = epsilons.min(), epsilons.max()
    return np.clip(low + (epsilons - smallest) * (high - low) / (largest - smallest), low, high)


def fedrep_ratio(users: Users, truth: cg.datasets.Truth, budgets: object, seed: int) -> float:
    model = cg.PrivateFedRep(
        2, budgets=budgets, fit_intercept=False, shared_mean=False, keep_heads=False, simulation_seed=seed
    )  # fmt: skip
    board = model.fit(users).billboard_
    return cg.metrics.population_mse(board, users, truth) / cg.metrics.population_mse(truth.embedding, users, truth)


def fedrep(seeds: int, out: Path) -> None:
    table = Table(
        title=f"Private FedRep, {N_USERS:,} people, P3's mix scaled to ε from 0.1 to 1: MSE ÷ floor, {seeds} seeds"
    )
    for heading in ("budgets", "mean", "worst", "distance to uniform 1 recovered"):
        table.add_column(heading, justify="left" if heading == "budgets" else "right")
    budgets = {"uniform 0.1": 0.1, "personal": scaled_mix(N_USERS, 0.1, 1.0), "uniform 1": 1.0}
    found: dict[str, list[float]] = {name: [] for name in budgets}
    with progress_bar("training", seeds * len(budgets), enabled=True) as advance:
        for seed in range(seeds):
            users, truth = cg.datasets.make_shared_subspace(N_USERS, seed=1000 + seed)
            for name, epsilons in budgets.items():
                found[name].append(fedrep_ratio(users, truth, epsilons, seed))
                advance()
    worst_mean, best_mean = np.mean(found["uniform 0.1"]), np.mean(found["uniform 1"])
    for name, ratios in found.items():
        recovered = (worst_mean - np.mean(ratios)) / (worst_mean - best_mean)
        table.add_row(name, f"{np.mean(ratios):.4f}", f"{max(ratios):.4f}", f"{recovered:.0%}")
    Console().print(table)


def medical(seeds: int, out: Path) -> None:
    data = p3_settings.medical()
    X, X_test = data.X[:, :-1], data.X_test[:, :-1]  # the estimator adds its own intercept
    budgets = cg.datasets.segmented_budgets(len(data.y))
    table = Table(title=f"Medical Cost, P3's default budgets, unregularised test loss, {seeds} draws of noise")
    for heading in ("method", "alpha", "mean", "standard error", "median", "worst"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    plain = LinearRegression().fit(X, data.y)
    for name, prediction in (("mean predictor", data.y.mean()), ("non-private", plain.predict(X_test))):
        table.add_row(name, "", f"{np.mean((data.y_test - prediction) ** 2):.4f}", "", "", "")
    cases: list[tuple[str, float | None, str]] = [("statistics", None, "max")]
    cases += [("reweight", alpha, "max") for alpha in (1.0, 3.0, 5.0)]
    cases += [("sample", 1.0, "max"), ("sample", 1.0, "mean"), ("uniform", 1.0, "max")]
    with progress_bar("training", len(cases) * seeds, enabled=True) as advance:
        for method, alpha, threshold in cases:
            losses = []
            for seed in range(seeds):
                model = cg.PersonalBudgetRidge(
                    method, alpha, (0, 1), (0, 1), budgets, threshold=threshold, simulation_seed=seed
                ).fit(X, data.y)  # fmt: skip
                losses.append(np.mean((data.y_test - model.predict(X_test)) ** 2))
                advance()
            error = np.std(losses) / np.sqrt(seeds)
            name = f"{method}, {threshold}" if method == "sample" else method
            table.add_row(
                name, "chosen" if alpha is None else f"{alpha:g}", f"{np.mean(losses):.4f}", f"{error:.4f}",
                f"{np.median(losses):.4f}", f"{max(losses):.4f}",
            )  # fmt: skip
    Console().print(table)


def ridge_population(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 0x51])
    X = rng.random((RIDGE_ROWS, RIDGE_FEATURES))
    slopes = rng.standard_normal(RIDGE_FEATURES)
    y = X @ slopes
    y = (y - y.mean()) / np.abs(slopes).sum() + 0.05 * rng.standard_normal(RIDGE_ROWS)
    return X, np.clip(y, -1, 1)


def share(seeds: int, out: Path) -> None:
    """Conservative people between ε = 0.1 and 0.3, the others at 1.

    Output perturbation is shown at its best λ at each point, chosen by looking at the result: more than it deserves.
    """
    ridge = {"uniform (min ε)": "uniform", "sample, max": "sample", "reweight (PDP-OP)": "reweight"}
    errors: dict[str, list[list[float]]] = {
        name: [] for name in (*ridge, "statistics (ours)", "uniform, min ε", "personal budgets")
    }
    with progress_bar("training", seeds * len(SHARES_OF_CONSERVATIVE), enabled=True) as advance:
        for conservative in SHARES_OF_CONSERVATIVE:
            mix = (conservative, 0.0, 1.0 - conservative), (0.1, 0.3, 1.0)
            at: dict[tuple[str, float | None], list[float]] = {}
            for seed in range(seeds):
                X, y = ridge_population(seed)
                budgets = cg.datasets.segmented_budgets(len(y), *mix, seed=seed)
                cases = [(name, method, alpha) for name, method in ridge.items() for alpha in ALPHAS]
                for name, method, alpha in (*cases, ("statistics (ours)", "statistics", None)):
                    model = cg.PersonalBudgetRidge(method, alpha, (0, 1), (-1, 1), budgets, simulation_seed=seed)
                    loss = np.mean((model.fit(X, y).predict(X) - y) ** 2) / y.var()
                    at.setdefault((name, alpha), []).append(float(loss))
                users, truth = cg.datasets.make_shared_subspace(N_USERS // 4, seed=1000 + seed)
                budgets = cg.datasets.segmented_budgets(users.n_users, *mix, seed=seed)
                for name, epsilons in (("uniform, min ε", budgets.min()), ("personal budgets", budgets)):
                    at.setdefault((name, None), []).append(fedrep_ratio(users, truth, epsilons, seed))
                advance()
            for name, rows in errors.items():
                rows.append(min((losses for (case, _), losses in at.items() if case == name), key=np.mean))
    table = Table(
        title=f"Error against the share of conservative people (ε from 0.1 to 0.3, others 1), mean of {seeds} seeds"
    )
    for heading in ("method", *(f"{one:.0%}" for one in SHARES_OF_CONSERVATIVE)):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for at_row, (name, rows) in enumerate(errors.items()):
        kind = "ridge, loss ÷ variance: " if at_row < 4 else "FedRep, MSE ÷ floor: "
        table.add_row(kind + name, *(f"{np.mean(values):.3g}" for values in rows))
    Console().print(table)
    draw_share(errors, list(errors)[:4], out)


def draw_share(errors: dict[str, list[list[float]]], ridge: list[str], out: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for name, rows in errors.items():
        axes = left if name in ridge else right
        values = np.array(rows)
        line = axes.plot(SHARES_OF_CONSERVATIVE, np.median(values, axis=1), "o-", label=name)
        low, high = np.quantile(values, [0.1, 0.9], axis=1)
        axes.fill_between(SHARES_OF_CONSERVATIVE, low, high, color=line[0].get_color(), alpha=0.2)
    left.axhline(1.0, color="0.5", ls=":", label="mean predictor")
    left.set(title="Ridge regression, 5,000 people", ylabel="loss ÷ variance of the labels", yscale="log")
    right.set(title="Private FedRep, 5,000 people", ylabel="MSE ÷ floor", yscale="log")
    for axes in (left, right):
        axes.set(xlabel="share of conservative people (ε from 0.1 to 0.3, others 1)")
        axes.legend(fontsize="small")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "personal_budgets.svg")
    Console().print(f"Figure: {out / 'personal_budgets.svg'}")


def attack(seeds: int, out: Path) -> None:
    """The likelihood-ratio test between a person and her neighbour: no attack on the releases does better."""
    segments = {"conservative": 0.2, "pragmatist": 1.0, "liberal": 4.0}
    table = Table(title=f"Advantage (true − false positives) of the best attack on one person, {seeds} runs each way")
    for heading in ("model", "her budget", "advantage", "95 % interval", "allowed by her ε", "by the largest ε"):
        table.add_column(heading, justify="left" if heading == "model" else "right")

    def fedrep_fit(users: Users, seed: int | None, epsilon: float) -> cg.PrivateFedRep:
        budgets = np.where(np.arange(users.n_users) == TARGET, epsilon, segments["liberal"])
        return cg.PrivateFedRep(
            1, budgets=budgets, n_rounds=3, fit_intercept=False, shared_mean=False, simulation_seed=seed
        ).fit(users)  # fmt: skip

    def ridge_fit(users: Users, seed: int | None, epsilon: float) -> cg.PersonalBudgetRidge:
        budgets = np.where(np.arange(users.n_users) == TARGET, epsilon, segments["liberal"])
        return cg.PersonalBudgetRidge("statistics", None, (-1, 1), (-1, 1), budgets, simulation_seed=seed).fit(users)

    for name, fit, pair in (("ridge, statistics", ridge_fit, "corners"), ("Private FedRep", fedrep_fit, "aligned")):
        people = neighbours(pair)
        for segment, epsilon in segments.items():
            hits = [0, 0]
            with progress_bar(f"{name}, {segment}", seeds, enabled=True) as advance:
                for seed in range(seeds):
                    for side, (mine, theirs) in enumerate(
                        ((people.with_target, people.without), (people.without, people.with_target))
                    ):
                        train = lambda users, at, epsilon=epsilon, fit=fit: fit(users, at, epsilon)  # noqa: E731
                        transcript = record(train, mine, 2 * seed + side, TARGET)
                        ratio = evidence(train, transcript, theirs, TARGET).log_ratios.sum()
                        hits[side] += int(ratio > 0)  # the right one of the two is named
                    advance()
            low, high, middle = -1.0, -1.0, (hits[0] + hits[1]) / seeds - 1
            for hit in hits:  # each at 97.5 %, so both together at 95 %
                low += beta.ppf(0.0125, hit, seeds - hit + 1) if hit else 0.0
                high += beta.ppf(0.9875, hit + 1, seeds - hit) if hit < seeds else 1.0
            allowed = [2 * norm.cdf(gaussian_mu(e, 1e-6) / 2) - 1 for e in (epsilon, segments["liberal"])]
            table.add_row(
                name, f"{segment}, ε = {epsilon:g}", f"{middle:.3f}", f"{low:.3f} to {high:.3f}", f"{allowed[0]:.3f}",
                f"{allowed[1]:.3f}",
            )  # fmt: skip
    Console().print(table)


PARTS = {"fedrep": (fedrep, 5), "medical": (medical, 1000), "share": (share, 5), "attack": (attack, 1000)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    chosen = parser.parse_args()
    function, default_seeds = PARTS[chosen.part]
    function(chosen.seeds or default_seeds, chosen.out)
