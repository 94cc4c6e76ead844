"""Heads against scikit-learn and against leaving rows out for real."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import commonground as cg
from commonground.data.users import Block
from commonground.heads.ridge import STRENGTHS, fit_heads
from commonground.heads.table import Head, HeadTable
from populations import ragged_block


def fit_head(
    X: np.ndarray, y: np.ndarray, U: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool
) -> Head:
    """One person's head from her own rows."""
    block = Block(np.ascontiguousarray(X), y, np.array([0, len(y)]), first=0)
    (weights,), (own,) = fit_heads(block, U, mean, intercept, local_intercept)
    return Head((0.0 if mean is None else mean) + U @ weights, intercept + own, weights)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_strength_is_hoerl_kennard_baldwin(local_intercept: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, U = rng.standard_normal((12, 5)), np.linalg.qr(rng.standard_normal((5, 2)))[0]
    mean, y = rng.standard_normal(5), rng.standard_normal(12)
    head = fit_head(X, y, U, mean, 0.7, local_intercept)
    A, r = X @ U, y - X @ mean - 0.7
    Ac, rc = (A - A.mean(axis=0), r - r.mean()) if local_intercept else (A, r)
    v = np.linalg.lstsq(Ac, rc, rcond=None)[0]
    strength = 2 * ((rc - Ac @ v) ** 2).sum() / (12 - 2 - local_intercept) / (v @ v)
    expected = Ridge(alpha=strength, fit_intercept=local_intercept).fit(A, r)
    np.testing.assert_allclose(head.weights, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(head.predict(X), expected.predict(A) + X @ mean + 0.7, atol=1e-10)


@pytest.mark.parametrize("local_intercept", [False, True])
@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_with_few_rows_the_strength_is_chosen_by_leaving_one_out(rows: int, local_intercept: bool) -> None:
    """The closed-form choice equals refitting without each row in turn."""
    rng = np.random.default_rng(rows)
    k = 5
    A, y = rng.standard_normal((rows, k)), rng.standard_normal(rows)
    Ac = A - A.mean(axis=0) if local_intercept else A
    candidates = STRENGTHS * (Ac**2).sum() / k
    best, chosen = np.inf, candidates[-1]
    for strength in candidates:
        error = 0.0
        for i in range(rows):
            kept = np.arange(rows) != i
            model = Ridge(alpha=strength, fit_intercept=local_intercept, solver="svd").fit(A[kept], y[kept])
            error += (y[i] - model.predict(A[i : i + 1])[0]) ** 2
        if error < best * (0.95 if best < np.inf else 1.0):
            best, chosen = error, strength
    expected = Ridge(alpha=chosen, fit_intercept=local_intercept, solver="svd").fit(A, y)
    head = fit_head(A, y, np.eye(k), None, 0.0, local_intercept)
    np.testing.assert_allclose(head.weights, expected.coef_, atol=1e-6)


def test_everybody_gets_a_finite_head() -> None:
    block = ragged_block(1, n_users=80, d=6, dtype=np.float32, high=9)
    heads, intercepts = fit_heads(block, np.eye(6)[:, :4], None, 0.0, True)
    assert heads.shape == (80, 4)
    assert np.isfinite(heads).all()
    assert np.isfinite(intercepts).all()


def test_one_row_and_no_signal() -> None:
    one = fit_head(np.array([[2.0, 0.0]]), np.array([4.0]), np.eye(2)[:, :1], None, 0.0, False)
    assert one.weights == pytest.approx([1.0])  # half of what would fit exactly
    nothing = fit_head(np.zeros((4, 2)), np.ones(4), np.eye(2)[:, :1], None, 0.0, True)
    assert nothing.weights == pytest.approx([0.0])
    assert nothing.intercept == pytest.approx(1.0)
    collinear = fit_head(np.ones((6, 3)), np.full(6, 3.0), np.eye(3)[:, :2], None, 0.0, False)
    np.testing.assert_allclose(collinear.predict(np.ones((1, 3))), [3.0], rtol=1e-6)
    assert "private" in repr(one)


def test_with_a_prior_people_with_few_rows_take_its_ridge_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((3, 3))
    A, y, prior = rng.standard_normal((2, 3)), rng.standard_normal(2), root @ root.T + 0.1 * np.eye(3)
    block = Block(A, y, np.array([0, 1, 2]), first=0)
    heads, _ = fit_heads(block, np.eye(3), None, 0.0, False, prior)
    for row, label, head in zip(A, y, heads, strict=True):
        np.testing.assert_allclose(head, np.linalg.solve(np.outer(row, row) + prior, row * label), atol=1e-9)


@pytest.mark.parametrize("rows", [5, 40])
def test_with_a_prior_others_mix_its_strength_with_their_own(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, y, prior = rng.standard_normal((rows, 2)), rng.standard_normal(rows), np.array([[0.3, 0.1], [0.1, 0.2]])
    v = np.linalg.lstsq(A, y, rcond=None)[0]
    own = 2 * ((y - A @ v) ** 2).sum() / (rows - 2) / (v @ prior @ v)
    strength = own ** ((rows - 2) / (rows + 2))
    heads, _ = fit_heads(Block(A, y, np.array([0, rows]), first=0), np.eye(2), None, 0.0, False, prior)
    np.testing.assert_allclose(heads[0], np.linalg.solve(A.T @ A + strength * prior, A.T @ y), atol=1e-9)


@pytest.mark.parametrize("local_intercept", [False, True])
@pytest.mark.parametrize("rows", [3, 12])
@pytest.mark.parametrize("power", [-1000, -540, 510, 1000])
def test_units_do_not_matter_even_at_the_ends_of_the_float_range(power: int, rows: int, local_intercept: bool) -> None:
    """By powers of two, which change no digit, and beyond where squares vanish (2^-538) or overflow (2^512)."""
    rng = np.random.default_rng(0)
    X, y, U = rng.standard_normal((rows, 4)), rng.standard_normal(rows), np.eye(4)[:, :3]
    usual = fit_head(X, y, U, None, 0.0, local_intercept)
    far = fit_head(np.ldexp(X, power), np.ldexp(y, power), U, None, 0.0, local_intercept)
    np.testing.assert_array_equal(far.weights, usual.weights)
    assert far.intercept == np.ldexp(usual.intercept, power)


def test_who_takes_no_part_has_a_head_of_her_own() -> None:
    """Blocks of those who take part leave out the others; the table of heads has everybody's in her own place."""
    users, _ = cg.datasets.make_shared_subspace(n_users=5, rows_per_user=6, n_features=4, rank=1, seed=0)
    board = cg.NonPrivateFedRep(1, max_iterations=2).fit(users).billboard_
    some = users.weighted(np.array([0.0, 1.0, 0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(HeadTable.fit(board, some).weights, HeadTable.fit(board, users).weights)
