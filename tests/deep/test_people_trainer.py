"""PeopleTrainer: what one person can move, what is charged, how it goes on after a crash, what is published and what is not."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting.pld import PLDAccountant
from safetensors.numpy import load_file
from torch import nn

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.billboard.joint import SharedParameters
from commonground.deep import JointTrainer, PeopleTrainer, people
from commonground.deep.own_heads import RIDGES, outputs_of, own_head
from commonground.deep.profiled import WithSharedHead
from commonground.errors import BillboardError, BudgetError, InputError, PrivacyWarning
from commonground.gate import SampledReleases
from commonground.ledger import InMemoryLedger

QUICK: dict[str, Any] = {"delta": 1e-4, "steps": 8, "sampling_probability": 0.3, "simulation_seed": 1}
N, ROWS, D = 60, 9, 4


def body(seed: int = 0, features: int = 3) -> nn.Module:
    draws = torch.Generator().manual_seed(seed)
    network = nn.Sequential(nn.Linear(D, 12), nn.Tanh(), nn.Linear(12, features))
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5, generator=draws)
    return network


def population(n: int = N, rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = v_j · tanh(x·a): a bent map that all share, and a factor of one's own whose mean is zero."""
    rng = np.random.default_rng(seed)
    X, users = rng.standard_normal((n * rows, D)).astype(np.float32), np.repeat(np.arange(n), rows)
    return X, np.tanh(2 * X[:, 0] - X[:, 1]) * rng.standard_normal(n)[users], users


def fitted(changes: dict[str, Any] | None = None, **fit: Any) -> PeopleTrainer:
    X, y, users = population()
    return PeopleTrainer(body(), **{"epsilon": 2.0, **QUICK, **(changes or {})}).fit(X, y, users, **fit)


def test_it_learns_a_map_that_no_shared_answer_can_use() -> None:
    """Mean factor zero: one model for all explains nothing, heads on the public start little. One seed, but a wide margin:
    R² is 0.99, 0.00 and 0.17 to 0.25 over four.
    """
    X, y, users = population(n=300, rows=16)
    train = np.arange(len(y)) % 16 < 8
    model = PeopleTrainer(body(), 8.0, 1e-5, steps=100, simulation_seed=0).fit(X[train], y[train], users[train])
    assert model.score(X[~train], y[~train], users[~train]) > 0.9
    assert model.score(X[~train], y[~train]) < 0.1, "the shared head alone"
    public = {f"body.{name}": p.detach().numpy() for name, p in body().named_parameters()}
    nothing = {name: 0 * array for name, array in model.billboard_.arrays.items()}
    untrained = PeopleTrainer.from_board(replace(model.billboard_, arrays={**nothing, **public}), body())
    assert untrained.fit_people(X[train], y[train], users[train]).score(X[~train], y[~train], users[~train]) < 0.5


def test_classes_are_predicted_by_their_names() -> None:
    X, y, users = population()
    labels = np.where(y > 0, "up", "down")
    model = PeopleTrainer(body(), 8.0, classes=("down", "up"), **QUICK).fit(X, labels, users)
    assert set(model.predict(X, users)) <= {"down", "up"}
    assert model.score(X, labels, users) > 0.7
    with pytest.raises(InputError, match="not among classes"):
        PeopleTrainer(body(), 8.0, classes=("up",), **QUICK).fit(X, labels, users)


