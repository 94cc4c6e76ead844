"""Two Ray nodes on this machine: the same billboard as without Ray, also when one of them is killed in the middle of a sum."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import commonground as cg
from commonground.accounting.budgets import Budget
from commonground.cli import app as cli
from commonground.errors import EngineError, InputError
from commonground.ledger import DurableLedger

pytestmark = pytest.mark.slow

ray = pytest.importorskip("ray")
N, D, ROWS = 400, 5, 8
NODE = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from commonground.engines.ray import connect  # first: it sees to it that Ray does not report to its makers

    from ray.cluster_utils import Cluster  # isort: skip

    nodes = Cluster(initialize_head=True, head_node_args=NODE)
    nodes.add_node(**NODE)
    readers = connect(nodes.address)  # for all tests: starting them takes seconds
    assert len(readers._at_home) == 2
    yield nodes
    del readers
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``grouped``: two files, person by person. ``scattered``: the same rows in any order, people named by text."""
    folder = tmp_path_factory.mktemp("tables")
    users, _ = cg.datasets.make_shared_subspace(n_users=N, rows_per_user=ROWS, n_features=D, seed=4)
    block = next(users.blocks())
    ids = np.repeat(np.arange(N), ROWS)
    bounded = np.clip(block.X, -2, 2)
    columns = {"user_id": pa.array(ids), "y": np.clip(block.y, -3, 3), **{f"x{a}": bounded[:, a] for a in range(D)}}
    table = pa.table({**columns, "eps": 0.5 + ids % 3})
    scattered = table.set_column(0, "user_id", pa.array([f"person {one}" for one in ids]))
    scattered = scattered.take(np.random.default_rng(0).permutation(len(ids)))
    for name, rows in (("grouped", table), ("scattered", scattered)):
        (folder / name).mkdir()
        for half in range(2):
            size = N // 2 * ROWS
            pq.write_table(rows.slice(half * size, size), folder / name / f"{half}.parquet", row_group_size=500)
    return folder


def same_numbers(one: cg.Billboard, other: cg.Billboard) -> None:
    np.testing.assert_allclose(one.embedding, other.embedding, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.mean, other.mean, rtol=0, atol=1e-9)
    assert one.statement.n_users == other.statement.n_users
    assert [event.name for event in one.statement.events] == [event.name for event in other.statement.events]
    np.testing.assert_allclose(
        [event.sensitivity for event in one.statement.events],
        [event.sensitivity for event in other.statement.events],
        rtol=1e-12,
    )


def fedrep() -> cg.PrivateFedRep:
    return cg.PrivateFedRep(2, 4.0, n_rounds=4, simulation_seed=5)


