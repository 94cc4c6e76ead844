"""The door for choices: order of events, the exact distribution, and what must never pass."""

import math
import sys

import numpy as np
import pytest
from scipy.stats import chisquare

from commonground.accounting.budgets import PureBudget
from commonground.accounting.events import PureEvent
from commonground.clipping import SCORE_UNIT, BoundedScores, ScoreSums
from commonground.errors import BudgetError
from commonground.gate import noise, randomness_from, select
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


def test_scores_are_clipped_and_add_without_rounding(seed: int) -> None:
    people = np.random.default_rng(seed).uniform(-0.5, 1.5, (1000, 4))
    people[5] = np.nan
    people[6] = [np.inf, -np.inf, 1e300, -1e300]
    together = ScoreSums.of(people)
    assert together.value[1] == sum(
        ScoreSums.of(people[j : j + 1]).value[1] for j in np.random.default_rng(seed).permutation(1000)
    )
    np.testing.assert_array_equal(ScoreSums.of(people[5:6]).value, [SCORE_UNIT] * 4)
    np.testing.assert_array_equal(ScoreSums.of(people[6:7]).value, [SCORE_UNIT, 0, SCORE_UNIT, 0])
    np.testing.assert_allclose(
        together.value / SCORE_UNIT, np.nan_to_num(np.clip(people, 0, 1), nan=1.0).sum(axis=0), atol=1e-5
    )
    assert together.bounded("s").sensitivity == SCORE_UNIT
    assert str(int(together.value[0])) not in repr(together) + repr(together.bounded("s"))
