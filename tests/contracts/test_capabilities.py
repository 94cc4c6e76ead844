"""The table of what each estimator can be given is true: what it says works, and what it does not say is refused."""

import importlib.util
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import commonground as cg
from commonground.accounting.budgets import Budget, PureBudget
from commonground.audit.gates import Recorder, StepRecorder
from commonground.data.population import Population
from commonground.errors import BudgetError, InputError
from commonground.estimators.capabilities import CAPABILITIES, Capabilities
from commonground.ledger import InMemoryLedger

N, D = 60, 5
SEEDED: dict[str, Any] = {"simulation_seed": 1}
ESTIMATORS: dict[str, Any] = {
    "PrivateFedRep": cg.PrivateFedRep(1, 4.0, n_rounds=1, **SEEDED),
    "PrivateFedRep, rank='auto'": cg.PrivateFedRep("auto", 4.0, n_rounds=1, **SEEDED),
    "PrivateFedRep, recipe='paper'": cg.PrivateFedRep(1, 4.0, recipe="paper", **SEEDED),
    "PrivateFedRepClassifier, several classes": cg.PrivateFedRepClassifier(
        epsilon=4.0, classes=(0, 1, 2), n_rounds=1, **SEEDED
    ),
    "PrivateAltMin": cg.PrivateAltMin(1, 4.0, n_rounds=1, **SEEDED),
    "PrivateAltMin, recipe='paper'": cg.PrivateAltMin(1, 4.0, recipe="paper", **SEEDED),
    "SingleModel": cg.SingleModel(4.0, **SEEDED),
    "ExponentialSubspace": cg.ExponentialSubspace(1, 4.0, n_candidates=8, **SEEDED),
    "PrivateMarginClassifier": cg.PrivateMarginClassifier(1, 4.0, n_candidates=8, **SEEDED),
    "PersonalBudgetRidge": cg.PersonalBudgetRidge(
        "statistics", budgets=4.0, feature_bounds=(-5.0, 5.0), label_bounds=(-5.0, 5.0), **SEEDED
    ),
    "OwnDataOnly": cg.OwnDataOnly(),
    "NonPrivateFedRep": cg.NonPrivateFedRep(1, max_iterations=2),
}
each = pytest.mark.parametrize("name", ESTIMATORS)


def rows(name: str = "") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10 * N, D))
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float) if "several" in name else np.where(X[:, 0] > 0, 1.0, -1.0)
    return X, y, np.repeat(np.arange(N), 10)


class WithSomebodyElse(Population):
    """Rows that give sums only, as with Ray's workers."""

    kind = "ray"

    def __init__(self, users: cg.Users) -> None:
        self._users, self.n_users, self.n_features = users, users.n_users, users.n_features

    @property
    def ids(self) -> np.ndarray:
        raise AssertionError("ids are elsewhere")

    def blocks(self, max_bytes: int | None = None) -> Any:
        raise AssertionError("rows are elsewhere")

    def _sum(self, statistic: Any) -> Any:
        return (self._users if self._weights is None else self._users.weighted(self._weights)).sum(statistic)


def holds(name: str, column: str, fit: Any) -> None:
    if getattr(CAPABILITIES[name], column):
        fit()
    else:
        with pytest.raises((InputError, BudgetError), match=r"has no version for|declares no budget"):
            fit()


def test_every_line_is_tried() -> None:
    assert set(CAPABILITIES) - set(ESTIMATORS) == {"PrivateFedRep, device='cuda'"}  # tests/engines/test_device.py
    for name, estimator in ESTIMATORS.items():
        assert estimator._variant == name


@pytest.mark.filterwarnings("ignore")
class TestWhatTheTableSays:
    @each
    def test_sparse(self, name: str) -> None:
        X, y, ids = rows(name)
        holds(name, "sparse", lambda: clone(ESTIMATORS[name]).fit(sparse.csr_array(X), y, users=ids))

    @each
    def test_budgets(self, name: str) -> None:
        X, y, ids = rows(name)
        users = cg.Users.from_arrays(X, y, ids)
        users.budgets = np.linspace(1.0, 4.0, N)
        model = clone(ESTIMATORS[name])
        if name == "PersonalBudgetRidge":
            model.set_params(budgets=None)
        holds(name, "budgets", lambda: model.fit(users))

    @each
    def test_ray(self, name: str) -> None:
        X, y, ids = rows(name)
        holds(name, "ray", lambda: clone(ESTIMATORS[name]).fit(WithSomebodyElse(cg.Users.from_arrays(X, y, ids))))

    @each
    def test_federation(self, name: str) -> None:
        pytest.importorskip("flwr")
        from commonground.federated.federation import Federation
        from federation_in_process import InProcess, nodes_of

        X, y, ids = rows(name)
        people = Federation(InProcess(nodes_of(cg.Users.from_arrays(X, y, ids), 2)))
        holds(name, "federation", lambda: clone(ESTIMATORS[name]).fit(people))

    @each
    def test_start(self, name: str) -> None:
        X, y, ids = rows(name)
        board = clone(ESTIMATORS["PrivateFedRep"]).fit(*rows()[:2], users=ids).billboard_
        holds(name, "start", lambda: clone(ESTIMATORS[name]).fit(X, y, users=ids, start=board))

    @each
    def test_ledger(self, name: str) -> None:
        X, y, ids = rows(name)
        model = clone(ESTIMATORS[name])
        pure = name in ("ExponentialSubspace", "PrivateMarginClassifier")
        book = InMemoryLedger(PureBudget(4.0) if pure else Budget(4.0, 1e-6))
        holds(name, "ledger", lambda: model.fit(X, y, users=ids, ledger=book))
        assert bool(book.events) == CAPABILITIES[name].ledger

    @each
    def test_evaluation(self, name: str) -> None:
        X, y, ids = rows(name)
        model = clone(ESTIMATORS[name]).fit(X, y, users=ids)
        holds(name, "evaluation", lambda: model.evaluate(X, y, users=ids, internal=True))


