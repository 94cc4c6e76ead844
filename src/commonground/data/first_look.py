"""What somebody in a hurry overlooks in a table: the operator's own look at ids, labels and columns, before anything is spent.

Not private, like ``estimators.scales``: errors and warnings go to the operator, name columns and numbers of rows, never what a
cell holds; nothing that is published depends on them. ``Users.from_table`` looks where nobody has named the features, and
the command line at every table to train on.
"""

import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from commonground.data.codes import Codes, codes_in_words
from commonground.data.population import Block, Population
from commonground.data.schema_column import UNKNOWN
from commonground.errors import InputError, PrivacyWarning, TableWarning

FEWEST_TO_JUDGE = 20  # people: of fewer it says nothing that each has one row, or that all have the same number
# Of so many people: with fewer rows a person than that it is hardly people whom ids name.
PEOPLE_WITH_SEVERAL_ROWS, FEWEST_ROWS_EACH = 100, 1.05
WHOLE_NUMBER = re.compile(r"(?:\+|(-))?0*([0-9]+?)(?:\.0*)?")
SHORTENED = re.compile(r"-?[0-9]([.,][0-9]+)?[eE]\+[0-9]+")


def look_at_table(people: Population) -> None:
    """Of a table that may be for training or for something else: what is the same in all rows of many is a warning."""
    look_at_ids(people, stacklevel=5)
    block = all_rows(people) if people.n_users >= FEWEST_TO_JUDGE else None
    if block is None:
        return
    if finding := constant_label(people, block):
        warnings.warn(finding, TableWarning, stacklevel=4)
    look_at_columns(people, block, stacklevel=5)


def all_rows(people: Population) -> Block | None:
    """In one block; None where there are more than that, or they are not here."""
    if not people.rows_are_here:
        return None
    block = next(iter(people.blocks()))
    return block if block.n_users == people.n_users else None


def look_at_ids(people: Population, stacklevel: int = 3) -> None:
    """A person under two ids is two people, and pays twice: her guarantee is then not the one that is stated."""
    who = "user_ids" if people.user_name is None else f"Column {people.user_name!r}"
    ids = [one for one in people.ids.tolist() if isinstance(one, str)] if people.ids.dtype.kind not in "iu" else []
    without_blanks = {one.strip() for one in ids}
    if len(without_blanks) < len(ids):
        raise InputError(
            f"{who}: {len(ids) - len(without_blanks):,} ids differ from another one by nothing but blanks before or after it. "
            "Each would be a person of her own, and somebody under two ids has half of the guarantee. Take the blanks away."
        )
    alike = len(ids) - len({one.casefold() for one in without_blanks})
    if alike:
        warnings.warn(
            f"{who}: {alike:,} ids differ from another one by capital letters alone. They count as people of their own; if they "
            "are not, somebody under two ids has half of the guarantee. Write them in one way.",
            PrivacyWarning,
            stacklevel=stacklevel,
        )
    numbers = [number for one in people.ids.tolist() if (number := _as_a_whole_number(one)) is not None] if ids else []
    twice = len(numbers) - len(set(numbers))
    if twice:
        warnings.warn(
            f"{who}: {twice:,} ids are the same whole number as another one, written otherwise, as 12 and 12.0 or 7 and 007 are. "
            "They count as people of their own; if they are not, somebody under two ids has half of the guarantee. Write them in "
            "one way.",
            PrivacyWarning,
            stacklevel=stacklevel,
        )
    shortened = sum(SHORTENED.fullmatch(one) is not None for one in without_blanks)
    if shortened:
        warnings.warn(
            f"{who}: {shortened:,} ids are written like 1.23E+15, as spreadsheets shorten long numbers, so that several people "
            "may have become one. Export the column as text.",
            TableWarning,
            stacklevel=stacklevel,
        )
    rows = getattr(people, "n_rows", math.nan)
    nearly = people.n_users >= PEOPLE_WITH_SEVERAL_ROWS and rows < FEWEST_ROWS_EACH * people.n_users
    if nearly or (people.n_users >= FEWEST_TO_JUDGE and rows == people.n_users):
        everybody = "everybody" if rows == people.n_users else "nearly everybody"
        warnings.warn(
            f"{who}: {everybody} has exactly one row. Does it say whose row it is? If it numbers rows, the guarantee is for a "
            "row, not for a person with all of hers.",
            PrivacyWarning,
            stacklevel=stacklevel,
        )


def _as_a_whole_number(one: Any) -> str | None:
    """An id of text or a number without what spreadsheets and data frames add or take: zeros before, ``.0`` after; else None.

    >>> [_as_a_whole_number(one) for one in ("12", "12.0", "0012", 12, "+12", "12.5", "1e3", "a7", "0", "00.0")]
    ['12', '12', '12', '12', '12', None, None, None, '0', '0']
    """
    found = WHOLE_NUMBER.fullmatch(str(one).strip())
    return None if found is None else (found[1] or "") + found[2]


def label_in_words(people: Population) -> str:
    return "y" if people.label_name is None else f"Column {people.label_name!r}, the label,"


def constant_label(people: Population, block: Block) -> str:
    """What to say of labels that are all the same; nothing where they are not."""
    if block.y.min() != block.y.max():
        return ""
    label = None if people.schema is None else people.schema.label
    clipped = "" if label is None or label.range is None else ", once it is clipped to its range"
    right = "Is it the right column?" if not clipped else "Are column and range right?"
    return f"{label_in_words(people)} is the same in every row{clipped}: there is nothing to learn. {right}"


def look_at_columns(people: Population, block: Block, stacklevel: int = 3) -> None:
    """All that a column can be which is hardly meant."""
    look_for_constants(people, block, stacklevel + 1)
    if people.sparse:
        return
    names: Sequence[Any] = people.feature_names or range(block.X.shape[1])
    again = [name for name, column in zip(names, block.X.T, strict=True) if np.array_equal(column, block.y)]
    if again and block.y.min() != block.y.max():
        warnings.warn(
            f"{', '.join(map(repr, again))}: the label again, row by row. A model that is given the answer learns nothing else; "
            "leave it out.",
            TableWarning,
            stacklevel=stacklevel,
        )
    if people.schema is not None:  # which has looked at cells as they are written
        return
    seen = {name: Codes.of(column) for name, column in zip(names, block.X.T, strict=True)}
    label = Codes.of(block.y)
    told = codes_in_words({name: codes.far() for name, codes in seen.items()}, people.label_name or "y", label.far())
    if told:
        warnings.warn(told, TableWarning, stacklevel=stacklevel)


def look_for_constants(people: Population, block: Block, stacklevel: int = 3) -> None:
    """Columns that say nothing, which a range or a list of values that misses all rows makes of any column."""
    if people.sparse:
        return
    same = dict(zip(people.feature_names or (), block.X.min(axis=0) == block.X.max(axis=0), strict=False))
    columns: dict[str, Any] = {name: (name,) for name in same}
    if people.schema is not None:
        columns = {column.name: column.feature_names for column in people.schema.features if column.values != UNKNOWN}
    silent = [column for column, names in columns.items() if np.all([same[name] for name in names])]
    if not silent:
        return
    why = (
        "Are its range and its values in the schema right?"
        if people.schema is not None
        else "Such a column only adds noise."
    )
    warnings.warn(
        f"the same in every row: {', '.join(map(repr, silent[:10]))}{' …' if len(silent) > 10 else ''}. {why}",
        TableWarning,
        stacklevel=stacklevel,
    )
