"""Rounds that read only some of the people: each takes part in a round with probability q, and nobody knows who did.

For very many people. A round over a sample is q times the work, and not to know whether she was in it protects a person, too
(*amplification*): from the same budget, sampled rounds learn nearly as much as rounds over everybody as long as the noise of
one round is large beside one person. docs/scale.md has the measurement.

**Guarantee.** Unit and neighbours as everywhere: one person, replaced by any other. Each round draws two samples, one for the
histogram of sizes and one for the clipped sum, by independent coins that stay secret. If she was drawn, replacing a person moves
a histogram by at most √2 (2 is paid for) and a sum, in units of its clip, by at most 2. All histograms and all sums are charged
in advance as two ``SampledGaussianEvent``; dp-accounting composes their privacy loss with that of the other releases.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event, GaussianEvent, epsilon_spent
from commonground.accounting.sampled import REPLACE, SampledGaussianEvent
from commonground.clipping import N_BINS, BinnedSums, lower_edge, rounding_margin
from commonground.contributions.gradients import WINDOW
from commonground.errors import InputError
from commonground.estimators.rounds import CLIP_QUANTILE, EXPECTED_SHRINKAGE, ClippedGradient, Door
from commonground.gate import SampledReleases
from commonground.thresholds import effective_people, quantile_bin
from commonground.users import Users

FEWEST = 1000  # people in a sample; with fewer, reading everybody takes no time either
SIZES_SHARE = 0.08  # of a round's cost goes to its histogram, as in rounds over everybody


class SampledRounds:
    """The releases of all sampled rounds, paid for in advance."""

    def __init__(
        self, users: Users, rate: float, n_rounds: int, entries: int, beside: float, budget: Budget, door: Door
    ):
        """``beside``: μ of all that is released without sampling in the same fit, before or after."""
        if not 0 < rate < 1 or rate * users.n_users < FEWEST:
            raise InputError(
                f"sample_rate must lie between 0 and 1 and leave at least {FEWEST} people in a round, got {rate!r} for "
                f"{users.n_users} people. None reads everybody in every round."
            )
        self.rate, self._users, self._door = rate, users, door
        plan = _calibrated(
            rate, n_rounds, entries, beside, budget, rounding_margin(users.n_users), door.randomness.simulated
        )
        self._sizes, self._sums = (door.sampled(event) for event in plan)

    def release(
        self, sums_of: Callable[..., BinnedSums], model: tuple[Any, ...], last_edge: int, name: str
    ) -> ClippedGradient:
        """As ``rounds.release_clipped``, with a sample for the sizes and another for the sum.

        ``sums_of(people, *model, lowest)`` are the people's contributions.
        """
        first = int(np.clip(last_edge - EXPECTED_SHRINKAGE - WINDOW // 2, 1, N_BINS - WINDOW))
        drawn = sums_of(self._drawn(self._sizes), *model, first)
        sizes = self._sizes.release(drawn.histogram(f"{name}: sizes"))
        edge = int(np.clip(round(quantile_bin(sizes, first, CLIP_QUANTILE)), first + 1, first + WINDOW - 1))
        clip_norm = lower_edge(edge)
        drawn = sums_of(self._drawn(self._sums), *model, first)
        total = clip_norm * self._sums.release(drawn.clipped_at(edge, f"{name}: clipped sum").in_units_of(clip_norm))
        # How many were drawn is secret; how many are expected is not.
        people = max(effective_people(sizes, first, edge), 0.1 * self.rate * self._users.n_users)
        return ClippedGradient(total, clip_norm * self._sums.event.noise_std, people, edge)

    def _drawn(self, releases: SampledReleases) -> Users:
        takes_part = np.zeros(self._users.n_users)
        takes_part[releases.sample(self._users.n_users)] = 1.0
        return self._users.weighted(takes_part)


def _calibrated(
    rate: float, n_rounds: int, entries: int, beside: float, budget: Budget, margin: float, simulated: bool
) -> Sequence[SampledGaussianEvent]:
    """Sizes and sums, with the least noise (to a thousandth) that keeps all within the budget."""
    other = GaussianEvent("all that is not sampled", beside, 1.0, 1.0 / beside, 1, simulated)

    def plan(multiplier: float) -> list[SampledGaussianEvent]:
        shares = {"sizes": (SIZES_SHARE, WINDOW), "clipped sums": (1.0 - SIZES_SHARE, entries)}
        return [
            SampledGaussianEvent(
                f"sampled rounds: {name}", rate, multiplier / math.sqrt(share), n_rounds, REPLACE, 1, 1.0 + margin,
                SampledReleases.noise_std(multiplier / math.sqrt(share), 1.0 + margin, size), size, simulated, "person",
            )
            for name, (share, size) in shares.items()
        ]  # fmt: skip

    def fits(multiplier: float) -> bool:
        events: list[Event] = [other, *plan(multiplier)]
        return epsilon_spent(events, budget.delta) <= budget.epsilon * (1.0 - 1e-6)

    # What rounds over everybody would need, times the rate: right where the noise is large.
    left = budget.mu**2 - beside**2
    low, high = 0.0, 2.0 * rate * math.sqrt(n_rounds / left)
    while not fits(high):
        low, high = high, 1.1 * high
    while not low:
        low, high = (high / 1.1, high) if not fits(high / 1.1) else (0.0, high / 1.1)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return plan(high)
