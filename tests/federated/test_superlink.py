"""Who can do what to a SuperLink, to a node and to their files. The SuperLink is real; so is the intruder."""

import contextlib
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.app import Message, MessageType, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import Status
from flwr.common.serde import message_to_proto
from flwr.proto.control_pb2 import ListRunsRequest, RegisterNodeRequest, StopRunRequest
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PushMessagesRequest, RegisterNodeFleetRequest
from flwr.proto.node_pb2 import Node as ProtoNode
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

import commonground as cg
from commonground.cli.federate import _start
from commonground.errors import InputError
from commonground.federated import processes
from commonground.federated.flower import GridLink
from commonground.federated.keys import make_certificates, make_node_key, write_secret
from commonground.federated.node import Node
from commonground.federated.processes import LOOPBACK, ChildError, Work, free_port, serve, supernode
from commonground.federated.superlink import PortError, ServerTls, SuperLink, beating, superlink

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),  # Flower's, when it packs a bundle
]
VERSION = RuntimeVersionHttpInterceptor(component_name="intruder")


# ---- an intruder who has the authority's certificate ------------------------------------------------------------------------


class Intruder:
    """Whoever can reach the port and has the authority's certificate, which every node has."""

    def __init__(self, address: str, authority: Path) -> None:
        self.private, self.public = generate_key_pairs()
        self.key = public_key_to_bytes(self.public)
        where = (address, False, authority.read_bytes())
        self.control = ControlHttpClient.from_server_address(*where, [VERSION])
        self.fleet = FleetHttpClient.from_server_address(
            *where, [VERSION, NodeAuthHttpInterceptor(self.private, self.public)]
        )

    def __enter__(self) -> "Intruder":
        return self

    def __exit__(self, *_: Any) -> None:
        self.control.close()
        self.fleet.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[tuple[SuperLink, Any, Path]]:
    made, key = make_certificates(folder), make_node_key(folder, "clinic")
    tls = ServerTls(made.certificate, made.key, made.authority)
    with superlink(LOOPBACK, 0, tls, [Path(f"{key}.pub")]) as link, link.run({"rank": 2}) as grid:
        yield link, grid, made.authority


def refused(call: Callable[[Any], Any], request: Any) -> int:
    with pytest.raises(httpx.HTTPStatusError) as error:
        call(request)
    return error.value.response.status_code


def test_the_certificate_alone_controls_nothing(running: tuple[SuperLink, Any, Path]) -> None:
    """With ``flower-superlink`` the first call made the intruder a node, and the second ended the server with code 130."""
    link, grid, authority = running
    with Intruder(link.address, authority) as intruder:
        assert refused(intruder.control.RegisterNode, RegisterNodeRequest(public_key=intruder.key)) == 404
        assert refused(intruder.control.ListRuns, ListRunsRequest()) == 404
        assert refused(intruder.control.StopRun, StopRunRequest(run_id=grid.run.run_id)) == 404
    (run,) = link.state.get_run_info(run_ids=[grid.run.run_id])
    assert run.status.status == Status.RUNNING
    assert link.state.get_node_id_by_public_key(intruder.key) is None


def test_only_routes_for_nodes_are_served(running: tuple[SuperLink, Any, Path]) -> None:
    """Whatever else Flower's own SuperLink answers, this one has not heard of."""
    from fastapi.routing import APIRoute, iter_route_contexts
    from flwr.superlink.main import create_app

    link, _, authority = running
    routes = [context.route for context in iter_route_contexts(create_app().routes)]
    paths = {route.path for route in routes if isinstance(route, APIRoute) and not route.path.startswith("/v1/fleet/")}
    assert len(paths) > 50
    paths |= {
        "/docs",
        "/openapi.json",
        "/",
        "/v1/fleet/../control/stop-run",
        "//v1/control/stop-run",
        "/v1/fleet/%2e%2e/control/stop-run",
    }
    trusted, kind = ssl.create_default_context(cafile=authority), {"content-type": "application/protobuf"}
    with httpx.Client(verify=trusted, base_url=f"https://{link.address}", headers=kind) as client:
        answers = {path: client.post(path).status_code for path in paths}
        answers |= {f"GET {path}": client.get(path).status_code for path in paths}
    assert set(answers.values()) == {404}, answers


