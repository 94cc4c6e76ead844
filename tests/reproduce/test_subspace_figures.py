"""P1 Figure 2 and P2 Figure 1 in small: curves, claims that can fail, and the start that is no statistic."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from commonground import datasets
from commonground.estimators.own_data import OwnDataOnly
from commonground.reproduce import p1, p2
from commonground.reproduce.subspace import drawing, error, errors_of, fitted, rows_of


@pytest.mark.parametrize("paper", [p1, p2])
def test_all_curves_on_few_people(paper) -> None:  # type: ignore[no-untyped-def]
    curves = [curve for curve in paper.CURVES if curve.label != p1.BEST_EPOCHS]
    errors = errors_of(curves, n_users=300, epsilons=(1.0, 5.0), n_seeds=2, show=False)
    assert all(values.shape == (2,) and np.isfinite(values).all() for values in errors.values())
    rows = rows_of(curves, errors, {})
    flat = sum(curve.flat for curve in curves)
    assert len(rows) == flat + 2 * (len(curves) - flat)
    assert len({tuple(row.setting.values()) for row in rows}) == len(rows)
    figure = Figure()
    drawing(curves, errors, (1.0, 5.0), "title")(figure)
    assert len(figure.axes[0].lines) == len(curves)


def test_errors_are_those_of_fresh_rows() -> None:
    users, truth = datasets.make_shared_subspace(200, 30, 5, seed=0)
    mse = fitted(lambda epsilon, seed: OwnDataOnly(fit_intercept=False))(users, truth, 1.0, 0)
    assert mse == pytest.approx(truth.noise**2 * (1 + 5 / 25), rel=0.1)  # 30 rows for 5 unknowns
    assert error(truth.heads @ truth.embedding.T, truth) == truth.noise**2


def made_up(paper, **changed: float) -> dict[tuple[str, float], np.ndarray]:  # type: ignore[no-untyped-def]
    values = {
        p1.RANDOM: 4.0, p1.OWN: 1.7, p1.SINGLE: 2.0, p1.PAPER: 1e-4, p1.PRINTED_RHO: 1e-4, p1.ALTMIN: 1e-4, p1.NON_PRIVATE: 1e-4,
        p2.LOCAL: 1.7, p2.FEDREP_PAPER: 1e-4, p2.ALTMIN_PAPER: 2e-4, p2.FEDREP: 1e-4, p2.NON_PRIVATE: 1e-4,
        p2.FEDREP_PRINTED: 1.0, p2.FEDREP_UNIT: 0.05,
    }  # fmt: skip
    values |= {getattr(paper, name): value for name, value in changed.items()}
    return {(label, epsilon): np.array([value]) for label, value in values.items() for epsilon in (1.0, 5.0)}


def test_claims_of_p1_hold_and_fail_with_the_numbers() -> None:
    def holds(**changed: float) -> list[bool]:
        return [claim.holds for claim in p1._claims(made_up(p1, **changed), (1.0, 5.0))]

    assert holds() == [True] * 6
    for position, changed in enumerate(
        ({"RANDOM": 2.0}, {"SINGLE": 0.5}, *({"PRINTED_RHO": mse} for mse in (0.3, 0.2, 0.05)), {"ALTMIN": 0.05})
    ):
        assert not holds(**changed)[position]


def test_claims_of_p2_hold_and_fail_with_the_numbers() -> None:
    def holds(**changed: float) -> list[bool]:
        return [claim.holds for claim in p2._claims(made_up(p2, **changed), (1.0, 5.0))]

    assert holds() == [True] * 5
    for position, changed in enumerate(
        (
            {"FEDREP_PAPER": 3.0},
            {"FEDREP_PAPER": 3e-4},
            {"FEDREP_PRINTED": 4.0},
            {"FEDREP_UNIT": 0.6},
            {"FEDREP": 1.1e-4},
        )
    ):
        assert not holds(**changed)[position]


def test_the_figure_spends_the_printed_rho() -> None:
    """Algorithms 2 and 3 with Theorem 4.2's noise spend less than half of it."""
    spent = {
        (label, row.setting["epsilon"]): row.ours / row.printed
        for row in p1._spent_rows()
        for label in ("Algorithms", "printed ρ")
        if label in str(row.setting["curve"]) and row.printed
    }
    assert all(0.39 < spent["Algorithms", epsilon] < 0.46 for epsilon in (1.0, 2.0, 5.0, 10.0))
    assert all(0.9 < spent["printed ρ", epsilon] < 1.03 for epsilon in (1.0, 2.0, 5.0, 10.0))


def test_people_like_the_published_scripts() -> None:
    """Heads of norm one; rows and label noise as they were."""
    users, truth = datasets.make_shared_subspace(50, (2, 5), 6, noise=0.1, seed=0)
    people, known = p2.with_heads_of_norm_one(users, truth)
    np.testing.assert_allclose(np.linalg.norm(known.heads, axis=1), 1.0)
    for user in (0, 17):
        (X, y), (same_X, before) = people.rows_of(user), users.rows_of(user)
        np.testing.assert_array_equal(X, same_X)
        noise = before - X @ truth.embedding @ truth.heads[user]
        np.testing.assert_allclose(y - X @ known.embedding @ known.heads[user], noise, atol=1e-5)


def test_printed_zcdp_values_are_those_of_the_recovered_formula() -> None:
    judged = [row for row in p1._zcdp_rows() if row.printed is not None]
    assert [row.verdict for row in judged] == ["agrees"] * 4
    allowed = {row.setting["epsilon"]: row.ours for row in p1._zcdp_rows() if row.printed is None}
    assert all(row.ours < allowed[row.setting["epsilon"]] for row in judged), "the printed pairing is conservative"


def test_the_published_scripts_two_sums_are_one() -> None:
    """Both run over i = l alone: in double precision their difference is nothing beside either."""
    users, _ = datasets.make_shared_subspace(500, n_features=6, seed=0)
    (block,) = users.blocks()
    products = block.y[:, None].astype(float) * block.X
    squares = ((block.y.astype(float) ** 2)[:, None] * block.X).T @ block.X.astype(float)
    assert np.abs(products.T @ products - squares).max() < 1e-9 * np.abs(squares).max()


def test_the_published_start_decomposes_rounding_error() -> None:
    users, truth = datasets.make_shared_subspace(2000, seed=0)
    start = p2.published_start(users, 2)
    np.testing.assert_allclose(start.T @ start, np.eye(2), atol=1e-9)
    aligned = np.linalg.norm(start.T @ truth.embedding) ** 2 / 2  # 2/50 for directions at random
    assert aligned < 0.3
