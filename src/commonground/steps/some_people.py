"""A random part of many people, for looks that more people would not make better.

A fit looks at its people again and again for a few numbers: scales and correlations of features, sizes of gradients, the prior of
heads. Of half a million people a tenth tells these as well as all, in a tenth of the time; directions and the shared
mean, of which there are many numbers, take everybody.

**Guarantee.** Who is in the part is drawn by the gate, each person for herself with one public probability, whatever her rows
are and wherever she stands in the table. Let a person be replaced. With the same coins, hers included, all sums over the part
move by at most one person's contributions, or not at all: given the coins, releases cost what they cost over everybody, and
that is what is charged. Coins do not depend on rows, so the same holds without knowing them (the hockey-stick
divergence of a mixture is at most the mean of those of its parts). Nothing is claimed for the chance of not being drawn.
"""

import numpy as np

from commonground.data.population import Population
from commonground.gate import Gate

ENOUGH_PEOPLE = (
    40_000  # twice as many as in the papers' settings, where these looks are far better than what they are for
)
ENOUGH_SEEN = 10_000.0  # n μ of the whole budget over the part: 40,000 people at ε = 1 have 9,500
SEEN_OF_MOMENTS = 30.0  # n μ/d^1.5, at which moments of features show correlations well (``steps.coordinates``)
_MOST = 0.5  # of all people: a larger part would save little


def some_people(users: Population, gate: Gate, mu: float) -> Population:
    """People for a fit's looks, whose whole budget is ``mu``: a random part of very many, else everybody.

    Where rows are not in memory, everybody: all would be read to find a part of them.
    """
    if users.sparse or not users.in_memory:
        return users
    people = users.total_weight
    seen = max(ENOUGH_SEEN, SEEN_OF_MOMENTS * users.n_features**1.5)
    part = max(ENOUGH_PEOPLE / people, seen / (people * mu))
    return users if part > _MOST else users.only(gate.sample(np.full(users.n_users, part)))
