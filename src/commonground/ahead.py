"""Compiling on a second core: a child process compiles one part of what a first fit needs while this one compiles the others.

Numba compiles one function at a time in a process. The child is told a type of numbers and nothing else, compiles on made-up
people, and leaves what it made in the cache on disk, where this process finds it. It prints nothing, and ends when its parent
does. Whatever is in the way (nothing can be kept, one core, no interpreter to start, a child that fails or is slow): this process
compiles everything, as it would alone. ``COMMONGROUND_COMPILE_AHEAD=0`` in the environment turns it off.
"""

import atexit
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba

from commonground.threads import available_cores, get_num_threads

SWITCH = "COMMONGROUND_COMPILE_AHEAD"
LONGEST_WAIT = 60.0  # seconds; a child takes about seven
# Its imports are its parent's. A thread waits for the end of what only the parent could write: the parent is gone then.
_CHILD = """
import os, sys, threading
sys.path[:] = sys.argv[4:]
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
import importlib
getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(sys.argv[3])
os._exit(0)
"""
_child: subprocess.Popen[bytes] | None = None
_parent = 0  # the process that started it: a fork of it has no child to wait for


def is_kept(compiled: Any) -> bool:
    """Whether the cache on disk has some version of a kernel that is not older than its source; True where there is no cache.

    Another type of numbers than the one at hand may be meant: then nothing is started, and it is compiled as it would be alone.
    """
    if numba.config.DISABLE_JIT or compiled.stats.cache_path is None:
        return True
    function = compiled.py_func
    written = Path(function.__code__.co_filename).stat().st_mtime
    kept = Path(compiled.stats.cache_path).glob(f"*.{function.__qualname__}-*.nbc")
    return any(file.stat().st_mtime >= written for file in kept)


def start(compiled: Any, module: str, function: str, numbers: str) -> bool:
    """Have a child call a function of a module, which compiles ``compiled`` for this type of numbers; unless that is kept.

    Parameters
    ----------
    compiled : kernel
    module, function : str
        Of this package: what the child calls.
    numbers : str
        The only argument, such as "float32".

    Returns
    -------
    bool
        Whether a child is at work.
    """
    global _child, _parent
    executable = Path(sys.executable or "")
    # An application with Python inside would start itself once more.
    if getattr(sys, "frozen", False) or not executable.stem.lower().startswith("python"):
        return False
    if os.environ.get(SWITCH) == "0" or min(get_num_threads(), available_cores()) < 2:
        return False
    try:
        if is_kept(compiled):
            return False
        _stop()
        options = ["-I", *(["-B"] if sys.dont_write_bytecode else [])]
        place = {"NUMBA_CACHE_DIR": numba.config.CACHE_DIR} if numba.config.CACHE_DIR else {}
        _child = subprocess.Popen(
            [str(executable), *options, "-c", _CHILD, module, function, numbers, *map(str, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | place,
            start_new_session=True,  # Ctrl-C is for the parent
        )
    except (OSError, RuntimeError, ValueError):  # no such file, no process, an interpreter that is shutting down
        return False
    _parent = os.getpid()
    return True


def finish() -> None:
    """Wait for the child, if there is one, but not for long; an interrupt ends both."""
    if _child is None or _parent != os.getpid():
        return
    try:
        _child.wait(LONGEST_WAIT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        _stop()


@atexit.register
def _stop() -> None:
    global _child
    child, _child = _child, None
    if child is None or _parent != os.getpid():
        return
    child.kill()  # nothing, where it has ended
    child.communicate()
