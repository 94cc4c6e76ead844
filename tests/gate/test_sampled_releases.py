"""The door for long training runs: paid in advance, a fresh sample for each release, noise of the stated size."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent
from commonground.clipping import BoundedSum, SampledSum
from commonground.errors import BudgetError
from commonground.gate import Randomness, SampledReleases, noise, randomness_from, release
from commonground.ledger import InMemoryLedger


class OpenLedger:
    def __init__(self) -> None:
        self.events: list[object] = []

    def charge(self, event: object) -> None:
        self.events.append(event)


def event_for(
    entries: int = 5, steps: int = 3, seed: int | None = None, relation: str = ADD_OR_REMOVE
) -> SampledGaussianEvent:
    contribution = SampledSum.contribution(2.0)
    std = SampledReleases.noise_std(1.5, contribution, entries)
    return SampledGaussianEvent("s", 0.25, 1.5, steps, relation, 1, contribution, std, entries, seed is not None)


def opened(seed: int | None = None, **changes: object) -> SampledReleases:
    return SampledReleases(event_for(seed=seed, **changes), OpenLedger(), randomness_from(seed))  # type: ignore[arg-type]


def zeros(entries: int = 5, relation: str = ADD_OR_REMOVE) -> BoundedSum:
    return SampledSum(np.zeros(entries), 2.0).bounded("zeros", relation)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 4])
def test_noise_has_the_stated_size(seed: int | None) -> None:
    """σ is accepted, 2/3 σ and 3/2 σ are rejected (chi-square, false alarms 1e-6 each); normal by Kolmogorov-Smirnov (1e-6)."""
    paid = opened(seed, entries=4001)
    paid.sample(10)
    draws = paid.release(zeros(4001))
    std = 1.5 * SampledSum.contribution(2.0)

    def looks_like(size: float) -> bool:
        low, high = chi2.ppf([5e-7, 1 - 5e-7], len(draws))
        return bool(low < (draws**2).sum() / size**2 < high)

    assert looks_like(std)
    assert not looks_like(2 / 3 * std)
    assert not looks_like(3 / 2 * std)
    assert kstest(draws / std, "norm").pvalue > 1e-6
    assert paid.event.noise_std >= std
    grains = draws / (paid.event.noise_std * noise.GRID)
    np.testing.assert_allclose(grains, np.rint(grains), atol=1e-5)  # nothing below the grid leaves


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 4])
def test_samples_are_poisson(seed: int | None) -> None:
    """Each unit with probability 1/4, independently: totals and every unit's count by binomial bounds (false alarms < 1e-5)."""
    paid = opened(seed, steps=400)
    counts, sizes = np.zeros(50), []
    for _ in range(400):
        drawn = paid.sample(50)
        counts[drawn] += 1
        sizes.append(len(drawn))
        paid.release(zeros())
    low, high = binom.ppf([5e-8, 1 - 5e-8], 400, 0.25)
    assert (low <= counts).all()
    assert (counts <= high).all()
    assert binom.ppf(5e-7, 20_000, 0.25) <= sum(sizes) <= binom.ppf(1 - 5e-7, 20_000, 0.25)
    assert len(set(sizes)) > 5, "a fixed sample size is another mechanism"


def test_paid_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    book = InMemoryLedger(Budget(0.01, 1e-6))
    monkeypatch.setattr(sys.modules["commonground.gate.release"], "draw_sample", lambda *_: pytest.fail("drawn"))
    with pytest.raises(BudgetError, match="would bring the spend"):
        SampledReleases(event_for(), book, randomness_from(None))
    assert book.events == ()


def test_as_many_releases_as_were_paid_each_with_its_sample() -> None:
    paid = opened()
    with pytest.raises(BudgetError, match="sample of its own"):
        paid.release(zeros())
    for _ in range(3):
        paid.sample(10)
        paid.release(zeros())
        if paid.remaining:
            with pytest.raises(BudgetError, match="sample of its own"):
                paid.release(zeros())
    for more in (lambda: paid.sample(10), lambda: paid.release(zeros())):
        with pytest.raises(BudgetError, match="all 3 steps"):
            more()


def test_what_was_not_paid_for_is_refused() -> None:
    paid = opened()
    paid.sample(10)
    wider = SampledSum(np.zeros(5), 2.01).bounded("wide", ADD_OR_REMOVE)
    for bad in (
        wider,
        zeros(relation=REPLACE),
        zeros(6),
        SampledSum(np.array([np.nan] * 5), 2.0).bounded("n", ADD_OR_REMOVE),
    ):
        with pytest.raises(BudgetError):
            paid.release(bad)
    assert paid.remaining == 3
    with pytest.raises(BudgetError, match="only SampledReleases"):
        release(zeros(), 1.0, OpenLedger(), randomness_from(None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lie",
    [
        {"noise_std": 2.9},
        {"noise_multiplier": 1.6},
        {"contribution": 2.1},
        {"simulated": True},
        {"steps": 0},
        {"sampling_probability": 0.0},
    ],
)
def test_an_event_that_lies_is_refused_uncharged(lie: dict[str, object]) -> None:
    book = OpenLedger()
    with pytest.raises(BudgetError):
        SampledReleases(replace(event_for(), **lie), book, randomness_from(None))  # type: ignore[arg-type]
    assert book.events == []


def test_simulated_streams_can_be_continued() -> None:
    first, second = randomness_from(5), randomness_from(5)
    first.simulation.standard_normal(3)  # type: ignore[union-attr]
    first.simulated_sampling.random(2)  # type: ignore[union-attr]
    second.restore(first.state())
    assert first.simulation.random() == second.simulation.random()  # type: ignore[union-attr]
    assert first.simulated_sampling.random() == second.simulated_sampling.random()  # type: ignore[union-attr]
    assert randomness_from(None).state() is None


def test_seeded_samples_are_no_protection_either() -> None:
    """The cost counts on nobody knowing who was drawn."""
    seeded = np.random.default_rng(0)
    assert Randomness(simulated_sampling=seeded).simulated
    assert Randomness(simulation=seeded).simulated
    assert not Randomness().simulated
