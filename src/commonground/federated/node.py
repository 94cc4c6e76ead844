"""One owner's side: many people's rows, questions in, sums over these people out. Rows and heads never leave.

A question is held against a table of what may be asked (`questions`) before anything is computed: under trust="nodes" the server
is not trusted, and a threshold of its own making would let through more of a person than the noise was made for.

Who runs a node decides what it gives out: exact sums to a server that is trusted with them (``trust="server"``), or only
sums with noise of its own, paid for from a budget of its own (``trust="nodes"``). A node runs the code that is installed on it,
never code that came with a message, and what goes wrong inside stays in its own log: the server learns that, not why.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import RecordDict

from commonground.accounting.budgets import Budget
from commonground.clipping.bounded import BoundedSum
from commonground.data.users import Users
from commonground.errors import BudgetError, InputError
from commonground.federated.checks import for_people
from commonground.federated.questions import Noised, Question, QuestionError, arrays_in
from commonground.federated.wire import INTRODUCE, WireError, pack, unpack, unpack_question
from commonground.gate import Gate, Randomness
from commonground.ledger import InMemoryLedger, Ledger

log = logging.getLogger("commonground.federated")
TRUST = ("server", "nodes")


class RefusalError(Exception):
    """The node will not answer. The reason is a fixed text and goes to the server."""


@dataclass(frozen=True)
class Node:
    """``gate``: through which answers with its own noise pass, and which pays for them; needed for trust="nodes"."""

    users: Users
    name: str
    trust: str = "server"
    gate: Gate | None = None

    def __post_init__(self) -> None:
        if self.trust not in TRUST:
            raise InputError(f"trust of a node must be 'server' or 'nodes', got {self.trust!r}.")
        if self.gate is not None and self.gate.randomness.simulated:
            raise InputError(
                "a node's noise protects its people and cannot be simulated: its gate needs real randomness."
            )
        if self.trust == "nodes" and self.gate is None:
            raise InputError("a node that adds its own noise needs a budget of its own: give it an epsilon.")
        if self.users.budgets is not None:
            raise InputError("a node has one budget for all of its people; read its table without budget=.")

    def answer(self, records: RecordDict) -> RecordDict:
        """The answer to one message; a refusal where there is none."""
        try:
            config, arrays = unpack(records)
            if config == {"ask": INTRODUCE} and not arrays:
                return self._introduce()
            return self._sums(unpack_question(config, arrays, self.users.n_features, self.users.n_users))
        except (QuestionError, RefusalError, WireError) as reason:
            return refusal(str(reason))
        except BudgetError as reason:
            log.warning("%s: %s", self.name, reason)
            return refusal("its own budget does not allow it")
        except Exception:
            log.exception("%s could not answer", self.name)
            return failed()

    def _introduce(self) -> RecordDict:
        names = self.users.feature_names
        columns, schema = [] if names is None else list(names), self.users.schema
        return pack(
            {
                "schema": "" if schema is None else schema.to_toml(),
                "name": self.name,
                "people": self.users.n_users,
                "features": self.users.n_features,
                "names": columns,
                "trust": self.trust,
            }
        )

    def _sums(self, question: Question) -> RecordDict:
        """``question`` has been held against the catalogue (``questions.question_from``)."""
        if (self.trust == "nodes") != (question.noised is not None):
            raise RefusalError(f"it gives sums out under trust={self.trust!r} only")
        sums = self.users.sum(question.statistic)
        if question.noised is None:
            return pack({"people": self.users.n_users}, arrays_in(vars(sums)))
        return pack({"people": self.users.n_users}, {"value": self._noised(sums, question.noised)})

    def _noised(self, sums: Any, wanted: Noised) -> np.ndarray:
        same = for_people(sums, wanted.people)  # all nodes leave the same room for rounding
        bounded: BoundedSum = getattr(same, wanted.method)(*wanted.arguments, wanted.name)
        assert self.gate is not None
        return self.gate.release(bounded, wanted.mu).value


def refusal(reason: str) -> RecordDict:
    return pack({"refused": reason})


def failed() -> RecordDict:
    """Without the reason: an error's text may quote a row."""
    return refusal("it failed; the reason is in its own log")


def node_of(
    users: Users,
    name: str,
    trust: str,
    epsilon: float | None,
    delta: float,
    gate: Callable[[Ledger, Randomness], Gate] = Gate,
) -> Node:
    """A node with the most that it lets a server learn about any of its people, for as long as the process lives."""
    own = None if epsilon is None else gate(InMemoryLedger(Budget(epsilon, delta)), Randomness())
    return Node(users, name, trust, own)
