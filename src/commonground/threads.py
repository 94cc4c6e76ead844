"""Threads for compiled code: how many there are, and pieces of work handed out to them.

Results never depend on their number: a piece is the same whoever does it, and what pieces give is put together in their order.
A forked child starts threads of its own.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from commonground.errors import check_count

Piece = TypeVar("Piece")
Given = TypeVar("Given")
_n_threads: int | None = None  # None: not asked yet
_pool: ThreadPoolExecutor | None = None
_here = threading.local()


def available_cores() -> int:
    """How many cores this process may use.

    Returns
    -------
    int
        One at least.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_num_threads() -> int:
    """How many threads compiled code uses.

    Returns
    -------
    int
        What ``set_num_threads`` said; else the environment's NUMBA_NUM_THREADS; else as many as this process has cores.
    """
    global _n_threads
    if _n_threads is None:
        asked = os.environ.get("NUMBA_NUM_THREADS", "")
        _n_threads = int(asked) if asked.isdigit() and int(asked) > 0 else available_cores()
    return _n_threads


def set_num_threads(n_threads: int) -> None:
    """Let compiled code use this many threads, in all of this process.

    Parameters
    ----------
    n_threads : int
        At least 1.
    """
    global _n_threads
    check_count("the number of threads", n_threads)
    if n_threads != _n_threads:
        _forget_threads()
    _n_threads = n_threads


def each(run: Callable[[Piece], Given], pieces: Iterable[Piece]) -> list[Given]:
    """``[run(piece) for piece in pieces]``, several at a time; within a piece, one by one: its thread would wait for itself.

    Parameters
    ----------
    run : callable
        Of one piece; most of its time without the interpreter's lock.
    pieces : iterable

    Returns
    -------
    list
        In the order of the pieces.
    """
    pieces = list(pieces)
    if len(pieces) < 2 or get_num_threads() == 1 or getattr(_here, "in_a_piece", False):
        return [run(piece) for piece in pieces]

    def run_here(piece: Piece) -> Given:
        _here.in_a_piece = True  # these threads do nothing else
        return run(piece)

    pool = _threads()
    try:
        return list(pool.map(run_here, pieces))
    except Exception:
        raise  # of a piece: the rest of these are cancelled by ``map``; other fits of this process have theirs in the same pool
    except BaseException:
        # A Ctrl-C inside Thread.start leaves a thread that the pool does not know: only a pool that is shut down ends it, and
        # Python waits for it before the process may end.
        pool.shutdown(wait=False, cancel_futures=True)
        _forget_threads()
        raise


def _threads() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(get_num_threads(), thread_name_prefix="commonground")
    return _pool


def _forget_threads() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # a child has its parent's pool, but none of its threads
