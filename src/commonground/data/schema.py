"""The public schema: what each column of a table is, and how it becomes numbers. Declared by people, never read off rows.

It is applied alike in training, at ``personalize`` and ``predict``, and at the nodes of a federation, and it stands on the
billboard. So whatever is in it is seen by everybody: values of a category, ranges and constants for missing cells must be known
without these people's rows, or be discovered privately (``values = "discover"``; paid for in ``fit``).
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from commonground.data.columns import require_unique
from commonground.data.schema_column import DEFAULTS, INDICATOR, UNITS, Column, seconds_since_1970
from commonground.data.toml import toml_text
from commonground.errors import InputError

VERSION = 1


@dataclass(frozen=True)
class Schema:
    """All columns of a table, and what each of them is; public, and part of the billboard.

    Parameters
    ----------
    columns : tuple of Column
        One is the person, one the label, at least one a feature. Columns that are not named here are ignored.

    Examples
    --------
    >>> schema = Schema((Column("who", "person"), Column("stars", "label", range=(1, 5)), Column("age", range=(0, 120))))
    >>> schema.encode({"age": [30, 60, 500]}).tolist()
    [[-0.5], [0.0], [1.0]]
    >>> Schema.from_toml(schema.to_toml()) == schema
    True
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        require_unique([column.name for column in self.columns], "The schema's columns")
        for role in ("person", "label"):
            named = [column.name for column in self.columns if column.role == role]
            if len(named) != 1:
                raise InputError(
                    f"A schema names one column with role {role!r}, this one {len(named)} ({', '.join(named) or 'none'})."
                )
        if not self.features:
            raise InputError('A schema names at least one column with role "feature", this one none.')
        require_unique(self.feature_names, "The features that the schema makes")

    def _with_role(self, role: str) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role == role)

    @property
    def person(self) -> Column:
        """Says whose row it is."""
        return self._with_role("person")[0]

    @property
    def label(self) -> Column:
        """What is to be predicted."""
        return self._with_role("label")[0]

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that rows are made from, in order."""
        return self._with_role("feature")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The numbers that a row becomes, in order."""
        return tuple(name for column in self.features for name in column.feature_names)

    @property
    def undiscovered(self) -> tuple[Column, ...]:
        """Categories whose values are still to be found, privately."""
        return tuple(column for column in self.features if column.undiscovered)

    @property
    def bounded(self) -> bool:
        """Whether every feature has a public size: nothing about scales is then left to be found in rows."""
        return all(column.bounded for column in self.features)

    def with_values(self, values: Mapping[str, tuple[str, ...]]) -> "Schema":
        """The same with the values that were found for some categories; one without any is ignored.

        Parameters
        ----------
        values : mapping of str to tuple of str
            By the column's name.

        Returns
        -------
        Schema
        """
        return Schema(tuple(_with_found(column, values) for column in self.columns))

    def encode(self, table: Any) -> np.ndarray:
        """Rows as numbers, by this schema alone; every cell that does not fit is told, column by column.

        Parameters
        ----------
        table : DataFrame, Table, mapping of columns, or array of shape (n_rows, n_columns)
            An array has the schema's features as columns, in their order.

        Returns
        -------
        array of shape (n_rows, n_features)
        """
        from commonground.data.encoding import encoded_rows

        return encoded_rows(self, table)

    def encode_labels(self, labels: Any) -> np.ndarray:
        """Labels as numbers: clipped to their range; 0 and 1 for no and yes; the place of a class among its values.

        Parameters
        ----------
        labels : array of shape (n_rows,)

        Returns
        -------
        array of shape (n_rows,)
        """
        from commonground.data.encoding import encoded_labels

        return encoded_labels(self, labels)

    def in_label_range(self, predictions: np.ndarray) -> np.ndarray:
        """Predictions, none beyond the label's range.

        Parameters
        ----------
        predictions : array

        Returns
        -------
        array of the same shape
        """
        return predictions if self.label.range is None else np.clip(predictions, *self.label.range)

    @staticmethod
    def draft(table: Any, user: str = "user_id", label: str = "y") -> str:
        """A schema to begin with, as TOML. Not private: the operator checks it, and declares what may be published.

        Parameters
        ----------
        table : DataFrame, Table or path
            Its first million rows are looked at.
        user, label : str, default="user_id" and "y"
            The columns of ids and of labels.

        Returns
        -------
        str
            What was read off rows is marked. ``from_toml`` refuses it as long as it says ``draft = true``.
        """
        from commonground.data.draft import drafted

        return drafted(table, user, label)

    # ---- files -------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """As it stands on a billboard.

        Returns
        -------
        dict
            Of what JSON can write.
        """
        return {"version": VERSION, "columns": {column.name: column.to_json() for column in self.columns}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], folder: Path | None = None) -> Self:
        """The inverse of ``to_json``.

        Parameters
        ----------
        document : mapping
            What ``to_json`` made.
        folder : path or None, default=None
            Where a ``values_file`` is looked for; None: there may be none.

        Returns
        -------
        Schema
        """
        if not isinstance(document, Mapping) or not isinstance(document.get("columns"), Mapping):
            raise InputError("A schema has a table [columns.NAME] for each column.")
        if document.get("draft", False) is not False:
            raise InputError(
                "The schema is still a draft: it is published, and holds what was read off rows. Check the lines marked FROM THE "
                "DATA, then delete the line draft = true."
            )
        if document.get("version", VERSION) != VERSION:
            raise InputError(f"The schema has version {document['version']!r}; known here is {VERSION}.")
        return cls(tuple(_column(name, entry, folder) for name, entry in document["columns"].items()))

    def to_toml(self) -> str:
        """For people to read and change.

        Returns
        -------
        str
        """
        return toml_text(self.to_json())

    @classmethod
    def from_toml(cls, text: str, folder: str | os.PathLike[str] | None = None) -> Self:
        """The inverse of ``to_toml``.

        Parameters
        ----------
        text : str
            Not a path: see ``read``.
        folder : path or None, default=None
            Where a ``values_file`` is looked for.

        Returns
        -------
        Schema
        """
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise InputError(f"The schema is not TOML: {problem}.") from None
        return cls.from_json(document, None if folder is None else Path(folder))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """A schema from its file.

        Parameters
        ----------
        path : path
            A .toml file.

        Returns
        -------
        Schema
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(
                f"{path} cannot be read as a schema ({type(problem).__name__}). See `commonground schema`."
            ) from None
        try:
            return cls.from_toml(text, Path(path).parent)
        except InputError as problem:
            raise InputError(f"{path}: {problem}") from None


