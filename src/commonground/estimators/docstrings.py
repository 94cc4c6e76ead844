"""Docstrings of estimators say what stands elsewhere once: defaults that their signatures name, what all estimators learn."""

import inspect
import re

_PARAMETERS, _ATTRIBUTES = "Parameters\n----------\n", "Attributes\n----------\n"
# What comes behind them, as in scikit-learn
_AFTERWARDS = re.compile(r"^(Notes\n-----|Examples\n--------)$", re.MULTILINE)


def completed(cls: type, base: type) -> str | None:
    """The docstring of ``cls`` with the defaults of its signature, where it tells none of a parameter, and what ``base`` learns.

    The base's attributes, which end its docstring, come behind its own; what it says of one itself holds. None where Python
    runs without docstrings.
    """
    if cls.__doc__ is None or base.__doc__ is None:
        return cls.__doc__
    text = inspect.cleandoc(cls.__doc__)
    after = _AFTERWARDS.search(text)
    before, rest = (text, "") if after is None else (text[: after.start()], text[after.start() :])
    head, _, own = before.rstrip().partition(_ATTRIBUTES)
    said, heading, parameters = head.partition(_PARAMETERS)
    shared = inspect.cleandoc(base.__doc__).partition(_ATTRIBUTES)[2]
    told = "\n".join((_entries(shared) | _entries(own)).values())
    return f"{said}{heading}{_with_defaults(cls, parameters.rstrip())}\n\n{_ATTRIBUTES}{told}\n\n{rest}".rstrip() + "\n"


def _with_defaults(cls: type, parameters: str) -> str:
    """Such as ``epsilon, delta : float`` with ``, default=1.0 and 1e-6`` behind it."""
    values = {one.name: one.default for one in inspect.signature(cls).parameters.values()}

    def completed_line(entry: re.Match[str]) -> str:
        defaults = [values.get(name, inspect.Parameter.empty) for name in entry[1].split(", ")]
        if "default=" in entry[0] or inspect.Parameter.empty in defaults:
            return entry[0]
        return f"{entry[0]}, default={' and '.join(repr(value).replace('e-0', 'e-') for value in defaults)}"

    return re.sub(r"^(\w.*?) : .*$", completed_line, parameters, flags=re.MULTILINE)


def _entries(section: str) -> dict[str, str]:
    """Attribute → its lines: the first begins in the first column."""
    entries = re.split(r"\n(?=\S)", section.strip()) if section.strip() else []
    return {entry.split(" : ")[0]: entry for entry in entries}
