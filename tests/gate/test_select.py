"""The door for choices: order of events, the exact distribution, and what must never pass."""

import math
import sys

import numpy as np
import pytest
from scipy.stats import chisquare

from commonground.accounting.budgets import PureBudget
from commonground.accounting.events import PureEvent
from commonground.clipping.bounded import SCORE_UNIT, BoundedScores, score_units
from commonground.clipping.sums import ScoreSums
from commonground.errors import BudgetError
from commonground.gate import noise, randomness_from
from commonground.gate.select import select
from commonground.ledger import InMemoryLedger


class OpenLedger:
    def __init__(self) -> None:
        self.events: list[PureEvent] = []

    def charge(self, event: PureEvent) -> None:
        self.events.append(event)


def scores(*people_per_candidate: float) -> BoundedScores:
    return BoundedScores(np.array([round(p * SCORE_UNIT) for p in people_per_candidate]), SCORE_UNIT, "scores")


def exact(value: np.ndarray, sensitivity: int, epsilon: float) -> np.ndarray:
    """The exponential mechanism, from the textbook."""
    weight = np.exp(-epsilon * (value - value.min()) / (2 * sensitivity))
    return weight / weight.sum()


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_choice_has_the_exact_distribution(seed: int | None, epsilon: float) -> None:
    """Chi-square over 4,000 draws, false-alarm rate 1e-6 each; a choice at 3/2 ε or 2/3 ε is rejected."""
    candidates, source = scores(0, 1, 1.5, 3, 4.25, 10), randomness_from(seed)
    drawn = [select(candidates, epsilon, OpenLedger(), source).index for _ in range(4000)]
    counts = np.bincount(drawn, minlength=6)

    def looks_like(charged: float) -> bool:
        expected = 4000 * exact(candidates.value, candidates.sensitivity, charged)
        rare = expected < 5  # merged, so that the chi-square approximation holds
        observed = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        keep = expected > 0
        return bool(chisquare(observed[keep], expected[keep]).pvalue > 1e-6)

    assert looks_like(epsilon)
    assert not looks_like(epsilon * 3 / 2)
    assert not looks_like(epsilon * 2 / 3)


def test_charged_before_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    book = OpenLedger()

    def crash(*_: object) -> int:
        assert len(book.events) == 1, "the choice was drawn before the charge"
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["commonground.gate.select"], "choose_smallest", crash)
    with pytest.raises(KeyboardInterrupt):
        select(scores(0, 1), 0.5, book, randomness_from(None))
    assert [event.epsilon for event in book.events] == [0.5]


def test_nothing_is_chosen_when_the_ledger_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["commonground.gate.select"], "choose_smallest", lambda *_: pytest.fail("drawn"))
    with pytest.raises(BudgetError, match="more than the declared"):
        select(scores(0, 1), 1.5, InMemoryLedger(PureBudget(1.0)), randomness_from(None))


@pytest.mark.parametrize(
    ("value", "sensitivity", "epsilon"),
    [
        (np.array([0.5, 1.0]), SCORE_UNIT, 1.0),
        (np.zeros((2, 2), np.int64), SCORE_UNIT, 1.0),
        (np.zeros(0, np.int64), SCORE_UNIT, 1.0),
        (np.zeros(2, np.int64), 0, 1.0),
        (np.zeros(2, np.int64), 1.5, 1.0),
        (np.zeros(2, np.int64), math.inf, 1.0),
        (np.zeros(2, np.int64), SCORE_UNIT, 0.0),
        (np.zeros(2, np.int64), SCORE_UNIT, -1.0),
        (np.zeros(2, np.int64), SCORE_UNIT, math.nan),
        (np.zeros(2, np.int64), SCORE_UNIT, math.inf),
    ],
)
def test_what_must_not_pass(value: np.ndarray, sensitivity: int, epsilon: float) -> None:
    book = OpenLedger()
    with pytest.raises(BudgetError):
        select(BoundedScores(value, sensitivity, "bad"), epsilon, book, randomness_from(None))
    assert book.events == []


def test_opendp_must_agree_with_the_charge() -> None:
    """A draw that is sharper than what was charged is refused, by OpenDP's own statement of its cost."""
    candidates = scores(0, 1)
    with pytest.raises(RuntimeError, match="too sharp"):
        noise.choose_smallest(candidates.value, 1.99 * SCORE_UNIT, SCORE_UNIT, 1.0, randomness_from(None))
    noise.choose_smallest(candidates.value, 2.0 * SCORE_UNIT * (1 + 1e-9), SCORE_UNIT, 1.0, randomness_from(None))


@pytest.mark.parametrize("epsilon", np.geomspace(1e-4, 100, 13))
def test_any_epsilon_passes_opendps_statement(epsilon: float) -> None:
    book = OpenLedger()
    choice = select(scores(0, 1, 2), epsilon, book, randomness_from(None))
    assert book.events == [choice.event]
    assert 0 <= choice.index < 3
    assert 2 * choice.event.sensitivity / choice.event.scale <= choice.event.epsilon == epsilon
    assert choice.event.entries == 3
    assert not choice.event.simulated


def test_a_seed_repeats_and_says_so() -> None:
    draws = [
        [select(scores(0, 1, 2), 0.1, OpenLedger(), s).index for _ in range(20)] for s in map(randomness_from, (3, 3))
    ]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) > 1
    assert select(scores(0, 1), 1.0, OpenLedger(), randomness_from(3)).event.simulated


@pytest.mark.parametrize(
    ("score", "weight", "units"),
    [
        (0.5, 1.0, SCORE_UNIT // 2), (1.0, 1.0, SCORE_UNIT), (1.5, 1.0, SCORE_UNIT), (-0.5, 1.0, 0), (math.nan, 1.0, SCORE_UNIT),
        (math.inf, 1.0, SCORE_UNIT), (-math.inf, 1.0, 0), (1e300, 1.0, SCORE_UNIT), (1.0, 0.25, SCORE_UNIT // 4), (0.7, 0.0, 0),
        (math.nan, 0.5, SCORE_UNIT // 2), (3 / SCORE_UNIT, 0.5, 1),
    ],
)  # fmt: skip
def test_scores_become_whole_numbers(score: float, weight: float, units: int) -> None:
    assert score_units(score, weight) == units


def test_score_sums_do_not_print() -> None:
    sums = ScoreSums(np.array([777, 778]))
    assert "777" not in repr(sums) + repr(sums.bounded("s"))
    assert (sums + sums).bounded("s").sensitivity == SCORE_UNIT
