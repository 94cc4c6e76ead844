"""The one door: order of events, amount of noise, and what must never pass."""

import math
import sys

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.clipping.bounded import BoundedSum
from commonground.errors import BudgetError, InputError
from commonground.gate import noise, randomness_from
from commonground.gate.noise import _PIECE
from commonground.gate.release import release
from commonground.ledger import InMemoryLedger


class OpenLedger:
    """Accepts everything and remembers it: for tests that release more than any budget allows."""

    def __init__(self) -> None:
        self.events: list[GaussianEvent] = []

    def charge(self, event: GaussianEvent) -> None:
        self.events.append(event)


def looks_like(draws: np.ndarray, std: float) -> bool:
    """Two-sided chi-square test of the variance around a known mean of zero; false-alarm rate 1e-6."""
    statistic = (draws**2).sum() / std**2
    return bool(chi2.ppf(5e-7, len(draws)) < statistic < chi2.ppf(1 - 5e-7, len(draws)))


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize(("sensitivity", "mu"), [(2.0, 0.3), (1e-9, 0.05), (4e12, 1.5)])
def test_noise_has_the_stated_size(seed: int | None, sensitivity: float, mu: float) -> None:
    """σ is accepted, 2/3 σ and 3/2 σ are rejected (false alarms: 1e-6 each), for real and simulated noise, any scale."""
    public = release(BoundedSum(np.zeros(3000), sensitivity, "zeros"), mu, OpenLedger(), randomness_from(seed))
    std = sensitivity / mu
    assert looks_like(public.value, std)
    assert not looks_like(public.value, 2 / 3 * std)
    assert not looks_like(public.value, 3 / 2 * std)
    assert public.noise_std >= std
    assert kstest(public.value / std, "norm").pvalue > 1e-6


@pytest.mark.parametrize("seed", [None, 7])
def test_noise_is_added_to_the_value_in_its_shape(seed: int | None) -> None:
    value = np.arange(6.0).reshape(2, 3) * 1e6
    public = release(BoundedSum(value, 1.0, "v"), 1.0, OpenLedger(), randomness_from(seed))
    assert public.value.shape == (2, 3)
    assert np.abs(public.value - value).max() < 10
    assert not public.value.flags.writeable


@pytest.mark.statistical
def test_long_values_are_drawn_in_pieces_that_have_nothing_in_common() -> None:
    """Every entry its own noise, whoever draws it; false alarms: 1e-6 for each size, 1e-9 for two pieces alike."""
    public = release(BoundedSum(np.zeros((3, 3001)), 2.0, "zeros"), 0.5, OpenLedger(), randomness_from(None)).value
    assert public.shape == (3, 3001)
    pieces = np.split(public.ravel()[: 2 * _PIECE], 2)
    assert all(
        looks_like(piece, 4.0) and not looks_like(piece, 2.7) for piece in (*pieces, public.ravel()[2 * _PIECE :])
    )
    assert abs(np.corrcoef(*pieces)[0, 1]) < 0.1


@pytest.mark.parametrize("seed", [None, 7])
def test_two_releases_use_different_noise(seed: int | None) -> None:
    source = randomness_from(seed)
    first, second = (release(BoundedSum(np.zeros(50), 1.0, "z"), 1.0, OpenLedger(), source).value for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.75  # 50 entries: chance of more is below 1e-9
    assert not np.array_equal(first, second)


def test_simulation_is_repeatable_and_marked() -> None:
    runs = [release(BoundedSum(np.zeros(5), 1.0, "z"), 1.0, OpenLedger(), randomness_from(3)) for _ in range(2)]
    assert np.array_equal(runs[0].value, runs[1].value)
    assert runs[0].event.simulated
    assert not release(BoundedSum(np.zeros(5), 1.0, "z"), 1.0, OpenLedger(), randomness_from(None)).event.simulated


def test_charge_comes_before_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash while drawing leaves the charge on the book."""
    book = InMemoryLedger(Budget(1.0, 1e-6))

    def crash(*_: object) -> None:
        assert len(book.events) == 1, "noise was drawn before the charge"
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["commonground.gate.release"], "add_gaussian_noise", crash)
    with pytest.raises(KeyboardInterrupt):
        release(BoundedSum(np.zeros(3), 1.0, "z"), 0.1, book, randomness_from(None))
    assert [event.mu for event in book.events] == [0.1]


def test_an_exhausted_budget_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Budget(1.0, 1e-6)
    book = InMemoryLedger(budget)
    release(BoundedSum(np.zeros(3), 1.0, "first"), budget.mu * 0.9, book, randomness_from(1))
    door = sys.modules["commonground.gate.release"]  # the package's attribute of this name is the function
    monkeypatch.setattr(door, "add_gaussian_noise", lambda *_: pytest.fail("noise drawn"))
    with pytest.raises(BudgetError, match="'second' would bring the spend"):
        release(BoundedSum(np.zeros(3), 1.0, "second"), budget.mu * 0.9, book, randomness_from(1))
    assert [event.name for event in book.events] == ["first"]


@pytest.mark.parametrize(
    ("value", "sensitivity", "mu"),
    [
        ([math.nan, 1.0], 1.0, 1.0),
        ([math.inf], 1.0, 1.0),
        ([1.0], math.inf, 1.0),
        ([1.0], 0.0, 1.0),
        ([1.0], math.nan, 1.0),
        ([1.0], 1.0, 0.0),
        ([1.0], 1.0, math.nan),
        ([1.0], 1.0, math.inf),
    ],
)
def test_what_cannot_be_protected_is_refused_uncharged(value: list[float], sensitivity: float, mu: float) -> None:
    book = OpenLedger()
    with pytest.raises(BudgetError):
        release(BoundedSum(np.array(value), sensitivity, "bad"), mu, book, randomness_from(None))
    assert book.events == []


def test_opendp_is_asked_whether_the_noise_suffices() -> None:
    """With less noise than the claimed μ needs, OpenDP's own map objects."""
    with pytest.raises(RuntimeError, match="too small"):
        noise.add_gaussian_noise(np.zeros(4), noise_std=1.0, sensitivity=1.0, mu=0.99, source=randomness_from(None))


def test_the_event_tells_the_truth() -> None:
    book = OpenLedger()
    public = release(BoundedSum(np.zeros((4, 5)), 3.0, "matrix"), 0.25, book, randomness_from(None))
    assert book.events == [public.event]
    assert public.event.entries == 20
    assert public.event.sensitivity / public.event.noise_std <= public.event.mu == 0.25


def test_private_values_do_not_print() -> None:
    assert "12345" not in repr(BoundedSum(np.array([12345.0]), 1.0, "secret"))


@pytest.mark.parametrize("seed", [-1, 1.5, True, "x"])
def test_bad_simulation_seed(seed: object) -> None:
    with pytest.raises(InputError, match="simulation_seed"):
        randomness_from(seed)  # type: ignore[arg-type]
