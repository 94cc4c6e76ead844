"""The account of one population: what is booked, charged and left. Arithmetic only; ``chain.py`` says how it comes about.

A fit that declares δ = 0 is booked by its ε instead of μ², and these add. The two kinds are not mixed on one population: adding
up both would be true for a division fixed beforehand, but not for an analyst who looks at one fit's result and then chooses of
which kind the next one is (at (4, 1e-6) that can double δ). Each kind alone is true however fits are chosen.

Fits that draw Poisson samples are a third kind, counted in rounds (``rounds.py``), and not mixed with the others either: what
they cost counts on other neighbours.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import is_count
from commonground.accounting.gaussian import gaussian_epsilon
from commonground.ledger.persons import Persons
from commonground.ledger.releases import as_decimal, mu_of, taken_by
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
    cost: Fraction = Fraction(0)  # μ² booked; 0 with δ = 0
    charged: Fraction = Fraction(0)  # μ² of the releases recorded so far
    pure: Fraction = Fraction(0)  # ε booked with δ = 0; else 0
    charged_pure: Fraction = Fraction(0)
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
        cost, pure = taken_by(release, bool(self.pure))
        if self.pure and not pure:
            raise ValueError(
                f"it has Gaussian noise, but its fit reserved ε = {self.epsilon:g} with δ = 0. Declare a delta above 0"
            )
        charged, charged_pure = self.charged + cost, self.charged_pure + pure
        if not (charged <= self.cost and charged_pure <= self.pure):
            asked, left = f"μ = {mu_of(cost):.4g}", f"μ = {mu_of(self.cost - self.charged):.4g}"
            if self.pure:
                asked, left = f"ε = {float(pure):.4g}", f"ε = {float(self.pure - self.charged_pure):.4g}"
            raise ValueError(
                f"it costs {asked}, but {left} is left of the ε = {self.epsilon:g} (δ = {self.delta:g}) reserved for this "
                "fit. Declare a larger epsilon or publish less"
            )
        entries = self.entries + release["entries"] if self.by_shares else 0
        if self.by_shares and not (is_count(release["entries"]) and within_room(self.cost, entries)):
            raise ValueError(
                f"{entries:,} numbers are more than the room for rounding in people's shares of μ = {mu_of(self.cost):.4g} "
                "covers. Declare a larger epsilon, or publish fewer numbers"
            )
        return replace(self, charged=charged, charged_pure=charged_pure, charges=self.charges + 1, entries=entries)

    @property
    def counted(self) -> Fraction:
        """μ² that is counted once it is settled: what was charged, or all where the room for rounding needs more of it."""
        return self.charged if not self.by_shares or within_room(self.charged, self.entries) else self.cost


@dataclass(frozen=True)
class Account:
    """The state of one population after its first ``count`` events."""

    population: str
    head: str  # hash of the last event
    count: int = 0
    budget: Budget | PureBudget | None = None
    personal: tuple[tuple[float, int], ...] = ()  # (ε, number of people), smallest ε first
    limit: Fraction = Fraction(0)  # μ² that everybody can afford, where nothing pure was spent
    settled: Fraction = Fraction(0)  # μ² charged by settled reservations
    settled_pure: Fraction = Fraction(0)  # ε charged by settled reservations with δ = 0
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

    @property
    def booked(self) -> Fraction:
        """μ² that may have been spent: what was charged, and all that open reservations may still charge."""
        return self.settled + sum((r.cost for r in self.open.values()), Fraction(0))

    @property
    def charged(self) -> Fraction:
        """μ² of every release recorded."""
        return self.settled + sum((r.charged for r in self.open.values()), Fraction(0))

    @property
    def booked_pure(self) -> Fraction:
        """The same for ε spent with δ = 0."""
        return self.settled_pure + sum((r.pure for r in self.open.values()), Fraction(0))

    @property
    def charged_pure(self) -> Fraction:
        return self.settled_pure + sum((r.charged_pure for r in self.open.values()), Fraction(0))

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

    @property
    def left(self) -> Fraction:
        """μ² for further Gaussian fits."""
        return Fraction(0) if self.booked_pure or self.booked_rounds else max(self.limit - self.booked, Fraction(0))

    @property
    def left_pure(self) -> float:
        """ε for further fits with δ = 0."""
        return (
            0.0
            if self.booked or self.booked_rounds
            else max(0.0, self.smallest - self.epsilon_of(Fraction(0), self.booked_pure))
        )

    @property
    def epsilon_left(self) -> float:
        """ε for further fits of the kind that this population pays for."""
        if self.booked_rounds:
            return self.epsilon_of_rounds(self.most_rounds - self.booked_rounds)
        return self.left_pure if self.booked_pure or not self.limit else self.epsilon_of(self.left)

    def affords(self, cost: Fraction, pure: Fraction, slack: float = 0.0) -> bool:
        """Whether this much more can be booked. ``slack``, for readers: a later version's arithmetic may differ a little."""
        if self.persons is not None:  # each share is held against its person's own account instead
            return not pure and cost <= self.limit * (1 + Fraction(slack))
        total, total_pure = self.booked + cost, self.booked_pure + pure
        # Whoever looks at one kind's results and then chooses the other is not covered.
        if (total and total_pure) or self.booked_rounds:
            return False
        return total_pure <= as_decimal(self.smallest) and total <= self.limit * (1 + Fraction(slack))

    def affords_rounds(self, one: Round, rounds: int) -> bool:
        """Whether so many more rounds can be booked, of the kind that was booked before."""
        if self.persons is not None:  # what a share of sampled steps costs does not add up in closed form
            return False
        if self.booked or self.booked_pure or (self.booked_rounds and one != self.round):
            return False
        return self.booked_rounds + rounds <= self.most_rounds

    def with_round(self, one: Round, most_rounds: int) -> "Account":
        """What a round is and how many there are; fixed as long as any is booked."""
        return self if self.booked_rounds else replace(self, round=one, most_rounds=most_rounds)

    def epsilon_of_rounds(self, rounds: int) -> float:
        """Rounds as ε at the population's δ, rounded up."""
        assert self.budget is not None
        return self.round.epsilon(rounds, self.budget.delta) if self.round is not None else 0.0

    def epsilon_of(self, cost: Fraction, pure: Fraction = Fraction(0)) -> float:
        """A cost as ε at the population's δ, rounded up."""
        assert self.budget is not None
        if cost and not self.budget.delta:
            return math.inf
        gaussian = gaussian_epsilon(mu_of(cost), self.budget.delta) if cost else 0.0
        return math.nextafter(gaussian + float(pure), math.inf) if pure else gaussian

    def with_open(self, booking: OpenReservation) -> "Account":
        return replace(self, open=MappingProxyType({**self.open, booking.id: booking}))

    def with_charge(self, reservation: str, release: Mapping[str, Any]) -> "Account":
        """After a recorded release was charged to an open reservation; ``ValueError`` where that does not cover it."""
        booking = self.open[reservation]
        sampled = booking.rounds or "step" in release
        return self.with_open(self._with_steps(booking, release) if sampled else booking.with_charge(release))

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
