"""People whose rows are not numbers yet, as their schema has categories whose values are still to be found.

Which values occur is private. ``fit`` finds the frequent ones through its gate (``steps.category_values``), and then makes the
rows.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commonground.data.encoding import EncodedSource
from commonground.data.ids import People, as_id_batches, find_people, row_places
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.data.schema_column import UNKNOWN
from commonground.data.sources import Source
from commonground.data.stores import Scratch, Table, fits_in_memory, load_rows
from commonground.data.tables import encoded_table, open_with_schema
from commonground.errors import InputError

if TYPE_CHECKING:
    from commonground.data.users import Users


class Unencoded(Population):
    """A table, its schema and who there is. ``encoded`` makes the rows once all values are known."""

    features_are_known = False
    spent = False  # whether its rows were read: it is opened for one fit

    schema: Schema

    def __init__(
        self, users_class: "type[Users]", source: Source, ids: Any, schema: Schema, max_memory: int, scratch: Scratch
    ):
        self._users_class, self._source, self._ids, self.schema = users_class, source, ids, schema
        self._max_memory, self._scratch = max_memory, scratch
        # So many there are whatever is found; perhaps none.
        self.n_features = sum(len(column.feature_names) for column in schema.features if not column.undiscovered)
        table = encoded_table(source, ids, self._without_discovery())
        self._name = f"Column {schema.person.name!r}"
        self._id_batches, keys, _ = as_id_batches(table.user_ids, self._name)
        self._people: People = find_people(self._id_batches, self._name, keys)
        self.n_users = len(self._people.offsets) - 1
        self.label_name, self.user_name = schema.label.name, schema.person.name

    @classmethod
    def open(
        cls, users_class: "type[Users]", source: Any, schema: Schema, max_memory: int, scratch: Scratch
    ) -> "Unencoded":
        """Open a table; every cell that does not fit the schema is told, all columns at once."""
        try:
            raw, ids = open_with_schema(source, schema, max_memory, scratch)
            opened = cls(users_class, raw, ids, schema, max_memory, scratch)
            EncodedSource(raw, opened._without_discovery()).check()
        except BaseException:
            scratch.remove()
            raise
        return opened

    def _without_discovery(self) -> Schema:
        return self.schema.with_values({column.name: UNKNOWN for column in self.schema.undiscovered})

    @property
    def ids(self) -> np.ndarray:
        return self._people.ids()

    def encoded_if_complete(self) -> "Users":
        """The people with their rows; as they are where values are still to be found."""
        return self if self.schema.undiscovered else self.encoded({})  # type: ignore[return-value]

    def encoded(self, values: Mapping[str, tuple[str, ...]]) -> "Users":
        """The people with their rows, given the values that were found; once, as rows on disk are kept in one place."""
        assert not self.spent
        self.spent = True
        self.__dict__.pop("known_part", None)  # rows enough
        schema = self.schema.with_values(values)
        return self._by(schema, encoded_table(self._source, self._ids, schema))

    @cached_property
    def known_part(self) -> "Users | None":
        """The same people before anything is found: values that are not known yet count as none of any list."""
        schema = self._without_discovery()
        table = encoded_table(self._source, self._ids, schema)
        return None if self.spent or not fits_in_memory(table, self._max_memory) else self._by(schema, table)

    def _by(self, schema: Schema, table: Table) -> "Users":
        places = None if self._people.grouped else row_places(self._people, self._id_batches, self._name)
        rows = load_rows(table, places, self._max_memory, self._scratch)
        users = self._users_class(
            self._people, rows, feature_names=schema.feature_names, label_name=self.label_name, user_name=self.user_name
        )
        users.schema = schema
        return users

    def values_of(self, column: str) -> tuple[np.ndarray, list[bytes]]:
        """Each person's different values of a column, in bytes: the person's position, and the value. Private.

        Bytes and not text: a file can hold what Arrow takes for UTF-8 and Python does not, and that is no reason to stop.
        """
        person_of_row = self._person_of_row()
        pairs, row = set(), 0
        empty = {str(word).encode() for one in self.schema.features if one.name == column for word in one.empty}
        for batch in self._source.batches([column], 2**16):
            cells = batch.column(column)
            values = pc.utf8_trim_whitespace(cells.cast(pa.string())).cast(pa.binary()).to_pylist()
            people = person_of_row[row : row + len(values)].tolist()
            pairs |= {
                (person, value) for person, value in zip(people, values, strict=True) if value and value not in empty
            }
            row += len(values)
        ordered = sorted(pairs)
        return np.array([person for person, _ in ordered], dtype=np.int64), [value for _, value in ordered]

    def _person_of_row(self) -> np.ndarray:
        offsets = self._people.offsets
        if self._people.grouped:
            return np.repeat(np.arange(self.n_users), np.diff(offsets))
        places = np.concatenate(list(row_places(self._people, self._id_batches, self._name)))
        return np.searchsorted(offsets, places, side="right") - 1


def refuse_beside_a_schema(
    schema: Schema, engine: str, item: Any, items: Any, features: Any, budget: str | None
) -> None:
    """What a table with a schema cannot be given, and what to do instead."""
    if features is not None:
        raise InputError("a schema names the features itself; leave features= out, or give columns the role 'ignore'.")
    if item is not None or items is not None:
        raise InputError(
            "a schema has no items: declare the column of items as a category with its values, or leave the schema out and give "
            "item= and items=, the catalogue."
        )
    if engine != "local":
        raise InputError(
            f"engine={engine!r} reads tables of numbers, without a schema: write them with Schema.encode first, or read on this "
            "machine (engine='local'), which needs no more memory than max_memory."
        )
    if budget is None:
        return
    if schema.undiscovered:
        raise InputError(
            "values of categories are discovered for one (ε, δ) of everybody, not for personal budgets. List them in the schema: "
            f"{', '.join(column.name for column in schema.undiscovered)}."
        )
    if any(column.name == budget and column.role != "ignore" for column in schema.columns):
        raise InputError(f"column {budget!r} holds people's budgets: give it the role 'ignore' in the schema.")
