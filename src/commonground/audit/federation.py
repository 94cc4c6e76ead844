"""A federation without a network, for audits: the same nodes and the same server, in this process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from commonground.data.users import Users
from commonground.errors import InputError
from commonground.gate import Gate, Randomness
from commonground.ledger import Ledger

try:
    from commonground.federated.federation import Federation
    from commonground.federated.node import Node, node_of
except ModuleNotFoundError as missing:
    raise InputError(f"a federation needs {missing.name}: pip install 'commonground[federated]'.") from None

# What a node lets the server learn in an audit, again and again about the same invented people: no limit is meant.
NODE_EPSILON, NODE_DELTA = 1e4, 1e-6


@dataclass(frozen=True)
class InThisProcess:
    """Hands questions to the nodes and answers back, all of them in time."""

    members: Sequence[Node]

    def nodes(self) -> Sequence[int]:
        return range(len(self.members))

    def ask(self, messages: dict[int, Any]) -> dict[int, Any]:
        return {node: self.members[node].answer(question) for node, question in messages.items()}


def federation_of(parts: Sequence[Users], trust: str, gate: Callable[[Ledger, Randomness], Gate] = Gate) -> Federation:
    """The people of each part at a node of their own, with a ``gate`` of its own."""
    epsilon = NODE_EPSILON if trust == "nodes" else None
    nodes = [node_of(part, f"node {n}", trust, epsilon, NODE_DELTA, gate) for n, part in enumerate(parts)]
    return Federation(InThisProcess(nodes), trust=trust)
