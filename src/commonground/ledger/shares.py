"""What everybody pays of one fit, in whole numbers: nobody's account is ever rounded in her disfavour.

A fit whose noise is made for μ lets person i count w_i = k_i/2²⁰. Replacing her moves each release by w_i of its sensitivity, and
by what the rounding of other people's sums and the sampler's grid add to that (``accounting/personal.py``): a release of cost μ_e
with m numbers costs her at most

    (w_i + r) μ_e + 2⁻³⁹ √m,                                        r: the rounding room of the fit's people

and, as lengths of vectors add, all of the fit's releases together (w_i + r) √A + 2⁻³⁹ √M with A = Σ μ_e² and M = Σ m. ``room``
is the number of steps of 2⁻²⁰ that cover r and one more, so where M ≤ 2³⁸ A this is at most (q_i/2²⁰) √A with q_i = k_i + room.
She pays ``q_i² A / 2⁴⁰``, in units of 2⁻⁵² of μ², rounded up. Who counts in full has q = 2²⁰: her room is in the sensitivity.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

STEPS = 2**20  # a share of one
UNIT = 2**52  # parts of μ² = 1; int64 then holds μ² up to 2,048
LARGEST_COST = 1000.0  # μ² of any account; below half of what the integers hold
_ENTRIES_IN_ROOM = 2**38  # numbers released, per μ², whose rounding one step of 2⁻²⁰ covers


def units_within(mus: np.ndarray) -> np.ndarray:
    """Units that budgets of μ allow. ``gaussian_mu`` stays 1e-10 below the largest μ; half of that is used for rounding here.

    So whoever has the whole of a budget left affords a fit that declares it.
    """
    return np.floor(np.minimum(mus * mus, LARGEST_COST) * (1 + 1e-10) * UNIT).astype(np.int64)


def units_above(mus: np.ndarray) -> np.ndarray:
    """Units that cover μ², rounded up; for μ beyond all accounts, more than any of them holds."""
    return np.ceil(np.minimum(mus * mus * UNIT * (1 + 2.0**-50), 2.0**62)).astype(np.int64)


def units_of(cost: Fraction) -> int:
    """μ² in units, rounded up."""
    units = math.ceil(cost * UNIT)
    if not 0 <= units < 2**62:
        raise ValueError(f"μ² = {float(cost):g} is more than personal accounts hold")
    return units


def room_for(rounding_room: float) -> int:
    """Steps between what a person counts and what she pays for; see the module's top."""
    return math.ceil(rounding_room * STEPS) + 1


def within_room(cost: Fraction, entries: int) -> bool:
    """Whether the sampler's rounding of so many numbers is covered in releases that cost μ² together."""
    return entries <= cost * _ENTRIES_IN_ROOM


@lru_cache(4)  # 8 MB each; fits of one kind cost the same
def cost_table(cost: Fraction) -> np.ndarray:
    """(2²⁰ + 1,) int64: what any number of steps of a fit that costs μ² takes."""
    table = _costs(cost, np.arange(STEPS + 1))
    table.flags.writeable = False
    return table


def costs_of(cost: Fraction, steps: np.ndarray) -> np.ndarray:
    """(n,) int64: what everybody's q steps of a fit that costs μ² take, ⌈q² · units / 2⁴⁰⌉, exactly.

    >>> third = Fraction(1, 3)
    >>> costs_of(third, np.array([0, 1, 2**20])).tolist() == [0, -(-units_of(third) // 2**40), units_of(third)]
    True
    """
    return cost_table(cost)[steps] if len(steps) > STEPS else _costs(cost, steps)


def _costs(cost: Fraction, steps: np.ndarray) -> np.ndarray:
    low_bits, half = np.uint64(2**32 - 1), np.uint64(32)
    square, units = steps.astype(np.uint64) ** np.uint64(2), np.uint64(units_of(cost))
    # The product has up to 103 bits: multiplied in halves of 32, as on paper.
    low = (square & low_bits) * (units & low_bits)
    middle = (square >> half) * (units & low_bits) + (square & low_bits) * (units >> half) + (low >> half)
    high = (square >> half) * (units >> half)
    below = (middle & np.uint64(255)) | (low & low_bits)  # what the shift by 40 cuts off
    return ((high << np.uint64(24)) + (middle >> np.uint64(8)) + (below > 0)).astype(np.int64)


def steps_within(table: np.ndarray, left: np.ndarray, wished: np.ndarray, room: int) -> np.ndarray:
    """(n,) int32: the most steps that everybody has left and wishes; 0 where that is not more than the room."""
    most = np.minimum(np.sqrt(left / table[-1]) * STEPS, STEPS).astype(np.int32)  # up to rounding; then exactly
    while (above := table[most] > left).any():
        most -= above
    while (below := table[np.minimum(most + 1, STEPS)] <= left).any() and (below := below & (most < STEPS)).any():
        most += below
    steps = np.minimum(most, wished)
    return np.where((steps > room) & (left > 0), steps, 0).astype(np.int32)


def weights_of(steps: np.ndarray, room: int) -> np.ndarray:
    """How much everybody counts who pays for so many steps."""
    return np.where(steps >= STEPS, 1.0, np.maximum(steps - room, 0) / STEPS)
