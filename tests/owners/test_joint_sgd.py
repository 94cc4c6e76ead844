"""P4's convex learners: what they learn, what they charge, and Algorithm 2's promise and its limits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import epsilon_spent
from commonground.errors import BudgetError, CheckpointError, InputError, PrivacyWarning
from commonground.gate.journal import Entry, Journal
from commonground.ledger import DurableLedger, InMemoryLedger
from commonground.owners.heads import ridge_fit

N, M, D = 20, 100, 4


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """Owners with coefficients near each other, users of five rows."""
    rng = np.random.default_rng(0)
    shared, own = rng.standard_normal(D), 0.3 * rng.standard_normal((N, D))
    owners = np.repeat(np.arange(N), M)
    X, test = (rng.standard_normal((N * M, D)) / 2 for _ in range(2))
    y = ((shared + own[owners]) * X).sum(1) + 0.3 * rng.standard_normal(N * M)
    return {
        "X": X, "y": y, "owners": owners, "users": np.arange(N * M) // 5, "test": test,
        "truth": ((shared + own[owners]) * test).sum(1), "shared": shared,
    }  # fmt: skip


def fitted(rows: dict[str, Any], **changes: Any) -> cg.JointSGDRegressor:
    model = cg.JointSGDRegressor(**{"epsilon": 1.0, "delta": 1e-5, "simulation_seed": 0, **changes})
    return model.fit(rows["X"], rows["y"], owners=rows["owners"], users=rows["users"])


VARIANTS: dict[str, dict[str, Any]] = {
    "record": {}, "user": {"unit": "user"}, "group": {"unit": "user", "user_level": "group", "records_per_user": 5},
    "winsorised": {"unit": "user", "aggregator": "winsorised"}, "replacement": {"relation": "replace-one"},
    "paper": {"recipe": "paper", "steps": 500},
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_spend_and_statement(name: str, rows: dict[str, Any]) -> None:
    statement = fitted(rows, **VARIANTS[name]).billboard_.statement
    assert 0.98 < statement.epsilon_spent <= 1.0
    expected = {"paper": "owner", "user": "user", "group": "user", "winsorised": "user"}.get(name, "record")
    assert statement.unit == expected
    assert statement.n_units == {"owner": N, "user": N * M // 5, "record": N * M}[expected]
    assert statement.relation == ("replace-one" if name == "replacement" else "add-or-remove-one")
    assert str(statement).startswith("SIMULATED")


def test_private_coefficients_are_close_and_owners_gain(rows: dict[str, Any]) -> None:
    """Shared coefficients within 0.3 of the truth (typical error 0.05 to 0.1 over ten seeds); personal parts explain the rest."""
    model = fitted(rows, fit_intercept=False)
    assert np.linalg.norm(model.billboard_.arrays["coefficients"][0] - rows["shared"]) < 0.3
    personal, shared = (model.score(rows["test"], rows["truth"], owners) for owners in (rows["owners"], None))
    alone = r2_score(rows["truth"], predicted_by_owners_alone(rows))
    assert personal > shared + 0.02
    assert personal > alone - 0.01
    np.testing.assert_allclose(model.predict(rows["test"][:2], owners=[-5, 999]), model.predict(rows["test"][:2]))


def predicted_by_owners_alone(rows: dict[str, Any]) -> np.ndarray:
    """Every owner's ridge on its own rows, as if there were no others."""
    own = [ridge_fit(rows["X"][j], rows["y"][j], np.zeros(D), 1.0) for j in np.arange(N * M).reshape(N, M)]
    return np.einsum("ij,ij->i", np.stack(own)[rows["owners"]], rows["test"])


def test_real_noise_is_drawn_and_charged(rows: dict[str, Any]) -> None:
    book = InMemoryLedger(Budget(1.0, 1e-5))
    models = [
        cg.JointSGDRegressor(delta=1e-5, steps=20).fit(rows["X"], rows["y"], owners=rows["owners"], ledger=ledger)
        for ledger in (book, None)
    ]
    assert book.events == models[0].billboard_.statement.events
    assert not models[0].billboard_.statement.simulated
    assert not np.allclose(*(model.billboard_.arrays["coefficients"] for model in models))
    with pytest.raises(BudgetError):
        cg.JointSGDRegressor(delta=1e-5, steps=20).fit(rows["X"], rows["y"], owners=rows["owners"], ledger=book)


