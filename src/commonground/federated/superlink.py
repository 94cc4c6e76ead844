"""Flower's SuperLink inside the server's own process, with one interface to the outside: that of the nodes.

``flower-superlink`` answers three kinds of callers on one port: nodes, apps, and whoever controls it, who may register nodes
and stop runs and needs nothing for it but the authority's certificate. Here only the routes for nodes are served. Keys are
registered and the run is made by calls within the process, before the port answers anybody. No second process can be left behind
with the port, and no secret lies in a file. This rests on interfaces of flwr 1.41 that are not documented as public.
"""

import contextlib
import hashlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from fastapi import FastAPI, HTTPException
from flwr.cli.build import build_fab_from_files
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.auth.typing import AccountInfo
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME
from flwr.supercore.error import FlowerError, http_error_translator
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.protobuf.translation import ProtobufTranslationMiddleware
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.config_loader import get_federation_manager, get_objectstore_linkstate_factories
from flwr.superlink.grid import HttpGrid
from flwr.superlink.routers.fleet.node_auth import NodeAuthMiddleware
from flwr.superlink.routers.fleet.router import router as routes_for_nodes
from flwr.superlink.servicer.control import control_handlers
from flwr.superlink.servicer.runtime import runtime_handlers
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response

from commonground.errors import CommongroundError, InputError

_START = 30.0  # seconds within which the port must answer
_STOP = 10.0  # seconds within which it must have stopped
_US = AccountInfo(flwr_aid=NOOP_FLWR_AID, account_name=NOOP_ACCOUNT_NAME)
_PATHS = frozenset(route.path for route in routes_for_nodes.routes)  # type: ignore[attr-defined]
# Names the apps for Flower; the code itself is installed at every party and does not travel.
BUNDLE = """
[project]
name = "commonground"
version = "0.1.0"
description = "Personalised models for many people, with a privacy guarantee for every person"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "commonground"

[tool.flwr.app.components]
serverapp = "commonground.federated.flower:server_app"
clientapp = "commonground.federated.flower:client_app"

[tool.flwr.app.config]
"""


class PortError(CommongroundError):
    """The server cannot listen where it was told to."""


@dataclass(frozen=True)
class ServerTls:
    """Files of a SuperLink's certificate, its key, and the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class SuperLink:
    """A running SuperLink."""

    address: str
    admitted: frozenset[int] | None  # the numbers of the nodes whose keys were given; None: whoever connects
    state: Any  # Flower's: nodes, runs, messages

    @contextlib.contextmanager
    def run(self, config: dict[str, Any]) -> Iterator[Grid]:
        """Start a Flower run and do its ServerApp's work in this process, with the grid of its SuperNodes."""
        settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())
        bundle = build_fab_from_files({"pyproject.toml": (BUNDLE + settings).encode()})[0]
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        started = control_handlers.start_run(StartRunRequest(fab=fab_to_proto(fab)), _US, self.state, None)
        (run,) = self.state.get_run_info(run_ids=[started.run_id])
        (task,) = self.state.get_tasks(task_ids=[run.primary_task_id])
        self.state.claim_task(task.task_id)
        runtime = _Runtime(self.state, task)
        grid = HttpGrid(self.address, True, token="none: nothing is sent")
        grid._client = runtime  # type: ignore[assignment]
        status, details = SubStatus.FAILED, "stopped"
        try:
            given = runtime_handlers.pull_task_input(PullTaskInputRequest(), self.state, task)
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            with beating(lambda: self.state.acknowledge_task_heartbeat(task.task_id)):
                yield grid
            status, details = SubStatus.COMPLETED, ""
        finally:
            done = PushTaskOutputRequest(sub_status=status, details=details)
            runtime_handlers.push_task_output(done, self.state, task)
            grid.close()


class _Runtime:
    """What Flower's grid asks a SuperLink for, answered by the functions behind its interface for apps, which listens nowhere."""

    def __init__(self, state: Any, task: Any) -> None:
        here = partial(partial, state=state, task=task)
        self.GetNodes = here(runtime_handlers.get_nodes)
        self.PushMessages = here(runtime_handlers.push_messages)
        self.PullMessages = here(runtime_handlers.pull_messages)
        self.PushObject = here(runtime_handlers.push_object)
        self.PullObject = here(runtime_handlers.pull_object)
        self.ConfirmMessageReceived = here(runtime_handlers.confirm_message_received)

    def close(self) -> None:
        """Nothing is open."""


