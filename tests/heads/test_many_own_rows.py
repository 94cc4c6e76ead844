"""Who has many rows keeps a model of her own where the shared directions are not hers, and seldom where they are."""

import numpy as np
import pytest

import commonground as cg
from commonground.heads.files import Heads

pytestmark = pytest.mark.filterwarnings(
    "ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning"
)


def people(n: int, m: int, d: int, kind: str, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parts of one's own in two shared directions, or in all."""
    rng = np.random.default_rng(seed)
    U, mean = np.linalg.qr(rng.standard_normal((d, 2)))[0], rng.standard_normal(d) / d**0.5
    own = rng.standard_normal((n, 2)) @ U.T if kind == "shared" else 0.5 * rng.standard_normal((n, d))
    ids = np.repeat(np.arange(n), m)
    X, levels = rng.standard_normal((n * m, d)), 0.5 * rng.standard_normal(n)
    return X, (X * (mean + own)[ids]).sum(axis=1) + levels[ids] + noise * rng.standard_normal(n * m), ids


@pytest.mark.parametrize(
    ("m", "d", "kind", "noise", "least", "most"),
    [
        (14, 6, "shared", 1.0, 0.0, 0.01),
        (40, 12, "shared", 1.0, 0.0, 0.015),
        (40, 12, "shared", 3.0, 0.0, 0.02),
        (40, 12, "own", 1.0, 0.8, 1.0),
        (88, 27, "own", 3.0, 0.5, 1.0),
    ],
)
def test_how_many_leave_their_heads(m: int, d: int, kind: str, noise: float, least: float, most: float) -> None:
    """1,000 people, ε = 4, rank 2, one seed: 0, 0.5, 0.5, 93 and 59 % leave.

    Were all of them held to 1 + 8/√rows: 0, 0, 0, 54 and 3 %; all to 1 + 2/√rows: 5.7 % of the first.
    """
    X, y, ids = people(1000, m, d, kind, noise, 0)
    users = cg.Users.from_arrays(X, y, ids)
    board = cg.PrivateFedRep(2, 4.0, keep_heads=False, simulation_seed=0).fit(users).billboard_
    assert board.statement.sharing_pays
    left = float((Heads.fit(board, users).table.weights == 0).all(axis=1).mean())
    assert least <= left <= most


@pytest.mark.parametrize(("own", "most"), [(True, 0.95), (False, 1.01)])
def test_own_rows_are_a_fair_rival_of_a_head(own: bool, most: float) -> None:
    """139 schools of 88 rows, ε = 4, rank 1, where the board says that sharing pays; against heads alone. One seed.

    RMSE with coefficients of one's own in all 27 directions: 3.50, by heads 3.97; with none: 3.080 and 3.075.
    """
    rng = np.random.default_rng(0)
    n, d = 139, 27
    theta = rng.standard_normal(d) / d**0.5 + 0.5 * own * rng.standard_normal((n, d))

    def rows(of_each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ids = np.repeat(np.arange(n), of_each)
        X = rng.standard_normal((len(ids), d))
        return X, (X * theta[ids]).sum(axis=1) + 3.0 * rng.standard_normal(len(ids)), ids

    X, y, ids = rows(88)
    new_X, new_y, new_ids = rows(20)
    errors = []
    for choice in (True, False):
        model = cg.PrivateFedRep(1, 4.0, local_choice=choice, simulation_seed=0).fit(X, y, users=ids)
        errors.append(float(np.sqrt(np.mean((model.predict(new_X, users=new_ids) - new_y) ** 2))))
    assert errors[0] < most * errors[1]