def test_a_key_of_ones_own_does_not_make_a_node(running: tuple[SuperLink, Any, Path]) -> None:
    """SuperNode authentication is on: nodes do not register themselves, and strangers are not activated."""
    link, grid, authority = running
    with Intruder(link.address, authority) as intruder:
        activation = ActivateNodeRequest(public_key=intruder.key, heartbeat_interval=30)
        assert refused(intruder.fleet.RegisterNode, RegisterNodeFleetRequest(public_key=intruder.key)) >= 400
        assert refused(intruder.fleet.ActivateNode, activation) >= 400
    assert link.state.get_node_id_by_public_key(intruder.key) is None
    assert GridLink(grid, 1.0, link.admitted).nodes() == []


def test_a_node_that_was_not_admitted_is_not_asked_and_not_heard(running: tuple[SuperLink, Any, Path]) -> None:
    """Even if Flower took one in."""
    link, grid, _ = running
    stranger = link.state.create_node("<id:none>", "", b"key", 60.0)
    assert link.state.activate_node(stranger, 60.0)
    try:
        assert list(grid.get_node_ids()) == [stranger]
        wire = GridLink(grid, 0.3, link.admitted)
        assert wire.nodes() == []
        assert wire.ask({stranger: RecordDict({})}) == {}
        assert wire.traffic == [(0, 0)], "it was asked"
        assert GridLink(grid, 0.3, None).nodes() == [stranger]
    finally:
        link.state.delete_node("<id:none>", stranger)


def test_no_node_answers_in_anothers_name(running: tuple[SuperLink, Any, Path], folder: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    link, grid, authority = running
    (own,) = link.admitted or ()
    private: Any = load_ssh_private_key((folder / "clinic").read_bytes(), None)
    signed = NodeAuthHttpInterceptor(private, private.public_key())
    activation = ActivateNodeRequest(public_key=public_key_to_bytes(private.public_key()), heartbeat_interval=30)

    def push(source: int) -> PushMessagesRequest:
        metadata = Metadata(grid.run.run_id, "id", source, 1, "some question", "", time.time(), 60.0, MessageType.QUERY)
        message = message_to_proto(make_message(metadata, RecordDict({})))
        return PushMessagesRequest(node=ProtoNode(node_id=own), messages_list=[message])

    with FleetHttpClient.from_server_address(link.address, False, authority.read_bytes(), [VERSION, signed]) as fleet:
        assert fleet.ActivateNode(activation).node_id == own
        assert refused(fleet.PushMessages, push(own + 1)) == 403


def test_without_keys_whoever_connects_takes_part(folder: Path) -> None:
    made = make_certificates(folder)
    with superlink(LOOPBACK, 0, ServerTls(made.certificate, made.key, made.authority), []) as link:
        assert link.admitted is None
        with Intruder(link.address, made.authority) as guest:
            guest.fleet.RegisterNode(RegisterNodeFleetRequest(public_key=guest.key))
            assert refused(guest.control.RegisterNode, RegisterNodeRequest(public_key=b"x")) == 404


# ---- ports and keys -----------------------------------------------------------------------------------------------------------


def test_a_port_that_somebody_else_holds_is_an_error_before_anything_else() -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        told = f"cannot listen on {LOOPBACK}:{port} .* Another server may still be there"
        with pytest.raises(PortError, match=told), superlink(LOOPBACK, port, None, []):
            raise AssertionError("it talks to whoever is there")


def test_a_port_is_free_again_when_the_server_is_gone() -> None:
    port = free_port()
    for _ in range(2):
        with superlink(LOOPBACK, port, None, []) as link:
            assert link.address == f"{LOOPBACK}:{port}"
            httpx.get(f"http://{link.address}/")


def test_a_key_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.pub").write_text("not a key")
    known = [tmp_path / "odd.pub"], [Path(f"{make_node_key(tmp_path, 'twice')}.pub")] * 2
    for keys, told in zip(known, (r"odd\.pub is not the public key of a node", "each node needs its own"), strict=True):
        with pytest.raises(InputError, match=told), superlink(LOOPBACK, 0, None, keys):
            raise AssertionError("it starts")


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_keys_and_secrets_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    """Whatever the umask is, and whatever lay there before."""
    before = os.umask(umask)
    try:
        (tmp_path / "server.key").write_text("an old one, for everybody")
        (tmp_path / "server.key").chmod(0o644)
        victim = tmp_path / "victim"
        victim.write_text("untouched")
        (tmp_path / "node").symlink_to(victim)
        secrets = [make_certificates(tmp_path).key, make_node_key(tmp_path, "node")]
        secrets.append(write_secret(tmp_path / "secret", b"s"))
    finally:
        os.umask(before)
    for path in secrets:
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600, path
    assert victim.read_text() == "untouched"
    assert sorted(path.name for path in tmp_path.glob(".*")) == [], "no draft stays"


# ---- a node that is not heard -----------------------------------------------------------------------------------------------


def test_a_task_that_is_gone_does_not_end_who_works_for_it() -> None:
    """A node that answered after the time limit was ended by the heartbeat of a task that Flower had given up."""

    def gone() -> None:
        request = httpx.Request("POST", "http://x")
        raise httpx.HTTPStatusError("401", request=request, response=httpx.Response(401, request=request))

    with beating(gone):
        time.sleep(0.2)


class Stop(BaseException):
    """The end of a test."""


def served(
    turns: list[Callable[[Callable[[Message], Message]], bool]], patience: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], list[int]]:
    """What ``serve`` does when its SuperNodes do these things, one a turn: how long it paused, and when it started a new one."""
    pauses: list[float] = []
    started: list[int] = []
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        pauses.append(seconds)

    monkeypatch.setattr(processes.time, "sleep", sleep)
    monkeypatch.setattr(processes.time, "monotonic", lambda: clock[0])
    left = list(turns)

    @contextlib.contextmanager
    def new_supernode() -> Iterator[Work]:
        started.append(len(turns) - len(left))
        yield lambda app: left.pop(0)(app)

    users = cg.datasets.make_shared_subspace(n_users=5, n_features=3, seed=0)[0]
    with contextlib.suppress(Stop):
        serve(Node(users, "clinic"), new_supernode, patience)
    return [pause for pause in pauses if pause != processes._POLL], started