def test_without_own_heads_it_is_joint_training_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit case: with an infinite ridge each sum is that of JointTrainer on the same network, drawn alike."""
    X, y, users = population()
    sums: list[np.ndarray] = []
    release = SampledReleases.release
    monkeypatch.setattr(
        SampledReleases, "release", lambda self, s: (sums.append(np.array(s.value)), release(self, s))[1]
    )
    one = PeopleTrainer(body(), 2.0, ridge=math.inf, learning_rate=0.5, **QUICK).fit(X, y, users)
    own, sums[:] = list(sums), []
    network = nn.Sequential(body(), nn.Linear(3, 1))
    nn.init.zeros_(network[1].weight)
    nn.init.zeros_(network[1].bias)
    joint = JointTrainer(
        network, [], 2.0, unit="user", keep=("shared",), clip_norm=0.1, learning_rate=0.5,
        loss=lambda outputs, labels: (outputs[:, 0] - labels) ** 2 / 2, **QUICK,
    )  # fmt: skip
    joint.fit(X, y, owners=np.zeros(len(y)), users=users)
    np.testing.assert_allclose(own, sums, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        one.billboard_.arrays["shared_head.weight"], joint.billboard_.arrays["1.weight"], atol=1e-4
    )
    assert not one.heads_.heads.any()


# ---- what is paid --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-or-remove-one", "replace-one"])
def test_the_cost_is_what_dp_accounting_says(relation: str) -> None:
    (event,) = fitted({"relation": relation}).billboard_.statement.events
    neighbours = {
        "add-or-remove-one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }
    accountant = PLDAccountant(neighbours[relation])
    one = dp_accounting.PoissonSampledDpEvent(0.3, dp_accounting.GaussianDpEvent(event.noise_multiplier))
    accountant.compose(dp_accounting.SelfComposedDpEvent(one, 8))
    assert 0.98 * 2.0 < accountant.get_epsilon(1e-4) <= 2.0 * 1.001
    assert event.noise_std >= event.noise_multiplier * event.contribution
    assert (event.unit, event.relation, event.steps, event.group_size) == ("person", relation, 8, 1)
    assert event.entries == 12 * D + 12 + 12 * 3 + 3 + 3 + 1


def test_the_statement_tells_the_truth() -> None:
    book = InMemoryLedger(Budget(2.0, 1e-4))
    statement = fitted({"simulation_seed": None}, ledger=book).billboard_.statement
    assert book.events == statement.events
    assert (statement.unit, statement.n_units, statement.steps) == ("person", N, 8)
    words = str(statement)
    for part in (
        "with 60 people",
        "one person is there or is missing",
        "with all of her rows",
        "number of people is public",
    ):
        assert part in words
    assert "owner" not in words
    assert not words.startswith("SIMULATED")
    assert str(fitted().billboard_.statement).startswith("SIMULATED, NOT PRIVATE")


def test_what_is_published_depends_on_released_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same releases, entirely different people publish the same: nothing passes beside the gate."""
    released: list[np.ndarray] = []
    release = SampledReleases.release
    monkeypatch.setattr(SampledReleases, "release", lambda self, s: released.append(release(self, s)) or released[-1])
    first = fitted().billboard_
    replayed = iter(released)

    def replay(self: SampledReleases, _: Any) -> np.ndarray:
        self.remaining -= 1
        return next(replayed)

    monkeypatch.setattr(SampledReleases, "release", replay)
    X, y, users = population(rows=23, seed=5)
    other = PeopleTrainer(body(), epsilon=2.0, **QUICK).fit(10 * X, 1 - y, users).billboard_
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def test_an_exhausted_ledger_stops_the_run_before_it_starts() -> None:
    with pytest.raises(BudgetError, match="would bring the spend"):
        fitted(ledger=InMemoryLedger(Budget(0.5, 1e-4)))
    with pytest.raises(InputError, match="for audits"):
        fitted(ledger=InMemoryLedger(Budget(2.0, 1e-4)), gate=lambda *a: SampledReleases(*a))


# ---- checkpoints ---------------------------------------------------------------------------------------------------------


