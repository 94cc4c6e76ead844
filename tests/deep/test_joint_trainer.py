"""JointTrainer: what it publishes, what it charges, how it goes on after a crash, what owners keep."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.billboard.joint import SharedParameters
from commonground.datasets import OwnersData, digits_across_owners
from commonground.deep import JointTrainer, TwoBranchCNN
from commonground.deep.local import LocalSettings, OwnersTraining
from commonground.deep.own_rows import OwnRows
from commonground.deep.trainer import cross_entropy
from commonground.errors import BillboardError, BudgetError, InputError, PrivacyWarning
from commonground.ledger import InMemoryLedger

SMALL: dict[str, Any] = {"sampling_probability": 0.2, "steps": 12, "local": LocalSettings(personal_steps=10)}


@pytest.fixture(scope="module")
def data() -> OwnersData:
    return digits_across_owners(n_owners=6, records_per_user=4, seed=0)


def trainer(**changes: Any) -> JointTrainer:
    settings: dict[str, Any] = {
        "personal": ["fc1"],
        "epsilon": 2.0,
        "delta": 1e-4,
        "simulation_seed": 1,
        **SMALL,
        **changes,
    }
    return JointTrainer(TwoBranchCNN(side=8, channels=(4, 8)), **settings)


def fitted(data: OwnersData, users: bool = False, ledger: Any = None, **changes: Any) -> JointTrainer:
    return trainer(**changes).fit(
        data.X, data.y, owners=data.owners, users=data.users if users else None, ledger=ledger
    )


@pytest.mark.slow
def test_it_learns_and_owners_gain_from_their_own_part(data: OwnersData) -> None:
    """One seed, but a wide margin: guessing gives 0.1, and these settings 0.75 to 0.85 over ten seeds."""
    model = fitted(data, epsilon=8.0, steps=60, local=None, keep=("own", "shared", "personal"))
    shared, personal = (model.score(data.test_X, data.test_y, data.test_owners, keep=k) for k in ("shared", "personal"))
    assert personal > 0.6
    assert personal > shared - 0.05
    assert model.score(data.test_X, data.test_y, data.test_owners) > 0.6
    strangers = model.decision_function(data.test_X[:3], owners=[999, -1, 12345])
    np.testing.assert_allclose(strangers, model.decision_function(data.test_X[:3]))
    assert set(model.owners_models_.choice) <= {"own", "shared", "personal"}


def test_no_personal_parameter_is_published(data: OwnersData, tmp_path: Path) -> None:
    """Every published file is loaded and searched for any owner's personal numbers."""
    model = fitted(data, checkpoint=tmp_path / "run.checkpoint", checkpoint_every=5)
    folder = model.billboard_.save(tmp_path / "board")
    own = model.owners_models_.candidates["personal"]
    assert set(own) == {"fc1.weight", "fc1.bias"}
    assert all(float(values.abs().max()) > 0 for values in own.values()), "the personal part was not fitted"
    secret = np.concatenate([values.numpy().ravel() for values in own.values()])
    secret = np.abs(secret[np.abs(secret) > 1e-6])
    published = [folder / "billboard.safetensors", tmp_path / "run.checkpoint"]
    assert {p.name for p in folder.iterdir()} == {"billboard.safetensors", "statement.json"}
    for file in published:
        arrays = load_file(file)
        assert not any("fc1" in name for name in arrays)
        numbers = np.abs(np.concatenate([a.ravel() for a in arrays.values()]).astype(np.float32))
        assert not np.isin(numbers[numbers > 1e-6], secret.astype(np.float32)).any()
    assert "fc1" not in (folder / "statement.json").read_text(encoding="utf-8")
    again = SharedParameters.load(folder)
    assert again.statement == model.billboard_.statement
    assert sorted(again.arrays) == [
        "conv1.bias",
        "conv1.weight",
        "conv2.bias",
        "conv2.weight",
        "fc2.bias",
        "fc2.weight",
    ]
    np.testing.assert_array_equal(again.arrays["fc2.weight"], model.billboard_.arrays["fc2.weight"])
    (folder / "billboard.safetensors").write_bytes((folder / "billboard.safetensors").read_bytes()[:-1] + b"\x01")
    with pytest.raises(BillboardError, match="changed"):
        SharedParameters.load(folder)


