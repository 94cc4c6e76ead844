"""What the default recipe has compiled on both cores, where it never was: see ``ahead``."""

from commonground import ahead
from commonground.data.population import Population
from commonground.heads.posterior import fit_posterior_heads
from commonground.statistics import made_up
from commonground.statistics.kernels.posterior_rounds import people_of_chunk


def start_compiling(users: Population) -> None:
    """Have rounds over dense rows compiled by a child process, and meanwhile here what the fit needs after their first."""
    if not users.numbers or users.sparse:
        return
    if ahead.start(people_of_chunk, made_up.__name__, made_up.compile_rounds.__name__, users.numbers):
        made_up.compile_directions(users.numbers)
        fit_posterior_heads(made_up.made_up_people(users.numbers), made_up.MODEL)
