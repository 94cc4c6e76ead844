"""A random part of many people, for looks that more people would not make better.

A fit looks at its people again and again for a few numbers: scales and correlations of features, sizes of gradients, the prior of
heads. Of half a million people a tenth tells these as well as all, in a tenth of the time. Directions and the shared mean, of
which there are many numbers, are begun on the part, too: what is off is put right by the rounds that follow, over everybody.

**Guarantee.** How many are in the part follows from public numbers. Who they are is drawn by the gate, each choice of so many as
likely as any other, whatever people's rows are and in whichever order they stand. Let a person be replaced. With the same people
chosen, her place included, all sums over the part move by at most one person's contributions, or not at all: given the
choice, releases cost what they cost over everybody, and that is what is charged. The choice does not depend on rows and is told
to nobody, so the same holds on the average over choices (the hockey-stick divergence of a mixture is at most the mean of those
of its parts); so, too, if a resumed fit draws another part. Nothing is claimed for the chance of not being drawn.
"""

import numpy as np

from commonground.data.population import Population
from commonground.gate import Gate

# Twice as many as in the papers' settings, where these releases are far more precise than they need be.
ENOUGH_PEOPLE = 40_000
ENOUGH_SEEN = 10_000.0  # the least n μ, of n people in the part and the whole budget: 40,000 people at ε = 1 have 9,500
SEEN_OF_MOMENTS = 30.0  # n μ/d^1.5, at which moments of features show correlations well (``steps.coordinates``)
_MOST = 0.5  # of all people: a larger part would save little


def share_looked_at(users: Population, mu: float) -> float:
    """Which share of people a fit's looks take, whose whole budget is ``mu``; from public numbers.

    Not from whether rows fit into memory: that follows from how many rows people have.
    """
    if users.sparse or not users.rows_are_here:
        return 1.0
    people = users.total_weight
    seen = max(ENOUGH_SEEN, SEEN_OF_MOMENTS * users.n_features**1.5)
    share = max(ENOUGH_PEOPLE / people, seen / (people * mu))
    return share if share <= _MOST else 1.0


def some_people(users: Population, gate: Gate, mu: float) -> Population:
    """People for a fit's looks: a random part of very many, else everybody."""
    share = share_looked_at(users, mu)
    if share == 1.0:
        return users
    counts = np.ones(users.n_users, dtype=bool) if users.weights is None else users.weights > 0
    takes_part = np.zeros(users.n_users, dtype=bool)
    takes_part[counts] = gate.part(int(counts.sum()), round(share * int(counts.sum())))
    return users.only(takes_part)