def test_what_is_published_depends_on_released_values_alone(data: OwnersData, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same releases, an entirely different data set publishes the same: nothing passes beside the gate."""
    from commonground.gate import SampledReleases

    released: list[np.ndarray] = []
    original = SampledReleases.release
    monkeypatch.setattr(SampledReleases, "release", lambda self, s: released.append(original(self, s)) or released[-1])
    first = fitted(data).billboard_
    replayed = iter(released)

    def replay(self: SampledReleases, _: Any) -> np.ndarray:
        self.remaining -= 1
        return next(replayed)

    monkeypatch.setattr(SampledReleases, "release", replay)
    other = trainer().fit(1 - data.X, (data.y + 3) % 10, owners=data.owners).billboard_
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def test_the_statement_tells_the_truth(data: OwnersData) -> None:
    book = InMemoryLedger(Budget(2.0, 1e-4))
    model = trainer(simulation_seed=None).fit(data.X, data.y, owners=data.owners, ledger=book)
    statement = model.billboard_.statement
    assert book.events == statement.events
    assert (statement.unit, statement.relation, statement.n_owners) == ("record", "add-or-remove-one", 6)
    assert (statement.n_units, statement.steps, statement.sampling_probability) == (1200, 12, 0.2)
    assert 0.99 * 2.0 < statement.epsilon_spent <= 2.0
    (event,) = statement.events
    assert event.contribution >= 0.1
    assert event.noise_std >= statement.noise_multiplier * event.contribution
    words = str(statement)
    assert "there or is missing" in words
    assert "Box-Muller" in words
    assert not words.startswith("SIMULATED")
    assert str(fitted(data).billboard_.statement).startswith("SIMULATED, NOT PRIVATE")


@pytest.mark.parametrize(
    ("changes", "unit", "words"),
    [
        ({"relation": "replace-one"}, "record", "replaced by any other"),
        ({"unit": "user"}, "user", "with all of its records"),
        ({"epsilon": 0.5, "unit": "user", "user_level": "group", "records_per_user": 2}, "user", "group of 2"),
    ],
)
def test_other_guarantees_are_accounted_and_named(
    data: OwnersData, changes: dict[str, Any], unit: str, words: str
) -> None:
    statement = fitted(data, users=True, **changes).billboard_.statement
    plain = fitted(data).billboard_.statement
    assert statement.unit == unit
    assert words in str(statement)
    assert statement.epsilon_spent <= 2.0
    assert statement.n_units == (1200 if unit == "record" else len(np.unique(data.users)))
    if "user_level" in changes or "relation" in changes:
        assert statement.noise_multiplier > 1.4 * plain.noise_multiplier


def test_a_group_sends_no_more_records_than_it_pays_for(data: OwnersData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is drawn: of each user, whatever her number of records, the first three take part and no other."""
    from commonground.deep import shared_training

    seen: list[list[bytes]] = []
    original = shared_training.clipped_sum

    def watched(gradients: Any, X: Any, y: Any, units: Any, drawn: np.ndarray, *others: Any) -> Any:
        taken = [rows for rows, _ in units.batches(drawn, 64)]
        seen.append([X[row].numpy().tobytes() for row in np.concatenate(taken)])
        return original(gradients, X, y, units, drawn, *others)

    monkeypatch.setattr(shared_training, "clipped_sum", watched)
    monkeypatch.setattr(shared_training, "noise_multiplier_for", lambda *_: 50.0)  # plenty; the search takes long
    users = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 9, 3, 13])
    model = trainer(
        epsilon=4.0, delta=1e-3, unit="user", user_level="group", records_per_user=3, sampling_probability=1.0, steps=2,
        keep=("shared",),
    )  # fmt: skip
    model.fit(data.X[:40], data.y[:40], owners=users % 2, users=users)
    first_three = [place for user in range(8) for place in np.flatnonzero(users == user)[:3]]
    assert sorted(seen[0]) == sorted(data.X[place].tobytes() for place in first_three)
    (event,) = model.billboard_.statement.events
    assert event.group_size == 3


