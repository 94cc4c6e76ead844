"""Who there is: one pass over the ids finds the people, a second one gives every row its place.

Ids may be numbers, text, bytes, UUIDs, tuples or a mixture. Memory grows with the people, not with the rows.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commonground.data.tables import comes_from
from commonground.errors import InputError

ID_BATCH_ROWS = 2**16

IdBatches = Callable[[int], Iterator[pa.Array]]  # rows a batch → the id column from its start


@dataclass(frozen=True, repr=False)
class People:
    """Who there is. Person p owns rows offsets[p]:offsets[p + 1] once rows are grouped."""

    arrow_ids: pa.Array
    offsets: np.ndarray  # (people + 1,) int64
    grouped: bool  # each person's rows are adjacent already
    id_type: pa.DataType
    keys: np.ndarray | None  # ids that Arrow has no type for; arrow_ids are then positions in keys

    def __repr__(self) -> str:
        return "<People: private>"

    def ids(self) -> np.ndarray:
        if self.keys is not None:
            return self.keys[self.arrow_ids.to_numpy()]
        if isinstance(self.id_type, pa.UuidType):
            return object_array([uuid.UUID(bytes=value) for value in self.arrow_ids.to_pylist()])
        return self.arrow_ids.to_numpy(zero_copy_only=False)


def object_array(values: Sequence[object]) -> np.ndarray:
    """One-dimensional even when the values are tuples of one length."""
    return np.fromiter(values, dtype=object, count=len(values))


def as_id_batches(user_ids: Any, name: str) -> tuple[IdBatches, np.ndarray | None, int]:
    """Ids of any kind as Arrow batches; the keys they stand for, where Arrow has no type for them; and their number.

    A function is taken to give such batches already (a file); their number is then not known, and -1.
    """
    if callable(user_ids):
        return user_ids, None, -1
    keys = None
    column = as_arrow_ids(user_ids, name)
    if column is None:
        column, keys = encode_objects(list(user_ids), name)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]

    def batches(rows: int) -> Iterator[pa.Array]:
        return (chunk.slice(start, rows) for chunk in chunks for start in range(0, len(chunk), rows))

    return batches, keys, len(column)


def is_column(ids: object) -> bool:
    """Whether it can hold many ids, in order; text is one."""
    return hasattr(ids, "__len__") and not isinstance(ids, str | bytes)


def plain_list(ids: Any) -> list[Any]:
    """Ids as Python's own values: a list, or what has a way of its own to one."""
    for way in ("tolist", "to_pylist", "to_list"):  # NumPy and pandas, Arrow, polars
        if hasattr(ids, way):
            return list(getattr(ids, way)())
    return list(ids)


def as_arrow_ids(user_ids: Any, name: str) -> pa.Array | pa.ChunkedArray | None:
    """Ids as an Arrow column of one type, or None where only Python can tell who is who (tuples, mixed types, …)."""
    if isinstance(user_ids, pa.Array | pa.ChunkedArray):
        return user_ids
    if not is_column(user_ids):
        raise InputError(f"{name} must be a list, an array or a column with one id per row, got {user_ids!r:.80}.")
    if getattr(user_ids, "ndim", 1) != 1:
        raise InputError(
            f"{name} must be one-dimensional, one id per row, got shape {user_ids.shape}. Use ids.ravel()."
        )
    # NumPy and Arrow would merge 1 with "1", or "a" with b"a": of Python objects only one plain type may go their way.
    if str(getattr(user_ids, "dtype", "object")).lower() == "object":
        types = set(map(type, user_ids))
        if len(types) != 1 or not types <= {int, str, bytes}:
            return None
    try:
        return user_ids.to_arrow() if comes_from(user_ids, "polars") else pa.array(user_ids, from_pandas=True)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None


