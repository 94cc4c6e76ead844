"""The real thing, small: a SuperLink with TLS, SuperNodes that prove who they are, and a stranger."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli import app as cli
from commonground.cli.federate import _start, _train, dealt_out
from commonground.federated.flower import Settings
from commonground.federated.keys import make_certificates, make_node_key
from commonground.federated.processes import LOOPBACK, free_port
from commonground.federated.superlink import ServerTls
from commonground.heads.files import Heads
from commonground.ledger import DurableLedger

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's, when it packs a bundle
def test_two_nodes_a_stranger_and_a_server_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes may be there before the server. It is killed while it trains, started again on the same port and ledger, and its
    nodes come back. A node whose key the server does not know is refused all the time; heads are made at a node."""
    users, _ = cg.datasets.make_shared_subspace(n_users=600, n_features=8, rank=2, seed=0)
    parts = dealt_out(users, 2, tmp_path, "user_id", "y")
    made, port, ledger = make_certificates(tmp_path), free_port(), str(tmp_path / "ledger.db")
    people = DurableLedger(ledger, create=True).open_population("clinics", Budget(60.0, 1e-5))
    (tmp_path / "known").mkdir()
    keys = [
        make_node_key(tmp_path / folder, name) for folder, name in (("known", "a"), ("known", "b"), (".", "stranger"))
    ]
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for part, key in zip([*parts, parts[0]], keys, strict=True):
            where = ("--superlink", f"{LOOPBACK}:{port}", "--ca", made.authority, "--key", key, "--patience", 20)
            nodes.append(
                _start("node", "serve", part, *where, "--trust", "nodes", "--epsilon", 120, "--name", key.name)
            )

        where = ("--port", port, "--certificate", made.certificate, "--key", made.key, "--ca", made.authority)
        what = ("--epsilon", 20, "--no-shared-mean", "--rounds", 1, "--trust", "nodes", "--tolerate", 1)
        paid = ("--ledger", ledger, "--population", "clinics", "--node-keys", tmp_path / "known")
        with _start("server", "--out", tmp_path / "board", "--nodes", 2, *where, *what, *paid) as first:
            try:
                deadline = time.monotonic() + 120
                while people.account().booked == 0:  # it trains
                    assert first.poll() is None
                    assert time.monotonic() < deadline
                    time.sleep(0.2)
            finally:
                first.kill()
        booked = people.account().booked
        assert not (tmp_path / "board").exists()

        settings = Settings(nodes=2, epsilon=20.0, shared_mean=False, rounds=1, trust="nodes", tolerated=1)
        tls = ServerTls(made.certificate, made.key, made.authority)
        known = [Path(f"{key}.pub") for key in keys[:2]]
        _train(settings, tmp_path / "board", LOOPBACK, port, tls, known, None, False, ledger=people)
        assert people.account().booked > booked, "what the killed one had booked stays booked"
        assert nodes[2].wait(timeout=60) == 2, "the stranger was let in"
        assert [node.poll() for node in nodes[:2]] == [None, None]
    finally:
        for node in nodes:
            node.terminate()
        codes = [node.wait(timeout=60) for node in nodes]
    assert codes == [0, 0, 2]

    said = capsys.readouterr().out
    assert " questions to 2 nodes" in said
    board = cg.Billboard.load(tmp_path / "board")
    assert str(board.statement) in said
    assert board.statement.epsilon_spent <= 20.0
    assert not board.statement.simulated
    assert "Rows stayed at 2 nodes" in board.statement.custody
    assert "All nodes took part in every sum" in board.statement.custody

    command = ["federate", "node", "personalize", tmp_path / "board", parts[0], "--out", tmp_path / "heads.parquet"]
    monkeypatch.setattr(sys, "argv", ["commonground", *map(str, command)])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    heads = Heads.load(tmp_path / "heads.parquet", board)
    here = Heads.fit(board, cg.Users.from_table(parts[0]))
    np.testing.assert_array_equal(heads.table.weights, here.table.weights)
    assert (tmp_path / "heads.parquet").stat().st_mode & 0o077 == 0


TLS = ["--certificate", "one.csv", "--key", "one.csv", "--ca", "one.csv"]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["server", "--out", "b", "--nodes", "2"], "--insecure"),
        (["server", "--out", "b", "--nodes", "2", "--insecure", "--node-keys", "."], "no public key"),
        (["server", "--out", "b", "--nodes", "2", "--certificate", "x", "--key", "x", "--ca", "x"], "is not a file"),
        (["server", "--out", "b", "--nodes", "2", "--insecure", "--host", "0.0.0.0"], "is for one machine"),
        (["server", "--out", "b", "--nodes", "2", *TLS], "--any-node-with-the-certificate"),
        (
            ["server", "--out", "b", "--nodes", "2", *TLS, "--node-keys", ".", "--any-node-with-the-certificate"],
            "say who",
        ),
        (["node", "serve", "rows.csv"], "--ca"),
        (["node", "serve", "rows.csv", "--insecure", "--key", "x"], "over TLS only"),
        (["node", "serve", "rows.csv", "--insecure"], "rows.csv"),
        (["node", "serve", "one.csv", "--insecure", "--trust", "nodes"], "budget of its own"),
        (["node", "serve", "one.csv", "--insecure", "--trust", "me"], "'server' or 'nodes'"),
        (["simulate", "one.csv", "--out", "b", "--nodes", "3"], "cannot be dealt out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_one_clear_line(
    arguments: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("user_id,a,b,y\nu1,1,2,3\nu2,2,3,4\n")
    monkeypatch.setattr(sys, "argv", ["commonground", "federate", *arguments])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    error = capsys.readouterr().err
    assert what in error.replace("\n", " ")
    assert "Traceback" not in error


def test_people_are_dealt_out_whole(tmp_path: Path) -> None:
    users, _ = cg.datasets.make_shared_subspace(n_users=11, n_features=4, rank=2, seed=0)
    parts = [cg.Users.from_table(path, user="who", label="z") for path in dealt_out(users, 3, tmp_path, "who", "z")]
    assert sorted(person for part in parts for person in part.ids.tolist()) == users.ids.tolist()
    assert all(3 <= part.n_users <= 4 for part in parts)
    for part in parts:
        for person in part.ids.tolist():
            np.testing.assert_array_equal(part.rows_of(person)[0], users.rows_of(person)[0])
            np.testing.assert_array_equal(part.rows_of(person)[1], users.rows_of(person)[1])
