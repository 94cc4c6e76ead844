"""A release as a ledger writes it down. What it takes from a reservation, its kind of cost says (``accounting/costs.py``)."""

from typing import Any

from commonground.accounting.events import EVENTS, Event
from commonground.errors import BudgetError


def as_charged(event: Event) -> dict[str, Any]:
    """A release as it is written down; what cannot be accounted for is refused."""
    if type(event) not in EVENTS.values():
        raise BudgetError(
            f"a ledger knows what Gaussian, pure and sampled releases cost, not a {type(event).__name__}. Nothing released."
        )
    if event.simulated is not False:
        raise BudgetError(
            f"{event.name!r} has simulated noise, which protects nobody, so it must not touch real people's budget. "
            "Fit without simulation_seed, or without a ledger."
        )
    try:
        supported = event.supported
    except TypeError:  # what is no number
        supported = False
    if not supported:
        raise BudgetError(
            f"{event.name!r} claims a cost that its noise does not support ({event}). Nothing was released."
        )
    return {
        "kind": event.kind,
        "name": str(event.name),
        "sensitivity": float(event.sensitivity),
        "entries": int(event.entries),
        "simulated": False,
        **event.charged(),
    }
