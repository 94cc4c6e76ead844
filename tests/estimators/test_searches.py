"""scikit-learn's searches do not betray anybody: each fit is charged to a ledger, or a warning says what all have cost."""

import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_mu
from commonground.errors import BudgetError, PrivacyWarning
from commonground.ledger import DurableLedger
from commonground.tally import tally

RNG = np.random.default_rng(0)
IDS = np.repeat(np.arange(150), 6)
X = RNG.standard_normal((900, 3))
Y = X[:, 0] + 0.1 * RNG.standard_normal(900)
FOLDS = KFold(3, shuffle=True, random_state=0)


@pytest.fixture(autouse=True)
def nobody_has_paid() -> None:
    tally.forget()


def said(run: object) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run()  # type: ignore[operator]
    return [str(one.message) for one in told if issubclass(one.category, PrivacyWarning)]


def test_a_cross_validation_says_what_it_has_cost() -> None:
    with_people = np.column_stack([IDS, X])
    told = said(lambda: cross_val_score(cg.SingleModel(0.5, user=0), with_people, Y, cv=FOLDS))
    assert [f"fitted {n} times" in words for n, words in zip((2, 3), told, strict=True)] == [True, True]
    last = float(told[-1].split("ε = ")[1].split()[0])
    assert 0.5 * 3**0.5 < last < 1.5


def test_a_search_says_what_it_has_cost() -> None:
    with_people = np.column_stack([IDS, X])
    told = said(
        lambda: GridSearchCV(
            cg.PrivateFedRep(1, 0.5, n_rounds=1, user=0), {"shared_mean": [True, False]}, cv=FOLDS, scoring="r2"
        ).fit(with_people, Y)
    )
    assert "fitted 7 times" in told[-1]  # two settings, three folds, and the best again
    assert not said(
        lambda: cross_val_score(cg.SingleModel(0.5, user=0, simulation_seed=0), with_people, Y, cv=FOLDS)
    ), "simulated noise protects nobody, and nobody pays"


@pytest.mark.filterwarnings("ignore::commonground.errors.SharingWarning")
@pytest.mark.parametrize("routed", [False, True])
def test_a_ledger_is_charged_for_every_fold_and_refuses_when_it_ends(tmp_path: Path, routed: bool) -> None:
    payer = DurableLedger(tmp_path / "ledger.db", create=True).open_population("people", Budget(1.0, 1e-6))
    params = {"users": IDS, "ledger": payer}
    with sklearn.config_context(enable_metadata_routing=routed):
        model = cg.SingleModel(0.5)
        if routed:
            model = model.set_fit_request(users=True, ledger=True).set_score_request(users=True)
        told = said(lambda: cross_val_score(model, X, Y, cv=FOLDS, params=params, error_score="raise"))
        assert not told, "the ledger keeps count"
        kinds = [json.loads(body)["kind"] for body, _ in payer.events()]
        assert kinds.count("reserve") == 3
        one = Fraction(gaussian_mu(0.5, 1e-6)) ** 2
        assert 2.9 * one < payer.account().booked <= 3 * one
        with pytest.raises(BudgetError):
            cross_val_score(model, X, Y, cv=FOLDS, params=params, error_score="raise")
        assert payer.account().booked <= payer.account().limit
