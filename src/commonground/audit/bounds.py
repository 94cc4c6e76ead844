"""What guesses prove about ε: pure statistics, no estimator and no randomness.

An auditor looks at what was published and guesses which of two neighbouring populations it came from. Privacy limits how
often she can be right; so guesses that are right too often refute a claim. Two ways to say "too often":

* **by the definition.** (ε, δ)-DP allows at most TPR ≤ e^ε FPR + δ, and the same with the populations swapped. Clopper-Pearson
  bounds on the two rates give ε ≥ log((TPR − δ)/FPR). No assumption at all, but hopeless at small δ unless something leaks
  outright: a Gaussian release spends its ε far out in the tail, where there are no runs.
* **by the Gaussian curve.** Every release here claims more than (ε, δ): it claims to be μ-Gaussian-DP, which limits *every*
  point of the trade-off curve: TNR ≤ Φ(μ − Φ⁻¹(TPR)), so the share of right guesses is at most Φ(μ/2). More refutes μ; we
  report the ε of the smallest μ that is not refuted. Valid for any mechanism as a bound on its μ; it is a bound on ε at
  this δ if the mechanism is Gaussian, as claimed. Far more power: the middle of the curve is where all the runs are.

What is released with δ = 0 claims another curve: that of randomised response, whose share of right guesses is at most
e^ε/(1 + e^ε). Where all of the claim is pure, that one takes the place of the Gaussian curve.

``lower_bound`` takes the larger of the two, each with half of the allowed error, so its confidence holds for the pair.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from commonground.accounting.gaussian import gaussian_epsilon

_MOST_THRESHOLDS = 400


@dataclass(frozen=True)
class Bound:
    """With probability at least 1 − error, none of these exceeds the truth."""

    epsilon: float  # the larger of the next two
    by_curve: float  # the Gaussian one, or that of pure ε
    by_definition: float
    mu: float  # the mechanism is not μ'-Gaussian-DP for any μ' below
    accuracy: float  # observed share of right guesses, both populations counted alike


def lower_at_least(successes: np.ndarray | int, trials: int, error: float) -> np.ndarray:
    """Clopper-Pearson: the success probability is at least this, except with probability ``error``.

    >>> float(lower_at_least(0, 10, 0.05)), round(float(lower_at_least(10, 10, 0.05)), 4)  # the second is 0.05 ** (1/10)
    (0.0, 0.7411)
    """
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - np.minimum(k, trials) + 1, error), 0.0)


def upper_at_most(successes: np.ndarray | int, trials: int, error: float) -> np.ndarray:
    """Clopper-Pearson from above.

    >>> round(float(upper_at_most(0, 100, 0.05)), 4)  # about 3/100: the rule of three
    0.0295
    """
    return 1.0 - lower_at_least(trials - np.asarray(successes), trials, error)


def mu_from_guesses(correct: int, guesses: int, error: float) -> float:
    """A lower bound on μ from the number of right guesses about equally many runs on either population.

    The guess must be a function of the view that was fixed before these runs. Under μ-Gaussian-DP the success probabilities
    on the two populations have a mean of at most Φ(μ/2). They need not be equal, but the upper tail of such a sum is at most
    that of a binomial with their mean (Hoeffding 1956, Theorem 4; it needs an error below 1/4 and a mean of at least 1/2).

    >>> mu_from_guesses(correct=500, guesses=1000, error=0.05)
    0.0
    >>> 1.5 < mu_from_guesses(correct=8000, guesses=10_000, error=0.05) < 2 * float(ndtri(0.8))
    True
    """
    assert 0 < error < 0.25
    accuracy = float(lower_at_least(correct, guesses, error))
    return max(0.0, 2.0 * float(ndtri(accuracy)))


def pure_epsilon_from_guesses(correct: int, guesses: int, error: float) -> float:
    """A lower bound on ε where δ = 0, from the same guesses: no more than e^ε/(1 + e^ε) of them are right on average.

    >>> 1.0 < pure_epsilon_from_guesses(correct=8000, guesses=10_000, error=0.05) < math.log(4)
    True
    """
    accuracy = float(lower_at_least(correct, guesses, error))
    return max(0.0, math.log(accuracy / (1.0 - accuracy))) if accuracy > 0 else 0.0


def epsilon_from_rates(
    hits: np.ndarray | int, false_hits: np.ndarray | int, trials: int, delta: float, error: float
) -> np.ndarray:
    """ε ≥ log((TPR − δ)/FPR) with Clopper-Pearson on both rates, half of the error each.

    >>> round(float(epsilon_from_rates(1000, 0, 1000, delta=1e-6, error=0.05)), 2)  # a leak; limited by the number of runs
    5.6
    >>> float(epsilon_from_rates(510, 500, 1000, delta=1e-6, error=0.05))
    0.0
    """
    tpr = lower_at_least(hits, trials, error / 2)
    fpr = upper_at_most(false_hits, trials, error / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(tpr - delta > fpr, np.log((tpr - delta) / fpr), 0.0)


def lower_bound(
    scores_with: np.ndarray,
    scores_without: np.ndarray,
    delta: float,
    error: float,
    threshold: float | None = None,
    pure: bool = False,
) -> Bound:
    """What scores of equally many runs on the two populations prove; a larger score speaks for ``with``.

    Whatever is chosen by looking at scores is chosen on the first half of the runs and judged on the second. A ``threshold``
    known beforehand (zero, for a log-likelihood ratio) lets the bound by the curve use all runs. ``pure``: the claim has
    δ = 0.
    """
    assert len(scores_with) == len(scores_without) >= 2
    half = len(scores_with) // 2
    first = np.asarray(scores_with[:half], float), np.asarray(scores_without[:half], float)
    second = np.asarray(scores_with[half:], float), np.asarray(scores_without[half:], float)
    judged = second if threshold is None else (np.asarray(scores_with, float), np.asarray(scores_without, float))
    cut = _most_accurate_threshold(*first) if threshold is None else threshold
    correct, guesses = int((judged[0] > cut).sum() + (judged[1] <= cut).sum()), 2 * len(judged[0])
    mu = mu_from_guesses(correct, guesses, error / 2)
    by_curve = pure_epsilon_from_guesses(correct, guesses, error / 2) if pure else gaussian_epsilon(mu, delta)
    by_definition = _by_definition(first, second, 0.0 if pure else delta, error / 2)
    return Bound(max(by_curve, by_definition), by_curve, by_definition, mu, correct / guesses)


def _thresholds(scores: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    values = np.unique(np.concatenate([*scores, [-np.inf]]))
    return values if len(values) <= _MOST_THRESHOLDS else values[:: -(-len(values) // _MOST_THRESHOLDS)]


def _counts_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")


def _most_accurate_threshold(scores_with: np.ndarray, scores_without: np.ndarray) -> float:
    thresholds = _thresholds((scores_with, scores_without))
    gained = _counts_above(scores_with, thresholds) - _counts_above(scores_without, thresholds)
    return float(thresholds[np.argmax(gained)])


def _by_definition(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray], delta: float, error: float
) -> float:
    """Threshold and direction (speaks for ``with``, or for ``without``) by the first half, the bound by the second."""
    thresholds, trials = _thresholds(first), len(first[0])
    above = [_counts_above(scores, thresholds) for scores in first]
    for_with = epsilon_from_rates(above[0], above[1], trials, delta, error)
    for_without = epsilon_from_rates(trials - above[1], trials - above[0], trials, delta, error)
    trials = len(second[0])
    if for_with.max() >= for_without.max():
        cut = thresholds[np.argmax(for_with)]
        hits, false_hits = (second[0] > cut).sum(), (second[1] > cut).sum()
    else:
        cut = thresholds[np.argmax(for_without)]
        hits, false_hits = (second[1] <= cut).sum(), (second[0] <= cut).sum()
    return float(epsilon_from_rates(int(hits), int(false_hits), trials, delta, error))


# ---- trade-off curves, for the figure ---------------------------------------------------------------------------------


def gaussian_tradeoff(mu: float, false_positive_rate: np.ndarray) -> np.ndarray:
    """The smallest false-negative rate that μ-Gaussian-DP allows.

    >>> gaussian_tradeoff(0.0, np.array([0.25])).tolist()
    [0.75]
    """
    return np.asarray(ndtr(ndtri(1.0 - np.asarray(false_positive_rate)) - mu))


def definition_tradeoff(epsilon: float, delta: float, false_positive_rate: np.ndarray) -> np.ndarray:
    """The smallest false-negative rate that (ε, δ)-DP alone allows.

    >>> definition_tradeoff(0.0, 0.25, np.array([0.25, 0.9])).tolist()
    [0.5, 0.0]
    """
    fpr = np.asarray(false_positive_rate)
    return np.maximum(
        0.0, np.maximum(1 - delta - math.exp(epsilon) * fpr, math.exp(-epsilon) * np.maximum(1 - delta - fpr, 0.0))
    )


def observed_tradeoff(scores_with: np.ndarray, scores_without: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False-positive and false-negative rate at every threshold, without a margin for chance."""
    thresholds = _thresholds((np.asarray(scores_with, float), np.asarray(scores_without, float)))
    fpr = _counts_above(np.asarray(scores_without, float), thresholds) / len(scores_without)
    fnr = 1.0 - _counts_above(np.asarray(scores_with, float), thresholds) / len(scores_with)
    return np.concatenate([fpr, [0.0]]), np.concatenate([fnr, [1.0]])


