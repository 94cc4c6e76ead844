"""Flower's SuperLink and SuperNodes as child processes, and the two loops that work for them.

Both run with ``--isolation process``: Flower keeps connections, TLS, authentication and heartbeats, and this process takes its
tasks. So no process is started for each message, and a node never runs code that a server sent: a run's bundle is
ignored, the apps are those installed here. This rests on interfaces of flwr 1.41 that are not documented as public.
"""

import contextlib
import hashlib
import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Message
from flwr.cli.build import build_fab_from_files
from flwr.cli.supernode.register import try_load_public_key
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from commonground.errors import CommongroundError
from commonground.federated.node import Node

log = logging.getLogger("commonground.federated")
LOOPBACK = "127.0.0.1"
_POLL = 0.2  # seconds
_START = 120.0  # seconds within which a child must listen
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


class ChildError(CommongroundError):
    """A Flower process that did not start, or ended."""


@dataclass(frozen=True)
class ServerTls:
    """Files of a SuperLink's certificate, its key, and the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class SuperLink:
    """A running SuperLink, and how to talk to it."""

    address: str
    authority: bytes | None  # None: without TLS
    secret: bytes

    def _client(self, kind: Any, *more: Any) -> Any:
        version = RuntimeVersionHttpInterceptor(component_name="commonground")
        return kind.from_server_address(self.address, self.authority is None, self.authority, [version, *more])

    def register(self, public_keys: Sequence[Path]) -> None:
        """Only nodes with these keys may connect."""
        with contextlib.closing(self._client(ControlHttpClient)) as control:
            for path in public_keys:
                control.RegisterNode(RegisterNodeRequest(public_key=try_load_public_key(path)))

    @contextlib.contextmanager
    def run(self, config: dict[str, Any]) -> Iterator[Grid]:
        """Start a Flower run and do its ServerApp's work in this process, with the grid of its SuperNodes."""
        settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())
        bundle = build_fab_from_files({"pyproject.toml": (BUNDLE + settings).encode()})[0]
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        with contextlib.closing(self._client(ControlHttpClient)) as control:
            control.StartRun(StartRunRequest(fab=fab_to_proto(fab)))
        with contextlib.closing(self._client(RuntimeHttpClient, _signed(self.secret))) as tasks:
            token = _next_task(tasks, TaskType.SERVER_APP)
        grid = HttpGrid(self.address, self.authority is None, self.authority, token=token)
        runtime = grid._runtime_client
        status, details = SubStatus.FAILED, "stopped"
        try:
            task = runtime.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id, TaskIdentity.run_id = task.task_id, task.run.run_id
            TaskIdentity.node_id = task.context.node_id
            grid.set_run(run_from_proto(task.run))
            with _heartbeat(runtime):
                yield grid
            status, details = SubStatus.COMPLETED, ""
        finally:
            with contextlib.suppress(httpx.HTTPError):
                runtime.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=details))
            grid.close()


@contextlib.contextmanager
def superlink(
    host: str, port: int, tls: ServerTls | None, public_keys: Sequence[Path], log_file: Path | None = None
) -> Iterator[SuperLink]:
    """A SuperLink for as long as the block runs. With ``public_keys``, nodes must prove that they have one of them."""
    with _home() as home:
        secret = _new_secret(home)
        command = ["flower-superlink", "--disable-runtime-dependency-installation", "--isolation", "process"]
        command += ["--superexec-auth-secret-file", str(secret), "--host", host, "--port", str(port)]
        if tls is None:
            command.append("--insecure")
        else:
            command += ["--ssl-certfile", str(tls.certificate), "--ssl-keyfile", str(tls.key)]
            command += ["--ssl-ca-certfile", str(tls.authority)]
        if public_keys:
            command.append("--enable-supernode-auth")
        with _child(command, home, log_file) as child:
            _wait_for(child, host, port)
            authority = None if tls is None else tls.authority.read_bytes()
            link = SuperLink(f"{host}:{port}", authority, secret.read_bytes())
            link.register(public_keys)
            yield link