def ended(app: Any) -> bool:
    raise ChildError("the SuperNode ended with code 2")


def too_late(app: Any) -> bool:
    raise RuntimeError("the run is over")


def asked(app: Any) -> bool:
    metadata = Metadata(1, "id", 1, 2, "", "", time.time(), 60.0, MessageType.QUERY)
    app(make_message(metadata, RecordDict({})))
    return True


def stop(app: Any) -> bool:
    raise Stop


def test_a_node_tries_again_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be there before the server, or before its key is; and it comes back when the server was started anew."""
    pauses, started = served([*[ended] * 7, asked, ended, too_late, asked, stop], 1000.0, monkeypatch)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 1, 2]
    assert started == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]


def test_a_node_that_is_refused_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChildError, match=r"gives up.*not heard of for 20 seconds.*--node-keys"):
        served([ended] * 100, 20.0, monkeypatch)


# ---- processes that are killed ------------------------------------------------------------------------------------------------


def until(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)
    return value


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_node_that_is_killed_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a SuperNode nor the folder with its secret; by SIGKILL, which nobody can catch, and by SIGTERM."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "rows.csv").write_text("user_id,a,b,y\nu1,1,2,3\nu2,2,3,4\n")
    where = ("--superlink", f"{LOOPBACK}:{free_port()}", "--insecure")
    nodes = [_start("node", "serve", tmp_path / "rows.csv", *where, "--name", f"clinic {n}") for n in range(2)]
    try:
        supernodes = [until(lambda node=node: children_of(node.pid))[0] for node in nodes]
        homes = until(lambda: len(found := list(tmp_path.glob("commonground-federate-*"))) == 2 and found)
        assert all(stat.S_IMODE(home.stat().st_mode) == 0o700 for home in homes)
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for home in homes for path in home.glob("secret"))
        until(lambda: not any((home / "secret").exists() for home in homes))  # read, and gone
        for node, how in zip(nodes, (signal.SIGKILL, signal.SIGTERM), strict=True):
            node.send_signal(how)
        assert [node.wait(timeout=60) for node in nodes] == [-signal.SIGKILL, 0]
        until(lambda: not any(home.exists() for home in homes))
        until(lambda: not any(alive(pid) for pid in supernodes))
    finally:
        for node in nodes:
            with contextlib.suppress(ProcessLookupError):
                node.kill()


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_supernode_listens_where_it_was_told_and_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seen: list[subprocess.Popen[bytes]] = []
    start = processes._start
    monkeypatch.setattr(processes, "_start", lambda *given: seen.append(start(*given)) or seen[0])
    with supernode(f"{LOOPBACK}:{free_port()}", None, None, 0) as work:
        assert until(lambda: work(lambda message: message) is False)
    assert seen[0].returncode is not None
    with pytest.raises(ChildError, match="ended with code"):
        work(lambda message: message)
