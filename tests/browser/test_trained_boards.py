"""Boards as training makes them, in the page: the default of each kind that people train."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards_for_people import Case, csv
from test_page_in_browser import compare, page_for

import commonground as cg
from commonground.data.items import one_hot


def dense() -> Case:
    users, _ = cg.datasets.make_shared_subspace(n_users=2_000, n_features=10, rank=2, seed=0)
    return _of(cg.PrivateFedRep(rank=2, epsilon=1.0, delta=1e-6, simulation_seed=1).fit(users).billboard_, users)


def one_model() -> Case:
    users, _ = cg.datasets.make_shared_subspace(n_users=500, n_features=5, rank=1, seed=0)
    return _of(cg.SingleModel(epsilon=1.0, delta=1e-6, simulation_seed=1).fit(users).billboard_, users)


def yes_or_no() -> Case:
    users, _ = cg.datasets.make_shared_subspace(n_users=1_000, n_features=6, rank=1, seed=0)
    X, y = (np.concatenate(parts) for parts in zip(*(users.rows_of(person) for person in range(1_000)), strict=True))
    people = cg.Users.from_arrays(X, (y > 0).astype(float), np.repeat(np.arange(1_000), 10))
    return _of(
        cg.PrivateAltMin(1, epsilon=4.0, delta=1e-6, loss="logistic", simulation_seed=1).fit(people).billboard_, people
    )


def films() -> Case:
    draw, names = np.random.default_rng(0), [f"film {at}" for at in range(60)]
    who, which = np.repeat(np.arange(2_000), 12), draw.integers(0, 60, 24_000)
    taste = draw.standard_normal((2_000, 2))[who] * draw.standard_normal((60, 2))[which]
    y = 3.0 + taste.sum(axis=1) + 0.3 * draw.standard_normal(24_000)
    people = cg.Users.from_arrays(one_hot([names[at] for at in which], names), y, who, feature_names=names)
    board = cg.PrivateFedRep(rank=2, epsilon=2.0, delta=1e-6, simulation_seed=1).fit(people).billboard_
    mine = which[:12].tolist()
    rows = csv(("film", "y"), [(names[at], label) for at, label in zip(mine, y[:12], strict=True)])
    asked = csv(("film",), [(name,) for name in names])
    return Case(board, rows, asked, one_hot([names[at] for at in mine], names), y[:12], one_hot(names, names), "film")


def _of(board: Any, users: Any) -> Case:
    X, y = users.rows_of(3)
    Z, _ = users.rows_of(4)
    names = tuple(f"feature {at}" for at in range(board.n_features))
    return Case(
        board, csv((*names, "y"), np.column_stack([X, y])), csv(names, Z), np.asarray(X, float), y, np.asarray(Z, float)
    )


@pytest.mark.slow
@pytest.mark.parametrize("made", [dense, one_model, yes_or_no, films])
def test_a_trained_board_gives_the_same_model(made: Any, opened: Any, measured: dict[str, Any], tmp_path: Path) -> None:
    case = made()
    page = opened(page_for(case, tmp_path))
    page.fill("#rows", case.rows)
    measured[f"trained, {made.__name__}"] = {**compare(case, page), "heads": case.board.head_kind.name}
