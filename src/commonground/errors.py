"""Errors that a person can act on: what was given, what is allowed, what to do next."""

import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any


class CommongroundError(Exception):
    """Base of every error raised on purpose; the command line prints it and exits with its code."""

    exit_code = 2


class InputError(CommongroundError, ValueError):
    """A table, an array or a parameter that cannot be used."""


class UnknownUserError(InputError):
    """A person asked for by id who was not in training (raised only on ``strict=True``)."""


class BudgetError(CommongroundError):
    """A release that would spend more privacy than the ledger has left, or that it must not see."""

    exit_code = 3


class UselessError(CommongroundError):
    """A training whose result would be mostly noise, by public numbers, and that was to be refused in that case."""

    exit_code = 4


class LedgerError(CommongroundError):
    """A ledger that cannot be read, written or believed. Nothing is released on doubt."""


class CheckpointError(CommongroundError):
    """The file of an interrupted fit that cannot be read, written or continued by this one."""


class EngineError(CommongroundError):
    """Workers that cannot be reached, or were lost and could not be replaced."""


class BillboardError(CommongroundError):
    """A billboard file that is missing, damaged, changed or written by a newer version."""


class PrivacyWarning(UserWarning):
    """The guarantee holds as stated, but says less than one may think."""


class RecipeWarning(UserWarning):
    """The paper's setting is impossible on this table; the nearest possible one is used."""


class SharingWarning(UserWarning):
    """People are too few for the budget: what is shared will mostly be noise, and own data alone mostly better."""


class ScaleWarning(UserWarning):
    """Features of sizes that the noise would hide at this number of people and ε; for the operator's eyes."""


class TableWarning(UserWarning):
    """What a table holds is perhaps not what was meant; for the operator's eyes."""


class UnknownUserWarning(UserWarning):
    """Most rows belong to people who were not in training: they get the shared prediction."""


class SizeWarning(UserWarning):
    """The table's shape makes this fit slow or large; there is a better way."""


class CacheWarning(UserWarning):
    """Compiled code cannot be kept: every process compiles again."""


def is_whole(value: object) -> bool:
    """Whether it is a whole number, of Python or of NumPy; True and False are none.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a real number, of Python or of NumPy; True and False are none.

    Parameters
    ----------
    value : object

    Returns
    -------
    bool
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def are_texts(values: Iterable[object]) -> bool:
    """Whether each of some values is a text.

    Parameters
    ----------
    values : iterable

    Returns
    -------
    bool
    """
    return all(isinstance(value, str) for value in values)


def check_parameters(check: Callable[..., None], holder: Any, *names: str, of: str = "", **options: Any) -> None:
    """Hold several parameters of an estimator against the same check.

    Parameters
    ----------
    check : callable
        ``check_count`` or ``check_size``.
    holder : object
        Has them as attributes.
    *names : str
        What they are called.
    of : str, default=""
        How messages call the holder, such as "PrivateMarginClassifier"; "": they name the parameter alone.
    **options : Any
        For the check.
    """
    for name in names:
        check(f"{name} of {of}" if of else name, getattr(holder, name), **options)


def check_count(what: str, value: Any, least: int = 1, advice: str = "") -> None:
    """Raise ``InputError`` unless the value is a whole number, and large enough.

    Parameters
    ----------
    what : str
        How the message calls it, such as "n_rounds of PrivateAltMin".
    value : object
    least : int, default=1
    advice : str, default=""
        What else the message says, from its space on.
    """
    if not is_whole(value) or value < least:
        raise InputError(f"{what} must be a whole number of at least {least}, got {value!r}.{advice}")


def check_size(what: str, value: Any, advice: str = "") -> None:
    """Raise ``InputError`` unless the value is a finite number above zero.

    Parameters
    ----------
    what : str
        How the message calls it, such as "margin of PrivateMarginClassifier".
    value : object
    advice : str, default=""
        What else the message says, from its space on.
    """
    if not is_number(value) or not 0 < value < math.inf:
        raise InputError(f"{what} must be a finite number > 0, got {value!r}.{advice}")
