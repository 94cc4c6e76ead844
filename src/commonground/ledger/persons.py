"""What the chain says of personal accounts: whose there are, which fits they paid for, where the numbers are kept.

The numbers themselves are columns (``columns.py``), which events name by their hashes; here nothing grows with people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from commonground.accounting.costs import is_count
from commonground.ledger.shares import STEPS


@dataclass(frozen=True)
class Batch:
    """People who came together, in the order of their digests."""

    n: int
    in_piece: int
    digests: tuple[str, ...]  # hashes of pieces
    limits: tuple[str, ...]

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Batch":
        batch = cls(document["people"], document["in_piece"], _hashes(document["digests"]), _hashes(document["limits"]))
        if not (is_count(batch.n) and is_count(batch.in_piece)):
            raise ValueError("not a number of people")
        if not len(batch.digests) == len(batch.limits) == len(batch.sizes):
            raise ValueError("pieces of people are missing")
        return batch

    @property
    def sizes(self) -> list[int]:
        """People in each piece."""
        return piece_sizes(self.n, self.in_piece)


@dataclass(frozen=True)
class PersonalFit:
    """A fit that people paid for by shares: q steps cost q² ``cost`` / 2⁴⁰ (``shares.py``)."""

    id: str
    purpose: str
    at: str
    room: int  # steps that she pays for and does not count
    taking_part: int
    pieces: tuple[str, ...]  # everybody's steps, in the order of the accounts; who came later has none
    cost: Fraction  # μ² booked; once settled, charged
    open: bool = True

    @classmethod
    def from_json(cls, event: Mapping[str, Any], cost: Fraction) -> "PersonalFit":
        shares = event["shares"]
        if not (is_count(shares["room"]) and shares["room"] < STEPS and is_count(shares["taking_part"])):
            raise ValueError("not shares of people")
        return cls(
            event["reservation"],
            event["purpose"],
            event["at"],
            shares["room"],
            shares["taking_part"],
            _hashes(shares["pieces"]),
            cost,
        )


@dataclass(frozen=True)
class Persons:
    """All personal accounts of a population."""

    salt: str  # hexadecimal
    batches: tuple[Batch, ...]
    fits: tuple[PersonalFit, ...] = ()
    gone: tuple[tuple[int, str], ...] = ()  # (number, piece with their positions) of those who take no part any more

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Persons":
        if len(bytes.fromhex(document["salt"])) != 16:
            raise ValueError("not a salt")
        return cls(document["salt"], (Batch.from_json(document),))

    @property
    def n(self) -> int:
        return sum(batch.n for batch in self.batches)

    @property
    def sizes(self) -> list[int]:
        return [size for batch in self.batches for size in batch.sizes]

    def with_batch(self, batch: Batch) -> "Persons":
        return replace(self, batches=(*self.batches, batch))

    def without(self, number: int, piece: str) -> "Persons":
        if not is_count(number) or number > self.n:
            raise ValueError("not a number of people")
        return replace(self, gone=(*self.gone, (number, _hashes([piece])[0])))

    def with_fit(self, fit: PersonalFit) -> "Persons":
        if len(fit.pieces) != len(self.sizes) or fit.taking_part > self.n:
            raise ValueError("pieces of shares are missing")
        return replace(self, fits=(*self.fits, fit))

    def settled(self, fit: str, cost: Fraction) -> "Persons":
        """After a fit has given back what it did not charge."""
        return replace(
            self, fits=tuple(replace(one, cost=cost, open=False) if one.id == fit else one for one in self.fits)
        )


def piece_sizes(n: int, in_piece: int) -> list[int]:
    """
    >>> piece_sizes(5, 2)
    [2, 2, 1]
    """
    return [min(in_piece, n - start) for start in range(0, n, in_piece)]


def _hashes(document: Any) -> tuple[str, ...]:
    if not isinstance(document, list) or not all(isinstance(one, str) and len(one) == 64 for one in document):
        raise ValueError("not hashes")
    return tuple(document)
