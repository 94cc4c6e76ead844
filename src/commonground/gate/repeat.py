"""How often a fit is repeated, and with which settings, where the best alone is published: secret, and paid for before.

validate → charge → draw
"""

from commonground.accounting.selection import RepeatedSelectionEvent
from commonground.errors import BudgetError
from commonground.gate.noise import draw_repetitions
from commonground.gate.randomness import Randomness
from commonground.ledger import Ledger


def repetitions(event: RepeatedSelectionEvent, ledger: Ledger, randomness: Randomness) -> tuple[int, ...]:
    """Which of ``event.entries`` settings to run, one after the other: at least one, ``event.mean`` in the mean."""
    # validate
    if not (event.makes_sense and event.supported) or event.simulated != randomness.simulated:
        raise BudgetError(f"{event.name!r} does not say truly what it costs: {event}")
    # charge
    ledger.charge(event)
    # draw
    return draw_repetitions(1.0 / event.mean, event.entries, randomness)