def spread_of_released_gradients(rows_per_user: int, far_apart: bool) -> float:
    """How much noise Algorithm 2 adds to a gradient at the end: the radius it found, by which the gate's noise is scaled."""
    from commonground.owners import gradients as contributions
    from commonground.owners import winsorised as algorithm

    rng = np.random.default_rng(1)
    n_users = 2000
    user = np.repeat(np.arange(n_users), rows_per_user)
    X = rng.standard_normal((len(user), 3)) / 2
    y = X.sum(axis=1) + rng.standard_normal(len(user)) + (far_apart * 20.0 * rng.standard_normal(n_users))[user]
    found: list[float] = []
    original = contributions.clipped_units

    def watch(means: np.ndarray, centre: np.ndarray, clip_norm: float) -> Any:
        found.append(clip_norm)
        return original(means, centre, clip_norm)

    patch = pytest.MonkeyPatch()
    patch.setattr(algorithm, "clipped_units", watch)
    try:
        cg.JointSGDRegressor(4.0, 1e-5, unit="user", aggregator="winsorised", clip_norm=8.0, sampling_probability=0.2, steps=40,
                             simulation_seed=2).fit(X, y, owners=user % 10, users=user)  # fmt: skip
    finally:
        patch.undo()
    return float(np.median(found[20:]))


def test_algorithm_2_needs_less_noise_the_more_rows_a_user_has() -> None:
    few, many = spread_of_released_gradients(2, False), spread_of_released_gradients(50, False)
    assert many <= few / 2  # concentration gives 1/√25; radii are powers of two
    assert spread_of_released_gradients(50, True) > 2 * many  # gradients far apart: a large ball, not a broken bound


