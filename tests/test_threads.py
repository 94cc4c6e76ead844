"""Threads change how long it takes, nothing else; a fork and a read-only machine are survived."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from commonground import threads
from commonground.clipping.grid import CHUNK
from commonground.data.population import Block
from commonground.errors import InputError
from commonground.heads.arithmetic import row_scores
from commonground.heads.choice import HEAD, choose
from commonground.heads.convex import fit_convex_heads
from commonground.heads.halves import second_half_heads
from commonground.heads.posterior import fit_posterior_heads
from commonground.heads.ridge import fit_heads
from commonground.statistics.directions import FeatureEnergies
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.statistic import SharedModel


@pytest.fixture(autouse=True)
def as_many_as_before() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def people(n: int, dtype: type = np.float64) -> Block:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 5, n))])
    X = rng.standard_normal((offsets[-1], 4)).astype(dtype)
    return Block(X, X[:, 0] + X[:, 1], offsets, 0, rng.uniform(0, 1, n))


MODEL = SharedModel(np.eye(4)[:, :1], np.ones(4), 0.5, True)


@pytest.mark.parametrize(
    "asked", [EmbeddingGradients(MODEL, 113), ResidualGradients(MODEL, 113), FeatureEnergies(True)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_do_not_depend_on_the_number_of_threads(asked, dtype: type) -> None:  # type: ignore[no-untyped-def]
    block = people(3 * CHUNK + 5, dtype)
    found = []
    for n_threads in (1, 3):
        threads.set_num_threads(n_threads)
        found.append(asked.of(block))
    for name, value in vars(found[0]).items():
        np.testing.assert_array_equal(value, vars(found[1])[name], err_msg=name)


def test_pieces_keep_their_order_and_their_people() -> None:
    block = people(2 * CHUNK + 7, np.float32)
    threads.set_num_threads(2)
    rows = over_chunks(block, lambda some: np.diff(some.offsets))
    np.testing.assert_array_equal(rows, np.diff(block.offsets))
    np.testing.assert_array_equal(over_chunks(block, lambda some: some.person_weights), block.weights)
    assert over_chunks(block, lambda some: some.X).dtype == np.float64
    np.testing.assert_array_equal(over_chunks(block, lambda some: some.X, doubles=False), block.X)


def test_work_is_done_at_the_same_time() -> None:
    threads.set_num_threads(2)
    both = threading.Barrier(2, timeout=30)
    assert len(threads.each(lambda _: both.wait(), range(2))) == 2


def test_what_is_done_first_does_not_come_first() -> None:
    threads.set_num_threads(2)
    assert threads.each(lambda pause: (time.sleep(pause), pause)[1], [0.2, 0.0]) == [0.2, 0.0]


def test_an_error_of_a_piece_is_raised() -> None:
    threads.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        threads.each(lambda piece: 1 // piece, [1, 0])


def test_an_error_of_one_call_leaves_other_calls_their_work() -> None:
    """Two fits in one process, as web servers have them: what fails in one is not the other's loss."""
    threads.set_num_threads(2)
    begun, failed = threading.Event(), threading.Event()
    found: list[object] = []

    def wait_for_the_failure(piece: int) -> int:
        begun.set()
        assert failed.wait(30)
        return piece

    def other_fit() -> None:
        try:
            found.append(threads.each(wait_for_the_failure, range(6)))
        except BaseException as reason:
            found.append(reason)

    def fail(_: int) -> None:
        raise MemoryError

    # Both pieces of the call that fails are in the queue before the other's, of which one is then in work and five wait.
    other = threading.Thread(target=other_fit)
    with pytest.raises(MemoryError):
        threads.each(
            lambda piece: (other.start(), begun.wait(30), fail(piece)) if piece == 0 else fail(piece), range(2)
        )
    failed.set()
    other.join(60)
    assert found == [list(range(6))]
    assert threads.each(abs, [-1, -2]) == [1, 2]


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none(number: object) -> None:
    with pytest.raises(InputError, match="at least 1"):
        threads.set_num_threads(number)  # type: ignore[arg-type]