@contextlib.contextmanager
def supernode(
    address: str, authority: Path | None, private_key: Path | None, port: int, log_file: Path | None = None
) -> Iterator[Callable[[Callable[[Message], Message]], bool]]:
    """A SuperNode for as long as the block runs; calling what is yielded answers one message, or finds that there is none."""
    with _home() as home:
        secret = _new_secret(home)
        command = ["flower-supernode", "--superlink", address, "--isolation", "process", "--host", LOOPBACK]
        command += ["--port", str(port), "--superexec-auth-secret-file", str(secret)]
        command += ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
        if private_key is not None:
            command += ["--auth-supernode-private-key", str(private_key)]
        with _child(command, home, log_file) as child:
            _wait_for(child, LOOPBACK, port)
            tasks = _local(port, _signed(secret.read_bytes()))

            def work(app: Callable[[Message], Message]) -> bool:
                if child.poll() is not None:
                    raise ChildError(
                        f"the SuperNode ended with code {child.returncode}: it could not connect to {address}, or its "
                        "certificate or key was refused. Check --superlink, --ca and --key."
                    )
                response = tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                if not response.token:
                    return False
                with contextlib.closing(_local(port, RuntimeTokenHttpInterceptor(response.token))) as runtime:
                    message, context, _, _ = pull_task_input(runtime)
                    with _heartbeat(runtime):
                        push_message(runtime, app(message), context)
                        push_task_output(runtime, context, SubStatus.COMPLETED, "")
                return True

            try:
                yield work
            finally:
                tasks.close()


def serve(node: Node, work: Callable[[Callable[[Message], Message]], bool]) -> None:
    """Answer until interrupted."""

    def app(message: Message) -> Message:
        return Message(node.answer(message.content), reply_to=message)

    heard = True
    while True:
        try:
            busy, heard = work(app), True
        except httpx.HTTPError as problem:
            if heard:
                log.warning("%s cannot reach its SuperNode (%s)", node.name, type(problem).__name__)
            busy, heard = False, False
        if not busy:
            time.sleep(_POLL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _signed(secret: bytes) -> SuperExecAuthHttpInterceptor:
    return SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"})


def _local(port: int, who: Any) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="commonground")
    return RuntimeHttpClient.from_server_address(f"{LOOPBACK}:{port}", True, None, [version, who])


@contextlib.contextmanager
def _heartbeat(runtime: RuntimeHttpClient) -> Iterator[None]:
    """Flower gives a task up whose worker it does not hear of."""
    sender = HeartbeatSender(make_task_heartbeat_fn_http(runtime))
    sender.start()
    try:
        yield
    finally:
        sender.stop()


def _next_task(tasks: RuntimeHttpClient, kind: TaskType) -> str:
    while not (response := tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))).token:
        time.sleep(_POLL)
    return response.token


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="commonground-federate-") as folder:
        yield Path(folder)


def _new_secret(folder: Path) -> Path:
    """Only this process may take tasks from the child, not whoever else is on the machine."""
    path = folder / "secret"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    return path


@contextlib.contextmanager
def _child(command: list[str], home: Path, log_file: Path | None) -> Iterator[subprocess.Popen[bytes]]:
    """Flower's command of this environment; ended with the block."""
    program = str(Path(sys.executable).with_name(command[0]))
    with open(log_file or os.devnull, "ab") as output:
        child = subprocess.Popen(
            [program, *command[1:]], env={**os.environ, "FLWR_HOME": str(home)}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _wait_for(child: subprocess.Popen[bytes], host: str, port: int) -> None:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise ChildError(
                f"Flower's process ended with code {child.returncode} before it listened on {host}:{port}."
            )
        with contextlib.suppress(OSError):
            socket.create_connection((host, port), timeout=1).close()
            return
        time.sleep(_POLL)
    raise ChildError(f"nothing listens on {host}:{port} after {_START:g} seconds.")
