"""What P4's Algorithm 2 costs a user: an owner drawn with all of its users is no sample of users.

Each step draws one of n owners, and Levy et al.'s mean of *its* users' gradients is published: for each coordinate of a
rotated vector a range by the exponential mechanism, then the mean clipped to it plus Laplace noise (``range_then_clip``). The
proof of Theorem B.1 has every step at the whole (ε, δ), and counts on amplification by sampling: a user is drawn once in n
steps. But amplification needs that a step with her looks like one without her. Here it looks like *another owner's*: where
the owner's other users sit apart, everybody sees when it was drawn, and each of these steps (about T/n) costs her in full.

``cost`` is what all T steps cost a user, from above, by optimal composition of pure mechanisms over the number of draws, which
is Binomial(T, 1/n). ``at_least`` is what one explicit pair of data sets proves without any run, ``proven_epsilon`` what an
attack proves by runs of the estimator itself. Unit: a user, replaced by any other; the numbers of owners and of their users
are public. What is counted is everything that leaves: x_j moves by released numbers alone, so it is covered as well (full DP).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from commonground.accounting.gaussian import gaussian_delta
from commonground.accounting.sampled import noise_multiplier_for
from commonground.audit.bounds import Bound, lower_bound

_TAIL = 1e-9  # of the number of draws, on either side; added to δ in full


@dataclass(frozen=True)
class WholeOwners:
    """Algorithm 2's public numbers: n owners, T steps, gradients of ``size`` numbers."""

    n_owners: int
    steps: int
    size: int
    delta: float = 1e-5

    @classmethod
    def as_printed(cls, n_owners: int, size: int, delta: float = 1e-5) -> "WholeOwners":
        """T = n²/log(1/δ), Theorem B.1 with the constant one."""
        return cls(n_owners, max(1, round(n_owners**2 / math.log(1 / delta))), size, delta)

    def per_coordinate(self, epsilon: float) -> float:
        """Levy et al.'s ε' for each coordinate of a step that has (ε, δ)."""
        return epsilon / math.sqrt(8 * self.size * math.log(1 / self.delta))

    def draws(self) -> tuple[np.ndarray, np.ndarray]:
        """How often one owner may be drawn, and how likely; the tails left out."""
        law = binom(self.steps, 1 / self.n_owners)
        counts = np.arange(int(law.ppf(_TAIL)), int(law.isf(_TAIL)) + 1)
        return counts, law.pmf(counts)

    def cost(self, per_coordinate: float) -> float:
        """ε of all steps for one user, from above: each of her draws has a range and a mean of ε'/2 in each coordinate."""
        counts, likely = self.draws()
        half = per_coordinate / 2

        def delta_at(epsilon: float) -> float:
            return float(likely @ pure_delta(2 * self.size * counts, half, epsilon)) + 2 * _TAIL

        return _smallest(delta_at, self.delta)

    def per_coordinate_for(self, epsilon: float) -> float:
        """The largest ε' of a coordinate with which all steps cost at most ε."""
        low, high = 0.0, epsilon
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.cost(middle) <= epsilon else (low, middle)
        return low

    def at_least(self, per_coordinate: float) -> float:
        """ε that is surely spent on the worst pair: her owner's other users apart from everybody else, she at either end.

        Then it is seen which steps are hers, and each of them shows d sums with Laplace noise, apart by ε'/2 scales. With
        probability 0.999 there are at least the counted number of such steps.
        """
        from dp_accounting.pld import privacy_loss_distribution

        draws = int(binom(self.steps, 1 / self.n_owners).ppf(1e-3))
        if not draws:
            return 0.0
        one = privacy_loss_distribution.from_laplace_mechanism(
            2 / per_coordinate, pessimistic_estimate=False, value_discretization_interval=1e-4, use_connect_dots=False
        )
        return float(one.self_compose(draws * self.size).get_epsilon_for_delta(self.delta / 0.999))