def test_a_refusal_says_who_can() -> None:
    X, y, ids = rows()
    with pytest.raises(
        InputError,
        match=r"SingleModel has no version for sparse rows, which PrivateFedRep, NonPrivateFedRep can be given",
    ):
        cg.SingleModel().fit(sparse.csr_array(X), y, users=ids)


def test_a_class_made_from_another_can_do_no_more() -> None:
    """Whatever its name, and however it passes its parameters on."""

    class Pooled(cg.OwnDataOnly):
        pass

    class Ours(cg.PrivateFedRep):
        def __init__(self, epsilon: float = 4.0) -> None:
            super().__init__(1, epsilon, recipe="paper", budgets=np.linspace(1.0, 4.0, N))

    X, y, ids = rows()
    users = cg.Users.from_arrays(X, y, ids)
    with pytest.raises(BudgetError, match="declares no budget"):
        Pooled("pooled").fit(users, ledger=InMemoryLedger(Budget(1.0, 1e-6)))
    with pytest.raises(InputError, match="no version for personal budgets"):
        Ours().fit(users)


@pytest.mark.parametrize("name", [name for name, one in ESTIMATORS.items() if "recipe" in one.get_params()])
def test_a_recipe_that_there_is_not_is_refused_before_anything_is_charged(name: str) -> None:
    """In one place for all of them; else it would silently be another recipe than was asked for."""
    X, y, ids = rows()
    model = clone(ESTIMATORS[name]).set_params(recipe="papers", simulation_seed=None)
    book = InMemoryLedger(Budget(4.0, 1e-6))
    with pytest.raises(
        InputError, match=f"recipe of {type(model).__name__} must be 'default' or 'paper', got 'papers'"
    ):
        model.fit(X, y, users=ids, ledger=book)
    assert not book.events


@pytest.mark.filterwarnings("ignore")
def test_a_gate_that_watches_is_not_for_publication() -> None:
    """It has seen what is behind the noise: its board says so, and no ledger vouches for it."""
    X, y, ids = rows()
    model, watch = cg.SingleModel(4.0), Recorder()
    board = model.fit(X, y, users=ids, gate=watch.gate).billboard_
    assert watch.passages
    assert board.statement.simulated
    assert "NOT PRIVATE" in str(board.statement)
    assert not model.fit(X, y, users=ids).billboard_.statement.simulated
    with pytest.raises(InputError, match="gate= is for audits"):
        model.fit(X, y, users=ids, gate=watch.gate, ledger=InMemoryLedger(Budget(4.0, 1e-6)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", ["convex", "deep"])
def test_releases_that_somebody_watches_are_not_for_publication(learner: str) -> None:
    """The same of learning across owners, whose gate is ``SampledReleases``."""
    X, y, owners = np.eye(6, dtype=np.float32), np.arange(6) % 2, np.arange(6) % 2
    model: Any = cg.JointSGDRegressor(4.0, 1e-3, steps=2)
    if learner == "deep":
        torch = pytest.importorskip("torch")
        from commonground.deep import JointTrainer

        model = JointTrainer(torch.nn.Linear(6, 2), [], 4.0, 1e-3, steps=2, keep=("shared",))
    watch = StepRecorder()
    statement = model.fit(X, y, owners, gate=watch.gate).billboard_.statement
    assert len(watch.sums) == 2
    assert statement.simulated
    assert "NOT PRIVATE" in str(statement)
    assert not model.fit(X, y, owners).billboard_.statement.simulated
    with pytest.raises(InputError, match="gate= is for audits"):
        model.fit(X, y, owners, gate=watch.gate, ledger=InMemoryLedger(Budget(4.0, 1e-3)))


def test_the_table_in_the_documentation_is_this_one() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "capabilities.py"
    spec = importlib.util.spec_from_file_location("capabilities_page", script)
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = page
    spec.loader.exec_module(page)
    assert page.PAGE.read_text(encoding="utf-8") == page.written(), "run benchmarks/capabilities.py"
    assert all(field.name in page.HEADINGS for field in fields(Capabilities))
