"""One column of the public schema: its role, its kind, and how large its numbers can be."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from commonground.errors import InputError, are_texts

ROLES = ("person", "label", "feature", "ignore")
KINDS = ("number", "category", "yes/no", "date")
UNITS = {
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
    "weeks": 7 * 86400.0,
    "years": 365.25 * 86400.0,
}
YES, NO = ("yes", "true", "y", "t", "1", "1.0", "on"), ("no", "false", "n", "f", "0", "0.0", "off")
DISCOVER = "discover"
UNKNOWN = ("any",)  # in place of values still to be found, where the other columns are looked at
INDICATOR = "indicator"
LARGEST_NUMBER = 1e300  # larger numbers are no range of anything, and some have no float
LONGEST = 16  # bytes of a discovered value, unless the schema says otherwise


@dataclass(frozen=True)
class Column:
    """What one column is.

    Parameters
    ----------
    name : str
        As the table has it.
    role : {"person", "label", "feature", "ignore"}, default="feature"
        What it is for.
    kind : {"number", "category", "yes/no", "date"}, default="number"
        What its cells hold; a person's id stays what it is.
    range : pair of float or None, default=None
        Public. Numbers beyond it are clipped; those of a feature become −1 to 1, and predictions stay within that of the label.
        Of a date: in ``unit`` since ``origin``.
    scale : float or None, default=None
        In place of a range: numbers are divided by it.
    values : tuple of str, or "discover", default=()
        Of a category: all that count, by name; any other value is none of them. "discover": the frequent ones, found privately.
    longest : int, default=16
        With "discover": longer values (in bytes of UTF-8) are not found. The shorter, the less noise.
    origin : str, default="1970-01-01"
        Of a date: which day is zero.
    unit : str, default="days"
        Of a date: seconds, minutes, hours, days, weeks or years.
    missing : str, float, bool or None, default=None
        What an empty cell means: a public constant in the column's own terms, "indicator" for a feature of its own that says
        so, or None: it is an error.
    empty : tuple of float or str, default=()
        What else counts as an empty cell of a feature: numbers such as 99 or -999, or words such as "refused".

    Examples
    --------
    >>> Column("age", range=(0, 120), missing="indicator").feature_names
    ('age', 'age is missing')
    >>> Column("town", kind="category", values=("Oslo", "Bergen")).feature_names
    ('town=Oslo', 'town=Bergen')
    """

    name: str
    role: str = "feature"
    kind: str = "number"
    range: tuple[float, float] | None = None
    scale: float | None = None
    values: tuple[str, ...] | str = ()
    longest: int = LONGEST
    origin: str = "1970-01-01"
    unit: str = "days"
    missing: str | float | bool | None = None
    empty: tuple[float | str, ...] = ()

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise InputError(f"Schema, column {self.name!r}: {problem}")
        if self.range is not None:
            object.__setattr__(self, "range", (float(self.range[0]), float(self.range[1])))

    def _problems(self) -> Iterator[str]:
        """What makes no sense; the first of it is told, and the rest may rely on it."""
        yield from self._problems_of_types()
        if self.role not in ROLES:
            yield f"role must be one of {', '.join(ROLES)}, got {self.role!r}."
        if self.kind not in KINDS:
            yield f"kind must be one of {', '.join(KINDS)}, got {self.kind!r}."
        yield from self._problems_of_size()
        yield from self._problems_of_values()
        if self.unit not in UNITS:
            yield f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}."
        if seconds_since_1970(self.origin) is None:
            yield f"origin must be a date such as 2020-01-31, got {self.origin!r}."
        yield from self._problems_of_missing()
        yield from self._problems_of_empty()

    def _problems_of_types(self) -> Iterator[str]:
        if not isinstance(self.range, tuple | None) or not isinstance(self.values, tuple | str):
            yield "range must be [lowest, highest], and values a list of texts."
        if not are_texts((self.role, self.kind, self.unit, self.origin)):
            yield "role, kind, unit and origin must be texts."
        if not are_texts(self.values):
            yield "values must be texts."
        if not are_texts([self.name]):  # an empty one is what pandas writes above its index
            yield "its name must be a text."

    def _problems_of_size(self) -> Iterator[str]:
        if self.range is not None and not (
            len(self.range) == 2 and all(map(_is_number, self.range)) and self.range[0] < self.range[1]
        ):
            yield f"range must be [lowest, highest], two finite numbers, got {self.range!r}."
        if self.scale is not None and not (_is_number(self.scale) and self.scale > 0):
            yield f"scale must be a finite number > 0, got {self.scale!r}."
        if self.range is not None and self.scale is not None:
            yield "give a range or a scale, not both."
        if self.is_class and (self.range is not None or self.scale is not None):
            yield f"a {self.kind} has neither range nor scale."

    def _problems_of_values(self) -> Iterator[str]:
        if isinstance(self.values, str):
            if self.values != DISCOVER or self.role == "label":
                yield f"values must be a list of texts, or {DISCOVER!r} for a feature, got {self.values!r}."
        elif not all(self.values) or len(set(self.values)) < len(self.values):
            yield "values must be different texts, none of them empty."
        if self.kind == "category" and self.role in ("feature", "label") and not self.values:
            yield (
                "a category needs its values: a list from somewhere public (values or values_file), or values = "
                f'"{DISCOVER}" to find the frequent ones privately. Those that occur in the table are private.'
            )
        if not (isinstance(self.longest, int) and 1 <= self.longest <= 64):
            yield f"longest must be a whole number from 1 to 64, got {self.longest!r}."

    def _problems_of_missing(self) -> Iterator[str]:
        if self.missing is None:
            return
        if self.role != "feature":
            yield "only of a feature can cells be missing: a row without person or label is of no use."
        if self.missing == INDICATOR:
            return
        if not isinstance(self.missing, str | int | float):
            yield f"missing must be a text, a number, true or false, got {self.missing!r}."
        fits, kind = {
            "number": (_is_number(self.missing), "a number"),
            "category": (self.values == DISCOVER or self.missing in self.values, "one of its values"),
            "yes/no": (isinstance(self.missing, bool), "true or false"),
            "date": (seconds_since_1970(self.missing) is not None, "a date"),
        }[self.kind]
        if not fits:
            yield f"missing must be {INDICATOR!r} or {kind}, got {self.missing!r}."

    def _problems_of_empty(self) -> Iterator[str]:
        if not isinstance(self.empty, tuple):
            yield f"empty must be a list of what counts as an empty cell, such as [99, -999], got {self.empty!r}."
        if not self.empty:
            return
        if self.role != "feature":
            yield "only a feature has other empty cells: leave rows without a label out of the table."
        words = [one for one in self.empty if isinstance(one, str)]
        numbers_too = self.kind == "number" and all(_is_number(one) for one in self.empty if one not in words)
        fits, what = are_texts(words) and (numbers_too or len(words) == len(self.empty)), "texts"
        what = "numbers and texts" if self.kind == "number" else what
        if fits and any(not word or word != word.strip() for word in words):
            yield f"words in empty have no white space around them, and none is empty itself, got {list(self.empty)!r}."
        if not fits:
            yield f"empty lists {what} where the column is a {self.kind}, got {list(self.empty)!r}."
        if self.missing is None:
            yield f'empty says which cells count as empty: say what that means, too, missing = "{INDICATOR}" or a constant.'
        listed = self.values if isinstance(self.values, tuple) and self.values != UNKNOWN else ()
        both = sorted(set(map(str, self.empty)) & set(listed))
        if both:
            yield f"{', '.join(both)} cannot be both a value and an empty cell."

    @property
    def is_class(self) -> bool:
        """Whether its cells name classes; else they are sizes: numbers or dates."""
        return self.kind in ("category", "yes/no")

    @property
    def undiscovered(self) -> bool:
        """Whether its values are still to be found, privately."""
        return self.role == "feature" and self.kind == "category" and self.values == DISCOVER

    @property
    def bounded(self) -> bool:
        """Whether its size as a feature is public."""
        return self.is_class or bool(self.range or self.scale)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that it becomes."""
        several = self.kind == "category" and not self.undiscovered
        names = [f"{self.name}={value}" for value in self.values] if several else [self.name]
        return (*names, f"{self.name} is missing") if self.missing == INDICATOR else tuple(names)

    def to_json(self) -> dict[str, Any]:
        """What differs from the defaults, for files.

        Returns
        -------
        dict
            Of what JSON and TOML can write.
        """
        shown = {name: value for name, value in vars(self).items() if name != "name"}
        kept = {name: value for name, value in shown.items() if value != DEFAULTS[name] or name == "role"}
        if self.role in ("feature", "label"):
            kept["kind"] = self.kind
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


DEFAULTS = {field.name: field.default for field in fields(Column)}


def seconds_since_1970(text: Any) -> float | None:
    """Of a date, or a date and a time, in ISO 8601; without a zone it is UTC. None: it is none."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_number(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= LARGEST_NUMBER and math.isfinite(value)
