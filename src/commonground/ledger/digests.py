"""Who is who in a personal ledger: ids as salted digests of 128 bits, and where each stands.

Ids themselves are not stored. That is no anonymity: whoever has the database and a list of possible ids finds them again.
"""

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.errors import InputError

_AT_ONCE = 2**18  # ids, so that their Python objects do not pile up


def listed(ids: Iterable[Any]) -> np.ndarray | list[Any]:
    """An array as it is, anything else as a list."""
    return ids if isinstance(ids, np.ndarray) else list(ids)


def digests(ids: Iterable[Any], salt: bytes) -> np.ndarray:
    """(n, 2) uint64: equal for ids that are equal in Python, so 7 and "7" are two people, 7 and 7.0 one."""
    ids = listed(ids)
    cut = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
    parts = [_digests(part.tolist() if isinstance(part, np.ndarray) else part, salt) for part in cut]
    return np.concatenate(parts) if parts else np.empty((0, 2), dtype=np.uint64)


def fingerprint(ids: np.ndarray) -> tuple[str, int, bytes]:
    """Of numbers or text of one type: the same only for the same ids in the same order. Much faster than their digests."""
    return str(ids.dtype), len(ids), hashlib.sha256(np.ascontiguousarray(ids).data).digest()


def _digests(ids: Sequence[Any], salt: bytes) -> np.ndarray:
    blake2b, kinds = hashlib.blake2b, set(map(type, ids))
    if kinds == {int}:  # as _spelled does, without a call for each of millions
        text = b"".join([blake2b(b"i%d" % one, digest_size=16, salt=salt).digest() for one in ids])
    elif kinds == {str}:
        text = b"".join(
            [blake2b(b"s" + one.encode("utf-8", "surrogatepass"), digest_size=16, salt=salt).digest() for one in ids]
        )
    else:
        text = b"".join([blake2b(_spelled(one), digest_size=16, salt=salt).digest() for one in ids])
    return np.frombuffer(text, dtype=">u8").reshape(-1, 2).astype(np.uint64)


def _spelled(one: Any) -> bytes:
    """One spelling for each id, no two alike."""
    match one:
        case str():
            return b"s" + str(one).encode("utf-8", "surrogatepass")
        case int() | np.integer():
            return b"i%d" % int(one)
        case float() | np.floating():
            number = float(one)
            return b"i%d" % int(number) if number.is_integer() else b"f" + repr(number).encode()
        case bytes():
            return b"b" + bytes(one)
        case uuid.UUID():
            return b"u" + one.bytes
        case tuple():
            return b"t" + b"".join(b"%d:" % len(part) + part for part in map(_spelled, one))
    raise InputError(
        f"a personal ledger knows people by text, numbers, bytes, UUIDs or tuples of them, got an id of type "
        f"{type(one).__name__}."
    )


@dataclass(frozen=True, eq=False)
class Directory:
    """Digests in order, and the position in the accounts that each stands for."""

    high: np.ndarray  # (n,) rising
    low: np.ndarray  # (n,) rising where high is the same
    position: np.ndarray  # (n,) int64

    @classmethod
    def of(cls, found: np.ndarray) -> "Directory":
        """Of digests in the order of the accounts."""
        order = np.lexsort((found[:, 1], found[:, 0]))
        return cls(found[order, 0], found[order, 1], order)

    def find(self, asked: np.ndarray) -> np.ndarray:
        """(n,) positions of those asked for, -1 where there is no account."""
        order = np.argsort(asked[:, 0])  # neighbours are looked up one after the other: far fewer cache misses
        place = np.empty(len(asked), dtype=np.int64)
        place[order] = np.searchsorted(self.high, asked[order, 0])
        unresolved = np.arange(len(asked))
        answer = np.full(len(asked), -1, dtype=np.int64)
        while len(unresolved):  # once, unless two people share 64 bits
            at = place[unresolved]
            inside = at < len(self.high)
            unresolved, at = unresolved[inside], at[inside]
            same = self.high[at] == asked[unresolved, 0]
            unresolved, at = unresolved[same], at[same]
            found = self.low[at] == asked[unresolved, 1]
            answer[unresolved[found]] = self.position[at[found]]
            unresolved = unresolved[~found]
            place[unresolved] += 1
        return answer

    def repeated(self) -> int:
        """How many digests occur more than once."""
        return int(((self.high[1:] == self.high[:-1]) & (self.low[1:] == self.low[:-1])).sum())