def test_steps_that_a_killed_process_had_begun_are_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``kill -9`` in step 5 leaves the checkpoint: steps 4 to 6 are announced in it, so 7 and 8 are all that is left."""
    file, left, calls = tmp_path / "run.checkpoint", tmp_path / "left.checkpoint", []
    original = people.clipped_sum_of_people

    def watched(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            shutil.copy(file, left)
        return original(*arguments)

    monkeypatch.setattr(people, "clipped_sum_of_people", watched)
    real = {"simulation_seed": None, "checkpoint_every": 3}
    fitted({"checkpoint": file, **real})
    calls[:] = [0] * 100
    book = cg.ledger.DurableLedger(tmp_path / "b.db", create=True).open_population("p", Budget(4.0, 1e-4))
    fitted({"checkpoint": left, **real}, ledger=book, resume=True)
    assert len(calls) == 102
    assert book.account().charged_rounds == 8


def test_a_resumed_simulation_is_the_same_to_the_last_bit_and_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, calls = tmp_path / "run.checkpoint", []
    original = people.clipped_sum_of_people

    def crash_in_step_5(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(people, "clipped_sum_of_people", crash_in_step_5)
        with pytest.raises(KeyboardInterrupt):
            fitted({"checkpoint": file, "checkpoint_every": 3})
    for changed in ({"ridge": 2.0}, {"rows_per_person": 5}, {"clip_norm": 0.2}):
        with pytest.raises(BillboardError, match="another run"):
            fitted({"checkpoint": file, **changed}, resume=True)
    whole, resumed = fitted(), fitted({"checkpoint": file, "checkpoint_every": 3}, resume=True)
    for name, array in whole.billboard_.arrays.items():
        np.testing.assert_array_equal(array, resumed.billboard_.arrays[name])


# ---- heads ---------------------------------------------------------------------------------------------------------------


def test_no_head_is_published_and_later_people_need_the_board_alone(tmp_path: Path) -> None:
    model = fitted({"checkpoint": tmp_path / "run.checkpoint"})
    folder = model.billboard_.save(tmp_path / "board")
    secret = np.abs(model.heads_.heads.ravel()).astype(np.float32)
    for file in (folder / "billboard.safetensors", tmp_path / "run.checkpoint"):
        numbers = np.abs(np.concatenate([array.ravel() for array in load_file(file).values()]).astype(np.float32))
        assert not np.isin(numbers[numbers > 1e-6], secret[secret > 1e-6]).any()
    assert repr(model.heads_) == "<OwnHeads: private>"
    with pytest.raises(TypeError, match="private"):
        model.heads_.__getstate__()

    X, y, users = population(n=5, seed=9)
    board = SharedParameters.load(folder)
    later = PeopleTrainer.from_board(board, body(seed=3))
    assert later.predict(X[:2], users=[0, 1]).shape == (2,), "the shared head, for those who have none"
    later.fit_people(X, y, users)
    model.fit_people(X, y, users)
    np.testing.assert_array_equal(later.heads_.heads, model.heads_.heads)
    np.testing.assert_array_equal(later.predict(X, users), model.predict(X, users))
    with pytest.raises(InputError, match="architecture"):
        PeopleTrainer.from_board(board, body(features=2))
    assert "60 people" in board.report(tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_own_head_is_ridge_with_the_strength_that_leave_one_out_chooses() -> None:
    from sklearn.linear_model import RidgeCV

    model = fitted()
    X, y, _ = population(n=3, rows=12, seed=4)
    for her in range(3):
        rows = torch.from_numpy(X[her * 12 : her * 12 + 12])
        shared, features = outputs_of(model._model, rows)
        left = y[her * 12 : her * 12 + 12, None] - shared
        chosen = RidgeCV(alphas=RIDGES, fit_intercept=False).fit(features, left[:, 0])
        found = own_head(model._model, rows, y[her * 12 : her * 12 + 12, None], 1.0)
        if found.any():
            np.testing.assert_allclose(found[:, 0], chosen.coef_, rtol=1e-6)
        else:
            assert -chosen.best_score_ * 12 >= (left**2).sum()
    huge = torch.full((3, D), 3e38)
    assert np.isfinite(own_head(model._model, huge, np.full((3, 1), 1e300), 1.0)).all()


def test_a_person_with_many_rows_passes_a_body_some_at_a_time() -> None:
    """All at once they would be as wide as the body inside, in memory, after everybody has paid."""
    most: list[int] = []

    class Watched(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            most.append(len(rows))
            return super().forward(rows)

    X, y, _ = population(n=1, rows=2000)
    model = WithSharedHead(Watched(D, 3), 3, 1)
    shared, features = outputs_of(model, torch.from_numpy(X))
    assert max(most) <= 256
    whole = model(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(np.column_stack([shared, features]), np.column_stack([whole, np.ones(2000)]), atol=1e-6)
    most.clear()
    PeopleTrainer(Watched(D, 3), 2.0, **QUICK).fit(X, y, np.arange(2000) // 1990)
    assert max(most) <= 256


def test_others_keep_every_bit_whatever_one_person_holds() -> None:
    """Heads and answers of all others, when the first has no rows, one, many, ordinary or huge."""
    model = fitted()
    X, y, users = population(n=20, seed=2)
    first = None
    for n_rows, scale in ((9, 1.0), (1, 1.0), (300, 1.0), (40, 1e30), (0, 1.0)):
        X0, y0, _ = population(n=1, rows=n_rows, seed=n_rows) if n_rows else (X[:0], y[:0], None)
        here = np.concatenate([np.zeros(n_rows, int), users + 1])
        rows = np.concatenate([(scale * X0).astype(np.float32), X])
        model.fit_people(rows, np.concatenate([scale * y0, y]), here)
        found = (model.heads_.heads[-20:].tobytes(), model.decision_function(rows, here)[n_rows:].tobytes())
        first = first or found
        assert found == first, (n_rows, scale)
    alone = model.decision_function(X[:2], users[:2] + 1)
    together = model.decision_function(X, np.where(np.arange(len(X)) < 2, users + 1, 7))
    np.testing.assert_array_equal(alone, together[:2])  # products of few rows round otherwise than those of many


def test_unknown_people_get_the_shared_answer_or_a_refusal() -> None:
    model, (X, _, _) = fitted(), population()
    np.testing.assert_array_equal(
        model.predict(X[:3], users=[999, 1000, -1]), [model.predict(X[[i]])[0] for i in (0, 1, 2)]
    )
    with pytest.raises(InputError, match="have no head"):
        model.predict(X[:3], users=[0, 1, 999], strict=True)
    with pytest.raises(InputError, match="one user for each row"):
        model.predict(X[:3], users=[0, 1])


# ---- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": 0.0}, "ridge"), ({"ridge": math.nan}, "ridge"), ({"rows_per_person": 0}, "rows_per_person"),
        ({"microbatch": True}, "microbatch"), ({"classes": ("a", "a")}, "classes"), ({"classes": ()}, "classes"),
        ({"relation": "swap"}, "relation must be"), ({"epsilon": 0}, "epsilon"), ({"sampling_probability": 0.0}, "sampling"),
        ({"clip_norm": math.inf}, "clip_norm"), ({"steps": 0}, "steps"), ({"body": nn.Flatten(0)}, "features"),
    ],
)  # fmt: skip
def test_bad_parameters(changes: dict[str, Any], message: str) -> None:
    X, y, users = population(n=3)
    with pytest.raises(InputError, match=message):
        PeopleTrainer(**{"body": body(), "epsilon": 2.0, **QUICK, **changes}).fit(X, y, users)


def test_bad_rows_and_bodies_are_refused_before_anything_is_paid() -> None:
    class Mixing(nn.Sequential):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return super().forward(rows / rows.abs().max())

    X, y, users = population()
    book = InMemoryLedger(Budget(2.0, 1e-4))
    gap, bad = X.copy(), y.copy()
    gap[3, 0], bad[4] = np.nan, np.inf
    trainer = PeopleTrainer(body(), 2.0, **QUICK)
    for given in (
        (gap, y, users),
        (X, bad, users),
        (X[:-1], y, users),
        (X, y[:, None], users),
        (X[:0], y[:0], users[:0]),
    ):
        with pytest.raises(InputError):
            trainer.fit(*given, ledger=book)
    for network in (Mixing(*body()), nn.Sequential(nn.Linear(D, 3), nn.BatchNorm1d(3))):
        with pytest.raises(InputError, match="mixes"):
            PeopleTrainer(network, 2.0, **QUICK).fit(X, y, users, ledger=book)
    assert book.events == ()
    with pytest.warns(PrivacyWarning, match="number of people"):
        fitted({"delta": 0.05})


@pytest.mark.parametrize("token", [50, -1])
def test_a_row_that_the_body_fails_on_is_refused_before_anything_is_paid(token: int) -> None:
    """A token that the embedding has no place for, in the last of 900 rows."""
    tokens, users = np.random.default_rng(0).integers(0, 50, (900, 5)), np.repeat(np.arange(60), 15)
    network, y = nn.Sequential(nn.Embedding(50, 4), nn.Flatten()), np.arange(900) % 2
    tokens[-1, 0] = token
    book = InMemoryLedger(Budget(2.0, 1e-4))
    with pytest.raises(InputError, match=r"rows 768 to 899: .*[Dd]rop or recode"):
        PeopleTrainer(network, 2.0, **{**QUICK, "simulation_seed": None}).fit(tokens, y, users, ledger=book)
    assert book.events == ()


def test_the_body_given_is_not_changed() -> None:
    given, (X, y, users) = body(), population()
    before = [p.detach().clone() for p in given.parameters()]
    PeopleTrainer(given, 2.0, **QUICK).fit(X, y, users)
    for p, old in zip(given.parameters(), before, strict=True):
        torch.testing.assert_close(p, old, rtol=0, atol=0)
