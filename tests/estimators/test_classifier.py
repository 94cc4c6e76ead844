"""Yes-or-no labels: probabilities that mean what they say, classes that keep their names, dense like sparse rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.metrics import log_loss, roc_auc_score

import commonground as cg
from commonground.errors import InputError

N, D, M = 4_000, 12, 12


@pytest.fixture(scope="module")
def answers() -> tuple[np.ndarray, ...]:
    """One-hot rows, labels, people, which rows are held out, and true probabilities."""
    rng = np.random.default_rng(0)
    ids, item = np.repeat(np.arange(N), M), rng.integers(0, D, N * M)
    easy, bend = rng.standard_normal(D), 1.5 * rng.standard_normal(D)
    log_odds = 0.5 + easy[item] + 0.8 * rng.standard_normal(N)[ids] + bend[item] * rng.standard_normal(N)[ids]
    p = 1 / (1 + np.exp(-log_odds))
    return np.eye(D)[item], (rng.random(N * M) < p).astype(int), ids, np.arange(N * M) % 4 == 0, p


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_better_than_what_everybody_gets_and_calibrated(answers: tuple[np.ndarray, ...], rows: type) -> None:
    X, y, ids, held, _ = answers
    X = rows(X)
    chances = []
    for seed in range(6):  # of one alone the largest gap below is from 0.06 to 0.12
        model = cg.PrivateFedRepClassifier(1, 2.0, simulation_seed=seed).fit(X[~held], y[~held], users=ids[~held])
        p = model.predict_proba(X[held], users=ids[held])[:, 1]
        shared = 1 / (1 + np.exp(-model.billboard_.predict(X[held])))
        assert roc_auc_score(y[held], p) > roc_auc_score(y[held], shared) + 0.06
        assert log_loss(y[held], p) < log_loss(y[held], shared) - 0.04
        chances.append(p)
    p, came = np.concatenate(chances), np.tile(y[held], len(chances))
    for low in (0.1, 0.3, 0.5, 0.7):
        here = (p >= low) & (p < low + 0.2)
        # What is told as 0.24 came in 14 % (docs/limitations.md); elsewhere it is within 0.04.
        assert abs(came[here].mean() - p[here].mean()) < (0.12 if low == 0.1 else 0.06)


def test_alternating_minimisation_has_log_odds_of_the_same_kind(answers: tuple[np.ndarray, ...]) -> None:
    X, y, ids, held, _ = answers
    model = cg.PrivateAltMin(1, 2.0, loss="logistic", simulation_seed=1).fit(X[~held], y[~held], users=ids[~held])
    p = model.predict_proba(X[held], users=ids[held])[:, 1]
    fedrep = cg.PrivateFedRepClassifier(1, 2.0, simulation_seed=1).fit(X[~held], y[~held], users=ids[~held])
    assert log_loss(y[held], p) < 1.05 * log_loss(y[held], fedrep.predict_proba(X[held], users=ids[held])[:, 1])


def test_habits_of_classifiers(answers: tuple[np.ndarray, ...]) -> None:
    X, y, ids, held, _ = answers
    named = np.where(y == 1, "right", "wrong")
    model = cg.PrivateFedRepClassifier(1, 2.0, classes=("wrong", "right"), simulation_seed=1)
    assert is_classifier(model)
    assert clone(model).get_params() == model.get_params()
    model.fit(X[~held], named[~held], users=ids[~held])
    assert model.classes_.tolist() == ["wrong", "right"]
    p, log_odds = (ask(X[held], users=ids[held]) for ask in (model.predict_proba, model.decision_function))
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert ((p[:, 1] > 0.5) == (log_odds > 0)).all()
    np.testing.assert_array_equal(model.predict(X[held], users=ids[held]), model.classes_[(log_odds > 0).astype(int)])
    assert model.score(X[held], named[held], users=ids[held]) > 0.7
    with pytest.raises(InputError, match="Name yours: classes="):
        cg.PrivateFedRepClassifier().fit(X, named, users=ids)
    with pytest.raises(InputError, match="two or more different labels"):
        cg.PrivateFedRepClassifier(classes=("a",)).fit(X, named, users=ids)


def test_a_newcomer_gets_the_head_that_training_would_have_given(answers: tuple[np.ndarray, ...]) -> None:
    X, y, ids, _, _ = answers
    model = cg.PrivateFedRepClassifier(1, 2.0, simulation_seed=1).fit(X, y, users=ids)
    head = model.billboard_.personalize(X[ids == 7], y[ids == 7])
    np.testing.assert_allclose(head.predict(X[:20]), model.decision_function(X[:20], users=[7] * 20), rtol=1e-9)


def test_the_loss_is_one_of_two() -> None:
    users, _ = cg.datasets.make_shared_subspace(50, 5, 4, 1, seed=0)
    with pytest.raises(InputError, match="'square', or 'logistic'"):
        cg.PrivateFedRep(1, loss="huber").fit(users)
