"""What may be expected of everything that learns across owners, convex or deep."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.deep import JointTrainer
from commonground.deep.local import LocalSettings
from commonground.errors import BudgetError, InputError
from commonground.joint_board import SharedParameters
from commonground.ledger import InMemoryLedger

STEPS, FEATURES, N_OWNERS = 8, 3, 5


class Sum(nn.Module):
    """A shared and a personal linear layer, added."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.mine = nn.Linear(FEATURES, 2), nn.Linear(FEATURES, 2)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.shared(x) + self.mine(x)
        return out


COMMON: dict[str, Any] = {
    "epsilon": 4.0, "delta": 1e-4, "steps": STEPS, "sampling_probability": 0.5, "simulation_seed": 1,
}  # fmt: skip
LEARNERS: dict[str, Any] = {
    "JointSGDRegressor": cg.JointSGDRegressor(**COMMON),
    "JointSGDRegressor, users": cg.JointSGDRegressor(unit="user", **COMMON),
    "JointSGDRegressor, winsorised": cg.JointSGDRegressor(unit="user", aggregator="winsorised", **COMMON),
    "JointSGDRegressor, paper": cg.JointSGDRegressor(recipe="paper", **COMMON),
    "JointSGDClassifier": cg.JointSGDClassifier((0, 1), **COMMON),
    "JointTrainer": JointTrainer(Sum(), ["mine"], local=LocalSettings(personal_steps=5), **COMMON),
    "JointTrainer, users": JointTrainer(Sum(), ["mine"], unit="user", local=LocalSettings(personal_steps=5), **COMMON),
}
each = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


@pytest.fixture(scope="module")
def rows() -> dict[str, np.ndarray]:
    """Owners with text ids, users of four records, rows in random order."""
    rng = np.random.default_rng(0)
    owner = rng.integers(0, N_OWNERS, 200)
    X = rng.standard_normal((200, FEATURES)).astype(np.float32)
    y = (X @ rng.standard_normal(FEATURES) + 0.3 * owner > 0).astype(np.int64)
    return {"X": X, "y": y, "owners": np.array([f"owner-{j}" for j in owner]), "users": np.arange(200) // 4}


def fit(learner: Any, rows: dict[str, np.ndarray], ledger: Any = None) -> Any:
    return clone(learner).fit(**rows, ledger=ledger)


@each
def test_init_only_stores(learner: Any) -> None:
    twin = clone(learner)
    assert twin.get_params().keys() == learner.get_params().keys()
    assert [name for name in vars(twin) if name.endswith("_")] == []
    with pytest.raises(NotFittedError):
        twin.predict(np.zeros((1, FEATURES)))


@each
def test_fitting_twice_is_fitting_once(learner: Any, rows: dict[str, np.ndarray]) -> None:
    model = clone(learner)
    some = {name: values[:100] for name, values in rows.items()}
    assert model.fit(**some) is model
    model.fit(**rows)
    again = fit(learner, rows)
    for name, array in again.billboard_.arrays.items():
        np.testing.assert_array_equal(model.billboard_.arrays[name], array)
    np.testing.assert_array_equal(model.predict(rows["X"], rows["owners"]), again.predict(rows["X"], rows["owners"]))


@each
def test_strangers_get_the_shared_answer(learner: Any, rows: dict[str, np.ndarray]) -> None:
    model = fit(learner, rows)
    shared, X = model.predict(rows["X"]), rows["X"]
    np.testing.assert_array_equal(model.predict(X, ["nobody"] * 200), shared)
    mixed = model.predict(X, np.where(np.arange(200) < 100, "nobody", rows["owners"]))
    np.testing.assert_allclose(mixed[:100], shared[:100])
    np.testing.assert_allclose(mixed[100:], model.predict(X, rows["owners"])[100:], rtol=1e-6)


@each
def test_save_load_and_what_is_spent(learner: Any, rows: dict[str, np.ndarray], tmp_path: Path) -> None:
    book = InMemoryLedger(Budget(4.0, 1e-4))
    board = fit(learner, rows, book).billboard_
    statement = board.statement
    assert book.events == statement.events
    assert 0.9 * 4.0 < statement.epsilon_spent <= statement.epsilon == 4.0
    assert statement.relation == "add-or-remove-one"
    assert statement.unit == ("owner" if getattr(learner, "recipe", "") == "paper" else learner.unit)
    users = len(set(zip(rows["owners"], rows["users"], strict=True)))  # the same name at two owners is two users
    assert statement.n_owners == N_OWNERS
    assert statement.n_units == {"owner": N_OWNERS, "record": 200, "user": users}[statement.unit]
    assert str(statement).startswith("SIMULATED")
    again = SharedParameters.load(board.save(tmp_path / "board"))
    assert again.statement == statement
    assert again.fingerprint == board.fingerprint


@each
def test_an_exhausted_ledger_stops_it(learner: Any, rows: dict[str, np.ndarray]) -> None:
    with pytest.raises(BudgetError):
        fit(learner, rows, InMemoryLedger(Budget(0.5, 1e-4)))


@each
def test_bad_input(learner: Any, rows: dict[str, np.ndarray]) -> None:
    model = fit(learner, rows)
    for bad in (
        {"owners": rows["owners"][:-1]}, {"y": rows["y"][:-1]}, {"X": np.where(rows["X"] > 2, np.nan, rows["X"])},
        {"X": rows["X"][:0], "y": rows["y"][:0], "owners": rows["owners"][:0], "users": rows["users"][:0]},
    ):  # fmt: skip
        with pytest.raises(InputError):
            fit(learner, {**rows, **bad})
    with pytest.raises(InputError):
        model.predict(rows["X"], owners=rows["owners"][:5])
    for impossible in (
        {"epsilon": 0.0},
        {"delta": 1.0},
        {"steps": 0},
        {"sampling_probability": 0.0},
        {"clip_norm": np.nan},
    ):
        with pytest.raises(InputError):
            fit(clone(learner).set_params(**impossible), rows)
