"""People whose labels are one of four classes, and what their posteriors are by scipy."""

from dataclasses import replace

import numpy as np
from scipy import optimize

from commonground.data.users import Block
from commonground.statistics.classes import ClassModel, contrasts
from populations import ragged_block

D, K = 5, 4
RNG = np.random.default_rng(3)
ROOT = 0.5 * RNG.standard_normal((K - 1, K - 1))
MODEL = ClassModel(RNG.standard_normal((D, K - 1)), RNG.standard_normal(K - 1), ROOT @ ROOT.T + 0.3 * np.eye(K - 1))


def people(seed: int = 0, n_users: int = 9) -> Block:
    block = ragged_block(seed, n_users=n_users, d=D, low=1)
    return replace(block, y=np.random.default_rng(seed).integers(0, K, len(block.y)).astype(float))


def rows_of(block: Block, j: int) -> tuple[np.ndarray, np.ndarray]:
    here = slice(block.offsets[j], block.offsets[j + 1])
    return np.asarray(block.X[here], dtype=float), block.y[here].astype(int)


def probabilities(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def posterior_of(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Her contrasts and what is left of her labels, averaged over points about the mode by scipy; the covariance by Laplace."""
    B, precision = contrasts(K), np.linalg.inv(MODEL.spread)
    shared = (X @ MODEL.coef + MODEL.intercept) @ B.T

    def loss(h: np.ndarray) -> float:
        scores = shared + B @ h
        return float(-np.log(probabilities(scores))[np.arange(len(y)), y].sum() + h @ precision @ h / 2)

    h = optimize.minimize(loss, np.zeros(K - 1), method="BFGS", options={"gtol": 1e-9}).x
    bends = sum(np.diag(one) - np.outer(one, one) for one in probabilities(shared + B @ h))
    covariance = np.linalg.inv(precision + B.T @ bends @ B)
    L = np.linalg.cholesky(MODEL.spread)  # points lie along principal axes, where the prior is the identity
    values, axes = np.linalg.eigh(np.linalg.solve(L, np.linalg.solve(L, covariance).T))
    root = L @ (axes * np.sqrt(values * (K - 1)))
    points = np.concatenate([h + root.T, h - root.T])
    densities = np.exp(loss(h) - np.array([loss(point) for point in points]))
    weights = densities / densities.sum()
    p = sum(weight * probabilities(shared + B @ point) for weight, point in zip(weights, points, strict=True))
    return weights @ points, covariance, np.eye(K)[y] - p
