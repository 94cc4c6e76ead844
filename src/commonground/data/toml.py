"""TOML out: the standard library reads it and does not write it."""

import json
from collections.abc import Mapping
from typing import Any


def toml_text(document: Mapping[str, Any], heading: tuple[str, ...] = ()) -> str:
    """Text, numbers, truth values, lists of these, and tables in tables.

    >>> print(toml_text({"version": 1, "columns": {"home town": {"role": "feature"}}}))
    version = 1
    <BLANKLINE>
    [columns."home town"]
    role = "feature"
    <BLANKLINE>
    """
    tables = {name: value for name, value in document.items() if isinstance(value, Mapping)}
    plain = {name: value for name, value in document.items() if name not in tables}
    lines = [f"[{'.'.join(map(toml_key, heading))}]"] if heading and plain else []
    lines += [f"{toml_key(name)} = {toml_value(value)}" for name, value in plain.items()]
    text = "\n".join(lines) + "\n" if lines else ""
    for name, table in tables.items():
        text += ("\n" if text and not text.endswith("\n\n") else "") + toml_text(table, (*heading, name))
    return text


def toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if bare else toml_value(name)


def toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
