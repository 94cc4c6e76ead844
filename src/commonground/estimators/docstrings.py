"""What all estimators learn is told once, in the docstring of their base, and stands in the docstring of each."""

import inspect
import re

_HEADING = "Attributes\n----------\n"
# What comes behind it, as in scikit-learn
_AFTERWARDS = re.compile(r"^(Notes\n-----|Examples\n--------)$", re.MULTILINE)


def with_attributes_of(base: type, docstring: str | None) -> str | None:
    """The docstring with the attributes of the base, which end the base's, behind its own; what it says of one itself holds.

    None where Python runs without docstrings.
    """
    if docstring is None or base.__doc__ is None:
        return docstring
    text = inspect.cleandoc(docstring)
    after = _AFTERWARDS.search(text)
    before, rest = (text, "") if after is None else (text[: after.start()], text[after.start() :])
    head, _, own = before.rstrip().partition(_HEADING)
    shared = inspect.cleandoc(base.__doc__).partition(_HEADING)[2]
    told = "\n".join((_entries(shared) | _entries(own)).values())
    return f"{head.rstrip()}\n\n{_HEADING}{told}\n\n{rest}".rstrip() + "\n"


def _entries(section: str) -> dict[str, str]:
    """Attribute → its lines: the first begins in the first column."""
    entries = re.split(r"\n(?=\S)", section.strip()) if section.strip() else []
    return {entry.split(" : ")[0]: entry for entry in entries}