@contextlib.contextmanager
def beating(beat: Callable[[], Any]) -> Iterator[None]:
    """Flower gives a task up whose worker it does not hear of.

    Flower's own way to do this interrupts the process when the task is gone, and its sender cannot be stopped after an error: a
    node that answered too late was ended by it.
    """

    def heard() -> bool:
        with contextlib.suppress(Exception):
            beat()
        return True

    sender = HeartbeatSender(heard)
    sender.start()
    try:
        yield
    finally:
        sender.stop()


@contextlib.contextmanager
def superlink(
    host: str, port: int, tls: ServerTls | None, public_keys: Sequence[Path], log_file: Path | None = None
) -> Iterator[SuperLink]:
    """A SuperLink for as long as the block runs. With ``public_keys``, nodes must prove that they have one of them."""
    with listening(host, port) as door, flowers_log(log_file):
        _, factory = get_objectstore_linkstate_factories(FLWR_IN_MEMORY_DB_NAME, get_federation_manager())
        state = factory.state()
        admitted = frozenset(_register(state, path) for path in public_keys) if public_keys else None
        app = app_for_nodes(factory, authenticate=bool(public_keys))
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            ssl_certfile=None if tls is None else str(tls.certificate),
            ssl_keyfile=None if tls is None else str(tls.key),
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([door],), name="superlink", daemon=True)
        thread.start()
        try:
            _wait_for(server, thread, host, port)
            yield SuperLink(f"{host}:{door.getsockname()[1]}", admitted, state)
        finally:
            server.should_exit = True
            thread.join(_STOP)


def app_for_nodes(factory: Any, *, authenticate: bool) -> FastAPI:
    """Flower's routes for nodes, and no others: not those that register nodes, start or stop runs, or take an app's tasks."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=_for_nodes),
            Middleware(BaseHTTPMiddleware, dispatch=http_error_translator),
            Middleware(ProtobufTranslationMiddleware),
            Middleware(NodeAuthMiddleware),
            Middleware(BaseHTTPMiddleware, dispatch=_in_its_own_name),
        ],
    )
    app.state.linkstate_factory = factory
    app.state.enable_supernode_auth = authenticate
    app.include_router(routes_for_nodes)
    return app


async def _for_nodes(request: Request, go_on: Callable[[Request], Any]) -> Response:
    """Before any other code of Flower's sees a request."""
    if request.scope["path"] not in _PATHS:
        return Response(status_code=404)
    response: Response = await go_on(request)
    return response


async def _in_its_own_name(request: Request, go_on: Callable[[Request], Any]) -> Response:
    if _is_for_another(getattr(request.state, "protobuf_request", None)):
        raise HTTPException(403, "an answer in another node's name")
    response: Response = await go_on(request)
    return response


def _is_for_another(request: Any) -> bool:
    """Flower checks which node sends an answer, and not that the answer says it is that node's."""
    return isinstance(request, PushMessagesRequest) and any(
        message.metadata.src_node_id != request.node.node_id for message in request.messages_list
    )


def _register(state: Any, public_key: Path) -> int:
    """Let the holder of this key connect; the number that its node will have."""
    try:
        key: Any = load_ssh_public_key(public_key.read_bytes())
        request = RegisterNodeRequest(public_key=public_key_to_bytes(key))
        return int(control_handlers.register_node(request, _US, state).node_id)
    except (ValueError, AttributeError, FlowerError, UnsupportedAlgorithm) as problem:
        why = problem.message if isinstance(problem, FlowerError) else "it cannot be read"
        raise InputError(
            f"{public_key} is not the public key of a node ({why}). Make one with `ssh-keygen -t ecdsa`; each node needs its own."
        ) from None


def listening(host: str, port: int) -> socket.socket:
    """The port, held from here on; one that somebody else holds is an error, before anything is asked or paid."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that was killed leaves no one waiting
        door.bind((host, port))
        door.listen(128)
    except OSError as problem:
        door.close()
        raise PortError(
            f"cannot listen on {host}:{port} ({problem.strerror}). Another server may still be there; end it, or give another "
            "--host or --port."
        ) from None
    return door


@contextlib.contextmanager
def flowers_log(log_file: Path | None) -> Iterator[None]:
    """What Flower has to say goes to a file, or nowhere."""
    handler = logging.NullHandler() if log_file is None else logging.FileHandler(log_file, delay=True)
    loggers = [logging.getLogger(name) for name in ("flwr", "uvicorn")]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
    try:
        yield
    finally:
        for logger, (handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
        handler.close()


def _wait_for(server: uvicorn.Server, thread: threading.Thread, host: str, port: int) -> None:
    deadline = time.monotonic() + _START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise PortError(f"Flower did not start to listen on {host}:{port}; --log-file says why.")
        time.sleep(0.05)