FEATURES = [f"x{a}" for a in range(D)]
LEARNERS: dict[str, Callable[[], Any]] = {
    "FedRep": fedrep,
    "AltMin, logistic": lambda: cg.PrivateAltMin(2, 4.0, loss="logistic", n_rounds=2, simulation_seed=5),
    "single model": lambda: cg.SingleModel(4.0, simulation_seed=5),
    "personal budgets": lambda: cg.PersonalBudgetRidge(
        "statistics", feature_bounds=(-2, 2), label_bounds=(-3, 3), delta=1e-6, simulation_seed=5
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_seed_gives_the_same_billboard(cluster: Any, folder: Path, name: str) -> None:
    """Files read as they are and split by person; by path and by address; in memory and from disk."""
    budget = {"budget": "eps"} if name == "personal budgets" else {}
    for table, options in (("grouped", {}), ("scattered", {"max_memory": 1})):
        here = cg.Users.from_table(folder / table, features=FEATURES, **budget)
        there = cg.Users.from_table(
            f"file://{folder / table}", features=FEATURES, engine="ray", address=cluster.address, **budget, **options
        )
        assert (here.n_users, here.n_features) == (there.n_users, there.n_features)
        same_numbers(LEARNERS[name]().fit(here).billboard_, LEARNERS[name]().fit(there).billboard_)


def test_grouped_files_are_not_copied(cluster: Any, folder: Path, tmp_path: Path) -> None:
    for table, copies in (("grouped", False), ("scattered", True)):
        users = cg.Users.from_table(
            folder / table, features=FEATURES, engine="ray", address=cluster.address, scratch=tmp_path
        )
        (scratch,) = tmp_path.iterdir()
        assert any(scratch.iterdir()) == copies
        del users
        assert not list(tmp_path.iterdir())


def test_rows_and_ids_stay_where_they_are(cluster: Any, folder: Path) -> None:
    users = cg.Users.from_table(folder / "grouped", features=FEATURES, engine="ray", address=cluster.address)
    for ask in (lambda: users.ids, lambda: next(users.blocks()), lambda: users.rows_of(3)):
        with pytest.raises(InputError, match="stay with Ray's workers"):
            ask()
    model = fedrep().fit(users)
    assert model.heads_ is None
    with pytest.raises(InputError, match="keeps no heads"):
        model.predict(np.zeros((1, D)), users=[3])
    with pytest.raises(InputError, match="stay with Ray's workers"):
        cg.NonPrivateFedRep().fit(users)


def test_train_on_a_cluster(
    cluster: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(table: Path | str, *options: str) -> tuple[int, str]:
        arguments = ["train", str(table), "--out", str(tmp_path / "board"), "--force", "--features", ",".join(FEATURES)]
        monkeypatch.setattr("sys.argv", ["commonground", *arguments, *options])
        monkeypatch.setattr(cli, "to_people", Console(stderr=True, width=500))
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        return code, capsys.readouterr().err

    on_ray = ("--engine", "ray", "--address", cluster.address)
    seed = ("--simulation-seed", "5", "--rounds", "4", "--epsilon", "4")
    code, shown = train(f"file://{folder / 'scattered'}", *on_ray, *seed)
    assert code == 0
    assert "training" in shown
    same_numbers(
        fedrep().fit(cg.Users.from_table(folder / "scattered", features=FEATURES)).billboard_,
        cg.Billboard.load(tmp_path / "board"),
    )
    (tmp_path / "rows.csv").write_text("user_id,y,x0\n1,2,3\n")
    for table, options, message in (
        (folder / "grouped", ("--engine", "spark"), "engine must be 'local' or 'ray', got 'spark'"),
        (folder / "grouped", ("--address", "somewhere"), "Pass engine='ray' with it"),
        (folder / "grouped", ("--engine", "ray", "--address", "127.0.0.1:1"), "uses the Ray cluster at"),
        (tmp_path / "rows.csv", on_ray, "engine='ray' reads Parquet files"),
        (f"file://{tmp_path}/nowhere", on_ray, "There is nothing at"),
        ("unheard-of://table", on_ray, "cannot be opened"),
        (folder / "grouped", (*on_ray, "--label", "z"), "There is no column 'z'"),
    ):
        code, shown = train(table, *options)
        assert code == 2
        assert message in shown


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    from commonground.engines.ray import require_answer

    with pytest.raises(OSError, match="refused"):
        require_answer("127.0.0.1:1")
    require_answer("auto")


class Killing:
    """An engine during whose third sum something is killed. It waits in every block, so that the sum is not over by then."""

    def __init__(self, engine: Any, kill: Callable[[], None]) -> None:
        self.engine, self.kill, self.sums = engine, kill, 0

    def sum(self, weights: Any, statistic: Any) -> Any:
        self.sums += 1
        if self.sums != 3:
            return self.engine.sum(weights, statistic)

        class Slowly:
            def of(self, block: Any) -> Any:
                time.sleep(0.1)
                return statistic.of(block)

        killer = threading.Timer(0.2, self.kill)
        killer.start()
        total = self.engine.sum(weights, Slowly())
        killer.join()
        return total


@pytest.mark.parametrize("table", ["grouped", "scattered"])
def test_a_node_killed_in_the_middle_of_a_sum_changes_nothing(
    cluster: Any, folder: Path, table: str, tmp_path: Path
) -> None:
    """Nobody is counted twice or left out, and the ledger is charged what it is charged without the accident."""
    users = cg.Users.from_table(folder / table, features=FEATURES, engine="ray", address=cluster.address)
    second = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    users.engine = Killing(users.engine, lambda: cluster.remove_node(second, allow_graceful=False))
    try:
        killed = fedrep().fit(users).billboard_
    finally:
        cluster.add_node(**NODE)
    assert users.engine.sums > 3
    same_numbers(fedrep().fit(cg.Users.from_table(folder / table, features=FEATURES)).billboard_, killed)


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """A test that would wait for ever fails instead."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"nothing after {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("frozen", ["stopped", "stuck"])
def test_a_frozen_worker_is_given_up_and_the_sum_is_the_same(
    cluster: Any, folder: Path, frozen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is stopped says nothing any more; one that hangs says that it is alive, and gets nowhere."""
    from commonground.engines import ray as engine

    users = cg.Users.from_table(folder / "grouped", features=FEATURES, engine="ray", address=cluster.address)
    fedrep().fit(users)  # workers have compiled by then, so that none is silent for long
    monkeypatch.setattr(engine, "ASK_AFTER_SECONDS", 2.0)
    monkeypatch.setattr(engine, "ALIVE_SECONDS", 30.0)
    readers = users.engine.readers
    reader = next(reader for reader in readers._at_home if reader is not None)
    process = ray.get(reader.ready.remote())
    if frozen == "stuck":
        monkeypatch.setattr(engine, "STUCK_SECONDS", 20.0)  # more than a new reader takes to load on a busy machine
        reader.__ray_call__.remote(lambda _: time.sleep(600))  # stands in the way of the sum
    else:
        users.engine = Killing(users.engine, lambda: os.kill(process, signal.SIGSTOP))
    try:
        with at_most(300):
            board = fedrep().fit(users).billboard_
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    same_numbers(fedrep().fit(cg.Users.from_table(folder / "grouped", features=FEATURES)).billboard_, board)
    assert reader not in readers._at_home


def test_a_slow_worker_is_not_taken_for_a_frozen_one(
    cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked many times while it computes, and answers."""
    from commonground.engines import ray as engine

    monkeypatch.setattr(engine, "ASK_AFTER_SECONDS", 0.01)
    users = cg.Users.from_table(folder / "grouped", features=FEATURES, engine="ray", address=cluster.address)
    before = list(users.engine.readers._at_home)
    users.engine = Killing(users.engine, lambda: None)
    fedrep().fit(users)
    now = users.engine.engine.readers._at_home
    assert all(there is reader for there, reader in zip(now, before, strict=True) if reader is not None)


def test_without_workers_the_fit_stops_and_what_was_released_stays_charged(
    cluster: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = cg.Users.from_table(folder / "grouped", features=FEATURES, engine="ray", address=cluster.address)
    readers = users.engine.readers

    def kill_all() -> None:
        monkeypatch.setattr(readers, "_start", lambda home: None)
        for reader in [*readers._at_home, *(reader for _, reader in readers._coming.values())]:
            if reader is not None:
                ray.kill(reader)

    users.engine = Killing(users.engine, kill_all)
    people = DurableLedger(tmp_path / "ledger.db", create=True).open_population("people", Budget(4.0, 1e-6))
    with pytest.raises(EngineError, match="Every Ray worker was lost"):
        cg.PrivateFedRep(2, 3.0, n_rounds=4).fit(users, ledger=people)
    charges = [text for text, _ in people.events() if '"charge"' in text]
    assert len(charges) == 4  # sizes and sum of the first two; nothing of the third
    assert people.account().charged > 0
