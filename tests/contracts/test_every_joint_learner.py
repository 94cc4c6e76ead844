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
from commonground.billboard.joint import SharedParameters
from commonground.deep import JointTrainer
from commonground.deep.local import LocalSettings
from commonground.errors import BudgetError, InputError
from commonground.ledger import InMemoryLedger
from commonground.reproduce.p4_baselines import per_silo

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


@each
def test_a_durable_ledger_is_charged_for_every_training(
    learner: Any, rows: dict[str, np.ndarray], tmp_path: Path
) -> None:
    people = cg.ledger.DurableLedger(tmp_path / "b.db", create=True).open_population("p", Budget(20.0, 1e-4))
    model = clone(learner).set_params(simulation_seed=None)
    for fits in (1, 2):
        statement = model.fit(**rows, ledger=people).billboard_.statement
        assert people.account().charged_rounds == fits * STEPS
    assert people.account().epsilon_of_rounds(STEPS) == statement.epsilon_spent


def others(model: Any, rows: dict[str, np.ndarray], owner: str) -> dict[str, bytes]:
    """What all owners but one have and are answered, byte by byte."""
    mine, asked = model.owner_ids_ == owner, rows["owners"] != owner
    ask = {"X": rows["X"], "owners": rows["owners"]}
    found = {"answers": model.predict(**ask)[asked].tobytes()}
    if isinstance(model, JointTrainer):
        models = model.owners_models_
        found["choice"] = models.choice[~mine].tobytes()
        found["outputs"] = model.decision_function(**ask)[asked].tobytes()
        for name, candidate in models.candidates.items():
            for p, values in candidate.items():
                found[f"{name} {p}"] = values.numpy()[~mine].tobytes()
    else:
        found["personal"] = model._of_owners[~mine].tobytes()
        found["scores"] = model._scores(**ask)[asked].tobytes()
    return found


ALONE = per_silo(LEARNERS["JointTrainer"])


@pytest.mark.parametrize(
    "learner",
    [*LEARNERS.values(), pytest.param(ALONE, marks=pytest.mark.slow)],
    ids=[*LEARNERS, "JointTrainer, per silo"],
)
def test_others_keep_every_bit_whatever_one_owner_holds(
    learner: Any, rows: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same releases, one owner's rows change in number and size: the billboard and all that others have stay."""
    from commonground.gate import SampledReleases

    units = []

    def sample(self: SampledReleases, n_units: int) -> np.ndarray:
        units[:] = [n_units]
        return np.arange(n_units)

    def release(self: SampledReleases, _: Any) -> np.ndarray:
        """In sixteenths, times the public number of units by which it will be divided: exact."""
        self.remaining -= 1
        draws = np.random.default_rng(self.remaining).standard_normal(self.event.entries)
        return np.rint(16 * draws) / 16 * (1 if self.event.unit == "owner" else units[0])

    monkeypatch.setattr(SampledReleases, "sample", sample)
    monkeypatch.setattr(SampledReleases, "release", release)
    mine, kept = (np.flatnonzero((rows["owners"] == "owner-0") == is_mine) for is_mine in (True, False))
    neighbours = {
        "as it is": (mine, 1.0), "one row": (mine[:1], 1.0), "16 rows": (mine[:16], 1.0), "more rows": (np.tile(mine, 3), 1.0),
        "huge": (mine, 1e30), "subnormal": (mine, 1e-40),
    }  # fmt: skip
    first: dict[str, bytes] = {}
    for name, (take, scale) in neighbours.items():
        changed = {column: values[np.concatenate([take, kept])] for column, values in rows.items()}
        changed["X"][: len(take)] *= np.float32(scale)
        model = clone(learner).set_params(learning_rate=0.01).fit(**changed)
        found = others(model, changed, "owner-0")
        found |= {f"published {array}": values.tobytes() for array, values in model.billboard_.arrays.items()}
        assert learner is ALONE or any(np.any(values) for values in model.billboard_.arrays.values())
        first = first or found
        assert {part for part in found if found[part] != first[part]} == set(), name


@each
@pytest.mark.parametrize("size", [5e-324, 1e-170, 1e-38, 1e30, 1e160, 1e300])
def test_no_finite_rows_stop_a_fit_that_is_paid_for(learner: Any, rows: dict[str, np.ndarray], size: float) -> None:
    """Refused before anything is charged (32-bit networks cannot hold it), or fitted to the end."""
    book = InMemoryLedger(Budget(4.0, 1e-4))
    X = rows["X"].astype(np.float64)
    X[rows["owners"] == "owner-1"] *= size
    y = rows["y"].astype(np.float64 if type(learner).__name__ == "JointSGDRegressor" else np.int64)
    if y.dtype == np.float64:
        y[rows["owners"] == "owner-1"] *= size
    try:
        model = fit(learner, {**rows, "X": X, "y": y}, book)
    except InputError:
        assert isinstance(learner, JointTrainer)
        assert book.events == ()
    else:
        assert all(np.isfinite(array).all() for array in model.billboard_.arrays.values())
        elsewhere = rows["owners"] != "owner-1"
        assert np.isfinite(model.predict(X, rows["owners"])[elsewhere]).all()
