"""What a person may expect of every estimator, whatever its algorithm."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import commonground as cg
from commonground.errors import InputError, UnknownUserError
from commonground.heads.kinds import ClassHeads, PosteriorHeads
from forgery import rewrite

ESTIMATORS: dict[str, Any] = {
    "PrivateFedRep": cg.PrivateFedRep(rank=2, epsilon=4.0, simulation_seed=1),
    "PrivateFedRep, no mean": cg.PrivateFedRep(
        rank=2, epsilon=4.0, fit_intercept=False, shared_mean=False, simulation_seed=1
    ),
    "PrivateFedRep, paper": cg.PrivateFedRep(
        rank=2, epsilon=4.0, recipe="paper", simulation_seed=1, paper_settings=cg.PaperSettings(n_rounds=2)
    ),
    "PrivateAltMin": cg.PrivateAltMin(rank=2, epsilon=4.0, simulation_seed=1),
    "PrivateAltMin, no mean": cg.PrivateAltMin(
        rank=2, epsilon=4.0, fit_intercept=False, shared_mean=False, simulation_seed=1
    ),
    "PrivateAltMin, logistic": cg.PrivateAltMin(rank=2, epsilon=4.0, loss="logistic", n_rounds=4, simulation_seed=1),
    "PrivateAltMin, huber": cg.PrivateAltMin(rank=2, epsilon=4.0, loss="huber", n_rounds=4, simulation_seed=1),
    "PrivateAltMin, paper": cg.PrivateAltMin(rank=2, epsilon=4.0, recipe="paper", simulation_seed=1),
    "PrivateAltMin, groups": cg.PrivateAltMin(
        rank=2, epsilon=4.0, recipe="paper", simulation_seed=1, paper_settings=cg.AltMinSettings(3, "groups")
    ),
    "SingleModel": cg.SingleModel(epsilon=4.0, simulation_seed=1),
    "SingleModel, own intercepts": cg.SingleModel(epsilon=4.0, own_intercept=True, simulation_seed=1),
    "ExponentialSubspace": cg.ExponentialSubspace(rank=2, epsilon=4.0, n_candidates=64, n_stages=3, simulation_seed=1),
    "ExponentialSubspace, paper": cg.ExponentialSubspace(
        rank=1, epsilon=4.0, recipe="paper", n_candidates=64, simulation_seed=1
    ),
    "PrivateMarginClassifier": cg.PrivateMarginClassifier(
        rank=2, epsilon=4.0, projected_dim=4, n_candidates=64, n_stages=2, simulation_seed=1
    ),
    "PrivateMarginClassifier, paper": cg.PrivateMarginClassifier(
        rank=1, epsilon=4.0, recipe="paper", n_candidates=64, simulation_seed=1
    ),
    **{
        f"PersonalBudgetRidge, {method}": cg.PersonalBudgetRidge(
            method, 1.0, feature_bounds=(-4, 4), label_bounds=(-5, 5), budgets=4.0, simulation_seed=1
        )
        for method in ("statistics", "descent", "reweight", "sample", "uniform")
    },
    "PrivateFedRepClassifier": cg.PrivateFedRepClassifier(2, 4.0, classes=(-1, 1), simulation_seed=1),
    "PrivateFedRepClassifier, three classes": cg.PrivateFedRepClassifier(
        epsilon=4.0, classes=(0, 1, 2), simulation_seed=1
    ),
    "NonPrivateFedRep": cg.NonPrivateFedRep(rank=2),
    "OwnDataOnly": cg.OwnDataOnly(),
    "OwnDataOnly, pooled": cg.OwnDataOnly("pooled"),
}
each = pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS.keys())


def labels_for(estimator: Any, y: np.ndarray) -> np.ndarray:
    """A classifier sees on which side of zero labels are; one of three classes, whether they are beyond -1/2 and 1/2."""
    if not is_classifier(estimator):
        return y
    several = len(getattr(estimator, "classes", ())) > 2
    return np.digitize(y, [-0.5, 0.5]).astype(float) if several else np.where(y > 0, 1.0, -1.0)


@pytest.fixture
def rows(request: pytest.FixtureRequest, people: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, ids = people
    called = getattr(request.node, "callspec", None)
    estimator = called.params.get("estimator") if called else None
    return X, y if estimator is None else labels_for(estimator, y), ids


def numbers(model: Any) -> Any:
    """What a regressor predicts; for a classifier, the number that decides."""
    return getattr(model, "decision_function", model.predict)


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ragged people with text ids, rows in random order."""
    rng = np.random.default_rng(0)
    ids = np.array([f"user-{j}" for j in rng.integers(0, 150, 1500)])
    X = rng.standard_normal((1500, 8))
    heads = {user: rng.standard_normal(2) for user in np.unique(ids)}
    y = np.array([x[:2] @ heads[user] for x, user in zip(X, ids, strict=True)]) + 0.1 * rng.standard_normal(1500)
    return X, y, ids


