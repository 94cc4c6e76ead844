"""Would heads fitted by a hinge be better than by the logistic loss? (P2's margin loss, in FedRep.)

    python benchmarks/hinge_heads.py [--people 300]

Simulated people with ±1 labels on a shared subspace, the embedding known or turned away from the truth by noise; heads by the
logistic loss and by a hinge with a smooth corner (Huber's, of width one: both have slopes of at most one, so a gradient would be
clipped and protected alike), each at its best ridge of four, chosen by looking at the accuracies on held-out rows that it prints.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from commonground.progress import progress_bar

D, K, HELD_OUT = 20, 2, 200
RIDGES = (0.03, 0.1, 0.3, 1.0)
Loss = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def logistic(margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.logaddexp(0.0, -margin), -1.0 / (1.0 + np.exp(margin))


def smooth_hinge(margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Zero beyond 1, quadratic down to 0, linear below."""
    short = np.clip(1.0 - margin, 0.0, 1.0)
    return np.where(margin < 0.0, 0.5 - margin, short**2 / 2), -short


def head(A: np.ndarray, y: np.ndarray, ridge: float, loss: Loss) -> np.ndarray:
    def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(y * (A @ v))
        return float(value.sum() + ridge * v @ v / 2), A.T @ (slope * y) + ridge * v

    return np.asarray(minimize(objective, np.zeros(A.shape[1]), jac=True, method="L-BFGS-B").x)


def accuracies(people: int, rows: int, flipped: float, turned: float, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, rows])
    U = np.linalg.qr(rng.standard_normal((D, K)))[0]
    seen = np.linalg.qr(U + turned * rng.standard_normal((D, K)) / np.sqrt(D))[0]
    right = {(name, ridge): [] for name in ("logistic", "hinge") for ridge in RIDGES}
    for _ in range(people):
        v = 2 * rng.standard_normal(K)
        X, X_new = rng.standard_normal((rows, D)), rng.standard_normal((HELD_OUT, D))
        y, y_new = np.sign(X @ U @ v), np.sign(X_new @ U @ v)
        y *= np.where(rng.random(rows) < flipped, -1.0, 1.0)
        for name, loss in (("logistic", logistic), ("hinge", smooth_hinge)):
            for ridge in RIDGES:
                found = head(X @ seen, y, ridge, loss)
                right[name, ridge].append(float(np.mean(np.sign(X_new @ seen @ found) == y_new)))
    return {name: max(float(np.mean(right[name, ridge])) for ridge in RIDGES) for name in ("logistic", "hinge")}


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--people", type=int, default=300)
    people = options.parse_args().people
    cases = [(rows, flipped, turned) for rows in (8, 30) for flipped in (0.0, 0.1, 0.2) for turned in (0.0, 0.5)]
    print("| rows a person | labels flipped | embedding off by | logistic | smooth hinge |\n|---|---|---|---|---|")
    with progress_bar("fitting heads", len(cases), enabled=True) as advance:
        for rows, flipped, turned in cases:
            found = accuracies(people, rows, flipped, turned, seed=0)
            print(
                f"| {rows} | {flipped:.0%} | {turned:g} | {found['logistic']:.3f} | {found['hinge']:.3f} |", flush=True
            )
            advance()
