"""Budgets are divided as the plans say, and the page about it is made of them."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share

ROOT = Path(__file__).parents[2]


@given(
    st.lists(st.tuples(st.floats(1e-3, 10.0), st.integers(1, 500)), min_size=1, max_size=8),
    st.floats(0.01, 20.0),
)
def test_all_releases_together_cost_the_budget_and_no_more(shares: list[tuple[float, int]], epsilon: float) -> None:
    budget = Budget(epsilon, 1e-6)
    plan = Plan(tuple(Share(str(at), part, "", repeats) for at, (part, repeats) in enumerate(shares)))
    costs = plan.costs(budget)
    spent = sum(share.repeats * costs[share.name] ** 2 for share in plan)
    assert (1 - 1e-6) * budget.mu**2 <= spent <= budget.mu**2


def test_what_is_left_out_is_left_for_the_others() -> None:
    plan = Plan((Share("mean sum", 0.5, ""), Share("start", 0.3, ""), Share("rounds", 0.2, "", 4)))
    assert plan.without("mean").fractions() == {"start": 0.3 / 0.5, "rounds": 0.2 / 0.5}
    assert plan.where("start", part=0.0).fractions().keys() == {"mean sum", "rounds"}
    assert [share.repeats for share in plan.where("rounds", repeats=9)] == [1, 1, 9]


@pytest.mark.parametrize("name", ["fedrep", "without a mean", "altmin", "sparse"])
def test_any_number_of_rounds_is_paid_for(name: str) -> None:
    """The ledger of a fit refuses what was not declared, so that all rounds end is the test."""
    users, _ = cg.datasets.make_shared_subspace(n_users=60, n_features=6, rank=1, seed=0)
    settings: dict[str, Any] = {"rank": 1, "n_rounds": 40, "keep_heads": False, "simulation_seed": 0}
    if name == "without a mean":
        settings |= {"shared_mean": False, "fit_intercept": False}
    if name == "sparse":
        block = next(users.blocks())
        rows = sparse.csr_array(block.X * (np.abs(block.X) > 0.5))
        users = cg.Users.from_arrays(rows, block.y, np.repeat(np.arange(60), np.diff(block.offsets)))
    statement = (cg.PrivateAltMin if name == "altmin" else cg.PrivateFedRep)(**settings).fit(users).billboard_.statement
    assert statement.epsilon * (1 - 1e-6) <= statement.epsilon_spent <= statement.epsilon


def test_the_page_of_plans_is_made_of_the_plans() -> None:
    page = runpy.run_path(str(ROOT / "benchmarks" / "plans.py"))["page"]()
    assert (ROOT / "docs" / "plans.md").read_text(encoding="utf-8") == page, "run: python benchmarks/plans.py"
