"""A first fit has a child process compile a part of what it needs: with it, and with all that can be in its way."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from commonground import ahead
from commonground.statistics.kernels.posterior_rounds import people_of_chunk

NEVER_KEPT = SimpleNamespace(
    stats=SimpleNamespace(cache_path=str(Path(__file__).parent)), py_func=ahead.start
)  # a kernel with a cache that has nothing of it
FIT = """
import sys
import commonground as cg
from commonground.statistics.kernels.posterior_rounds import people_of_chunk
users, _ = cg.datasets.make_shared_subspace(n_users=300, rows_per_user=6, n_features=5, rank=1, noise=0.5, seed=0)
board = cg.PrivateFedRep(rank=1, epsilon=4.0, delta=1e-6, simulation_seed=0).fit(users).billboard_
stats = people_of_chunk.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), float(abs(board.embedding).sum()))
"""


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv(ahead.SWITCH, "1")
    monkeypatch.setattr(ahead, "get_num_threads", lambda: 2)
    monkeypatch.setattr(ahead, "available_cores", lambda: 2)
    return monkeypatch


def started(compiled: Any = NEVER_KEPT, module: str = "time", function: str = "sleep", argument: str = "0") -> bool:
    return ahead.start(compiled, module, function, argument)


def child() -> subprocess.Popen[bytes]:
    assert ahead._child is not None
    return ahead._child


@pytest.mark.slow  # compiles all that a first fit needs, twice
def test_a_first_fit_finds_its_rounds_compiled_by_the_child_and_its_result_is_the_same(tmp_path: Path) -> None:
    def fit(switch: str, cache: str) -> list[str]:
        environment = os.environ | {
            ahead.SWITCH: switch, "NUMBA_CACHE_DIR": str(tmp_path / cache), "NUMBA_NUM_THREADS": "2",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    alone, first = fit("0", "alone"), fit("1", "both")
    assert alone[:2] == ["0", "1"]
    both_cores = len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1
    assert first[:2] == (["1", "0"] if both_cores else ["0", "1"])
    assert first[2] == alone[2]


def test_a_child_is_waited_for_and_nothing_is_left_of_it(allowed: pytest.MonkeyPatch) -> None:
    # ``int`` takes the text that the child is told; a function that fails ends the child, and nobody hears of it.
    for function, code in (("int", 0), ("no_such_function", 1)):
        assert started(module="builtins", function=function)
        process = child()
        ahead.finish()
        assert process.returncode == code
        assert ahead._child is None
    ahead.finish()  # with no child, nothing


def test_a_slow_child_is_ended(allowed: pytest.MonkeyPatch) -> None:
    allowed.setattr(ahead, "LONGEST_WAIT", 0.2)
    assert started(module="builtins", function="input")  # waits for what nobody writes
    process, begun = child(), time.monotonic()
    ahead.finish()
    assert process.returncode not in (None, 0)
    assert time.monotonic() - begun < 30.0


def test_an_interrupt_ends_the_child_too(allowed: pytest.MonkeyPatch) -> None:
    assert started(module="builtins", function="input")
    process, wait = child(), child().wait

    def interrupted(timeout: float | None = None) -> int:
        if timeout == ahead.LONGEST_WAIT:
            raise KeyboardInterrupt
        return wait(timeout)

    allowed.setattr(process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ahead.finish()
    assert process.returncode not in (None, 0)


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="asks the system whether a process lives, as POSIX does")
def test_a_child_does_not_outlive_its_parent() -> None:
    program = (
        "import os\nfrom types import SimpleNamespace\nfrom commonground import ahead\n"
        "ahead.get_num_threads = ahead.available_cores = lambda: 2\n"
        f"kernel = SimpleNamespace(stats=SimpleNamespace(cache_path={str(Path(__file__).parent)!r}), py_func=ahead.start)\n"
        "assert ahead.start(kernel, 'builtins', 'input', '')\n"
        "print(ahead._child.pid, flush=True)\nos._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {ahead.SWITCH: "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    pid = int(done.stdout)
    for _ in range(600):
        state = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return  # ended; whoever inherited it has not looked yet
        time.sleep(0.05)
    pytest.fail("the child lives on")


@pytest.mark.parametrize(
    ("what", "value"),
    [("executable", ""), ("executable", "/opt/application/bin/viewer"), ("executable", "/nowhere/python3"), ("frozen", True)],
)  # fmt: skip
def test_without_an_interpreter_to_start_nothing_is_started(
    allowed: pytest.MonkeyPatch, what: str, value: object
) -> None:
    allowed.setattr(sys, what, value, raising=False)
    assert not started()
    assert ahead._child is None


def test_nothing_is_started_where_it_would_not_help(allowed: pytest.MonkeyPatch) -> None:
    nowhere = SimpleNamespace(stats=SimpleNamespace(cache_path=None), py_func=ahead.start)
    assert not started(nowhere)
    with allowed.context() as one_core:
        one_core.setattr(ahead, "available_cores", lambda: 1)
        assert not started()
    with allowed.context() as one_thread:
        one_thread.setattr(ahead, "get_num_threads", lambda: 1)
        assert not started()
    with allowed.context() as off:
        off.setenv(ahead.SWITCH, "0")
        assert not started()
    assert started()  # else
    ahead.finish()


def test_what_is_kept_is_known_by_its_file_and_what_is_older_than_its_source_is_not(tmp_path: Path) -> None:
    kernel = SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path)), py_func=people_of_chunk.py_func)
    assert not ahead.is_kept(kernel)
    kept = tmp_path / "posterior_rounds.people_of_chunk-185.py311.1.nbc"
    kept.write_bytes(b"")
    assert ahead.is_kept(kernel)
    os.utime(kept, (0.0, 0.0))
    assert not ahead.is_kept(kernel)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_of_the_parent_leaves_the_child_alone(allowed: pytest.MonkeyPatch) -> None:
    assert started(module="builtins", function="input")
    process = child()
    forked = os.fork()
    if forked == 0:
        ahead.finish()
        ahead._stop()
        os._exit(0)
    assert os.waitpid(forked, 0)[1] == 0
    assert process.poll() is None
    ahead._stop()
    assert process.returncode not in (None, 0)