def fit(estimator: Any, *args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cg.errors.RecipeWarning)
        return clone(estimator).fit(*args, **kwargs)


@each
def test_init_only_stores(estimator: Any) -> None:
    twin = clone(estimator)
    assert str(twin.get_params()) == str(estimator.get_params())
    assert [name for name in vars(twin) if name.endswith("_")] == []
    with pytest.raises(NotFittedError):
        twin.predict(np.zeros((1, 8)))


@each
def test_arrays_frames_and_users_give_the_same_model(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y, user_id=ids)
    models = [
        fit(estimator, X, y, users=ids),
        fit(estimator, cg.Users.from_arrays(X, y, ids)),
        fit(estimator, cg.Users.from_table(frame)),
    ]
    for model in models[1:]:
        np.testing.assert_allclose(model.predict(X, users=ids), models[0].predict(X, users=ids), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(models[2].predict(frame[list("hgfedcba")], users=ids), models[0].predict(X, users=ids))


@each
def test_fitting_twice_is_fitting_once(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    model = clone(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cg.errors.RecipeWarning)
        assert model.fit(X[:700], y[:700], users=ids[:700]) is model
        model.fit(X, y, users=ids)
    np.testing.assert_array_equal(model.billboard_.embedding, fit(estimator, X, y, users=ids).billboard_.embedding)


@each
def test_unknown_people(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    model = fit(estimator, X, y, users=ids)
    strangers = numbers(model)(X[:3], users=["nobody", ids[1], None])
    np.testing.assert_allclose(strangers[[0, 2]], model.billboard_.predict(X[[0, 2]]))
    assert np.abs(strangers).max() < 1e3, "with few people the noise hides everything; it must not explode"
    if model.billboard_.rank > 0 or model.billboard_.spread is not None:
        with pytest.raises(InputError, match="whose rows are these"):
            numbers(model)(X[:3])
    else:
        np.testing.assert_array_equal(numbers(model)(X[:3]), model.billboard_.predict(X[:3]))
    with pytest.raises(UnknownUserError, match="'nobody'"):
        model.predict(X[:3], users=["nobody", ids[1], ids[2]], strict=True)


@each
def test_a_newcomer_with_the_same_rows_gets_the_same_head(estimator: Any, rows: Any, tmp_path: Path) -> None:
    """To the last bit, and from a board that was saved and loaded."""
    X, y, ids = rows
    model = fit(estimator, X, y, users=ids)
    board = cg.Billboard.load(model.billboard_.save(tmp_path / "board"))
    assert board.head_kind == model.billboard_.head_kind
    for person in model.user_ids_[:20]:
        mine = ids == person
        head = board.personalize(X[mine], y[mine])
        at = int(np.flatnonzero(model.user_ids_ == person)[0])
        assert head.weights.tobytes() == model.heads_[at].tobytes()
        if at not in model.own_models_.people:
            assert head.intercept == board.intercept + model.own_intercepts_[at]
        assert head.predict(X[mine]).tobytes() == numbers(model)(X[mine], users=ids[mine]).tobytes()


@each
def test_boards_from_before_heads_had_a_name_fit_the_heads_of_their_estimator(
    estimator: Any, rows: Any, tmp_path: Path
) -> None:
    X, y, ids = rows
    board = fit(estimator, X, y, users=ids).billboard_
    if isinstance(board.head_kind, PosteriorHeads | ClassHeads):
        pytest.skip("posterior heads have always had a name")
    loss, choice = getattr(board.head_kind, "loss", "square"), getattr(board.head_kind, "local_choice", False)

    def older(document: dict[str, Any]) -> None:
        del document["heads"]
        document.update(schema_version=4, loss=loss, local_choice=choice)

    again = cg.Billboard.load(rewrite(board.save(tmp_path / "board"), older))
    assert again.head_kind == board.head_kind


@each
def test_everybodys_heads_are_one_table_that_numpy_takes_for_an_array(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    model = fit(estimator, X, y, users=ids)
    heads, rank = model.heads_, model.billboard_.head_size
    assert np.asarray(heads).shape == heads.shape == (len(heads), rank) == (len(model.user_ids_), rank)
    np.testing.assert_array_equal(heads[3], np.asarray(heads)[3])
    np.testing.assert_array_equal(heads[2:5], np.asarray(heads)[2:5])
    np.testing.assert_array_equal(heads[np.arange(len(heads)) > 7], np.asarray(heads)[8:])
    np.testing.assert_array_equal(heads @ np.eye(rank), heads.weights)
    assert model.own_intercepts_ is heads.intercepts
    assert model.own_models_ is heads.own
    assert "private" in repr(heads)
    if "keep_heads" in estimator.get_params():
        without = fit(clone(estimator).set_params(keep_heads=False), X, y, users=ids)
        assert (without.heads_, without.own_intercepts_, without.own_models_) == (None, None, None)


@each
def test_save_and_load(estimator: Any, rows: Any, tmp_path: Path) -> None:
    X, y, ids = rows
    board = fit(estimator, X, y, users=ids).billboard_
    again = cg.Billboard.load(board.save(tmp_path / "board"))
    np.testing.assert_array_equal(again.predict(X), board.predict(X))
    assert str(again.statement) == str(board.statement)


@each
def test_statement_and_spend(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    statement = fit(estimator, X, y, users=ids).billboard_.statement
    assert statement.unit == "person"
    assert statement.relation == "replace-one"
    if statement.events:
        assert 0 < statement.epsilon_spent <= statement.epsilon == 4.0
        assert cg.accounting.events.epsilon_by_pld(statement.events, statement.delta or 1e-12) <= 4.0 * (1 + 1e-3)
        assert statement.simulated
        assert str(statement).startswith("SIMULATED")
    else:
        assert statement.epsilon in (0.0, np.inf)


@each
def test_pipelines(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    pipeline = make_pipeline(FunctionTransformer(np.tanh), clone(estimator))
    step = pipeline.steps[-1][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cg.errors.RecipeWarning)
        pipeline.fit(X, y, **{f"{step}__users": ids})
    assert pipeline.predict(X, users=ids).shape == (1500,)


def needs_people(estimator: Any, X: np.ndarray, y: np.ndarray) -> bool:
    with pytest.raises(InputError):
        fit(estimator, X, y)
    return True


@each
def test_bad_input(estimator: Any, rows: Any) -> None:
    X, y, ids = rows
    model = fit(estimator, X, y, users=ids)
    assert estimator.__class__ is cg.PersonalBudgetRidge or needs_people(estimator, X, y)  # else each row is a person
    for bad_call in (
        lambda: fit(estimator, X),
        lambda: fit(estimator, X, y, users=ids[:-1]),
        lambda: fit(estimator, X, y, users=["same"] * 1500),
        lambda: fit(estimator, np.where(X > 3, np.nan, X), y, users=ids),
        lambda: fit(estimator, cg.Users.from_arrays(X, y, ids), y),
        lambda: model.predict(X[:, :5], users=ids),
        lambda: model.predict(X, users=ids[:5]),
    ):
        with pytest.raises(InputError):
            bad_call()


@pytest.mark.parametrize("name", ["PrivateFedRep", "PrivateAltMin", "NonPrivateFedRep"])
@pytest.mark.parametrize("rank", [-1, 8, 9, 1.5, "two", True])
def test_impossible_ranks(name: str, rank: Any, rows: Any) -> None:
    X, y, ids = rows
    with pytest.raises(InputError, match="rank of"):
        getattr(cg, name)(rank=rank).fit(X, y, users=ids)


@pytest.mark.parametrize("make", [cg.PrivateFedRep, cg.PrivateAltMin, cg.SingleModel])
def test_a_large_delta_warns(make: Any, rows: Any) -> None:
    X, y, ids = rows
    with pytest.warns(cg.errors.PrivacyWarning, match="delta"):
        make(delta=0.1).fit(X, y, users=ids)


@pytest.mark.parametrize("make", [cg.PrivateFedRep, cg.PrivateAltMin, cg.SingleModel])
@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (np.nan, 1e-6), (1, 0), (1, 1)])
def test_impossible_budgets(make: Any, epsilon: float, delta: float, rows: Any) -> None:
    X, y, ids = rows
    with pytest.raises(InputError, match=r"epsilon|delta"):
        make(epsilon=epsilon, delta=delta).fit(X, y, users=ids)
