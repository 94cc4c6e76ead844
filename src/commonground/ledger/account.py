"""The account of one population: what is booked, charged and left. Arithmetic only; ``chain.py`` says how it comes about.

A fit is booked in the measure of its budget: μ², or ε where it declares δ = 0 (``accounting/costs.py``), and these add, as exact
fractions. Two kinds are not mixed on one population: adding up both would be true for a division fixed beforehand, but not for
an analyst who looks at one fit's result and then chooses of which kind the next one is (at (4, 1e-6) that can double δ). Each
kind alone is true however fits are chosen.

Fits that draw Poisson samples are another kind, counted in rounds (``rounds.py``), and not mixed with the others either: what
they cost counts on other neighbours.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import MEASURES, AddingCost, GaussianCost, PureCost, is_count, mu_of
from commonground.ledger.persons import Persons
from commonground.ledger.rounds import Round, Step
from commonground.ledger.shares import within_room


@dataclass(frozen=True)
class OpenReservation:
    """A budget that a fit has booked and not yet settled; it counts in full."""

    id: str
    epsilon: float
    delta: float
    purpose: str
    by: str  # host:process
    at: str  # for people only; nothing is decided by a clock
    kind: type[AddingCost] = GaussianCost  # what it is booked in
    cost: Fraction = Fraction(0)  # booked
    charged: Fraction = Fraction(0)  # of it, by the releases recorded so far
    charges: int = 0
    rounds: int = 0  # of sampled training; then nothing of the above is booked
    steps: tuple[tuple[Step, int], ...] = ()  # sampled steps charged so far
    by_shares: bool = False  # everybody pays for her own share (``shares.py``)
    entries: int = 0  # numbers released so far, where people pay by shares
    claim: str = ""  # of the process that has resumed the fit; nobody else may charge or settle it by way of a fit

    def with_charge(self, release: Mapping[str, Any]) -> "OpenReservation":
        """After one more recorded release; ``ValueError`` where what is left does not cover it."""
        if self.by_shares and release["kind"] != "gaussian":
            raise ValueError(
                "personal accounts add up Gaussian releases only: what a share of another costs does not scale"
            )
        if release["simulated"] is not False:
            raise ValueError("not a private release")
        cost = self.kind.of_release(release)
        charged = self.charged + cost
        if not charged <= self.cost:
            raise ValueError(
                f"it costs {self.kind.told(cost)}, but {self.kind.told(self.cost - self.charged)} is left of the ε = "
                f"{self.epsilon:g} (δ = {self.delta:g}) reserved for this fit. Declare a larger epsilon or publish less"
            )
        entries = self.entries + release["entries"] if self.by_shares else 0
        if self.by_shares and not (is_count(release["entries"]) and within_room(self.cost, entries)):
            raise ValueError(
                f"{entries:,} numbers are more than the room for rounding in people's shares of μ = {mu_of(self.cost):.4g} "
                "covers. Declare a larger epsilon, or publish fewer numbers"
            )
        return replace(self, charged=charged, charges=self.charges + 1, entries=entries)

    @property
    def counted(self) -> Fraction:
        """What is counted of it once it is settled: what was charged, or all where the room for rounding needs more of it."""
        return self.charged if not self.by_shares or within_room(self.charged, self.entries) else self.cost


@dataclass(frozen=True)
class Account:
    """The state of one population after its first ``count`` events."""

    population: str
    head: str  # hash of the last event
    count: int = 0
    budget: Budget | PureBudget | None = None
    personal: tuple[tuple[float, int], ...] = ()  # (ε, number of people), smallest ε first
    limit: Fraction = Fraction(0)  # μ² that everybody can afford, where nothing of another kind was spent
    # Charged by settled reservations, in the measure of each kind
    settled_in: Mapping[type[AddingCost], Fraction] = field(default_factory=lambda: MappingProxyType({}))
    fits: int = 0  # settled reservations
    open: Mapping[str, OpenReservation] = field(default_factory=lambda: MappingProxyType({}))
    round: Round | None = None  # of sampled training: what one is, and how many everybody can afford
    most_rounds: int = 0
    settled_rounds: int = 0
    # Where everybody has an account of her own; what is left is then hers (``personal.py``).
    persons: Persons | None = None

    @classmethod
    def before_all(cls, population: str) -> "Account":
        # The first link depends on the name, so that one population's events cannot stand in for another's.
        return cls(population, hashlib.sha256(f"commonground ledger of {population}".encode()).hexdigest())

    def booked_in(self, kind: type[AddingCost]) -> Fraction:
        """What may have been spent: what was charged, and all that open reservations may still charge."""
        return self.settled_in.get(kind, Fraction(0)) + sum((r.cost for r in self.open_in(kind)), Fraction(0))

    def charged_in(self, kind: type[AddingCost]) -> Fraction:
        """Of every release recorded."""
        return self.settled_in.get(kind, Fraction(0)) + sum((r.charged for r in self.open_in(kind)), Fraction(0))

    def open_in(self, kind: type[AddingCost]) -> list[OpenReservation]:
        return [r for r in self.open.values() if r.kind is kind]

    @property
    def kinds_booked(self) -> list[type[AddingCost]]:
        """In which anything is booked: one at most."""
        return [kind for kind in MEASURES.values() if self.booked_in(kind)]

    @property
    def booked(self) -> Fraction:
        """μ² that may have been spent."""
        return self.booked_in(GaussianCost)

    @property
    def charged(self) -> Fraction:
        """μ² of every release recorded."""
        return self.charged_in(GaussianCost)

    @property
    def settled(self) -> Fraction:
        """μ² charged by settled reservations."""
        return self.settled_in.get(GaussianCost, Fraction(0))

    @property
    def booked_rounds(self) -> int:
        """Rounds of sampled training that may have been made."""
        return self.settled_rounds + sum(r.rounds for r in self.open.values())

    @property
    def charged_rounds(self) -> int:
        return self.settled_rounds + sum(self.rounds_charged(r) for r in self.open.values())

    def rounds_charged(self, booking: OpenReservation) -> int:
        return self.round.rounds_of(dict(booking.steps)) if self.round is not None else 0

    @property
    def smallest(self) -> float:
        """The ε that everybody can afford."""
        assert self.budget is not None
        return min(self.budget.epsilon, *(epsilon for epsilon, _ in self.personal), math.inf)

    def limit_in(self, kind: type[AddingCost]) -> Fraction:
        """What everybody can afford in fits of this kind alone."""
        assert self.budget is not None
        return kind.limit(self.smallest, self.budget.delta, self.limit)

    def pays_for(self, kind: type[AddingCost]) -> bool:
        """Whether no other kind was paid for: whoever looks at one kind's results and then chooses the other is not covered."""
        return not self.booked_rounds and all(booked is kind for booked in self.kinds_booked)

    def left_in(self, kind: type[AddingCost]) -> Fraction:
        """For further fits of this kind; nothing where another kind was paid for."""
        return max(self.limit_in(kind) - self.booked_in(kind), Fraction(0)) if self.pays_for(kind) else Fraction(0)

    @property
    def left(self) -> Fraction:
        """μ² for further Gaussian fits."""
        return self.left_in(GaussianCost)

    def epsilon_left_in(self, kind: type[AddingCost]) -> float:
        """The same as ε."""
        return self.epsilon_of(self.left_in(kind), kind)

    @property
    def kind(self) -> type[AddingCost]:
        """The kind of fits that this population pays for."""
        return next(iter(self.kinds_booked), GaussianCost if self.limit else PureCost)

    @property
    def epsilon_left(self) -> float:
        """ε for further fits of the kind that this population pays for."""
        if self.booked_rounds:
            return self.epsilon_of_rounds(self.most_rounds - self.booked_rounds)
        return self.epsilon_left_in(self.kind)

    def affords(self, kind: type[AddingCost], cost: Fraction, slack: float = 0.0) -> bool:
        """Whether this much more can be booked. ``slack``, for readers: a later version's arithmetic may differ a little."""
        most = self.limit_in(kind) * (1 + Fraction(slack if kind.limit_is_computed else 0.0))
        if self.persons is not None:  # each share is held against its person's own account instead
            return kind is GaussianCost and cost <= most
        return self.pays_for(kind) and self.booked_in(kind) + cost <= most

    def affords_rounds(self, one: Round, rounds: int) -> bool:
        """Whether so many more rounds can be booked, of the kind that was booked before."""
        if self.persons is not None:  # what a share of sampled steps costs does not add up in closed form
            return False
        if self.kinds_booked or (self.booked_rounds and one != self.round):
            return False
        return self.booked_rounds + rounds <= self.most_rounds

    def with_round(self, one: Round, most_rounds: int) -> "Account":
        """What a round is and how many there are; fixed as long as any is booked."""
        return self if self.booked_rounds else replace(self, round=one, most_rounds=most_rounds)

    def epsilon_of_rounds(self, rounds: int) -> float:
        """Rounds as ε at the population's δ, rounded up."""
        assert self.budget is not None
        return self.round.epsilon(rounds, self.budget.delta) if self.round is not None else 0.0

    def epsilon_of(self, cost: Fraction, kind: type[AddingCost] = GaussianCost) -> float:
        """A cost as ε at the population's δ, rounded up."""
        assert self.budget is not None
        return kind.epsilon_of_amount(cost, self.budget.delta)

    def epsilon_in(self, amounts: Callable[[type[AddingCost]], Fraction]) -> float:
        """What is booked, or charged, of all kinds, as ε at the population's δ; it is of one kind."""
        return sum(self.epsilon_of(amounts(kind), kind) for kind in MEASURES.values())

    def with_open(self, booking: OpenReservation) -> "Account":
        return replace(self, open=MappingProxyType({**self.open, booking.id: booking}))

    def with_charge(self, reservation: str, release: Mapping[str, Any]) -> "Account":
        """After a recorded release was charged to an open reservation; ``ValueError`` where that does not cover it."""
        booking = self.open[reservation]
        sampled = booking.rounds or "step" in release
        return self.with_open(self._with_steps(booking, release) if sampled else booking.with_charge(release))

    def with_settled(self, reservation: str) -> "Account":
        """After an open reservation has given back what it did not charge."""
        still_open = dict(self.open)
        booking = still_open.pop(reservation)
        settled = self.settled_in.get(booking.kind, Fraction(0)) + booking.charged
        return replace(
            self,
            settled_in=MappingProxyType({**self.settled_in, booking.kind: settled}),
            settled_rounds=self.settled_rounds + self.rounds_charged(booking),
            fits=self.fits + 1,
            open=MappingProxyType(still_open),
            persons=self.persons.settled(booking.id, booking.counted) if self.persons else None,
        )

    def _with_steps(self, booking: OpenReservation, release: Mapping[str, Any]) -> OpenReservation:
        step, of = tuple(release.get("step", ())), dict(self.round.steps) if self.round else {}
        who = release.get("unit"), release.get("relation")
        if self.round is None or step not in of or who != (self.round.unit, self.round.relation):
            raise ValueError("it is not among the steps reserved for this fit")
        charged, n = Counter(dict(booking.steps)), release["steps"]
        charged[step] += n
        if release["simulated"] is not False or not is_count(n) or charged[step] > of[step] * booking.rounds:
            raise ValueError("more steps were charged than were reserved, or they are not private")
        return replace(booking, steps=tuple(sorted(charged.items())), charges=booking.charges + 1)