def cost_of_amplified_noise(n_owners: int, steps: int, epsilon: float, delta: float) -> float:
    """What Gaussian noise costs a user if it was made for a sample of one user in n, and whole owners are drawn."""
    multiplier = noise_multiplier_for(epsilon, delta, 1 / n_owners, steps, "replace-one")
    counts, likely = WholeOwners(n_owners, steps, 1, delta).draws()

    def delta_at(value: float) -> float:
        return sum(
            p * gaussian_delta(2 / multiplier * math.sqrt(k), value) for k, p in zip(counts, likely, strict=True)
        )

    return _smallest(delta_at, delta)


def pure_delta(count: np.ndarray, each: float, epsilon: float) -> np.ndarray:
    """δ at ε of so many mechanisms of pure ε ``each``, composed optimally (Kairouz, Oh and Viswanath).

    >>> pure_delta(np.array([3]), 0.1, 0.3 + 1e-9).tolist()
    [0.0]
    """
    right = 1 / (1 + math.exp(-each))
    fewest = np.floor((epsilon / each + count) / 2) + 1  # more right answers than wrong ones, by more than ε
    from_above = binom.sf(fewest - 1, count, right)
    return np.maximum(from_above - np.exp(epsilon) * binom.sf(fewest - 1, count, 1 - right), 0.0)


def _smallest(delta_at, delta: float) -> float:  # type: ignore[no-untyped-def]
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


# ---- the estimator, and an attack on it -----------------------------------------------------------------------------


def range_then_clip(
    values: np.ndarray, per_coordinate: float, radius: float, bound: float, rng: np.random.Generator, draws: int = 1
) -> np.ndarray:
    """(draws, d): Levy et al.'s winsorised mean of (users, d) values by coordinates; repeatable draws, not protective ones.

    A bin of width 2τ (``radius``) near the median by the exponential mechanism at ε'/2, counts of users on either side as its
    cost; then the mean of values clipped to 2τ around its middle, with Laplace noise of 8τ/(users · ε').
    """
    users, d = values.shape
    middles = np.arange(-bound + radius, bound + radius, 2 * radius)
    bins = np.clip(np.round((values - middles[0]) / (2 * radius)), 0, len(middles) - 1).astype(np.int64)
    found = rng.laplace(scale=8 * radius / (users * per_coordinate), size=(draws, d))
    for c in range(d):
        counts = np.bincount(bins[:, c], minlength=len(middles))
        up_to = np.cumsum(counts)
        cost = np.maximum(up_to - counts, users - up_to)
        chosen = (rng.gumbel(size=(draws, len(middles))) - per_coordinate / 4 * cost).argmax(axis=1)
        for centre in np.unique(chosen):
            low, high = middles[centre] - 2 * radius, middles[centre] + 2 * radius
            found[chosen == centre, c] += np.clip(values[:, c], low, high).mean()
    return found


def proven_epsilon(
    setting: WholeOwners, per_coordinate: float, users: int, runs: int, seed: int = 0, error: float = 0.05
) -> Bound:
    """What runs prove about T steps at ε': her owner's other users send 0, she sends far above or far below.

    Only the steps of her owner are run: those of others have the same law in both cases, and are told apart at a glance.
    """
    assert setting.size == 1
    radius, bound = 1.0, 9.0
    rng = np.random.default_rng([seed, 0xA162])
    scores = {}
    for side in (1.0, -1.0):
        gradients = np.zeros((users, 1))
        gradients[0] = side * bound
        drawn = rng.binomial(setting.steps, 1 / setting.n_owners, size=runs)
        seen = [range_then_clip(gradients, per_coordinate, radius, bound, rng, k) for k in drawn]
        scores[side] = np.array([np.sum(np.abs(g + 2 / users) - np.abs(g - 2 / users)) for g in seen])
    return lower_bound(scores[1.0], scores[-1.0], setting.delta, error)
