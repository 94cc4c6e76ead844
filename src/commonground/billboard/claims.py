"""Whether what a board says can be true: asked of every board that is read.

Its releases have the noise that their cost needs; together they cost no more than was declared, and what was written down;
noise from a seed is called so; where nothing was released, nothing is published; every array is finite and has its shape.

A checksum is not a signature. Whoever may rewrite a board can make all of this agree with itself: a forger is found by a
signature (``signing.py``) and by the ledger that was charged (``in_ledger.py``).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.accounting.events import Event
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE
from commonground.errors import BudgetError

if TYPE_CHECKING:
    from commonground.billboard.joint import JointStatement
    from commonground.billboard.statement import Statement

SLACK = 1e-6  # relative: another machine's last digits, of privacy loss distributions above all
SEEDED = "protects nobody"  # how ``gate/randomness.py`` describes noise from a seed, whatever it is drawn by


class UnbelievableError(ValueError):
    """Why a claim cannot be true; the reader of the file says of which board."""


def check_claim(claim: "Statement | JointStatement", recorded_spend: float | None) -> None:
    """Raise ``UnbelievableError`` unless the events support the statement.

    ``recorded_spend``: the ε that the writer says they cost; None in files from before that was written down.
    """
    if not claim.epsilon >= 0.0:
        raise UnbelievableError(f"it declares ε = {claim.epsilon!r}")
    if not (_number(claim.delta) and 0.0 <= claim.delta < 1.0):
        raise UnbelievableError(f"it declares δ = {claim.delta!r}")
    if claim.relation not in (ADD_OR_REMOVE, REPLACE):
        raise UnbelievableError(f"it names the neighbours {claim.relation!r}, which nobody accounts for")
    if not (isinstance(claim.simulated, bool) and isinstance(claim.noise, str)):
        raise UnbelievableError("it does not say whether its noise is simulated")
    for event in claim.events:
        _check_event(event, claim)
    if not claim.simulated and (SEEDED in claim.noise or any(event.simulated for event in claim.events)):
        raise UnbelievableError("its noise comes from a known seed, and the statement hides it")
    if not claim.private:
        return
    if not claim.events and claim.epsilon:
        raise UnbelievableError(f"it declares ε = {claim.epsilon:g} and lists no release that would have cost anything")
    alone = max((event.cost.at_least(claim.delta) for event in claim.events), default=0.0)
    try:  # one release can tell enough, and is quicker than composing forged ones
        spent = alone if alone > claim.epsilon * (1.0 + SLACK) else claim.epsilon_spent
    except BudgetError as mixed:
        raise UnbelievableError(f"its releases do not add up ({mixed})") from None
    if not spent <= claim.epsilon * (1.0 + SLACK):
        raise UnbelievableError(
            f"its releases cost ε = {spent:.4g} at δ = {claim.delta:g}, and it declares {claim.epsilon:g}"
        )
    if recorded_spend is not None and not math.isclose(spent, recorded_spend, rel_tol=SLACK, abs_tol=1e-12):
        raise UnbelievableError(
            f"it was written with releases that cost ε = {recorded_spend:.6g}, and lists releases that cost {spent:.6g}: "
            "some are missing, or were changed"
        )


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in sorted(arrays.items()):
        if array.dtype.kind != "f":
            raise UnbelievableError(f"its array {name!r} is of type {array.dtype}, not of floating-point numbers")
        if not np.isfinite(array).all():
            raise UnbelievableError(f"its array {name!r} holds NaN or infinite numbers")


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every array is one of these, in its shape."""
    for name, array in sorted(arrays.items()):
        if name not in shapes:
            raise UnbelievableError(f"it holds an array {name!r}, which no billboard has")
        if array.shape != shapes[name]:
            raise UnbelievableError(f"its array {name!r} has the shape {array.shape}, needed is {shapes[name]}")


def _check_event(event: Event, claim: "Statement | JointStatement") -> None:
    if not event.makes_sense:
        raise UnbelievableError(f"its release {event.name!r} makes no sense")
    if not event.supported:
        raise UnbelievableError(f"the noise of its release {event.name!r} does not support what it is said to cost")
    if (event.unit or claim.unit, event.relation) != (claim.unit, claim.relation):
        raise UnbelievableError(
            f"it claims to protect one {claim.unit} ({claim.relation}), and its release {event.name!r} protects one "
            f"{event.unit or claim.unit} ({event.relation})"
        )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
