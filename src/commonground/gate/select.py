"""Choosing one of many public candidates by private scores (the exponential mechanism).

    validate → charge → draw → stamp

Which candidate was chosen is all that leaves. The charge comes before the draw, as in ``release.py``.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.accounting.events import PureEvent
from commonground.clipping.bounded import BoundedScores
from commonground.errors import BudgetError
from commonground.gate.noise import choose_smallest
from commonground.gate.randomness import Randomness
from commonground.ledger import Ledger

# The noise is drawn this much wider than 2Δ/ε: for the rounding of that quotient, and of OpenDP's own statement, upwards.
SCALE_MARGIN = 1e-9


@dataclass(frozen=True)
class Selection:
    """A public choice, with the record of what it cost."""

    index: int
    event: PureEvent


def select(scores: BoundedScores, epsilon: float, ledger: Ledger, randomness: Randomness) -> Selection:
    """Publish which candidate has (about) the smallest score, ε-differentially private, charged to ``ledger``.

    Candidate i is chosen with probability ∝ exp(−ε score_i / 2Δ). Replacing a person moves each score by at most Δ, up for
    some candidates and down for others, so a log-probability moves by at most ε.
    """
    # validate
    value, sensitivity = np.asarray(scores.value), scores.sensitivity
    if value.dtype != np.int64 or value.ndim != 1 or not len(value):
        raise BudgetError(
            f"{scores.name!r} must be a list of whole-number scores; nothing else is summed without rounding"
        )
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or not 0 < sensitivity < 2**62:
        raise BudgetError(f"{scores.name!r} has no whole-number sensitivity, so no noise can protect it")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BudgetError(f"{scores.name!r} was given the budget share ε = {epsilon!r}; it must be finite and > 0")
    scale = 2.0 * sensitivity / epsilon * (1.0 + SCALE_MARGIN)
    event = PureEvent(scores.name, float(epsilon), float(sensitivity), scale, len(value), randomness.simulated)
    # charge
    ledger.charge(event)
    # draw
    index = choose_smallest(value, scale, sensitivity, epsilon, randomness)
    # stamp
    return Selection(index, event)