def test_a_label_without_an_output_is_refused_before_anything_is_paid(data: OwnersData) -> None:
    book = InMemoryLedger(Budget(2.0, 1e-4))
    for bad in (10, -1):
        with pytest.raises(InputError, match="from 0 to 9"):
            trainer().fit(data.X, np.where(np.arange(len(data.y)) == 5, bad, data.y), owners=data.owners, ledger=book)
    assert book.events == ()


def test_a_run_goes_on_bit_by_bit_after_a_crash(
    data: OwnersData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.checkpoint"
    whole = fitted(data, checkpoint=tmp_path / "other.checkpoint", checkpoint_every=5)
    with monkeypatch.context() as patch:
        from commonground.deep import shared_training

        calls = []
        original = shared_training.clipped_sum

        def crash_in_step_8(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) == 8:
                raise KeyboardInterrupt
            return original(*arguments)

        patch.setattr(shared_training, "clipped_sum", crash_in_step_8)
        with pytest.raises(KeyboardInterrupt):
            fitted(data, checkpoint=file, checkpoint_every=5)
    book = InMemoryLedger(Budget(2.0, 1e-4))
    resumed = trainer(checkpoint=file, checkpoint_every=5).fit(
        data.X, data.y, owners=data.owners, ledger=book, resume=True
    )
    for name, array in whole.billboard_.arrays.items():
        np.testing.assert_array_equal(array, resumed.billboard_.arrays[name])
    assert resumed.billboard_.statement == whole.billboard_.statement
    assert [event.steps for event in book.events] == [12], (
        "a ledger that does not know the run is charged for all of it"
    )
    trainer(checkpoint=file, checkpoint_every=5).fit(data.X, data.y, owners=data.owners, ledger=book, resume=True)
    assert len(book.events) == 1, "and not a second time"


@pytest.mark.slow
def test_steps_that_a_killed_process_had_begun_are_not_drawn_again(
    data: OwnersData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``kill -9`` in step 8 leaves the checkpoint: steps 6 to 10 are announced in it, and step 5 is where it stands."""
    from commonground.deep import shared_training

    file, left, calls = tmp_path / "run.checkpoint", tmp_path / "left.checkpoint", []
    original = shared_training.clipped_sum
    real = {"simulation_seed": None, "checkpoint_every": 5}

    def watched(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            shutil.copy(file, left)
        return original(*arguments)

    monkeypatch.setattr(shared_training, "clipped_sum", watched)
    whole = fitted(data, checkpoint=file, **real).billboard_.statement
    calls[:] = [0] * 100
    people = cg.ledger.DurableLedger(tmp_path / "b.db", create=True).open_population("p", Budget(4.0, 1e-4))
    resumed = trainer(checkpoint=left, **real).fit(data.X, data.y, owners=data.owners, ledger=people, resume=True)
    assert len(calls) == 100 + 2, "steps 11 and 12 are all that is left"
    assert replace(resumed.billboard_.statement, ledger=None) == whole, "12 steps are paid for, as declared"
    assert np.isfinite(resumed.billboard_.arrays["conv1.weight"]).all()
    assert people.account().charged_rounds == 12
    trainer(checkpoint=left, **real).fit(data.X, data.y, owners=data.owners, ledger=people, resume=True)
    assert len(calls) == 102, "whoever resumes once more finds no step left"
    assert people.account().charged_rounds == 12


def test_a_checkpoint_of_another_run_is_refused(data: OwnersData, tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    fitted(data, checkpoint=file, steps=4, checkpoint_every=2)
    for changed in ({"epsilon": 3.0}, {"steps": 6}, {"clip_norm": 0.2}, {"personal": []}):
        with pytest.raises(BillboardError, match="another run"):
            trainer(**{"checkpoint": file, "steps": 4, **changed}).fit(data.X, data.y, owners=data.owners, resume=True)
    with pytest.raises(InputError, match="simulated"):
        trainer(checkpoint=file, steps=4, simulation_seed=None).fit(data.X, data.y, owners=data.owners, resume=True)
    file.write_bytes(b"nonsense")
    with pytest.raises(BillboardError, match="damaged"):
        trainer(checkpoint=file, steps=4).fit(data.X, data.y, owners=data.owners, resume=True)


def test_an_exhausted_ledger_stops_the_run_before_it_starts(data: OwnersData) -> None:
    with pytest.raises(BudgetError, match="would bring the spend"):
        trainer().fit(data.X, data.y, owners=data.owners, ledger=InMemoryLedger(Budget(0.5, 1e-4)))


def test_a_durable_ledger_adds_up_training_runs(data: OwnersData, tmp_path: Path) -> None:
    people = cg.ledger.DurableLedger(tmp_path / "b.db", create=True).open_population("p", Budget(3.0, 1e-4))
    real = {"simulation_seed": None, "keep": ("shared",)}
    statement = fitted(data, ledger=people, **real).billboard_.statement
    assert people.account().charged_rounds == 12
    assert people.account().epsilon_of_rounds(12) == statement.epsilon_spent
    fitted(data, ledger=people, **real)
    assert people.account().epsilon_of_rounds(24) <= 3.0
    with pytest.raises(BudgetError, match="further training of this kind"):
        fitted(data, ledger=people, **real)
    with pytest.raises(BudgetError, match="another kind"):
        fitted(data, ledger=people, clip_norm=0.1, epsilon=0.5, **real)
    with pytest.raises(BudgetError, match="simulated noise"):
        fitted(data, ledger=people)


def test_progress_is_shown_and_epochs_a_second_are_printed(
    data: OwnersData, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted(data, verbose=True, steps=10, keep=("shared",))
    out, err = capsys.readouterr()
    assert "10 steps (2.0 epochs)" in out
    assert "epochs a second" in out
    assert "10/10" in err


def test_an_owner_with_many_rows_blends_in_its_own_model(data: OwnersData) -> None:
    keep = ("own", "shared", "personal", "blend")
    quick = LocalSettings(epochs=1, fewest_updates=5, personal_steps=5, blend_rows=100.0)
    model = fitted(data, keep=keep, steps=2, local=quick)
    X, owners = data.test_X, data.test_owners
    own, personal, blend = (model.decision_function(X, owners, keep=name) for name in ("own", "personal", "blend"))
    rows = np.bincount(data.owners)[owners]
    np.testing.assert_allclose(blend, personal + (rows / (rows + 100.0))[:, None] * (own - personal), atol=1e-5)
    with pytest.raises(InputError, match="mixes 'own' and 'personal'"):
        fitted(data, keep=("shared", "blend"), steps=2, local=quick)


def test_owners_who_come_later_cost_nothing(data: OwnersData) -> None:
    model = fitted(data)
    before = model.billboard_
    model.fit_owners(data.X[:50], data.y[:50], owners=["new"] * 50)
    assert model.billboard_ is before
    assert model.predict(data.X[:2], owners=["new", "new"]).shape == (2,)


def test_a_regression_with_a_plain_module() -> None:
    X = np.linspace(-1, 1, 240, dtype=np.float32).reshape(60, 4)
    y = X.sum(axis=1)
    model = JointTrainer(
        nn.Sequential(nn.Linear(4, 6), nn.GroupNorm(2, 6), nn.Tanh(), nn.Linear(6, 1)), ["3"], 4.0, 1e-3, simulation_seed=0,
        loss=lambda outputs, labels: (outputs[:, 0] - labels) ** 2, **SMALL,
    )  # fmt: skip
    model.fit(X, y, owners=np.arange(60) % 3)
    assert model.predict(X, owners=np.arange(60) % 3).shape == (60, 1)
    assert set(model.billboard_.arrays) == {"0.weight", "0.bias", "1.weight", "1.bias"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"personal": ["fc9"]}, "no parameter or layer 'fc9'"), ({"unit": "owner"}, "unit must be"),
        ({"relation": "swap"}, "relation must be"), ({"epsilon": 0}, "epsilon"), ({"delta": 0.0}, "delta"),
        ({"sampling_probability": 0.0}, "sampling_probability"), ({"steps": 0}, "steps"), ({"clip_norm": math.inf}, "clip_norm"),
        ({"keep": ("best",)}, "keep must"), ({"unit": "user", "user_level": "group"}, "records_per_user"),
    ],
)  # fmt: skip
def test_bad_parameters(data: OwnersData, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(data, users=True, **changes)


def test_bad_rows(data: OwnersData) -> None:
    X = data.X.copy()
    X[3, 0, 0, 0] = np.nan
    for call in (
        lambda: trainer().fit(X, data.y, owners=data.owners),
        lambda: trainer().fit(data.X, data.y[:-1], owners=data.owners),
        lambda: trainer(unit="user").fit(data.X, data.y, owners=data.owners),
        lambda: fitted(data).predict(data.X, owners=data.owners[:3]),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.warns(PrivacyWarning, match="delta"):
        fitted(data, delta=0.01)


def test_a_model_that_mixes_records_is_refused_before_anything_is_paid(data: OwnersData) -> None:
    class Mixing(TwoBranchCNN):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images / images.abs().max())

    book = InMemoryLedger(Budget(2.0, 1e-4))
    model = JointTrainer(Mixing(side=8, channels=(4, 8)), ["fc1"], 2.0, 1e-4, **SMALL)
    with pytest.raises(InputError, match="mixes"):
        model.fit(data.X, data.y, owners=data.owners, ledger=book)
    assert book.events == ()


@pytest.mark.parametrize("settings", [{}, {"unit": "user", "user_level": "group", "records_per_user": 2}])
def test_a_row_that_the_model_fails_on_is_refused_before_anything_is_paid(settings: dict[str, Any]) -> None:
    """A token without a place in the embedding, also in a row that is read after training only, for its owner's own model."""
    tokens, owners = np.random.default_rng(0).integers(0, 50, (120, 5)), np.repeat(np.arange(40), 3)
    network = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(20, 2))
    tokens[-1, 0] = 50
    book = InMemoryLedger(Budget(2.0, 1e-4))
    model = JointTrainer(network, ["2"], 2.0, 1e-4, **{**SMALL, **settings})
    with pytest.raises(InputError, match=r"rows 0 to 119: .*[Dd]rop or recode"):
        model.fit(tokens, np.arange(120) % 2, owners=owners, users=owners, ledger=book)
    assert book.events == ()


def test_a_label_that_a_loss_of_ones_own_fails_on_is_refused_before_anything_is_paid(data: OwnersData) -> None:
    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return -outputs.log_softmax(1).gather(1, labels[:, None])[:, 0]

    book = InMemoryLedger(Budget(2.0, 1e-4))
    model = JointTrainer(TwoBranchCNN(side=8, channels=(4, 8)), ["fc1"], 2.0, 1e-4, loss=loss, **SMALL)
    with pytest.raises(InputError, match="or its loss, fails"):
        model.fit(data.X, np.where(np.arange(len(data.y)) == 5, 10, data.y), owners=data.owners, ledger=book)
    assert book.events == ()


def test_the_model_given_is_not_changed(data: OwnersData) -> None:
    model = TwoBranchCNN(side=8, channels=(4, 8))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    JointTrainer(model, ["fc1"], 2.0, 1e-4, simulation_seed=0, **SMALL).fit(data.X, data.y, owners=data.owners)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p, before[name])


