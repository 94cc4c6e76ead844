"""The door for long training runs: paid in advance, a fresh sample for each release, noise of the stated size."""

import math
import secrets
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chi2, chisquare, kstest

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.sums import SampledSum
from commonground.errors import BudgetError
from commonground.gate import Randomness, SampledReleases, noise, randomness_from
from commonground.gate.release import release
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
    np.testing.assert_allclose(grains, np.rint(grains), rtol=0, atol=1e-5)  # nothing below the grid leaves


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


def bits_of_radius(radius: float) -> tuple[int, int]:
    """(bits of f, bits of the geometric number) for which Box-Muller's radius is about this."""
    uniform = math.exp(-(radius**2) / 2)
    mantissa, exponent = math.frexp(uniform)  # mantissa in [1/2, 1): uniform = 2^exponent · mantissa
    return int((2 * mantissa - 1) * 2**52), 2 ** (51 + exponent)


@pytest.mark.parametrize("radius", [0.1, 1.0, 5.0, 7.2, 8.0, 8.4])
def test_possible_radii_lie_closer_together_than_the_grid(radius: float) -> None:
    """Consecutive bit patterns. Drawn from 2⁶⁴ equally spaced uniforms they are 1.5 grains apart at 7.2, 575 at 8."""
    at, zeros = bits_of_radius(radius)
    patterns = np.arange(at, at + 3, dtype=np.uint64)
    radii = np.sqrt(2.0 * noise._exponential(patterns, np.full(3, zeros, dtype=np.uint64)))
    np.testing.assert_allclose(radii, radius, rtol=1e-6)
    assert np.abs(np.diff(radii)).max() < 1e-3 * noise.GRID


def test_every_whole_number_far_out_can_be_drawn() -> None:
    """About 7.5 standard deviations along the axis: neighbouring bits lead to neighbouring grains, none left out."""
    first, zeros = bits_of_radius(7.5)
    one_grain = 7.5 * noise.GRID * 2**52  # bits of f: d radius = d uniform / (uniform · radius), at f near 0
    step = int(one_grain / 8)
    patterns = (first + step * np.arange(1600)).astype(np.uint64)
    assert patterns.max() < 2**52
    same = np.ones(1600, dtype=np.uint64)
    grains, _ = noise._box_muller(patterns, same * np.uint64(zeros), same * np.uint64(0))
    drawn = np.unique(grains[0])
    assert len(drawn) > 50
    np.testing.assert_array_equal(np.diff(drawn), 1.0)


