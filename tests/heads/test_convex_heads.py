"""Logistic and Huber heads against scipy's minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from commonground.data.users import Block
from commonground.heads.convex import fit_convex_heads
from populations import strange_people


def one_person(X: np.ndarray, y: np.ndarray) -> Block:
    return Block(np.ascontiguousarray(X), y, np.array([0, len(y)]), first=0)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_logistic(local_intercept: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, U, w = rng.standard_normal((25, 6)), np.linalg.qr(rng.standard_normal((6, 2)))[0], rng.standard_normal(6)
    y = (rng.random(25) < 1 / (1 + np.exp(-X @ U @ [2.0, -1.0] - 0.5))).astype(float)
    heads, own = fit_convex_heads(one_person(X, y), U, w, 0.3, local_intercept, "logistic")
    A, signs = X @ U, 2 * y - 1
    ridge = 0.5 * (A**2).sum() / (25 * 2)

    def objective(p: np.ndarray) -> float:
        score = X @ w + 0.3 + A @ p[:2] + (p[2] if local_intercept else 0.0)
        return float(np.log1p(np.exp(-signs * score)).sum() + ridge / 2 * (p[:2] ** 2).sum())

    best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(heads[0], best[:2], atol=1e-5)
    assert own[0] == pytest.approx(best[2] if local_intercept else 0.0, abs=1e-5)


def test_separable_rows_have_a_finite_head() -> None:
    X = np.linspace(-1, 1, 10)[:, None]
    heads, own = fit_convex_heads(one_person(X, (X[:, 0] > 0).astype(float)), np.eye(1), None, 0.0, True, "logistic")
    assert 0.5 < heads[0, 0] < 20
    assert abs(own[0]) < 1


def test_huber_ignores_an_outlier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 2))
    y = X @ [1.0, -2.0] + 0.01 * rng.standard_normal(20)
    y[3] += 1e6
    heads, _ = fit_convex_heads(one_person(X, y), np.eye(2), None, 0.0, False, "huber")
    np.testing.assert_allclose(heads[0], [1.0, -2.0], atol=0.05)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_strange_people_get_a_finite_head_or_none(loss: str) -> None:
    for kind, (X, y) in strange_people(4).items():
        heads, own = fit_convex_heads(one_person(X, y), np.eye(4)[:, :2], None, 0.0, True, loss)
        assert np.isfinite(heads).all(), kind
        assert np.isfinite(own).all(), kind
