"""Numbers of many people in a few rows: compressed pieces of columns, each named by its hash.

The chain names the pieces that belong to an event, so a piece that was changed or lost is noticed when it is read. Pieces that
are alike, such as the same shares in every week's fit, are kept once.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from sqlalchemy import Connection, insert, select

from commonground.ledger import schema
from commonground.ledger.chain import doubt

PEOPLE_IN_PIECE = 2**20  # so that a piece stays far below the gigabyte that databases allow


def store(connection: Connection, population: str, column: np.ndarray, sizes: Sequence[int]) -> list[str]:
    """Write a column in pieces of these sizes, in the caller's transaction; the hashes that an event names."""
    ends = np.cumsum(sizes).tolist()
    return [_store(connection, population, column[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _store(connection: Connection, population: str, piece: np.ndarray) -> str:
    import pyarrow as pa

    planes = np.ascontiguousarray(piece).view(np.uint8).reshape(len(piece), -1).T  # first bytes of all, second bytes, …
    data = pa.compress(np.ascontiguousarray(planes).tobytes(), codec="zstd", asbytes=True)
    hash_, table = hashlib.sha256(data).hexdigest(), schema.columns
    there = select(table.c.hash).where(table.c.population == population, table.c.hash == hash_)
    if connection.execute(there).first() is None:
        connection.execute(insert(table).values(population=population, hash=hash_, data=data))
    return hash_


def load(
    connection: Connection, population: str, hashes: Iterable[str], sizes: Sequence[int], dtype: str
) -> np.ndarray:
    """A column from its pieces, each held against its hash."""
    pieces = [load_piece(connection, population, hash_, size, dtype) for hash_, size in zip(hashes, sizes, strict=True)]
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=dtype)


def load_piece(connection: Connection, population: str, hash_: str, size: int, dtype: str) -> np.ndarray:
    import pyarrow as pa

    table = schema.columns
    data = connection.execute(
        select(table.c.data).where(table.c.population == population, table.c.hash == hash_)
    ).scalar()
    if not isinstance(data, bytes) or hashlib.sha256(data).hexdigest() != hash_:
        raise doubt(population, f"the numbers of people that its events name by {hash_[:12]}… are missing or changed")
    width = np.dtype(dtype).itemsize
    try:
        planes = pa.decompress(data, decompressed_size=size * width, codec="zstd", asbytes=True)
    except (OSError, pa.ArrowException):
        raise doubt(
            population, f"the numbers of people named {hash_[:12]}… are not as many as its events say"
        ) from None
    return np.frombuffer(planes, dtype=np.uint8).reshape(width, size).T.copy().view(dtype).reshape(size)