def in_many_digits(f_bits: int, zeros_bits: int, t_bits: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Box-Muller in grains, written with an explicit uniform number, at the middle of what the bits leave open."""
    with mpmath.workprec(300):
        half = mpmath.mpf(1) / 2
        leading_zeros = 52 - zeros_bits.bit_length()
        uniform = (1 + (f_bits + half) / mpmath.mpf(2) ** 52) / mpmath.mpf(2) ** (leading_zeros + 1)
        radius = mpmath.sqrt(-2 * mpmath.log(uniform)) * 2**30
        angle = 2 * mpmath.pi * (t_bits + half) / mpmath.mpf(2) ** 53
        return radius * mpmath.cos(angle), radius * mpmath.sin(angle)


@pytest.mark.parametrize("zeros", [0, 1, 10, 30, 45, 51])
def test_floating_point_errs_by_less_than_a_quarter_of_what_it_is_trusted_with(zeros: int) -> None:
    rng = np.random.default_rng(zeros)
    f, t = rng.integers(0, 2**52, 300, dtype=np.uint64), rng.integers(0, 2**53, 300, dtype=np.uint64)
    z = np.full(300, 2 ** (51 - zeros), dtype=np.uint64)
    exact = [in_many_digits(int(a), int(b), int(c)) for a, b, c in zip(f, z, t, strict=True)]
    radius = np.sqrt(2.0 * noise._exponential(f, z))
    angle = (t.astype(np.float64) + 0.5) * (2.0 * np.pi * 2.0**-53)
    ours = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1) / noise.GRID
    errors = np.array(
        [[float(abs(mpmath.mpf(o) - e)) for o, e in zip(*pair, strict=True)] for pair in zip(ours, exact, strict=True)]
    )
    assert errors[radius > noise._CENTRE].max() < noise._DOUBT / 4
    grains, doubtful = noise._box_muller(f, z, t)
    for pair, here, doubt in zip(exact, grains.T, doubtful, strict=True):
        assert doubt or tuple(here) == tuple(int(mpmath.nint(x)) for x in pair)


def test_nothing_below_the_grid_leaves() -> None:
    paid = opened(entries=50)
    paid.sample(10)
    public = paid.release(SampledSum(np.random.default_rng(0).standard_normal(50), 2.0).bounded("sum", ADD_OR_REMOVE))
    grains = public / (paid.event.noise_std * noise.GRID)
    np.testing.assert_allclose(grains, np.rint(grains), rtol=0, atol=1e-5)


def test_what_floating_point_cannot_decide_is_drawn_again_with_more_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    f, t = np.array([1, 2**51, 7], dtype=np.uint64), np.array([5, 2**52, 9], dtype=np.uint64)
    z = np.array([0, 2**51, 2**51], dtype=np.uint64)
    f[2] = 2**52 - 1  # a uniform number next to one: a radius of 10⁻⁸
    assert noise._box_muller(f, z, t)[1].tolist() == [True, False, True]
    monkeypatch.setattr(secrets, "randbits", lambda n: 1 << (n - 1))  # the middle of what was open
    again = noise._box_muller_exactly(2**51, 2**51, 2**52)
    assert again == tuple(int(mpmath.nint(x)) for x in in_many_digits(2**51, 2**51, 2**52))
    monkeypatch.setattr(secrets, "randbits", lambda n: 1)
    farther = noise._box_muller_exactly(1, 0, 5)  # 52 zeros, then 51 more: 2⁻¹⁰⁴ · (1 + …)
    assert abs(math.hypot(*farther) * noise.GRID - math.sqrt(2 * 104 * math.log(2))) < 1e-6


def test_a_draw_between_two_whole_numbers_falls_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """R cos θ = k + ½ for a θ in the middle of those that 53 bits cannot tell apart: the further bits decide."""
    f, zeros = 2**50, 2**51
    with mpmath.workprec(300):
        radius = mpmath.sqrt(2 * (mpmath.ln2 - mpmath.log(1 + mpmath.mpf(f) / 2**52))) * 2**30
        turns = (mpmath.acos((k + mpmath.mpf(1) / 2) / radius) / (2 * mpmath.pi) * 2**53 for k in range(100, 200))
        t = next(int(turn) for turn in turns if 0.4 < turn - int(turn) < 0.6)
    one = np.ones(1, dtype=np.uint64)
    assert noise._box_muller(f * one, zeros * one, t * one)[1].all(), "floating point must not decide this one"
    sides = []
    for bit in (0, 1):
        monkeypatch.setattr(secrets, "randbits", lambda n, bit=bit: bit * (2**n - 1))
        sides.append(noise._box_muller_exactly(f, zeros, t)[0])
    assert sides[0] == sides[1] + 1


def test_doubtful_draws_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is declared doubtful: all numbers come from the second computation, each in its place."""
    monkeypatch.setattr(noise, "_DOUBT", 1.0)
    drawn = []
    monkeypatch.setattr(noise, "_box_muller_exactly", lambda *_: drawn.append(1) or (len(drawn), -len(drawn)))
    np.testing.assert_array_equal(noise._whole_normals(5, randomness_from(None)), [1, 2, 3, -1, -2])


@pytest.mark.statistical
def test_rounded_normals_have_the_normal_distribution() -> None:
    """Twenty equally likely cells, and the cell of the last digit of the grain (chi-square, false alarms 1e-6 each).

    2/3 σ and 3/2 σ are rejected.
    """
    grains = noise._whole_normals(40_001, randomness_from(None))
    assert len(grains) == 40_001
    np.testing.assert_array_equal(grains, np.rint(grains))
    normal = grains * noise.GRID

    def cells(values: np.ndarray) -> float:
        from scipy.special import ndtr

        return float(chisquare(np.bincount((20 * ndtr(values)).astype(int), minlength=20)).pvalue)

    assert cells(normal) > 1e-6
    assert cells(2 / 3 * normal) < 1e-9
    assert cells(3 / 2 * normal) < 1e-9
    assert chisquare(np.bincount((grains % 16).astype(int), minlength=16)).pvalue > 1e-6
    halves = normal[:20_000], normal[20_001:]  # the pairs' two numbers are uncorrelated, sizes too
    for a, b in (halves, tuple(np.abs(h) for h in halves)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("size", [1e7, 1e200])
def test_a_huge_sum_is_cut_and_does_not_stop_the_fit(size: float) -> None:
    """Whether a sum is above a bound is private, so nothing may happen there that everybody sees."""
    paid = opened(entries=3)
    paid.sample(10)
    found = paid.release(
        SampledSum(np.array([size, -size, 0.0]) * paid.event.noise_std, 2.0).bounded("huge", ADD_OR_REMOVE)
    )
    expected = np.array([1, -1, 0]) * min(size, noise.LARGEST_SUM) * paid.event.noise_std
    np.testing.assert_allclose(found, expected, atol=10 * paid.event.noise_std)


def test_the_sum_and_its_neighbour_stay_as_close_as_was_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, on the grid: values near zero, at the cut and beyond, one contribution apart."""
    monkeypatch.setattr(noise, "_whole_normals", lambda size, _: np.zeros(size))
    rng = np.random.default_rng(0)
    entries, std = 400, SampledReleases.noise_std(1.5, 1.0, 400)
    for size in (0.0, 1.0, 1e3, 0.999 * noise.LARGEST_SUM, noise.LARGEST_SUM, 1e9):
        value = size * std * rng.choice([-1.0, 1.0], entries) + rng.standard_normal(entries)
        step = rng.standard_normal(entries)
        near = value + step / np.linalg.norm(step)
        a, b = (noise.add_rounded_gaussian_noise(v, std, randomness_from(None)) for v in (value, near))
        assert np.linalg.norm(a - b) <= std / 1.5


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
