"""What each party can learn, and what remains when nodes vanish or tell each other their noise.

trust="server": nodes send exact sums, the server's gate adds noise of standard deviation σ = Δ/μ. The public sees a release
of cost μ; the server sees exact sums and is trusted with them.

trust="nodes": N nodes, of which f may vanish. Each node adds noise of variance σ²/(N − f) to its own sum before it sends it.

- The public sees the sum of the a ≥ N − f noised answers that arrived: variance a·σ²/(N − f), so at most μ.
- c nodes who put their heads together can subtract their own noise from what is public: a − c shares are left.
- The server sees every noised answer by itself, and a person is in one of them only: one share protects her, whatever the
  others do, so that colluding with nodes brings the server nothing more. Her cost towards the server is μ·√(N − f). With
  f = N − 1 every node adds all of the noise, and the server learns no more than the public.

Gaussian costs of all releases grow by the same factor, so a whole training run's (ε, δ) follows from its total μ.
"""

import math
from dataclasses import dataclass

from commonground.accounting.budgets import Budget
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.errors import InputError
from commonground.gate.scattered import cost_of_a_part


@dataclass(frozen=True)
class NoiseShares:
    """How many nodes there are, and how many may be missing from an answer before nothing is published."""

    nodes: int
    tolerated: int

    def __post_init__(self) -> None:
        if not 0 <= self.tolerated < self.nodes:
            raise InputError(
                f"{self.tolerated} of {self.nodes} nodes may vanish? Tolerate from 0 to {self.nodes - 1} of them."
            )

    @property
    def needed(self) -> int:
        """Answers that together have all of the noise."""
        return self.nodes - self.tolerated

    def cost_to_the_public(self, mu: float, arrived: int, colluding: int = 0) -> float:
        """μ of what is published, towards people who know the noise of ``colluding`` of the nodes that answered.

        >>> shares = NoiseShares(nodes=4, tolerated=1)
        >>> shares.cost_to_the_public(1.0, arrived=3), round(shares.cost_to_the_public(1.0, arrived=4), 4)
        (1.0, 0.866)
        >>> shares.cost_to_the_public(1.0, arrived=3, colluding=3)
        inf
        """
        left = arrived - colluding
        return mu * math.sqrt(self.needed / left) if left > 0 else math.inf

    def cost_to_the_server(self, mu: float) -> float:
        """μ of one node's noised answers, which the server sees one by one."""
        return cost_of_a_part(mu, self.needed)


def epsilon_to_the_server(budget: Budget, shares: NoiseShares) -> float:
    """The ε, at the budget's δ, of everything a server sees in the course of training.

    >>> round(epsilon_to_the_server(Budget(1.0, 1e-6), NoiseShares(nodes=4, tolerated=1)), 2)
    1.81
    >>> round(epsilon_to_the_server(Budget(1.0, 1e-6), NoiseShares(nodes=4, tolerated=3)), 2)
    1.0
    """
    return gaussian_epsilon(shares.cost_to_the_server(budget.mu), budget.delta)
