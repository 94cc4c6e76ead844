"""scikit-learn to the letter: its own checks, and people who cannot get lost on the way through its tools."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import commonground as cg
from commonground.data.ids import mostly_unknown
from commonground.errors import InputError

pytestmark = pytest.mark.slow

# Checks of scikit-learn's that do not fit, each with why. They make rows of random numbers; column 0 says whose a row is.
ID_COLUMN = "column 0 holds ids: what is checked of it is said in words about ids"
EXPECTED = {
    "check_complex_data": ID_COLUMN,
    "check_dtype_object": ID_COLUMN,
    "check_estimators_empty_data_messages": ID_COLUMN,
    "check_fit2d_1feature": "the one column is ids, and no feature is left",
    "check_fit2d_1sample": "refused, as it should be, but for being one person: a guarantee is for each among many",
    "check_supervised_y_2d": "labels in a column of a matrix are refused, not flattened with a warning",
    "check_regressors_train": "200 people and a privacy budget of 1: R² above 0.5 is not to be had",
}
ONE_FEATURE = dict.fromkeys(
    (
        "check_estimators_overwrite_params",
        "check_estimators_fit_returns_self",
        "check_readonly_memmap_input",
        "check_fit_idempotent",
        "check_fit_check_is_fitted",
        "check_n_features_in",
    ),
    "one feature is left beside the ids, and a shared direction needs two",
)


def expected(estimator: Any) -> dict[str, str]:
    return EXPECTED if isinstance(estimator, cg.SingleModel) else EXPECTED | ONE_FEATURE


@pytest.mark.filterwarnings("ignore")  # few people: what is said of it is tested elsewhere
@parametrize_with_checks(
    [
        cg.SingleModel(user=0, simulation_seed=0),
        cg.PrivateFedRep(1, user=0, n_rounds=2, simulation_seed=0),
        cg.PersonalBudgetRidge(
            user=0, feature_bounds=(-10, 10), label_bounds=(-300, 300), budgets=1.0, simulation_seed=0
        ),
        cg.OwnDataOnly(user=0),
    ],
    expected_failed_checks=expected,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """People with a head each on one direction; what is shared by all is next to nothing."""
    rng = np.random.default_rng(0)
    people = np.repeat([f"p{j:04}" for j in range(1_500)], 8)
    X = pd.DataFrame(rng.standard_normal((len(people), 4)), columns=list("abcd"))
    heads = np.repeat(rng.standard_normal(1_500), 8)
    X["y"] = heads * (X.a + X.b) + 0.1 * rng.standard_normal(len(people))
    return X.assign(uid=people).sample(frac=1.0, random_state=0)


MODEL = cg.PrivateFedRep(1, 8.0, user="uid", fit_intercept=False, simulation_seed=0)


def test_people_in_a_column_are_people(rows: pd.DataFrame) -> None:
    X, y = rows.drop(columns="y"), rows.y
    model = clone(MODEL).fit(X, y)
    plain = cg.PrivateFedRep(1, 8.0, fit_intercept=False, simulation_seed=0)
    plain.fit(X.drop(columns="uid"), y, users=X.uid)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X.drop(columns="uid"), users=X.uid))
    assert model.score(X, y) > 0.9
    assert list(model.feature_names_in_) == ["a", "b", "c", "d", "uid"]
    assert model.n_features_in_ == 5
    assert list(plain.feature_names_in_) == ["a", "b", "c", "d"]
    assert plain.n_features_in_ == 4
    assert model.billboard_.feature_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(model.predict(X[["uid", "d", "c", "b", "a"]]), model.predict(X))
    plain.fit(X.drop(columns="uid").to_numpy(), y.to_numpy(), users=X.uid.to_numpy())
    assert not hasattr(plain, "feature_names_in_")


def test_scorers_searches_and_pipelines_keep_people(rows: pd.DataFrame) -> None:
    X, y = rows.drop(columns="y"), rows.y
    scores = cross_val_score(MODEL, X, y, scoring="neg_mean_squared_error", cv=2)
    assert (scores > -0.3).all()  # the shared part alone misses 2.0
    assert np.mean((cross_val_predict(MODEL, X, y, cv=2) - y) ** 2) < 0.3
    scaled = make_column_transformer(
        (StandardScaler(), list("abcd")), remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scaled.set_output(transform="pandas"), MODEL)
    assert pipeline.fit(X, y).score(X, y) > 0.9
    search = GridSearchCV(MODEL, {"rank": [1, 2]}, cv=2, scoring="r2").fit(X, y)
    assert search.best_score_ > 0.8


def test_rows_without_people_are_an_error_where_people_have_heads(rows: pd.DataFrame) -> None:
    X, y, people = rows[list("abcd")], rows.y, rows.uid
    model = cg.PrivateFedRep(1, 8.0, simulation_seed=0).fit(X, y, users=people)
    for ask in (lambda: model.predict(X), lambda: model.score(X, y)):
        with pytest.raises(InputError, match=r"whose rows are these.*user='column'.*billboard_\.predict"):
            ask()
    assert model.billboard_.predict(X).shape == (len(X),)
    shared_only = cg.PrivateFedRep(1, 8.0, keep_heads=False, simulation_seed=0).fit(X, y, users=people)
    np.testing.assert_array_equal(shared_only.predict(X), shared_only.billboard_.predict(X))
    one_for_all = cg.SingleModel(simulation_seed=0).fit(X, y, users=people)
    assert one_for_all.predict(X).shape == (len(X),)


def test_kinds_are_told() -> None:
    assert is_regressor(MODEL)
    assert not is_classifier(MODEL)
    classifier = cg.PrivateMarginClassifier()
    assert is_classifier(classifier)
    assert not is_regressor(classifier)


@pytest.mark.parametrize(
    ("X", "user", "words"),
    [
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), "uid", "no column of X; there are .'a', 'b'"),
        (np.ones((3, 2)), "uid", "X is an array without names"),
        (np.ones((3, 2)), 2, "user=2 is no column of X"),
        (np.ones((3, 2)), True, "without names"),
        (np.ones(3), 0, "Reshape your data"),
        (np.array([[1.0, 2.0], [np.nan, 2.0]]), 0, "row 1 belongs to nobody"),
    ],
)
def test_a_column_that_is_none(X: Any, user: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cg.PrivateFedRep(1, user=user).fit(X, np.ones(len(X)))


def test_people_are_not_given_twice(rows: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="given twice"):
        clone(MODEL).fit(rows.drop(columns="y"), rows.y, users=rows.uid)


def test_ids_of_an_array_of_objects_stay_what_they_are(rows: pd.DataFrame) -> None:
    X, y = rows[["a", "b", "uid"]], rows.y
    as_objects = cg.PrivateFedRep(1, 8.0, user=2, simulation_seed=0).fit(X.to_numpy(dtype=object), y)
    assert "p0000" in as_objects.user_ids_


@pytest.mark.parametrize("estimator", [cg.PrivateFedRep(epsilon=8.0), cg.PrivateFedRepClassifier(epsilon=8.0)])
def test_people_in_place_of_rows_are_told_what_takes_them(estimator: Any) -> None:
    """``fit`` takes people, so whoever tries ``score`` with them should hear what does."""
    rng = np.random.default_rng(0)
    X, y, ids = rng.normal(size=(300, 3)), np.arange(300) % 2, np.arange(300) // 5
    people = cg.Users.from_arrays(X, y, ids)
    model = estimator.fit(people)
    for ask in (model.predict, model.score):
        with pytest.raises(cg.errors.InputError, match=r"take rows, not people.*evaluate\(users\)"):
            ask(people)
    with pytest.raises(cg.errors.InputError, match="score needs y"):
        model.score(X, users=ids)
    told = repr(model.billboard_)
    assert told.startswith("<Billboard: Private FedRep, 60 people, 3 features, ")
    assert told.endswith("ε = 8>")
    assert "array" not in told, "a page of numbers tells nobody anything"


def test_nearly_everybody_is_not_everybody() -> None:
    unknown = np.arange(1_000) > 2
    assert mostly_unknown(unknown).startswith("Nearly all of the rows (997 of 1,000)")
    assert mostly_unknown(unknown[3:]).startswith("100% of the rows (997 of 997)")
