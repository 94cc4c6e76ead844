"""How `Users` are made: of arrays, of a table of any kind, of ratings of items. Everything given is checked here."""

import errno
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from commonground.data.arrays import as_numbers, one_array, two_dimensional
from commonground.data.columns import CellError, require_finite, require_unique, text_names
from commonground.data.first_look import look_at_table
from commonground.data.ids import as_id_batches, find_people, row_places
from commonground.data.items import SparseRows, as_csr, item_names, one_hot
from commonground.data.problems import problems_error, problems_of, refuse_ids_among, tells_more, warn_of_ids_in
from commonground.data.schema import Schema
from commonground.data.sources import PathLike
from commonground.data.stores import MemoryRows, Scratch, Table, load_rows
from commonground.data.tables import column_names, comes_from, open_table, read_rows
from commonground.data.unencoded import Unencoded, refuse_beside_a_schema
from commonground.errors import InputError, TableWarning

if TYPE_CHECKING:
    from commonground.data.users import Users

# Who may read rows in place of this process: its name, an extra of the package, and the module whose ``users_of_files`` opens
# tables. These modules know this room, so they are looked up by name.
ENGINES = {"ray": "commonground.engines.ray"}


def users_of_arrays(
    users_class: "type[Users]",
    X: Any,
    y: Any,
    user_ids: Any,
    feature_names: Sequence[str] | None,
    schema: Schema | None,
) -> "Users":
    """See `Users.from_arrays`."""
    if schema is not None:
        if schema.undiscovered or feature_names is not None:
            raise InputError("a schema names the features itself, and for arrays all values of categories.")
        encoded = schema.encode(X), schema.encode_labels(y)
        users = users_class.from_arrays(*encoded, user_ids, feature_names=schema.feature_names)
        users.schema, users.label_name, users.user_name = schema, schema.label.name, schema.person.name
        return users
    matrix = two_dimensional(X)
    columns = text_names(X) if feature_names is None else None
    if columns is not None:
        feature_names = columns
    if feature_names is not None:
        require_unique(feature_names, "feature_names")
        if len(feature_names) != matrix.shape[1]:
            raise InputError(f"X has {matrix.shape[1]} columns but feature_names has {len(feature_names)} names.")
    names = list(range(matrix.shape[1])) if feature_names is None else feature_names
    is_sparse, n_rows = sparse.issparse(matrix), matrix.shape[0]
    matrix = as_csr(matrix, names) if is_sparse else as_numbers(matrix, names)
    _warn_of_other_order(X, {"y": y, "user_ids": user_ids})
    label = one_array(y, "y holds a list among its labels. Give one number per row.")
    if label.ndim != 1:
        raise InputError(f"y must be one-dimensional, one label per row, got shape {label.shape}. Use y.ravel().")
    id_batches, keys, n_ids = as_id_batches(user_ids, "user_ids")
    if not n_rows == len(label) == n_ids:
        raise InputError(f"X has {n_rows} rows, y has {len(label)} and user_ids has {n_ids}. Give one of each per row.")
    with np.errstate(over="ignore"):  # a label too large for float32 becomes inf, and is reported below
        label = as_numbers(label[:, None], ["y"], is_label=True)[:, 0].astype(matrix.dtype, copy=False)
    if not is_sparse:
        require_finite(matrix, names)
    require_finite(label[:, None], ["y"])
    people = find_people(id_batches, "user_ids", keys)
    if not people.grouped:
        order = np.argsort(np.concatenate(list(row_places(people, id_batches, "user_ids"))))
        matrix, label = matrix[order], label[order]
    kept = SparseRows if is_sparse else MemoryRows
    users = users_class(people, kept(matrix, np.ascontiguousarray(label)), feature_names=feature_names)
    if columns is not None:
        warn_of_ids_in(X)
        look_at_table(users)
    return users


def _warn_of_other_order(X: Any, others: Mapping[str, Any]) -> None:
    """Rows are matched by place; pandas' index tells where they were meant to be matched otherwise."""
    if not comes_from(X, "pandas"):
        return
    index = X.index
    for name, other in others.items():
        if not comes_from(other, "pandas") or len(other) != len(index) or other.index.equals(index):
            continue
        if index.is_unique and index.sort_values().equals(other.index.sort_values()):
            warnings.warn(
                f"X and {name} have the same index in another order, and rows are matched by their places, not by it. If it says "
                f"which row is which, give {name}.loc[X.index].",
                TableWarning,
                stacklevel=4,
            )


