"""An attack on P4's Algorithm 1 as printed: one record, which has no gradient in u at all, is read off the published ū.

Theorem 3.1 states that the noise of a record drawn once in mn steps makes the algorithm private at the level of records. But
x_j moves without noise, and it enters every later gradient of its owner. The data, whose losses are convex and L-Lipschitz:

* the record under attack: h = ±L·x, so that its gradient moves x_j and leaves u alone;
* its owner's m − 1 other records: h = L·|αx + βu|, α = 1/(2m), α² + β² = 1: their gradient in u is ±Lβ, by the sign of
  αx + βu. They pull x_j back by Lα each, half of what the one record pushes it by;
* all other owners: nothing, h = 0.

While u stays within U = [−b, b], |αx_j| grows beyond b, and from then on each step of the owner (one in n) pushes u the way that
the *record* says: an influence of L/n a step, hidden by noise for L/(mn). The averaged ū tells the two records apart at about
1.6 mε/√log(1/δ) standard deviations, however small ε is, for m large.

Two repairs: ``OWNER`` noise, for the owner as a whole (what ``owners/single_steps.py`` pays for), and ``RESTING``, x_j at rest
(``owners/minibatches.py``), under which the attacked record sends nothing.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.sampled import epsilon_of_steps, noise_multiplier_for
from commonground.audit.bounds import Bound, lower_bound
from commonground.compiled import kernel

PRINTED, OWNER, RESTING = "as printed", "noise for whole owners", "x at rest"


@dataclass(frozen=True)
class Attack:
    """The setting: n owners of m records, T = (mn)² steps as the paper's proof has it, |u| ≤ reach (in units of ηL)."""

    n_owners: int = 50
    n_records: int = 10
    epsilon: float = 1.0
    delta: float = 1e-5
    reach: float = 5.0

    @property
    def steps(self) -> int:
        return (self.n_records * self.n_owners) ** 2

    def noise(self, how: str) -> float:
        """Standard deviation of the noise of a step, in units of L."""
        if how == OWNER:  # replacing an owner moves a gradient by 2L, in one step of n
            return noise_multiplier_for(self.epsilon, self.delta, 1 / self.n_owners, self.steps, "replace-one")
        in_all = self.n_records * self.n_owners
        return math.sqrt(self.steps * math.log(1 / self.delta)) / (self.epsilon * in_all)  # Alg. 1, line 2

    def epsilon_if_at_rest(self, how: str) -> float:
        """What this noise would cost a record that is drawn in one step of mn and steers no gradient but its own."""
        q = 1 / (self.n_records * self.n_owners)
        return epsilon_of_steps({(q, self.noise(how), "replace-one", 1): self.steps}, self.delta)


@kernel()
def _mean_of_u(rng, record, m, n, steps, noise, reach, moves):  # type: ignore[no-untyped-def]
    """ū of one run; ``record`` is +1 or −1. Units of ηL for x and u."""
    alpha = 1.0 / (2.0 * m)
    beta = math.sqrt(1.0 - alpha * alpha)
    x, u, total = 0.0, 0.0, 0.0
    for _ in range(steps):
        in_u = 0.0
        if rng.random() * n < 1.0:  # the owner under attack
            if rng.random() * m < 1.0:  # the record under attack
                x += record if moves else 0.0
            else:
                side = 1.0 if alpha * x + beta * u > 0.0 else -1.0
                in_u = beta * side
                x -= alpha * side if moves else 0.0
        u = min(max(u - in_u - noise * rng.standard_normal(), -reach), reach)
        total += u
    return total / steps


def means_of_u(attack: Attack, how: str, record: float, runs: int, seed: int) -> np.ndarray:
    """What all others see, of so many runs with the one or the other record."""
    moves, noise = how != RESTING, attack.noise(how)
    shape = attack.n_records, attack.n_owners, attack.steps, noise, attack.reach, moves
    rng = np.random.default_rng([seed, 0xA77AC, int(record > 0)])
    return np.array([_mean_of_u(rng, record, *shape) for _ in range(runs)])


def proven_epsilon(attack: Attack, how: str, runs: int, seed: int = 0, error: float = 0.05) -> Bound:
    """What the attack proves about ε, with 95 % confidence. ``by_definition`` assumes nothing about the mechanism."""
    seen = [means_of_u(attack, how, record, runs, seed) for record in (-1.0, 1.0)]  # x pushed up pushes u down
    return lower_bound(seen[0], seen[1], attack.delta, error)