def _energies(block: Block) -> list[np.ndarray]:
    return [FeatureEnergies(True).of(block).counts]


def _every_head(block: Block) -> list[np.ndarray]:
    """Of all kinds, what they answer, and what people choose."""
    shared = np.eye(4)[:, :2], np.ones(4), 0.5, True
    heads, own = fit_heads(block, *shared)
    whose = np.repeat(np.arange(block.n_users), np.diff(block.offsets))
    return [
        heads,
        own,
        *fit_posterior_heads(block, SharedModel(*shared, np.eye(3), 0.5)),
        *fit_convex_heads(block, *shared, "huber"),
        second_half_heads(block, shared[0]),
        *choose(block, SharedModel(*shared), None, HEAD, fewest_rows=3),
        row_scores(block.X, shared[1], shared[0], heads, whose, np.zeros((0, 4)), np.full(len(whose), -1)),
    ]


def test_heads_do_not_depend_on_the_number_of_threads() -> None:
    block = people(2 * CHUNK + 5)
    found = []
    for n_threads in (1, 3):
        threads.set_num_threads(n_threads)
        found.append(_every_head(block))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def _answer(compute, block, queue) -> None:  # type: ignore[no-untyped-def]
    queue.put(compute(block))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("compute", [_energies, _every_head])
def test_a_child_can_compute_after_its_parent_has(compute) -> None:  # type: ignore[no-untyped-def]
    threads.set_num_threads(2)
    block = people(2 * CHUNK)
    expected = compute(block)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_answer, args=(compute, block, queue))
    child.start()
    found = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_kernel_brings_threads_of_its_own() -> None:
    """Numba's, behind parallel=True, end a child that uses them after its parent has."""
    for file in (Path(threads.__file__).parent).rglob("*.py"):
        if file.name != "compiled.py":  # which says why
            assert "parallel=True" not in file.read_text(), file


def test_without_a_place_for_compiled_code_it_compiles_every_time(tmp_path: Path) -> None:
    code = """
import warnings
from commonground.compiled import kernel
from commonground.errors import CacheWarning
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    @kernel()
    def twice(x):
        return 2 * x
    @kernel()
    def thrice(x):
        return 3 * x
assert [w.category for w in given] == [CacheWarning], given
assert "NUMBA_CACHE_DIR" in str(given[0].message)
assert twice(3) == 6 and thrice(3) == 9
"""
    script, no_folder = tmp_path / "kernels.py", tmp_path / "__pycache__"
    script.write_text(code)
    no_folder.write_text("nothing can be written below a file, not even by an administrator")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"HOME": str(no_folder), "XDG_CACHE_HOME": str(no_folder)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


INTERRUPTED_WHILE_A_THREAD_STARTS = """
import threading
from commonground import threads

really_start = threading.Thread.start

def start_and_be_interrupted(thread):
    really_start(thread)
    raise KeyboardInterrupt

threads.set_num_threads(2)
threading.Thread.start = start_and_be_interrupted
try:
    threads.each(abs, [1, 2, 3])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_a_process_interrupted_while_a_thread_starts_ends() -> None:
    """The pool does not know such a thread, and Python would wait for it for ever."""
    command = [sys.executable, "-c", INTERRUPTED_WHILE_A_THREAD_STARTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "interrupted"


def test_a_piece_that_hands_out_pieces_does_not_wait_for_itself() -> None:
    """All threads busy with pieces that wait for a thread: before, for ever."""
    before = threads.get_num_threads()
    threads.set_num_threads(2)
    try:
        found = threads.each(lambda a: threads.each(lambda b: 10 * a + b, range(3)), range(4))
    finally:
        threads.set_num_threads(before)
    assert found == [[10 * a + b for b in range(3)] for a in range(4)]
