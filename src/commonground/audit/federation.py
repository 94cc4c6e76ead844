"""A federation without a network, for audits: nodes in this process, which get and send the bytes that would travel."""

from collections.abc import Sequence
from dataclasses import dataclass

from commonground.errors import InputError
from commonground.users import Users

try:
    from flwr.app import MessageType, Metadata, RecordDict
    from flwr.app.message import make_message
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Message as ProtoMessage

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

    def ask(self, messages: dict[int, RecordDict]) -> dict[int, RecordDict]:
        return {node: _sent(self.members[node].answer(_sent(question))) for node, question in messages.items()}


def _sent(records: RecordDict) -> RecordDict:
    """As they arrive: written as bytes and read again."""
    metadata = Metadata(1, "id", 1, 2, "", "", 0.0, 60.0, MessageType.QUERY)
    travelled = message_to_proto(make_message(metadata, records)).SerializeToString()
    arrived: RecordDict = message_from_proto(ProtoMessage.FromString(travelled)).content
    return arrived


def federation_of(parts: Sequence[Users], trust: str) -> Federation:
    """The people of each part at a node of their own."""
    epsilon = NODE_EPSILON if trust == "nodes" else None
    nodes = [node_of(part, f"node {n}", trust, epsilon, NODE_DELTA) for n, part in enumerate(parts)]
    return Federation(InThisProcess(nodes), trust=trust)
