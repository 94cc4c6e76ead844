"""Rounds over samples of people: paid for in advance, by the book, and worth having."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent, epsilon_spent
from commonground.accounting.sampled import ADD_OR_REMOVE, SampledGaussianEvent
from commonground.clipping import BinnedSums
from commonground.contributions.gradients import embedding_gradient_sums
from commonground.errors import BudgetError, InputError
from commonground.estimators.rounds import Door
from commonground.estimators.sampled_rounds import SampledRounds
from commonground.gate import randomness_from
from commonground.ledger import InMemoryLedger
from commonground.users import Users

BUDGET = Budget(1.0, 1e-6)
USERS, TRUTH = cg.datasets.make_shared_subspace(4000, rows_per_user=5, n_features=6, seed=0)


def gradients_of(users: Users, lowest: int) -> BinnedSums:
    return embedding_gradient_sums(next(users.blocks()), TRUTH.embedding, None, 0.0, False, lowest)


def test_the_fit_stays_within_its_budget_and_uses_it() -> None:
    model = cg.PrivateFedRep(sample_rate=0.3, n_rounds=4, shared_mean=False, simulation_seed=0).fit(USERS)
    statement = model.billboard_.statement
    assert 0.995 < statement.epsilon_spent <= 1.0
    sampled = [event for event in statement.events if isinstance(event, SampledGaussianEvent)]
    assert [event.steps for event in sampled] == [4, 4]
    assert {event.unit for event in sampled} == {"person"}


def test_what_it_costs_is_what_an_accountant_of_the_field_says() -> None:
    model = cg.PrivateFedRep(sample_rate=0.3, n_rounds=4, shared_mean=False, simulation_seed=0).fit(USERS)
    book = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    for event in model.billboard_.statement.events:
        if isinstance(event, SampledGaussianEvent):
            step = dp_accounting.GaussianDpEvent(event.noise_std / event.contribution)
            book.compose(dp_accounting.PoissonSampledDpEvent(event.sampling_probability, step), event.steps)
        elif isinstance(event, GaussianEvent):
            book.compose(
                dp_accounting.GaussianDpEvent(2.0 * event.noise_std / event.sensitivity)
            )  # it doubles, DESIGN §4
    assert book.get_epsilon(1e-6) == pytest.approx(model.billboard_.statement.epsilon_spent, abs=0.01)
    assert book.get_epsilon(1e-6) <= 1.001


def test_small_rates_and_little_noise_are_accounted_on_one_grid() -> None:
    """With noise multipliers on both sides of where dp-accounting's grid is changed."""
    many, _ = cg.datasets.make_shared_subspace(40_000, rows_per_user=3, n_features=4, rank=1, seed=0)
    model = cg.PrivateFedRep(
        1, 1.0, sample_rate=0.03, n_rounds=4, shared_mean=False, simulation_seed=0, keep_heads=False
    )
    statement = model.fit(many).billboard_.statement
    multipliers = [e.noise_multiplier for e in statement.events if isinstance(e, SampledGaussianEvent)]
    assert min(multipliers) < 3.0 < max(multipliers)
    assert 0.98 < statement.epsilon_spent <= 1.0


def test_every_round_draws_two_samples_of_its_own_and_there_are_no_more_than_were_paid_for() -> None:
    rounds = SampledRounds(USERS, 0.3, 2, 12, 0.1, BUDGET, Door(InMemoryLedger(BUDGET), randomness_from(0)))
    seen = []

    def noting(users: Users, lowest: int) -> BinnedSums:
        seen.append(np.flatnonzero(users._weights))
        return gradients_of(users, lowest)

    rounds.release(noting, (), 121, "round 1")
    rounds.release(noting, (), 121, "round 2")
    assert len(seen) == 4
    assert all(abs(len(people) / USERS.n_users - 0.3) < 0.05 for people in seen)
    assert all(abs(len(np.intersect1d(one, seen[0])) / USERS.n_users - 0.09) < 0.03 for one in seen[1:])
    with pytest.raises(BudgetError, match="all 2 steps"):
        rounds.release(noting, (), 121, "round 3")


def test_the_noise_of_a_sum_is_as_stated() -> None:
    """Standard deviation over 12 entries × 200 rounds within 6 %: a false alarm once in 10,000 seeds; this one is fixed."""
    rounds = SampledRounds(USERS, 0.3, 200, 12, 0.1, BUDGET, Door(InMemoryLedger(BUDGET), randomness_from(3)))
    nobody = [rounds.release(_empty, (), 121, "r") for _ in range(200)]
    spread = np.std([one.value / one.noise_std for one in nobody])
    assert spread == pytest.approx(1.0, rel=0.06)
    assert nobody[0].noise_std >= rounds._sums.event.noise_multiplier * 2 ** ((nobody[0].edge - 121) / 2)


def _empty(users: Users, lowest: int) -> BinnedSums:
    return BinnedSums.of(np.zeros((USERS.n_users, 2, 6)), np.ones(USERS.n_users), lowest, 16)


def test_it_learns_nearly_as_much_as_from_everybody() -> None:
    settings = {"epsilon": 4.0, "fit_intercept": False, "shared_mean": False, "simulation_seed": 1}
    floor = cg.metrics.population_mse(TRUTH.embedding, USERS, TRUTH)
    boards = [cg.PrivateFedRep(sample_rate=rate, **settings).fit(USERS).billboard_ for rate in (None, 0.4)]
    everybody, some = (cg.metrics.population_mse(board, USERS, TRUTH) / floor for board in boards)
    assert everybody < 1.1
    assert some < 1.3


def test_sampled_steps_that_protect_others_do_not_add_up_with_the_rest() -> None:
    plain = GaussianEvent("a", 0.1, 1.0, 10.0, 1, simulated=True)
    records = SampledGaussianEvent("b", 0.1, 5.0, 3, ADD_OR_REMOVE, 1, 1.0, 5.0, 1, simulated=True, unit="record")
    with pytest.raises(BudgetError, match="do not add up"):
        epsilon_spent([plain, records], 1e-6)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 2.0, 0.1])
def test_rates_that_make_no_sense_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match="at least 1000 people"):
        cg.PrivateFedRep(sample_rate=rate, shared_mean=False, simulation_seed=0).fit(USERS)


def test_what_it_does_not_go_with_is_refused() -> None:
    with pytest.raises(InputError, match="one epsilon for everybody"):
        cg.PrivateFedRep(sample_rate=0.5, budgets=np.full(USERS.n_users, 0.5)).fit(USERS)
    with pytest.raises(InputError, match="default recipe"):
        cg.PrivateFedRep(sample_rate=0.5, recipe="paper").fit(USERS)