def users_of_table(
    users_class: "type[Users]",
    source: Any,
    user: str,
    label: str,
    features: Sequence[str] | None,
    *,
    item: str | None,
    items: Any,
    budget: str | None,
    schema: Schema | None,
    max_memory: int,
    scratch: PathLike | None,
    engine: str,
    address: str | None,
    verbose: bool,
) -> "Users":
    """See `Users.from_table`."""
    if schema is not None:
        if not isinstance(schema, Schema):
            raise InputError(
                f"schema= takes a Schema, got {type(schema).__name__}. From a file: Schema.read('schema.toml')."
            )
        refuse_beside_a_schema(schema, engine, item, items, features, budget)
        users = Unencoded.open(users_class, source, schema, max_memory, Scratch(scratch)).encoded_if_complete()
        return _with_budgets(users, source, schema.person.name, budget)
    if item is not None or items is not None:
        if engine != "local":
            raise InputError("item= is read on this machine only; leave out engine=.")
        return _users_of_items(users_class, source, user, label, features, item, items, budget)
    if engine != "local" and engine not in ENGINES:
        raise InputError(f"engine must be {' or '.join(map(repr, ('local', *ENGINES)))}, got {engine!r}.")
    if engine == "local" and address is not None:
        raise InputError(f"address={address!r} is a Ray cluster's. Pass engine='ray' with it.")
    if max_memory < 1:
        raise InputError(f"max_memory must be a positive number of bytes, got {max_memory!r}.")
    if engine in ENGINES:
        try:
            reader = import_module(ENGINES[engine])
        except ModuleNotFoundError as missing:
            raise InputError(
                f"engine={engine!r} needs {missing.name}: pip install 'commonground[{engine}]', here and on all nodes."
            ) from None
        kept = {"budget": budget, "max_memory": max_memory, "scratch": scratch}
        return reader.users_of_files(source, user, label, features, **kept, address=address, verbose=verbose)
    folder, all_others = Scratch(scratch), features is None
    try:
        if budget is not None and features is None:
            features = [name for name in column_names(source) if name not in (user, label, budget)]
        table = open_table(source, user, label, features, max_memory, folder)
        if all_others:
            refuse_ids_among(table.columns.features, table, source)
        users = users_of_opened(users_class, table, max_memory, folder)
    except BaseException as error:
        folder.remove()
        if isinstance(error, CellError) and tells_more(lines := problems_of(source, user, label, features)):
            raise problems_error(lines) from None
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError("The scratch folder is full. Pass scratch= a folder with more room.") from error
        raise
    if all_others and not users.streamed:
        look_at_table(users)
    return _with_budgets(users, source, user, budget)


def users_of_opened(users_class: "type[Users]", table: Table, max_memory: int, scratch: Scratch) -> "Users":
    """Group the rows of an opened table by person, every value checked; what needs more than ``max_memory`` stays on disk."""
    columns, name = table.columns, f"Column {table.columns.user!r}"
    id_batches, keys, _ = as_id_batches(table.user_ids, name)
    people = find_people(id_batches, name, keys)
    places = None if people.grouped else row_places(people, id_batches, name)
    rows = load_rows(table, places, max_memory, scratch)
    return users_class(people, rows, feature_names=columns.features, label_name=columns.label, user_name=columns.user)


def one_value_each(users: "Users", ids: Any, values: np.ndarray, column: str) -> np.ndarray:
    """(people,) from (rows, 1) of a column that says the same in all rows of a person, and from each row's person."""
    person = users.index_of(ids)
    of_person = np.full(users.n_users, np.nan)
    of_person[person] = values[:, 0]
    if not np.array_equal(of_person[person], values[:, 0]):
        several = users.ids.tolist()[int(person[np.argmax(of_person[person] != values[:, 0])])]
        raise InputError(f"Person {several!r} has several values in column {column!r}. Give her the same in all rows.")
    return of_person


def _with_budgets(users: "Users", source: Any, user: str, budget: str | None) -> "Users":
    """The same people, with their own budgets from a column of their table, where one is named."""
    if budget is not None:
        users.budgets = one_value_each(users, *read_rows(source, user, [budget]), budget)
    return users


def _users_of_items(
    users_class: "type[Users]",
    source: Any,
    user: str,
    label: str,
    features: Sequence[str] | None,
    item: str | None,
    items: Any,
    budget: str | None,
) -> "Users":
    if item is None or features is not None:
        raise InputError("items= goes with item=, the column of item ids, which is then the only feature.")
    names = item_names(items)
    ids, labels = read_rows(source, user, [label])
    item_ids = read_rows(source, item, [])[0]
    users = users_class.from_arrays(one_hot(item_ids, names), labels[:, 0], ids, feature_names=names)
    users.label_name, users.user_name = label, user
    return _with_budgets(users, source, user, budget)
