"""Pure ε: addition, mixtures with Gaussian releases, and the Gaussian that covers it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from commonground.accounting.budgets import Budget, PureBudget, budget_of
from commonground.accounting.events import (
    EVENTS,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    epsilon_by_pld,
    epsilon_spent,
    event_from_dict,
)
from commonground.accounting.gaussian import gaussian_delta, gaussian_dominating, gaussian_epsilon
from commonground.accounting.selection import RepeatedSelectionEvent
from commonground.errors import BudgetError, InputError
from commonground.ledger import InMemoryLedger

PURE = PureEvent("choice", epsilon=0.3, sensitivity=1.0, scale=2 / 0.3, entries=7, simulated=False)
GAUSSIAN = GaussianEvent("sum", mu=0.2, sensitivity=0.2, noise_std=1.0, entries=3, simulated=False)
LAPLACE = LaplaceEvent("vector", epsilon=0.3, sensitivity=1.0, scale=1 / 0.3, entries=7, simulated=False)
SAMPLED = SampledGaussianEvent("steps", 0.1, 4.0, 5, "add-or-remove-one", 1, 1.0, 4.0, 3, simulated=False)
REPEATED = RepeatedSelectionEvent("fit and score", mu=0.2, mean=12.0, entries=4, simulated=False)
EXAMPLES: dict[str, Event] = {
    "gaussian": GAUSSIAN,
    "pure": PURE,
    "l2-laplace": LAPLACE,
    "sampled-gaussian": SAMPLED,
    "repeat-and-select": REPEATED,  # stands alone: seven of them are refused, at once and one by one
}


def pure(epsilon: float) -> PureEvent:
    return replace(PURE, epsilon=epsilon, scale=2 / epsilon)


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=12))
def test_pure_releases_add(epsilons: list[float]) -> None:
    spent = epsilon_spent(map(pure, epsilons), 0.0)
    assert math.fsum(epsilons) <= spent <= math.fsum(epsilons) * (1 + 1e-15)


def test_one_release_costs_what_it_says() -> None:
    assert epsilon_spent([PURE], 0.0) == epsilon_spent([PURE], 1e-6) == 0.3
    assert epsilon_spent([], 0.0) == epsilon_by_pld([], 1e-6) == 0.0


def test_gaussian_noise_never_has_delta_zero() -> None:
    assert epsilon_spent([GAUSSIAN], 0.0) == epsilon_spent([GAUSSIAN, PURE], 0.0) == math.inf


@pytest.mark.parametrize("kind", [kind for kind in EVENTS if kind != "repeat-and-select"])
def test_n_at_once_is_n_one_by_one(kind: str) -> None:
    """For every kind of event: its loss composed with itself seven times, and seven events accounted one after the other."""
    event = EXAMPLES[kind]
    at_once = event.loss().self_compose(7).get_epsilon_for_delta(1e-6)
    assert epsilon_by_pld([event] * 7, 1e-6) == pytest.approx(at_once, rel=1e-6)
    running = [epsilon_spent([event] * n, 1e-6) for n in range(8)]
    assert running[0] == 0.0
    assert running == sorted(running)
    assert running[7] <= at_once * (1 + 1e-3)


def test_a_mixture_costs_no_more_than_its_parts_added_and_no_less_than_each() -> None:
    both = epsilon_spent([GAUSSIAN, PURE], 1e-6)
    alone = gaussian_epsilon(0.2, 1e-6)
    assert max(alone, 0.3) < both <= alone + 0.3
    # The order plays no part, and one more release never costs less.
    assert epsilon_spent([PURE, GAUSSIAN], 1e-6) == pytest.approx(both, rel=1e-9)
    assert epsilon_spent([PURE, GAUSSIAN, pure(0.01)], 1e-6) > both


def test_the_mixture_against_its_exact_curve() -> None:
    """Randomised response at ε₀ with N(0, 1) or N(μ, 1): δ(ε) = Σ over the answer of the Gaussian curve moved by ±ε₀."""
    mu, first = 0.2, 0.3

    def delta_of(epsilon: float) -> float:
        truth = 1 / (1 + math.exp(-first))
        return sum(
            p * gaussian_delta(mu, epsilon - loss) if epsilon >= loss else p * _below_zero(mu, epsilon - loss)
            for p, loss in ((truth, first), (1 - truth, -first))
        )

    def _below_zero(mu: float, epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))

    spent = epsilon_spent([GAUSSIAN, PURE], 1e-6)
    assert delta_of(spent) <= 1e-6, "the stated ε is too small"
    assert delta_of(spent * 0.995) > 1e-6, "the stated ε is far too large"


@settings(max_examples=50)
@given(st.floats(0.001, 20))
def test_the_dominating_gaussian_covers_randomised_response(epsilon: float) -> None:
    """At every ε' the δ of the worst ε-private mechanism is at most the Gaussian's; a smaller μ fails."""
    mu = gaussian_dominating(epsilon)
    worst = privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0))
    for share in (0.0, 0.25, 0.5, 0.9):
        # randomised response: δ(ε') = (e^ε − e^ε') / (1 + e^ε) between 0 and ε
        delta = (math.exp(epsilon) - math.exp(share * epsilon)) / (1 + math.exp(epsilon))
        assert worst.get_delta_for_epsilon(share * epsilon) >= delta - 1e-12
        assert gaussian_delta(mu, share * epsilon) >= delta * (1 - 1e-9)
    assert gaussian_delta(mu * 0.999, 0.0) < (math.exp(epsilon) - 1) / (1 + math.exp(epsilon))


@pytest.mark.parametrize("kind", EVENTS)
def test_events_survive_files(kind: str) -> None:
    event = EXAMPLES[kind]
    assert event_from_dict(event.as_dict()) == event
    without_kind = {name: value for name, value in event.as_dict().items() if name != "kind"}
    if kind == "gaussian":
        assert event_from_dict(without_kind) == event, "files from before there were kinds"
    else:
        with pytest.raises(ValueError, match="gaussian event"):
            event_from_dict(without_kind)
    with pytest.raises(KeyError):
        event_from_dict({**event.as_dict(), "kind": "free of charge"})


def test_the_ledger_of_one_fit_adds_them_up() -> None:
    book = InMemoryLedger(PureBudget(1.0))
    for share in PureBudget(1.0).split({"a": 0.5, "b": 0.5}).values():
        book.charge(pure(share))
    for refused in (pure(0.01), GAUSSIAN):
        with pytest.raises(BudgetError, match="more than the declared"):
            book.charge(refused)
    assert len(book.events) == 2
    mixed = InMemoryLedger(Budget(1.2, 1e-6))
    mixed.charge(GAUSSIAN)
    mixed.charge(PURE)
    with pytest.raises(BudgetError, match="more than the declared"):
        mixed.charge(PURE)


def test_pure_budgets() -> None:
    assert budget_of(1.0, 0) == PureBudget(1.0)
    assert budget_of(1.0, 1e-6) == Budget(1.0, 1e-6)
    assert PureBudget(1.0).delta == 0.0
    for bad in (0, -1, np.nan, np.inf, "a", None):
        with pytest.raises(InputError, match="epsilon"):
            PureBudget(bad)  # type: ignore[arg-type]
