"""How loops over people's rows are compiled: once for each kind of number, and kept for later runs where there is a place.

Kernels are plain loops for one thread, without the interpreter's lock; ``threads`` runs several of them at a time. Numba's own
``parallel=True`` compiles each loop twice and every expression on arrays as a loop of its own, and takes minutes for what takes
seconds here; and the threads behind it do not survive a fork. docs/first_use.md has the measurements.
"""

import warnings
from collections.abc import Callable
from typing import Any

from numba import njit

from commonground.errors import CacheWarning

_said_so = False


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit(nogil=True, **options)`` that keeps compiled code; where nothing can be written it compiles in each process.

    Parameters
    ----------
    **options
        Of ``numba.njit``.

    Returns
    -------
    callable
        A decorator.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            _say_so_once()
            return njit(nogil=True, **options)(function)

    return decorate


def subkernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for what only other compiled code calls: without the wrappers that Python would call it by.

    Parameters
    ----------
    **options
        Of ``numba.njit``.

    Returns
    -------
    callable
        A decorator.
    """
    return njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)


def _say_so_once() -> None:
    global _said_so
    if not _said_so:
        _said_so = True
        warnings.warn(
            "there is no folder to keep compiled code in (neither beside the package nor in the user's cache folder), so it is "
            "compiled again in every process, which takes some seconds. NUMBA_CACHE_DIR can name a folder.",
            CacheWarning,
            stacklevel=4,
        )
