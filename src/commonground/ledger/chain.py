"""What the events of one population say: read in order, link by link, into an account. Pure; no database here.

The events are the only truth. An account is never stored: it is what follows from them, so it cannot disagree with them.

    hash of event n = SHA-256(hash of event n - 1, canonical JSON of event n)

Costs are exact fractions: a Gaussian release of cost μ takes μ² from the budget, μ is a float, floats are fractions, and
fractions add without rounding, in any order. What is left of a budget therefore does not depend on who came first.

A fit that declares δ = 0 is booked by its ε instead, and these add. The two kinds are not mixed on one population: adding up
both would be true for a division fixed beforehand, but not for an analyst who looks at one fit's result and then chooses of
which kind the next one is (at (4, 1e-6) that can double δ). Each kind alone is true however fits are chosen.

Fits that draw Poisson samples are a third kind, counted in rounds (``rounds.py``), and not mixed with the others either: what
they cost counts on other neighbours.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from commonground.accounting.budgets import Budget, PureBudget, budget_of
from commonground.accounting.gaussian import gaussian_dominating, gaussian_epsilon, gaussian_mu
from commonground.errors import CommongroundError, InputError
from commonground.ledger.rounds import Round, Step

_SLACK = 1e-9  # relative, of a limit that is computed and not written down


class LedgerError(CommongroundError):
    """A ledger that cannot be read, written or believed. Nothing is released on doubt."""


@dataclass(frozen=True)
class LedgerEntry:
    """Where a fit is written down: its reservation, and the chain as it stood after the fit's last charge."""

    population: str
    reservation: str
    sequence: int  # of the event that the chain ended with
    head: str  # the hash of that event: says everything before it, too

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "LedgerEntry":
        entry = cls(**document)
        texts = entry.population, entry.reservation, entry.head
        if not all(isinstance(text, str) for text in texts) or type(entry.sequence) is not int or entry.sequence < 1:
            raise ValueError("not an entry of a ledger")
        return entry


