"""A schema to begin with. The operator checks it: what was read off rows is private until somebody declares it public."""

import math
from typing import Any

from commonground.data.columns import choose_columns
from commonground.data.profile import Profile, profiles
from commonground.data.toml import toml_key, toml_value
from commonground.errors import InputError

HEADING = """\
# A DRAFT, NOT PRIVATE: lines marked FROM THE DATA were read off people's rows. The schema is published on the billboard, so what
# stands there must be known without these rows: from a catalogue, a law of nature, a form's limits. Check each such line, replace
# what you cannot vouch for, and then delete the next line. Most numbers lie within the ranges; those beyond are cut to the ends.
draft = true
version = 1
"""
MARK = "  # FROM THE DATA: not private until you declare it public"
CATEGORY = """\
# Give the values from a public list, values = ["…"] or values_file = "list.txt"; "discover" finds the frequent ones privately,
# which takes a tenth of the budget, for all such columns together. A value that is not listed counts as none of them.
"""


def drafted(table: Any, user: str, label: str) -> str:
    """TOML with a proposal for every column."""
    found = profiles(table)
    choose_columns([one.name for one in found], user, label, None)
    for one in found:
        if one.name == label and one.meant_as:
            raise InputError(f"Column {label!r}, the label, holds {one.meant_as}.")
        if one.name == label and one.kind == "text":  # which a draft would list as classes
            raise InputError(
                f"Column {label!r}, the label, holds text that hardly repeats ({one.n_distinct:,} different values): neither a "
                "number nor classes. Is it the right column?"
            )
    return HEADING + "".join("\n" + "\n".join(_entry(one, user, label)) + "\n" for one in found)


def _entry(one: Profile, user: str, label: str) -> list[str]:
    heading = f"[columns.{toml_key(one.name)}]"
    if one.name == user:
        return [heading, 'role = "person"']
    role = "label" if one.name == label else "feature"
    why_not = _why_ignored(one) if role == "feature" else ""
    if why_not:
        return [heading, f'role = "ignore"  # {why_not}']
    lines = [
        heading,
        f'role = "{role}"',
        *(f"# {told}" for told in remarks(one, role)),
        f'kind = "{"category" if one.kind == "text" else one.kind}"{MARK}',
    ]
    if one.kind == "number":
        lines.append(f"range = {toml_value(_around(one.low, one.high))}{MARK}")
    elif one.kind == "date":
        lines += ['origin = "2000-01-01"', 'unit = "years"', "range = [0.0, 50.0]"]
    elif one.kind in ("category", "text"):
        lines += _category(one, role)
    if one.n_missing and role == "feature":
        lines.append(f'missing = "indicator"{MARK}')
    return lines


def remarks(one: Profile, role: str) -> list[str]:
    """What no line of a schema can repair, in words."""
    told = []
    if one.codes:
        repair = (
            "leave such rows out" if role == "label" else 'say here which, empty = [999, -1], and missing = "indicator"'
        )
        told.append(
            f"Some cells hold numbers such as 999 or -1, far from all others: if they stand for a missing cell, {repair}."
        )
    if one.n_missing and role == "label":
        told.append("Some rows have no label, or one like N/A that counts as none: leave them out.")
    if one.kind == "yes/no" and role == "label":
        told.append('Answers are written yes and no. For words of your own: kind = "category", and values, the two.')
    return told


def _why_ignored(one: Profile) -> str:
    if one.is_index:
        return "looks like an index: whole numbers, no two the same"
    if one.is_id:
        return "looks like an id: whole numbers under such a name"
    if one.meant_as:
        return f"{one.meant_as}, and draft again"
    if one.kind == "text":
        return "text that hardly repeats"
    return "empty" if one.kind == "nothing" else ""


def _category(one: Profile, role: str) -> list[str]:
    listed = f"values = {toml_value(list(one.values))}{MARK}"
    if role == "label":
        return [listed]
    return [*CATEGORY.strip().splitlines(), 'values = "discover"', f"# {listed}"]


def _around(low: float, high: float) -> list[float]:
    """A round range that holds most numbers.

    >>> _around(18.0, 83.0), _around(-0.3, 4_200_000.0), _around(3.0, 3.0), _around(-0.21, 0.23)
    ([10.0, 90.0], [-1000000.0, 5000000.0], [2.0, 4.0], [-0.3, 0.3])
    """
    if not high > low:
        return [low - 1.0, low + 1.0]
    unit = 10.0 ** math.floor(math.log10(high - low))
    step = unit if (high - low) / unit >= 2 else unit / 2
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    bottom, top = float(f"{bottom:.12g}"), float(f"{top:.12g}")  # 0.3, not 0.30000000000000004
    return [0.0 if 0 < bottom < 0.1 * top else bottom, top]
