"""The Flower apps: a ServerApp that trains over a grid of SuperNodes, and a ClientApp that answers for one node.

``commonground federate`` does their work without starting a process for each message, and without running code that came
with a run. They can be named in a bundle for Flower's own commands, too; then the server's settings are the run's config and a
node's the SuperNode's node config.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.serverapp import Grid, ServerApp

from commonground.billboard.board import Billboard
from commonground.data.users import Users
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT, MODEL, RANK, SHARED_MEAN
from commonground.errors import InputError
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.fedrep import PrivateFedRep
from commonground.federated.federation import Federation, FederationError
from commonground.federated.node import Node, failed
from commonground.ledger import Ledger, SharedLedger

log = logging.getLogger("commonground.federated")
MODELS = {"fedrep": PrivateFedRep, "altmin": PrivateAltMin}
_POLL = 0.2  # seconds


@dataclass(frozen=True)
class Settings:
    """One training of a federation."""

    nodes: int  # wait until so many are there
    rank: int = RANK
    epsilon: float = EPSILON
    delta: float = DELTA
    model: str = MODEL
    intercept: bool = FIT_INTERCEPT
    shared_mean: bool = SHARED_MEAN
    rounds: int = 0  # 0: the model's own default
    trust: str = "server"
    tolerated: int = 0
    patience: float = 300.0  # seconds to wait for nodes to arrive
    timeout: float = 120.0  # seconds to wait for an answer

    def as_config(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Settings":
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in config.items() if name in known})


class GridLink:
    """Messages to SuperNodes and back; counts what travels.

    ``admitted``: the numbers of the nodes whose keys the server was given; whoever else is there is not asked, and not heard.
    None: everybody who is there.
    """

    def __init__(self, grid: Grid, timeout: float, admitted: frozenset[int] | None = None) -> None:
        self._grid, self._timeout, self._admitted = grid, timeout, admitted
        self.traffic: list[tuple[int, int]] = []  # bytes to and from all nodes, question by question

    def nodes(self) -> Sequence[int]:
        return [node for node in self._grid.get_node_ids() if self._admitted is None or node in self._admitted]

    def ask(self, messages: dict[int, RecordDict]) -> dict[int, RecordDict]:
        outgoing = [
            Message(records, dst_node_id=node, message_type=MessageType.QUERY, ttl=self._timeout)
            for node, records in messages.items()
            if self._admitted is None or node in self._admitted
        ]
        sent = sum(_size(message) for message in outgoing)
        to = [message.metadata.dst_node_id for message in outgoing]
        waiting = dict(zip(self._grid.push_messages(outgoing), to, strict=True))
        answers: dict[int, RecordDict] = {}
        received, deadline = 0, time.monotonic() + self._timeout
        while waiting and time.monotonic() < deadline:
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None and node == reply.metadata.src_node_id and reply.has_content():
                    received += _size(reply)
                    answers[node] = reply.content
            if waiting:
                time.sleep(_POLL)
        self.traffic.append((sent, received))
        return answers


def _size(message: Message) -> int:
    return len(message_to_proto(message).SerializeToString())


def train(link: GridLink, settings: Settings, ledger: Ledger | SharedLedger | None = None) -> Billboard:
    """Wait for the nodes, train over them, and give back what may be published."""
    if settings.model not in MODELS:
        raise InputError(f"model must be one of {', '.join(MODELS)}, got {settings.model!r}.")
    waiting_since = time.monotonic()
    while (there := len(link.nodes())) < settings.nodes:
        if time.monotonic() - waiting_since > settings.patience:
            raise FederationError(f"{there} of {settings.nodes} nodes are there after {settings.patience:g} seconds.")
        time.sleep(_POLL)
    federation = Federation(link, trust=settings.trust, tolerated=settings.tolerated)
    log.info("%d nodes with %d people take part", len(federation.members), federation.n_users)
    model = MODELS[settings.model](
        settings.rank,
        settings.epsilon,
        settings.delta,
        fit_intercept=settings.intercept,
        shared_mean=settings.shared_mean,
        n_rounds=settings.rounds or None,
        keep_heads=False,
    )
    return model.fit(federation, ledger=ledger).billboard_


server_app = ServerApp()
client_app = ClientApp()


@server_app.main()
def serve(grid: Grid, context: Context) -> None:
    """The run's config holds the settings, and ``out``: the folder for the billboard."""
    config: dict[str, Any] = dict(context.run_config)
    settings = Settings.from_config(config)
    train(GridLink(grid, settings.timeout), settings).save(Path(str(config["out"])))


@lru_cache(maxsize=1)
def _node(table: str, user: str, label: str, name: str) -> Node:
    return Node(Users.from_table(table, user=user, label=label), name)


@client_app.query()
def answer(message: Message, context: Context) -> Message:
    """The SuperNode's node config says which table is served.

    Under Flower's own commands every message may start a process, in which a budget of the node's own would begin anew: so
    this app is for trust="server" only. ``commonground federate node`` keeps one process.
    """
    config = {
        "user": "user_id",
        "label": "y",
        "name": f"node {context.node_id}",
        "trust": "server",
        **context.node_config,
    }
    try:
        if config["trust"] != "server":
            raise InputError("a node that adds its own noise is started by `commonground federate node serve`.")
        node = _node(*(str(config[which]) for which in ("table", "user", "label", "name")))
    except Exception:
        log.exception("this node cannot start")
        return Message(failed(), reply_to=message)
    return Message(node.answer(message.content), reply_to=message)
