"""A table of a person's own, as the commands read it: by its schema where there is one."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from commonground.billboard.board import Billboard
from commonground.cli.options import given, lines_in, pair, split
from commonground.data.schema import Schema
from commonground.data.schema_column import Column
from commonground.data.tables import column_names
from commonground.data.users import Users
from commonground.errors import InputError, PrivacyWarning, TableWarning


def people_of_table(
    table: Any,
    *,
    user: str | None,
    label: str | None,
    schema: Path | None = None,
    label_range: str | None = None,
    features: str | None = None,
    item: str | None = None,
    items: Path | None = None,
    budget: str | None = None,
    **how: Any,
) -> Users:
    """The people of a table to train on."""
    if schema is not None:
        of_columns = {"--user": user, "--label": label, "--features": features, "--item": item, "--items": items}
        wrong = given({**of_columns, "--label-range": label_range})
        if wrong:
            raise InputError(f"--schema says what every column is; leave out {', '.join(wrong)}.")
        return Users.from_table(table, schema=Schema.read(schema), budget=budget, **how)
    user, label, chosen = user or "user_id", label or "y", split(features)
    with warnings.catch_warnings():  # commands that train look themselves, at tables with a schema, too
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", TableWarning)
        users = Users.from_table(
            table, user=user, label=label, features=chosen, item=item, items=lines_in(items), budget=budget, **how
        )
    if label_range is None:
        return users
    if item is not None:
        raise InputError("--label-range does not go with --item yet. Leave it out, or give a --schema with a category.")
    columns = [Column(user, "person"), Column(label, "label", range=pair(label_range, "--label-range"))]
    names = [name for name in column_names(table) if name not in (user, label, budget)] if chosen is None else chosen
    return Users.from_table(table, schema=Schema((*columns, *map(Column, names))), budget=budget, **how)


def schema_of(board: Billboard, user: str | None, label: str | None) -> Schema | None:
    """The board's schema, for a table in which person and label may have other names."""
    if board.schema is None:
        return None
    names = {board.schema.person.name: user, board.schema.label.name: label}
    return Schema(tuple(replace(column, name=names.get(column.name) or column.name) for column in board.schema.columns))


def feature_names(board: Billboard) -> list[str]:
    if board.feature_names is None:
        raise InputError(
            "this billboard was trained on arrays without column names; use it from Python, not on tables."
        )
    return list(board.feature_names)


def newcomers_in(board: Billboard, table: Any, user: str | None, label: str | None, item: str | None = None) -> Users:
    """The people of a table, as this board's features."""
    schema = schema_of(board, user, label)
    if schema is not None:
        return Users.from_table(table, schema=schema)
    if board.classes is not None:
        raise InputError(
            "this board of several classes has no schema, so labels of a table cannot be told. Use it from Python "
            "(board.personalize), or train with --schema, whose label is a category with a list of values."
        )
    names = feature_names(board)
    return Users.from_table(
        table,
        user=user or "user_id",
        label=label or board.statement.label or "y",
        features=names if item is None else None,
        item=item,
        items=None if item is None else names,
    )
