"""Everybody's own ε: nobody spends more than hers, who has none takes no part, and mistakes are named."""

from typing import Any

import dp_accounting
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.accounting.gaussian import gaussian_epsilon, gaussian_mu, gaussian_mus
from commonground.accounting.personal import PersonalBudgets
from commonground.clipping.bounded import rounding_margin
from commonground.errors import InputError, UnknownUserError
from commonground.estimators.own_budgets import personal_budgets
from commonground.ledger import DurableLedger, InMemoryLedger

DELTA = 1e-6
LEARNERS = {
    "fedrep": cg.PrivateFedRep(2, delta=DELTA, n_rounds=3, simulation_seed=1),
    "altmin": cg.PrivateAltMin(2, delta=DELTA, n_rounds=3, simulation_seed=1),
    "single": cg.SingleModel(delta=DELTA, simulation_seed=1),
}


def budgets_of(epsilons: np.ndarray) -> PersonalBudgets:
    n = len(epsilons)
    found = personal_budgets(epsilons, cg.Users.from_arrays(np.zeros((n, 1)), np.zeros(n), np.arange(n)), DELTA)
    assert found is not None
    return found


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
    budgets = budgets_of(np.array(epsilons))
    parts = budgets.largest.split({str(at): share / sum(shares) for at, share in enumerate(shares)})
    events = [GaussianEvent(name, mu, mu, 1.0, entries=1000, simulated=False) for name, mu in parts.items()]
    for person, (epsilon, weight) in enumerate(zip(epsilons, budgets.weights, strict=True)):
        assert budgets.spent(person, events) <= epsilon
        if weight == 0.0:
            continue
        accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-3)
        for event in events:
            accountant.compose(dp_accounting.GaussianDpEvent(1 / (weight * event.mu)))
        assert accountant.get_epsilon(DELTA) <= epsilon * 1.01 + 0.02  # its discretisation rounds up


def test_the_samplers_own_rounding_is_counted() -> None:
    """OpenDP rounds to its grid whatever a person's weight, and states the cost of that, too: nobody's is above her own."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    epsilons = np.full(50, 0.1)
    epsilons[0] = 1.0516874627e-4
    budgets = budgets_of(epsilons)
    entries, mu = 45_000, budgets.largest.mu
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=entries)
    measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=-40)
    stated = np.sqrt(2 * measurement.map(budgets.weights[0] * mu))
    assert (
        gaussian_epsilon(stated, DELTA)
        <= budgets.spent(0, [GaussianEvent("x", mu, mu, 1.0, entries, False)])
        <= epsilons[0]
    )


def test_weights_leave_room_for_rounding_and_add_up_exactly() -> None:
    epsilons = cg.datasets.segmented_budgets(5000)
    weights = budgets_of(epsilons).weights
    mus = gaussian_mus(epsilons, DELTA)
    part = weights < 1
    assert (weights[part] + rounding_margin(5000) <= mus[part] / mus.max()).all()
    np.testing.assert_allclose(weights, mus / mus.max(), atol=2.0**-19 + rounding_margin(5000))
    np.testing.assert_array_equal(weights * 2**20, np.floor(weights * 2**20))


def test_room_for_rounding_grows_with_the_number_of_people() -> None:
    epsilons = np.where(np.arange(3_000_000) % 2, 0.3, 1.0)
    mus = gaussian_mus(np.array([0.3, 1.0]), DELTA)
    weight = budgets_of(epsilons).weights[1]
    assert weight + rounding_margin(3_000_000) <= mus[0] / mus[1]


def test_every_block_has_its_own_peoples_weights() -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=200, n_features=4, seed=1)
    weights = np.linspace(0.1, 1.0, 200)
    blocks = list(users.weighted(weights).blocks(max_bytes=4000))
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([block.person_weights for block in blocks]), weights)


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
    with pytest.raises(UnknownUserError, match="1000000"):
        model.spent(1_000_000)
    with pytest.raises(InputError, match="type str"):
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
        own, shared = models[0].predict(X[10:20], users=[0] * 10), models[0].billboard_.predict(X[10:20])
        assert np.abs(own - shared).max() > 0


def test_who_takes_no_part_does_not_even_move_the_rounding() -> None:
    """Whatever rows she has, and however many: all others' sums are added in the same order, in the same blocks."""
    rng = np.random.default_rng(0)
    weights = np.where(rng.random(300) < 0.2, 0.0, rng.integers(1, 2**20, 300) / 2**20)
    absent = np.flatnonzero(weights == 0)
    sizes = rng.integers(1, 9, 300)
    boards, edges = [], []
    for change in range(4):
        if change:
            sizes[absent] = rng.integers(1, 40, len(absent))
        ids = np.repeat(np.arange(300), sizes)
        draw = np.random.default_rng(1)
        X, y = np.empty((len(ids), 5)), np.empty(len(ids))
        for person in range(300):
            mine = ids == person
            source = rng if weights[person] == 0 else draw  # the others' rows are the same each time
            X[mine] = source.standard_normal((mine.sum(), 5)) * (1e3 if weights[person] == 0 else 1)
            y[mine] = source.standard_normal(mine.sum())
        users = cg.Users.from_arrays(X, y, ids)
        edges.append([block.first for block in users.weighted(weights).blocks(max_bytes=6000)])
        budgets = np.where(weights > 0, 2.0 + weights, 0.0)
        board = cg.PrivateFedRep(2, budgets=budgets, n_rounds=3, simulation_seed=1).fit(users).billboard_
        boards.append(np.concatenate([board.embedding.ravel(), board.mean]))
    assert edges == [edges[0]] * 4
    assert len(edges[0]) > 3
    for board in boards[1:]:
        np.testing.assert_array_equal(board, boards[0])


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
        assert all(model.spent(f"p{j}") <= budgets[j] for j in range(0, 400, 37))
        assert model.spent(f"p{np.argmin(budgets)}") <= budgets.min()
    with pytest.raises(InputError, match="recipe='paper' has no version for personal budgets"):
        cg.PrivateFedRep(2, recipe="paper").fit(read)
    frame.iloc[5, frame.columns.get_loc("wish")] = 3.3
    with pytest.raises(InputError, match="several values in column 'wish'"):
        cg.Users.from_table(frame, budget="wish")
    with pytest.raises(InputError, match="wishes"):
        cg.Users.from_table(frame, budget="wishes")


