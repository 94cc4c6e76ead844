"""Heads of many people in one Parquet file: private, unlike the billboard, and of no use without it."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from commonground.data.features import check_features
from commonground.data.tables import write_table
from commonground.data.users import Users
from commonground.errors import BillboardError, InputError, UnknownUserError
from commonground.heads.table import Doubts, HeadTable, OwnModels

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard

_FINGERPRINT = b"commonground.billboard"  # of the billboard that the heads belong to
_CHECKSUM = b"commonground.sha256"  # of the heads themselves


@dataclass(frozen=True, repr=False)
class Heads:
    """Everybody's own coefficients on one billboard's embedding."""

    ids: pa.Array
    table: HeadTable  # in the order of ids

    def __repr__(self) -> str:
        return "<Heads: private>"

    @classmethod
    def fit(cls, board: "Billboard", users: Users) -> "Heads":
        """A head for each person from her own rows."""
        return cls(pa.array(list(users.ids)), HeadTable.fit(board, users))

    def predict(self, board: "Billboard", X: np.ndarray, ids: list[Any], strict: bool) -> tuple[np.ndarray, np.ndarray]:
        """Predictions, and which rows were answered by their person's own head."""
        at = self._places(ids)
        known = at >= 0
        if strict and not known.all():
            raise UnknownUserError(
                f"user {ids[int(np.argmin(known))]!r} has no head ({int((~known).sum())} rows of unknown people). Add her "
                "rows to `personalize`, or leave --strict out for the shared prediction."
            )
        X = check_features(X, board.n_features, board.feature_names)
        return self.table.predict(board, X, at), known

    def probabilities(self, board: "Billboard", X: np.ndarray, ids: list[Any]) -> np.ndarray:
        """(rows, classes) of each row's classes."""
        X = check_features(X, board.n_features, board.feature_names)
        return self.table.probabilities(board, X, self._places(ids))

    def std(self, board: "Billboard", X: np.ndarray, ids: list[Any]) -> np.ndarray:
        """The standard deviation of a fresh label of each row about its prediction."""
        return self.table.std(board, check_features(X, board.n_features, board.feature_names), self._places(ids))

    def _places(self, ids: list[Any]) -> np.ndarray:
        place = {user: at for at, user in enumerate(self.ids.to_pylist())}
        return np.fromiter((place.get(user, -1) for user in ids), dtype=np.int64, count=len(ids))

    def save(self, path: str | os.PathLike[str], board: "Billboard") -> Path:
        """Write one row per person; only the owner of the file may read it."""
        heads, k = self.table, self.table.weights.shape[1]
        # Not lists of a fixed size, which Arrow refuses where that is 0: on the billboard of a single model nobody has weights.
        starts = pa.array(k * np.arange(len(self.ids) + 1))
        weights = pa.LargeListArray.from_arrays(starts, pa.array(heads.weights.ravel()))
        alone = np.full(len(self.ids), None, dtype=object)
        for person, coef in zip(heads.own.people, heads.own.coef, strict=True):
            alone[person] = coef
        own = pa.array(alone, pa.list_(pa.float64()))
        columns = {"user": self.ids, "weights": weights, "intercept": heads.intercepts, "own": own}
        if heads.doubts is not None:
            size = heads.doubts.covariances.shape[1]
            starts = pa.array(size * np.arange(len(self.ids) + 1))
            columns["covariance"] = pa.LargeListArray.from_arrays(starts, pa.array(heads.doubts.covariances.ravel()))
            columns["noise"] = pa.array(heads.doubts.noises)
        table = pa.table(columns)
        table = table.replace_schema_metadata({_FINGERPRINT: board.fingerprint, _CHECKSUM: self._checksum()})
        if Path(path).suffix.lower() != ".parquet":
            raise InputError(
                f"Heads are written as Parquet; give a file name that ends in .parquet, not {str(path)!r}."
            )
        return write_table(table, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], board: "Billboard") -> "Heads":
        """Read heads and check that they belong to this billboard."""
        try:
            table = pq.read_table(path)
            weights = np.asarray(table.column("weights").combine_chunks().flatten())
            weights = weights.reshape(table.num_rows, len(weights) // max(table.num_rows, 1))
            alone = table.column("own").combine_chunks()
            own = OwnModels(
                np.flatnonzero(alone.is_valid()),
                np.asarray(alone.drop_null().flatten()).reshape(-1, board.n_features + 1),
            )
            doubts = None
            if "noise" in table.column_names:
                halves = np.asarray(table.column("covariance").combine_chunks().flatten())
                doubts = Doubts(
                    halves.reshape(table.num_rows, -1 if len(halves) else 0), np.asarray(table.column("noise"))
                )
            kept = HeadTable(weights, np.asarray(table.column("intercept")), own, doubts)
            heads = cls(table.column("user").combine_chunks(), kept)
            checksum, metadata = heads._checksum(), table.schema.metadata or {}
        except (OSError, KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as problem:
            raise InputError(
                f"{path} cannot be read as heads ({type(problem).__name__}). Give the file that `commonground personalize` wrote."
            ) from None
        if weights.shape[1] != board.head_size and len(weights):
            raise InputError(
                f"{path} has heads of {weights.shape[1]} numbers, and this billboard's have {board.head_size}."
            )
        if metadata.get(_FINGERPRINT) != board.fingerprint.encode():
            raise BillboardError(
                f"the heads in {path} were fitted on another billboard. Run `personalize` again on this one."
            )
        if metadata.get(_CHECKSUM) != checksum.encode():
            raise BillboardError(
                f"{path} was changed after it was written. Run `personalize` again, or get a fresh copy."
            )
        return heads

    def _checksum(self) -> str:
        """A head that lost a bit, or went to another person, must not be used."""
        heads, everything = self.table, hashlib.sha256(repr(self.ids.to_pylist()).encode("utf-8", "surrogatepass"))
        everything.update(repr(heads.shape).encode() + heads.weights.tobytes() + heads.intercepts.tobytes())
        everything.update(heads.own.people.tobytes() + heads.own.coef.tobytes())
        if heads.doubts is not None:
            everything.update(heads.doubts.covariances.tobytes() + heads.doubts.noises.tobytes())
        return everything.hexdigest()