def encode_objects(values: list[Any], name: str) -> tuple[pa.Array, np.ndarray]:
    """Number ids by Python's own equality; sorted if they can be sorted, else in order of appearance."""
    number_of: dict[Any, int] = {}
    try:
        numbered = np.fromiter((number_of.setdefault(v, len(number_of)) for v in values), np.int64, count=len(values))
    except TypeError as error:
        raise InputError(
            f"{name} holds something that cannot be an id ({error}). Use numbers, text or tuples."
        ) from None
    keys = list(number_of)
    for number, key in enumerate(keys):
        if is_missing(key):
            raise missing_id(int(np.argmax(numbered == number)), name)
    try:
        order = sorted(range(len(keys)), key=keys.__getitem__)
    except TypeError:
        order = list(range(len(keys)))
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys))
    return pa.array(rank[numbered]), object_array([keys[number] for number in order])


def is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:
        return True  # pandas.NA cannot say


def missing_id(row: int, name: str) -> InputError:
    return InputError(
        f"{name} has no id in row {row} (counting from 0). Every row must belong to a person: drop such rows or give "
        "them an id. In CSV files an empty cell, NA, NaN and null count as missing."
    )


def in_the_type_of(known: pa.Array | pa.ChunkedArray, ids: Sequence[Any]) -> list[Any]:
    """Ids of another table, which may be text there and numbers here (``known``) or the other way round, as they are here.

    Only a number written as Python writes it is that number: "007" stays text, and is not found among numbers.
    """
    if pa.types.is_integer(known.type):
        return [int(one) if isinstance(one, str) and is_whole_number(one) else one for one in ids]
    if pa.types.is_string(known.type) or pa.types.is_large_string(known.type) or pa.types.is_string_view(known.type):
        return [str(one) if type(one) is int else one for one in ids]
    return list(ids)


def require_one_type(known: Iterable[Any], asked: Iterable[Any]) -> None:
    """Where nobody was found: 7 and "7" are different people, and whoever mixes them up should hear of it."""
    here, there = ({type(one).__name__ for one in ids} for ids in (known, asked))
    if there and not here & there:
        raise InputError(
            f"nobody is known by these ids, which are of type {' and '.join(sorted(there))}; in training they were of type "
            f"{' and '.join(sorted(here))}. Give them in the same type."
        )


def mostly_unknown(unknown: np.ndarray) -> str:
    share = unknown.mean()
    told = "Nearly all" if 0.995 <= share < 1.0 else f"{share:.0%}"
    return (
        f"{told} of the rows ({int(unknown.sum()):,} of {len(unknown):,}) belong to nobody who was in training, and get the "
        "shared prediction. Are these the same ids, written in the same way?"
    )


def is_whole_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20 and str(int(text)) == text


def no_rows() -> InputError:
    return InputError("There are no rows. Every person needs at least one.")


def canonical_ids(ids: pa.Array, first_row: int, name: str) -> pa.Array:
    """The same ids, none missing, in one of the types that Arrow can compare, hash and sort."""
    if isinstance(ids, pa.ExtensionArray):
        ids = ids.storage
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    kind = ids.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        ids = ids.cast(pa.large_string())  # large: the ids of all people together may pass 2 GiB
        try:
            ids.validate(full=True)
        except pa.ArrowInvalid:
            raise InputError(f"{name} holds text that is not UTF-8. Write the table again in that encoding.") from None
    elif pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        ids = ids.cast(pa.large_binary())
    elif pa.types.is_floating(kind):
        ids = pc.add(ids.cast(pa.float64()), 0.0)  # makes 0.0 of -0.0, which Arrow would count as another person
    elif not pa.types.is_integer(kind) and kind not in (pa.bool_(), pa.large_binary(), pa.null()):
        raise InputError(f"{name} has type {kind}, which cannot name people. Turn it into text or integers first.")
    missing = ids.is_null(nan_is_null=True)
    if pc.any(missing).as_py():
        raise missing_id(first_row + missing.index(True).as_py(), name)
    return ids