@dataclass(frozen=True)
class OpenReservation:
    """A budget that a fit has booked and not yet settled; it counts in full."""

    id: str
    epsilon: float
    delta: float
    cost: Fraction  # μ² booked; 0 with δ = 0
    charged: Fraction  # μ² of the releases recorded so far
    pure: Fraction  # ε booked with δ = 0; else 0
    charged_pure: Fraction
    charges: int
    purpose: str
    by: str  # host:process
    at: str  # for people only; nothing is decided by a clock
    rounds: int = 0  # of sampled training; then nothing of the above is booked
    steps: tuple[tuple[Step, int], ...] = ()  # sampled steps charged so far


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
        total, total_pure = self.booked + cost, self.booked_pure + pure
        # Whoever looks at one kind's results and then chooses the other is not covered.
        if (total and total_pure) or self.booked_rounds:
            return False
        return total_pure <= plain(self.smallest) and total <= self.limit * (1 + Fraction(slack))

    def affords_rounds(self, one: Round, rounds: int) -> bool:
        """Whether so many more rounds can be booked, of the kind that was booked before."""
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

    def follow(self, body: str, stored_hash: str) -> "Account":
        """The account after one more event, or ``LedgerError`` if the event does not follow."""
        linked = link(self.head, body) if isinstance(body, str) else None  # SQLite's columns take any type
        if linked is None or linked != stored_hash:
            raise doubt(self.population, f"the hash chain is broken at event {self.count + 1}")
        try:
            event = json.loads(body, parse_constant=_no_constants)
            if (event["population"], event["seq"]) != (self.population, self.count + 1):
                raise ValueError("out of place")
            after = _AFTER[event["kind"]](self, event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as problem:
            raise doubt(
                self.population, f"event {self.count + 1} cannot be understood ({type(problem).__name__}: {problem})"
            ) from None
        return replace(after, head=linked, count=self.count + 1)


def canonical(event: Mapping[str, Any]) -> str:
    """One spelling for each event: sorted keys, no spaces, ASCII only, shortest floats; NaN and infinity are refused."""
    return json.dumps(event, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def link(previous: str, body: str) -> str:
    return hashlib.sha256((previous + body).encode()).hexdigest()


def mu_of(cost: Fraction) -> float:
    return math.nextafter(math.sqrt(cost), math.inf) if cost else 0.0


def cost_of(mu: float) -> Fraction:
    """μ² exactly.

    >>> cost_of(0.5) * 4 == cost_of(1.0)
    True
    """
    # NaN and negative numbers would make every later comparison pass.
    if isinstance(mu, bool) or not isinstance(mu, (int, float)) or not 0 < mu < math.inf:
        raise ValueError(f"μ must be a finite number > 0, got {mu!r}")
    return Fraction(mu) ** 2


def plain(epsilon: float) -> Fraction:
    """ε as the decimal that people wrote, so that ten times 0.1 is 1. The gate's noise is wider than this rounding.

    >>> 10 * plain(0.1) == plain(1.0)
    True
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float)) or not 0 < epsilon < math.inf:
        raise ValueError(f"ε must be a finite number > 0, got {epsilon!r}")
    return Fraction(repr(float(epsilon)))


def costs(release: Mapping[str, Any], booking: OpenReservation) -> tuple[Fraction, Fraction]:
    """(μ², pure ε) that a recorded release takes from a reservation.

    A pure release in a reservation with δ > 0 costs what the Gaussian release that dominates it would cost.
    """
    if release["simulated"] is not False:
        raise ValueError("not a private release")
    if release["kind"] == "gaussian":
        return cost_of(release["mu"]), Fraction(0)
    if release["kind"] not in ("pure", "l2-laplace"):
        raise ValueError(f"a release of unknown kind {release['kind']!r}")
    if booking.pure:
        return Fraction(0), plain(release["epsilon"])
    if not release["mu"] >= gaussian_dominating(release["epsilon"]) * (1 - 1e-9):
        raise ValueError(f"μ = {release['mu']} does not cover a pure ε = {release['epsilon']}")
    return cost_of(release["mu"]), Fraction(0)


def personal_distribution(budgets: Mapping[float, int] | None, budget: Budget | PureBudget) -> list[list[float]]:
    """[ε, number of people, μ] for each personal ε, smallest first; each must be within the total."""
    rows: list[list[float]] = []
    for epsilon, people in sorted((budgets or {}).items()):
        own = budget_of(epsilon, budget.delta)
        if epsilon > budget.epsilon or people < 1:
            raise InputError(
                f"personal budgets must be ε from 0 to the population's {budget.epsilon:g} with at least one person "
                f"each, got ε = {epsilon:g} for {people} people. Open the population with the largest personal ε."
            )
        rows.append([float(epsilon), int(people), own.mu if isinstance(own, Budget) else 0.0])
    return rows


def doubt(population: str, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger of population {population!r} cannot be believed: {why}. Nothing was released. Stop training on "
        "these people; `commonground ledger verify` repeats this check; go back to a backup that is not older than the "
        "last release (its last hash stands in your latest export)."
    )


def _opened(account: Account, event: dict[str, Any]) -> Account:
    if account.budget is not None:
        raise ValueError("opened twice")
    budget = budget_of(event["epsilon"], event["delta"])
    # μ is written down, not recomputed, so that its meaning does not change with a later version's arithmetic; but it
    # must be what (ε, δ) allows.
    shares = [(budget.epsilon, event["mu"]), *((epsilon, mu) for epsilon, _, mu in event["personal"])]
    for epsilon, mu in shares:
        if not mu <= (gaussian_mu(epsilon, budget.delta) * (1 + 1e-9) if isinstance(budget, Budget) else 0.0):
            raise ValueError(f"μ = {mu} is more than ε = {epsilon} allows")
    return replace(
        account,
        budget=budget,
        personal=tuple((float(epsilon), int(people)) for epsilon, people, _ in event["personal"]),
        # Every release costs everybody the same μ, so the person with the smallest budget decides for all.
        limit=min(cost_of(mu) for _, mu in shares) if isinstance(budget, Budget) else Fraction(0),
    )


def _reserved(account: Account, event: dict[str, Any]) -> Account:
    if "round" in event:
        return _reserved_rounds(account, event)
    name, pure = event["reservation"], isinstance(budget_of(event["epsilon"], event["delta"]), PureBudget)
    booking = OpenReservation(
        id=name,
        epsilon=event["epsilon"],
        delta=event["delta"],
        cost=Fraction(0) if pure else cost_of(event["mu"]),
        charged=Fraction(0),
        pure=plain(event["epsilon"]) if pure else Fraction(0),
        charged_pure=Fraction(0),
        charges=0,
        purpose=event["purpose"],
        by=event["by"],
        at=event["at"],
    )
    if account.budget is None or name in account.open or not account.affords(booking.cost, booking.pure, _SLACK):
        raise ValueError("more was reserved than was left")
    return replace(account, open=MappingProxyType({**account.open, name: booking}))


def _reserved_rounds(account: Account, event: dict[str, Any]) -> Account:
    name, one, rounds, most = (
        event["reservation"],
        Round.from_json(event["round"]),
        event["rounds"],
        event["most_rounds"],
    )
    if (
        account.budget is None
        or name in account.open
        or isinstance(rounds, bool)
        or not isinstance(rounds, int)
        or rounds < 1
    ):
        raise ValueError("not a reservation of rounds")
    if not account.booked_rounds and not one.epsilon(most, account.budget.delta) <= account.smallest * (1 + _SLACK):
        raise ValueError(f"{most} rounds are more than the budget affords")
    account = account.with_round(one, most)
    if not account.affords_rounds(one, rounds):
        raise ValueError("more was reserved than was left")
    none = Fraction(0)
    booking = OpenReservation(
        name,
        event["epsilon"],
        event["delta"],
        none,
        none,
        none,
        none,
        0,
        event["purpose"],
        event["by"],
        event["at"],
        rounds,
    )
    return replace(account, open=MappingProxyType({**account.open, name: booking}))


def with_steps(account: Account, booking: OpenReservation, release: Mapping[str, Any]) -> OpenReservation:
    """A reservation of rounds after a charge of sampled steps; ``ValueError`` if they are not among those booked."""
    if release["simulated"] is not False or account.round is None:
        raise ValueError("not a private release of a fit that draws samples")
    step, n, of = tuple(release["step"]), release["steps"], dict(account.round.steps)
    if (release["unit"], release["relation"]) != (account.round.unit, account.round.relation) or step not in of:
        raise ValueError("a kind of step that was not reserved")
    charged = Counter(dict(booking.steps))
    charged[step] += n
    if isinstance(n, bool) or not isinstance(n, int) or n < 1 or charged[step] > of[step] * booking.rounds:
        raise ValueError("more steps were charged than were reserved")
    return replace(booking, steps=tuple(sorted(charged.items())), charges=booking.charges + 1)


def _charged(account: Account, event: dict[str, Any]) -> Account:
    booking = account.open[event["reservation"]]
    if booking.rounds:
        booking = with_steps(account, booking, event["event"])
        return replace(account, open=MappingProxyType({**account.open, booking.id: booking}))
    cost, pure = costs(event["event"], booking)
    charged, charged_pure = booking.charged + cost, booking.charged_pure + pure
    if charged > booking.cost or charged_pure > booking.pure:
        raise ValueError("more was charged than was reserved")
    booking = replace(booking, charged=charged, charged_pure=charged_pure, charges=booking.charges + 1)
    return replace(account, open=MappingProxyType({**account.open, booking.id: booking}))


def _settled(account: Account, event: dict[str, Any]) -> Account:
    still_open = dict(account.open)
    booking = still_open.pop(event["reservation"])
    return replace(
        account,
        settled=account.settled + booking.charged,
        settled_pure=account.settled_pure + booking.charged_pure,
        settled_rounds=account.settled_rounds + account.rounds_charged(booking),
        fits=account.fits + 1,
        open=MappingProxyType(still_open),
    )


def _named_board(account: Account, event: dict[str, Any]) -> Account:
    """What a fit has published; nothing is booked by it."""
    if not all(isinstance(event[name], str) for name in ("reservation", "board")):
        raise ValueError("not the name of a board")
    return account


def _no_constants(name: str) -> None:
    raise ValueError(f"{name} is not a number")


_AFTER = {"open": _opened, "reserve": _reserved, "charge": _charged, "settle": _settled, "board": _named_board}
