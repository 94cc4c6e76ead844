"""Ray: one reader a core, on one machine or many, each with its own partitions of whole people. Only sums come back.

**A lost reader** (a process that was killed, a node that is gone) leaves its partitions to the others, who open them anew.
A partition has exactly one result in a sum, whoever computed it: what a reader that was given up still sends is not looked at.
So nobody is counted twice, and the gate, which is asked only when the sum is complete, charges once. If a partition is
lost again and again, or no reader is left, `EngineError` stops the fit; what a ledger has reserved for it stays reserved.

**A frozen reader** (stopped, swapped out, behind a broken network) sends nothing, not even that it is lost. When no answer comes
for a while, readers at work are asked whether they are alive, which they can say while they compute. Who does not is ended and
counts as lost; so does, after a longer while, who is alive and gets nowhere (a file system that hangs).

**The order of additions** is that of the partitions, which follow from the table alone: the sum does not depend on who was first,
nor on how many readers there are.

The driver holds neither rows nor ids, only one sum for each partition. Heads are fitted where rows are (``personalize``).
"""

import logging
import os
import secrets
import socket
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would tell its makers

import ray
from ray import cloudpickle
from ray.exceptions import RayError, RayTaskError

from commonground.data.columns import choose_columns
from commonground.data.ids import no_rows
from commonground.data.population import Block, Population, Sum, Summable, add_up
from commonground.data.sources import ParquetSource, PathLike, is_path
from commonground.data.stores import Scratch
from commonground.data.tables import table_files
from commonground.engines.partitions import (
    SPLIT_BYTES,
    FilePart,
    Opened,
    Partition,
    Reader,
    Reading,
    SplitPart,
    lie_apart,
    n_partitions,
    table_bytes,
)
from commonground.errors import CommongroundError, EngineError, InputError
from commonground.progress import progress_bar, progress_line
from commonground.threads import set_num_threads

START_SECONDS = 120  # a reader must have answered by then
MOST_LOSSES = 3  # of one partition: more are no accident
ASK_AFTER_SECONDS = 30.0  # without any answer; readers are then asked whether they are alive,
ALIVE_SECONDS = 60.0  # and must have said so by then
STUCK_SECONDS = 1800.0  # without any answer from readers that are alive


# --- readers ----------------------------------------------------------------------------------------------------------


class OneCoreReader(Reader):
    def __init__(self) -> None:
        super().__init__()
        set_num_threads(1)  # there is a reader on every core

    def ready(self) -> int:
        return os.getpid()

    @ray.method(concurrency_group="alive")
    def alive(self) -> None:
        """Answered by a thread of its own, also while the reader computes."""

    def answer(self, *arguments: Any, question: bytes) -> Any:
        # The question travels in one piece: arrays that Ray unpacks are read-only, and Numba would compile anew for those.
        statistic = cloudpickle.loads(question)
        key, partition, reading, size, weights = arguments
        own = None if weights is None else weights.copy()
        return self.sum(key, partition, reading, size, own, statistic)


RayReader: Any = ray.remote(num_cpus=1, concurrency_groups={"alive": 1})(OneCoreReader)


