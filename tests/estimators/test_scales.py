"""Sizes that noise would hide are told by name before anything is spent; with public ranges nothing is looked at."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.errors import ScaleWarning, SharingWarning
from commonground.estimators.scales import too_few_for_a_shared_answer
from commonground.ledger import DurableLedger


def rows(n: int, factors: list[float], offsets: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    ids = np.repeat(np.arange(n), 6)
    X = rng.standard_normal((len(ids), len(factors)))
    y = X.sum(axis=1) + 0.5 * rng.standard_normal(len(ids))
    return X * factors + offsets, y, ids


def hidden(
    model: cg.PrivateFedRep | cg.PrivateAltMin | cg.SingleModel, n: int, factors: list[float], offsets: list[float]
) -> list[str]:
    return [str(one) for one in model.hidden_scales(cg.Users.from_arrays(*rows(n, factors, offsets)))]


def test_which_features_are_told() -> None:
    model, none = cg.PrivateFedRep(epsilon=1.0), [0.0] * 5
    assert hidden(model, 1500, [1, 10, 0.1, 1, 3], none) == []
    assert hidden(model, 1500, [1, 1, 5e6, 1, 1], none) == ["'feature 2' is far larger than the others"]
    assert "far smaller" in hidden(model, 1500, [1, 1, 1e-4, 1, 1], none)[0]
    assert hidden(model, 1500, [1] * 5, [0, 0, 0, 5.0, 2015.0]) == ["'feature 4' lies many times its spread from zero"]
    assert hidden(cg.PrivateFedRep(epsilon=1.0, shared_mean=False), 1500, [1] * 5, [0, 0, 0, 0, 2015.0]) == []


def test_who_finds_scales_itself_may_do_so_where_people_are_many() -> None:
    huge = [1, 1, 5e6, 1, 1]
    for model, told in (
        (cg.PrivateFedRep(epsilon=8.0), 0),
        (cg.SingleModel(epsilon=8.0), 0),
        (cg.PrivateAltMin(epsilon=8.0), 1),
    ):
        assert len(hidden(model, 1500, huge, [0.0] * 5)) == told


def test_who_finds_a_centre_itself_may_do_so_where_people_are_many() -> None:
    years = [0.0, 0.0, 0.0, 40.0, 700.0]
    for epsilon, told in ((1.0, 2), (2.0, 1), (8.0, 0)):  # n μ/√d of 159, 314 and 1100
        assert len(hidden(cg.PrivateFedRep(epsilon=epsilon), 1500, [1] * 5, years)) == told
    assert len(hidden(cg.PrivateAltMin(epsilon=8.0), 1500, [1] * 5, years)) == 2


def test_few_people_are_told_what_holds_a_shared_answer() -> None:
    """From public numbers alone."""
    X, y, ids = rows(300, [1] * 6, [0] * 6)
    names = [cg.Column(name) for name in "abcdef"]
    bounded = cg.Schema((cg.Column("who", "person"), cg.Column("y", "label", range=(-9, 9)), *names))
    people = cg.Users.from_arrays(X, y, ids)
    assert "300 people are few" in too_few_for_a_shared_answer(people, 0.09)
    assert too_few_for_a_shared_answer(people, 0.11) == ""
    assert "Only their range holds it" in too_few_for_a_shared_answer(
        cg.Users.from_arrays(X, y, ids, schema=bounded), 0.09
    )
    with pytest.warns(SharingWarning, match="300 people are few"):
        cg.SingleModel(0.3, simulation_seed=0).fit(people)


def test_what_has_a_public_size_is_not_looked_at() -> None:
    X, y, ids = rows(40, [1, 5e6], [0, 1e9])
    schema = cg.Schema(
        (cg.Column("who", "person"), cg.Column("y", "label"), cg.Column("a", scale=2.0), cg.Column("b", range=(0, 2e9)))
    )
    model = cg.SingleModel()
    assert model.hidden_scales(cg.Users.from_arrays(X, y, ids, schema=schema)) == []
    assert len(model.hidden_scales(cg.Users.from_arrays(X, y, ids))) == 2


def test_the_warning_comes_before_the_reservation(tmp_path: object) -> None:
    X, y, ids = rows(60, [1, 1, 5e6], [0, 0, 0])
    people = DurableLedger(f"{tmp_path}/l.db", create=True).open_population("p", Budget(1.0, 1e-6))
    with pytest.raises(ScaleWarning, match="'feature 2' is"):  # warnings are errors in tests
        cg.SingleModel(1.0).fit(X, y, users=ids, ledger=people)
    assert people.account().count == 1, "only the opening"


def test_one_person_does_not_decide() -> None:
    X, y, ids = rows(200, [1, 1, 1], [0, 0, 0])
    X[:6, 1] *= 1e12
    assert cg.SingleModel().hidden_scales(cg.Users.from_arrays(X, y, ids)) == []


@pytest.mark.parametrize("size", [1e-7, 1e7])
@pytest.mark.parametrize("model", [cg.PrivateFedRep(rank=1), cg.SingleModel(), cg.PrivateAltMin(rank=1)])
def test_labels_far_from_one_are_told_where_few_people_leave_their_size_hidden(model: Any, size: float) -> None:
    users, _ = cg.datasets.make_shared_subspace(300, rows_per_user=5, n_features=4, rank=1, noise=0.1, seed=0)
    X, y = zip(*(users.rows_of(person) for person in users.ids.tolist()), strict=True)
    ids = np.repeat(users.ids, [len(rows) for rows in y])
    rows, labels = np.concatenate(X), size * np.concatenate(y)
    people = cg.Users.from_arrays(rows, labels, ids)
    model.set_params(epsilon=1.0, delta=1e-6)
    assert "the label is far" in model.hidden_label(people)
    with pytest.warns(ScaleWarning, match="noise would hide where labels lie for 300 people"):
        clone(model).set_params(simulation_seed=0).fit(people)
    assert model.hidden_label(users) == ""
    assert model.set_params(epsilon=8.0).hidden_label(people) == ""
    label = cg.Column("y", "label", range=(-20.0 * size, 20.0 * size))
    schema = cg.Schema((cg.Column("who", "person"), label, *map(cg.Column, "abcd")))
    ranged = cg.Users.from_arrays(rows, labels, ids, schema=schema)
    assert model.set_params(epsilon=1.0).hidden_label(ranged) == "", "they are learned in units of their range"


@pytest.mark.parametrize("settings", [{}, {"shared_mean": False}, {"shared_mean": False, "fit_intercept": False}])
def test_where_warnings_are_errors_nothing_is_paid_for_one(settings: dict[str, Any], tmp_path: Path) -> None:
    """That sharing does not pay was once said when all of the budget had been spent."""
    users, _ = cg.datasets.make_shared_subspace(300, rows_per_user=10, n_features=10, rank=2, noise=0.1, seed=0)
    book = DurableLedger(tmp_path / "budget.db", create=True).open_population("people", Budget(3.0, 1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SharingWarning)
        with pytest.raises(SharingWarning):
            cg.PrivateFedRep(3, 1.0, **settings).fit(users, ledger=book)
    assert not [body for body, _ in book.events() if json.loads(body)["kind"] == "charge"]


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning", "ignore::commonground.errors.ScaleWarning")
def test_looks_at_numbers_as_large_as_they_get_are_silent() -> None:
    """Of labels of 1.7e308 on both sides of zero a warning of numpy's told."""
    X, y, ids = rows(20, [1.0] * 3, [0.0] * 3)
    X[::2, 0], y[::2] = 1.7e308, 1.7e308
    X[1::2, 0], y[1::2] = -1.7e308, -1.7e308
    people = cg.Users.from_arrays(X, y, ids)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert "far larger" in cg.PrivateFedRep(1).hidden_label(people)
        cg.PrivateFedRep(1).hidden_scales(people)


def test_one_cell_of_a_feature_that_is_mostly_one_value_decides_nothing() -> None:
    X, y, ids = rows(400, [1.0] * 4, [0.0] * 4)
    X[:, 1] = 0.0
    told = []
    for cell in (0.0, 1e6):
        X[5, 1] = cell
        told.append([str(one) for one in cg.PrivateFedRep(epsilon=1.0).hidden_scales(cg.Users.from_arrays(X, y, ids))])
    assert told[0] == told[1]