def _with_found(column: Column, values: Mapping[str, tuple[str, ...]]) -> Column:
    if column.name not in values:
        return column
    found = tuple(value for value in values[column.name] if value not in column.empty)
    if not found:
        return Column(column.name, "ignore")
    stands_for = column.missing if column.missing in (None, INDICATOR, *found) else INDICATOR
    return replace(column, values=found, missing=stands_for)


def _column(name: str, entry: Any, folder: Path | None) -> Column:
    if not isinstance(entry, Mapping):
        raise InputError(f"Schema, column {name!r}: it needs a table [columns.{name}] of its own.")
    entry = {key: _plain(value) for key, value in entry.items()}
    listed = entry.pop("values_file", None)
    if listed is not None:
        entry["values"] = _values_in(name, listed, folder)
    unknown = set(entry) - set(DEFAULTS) | ({"name"} & set(entry))
    if unknown:
        known = ", ".join((*(key for key in DEFAULTS if key != "name"), "values_file"))
        raise InputError(f"Schema, column {name!r}: there is no {', '.join(sorted(unknown))}; known are {known}.")
    if entry.get("kind") == "date" and isinstance(entry.get("range"), tuple):
        entry["range"] = tuple(_since(each, entry) for each in entry["range"])
    return Column(name, **entry)


def _plain(value: Any) -> Any:
    """Lists as tuples, and TOML's own dates as text."""
    if isinstance(value, list):
        return tuple(_plain(each) for each in value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _since(end: Any, entry: Mapping[str, Any]) -> Any:
    """An end of a date's range, which may be written as a date."""
    seconds, origin = seconds_since_1970(end), seconds_since_1970(entry.get("origin", "1970-01-01"))
    unit = UNITS.get(str(entry.get("unit", "days")))
    return end if seconds is None or origin is None or unit is None else (seconds - origin) / unit


def _values_in(name: str, listed: Any, folder: Path | None) -> tuple[str, ...]:
    if folder is None or not isinstance(listed, str):
        raise InputError(f"Schema, column {name!r}: values_file names a text file beside the schema, one value a line.")
    try:
        lines = (folder / listed).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(
            f"Schema, column {name!r}: {folder / listed} cannot be read ({type(problem).__name__})."
        ) from None
    return tuple(line.strip() for line in lines if line.strip())