class Readers:
    """A reader on every free core. Work has a home, so that a partition stays in the memory of one reader."""

    def __init__(self) -> None:
        n_readers = max(1, int(ray.available_resources().get("CPU", 0)))
        self._at_home: list[Any] = [None] * n_readers
        self._coming: dict[ray.ObjectRef, tuple[int, Any]] = {}
        self._given_up: list[Any] = []  # frozen or stuck: what they still send is not looked at
        for home in range(n_readers):
            self._start(home)
        self._admit(n_readers)
        if not any(self._at_home):
            raise EngineError(
                f"No Ray worker started within {START_SECONDS} s. Every core of the cluster may be in use; see `ray status`."
            )

    def _start(self, home: int) -> None:
        reader = RayReader.remote()
        self._coming[reader.ready.remote()] = home, reader

    def _admit(self, wanted: int, timeout: float = START_SECONDS) -> None:
        if not self._coming:
            return
        answered, _ = ray.wait(list(self._coming), num_returns=min(wanted, len(self._coming)), timeout=timeout)
        for ref in answered:
            home, reader = self._coming.pop(ref)
            try:
                ray.get(ref)
            except RayError:
                continue
            self._at_home[home] = reader

    def _reader_for(self, number: int) -> tuple[int, Any]:
        home = number % len(self._at_home)
        if self._at_home[home] is None:
            there = [i for i, reader in enumerate(self._at_home) if reader is not None]
            home = there[number // len(self._at_home) % len(there)]
        return home, self._at_home[home]

    def map(self, method: str, calls: Mapping[int, Sequence[Any]], what: str, **same: Any) -> Iterator[Any]:
        """``method(*calls[number])`` of some reader for every number; results in the order of the calls, one for each."""
        to_do, results, losses = list(calls), dict[int, Any](), Counter[int]()
        at_work: dict[ray.ObjectRef, tuple[int, int, Any]] = {}
        with progress_line(what, len(calls)) as advance:
            for number in calls:
                while number not in results:
                    self._admit(1, timeout=0)
                    if not any(self._at_home):
                        self._admit(1)
                    if not any(self._at_home):
                        raise EngineError("Every Ray worker was lost. Check the cluster (`ray status`) and fit again.")
                    for waiting in to_do:
                        home, reader = self._reader_for(waiting)
                        at_work[getattr(reader, method).remote(*calls[waiting], **same)] = waiting, home, reader
                    to_do = []
                    self._wait_for_one(at_work)
                    for done in ray.wait(list(at_work), num_returns=len(at_work), timeout=0)[0]:
                        finished, home, reader = at_work.pop(done)
                        try:
                            results[finished] = ray.get(done)
                            advance()
                        except RayTaskError as error:
                            if isinstance(error.cause, CommongroundError | OSError):
                                raise error.cause from None
                            raise
                        except RayError as error:
                            losses[finished] += 1
                            if losses[finished] > MOST_LOSSES:
                                raise lost_too_often(finished, what, type(error).__name__) from None
                            to_do.append(finished)
                            self._replace(home, reader)
                    for ref in [ref for ref, (_, _, reader) in at_work.items() if reader in self._given_up]:
                        lost, home, reader = at_work.pop(ref)
                        losses[lost] += 1
                        if losses[lost] > MOST_LOSSES:
                            raise lost_too_often(lost, what, "no answer")
                        to_do.append(lost)
                        self._replace(home, reader)
                    self._given_up.clear()
                yield results.pop(number)

    def _wait_for_one(self, at_work: Mapping[ray.ObjectRef, tuple[int, int, Any]]) -> None:
        """Until something is answered, or somebody at work is found to be frozen or stuck: that one is given up."""
        asked = time.monotonic()
        while not ray.wait(list(at_work), num_returns=1, timeout=ASK_AFTER_SECONDS)[0]:
            readers = {id(reader): reader for _, _, reader in at_work.values()}.values()
            questions = {reader.alive.remote(): reader for reader in readers}
            silent = ray.wait(list(questions), num_returns=len(questions), timeout=ALIVE_SECONDS)[1]
            self._given_up += [questions[ref] for ref in silent]
            if time.monotonic() - asked > STUCK_SECONDS:
                self._given_up += readers
            for reader in self._given_up:
                ray.kill(reader)
            if self._given_up:
                return

    def _replace(self, home: int, reader: Any) -> None:
        if self._at_home[home] is reader:
            self._at_home[home] = None
            self._start(home)

    @property
    def all_lost(self) -> bool:
        return not any(self._at_home) and not self._coming

    def forget(self, keys: Sequence[Any]) -> None:
        if ray.is_initialized():
            for reader in self._at_home:
                if reader is not None:
                    reader.forget.remote(keys)


def lost_too_often(number: int, what: str, how: str) -> EngineError:
    return EngineError(
        f"Number {number} of {what} was lost {MOST_LOSSES + 1} times ({how}). Workers may have too little "
        "memory: lower max_memory, or give Ray fewer cores on each node."
    )


_readers: weakref.ref[Readers] | None = None  # shared by all Users of this process: each core has one reader


def connect(address: str | None) -> Readers:
    """The readers of this process, on the cluster at ``address``; None: one that Ray starts on this machine."""
    global _readers
    if ray.is_initialized() and address not in (None, "auto", here := ray.get_runtime_context().gcs_address):
        raise EngineError(
            f"This process uses the Ray cluster at {here} already, so not {address!r}. Call ray.shutdown()."
        )
    known = None if _readers is None else _readers()
    if known is not None and ray.is_initialized() and not known.all_lost:
        return known
    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if address is None:
                ray.init("local", include_dashboard=False, **quiet)
            else:
                require_answer(address)
                ray.init(address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            raise EngineError(f"There is no Ray cluster at {address!r} ({error}). See `ray status` there.") from None
    readers = Readers()
    _readers = weakref.ref(readers)
    return readers


def require_answer(address: str) -> None:
    """Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in address:
        socket.create_connection((host, int(port)), timeout=10).close()


# --- people -----------------------------------------------------------------------------------------------------------


class RayEngine:
    """Who has which partition of one table."""

    def __init__(self, readers: Readers, reading: Reading, partitions: Sequence[Partition], scratch: Scratch):
        self.readers, self.reading, self.scratch = readers, reading, scratch  # the folder goes when this does
        name = secrets.token_hex(8)
        keys = [(name, number) for number in range(len(partitions))]
        everything = {n: (key, part, reading) for n, (key, part) in enumerate(zip(keys, partitions, strict=True))}
        opened: list[Opened] = list(readers.map("open", everything, "reading partitions"))
        self._calls = {n: (*everything[n], part.size) for n, part in enumerate(opened) if part.n_users}
        self.opened = [part for part in opened if part.n_users]
        weakref.finalize(self, readers.forget, keys).atexit = False

    def sum(self, everybody: np.ndarray | None, statistic: Summable[Sum]) -> Sum:
        """Over all partitions; ``everybody``: how much each person counts."""
        question = ray.put(cloudpickle.dumps(statistic))
        edges = list(accumulate((part.n_users for part in self.opened), initial=0))
        weights = [None if everybody is None else everybody[start:stop] for start, stop in pairwise(edges)]
        calls = {n: (*call, own) for (n, call), own in zip(self._calls.items(), weights, strict=True)}
        sums = self.readers.map("answer", calls, "partitions", question=question)
        return add_up(part for part in sums if part is not None)


class RemoteUsers(Population):
    """People whose rows and ids are with the readers."""

    kind = "ray"

    def __init__(self, engine: RayEngine):
        columns, opened = engine.reading.columns, engine.opened
        self.n_users = sum(part.n_users for part in opened)
        self.n_rows = sum(part.n_rows for part in opened)
        self.max_rows_per_user = max(part.max_rows_per_user for part in opened)
        self.n_features = len(columns.features)
        self.streamed = True
        self.feature_names, self.label_name, self.user_name = columns.features, columns.label, columns.user
        budgets = [part.budgets for part in opened if part.budgets is not None]
        self.budgets = np.concatenate(budgets) if budgets else None
        self.engine = engine

    def _sum(self, statistic: Summable[Sum]) -> Sum:
        return self.engine.sum(self._weights, statistic)

    @property
    def ids(self) -> np.ndarray:
        raise elsewhere("ids")

    def blocks(self, max_bytes: int | None = None) -> Iterator[Block]:
        raise elsewhere("rows")

    def rows_of(self, user_id: Any) -> tuple[np.ndarray, np.ndarray]:
        raise elsewhere("rows")


def elsewhere(what: str) -> InputError:
    return InputError(
        f"People's {what} stay with Ray's workers, and this needs them in one process. Make Users without engine='ray'."
    )


def users_of_files(
    source: Any, user: str, label: str, features: Sequence[str] | None, *, budget: str | None, max_memory: int,
    scratch: PathLike | None, address: str | None, verbose: bool,
) -> RemoteUsers:  # fmt: skip
    """Cut a table of Parquet files into partitions of whole people, and let Ray's workers open them."""
    if not is_path(source):
        raise InputError(f"engine='ray' reads Parquet files by their path or address, got {type(source).__name__}.")
    paths, files = table_files(source)
    if paths[0].suffix.lower() != ".parquet":
        raise InputError(f"engine='ray' reads Parquet files, got {str(source)!r}. Write the table as Parquet first.")
    table = ParquetSource(paths, files)
    if budget is not None and features is None:
        features = [name for name in table.schema.names if name not in (user, label, budget)]
    columns = choose_columns(table.schema.names, user, label, features)
    folder = Scratch(scratch)
    reading = Reading(columns, budget, max_memory, folder.folder)
    try:
        with progress_bar("grouping people", 3, verbose) as advance:
            readers = connect(address)
            advance()
            partitions = cut(table, reading, readers)
            advance()
            engine = RayEngine(readers, reading, partitions, folder)
            advance()
    except BaseException:
        folder.remove()
        raise
    return RemoteUsers(engine)


def cut(table: ParquetSource, reading: Reading, readers: Readers) -> list[Partition]:
    """Partitions of whole people: files as they are where that is possible, else a copy."""
    columns, n = reading.columns, n_partitions(table, reading.columns)  # also finds columns that are not numeric
    files = table.each_file()
    if not files:
        raise no_rows()
    calls = {number: (file, columns, -(-table.n_rows // n)) for number, file in enumerate(files)}
    described = list(readers.map("describe", calls, "reading ids"))
    if all(file.grouped for file in described) and lie_apart(described):
        return [
            FilePart(file, start, stop)
            for file, people in zip(files, described, strict=True)
            for start, stop in pairwise(people.cuts)
        ]
    rows = max(1, SPLIT_BYTES * table.n_rows // table_bytes(table, columns))
    parts = [
        FilePart(file, start, min(start + rows, file.n_rows)) for file in files for start in range(0, file.n_rows, rows)
    ]
    splits = {number: (part, reading, n, number) for number, part in enumerate(parts)}
    for _ in readers.map("split", splits, "sorting people"):
        pass
    return [SplitPart(reading.scratch, len(parts), number) for number in range(n)]
