"""The budget book: every release is charged here before its noise is drawn."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import Event, epsilon_spent
from commonground.accounting.personal import BudgetsLeft
from commonground.accounting.sampled import SampledGaussianEvent
from commonground.errors import BudgetError, InputError, LedgerError
from commonground.ledger.chain import LedgerEntry

if TYPE_CHECKING:
    from commonground.ledger.durable import DurableLedger
    from commonground.ledger.population import Population, Reservation

__all__ = [
    "BookedLedger",
    "DurableLedger",
    "InMemoryLedger",
    "Ledger",
    "LedgerEntry",
    "LedgerError",
    "PersonalBooking",
    "PersonalLedger",
    "Population",
    "Reservation",
    "SharedLedger",
    "StepLedger",
    "keeps_accounts",
    "reserved",
]


def __getattr__(name: str) -> Any:
    """A durable ledger's names; its database library is loaded by those who ask for them."""
    if name in ("DurableLedger", "Population", "Reservation"):
        from commonground.ledger.durable import DurableLedger
        from commonground.ledger.population import Population, Reservation

        return {"DurableLedger": DurableLedger, "Population": Population, "Reservation": Reservation}[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Ledger(Protocol):
    """What the gate asks of a ledger. ``charge`` records the event or raises ``BudgetError``; nothing in between."""

    def charge(self, event: Event) -> None: ...


@runtime_checkable
class BookedLedger(Ledger, Protocol):
    """What one fit has booked in a shared ledger: fit and ledger can name each other."""

    @property
    def entry(self) -> LedgerEntry: ...

    def published(self, fingerprint: str) -> None: ...


@runtime_checkable
class SharedLedger(Protocol):
    """A budget that many fits draw from: each books its whole declared budget first, and settles at the end."""

    def reserve(self, budget: Budget | PureBudget, purpose: str = "") -> AbstractContextManager[Ledger]: ...


def reserved(
    ledger: Ledger | SharedLedger | None, budget: Budget | PureBudget, purpose: str
) -> AbstractContextManager[Ledger | None]:
    """What is charged: a reservation where many draw from the ledger, else the ledger itself."""
    return ledger.reserve(budget, purpose) if isinstance(ledger, SharedLedger) else nullcontext(ledger)


@runtime_checkable
class StepLedger(SharedLedger, Protocol):
    """One that also books trainings on Poisson samples, step by step."""

    def reserve_steps(
        self, budget: Budget, events: Sequence[SampledGaussianEvent], purpose: str = ""
    ) -> AbstractContextManager[Ledger]: ...

    def paid_before(self, budget: Budget, events: Sequence[SampledGaussianEvent]) -> Ledger | None: ...


@runtime_checkable
class PersonalBooking(BookedLedger, AbstractContextManager[Ledger], Protocol):
    """What one fit has booked with everybody, and how much each therefore counts."""

    @property
    def budgets(self) -> BudgetsLeft: ...

    def settle(self) -> None: ...


@runtime_checkable
class PersonalLedger(Protocol):
    """One that keeps an account for every person: a fit says who is in it, and what it wants of each."""

    def reserve_each(
        self, ids: Any, epsilons: Any, delta: float, rounding_room: float, purpose: str = ""
    ) -> PersonalBooking: ...


def require_ledger(ledger: Any) -> None:
    """An error where what was given to pay for a fit can pay for nothing: a file's name, say."""
    if ledger is not None and not isinstance(ledger, SharedLedger) and not hasattr(ledger, "charge"):
        raise InputError(
            f"ledger= takes a population of a ledger, got {type(ledger).__name__}: DurableLedger(file).open_population(…)."
        )


def keeps_accounts(ledger: Any) -> TypeGuard[PersonalLedger]:
    """Whether a ledger keeps an account for every person, from which a fit takes what she has left."""
    return isinstance(ledger, PersonalLedger)


class InMemoryLedger:
    """The budget of one fit, forgotten with the process.

    >>> from commonground.accounting.events import GaussianEvent
    >>> book = InMemoryLedger(Budget(epsilon=1.0, delta=1e-6))
    >>> book.charge(GaussianEvent("too much", mu=1.0, sensitivity=1.0, noise_std=1.0, entries=1, simulated=False))
    Traceback (most recent call last):
    commonground.errors.BudgetError: 'too much' would bring the spend to ε = 4.887, more than the declared ε = 1.0...
    >>> book.events
    ()
    """

    def __init__(self, budget: Budget | PureBudget) -> None:
        self.budget = budget
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    def paid_before(self, budget: Budget, events: Sequence[Event]) -> "InMemoryLedger | None":
        """What a resumed run is charged to, where all of its releases were charged here before."""
        return InMemoryLedger(budget) if all(event in self._events for event in events) else None

    def charge(self, event: Event) -> None:
        spent = epsilon_spent([*self._events, event], self.budget.delta)
        if not spent <= self.budget.epsilon:
            raise BudgetError(
                f"{event.name!r} would bring the spend to ε = {spent:.4g}, more than the declared ε = "
                f"{self.budget.epsilon} at δ = {self.budget.delta}. Nothing was released; declare a larger epsilon "
                "or publish less."
            )
        self._events.append(event)
