"""A federation without a network: the same nodes, codec and server, messages handed over as the bytes that would travel."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Message, MessageType, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage

import commonground as cg
from commonground.federated.node import Node, node_of

Change = Callable[[int, RecordDict], RecordDict | None]


def as_bytes(records: RecordDict) -> bytes:
    metadata = Metadata(1, "id", 1, 2, "", "", 0.0, 60.0, MessageType.QUERY)
    return message_to_proto(make_message(metadata, records)).SerializeToString()


def from_bytes(data: bytes) -> RecordDict:
    message: Message = message_from_proto(ProtoMessage.FromString(data))
    return message.content


@dataclass
class InProcess:
    """``change(node, answer)`` tampers with answers; None means that the node does not answer."""

    members: Sequence[Node]
    change: Change = lambda node, answer: answer
    sent: list[bytes] = field(default_factory=list)  # everything that travelled, in both directions
    asked: int = 0

    def nodes(self) -> list[int]:
        return list(range(len(self.members)))

    def ask(self, messages: dict[int, RecordDict]) -> dict[int, RecordDict]:
        self.asked += 1
        answers = {}
        for node, question in messages.items():
            self.sent.append(as_bytes(question))
            answer = self.change(node, self.members[node].answer(from_bytes(self.sent[-1])))
            if answer is not None:
                self.sent.append(as_bytes(answer))
                answers[node] = from_bytes(self.sent[-1])
        return answers


def dealt(users: cg.Users, nodes: int) -> list[cg.Users]:
    """The same people at several nodes, in the same order."""
    blocks = list(users.blocks())
    X, y = np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])
    person = np.concatenate([np.repeat(np.arange(b.first, b.first + b.n_users), np.diff(b.offsets)) for b in blocks])
    at = person * nodes // users.n_users
    names = users.feature_names
    return [
        cg.Users.from_arrays(X[at == n], y[at == n], users.ids[person[at == n]], feature_names=names)
        for n in range(nodes)
    ]


def nodes_of(users: cg.Users, nodes: int, trust: str = "server", epsilon: float = 50.0) -> list[Node]:
    own = epsilon if trust == "nodes" else None
    return [node_of(part, f"clinic {n}", trust, own, 1e-6) for n, part in enumerate(dealt(users, nodes))]
