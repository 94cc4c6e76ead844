"""Ctrl-C, and being asked to end (SIGTERM), stop a command in order: one line, exit code 130 or 143, nothing left open."""

import gc
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

_to_do: list[Callable[[], None]] = []  # before this process ends
_connections = logging.getLogger("sqlalchemy.pool")  # says, with its traceback, what comes upon the closing of one


def before_the_end(do: Callable[[], None]) -> None:
    """Have something done when the command is over, however it ends; no further signal interrupts it."""
    _to_do.append(do)


class Interrupts:
    """Inside the ``with`` block both signals raise KeyboardInterrupt, and are remembered.

    Remembered, because compiled code that is interrupted turns the exception into another one (a SystemError).
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._ending = False
        self._before: dict[signal.Signals, Any] = {}
        self._heard = _connections.level

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other one decide about signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number)
        if not self._ending:
            _connections.setLevel(logging.CRITICAL)  # that it was interrupted is said in one line
            raise KeyboardInterrupt

    def finish(self) -> None:
        """Do what was left for the end, once what was interrupted has let go of its locks.

        An interruption may come just after a ``with`` block was entered and before Python knows that it must be left; what it
        holds, such as a transaction, is then left when the frames of the exceptions forget it, of their causes and of those that
        they came upon; and what holds itself in a circle when the collector finds it.
        """
        self._ending = True
        problems, seen = [sys.exception()], set[int]()
        while problems:
            problem = problems.pop()
            if problem is not None and id(problem) not in seen:
                seen.add(id(problem))
                traceback.clear_frames(problem.__traceback__)
                problems += [problem.__cause__, problem.__context__]
        del problem
        gc.collect()
        while _to_do:
            _to_do.pop()()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        _connections.setLevel(self._heard)
        for number, handler in self._before.items():
            signal.signal(number, handler)
