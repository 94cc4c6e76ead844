"""The server's side: people at several nodes, as the estimators know people; sums come from the nodes.

``PrivateFedRep(…).fit(federation)`` is the training of one machine: the estimator asks for a named sum over people, every node
is asked for its part, and parts that are possible (`checks`) are added in the order of the nodes.

Under trust="server" the sum then passes the server's gate. Under trust="nodes" the server gets parts that passed the nodes'
gates already (``gate.scattered``); there is no exact sum anywhere but at the nodes.

A node whose answer is impossible, or who refuses, stops the training, and nothing of that sum is published. To go on without it
would publish that it was left out, and if a row had ever been the reason, that row. A node that does not answer in time is not
asked again; its people then contribute nothing, which moves nobody else's contribution: the noise, made for one person among
any others, protects those who are left as before. That it was late is seen by all, and the statement says what this means.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
from flwr.app import RecordDict

from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.errors import CommongroundError, InputError
from commonground.federated.checks import ImpossibleError, checked_sums, checked_value, for_people, nobody
from commonground.federated.guarantee import NoiseShares
from commonground.federated.node import TRUST
from commonground.federated.questions import CATALOGUE, MOST_LETTERS, MOST_PEOPLE, Noised, Question, known
from commonground.federated.wire import INTRODUCE, WireError, pack, pack_question, unpack
from commonground.gate import ScatteredSum
from commonground.gate.release import noise_margin

log = logging.getLogger("commonground.federated")


class FederationError(CommongroundError):
    """Training cannot go on: too few nodes, or nodes that do not fit together."""


class Link(Protocol):
    """How messages get to nodes and back."""

    def nodes(self) -> Sequence[int]: ...

    def ask(self, messages: dict[int, RecordDict]) -> dict[int, RecordDict]:
        """The answers that came in time, by node."""
        ...


@dataclass(frozen=True)
class Member:
    """What a node says of itself; public."""

    node: int
    name: str
    people: int
    n_features: int
    feature_names: tuple[str, ...] | None
    trust: str
    schema: Schema | None = None


@dataclass
class Attendance:
    """Who has answered so far; the same for all views of a federation."""

    present: list[Member]  # those who have always answered in time
    fewest_people: int  # in one sum
    answered: list[int] = field(default_factory=list)  # how many nodes took part in each sum


class Federation(Population):
    """People whose rows are at the nodes behind a ``link``.

    ``trust`` and ``tolerated`` (how many nodes may vanish, for trust="nodes") are explained in `guarantee`. The nodes that are
    there now take part; how many people each of them has is public.
    """

    kind = "federation"

    def __init__(self, link: Link, *, trust: str = "server", tolerated: int = 0) -> None:
        if trust not in TRUST:
            raise InputError(f"trust must be 'server' or 'nodes', got {trust!r}.")
        self._link = link
        self.trust = trust
        self.members = introduced(link, trust)
        self.shares = NoiseShares(len(self.members), tolerated)
        self.n_users = sum(member.people for member in self.members)
        self.n_features = self.members[0].n_features
        self.feature_names = self.members[0].feature_names
        self.schema = self.members[0].schema
        self.attendance = Attendance(list(self.members), self.n_users)

    @property
    def ids(self) -> np.ndarray:
        """Who the people are is the nodes' business."""
        return np.empty(0)

    def blocks(self, max_bytes: int | None = None) -> Any:
        raise InputError("these people's rows are at their nodes and cannot be read here; fit with keep_heads=False.")

    def weighted(self, weights: np.ndarray) -> Self:
        raise InputError("everybody counts alike in a federation: personal budgets are not built for nodes yet.")

    def _sum(self, statistic: Any) -> Any:
        if not known(statistic):
            name = type(statistic).__name__
            raise InputError(f"nodes cannot be asked for {name!r}; they know {', '.join(CATALOGUE)}.")
        template: Any = statistic.of(nobody(self.n_features))
        question = Question(statistic)
        if self.trust == "nodes":
            return RemoteSums(self, question, for_people(template, self.n_users))
        return added(self._collect(question, partial(checked_sums, template)))

    def _collect(self, question: Question, check: Callable[..., Any]) -> list[Any]:
        """The checked parts of one sum, in the order of the nodes."""
        packed = pack_question(question)
        attendance, name = self.attendance, type(question.statistic.innermost).__name__
        answers = self._link.ask({member.node: packed for member in attendance.present})
        parts, people = [], 0
        for member in list(attendance.present):
            if member.node not in answers:
                log.warning("%s did not answer %s in time; it is not asked again", member.name, name)
                attendance.present.remove(member)
                continue
            parts.append(self._part(member, name, answers[member.node], check))
            people += member.people
        attendance.answered.append(len(parts))
        attendance.fewest_people = min(attendance.fewest_people, people)
        if not parts:
            raise FederationError(f"no node answered {name}; training stops. What was paid stays spent.")
        return parts

    def _part(self, member: Member, name: str, answer: RecordDict, check: Callable[..., Any]) -> Any:
        try:
            config, arrays = unpack(answer)
            if "refused" in config:
                raise ImpossibleError(f"no sum: {_short(config['refused'])}")
            if config.get("people") != member.people:
                raise ImpossibleError("no sum over the people it has")
            return check(arrays=arrays, people=member.people)
        except (ImpossibleError, WireError) as reason:
            raise FederationError(
                f"{member.name} was asked for {name} and sent {reason}. Training stops, nothing of this sum is "
                "published, and what was paid stays spent. No person's rows can cause that at a node with this software: look "
                "at that node's log and version, or train without it."
            ) from None

    def collect_noised(self, question: Question, shape: tuple[int, ...], sensitivity: float) -> tuple[np.ndarray, int]:
        assert question.noised is not None
        mu = question.noised.mu
        noise_std = sensitivity / mu * (1.0 + noise_margin(int(np.prod(shape)), mu))
        check = partial(checked_value, shape=shape, sensitivity=sensitivity, noise_std=noise_std)
        parts = self._collect(question, check)
        return added(parts), len(parts)

    # ---- for the statement ---------------------------------------------------------------------------------------

    @property
    def custody(self) -> str:
        answered = self.attendance.answered
        everybody = all(parts == len(self.members) for parts in answered)
        took_part = (
            "All nodes took part in every sum."
            if everybody
            else f"Nodes were missing from {sum(parts < len(self.members) for parts in answered)} of "
            f"{len(answered)} sums; the fewest people in one of them were {self.attendance.fewest_people:,}, and the noise for "
            "those who were left is as stated."
        )
        return (
            f"Rows stayed at {len(self.members)} nodes, each of which sent sums over its own people only. {took_part} {_LATE} "
            f"{_SERVER if self.trust == 'server' else self._noised_at_nodes()}"
        )

    def _noised_at_nodes(self) -> str:
        needed, nodes = self.shares.needed, self.shares.nodes
        factor = self.shares.cost_to_the_server(1.0)
        return (
            f"Each node added noise of 1/{needed} of the variance before it sent a sum, so that the answers of any {needed} of "
            f"the {nodes} nodes have all of it, and nothing was published from fewer. The server, which saw every node's noised "
            f"sums by themselves, learned at most {factor:.4g} times the stated μ about a person. c nodes that know their own "
            f"noise learn at most √({needed}/({needed} − c)) times the stated μ from what is published."
        )