def mlp() -> nn.Module:
    """Layers of odd widths: in a batched product most of its matrices begin at odd places in memory."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 33), nn.Tanh(), nn.Linear(33, 13), nn.Tanh(), nn.Linear(13, 10))
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.3, 0.3, generator=generator)
    return model


def everything_but_of_the_first(model: JointTrainer, X: np.ndarray, owners: np.ndarray) -> dict[str, bytes]:
    """What all other owners have and are answered, byte by byte."""
    models = model.owners_models_
    found = {
        f"{name} {p}": values[1:].contiguous().numpy().tobytes()
        for name, candidate in models.candidates.items()
        for p, values in candidate.items()
    }
    assert models.priors is not None
    found |= {"priors": models.priors[1:].numpy().tobytes(), "weights": models.weights[1:].numpy().tobytes()}
    found["choice"] = models.choice[1:].tobytes()
    for keep in (None, "own", "shared", "personal", "blend"):
        found[f"answers by {keep}"] = model.decision_function(X, owners, keep=keep)[owners > 0].tobytes()
    return found


@pytest.mark.parametrize("network", ["mlp", pytest.param("cnn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n_owners", [2, 5, pytest.param(19, marks=pytest.mark.slow)])
def test_others_keep_every_bit_whatever_one_owner_holds(network: str, n_owners: int, data: OwnersData) -> None:
    """One owner has none, one, a few or many rows, ordinary or huge: nothing that another owner has changes a bit."""
    keep = ("own", "shared", "personal", "blend")
    quick = LocalSettings(keep=keep, epochs=1, fewest_updates=3, personal_steps=3)
    net, personal = (mlp(), ["5"]) if network == "mlp" else (TwoBranchCNN(side=8, channels=(3, 5)), ["fc1"])
    model = JointTrainer(net, personal, 2.0, 1e-4, steps=1, keep=keep, local=quick, simulation_seed=0)
    model.fit(data.X[:200], data.y[:200], owners=np.arange(200) % 2)
    counts = np.array([3, 17, 64, 1, 65, 30, 128, 16, 40])
    owner = np.concatenate([np.full(counts[j % 9], j) for j in range(1, n_owners)])
    at = np.arange(len(owner)) % 1000
    first = None
    for n_rows, scale in ((40, 1.0), (0, 1.0), (1, 1.0), (64, 1.0), (65, 1e30), (100, 1.0), (200, 1e-30)):
        X = np.concatenate([scale * data.X[1000 : 1000 + n_rows], data.X[at]]).astype(np.float32)
        y = np.concatenate([data.y[1000 : 1000 + n_rows], data.y[at]])
        owners = np.concatenate([np.zeros(n_rows, dtype=int), owner])
        model.owner_ids_ = np.arange(n_owners)  # an owner without rows is there, too
        model.owners_models_ = model._owners_training.fit(
            torch.from_numpy(X), torch.from_numpy(y), owners, n_owners, model._shared, model._start
        )
        found = everything_but_of_the_first(model, X, owners)
        first = first or found
        assert {name for name, stored in found.items() if stored != first[name]} == set(), (n_rows, scale)


def test_owners_rows_are_not_padded_to_the_largest_owners(data: OwnersData) -> None:
    """Memory for one owner's rows follows from its own number of rows: 200 owners of one row beside one of 1,000."""
    from commonground.deep.own_rows import stacks

    owner = np.concatenate([np.zeros(1000, dtype=int), np.arange(1, 201)])
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.y)
    sizes = {int(some[0]): part.y.shape for some, _, part in stacks(X, y, owner, 201, 64)}
    assert sizes[0] == (1, 1024)
    assert {sizes[j] for j in range(1, 201)} == {(1, 16)}


def test_an_owners_blend_follows_its_own_number_of_rows() -> None:
    """Also in a stack with others, as a GPU trains them."""
    weight = torch.ones(2, 8)
    weight[1, 3:] = 0.0
    rows = OwnRows(torch.zeros(2, 8, 3), torch.zeros(2, 8, dtype=torch.long), weight)
    network = nn.Linear(3, 2)
    start = {name: p.detach() for name, p in network.named_parameters()}
    owners = OwnersTraining(network, cross_entropy, ["bias"], LocalSettings(keep=("shared",)))
    found = owners._candidates(rows, start, start).weights
    torch.testing.assert_close(found, torch.tensor([8 / 1008, 3 / 1003]))