@pytest.mark.parametrize("wild", [0, 7])
def test_algorithm_2_bounds_every_user_when_gradients_do_not_concentrate(
    wild: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same steps with a user there and missing: each sum moves by at most what was paid for, and by nearly that much."""
    from commonground.gate import SampledReleases

    rng = np.random.default_rng(3)
    user = np.arange(60) // 3
    X, y = rng.standard_normal((60, 2)), 50.0 * rng.standard_normal(60)
    y[user == wild] = 1e9
    released: list[np.ndarray] = []
    sums: dict[bool, list[np.ndarray]] = {True: [], False: []}
    original = SampledReleases.release

    for present in (True, False):
        everybody = np.arange(20) if present else np.delete(np.arange(20), wild)

        def release(self: SampledReleases, bounded: Any, present: bool = present) -> np.ndarray:
            sums[present].append(np.asarray(bounded.value))
            found = original(self, bounded)
            if present:
                released.append(found)
            return released[len(sums[present]) - 1]

        def sample(self: SampledReleases, n: int, drawn: np.ndarray = everybody) -> np.ndarray:
            self._sampled = True
            return drawn

        monkeypatch.setattr(SampledReleases, "release", release)
        monkeypatch.setattr(SampledReleases, "sample", sample)
        model = cg.JointSGDRegressor(
            8.0, 1e-3, unit="user", aggregator="winsorised", sampling_probability=1.0, steps=15, simulation_seed=0
        )
        model.fit(X, y, owners=user % 4, users=user)
    moved = [float(np.linalg.norm(a - b)) for a, b in zip(sums[True], sums[False], strict=True)]
    assert len(moved) == 30  # counts of distances and gradients in turn
    assert 0.9 < max(moved) <= 1.0 + 1e-9  # in units of the ball found


@pytest.mark.parametrize("aggregator", ["mean", "winsorised"])
def test_a_sample_of_users_may_be_empty(aggregator: str) -> None:
    """Ten users at q = 0.05: six samples in ten hold nobody, and are released like any other."""
    rng = np.random.default_rng(0)
    X, users = rng.standard_normal((30, 2)), np.arange(30) // 3
    model = cg.JointSGDRegressor(1.0, 1e-3, unit="user", aggregator=aggregator, steps=20, simulation_seed=0)
    model.fit(X, X.sum(axis=1), owners=users % 2, users=users)
    assert np.isfinite(model.billboard_.arrays["coefficients"]).all()


def test_a_user_of_two_owners_is_two_users_and_the_statement_says_so(rows: dict[str, Any]) -> None:
    users = np.arange(N * M) % M // 5  # every owner counts its users from zero
    model = cg.JointSGDRegressor(unit="user", steps=5, simulation_seed=0)
    statement = model.fit(rows["X"], rows["y"], owners=rows["owners"], users=users).billboard_.statement
    assert statement.n_units == N * M // 5
    assert "One user at one owner with all of its records there" in str(statement)
    assert "somebody at several owners counts as several users" in str(statement)


def test_units_do_not_mix_in_one_ledger(rows: dict[str, Any]) -> None:
    book = InMemoryLedger(Budget(8.0, 1e-5))
    X, y, who = rows["X"], rows["y"], {"owners": rows["owners"], "users": rows["users"]}
    for unit in ("user", "record"):
        model = cg.JointSGDRegressor(unit=unit, steps=5)
        if unit == "user":
            model.fit(X, y, **who, ledger=book)
            assert {event.unit for event in book.events} == {"user"}
        else:
            with pytest.raises(BudgetError, match="units"):
                model.fit(X, y, **who, ledger=book)


@pytest.mark.parametrize("aggregator", ["mean", "winsorised"])
def test_a_durable_ledger_adds_up_fits(rows: dict[str, Any], tmp_path: Path, aggregator: str) -> None:
    people = cg.ledger.DurableLedger(tmp_path / "b.db", create=True).open_population("p", Budget(2.5, 1e-5))
    who = {"owners": rows["owners"], "users": rows["users"], "ledger": people}
    model = cg.JointSGDRegressor(unit="user", aggregator=aggregator, steps=5, epsilon=2.0)
    statement = model.fit(rows["X"], rows["y"], **who).billboard_.statement
    assert people.account().epsilon_of_rounds(5) == statement.epsilon_spent
    model.fit(rows["X"], rows["y"], **who)
    twice = [replace(event, steps=10) for event in statement.events]
    assert people.account().charged_rounds == 10
    assert people.account().epsilon_of_rounds(10) == epsilon_spent(twice, 1e-5)


def test_the_papers_recipe_takes_the_steps_given_whatever_the_number_of_rows(rows: dict[str, Any]) -> None:
    few = {name: rows[name][::50] for name in ("X", "y", "owners", "users")}
    for part in (rows, few):
        assert fitted(part, recipe="paper", steps=1700).billboard_.statement.steps == 1700


def test_a_group_sends_no_more_records_than_it_pays_for(rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is drawn: of each user, whatever her number of records, the first three take part and no other."""
    from commonground.owners import minibatches as algorithm

    seen: list[np.ndarray] = []
    original = algorithm.clipped_records
    monkeypatch.setattr(algorithm, "clipped_records", lambda e, X, c: seen.append(X[:, 0].copy()) or original(e, X, c))
    monkeypatch.setattr(algorithm, "noise_multiplier_for", lambda *_, **__: 50.0)  # plenty; the search takes long
    users = np.repeat(np.arange(8), [1, 2, 3, 4, 5, 9, 3, 13])
    X = np.column_stack([np.arange(40.0), np.ones(40)])
    model = cg.JointSGDRegressor(
        4.0,
        1e-3,
        unit="user",
        user_level="group",
        records_per_user=3,
        sampling_probability=1.0,
        steps=2,
        simulation_seed=0,
    )
    model.fit(X, np.zeros(40), owners=users % 2, users=users)
    first_three = [place for user in range(8) for place in np.flatnonzero(users == user)[:3]]
    for taken in seen:
        assert sorted(taken.astype(int)) == sorted(first_three)
    (event,) = model.billboard_.statement.events
    assert event.group_size == 3


def test_the_papers_recipe_asks_the_owners_drawn_and_nobody_else(
    rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step one record of each owner in the secret sample; owners stay out as often as the cost counts on."""
    from commonground.gate import SampledReleases
    from commonground.owners import single_steps as algorithm

    asked: list[list[int]] = []
    drawn: list[list[int]] = []
    original, sample = algorithm.clipped_records, SampledReleases.sample

    def watched_sample(self: SampledReleases, n: int) -> np.ndarray:
        found = sample(self, n)
        drawn.append(found.tolist())
        asked.append([])
        return found

    def watched(errors: np.ndarray, X: np.ndarray, clip_norm: float) -> Any:
        asked[-1] += np.rint(X[:, 0]).astype(int).tolist()
        return original(errors, X, clip_norm)

    monkeypatch.setattr(algorithm, "clipped_records", watched)
    monkeypatch.setattr(SampledReleases, "sample", watched_sample)
    owners = np.arange(60) % 6
    model = cg.JointSGDRegressor(4.0, 1e-3, recipe="paper", steps=60, simulation_seed=0)
    model.fit(np.column_stack([owners, np.ones(60)]), np.zeros(60), owners=owners)
    assert asked == drawn
    assert model.billboard_.statement.sampling_probability == 1 / 6
    assert any(0 not in step for step in drawn)


@pytest.mark.parametrize("name", ["record", "user", "group", "winsorised"])
def test_the_units_drawn_send_and_nobody_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is drawn: every sum that reaches the gate is zero, so nothing passes beside the sample."""
    from commonground.gate import SampledReleases
    from commonground.owners import minibatches, winsorised

    for algorithm in (minibatches, winsorised):
        monkeypatch.setattr(algorithm, "noise_multiplier_for", lambda *_, **__: 50.0)
    sums = []
    original = SampledReleases.release

    def nobody(self: SampledReleases, n: int) -> np.ndarray:
        self._sampled = True
        return np.zeros(0, dtype=np.int64)

    monkeypatch.setattr(SampledReleases, "sample", nobody)
    monkeypatch.setattr(SampledReleases, "release", lambda self, s: sums.append(s.value) or original(self, s))
    rng = np.random.default_rng(0)
    X, users = rng.standard_normal((30, 2)), np.arange(30) // 3
    model = cg.JointSGDRegressor(2.0, 1e-3, steps=4, simulation_seed=0, **VARIANTS[name])
    model.fit(X, X.sum(axis=1), owners=users % 2, users=users)
    assert len(sums) == (8 if name == "winsorised" else 4)
    assert not any(np.any(value) for value in sums)


def test_rows_of_any_size_stop_nobodys_fit() -> None:
    """Two equal columns of 2⁴⁰, beside which a ridge is lost in rounding, and columns of 1e200, whose squares overflow."""
    rng = np.random.default_rng(0)
    X, owners = rng.standard_normal((40, 2)), np.arange(40) % 4
    X[owners == 1] = 2.0**40
    X[owners == 2] = 1e200
    book = InMemoryLedger(Budget(1.0, 1e-3))
    model = cg.JointSGDRegressor(1.0, 1e-3, steps=3, ridge=1e-9, fit_intercept=False, simulation_seed=0)
    model.fit(X, rng.standard_normal(40), owners=owners, ledger=book)
    assert np.isfinite(model._of_owners).all()
    assert np.any(model._of_owners[0])


def test_classifier_and_labels_that_are_private(rows: dict[str, Any]) -> None:
    labels, truth = np.where(rows["y"] > 0, "up", "down"), np.where(rows["truth"] > 0, "up", "down")
    model = cg.JointSGDClassifier(("down", "up"), 1.0, 1e-5, simulation_seed=0).fit(
        rows["X"], labels, owners=rows["owners"]
    )
    assert model.score(rows["test"], truth, rows["owners"]) > 0.8
    with pytest.raises(InputError, match="'up' is not among"):
        cg.JointSGDClassifier(("down", "flat")).fit(rows["X"], labels, owners=rows["owners"])


@pytest.mark.parametrize("make", [cg.JointSGDRegressor, cg.JointSGDClassifier])
def test_scikit_learn_habits(make: Any) -> None:
    model = make(epsilon=3.0, unit="user")
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0}, {"delta": 1.0}, {"unit": "owner"}, {"aggregator": "median"}, {"aggregator": "winsorised"},
        {"radius": 0.0}, {"recipe": "best"}, {"sampling_probability": 2.0}, {"unit": "user", "user_level": "group"},
        {"recipe": "paper", "unit": "user", "aggregator": "winsorised"},
    ],
)  # fmt: skip
def test_bad_parameters(bad: dict[str, Any], rows: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        fitted(rows, **bad)


def test_bad_rows(rows: dict[str, Any]) -> None:
    model = fitted(rows)
    for call in (
        lambda: cg.JointSGDRegressor().fit(rows["X"], rows["y"][:-1], owners=rows["owners"]),
        lambda: cg.JointSGDRegressor().fit(
            np.where(rows["X"] > 1, np.nan, rows["X"]), rows["y"], owners=rows["owners"]
        ),
        lambda: cg.JointSGDRegressor(unit="user").fit(rows["X"], rows["y"], owners=rows["owners"]),
        lambda: model.predict(rows["X"][:, :2]),
        lambda: model.predict(rows["X"], owners=[1]),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.warns(PrivacyWarning, match="delta"):
        fitted(rows, delta=0.01)


class _Stop(BaseException):
    pass


def _interrupted(monkeypatch: pytest.MonkeyPatch, after: int, before_writing: bool) -> None:
    """The process ends after so many releases, before or after the last of them is written down."""
    left, write = [after], Journal.write

    def writes(journal: Journal, entry: Entry) -> None:
        left[0] -= 1
        if left[0] == 0 and before_writing:
            raise _Stop
        write(journal, entry)
        if left[0] == 0:
            raise _Stop

    monkeypatch.setattr(Journal, "write", writes)


@pytest.mark.parametrize("before_writing", [True, False])
@pytest.mark.parametrize("settings", [{}, {"unit": "user", "aggregator": "winsorised"}, {"recipe": "paper"}])
def test_an_interrupted_run_ends_as_one_that_was_not(
    settings: dict[str, str], before_writing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, y, owners, users = rng.normal(size=(120, 3)), rng.normal(size=120), np.arange(120) % 4, np.arange(120) // 8
    model = cg.JointSGDRegressor(2.0, 1e-3, steps=12, simulation_seed=1, **settings)  # type: ignore[arg-type]
    whole = model.fit(X, y, owners, users).billboard_.arrays["coefficients"]
    place = tmp_path / "run"
    with monkeypatch.context() as patched:
        _interrupted(patched, 7, before_writing)
        with pytest.raises(_Stop):
            model.fit(X, y, owners, users, checkpoint=place)
    assert place.exists()
    resumed = model.fit(X, y, owners, users, checkpoint=place)
    np.testing.assert_array_equal(resumed.billboard_.arrays["coefficients"], whole)
    assert not place.exists()


def test_a_resumed_run_is_paid_for_once_and_another_one_like_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, y, owners = rng.normal(size=(120, 3)), rng.normal(size=120), np.arange(120) % 4
    ledger = DurableLedger(tmp_path / "budget.db", create=True)
    people = ledger.open_population("records", Budget(4.0, 1e-3))
    model = cg.JointSGDRegressor(2.0, 1e-3, steps=12)
    with monkeypatch.context() as patched:
        _interrupted(patched, 5, True)
        with pytest.raises(_Stop):
            model.fit(X, y, owners, ledger=people, checkpoint=tmp_path / "run")
    once = people.account().booked_rounds
    kept = len(Journal(tmp_path / "run").entries)
    board = model.fit(X, y, owners, ledger=people, checkpoint=tmp_path / "run").billboard_
    assert kept == 4
    assert people.account().booked_rounds == once > 0
    assert board.statement.events[0].name.startswith("clipped gradients, run ")
    model.fit(X, y, owners, ledger=people, checkpoint=tmp_path / "run")
    assert people.account().booked_rounds == 2 * once


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X, y, owners = rng.normal(size=(120, 3)), rng.normal(size=120), np.arange(120) % 4
    with monkeypatch.context() as patched:
        _interrupted(patched, 3, False)
        with pytest.raises(_Stop):
            cg.JointSGDRegressor(2.0, 1e-3, steps=12).fit(X, y, owners, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match="clip_norm"):
        cg.JointSGDRegressor(2.0, 1e-3, steps=12, clip_norm=2.0).fit(X, y, owners, checkpoint=tmp_path / "run")


def test_scikit_learn_knows_what_they_are(rows: dict[str, Any]) -> None:
    labels = np.where(rows["y"] > 0, "yes", "no")
    model = cg.JointSGDClassifier(("no", "yes"), simulation_seed=0).fit(rows["X"], labels, owners=rows["owners"])
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(rows["X"], owners=rows["owners"])) <= {"no", "yes"}
    assert model.score(rows["X"], labels, owners=rows["owners"]) > 0.6
    assert is_classifier(model)
    assert is_regressor(cg.JointSGDRegressor())