def test_everybody_gets_her_own_however_budgets_are_written(people: Any) -> None:
    """A pandas Series goes by its index; a bare list needs an order that the caller can see."""
    rng = np.random.default_rng(0)
    X, y, ids = rng.standard_normal((60, 3)), rng.standard_normal(60), np.repeat(["zoe", "amy", "bob"], 20)
    agreed = {"amy": 0.1, "bob": 1.0, "zoe": 4.0}
    for budgets in (agreed, pd.Series(agreed)):
        model = cg.SingleModel(budgets=budgets, simulation_seed=1).fit(X, y, users=ids)
        assert all(0.99 * epsilon <= model.spent(user) <= epsilon for user, epsilon in agreed.items())
    with pytest.raises(InputError, match="whose is which"):
        cg.SingleModel(budgets=[0.1, 1.0, 4.0]).fit(X, y, users=ids)


def test_what_was_promised_does_not_change_afterwards(people: Any) -> None:
    users, _ = people
    budgets = np.full(400, 2.0)
    model = cg.SingleModel(budgets=budgets, simulation_seed=1).fit(users)
    spent = model.spent(3)
    budgets[:] = 0.001
    assert model.spent(3) == spent
    with pytest.raises(InputError):
        model.set_params(budgets=np.full(400, -1.0)).fit(users)
    with pytest.raises(cg.errors.BudgetError):
        model.set_params(budgets=budgets).fit(users, ledger=InMemoryLedger(Budget(1e-4, 1e-9)))
    assert model.spent(3) == spent


def test_a_durable_ledger_warns_about_several_fits(people: Any, tmp_path: Any) -> None:
    users, budgets = people
    population = DurableLedger(tmp_path / "b.db", create=True).open_population("all", Budget(20.0, 1e-6))
    with pytest.warns(cg.errors.PrivacyWarning, match="several fits"):
        cg.SingleModel(budgets=budgets).fit(users, ledger=population)


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
