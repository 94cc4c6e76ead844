"""Everybody's own ε: nobody spends more than hers, who has none takes no part, and mistakes are named."""

from typing import Any

import dp_accounting
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import commonground as cg
from commonground.accounting.gaussian import gaussian_epsilon, gaussian_mu, gaussian_mus
from commonground.accounting.personal import PersonalBudgets, cost_factor
from commonground.clipping import rounding_margin
from commonground.errors import InputError, UnknownUserError

DELTA = 1e-6
LEARNERS = {
    "fedrep": cg.PrivateFedRep(2, delta=DELTA, n_rounds=3, simulation_seed=1),
    "single": cg.SingleModel(delta=DELTA, simulation_seed=1),
}


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(0.0), st.floats(1e-4, 20)), min_size=1, max_size=20))
def test_many_budgets_at_once_are_as_private_as_one_by_one(epsilons: list[float]) -> None:
    for epsilon, mu in zip(epsilons, gaussian_mus(np.array(epsilons), DELTA), strict=True):
        assert gaussian_epsilon(mu, DELTA) <= epsilon
        assert mu == pytest.approx(gaussian_mu(epsilon, DELTA), rel=1e-9) if epsilon > 0 else mu == 0.0


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 8)), min_size=2, max_size=6).filter(any),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=12),
)
def test_what_everybody_spends_stays_within_her_own_budget(epsilons: list[float], shares: list[float]) -> None:
    """Any split of the largest budget over releases, composed person by person by an accountant that is not ours."""
    budgets = PersonalBudgets(np.array(epsilons), DELTA)
    parts = budgets.largest.split({str(at): share / sum(shares) for at, share in enumerate(shares)})
    for epsilon, weight in zip(epsilons, budgets.weights, strict=True):
        factor = cost_factor(weight, len(epsilons))
        mus = [mu * factor for mu in parts.values()]
        assert gaussian_epsilon(float(np.sqrt(np.square(mus).sum())), DELTA) <= epsilon
        if factor == 0.0:
            continue
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
        for mu in mus:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
        assert accountant.get_epsilon(DELTA) <= epsilon * 1.01 + 0.02  # its discretisation rounds up


def test_weights_leave_room_for_rounding_and_add_up_exactly() -> None:
    epsilons = cg.datasets.segmented_budgets(5000)
    weights = PersonalBudgets(epsilons, DELTA).weights
    mus = gaussian_mus(epsilons, DELTA)
    part = weights < 1
    assert (weights[part] + rounding_margin(5000) <= mus[part] / mus.max()).all()
    np.testing.assert_allclose(weights, mus / mus.max(), atol=2.0**-20 + rounding_margin(5000))
    np.testing.assert_array_equal(weights * 2**20, np.floor(weights * 2**20))


@pytest.fixture(scope="module")
def people() -> tuple[cg.Users, np.ndarray]:
    users, _ = cg.datasets.make_shared_subspace(n_users=400, n_features=6, seed=1)
    return users, np.where(np.arange(400) % 10 == 0, 0.0, cg.datasets.segmented_budgets(400, epsilons=(0.5, 1.0, 4.0)))


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
def test_a_fit_spends_on_each_what_she_allows(learner: Any, people: Any) -> None:
    users, budgets = people
    model = learner.set_params(budgets=budgets).fit(users)
    spent = np.array([model.spent(user) for user in users.ids[:60]])
    assert (spent <= budgets[:60]).all()
    assert (spent >= 0.999 * budgets[:60]).all(), "budget is left unused"
    statement = model.billboard_.statement
    assert statement.epsilon == budgets.max()
    assert statement.budgets is not None
    assert statement.budgets["taking no part"] == 40
    assert "ε_i of her own" in str(statement)
    assert "40 take no part" in str(statement)
    with pytest.raises(UnknownUserError, match="'nobody'"):
        model.spent("nobody")


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
def test_who_takes_no_part_moves_nothing_and_still_gets_a_head(learner: Any, people: Any) -> None:
    users, budgets = people
    block = next(users.blocks())
    X, y = block.X.copy(), block.y.copy()
    X[:10], y[:10] = 1e6 * X[:10], -1e9  # person 0, whose budget is 0
    others = cg.Users.from_arrays(X, y, np.repeat(np.arange(400), 10))
    models = [learner.set_params(budgets=budgets).fit(people) for people in (users, others)]
    np.testing.assert_array_equal(models[0].billboard_.embedding, models[1].billboard_.embedding)
    np.testing.assert_array_equal(models[0].billboard_.mean, models[1].billboard_.mean)
    if models[0].billboard_.rank:
        assert np.abs(models[0].heads_[0]).max() > 0


def test_equal_budgets_are_one_budget(people: Any) -> None:
    users, _ = people
    alike = cg.SingleModel(budgets=dict.fromkeys(users.ids.tolist(), 2.0), simulation_seed=1).fit(users)
    one = cg.SingleModel(2.0, simulation_seed=1).fit(users)
    np.testing.assert_array_equal(alike.billboard_.mean, one.billboard_.mean)
    assert alike.spent(3) == one.spent(3) == one.billboard_.statement.epsilon_spent


def test_budgets_come_from_a_column(people: Any, tmp_path: Any) -> None:
    users, budgets = people
    block = next(users.blocks())
    frame = pd.DataFrame(block.X, columns=list("abcdef")).assign(
        y=block.y, user_id=np.repeat([f"p{j}" for j in range(400)], 10), wish=np.repeat(budgets, 10)
    )
    frame = frame.sample(frac=1.0, random_state=0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    for source in (frame, tmp_path / "t.csv", tmp_path / "t.parquet"):
        read = cg.Users.from_table(source, budget="wish")
        assert read.feature_names == tuple("abcdef")
        assert read.budgets is not None
        np.testing.assert_allclose(read.budgets, [budgets[int(user[1:])] for user in read.ids])
        model = cg.SingleModel(simulation_seed=1).fit(read)
        assert model.spent("p1") <= budgets[1]
    with pytest.raises(InputError, match="'paper' knows no personal budgets"):
        cg.PrivateFedRep(2, recipe="paper").fit(read)
    frame.iloc[5, frame.columns.get_loc("wish")] = 3.3
    with pytest.raises(InputError, match="several values in column 'wish'"):
        cg.Users.from_table(frame, budget="wish")
    with pytest.raises(InputError, match="wishes"):
        cg.Users.from_table(frame, budget="wishes")


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ({0: 1.0}, "lacks 399 of 400 people"),
        (np.ones(3), r"shape \(3,\)"),
        (np.full(400, -1.0), "at least 0.0001, or 0"),
        (np.full(400, np.nan), "at least 0.0001, or 0"),
        (np.full(400, np.inf), "at least 0.0001, or 0"),
        (np.zeros(400), "nobody takes part"),
        ("epsilon", "must be numbers"),
    ],
)
def test_strange_budgets_are_refused(budgets: Any, message: str, people: Any) -> None:
    with pytest.raises(InputError, match=message):
        cg.SingleModel(budgets=budgets).fit(people[0])
