"""A random part of many people for looks: who is in it follows from coins alone, and sums are those over its members."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.data.population import Population
from commonground.estimators.fedrep import default
from commonground.gate import Gate, randomness_from
from commonground.ledger import InMemoryLedger
from commonground.statistics.coordinates import FeatureMoments, ScaleProfiles
from commonground.steps import some_people as step
from commonground.steps.some_people import some_people

MU = 0.9


def gate(seed: int | None = None) -> Gate:
    return Gate(InMemoryLedger(Budget(1.0, 1e-6)), randomness_from(seed))


def people(n: int = 400, seed: int = 0) -> cg.Users:
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n), rng.integers(1, 8, n))
    X = rng.standard_normal((len(ids), 5))
    return cg.Users.from_arrays(X, X[:, 0] + rng.standard_normal(n)[ids], ids)


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hundred people are enough, and seen well enough."""
    monkeypatch.setattr(step, "ENOUGH_PEOPLE", 100)
    monkeypatch.setattr(step, "ENOUGH_SEEN", 1.0)
    monkeypatch.setattr(step, "SEEN_OF_MOMENTS", 0.0)
    return


def members(part: Population) -> np.ndarray:
    assert part.weights is not None
    return part.weights > 0


def test_few_people_are_all_looked_at() -> None:
    users = people()
    assert some_people(users, gate(), MU) is users


@pytest.mark.usefixtures("few_are_many")
def test_noise_decides_too_how_many_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    users = people()
    assert some_people(users, gate(), MU).total_weight == 100
    assert some_people(users, gate(), 0.001) is users
    monkeypatch.setattr(step, "SEEN_OF_MOMENTS", 20.0)  # 20 · 5^1.5 = 224, of 400 · 0.9
    assert some_people(users, gate(), MU) is users


@pytest.mark.usefixtures("few_are_many")
def test_sparse_rows_are_all_looked_at() -> None:
    block = next(iter(people().blocks()))
    ids = np.repeat(np.arange(block.n_users), np.diff(block.offsets))
    few = cg.Users.from_arrays(sparse.csr_array(block.X), block.y, ids)
    assert some_people(few, gate(), MU) is few


@pytest.mark.usefixtures("few_are_many")
def test_whether_rows_fit_into_memory_decides_nothing(tmp_path: Path) -> None:
    """One row more may do so: what is released, and at which noise, must not follow from it."""
    block = next(iter(people().blocks()))
    ids = np.repeat(np.arange(block.n_users), np.diff(block.offsets))
    frame = pd.DataFrame(block.X, columns=list("abcde")).assign(user_id=ids, y=block.y)
    frame.to_parquet(tmp_path / "people.parquet")
    events = []
    for most in (1, 2**30):
        users = cg.Users.from_table(tmp_path / "people.parquet", max_memory=most)
        assert users.streamed is (most == 1)
        model = cg.PrivateFedRep(1, 8.0, n_rounds=2, keep_heads=False, simulation_seed=1).fit(users)
        events.append(model.billboard_.statement.events)
        np.testing.assert_array_equal(
            members(some_people(users, gate(5), MU)), members(some_people(people(), gate(5), MU))
        )
    assert events[0] == events[1]


@pytest.mark.usefixtures("few_are_many")
def test_everybody_is_drawn_as_often_wherever_she_stands() -> None:
    """600 draws of 100 of 400: within 5.5 standard deviations for each of 400 people, a false alarm in 1e5 runs."""
    users, draws = people(), 600
    drawn = np.array([members(some_people(users, gate(), MU)) for _ in range(draws)])
    assert (drawn.sum(axis=1) == 100).all(), "so many, whoever they are: a resumed fit asks for the same releases"
    assert np.abs(drawn.mean(axis=0) - 0.25).max() < 5.5 * (0.25 * 0.75 / draws) ** 0.5


@pytest.mark.usefixtures("few_are_many")
def test_sums_over_the_part_are_those_over_its_members_alone() -> None:
    users = people()
    part = some_people(users, gate(3), MU)
    alone = cg.Users.from_arrays(*_rows(users, members(part)))
    assert 0 < alone.n_users < 200
    assert part.total_weight == alone.n_users
    for statistic in (FeatureMoments(True), FeatureMoments(False)):
        np.testing.assert_allclose(part.sum(statistic).value, alone.sum(statistic).value, rtol=1e-12, atol=1e-12)
    profiles = ScaleProfiles(np.zeros(5), False, 118)
    np.testing.assert_array_equal(part.sum(profiles).counts, alone.sum(profiles).counts)


def _rows(users: cg.Users, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    block = next(iter(users.blocks()))
    person = np.repeat(np.arange(users.n_users), np.diff(block.offsets))
    return block.X[wanted[person]], block.y[wanted[person]], person[wanted[person]]


@pytest.mark.usefixtures("few_are_many")
def test_people_with_budgets_of_their_own_count_what_they_counted() -> None:
    weights = np.where(np.arange(400) % 2, 0.5, 1.0)
    weights[:40] = 0.0
    part = some_people(people().weighted(weights), gate(), MU)
    assert part.weights is not None
    assert not members(part)[:40].any()
    np.testing.assert_array_equal(part.weights[members(part)], weights[members(part)])


def test_other_weights_forget_what_was_gathered() -> None:
    users = people()
    part = users.only(np.arange(400) < 50)
    assert sum(block.n_users for block in part.blocks()) == 50
    assert sum(block.n_users for block in part.weighted(np.ones(400)).blocks()) == 400


@pytest.mark.usefixtures("few_are_many")
def test_a_fit_that_looks_at_a_part_pays_the_same_and_is_about_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    users, truth = cg.datasets.make_shared_subspace(
        n_users=5_000, rows_per_user=10, n_features=6, rank=1, noise=0.3, seed=4
    )
    drawn: list[Population] = []

    def noting(*args: object) -> Population:
        drawn.append(some_people(*args))  # type: ignore[arg-type]
        return drawn[-1]

    monkeypatch.setattr(step, "ENOUGH_PEOPLE", 2_000)
    monkeypatch.setattr(default, "some_people", noting)
    model = cg.PrivateFedRep(1, 4.0, simulation_seed=1).fit(users)
    monkeypatch.setattr(step, "ENOUGH_PEOPLE", 10**9)
    whole = cg.PrivateFedRep(1, 4.0, simulation_seed=1).fit(users)
    assert drawn[0].total_weight == 2_000
    assert drawn[1] is users
    mu, mu_of_whole = (
        sum(event.mu**2 for event in m.billboard_.statement.events)  # type: ignore[attr-defined]
        for m in (model, whole)
    )
    assert mu == pytest.approx(mu_of_whole, rel=1e-9)
    error, error_of_whole = (cg.metrics.population_mse(m.billboard_, users, truth) for m in (model, whole))
    assert error < 1.2 * error_of_whole
