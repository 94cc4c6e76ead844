"""Flower's SuperNode as a child process of a node, and the loop that works for it.

It runs with ``--isolation process``: Flower keeps the connection, TLS, authentication and heartbeats, and this process takes its
tasks. So no process is started for each message, and a node never runs code that a server sent: a run's bundle is
ignored, the apps are those installed here. This rests on interfaces of flwr 1.41 that are not documented as public.

A SuperNode ends when the server does not know its key (yet), or has been started anew and forgot it. Then another one is
started, after a pause that grows.
"""

import contextlib
import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from commonground.errors import CommongroundError
from commonground.federated import watched
from commonground.federated.keys import write_secret
from commonground.federated.node import Node
from commonground.federated.superlink import beating, listening

log = logging.getLogger("commonground.federated")
LOOPBACK = "127.0.0.1"
_POLL = 0.2  # seconds
_SILENT = 120.0  # seconds in which a SuperNode must answer
_PAUSES = 1.0, 30.0  # seconds before another SuperNode is started: the first time, and at most
Work = Callable[[Callable[[Message], Message]], bool]


class ChildError(CommongroundError):
    """A Flower process that ended."""


@contextlib.contextmanager
def supernode(
    address: str, authority: Path | None, private_key: Path | None, port: int, log_file: Path | None = None
) -> Iterator[Work]:
    """A SuperNode for as long as the block runs; calling what is yielded answers one message, or finds that there is none."""
    with tempfile.TemporaryDirectory(prefix="commonground-federate-", ignore_cleanup_errors=True) as folder:
        secret = secrets.token_hex(32).encode()
        secret_file = write_secret(Path(folder) / "secret", secret)
        with listening(LOOPBACK, port) as door:
            port = door.getsockname()[1]
            command = ["--superlink", address, "--isolation", "process", "--host", LOOPBACK]
            command += ["--port", str(port), "--superexec-auth-secret-file", str(secret_file)]
            command += ["--insecure"] if authority is None else ["--root-certificates", str(authority)]
            if private_key is not None:
                command += ["--auth-supernode-private-key", str(private_key)]
            child = _start(door, command, Path(folder), log_file)
        with contextlib.closing(_local(port, _signed(secret))) as tasks, _ending(child):
            answered = time.monotonic()

            def work(app: Callable[[Message], Message]) -> bool:
                nonlocal answered
                if child.poll() is not None:
                    raise ChildError(f"the SuperNode ended with code {child.returncode}")
                try:
                    response = tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                except httpx.TransportError:  # it is starting, or the machine is busy
                    if time.monotonic() - answered < _SILENT:
                        return False
                    raise
                answered = time.monotonic()
                secret_file.unlink(missing_ok=True)  # the SuperNode has read it
                if not response.token:
                    return False
                with (
                    contextlib.closing(_local(port, RuntimeTokenHttpInterceptor(response.token))) as runtime,
                    beating(lambda: runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())),
                ):
                    message, context, _, _ = pull_task_input(runtime)
                    push_message(runtime, app(message), context)
                    push_task_output(runtime, context, SubStatus.COMPLETED, "")
                return True

            yield work


def serve(node: Node, new_supernode: Callable[[], contextlib.AbstractContextManager[Work]], patience: float) -> None:
    """Answer until interrupted. ``new_supernode`` starts a SuperNode; when one ends, the next is started."""
    heard, pause = time.monotonic(), _PAUSES[0]

    def app(message: Message) -> Message:
        nonlocal heard, pause
        reply = Message(node.answer(message.content), reply_to=message)
        heard, pause = time.monotonic(), _PAUSES[0]
        return reply

    while True:
        try:
            with new_supernode() as work:
                while True:
                    if not work(app):
                        time.sleep(_POLL)
        except httpx.TransportError as problem:
            why = f"its SuperNode does not answer ({type(problem).__name__})"
        except ChildError as problem:
            why = str(problem)
        except Exception as problem:
            # An answer that came too late, or a run that is over: the server goes on without it, and so do we.
            log.debug("", exc_info=True)
            why = f"an answer could not be delivered ({type(problem).__name__})"
        if time.monotonic() - heard > patience:
            raise ChildError(
                f"{node.name} gives up: {why}, and the server was not heard of for {patience:g} seconds. Is it at the address of "
                "--superlink, is its certificate signed by --ca, and does it know the public half of --key (its --node-keys)?"
            )
        log.warning("%s: %s. Next try in %g s", node.name, why, pause)
        time.sleep(pause)
        pause = min(2 * pause, _PAUSES[1])


def free_port() -> int:
    with listening(LOOPBACK, 0) as probe:
        return int(probe.getsockname()[1])


def _signed(secret: bytes) -> SuperExecAuthHttpInterceptor:
    """Only this process may take tasks from the child, not whoever else is on the machine."""
    return SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"})


def _local(port: int, who: Any) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="commonground")
    return RuntimeHttpClient.from_server_address(f"{LOOPBACK}:{port}", True, None, [version, who])


def _start(door: socket.socket, options: list[str], home: Path, log_file: Path | None) -> subprocess.Popen[bytes]:
    """A SuperNode that ends with this process (`watched`), on a port that is ours already."""
    with open(log_file or os.devnull, "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", watched.__file__, str(door.fileno()), *options],
            env={**os.environ, "FLWR_HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[door.fileno()],
            process_group=0,  # Ctrl-C is for us; we end it
        )


@contextlib.contextmanager
def _ending(child: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(timeout=watched.GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdin is not None
        child.stdin.close()
