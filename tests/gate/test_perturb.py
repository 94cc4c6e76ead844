"""L2-Laplace noise has the stated law, and the gate keeps its order: validate, charge, noise, stamp."""

import numpy as np
import pytest
from scipy import stats

from commonground.accounting.budgets import PureBudget
from commonground.accounting.events import LaplaceEvent, epsilon_spent, event_from_dict
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError
from commonground.gate import noise, randomness_from
from commonground.gate.perturb import perturb, sample_people
from commonground.ledger import InMemoryLedger

RUNS = 3000


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 5])
def test_radius_is_gamma_and_direction_uniform(seed: int | None) -> None:
    """Two Kolmogorov-Smirnov tests; false alarm 1e-6 each."""
    source, d = randomness_from(seed), 3
    bounded = BoundedSum(np.array([1.0, -2.0, 3.0]), sensitivity=0.5, name="v")
    # A ledger for each: one adds up all that it holds whenever it is charged.
    added = (
        np.array([perturb(bounded, 0.25, InMemoryLedger(PureBudget(1.0)), source).value for _ in range(RUNS)])
        - bounded.value
    )
    radius = np.linalg.norm(added, axis=1)
    assert stats.kstest(radius, stats.gamma(d, scale=2.0).cdf).pvalue > 1e-6
    first = added[:, 0] / radius  # a coordinate of a uniform point on the sphere is uniform itself (Archimedes)
    assert stats.kstest(first, stats.uniform(-1, 2).cdf).pvalue > 1e-6


def test_charged_before_drawn_and_refused_when_the_budget_is_empty() -> None:
    ledger = InMemoryLedger(PureBudget(1.0))
    bounded = BoundedSum(np.zeros(2), 1.0, "v")
    released = perturb(bounded, 0.75, ledger, randomness_from(None))
    assert released.event.epsilon == 0.75
    assert released.event.scale >= 1.0 / 0.75
    assert not released.value.flags.writeable
    with pytest.raises(BudgetError):
        perturb(bounded, 0.75, ledger, randomness_from(None))


@pytest.mark.parametrize(
    ("value", "sensitivity", "epsilon"),
    [
        ([0.0, np.nan], 1.0, 1.0),
        ([np.inf], 1.0, 1.0),
        ([0.0], 0.0, 1.0),
        ([0.0], np.inf, 1.0),
        ([0.0], 1.0, 0.0),
        ([0.0], 1.0, np.nan),
    ],
)
def test_nothing_leaves_without_a_bound_and_a_budget(value: list[float], sensitivity: float, epsilon: float) -> None:
    ledger = InMemoryLedger(PureBudget(1e6))
    with pytest.raises(BudgetError):
        perturb(BoundedSum(np.array(value), sensitivity, "v"), epsilon, ledger, randomness_from(1))
    assert not ledger.events


def test_two_releases_use_different_noise_and_a_seed_repeats_them() -> None:
    def two(seed: int | None) -> list[np.ndarray]:
        source, ledger = randomness_from(seed), InMemoryLedger(PureBudget(10.0))
        return [perturb(BoundedSum(np.zeros(2), 1.0, "v"), 1.0, ledger, source).value for _ in range(2)]

    assert not np.array_equal(*two(None))
    assert not np.array_equal(*two(4))
    np.testing.assert_array_equal(two(4), two(4))


def test_events_survive_a_file_and_add_up() -> None:
    event = LaplaceEvent("v", 0.25, 1.0, 4.0, 3, simulated=False)
    assert event_from_dict(event.as_dict()) == event
    assert epsilon_spent([event] * 4, 0.0) == pytest.approx(1.0)
    assert event.for_share(0.5).epsilon == 0.125


def test_the_tail_of_one_dimension_is_dense() -> None:
    """Numbers whose logarithm is taken have 52 bits however small they are; a plain uniform one would have 24 at e⁻¹⁹."""
    source = randomness_from(3)
    draws = noise._exponentials(400_000, source)
    assert stats.kstest(draws, stats.expon.cdf).pvalue > 1e-6
    far = np.sort(draws[draws > 9])
    assert len(np.unique(far)) == len(far) > 10


def test_small_probabilities_are_never_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the smallest number that can be drawn: of 2⁵² equally likely ones, as many are below as the probability says."""
    monkeypatch.setattr(noise, "_random_bits", lambda size, source: np.zeros(size))
    drawn = noise.coins(np.array([0.0, 2.0**-53, 2.0**-52]), randomness_from(1))
    assert drawn.tolist() == [False, False, True]


@pytest.mark.statistical
def test_people_are_drawn_with_their_own_probability() -> None:
    """Counts over 2,000 draws within six standard deviations; false alarm below 1e-8 for each of four people."""
    probabilities = np.array([0.0, 0.1, 0.7, 1.0])
    drawn = np.array([sample_people(probabilities, randomness_from(None)) for _ in range(2000)]).mean(axis=0)
    assert drawn[0] == 0.0
    assert (np.abs(drawn - probabilities) <= 6 * np.sqrt(probabilities * (1 - probabilities) / 2000) + 1e-9).all()