def find_people(id_batches: IdBatches, name: str, keys: np.ndarray | None) -> People:
    """One pass over the ids, in memory that grows with the people and not with the rows.

    Where ids only ever rise, nobody can come back later: they are kept as they are, and nothing is hashed.
    """
    runs: list[pa.Array] = []  # one id for each run of equal ids
    lengths: list[np.ndarray] = []
    n_rows = n_runs = held = 0
    ascending = True
    merge_above = ID_BATCH_ROWS
    previous, id_type = None, pa.null()
    for batch in id_batches(ID_BATCH_ROWS):
        id_type = batch.type
        ids = canonical_ids(batch, n_rows, name)
        differs = pc.not_equal(ids[1:], ids[:-1])
        starts = run_starts(differs.to_numpy(zero_copy_only=False))
        run_ids, run_lengths = pa.concat_arrays([ids[:1], ids[1:].filter(differs)]), np.diff(starts, append=len(ids))
        goes_on = n_rows > 0 and ids[0].as_py() == previous
        n_runs += len(starts) - int(goes_on)
        if ascending:
            if goes_on:
                lengths[-1][-1] += run_lengths[0]
                run_ids, run_lengths = run_ids[1:], run_lengths[1:]
            ascending = rises(run_ids, previous)
        n_rows += len(ids)
        previous = ids[-1].as_py()
        if len(run_ids):
            runs.append(run_ids)
            lengths.append(run_lengths)
        held += len(run_ids)
        if held > merge_above and not ascending:
            merged, counts = merge_runs(runs, lengths)
            runs, lengths, held = [merged], [counts], len(merged)
            pa.default_memory_pool().release_unused()  # it would keep the many small arrays for a next time
            merge_above = max(ID_BATCH_ROWS, 2 * held)
    if n_rows == 0:
        raise no_rows()
    ids, counts = (pa.concat_arrays(runs), np.concatenate(lengths)) if ascending else merge_runs(runs, lengths)
    grouped = n_runs == len(ids)
    if not grouped:
        order = pc.array_sort_indices(ids)
        ids, counts = ids.take(order), counts[order.to_numpy()]
    return People(ids, np.concatenate([[0], np.cumsum(counts)]), grouped, id_type, keys)


def rises(ids: pa.Array, previous: Any) -> bool:
    """Whether each id is larger than the one before, ``previous`` (None: there is none) being before the first."""
    falls = len(ids) > 0 and previous is not None and not ids[0].as_py() > previous
    return not falls and bool(pc.all(pc.greater(ids[1:], ids[:-1])).as_py())


def run_starts(differs_from_last: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.flatnonzero(differs_from_last) + 1])


def merge_runs(runs: list[pa.Array], lengths: list[np.ndarray]) -> tuple[pa.Array, np.ndarray]:
    """One id and row count for each person, in order of first appearance."""
    encoded = pa.concat_arrays(runs).dictionary_encode()
    counts = np.bincount(encoded.indices.to_numpy(), weights=np.concatenate(lengths))  # exact up to 2^53 rows
    return encoded.dictionary, counts.astype(np.int64)


def row_places(people: People, id_batches: IdBatches, name: str) -> Iterator[np.ndarray]:
    """Batch by batch, the row number of each row once people are grouped; one person's rows keep their order."""
    next_row = people.offsets[:-1].copy()
    # Arrow hashes all people anew for each batch, so a batch should have about as many rows as there are people.
    for batch in id_batches(int(np.clip(len(next_row), 2**16, 2**20))):
        person = pc.index_in(canonical_ids(batch, 0, name), value_set=people.arrow_ids).to_numpy()
        order = np.argsort(person, kind="stable")
        person = person[order]
        starts = run_starts(person[1:] != person[:-1])
        lengths = np.diff(starts, append=len(person))
        places = np.empty(len(person), dtype=np.int64)
        places[order] = next_row[person] + np.arange(len(person)) - np.repeat(starts, lengths)
        next_row[person[starts]] += lengths
        yield places