# ---- one run, many canaries -----------------------------------------------------------------------------------------


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """How likely an (ε, δ)-DP mechanism lets at least ``correct`` of ``guesses`` coins be guessed right, at most.

    Steinke, Nasr and Jagielski (2023), Theorem 5.2: ``canaries`` people each were one of two alternatives by a fair coin of
    their own; for the others of them the auditor abstains. Without δ, right guesses are at most binomial with success
    e^ε/(1+e^ε); δ may move them past ``correct``, for which the second term pays.

    >>> one_run_p_value(canaries=10, guesses=10, correct=10, epsilon=0.0, delta=0.0) == 2.0**-10
    True
    """
    from scipy.stats import binom  # a second to load, and for audits in one run alone

    assert 0 <= correct <= guesses <= canaries
    success = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, success))
    just_missed = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, success))  # by at most 1, 2, …
    worst = float(np.max(just_missed / np.arange(1, correct + 1))) if correct else 0.0
    return min(1.0, tail + 2.0 * canaries * delta * worst)


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float, error: float) -> float:
    """The largest ε that these guesses refute, except with probability ``error``; rounded down.

    >>> one_run_epsilon(canaries=100, guesses=100, correct=50, delta=1e-6, error=0.05)
    0.0
    >>> 3.0 < one_run_epsilon(canaries=100, guesses=100, correct=100, delta=1e-6, error=0.05) < 3.6
    True
    """
    if one_run_p_value(canaries, guesses, correct, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and one_run_p_value(canaries, guesses, correct, high, delta) <= error:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        refuted = one_run_p_value(canaries, guesses, correct, middle, delta) <= error
        low, high = (middle, high) if refuted else (low, middle)
    return low


def one_run_mu(canaries: int, guesses: int, correct: int, error: float) -> float:
    """The largest μ such that these guesses refute μ-Gaussian-DP, except with probability ``error``; rounded down.

    >>> one_run_mu(canaries=100, guesses=100, correct=50, error=0.05)
    0.0
    >>> 0.84 < one_run_mu(canaries=2000, guesses=200, correct=190, error=0.05) < 0.85
    True
    """
    assert 0 <= correct <= guesses <= canaries
    assert 0 < error < 1
    if not _refutes_mu(canaries, guesses, correct, 0.0, error):
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and _refutes_mu(canaries, guesses, correct, high, error):
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _refutes_mu(canaries, guesses, correct, middle, error) else (low, middle)
    return low


def _refutes_mu(canaries: int, guesses: int, correct: int, mu: float, error: float) -> bool:
    """Whether under μ-Gaussian-DP so many right guesses have a probability below ``error`` (Mahloujifar et al. 2024).

    m canaries, each one of two alternatives by a fair coin; g guesses, p_i the probability that i of them are right. Fix
    everything but the coin of canary j, and look at the event "j is guessed to be a, and of the others so many are guessed
    right that i or more would be with her". If she is a, her guess is right; if she is the other, wrong, and one fewer is
    right. A trade-off curve f allows the event at most the probability 1 − f(x) in the one case if it has x in the other.
    1 − f is concave, so averages over coins and over j keep the inequality: for every i,

        Σ_{l ≥ i} l p_l / m  ≤  (1 − f)(Σ_{l ≥ i−1} (g − l) p_l / m).

    Now let P_i = Σ_{l ≥ i} p_l. The sum on the left is (i P_i + Σ_{l > i} P_l)/m, the other one ((g − i + 1) P_{i−1} −
    Σ_{l ≥ i} P_l)/m. With h the inverse of 1 − f, for Gaussian curves h(x) = Φ(Φ⁻¹(x) − μ), this reads

        P_{i−1}  ≥  (m h((i P_i + Σ_{l > i} P_l)/m) + Σ_{l ≥ i} P_l) / (g − i + 1),

    which grows with every P above. So if P_c is ``error`` at least, going down from c = ``correct`` gives a lower bound on
    each P in turn; where one would exceed 1, P_c must be smaller than ``error``.
    """
    tail, above = error, 0.0  # P_i, Σ_{l > i} P_l
    for i in range(correct, 0, -1):
        share = (i * tail + above) / canaries
        above += tail
        wrong = float(ndtr(ndtri(share) - mu)) if share < 1.0 else 1.0
        tail = max(tail, (canaries * wrong + above) / (guesses - i + 1))
        if tail > 1.0:
            return True
    return False
