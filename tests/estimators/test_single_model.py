"""One model for everybody, with and without own levels."""

import numpy as np
import pytest

import commonground as cg
from commonground.errors import InputError

N_PEOPLE, ROWS, D = 400, 6, 4


def people_with_levels(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    ids, X = np.repeat(np.arange(N_PEOPLE), ROWS), rng.standard_normal((N_PEOPLE * ROWS, D))
    levels = 2.0 * rng.standard_normal(N_PEOPLE)
    return X, X @ np.array([1.0, -1.0, 0.5, 0.0]) + 5.0 + levels[ids] + rng.standard_normal(len(ids)), ids


def test_own_levels_halve_the_error_where_people_differ_by_them() -> None:
    X, y, ids = people_with_levels()
    last = np.arange(len(ids)) % ROWS == ROWS - 1
    errors = []
    for own in (False, True):
        model = cg.SingleModel(4.0, own_intercept=own, simulation_seed=1).fit(X[~last], y[~last], users=ids[~last])
        errors.append(float(np.mean((model.predict(X[last], users=ids[last]) - y[last]) ** 2)))
    assert errors[1] < 0.4 * errors[0]  # 1.2 of noise and doubt, against 5


def test_with_own_levels_it_is_the_recipe_of_rank_zero() -> None:
    X, y, ids = people_with_levels()
    model, other = (
        cg.SingleModel(2.0, own_intercept=True, simulation_seed=3),
        cg.PrivateFedRep(0, 2.0, simulation_seed=3),
    )
    board, same = (one.fit(X, y, users=ids).billboard_ for one in (model, other))
    assert board.statement.events == same.statement.events
    assert (board.mean == same.mean).all()  # type: ignore[union-attr]
    assert (board.intercept, board.noise, float(board.spread[0, 0])) == (  # type: ignore[index]
        same.intercept, same.noise, float(same.spread[0, 0]),  # type: ignore[index]
    )  # fmt: skip


def test_own_levels_need_a_shared_one() -> None:
    with pytest.raises(InputError, match="needs fit_intercept=True"):
        cg.SingleModel(own_intercept=True, fit_intercept=False).fit(
            *people_with_levels()[:2], users=people_with_levels()[2]
        )
