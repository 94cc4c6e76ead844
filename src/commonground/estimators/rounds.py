"""What every iterative learner here shares: a clip that follows the data, and a step that knows its noise.

**The clip follows the residual.** People's gradients shrink as the shared part improves, so each round first releases a
histogram of their sizes and clips at a low quantile of it: the noise shrinks along with the gradients.

**The step knows its noise.** The gate tells the standard deviation it added, so how much of a released gradient is
signal can be read off its length, by Stein's formula: step · max(0, 1 − p σ²/‖G‖²). Early rounds take full steps, rounds at
the noise floor hardly move. It uses released values only, and costs nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.events import GaussianEvent
from commonground.billboard import Statement
from commonground.clipping import N_BINS, BinnedSums, BoundedSum
from commonground.contributions.gradients import WINDOW
from commonground.gate import Randomness, Release, release
from commonground.ledger import Ledger
from commonground.thresholds import densest_window, effective_people, quantile_bin
from commonground.users import Users

CLIP_QUANTILE = 0.3  # of the people; see docs/private_fedrep.md for the experiment
_EXPECTED_SHRINKAGE = 1  # bins (half an octave) by which sizes are expected to fall from one round to the next


@dataclass(frozen=True)
class Door:
    """The gate with one fit's ledger and randomness; remembers what passed, for the statement."""

    ledger: Ledger
    randomness: Randomness
    _events: list[GaussianEvent] = field(default_factory=list)

    def release(self, bounded_sum: BoundedSum, mu: float) -> Release:
        public = release(bounded_sum, mu, self.ledger, self.randomness)
        self._events.append(public.event)
        return public

    def statement(self, algorithm: str, recipe: str, budget: Budget, users: Users, **parameters: Any) -> Statement:
        return Statement(
            algorithm=algorithm,
            recipe=recipe,
            epsilon=float(budget.epsilon),
            delta=float(budget.delta),
            n_users=users.n_users,
            n_features=users.n_features,
            simulated=self.randomness.simulated,
            noise=self.randomness.description,
            events=tuple(self._events),
            parameters=parameters,
        )


@dataclass(frozen=True)
class ClippedGradient:
    """A released sum of clipped contributions."""

    value: np.ndarray
    noise_std: float
    people: float  # how many unclipped people it is worth
    edge: int  # the bin at whose lower edge contributions were clipped


def release_clipped(
    sums_from: Callable[[int], BinnedSums], last_edge: int | None, door: Door, mu_size: float, mu_sum: float, name: str
) -> ClippedGradient:
    """One round: sizes through the gate, a clip chosen from them, the clipped sum through the gate.

    ``sums_from(lowest)`` reads the rows once and keeps sums for the window of bins that starts at ``lowest``. Where the
    window must be is guessed from the last round's clip; in the first round the whole grid is looked at, which costs
    one more read of the rows.
    """
    if last_edge is None:
        sizes = door.release(sums_from(1).histogram(f"{name}: sizes"), mu_size)
        first = densest_window(sizes.value, WINDOW)
        sums = sums_from(first)
    else:
        first = int(np.clip(last_edge - _EXPECTED_SHRINKAGE - WINDOW // 2, 1, N_BINS - WINDOW))
        sums = sums_from(first)
        sizes = door.release(sums.histogram(f"{name}: sizes"), mu_size)
    position = quantile_bin(sizes.value, first, WINDOW, CLIP_QUANTILE)
    edge = int(np.clip(round(position), first + 1, first + WINDOW - 1))
    gradient = door.release(sums.clipped_at(edge, f"{name}: clipped sum"), mu_sum)
    return ClippedGradient(gradient.value, gradient.noise_std, effective_people(sizes.value, first, WINDOW, edge), edge)


def signal_share(gradient: np.ndarray, noise_std: float, dimension: int) -> float:
    """The share of a released gradient that is signal rather than noise (positive-part James-Stein).

    >>> signal_share(np.array([3.0, 4.0]), noise_std=0.0, dimension=2)
    1.0
    >>> signal_share(np.array([3.0, 4.0]), noise_std=5.0, dimension=2)
    0.0
    """
    return max(0.0, 1.0 - dimension * noise_std**2 / float((gradient**2).sum()))