_LATE = (
    "Which nodes answered in time is public and is not covered by ε: a person with so many rows that her node was late, or "
    "stopped, could be noticed by that."
)
_SERVER = (
    "The server saw each node's exact sums before its gate added the noise: it is trusted with them, and they are not part of "
    "what is published."
)


@dataclass(frozen=True)
class RemoteSums:
    """A sum over people that is at the nodes in parts; each of its bounded forms is a question of its own."""

    federation: Federation
    question: Question
    template: Any  # nobody's sum, with the room for rounding of everybody's

    def bounded(self, name: str) -> ScatteredSum:
        return self._ask("bounded", (), name)

    def histogram(self, name: str) -> ScatteredSum:
        return self._ask("histogram", (), name)

    def whole_histogram(self, name: str) -> ScatteredSum:
        return self._ask("whole_histogram", (), name)

    def clipped_at(self, edge: int, name: str) -> ScatteredSum:
        return self._ask("clipped_at", (edge,), name)

    @property
    def total_weight(self) -> float:
        return float(sum(member.people for member in self.federation.attendance.present))

    def _ask(self, method: str, arguments: tuple[int, ...], name: str) -> ScatteredSum:
        like = getattr(self.template, method)(*arguments, name)
        federation, shape, sensitivity = self.federation, like.value.shape, like.sensitivity

        def collect(mu: float) -> tuple[np.ndarray, int]:
            noised = Noised(method, arguments, name, mu, federation.n_users)
            return federation.collect_noised(replace(self.question, noised=noised), shape, sensitivity)

        return ScatteredSum(name, sensitivity, shape, federation.shares.needed, collect)


def introduced(link: Link, trust: str) -> tuple[Member, ...]:
    """Everybody who is there, in the order of node numbers; nodes that do not fit together are an error."""
    asked = sorted(link.nodes())
    answers = link.ask({node: pack({"ask": INTRODUCE}) for node in asked})
    members = []
    for node in asked:
        try:
            config, _ = unpack(answers[node])
            names = tuple(str(name) for name in config["names"]) or None
            people, features = int(config["people"]), int(config["features"])
            schema = Schema.from_toml(text) if (text := str(config.get("schema", ""))) else None
            trusts = str(config["trust"])
            member = Member(node, _short(config["name"]), people, features, names, trusts, schema)
        except (KeyError, TypeError, ValueError, WireError):
            log.warning("node %d did not introduce itself and does not take part", node)
            continue
        if schema is not None and schema.feature_names != names:
            raise FederationError(
                f"{member.name} names other features than its schema makes. Take it out of the federation."
            )
        if not 1 <= member.people <= MOST_PEOPLE:
            raise FederationError(f"{member.name} says it has {member.people:,} people. Take it out of the federation.")
        if member.trust != trust:
            raise FederationError(
                f"{member.name} gives sums out under trust={member.trust!r} only, and this training is under {trust!r}."
            )
        members.append(member)
    if not members:
        raise FederationError("no node is there. Start nodes with `commonground federate node serve`.")
    first = members[0]
    for member in members[1:]:
        if member.schema != first.schema:
            raise FederationError(
                f"{member.name} and {first.name} have different schemas. All nodes need the same one: it says how columns become "
                "features, and is published."
            )
        if (member.n_features, member.feature_names) != (first.n_features, first.feature_names):
            raise FederationError(
                f"{member.name} and {first.name} have different features. All nodes need the same ones, in the same order."
            )
    return tuple(members)


def _short(text: Any) -> str:
    """What a node says, as it may stand in a log: one line, not long."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text)[:MOST_LETTERS])


def added(parts: list[Any]) -> Any:
    """The sum of parts, two by two: rounding stays within ``clipping.rounding_margin`` for any number of nodes."""
    while len(parts) > 1:
        pairs = [one + other for one, other in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]
