"""Budgets are public: the statement tells the one that is not known, and only through the size of its noise."""

import numpy as np
import pytest

import commonground as cg
from commonground.audit.own_budgets import read_off
from commonground.errors import InputError


@pytest.mark.parametrize("hers", [0.05, 0.7, 2.0])
def test_the_last_budget_is_read_off_the_statement(hers: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    y = X @ [0.2, 0.3, 0.1]
    budgets = np.r_[rng.uniform(0.1, 2.0, 58), 2.0, hers]
    model = cg.PersonalBudgetRidge(
        "reweight", alpha=1.0, feature_bounds=(0, 1), label_bounds=(0, 1), budgets=budgets, simulation_seed=0
    ).fit(X, y)
    assert read_off(model.billboard_, 1.0, budgets[:-1]) == pytest.approx(hers, abs=1e-3)
    with pytest.raises(InputError, match="59 other budgets"):
        read_off(model.billboard_, 1.0, budgets)
