"""The billboard: what is published. Arrays, and the statement of what they cost everybody."""

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from scipy import sparse

from commonground.billboard.claims import check_board, check_finite
from commonground.billboard.files import reading_board, write_board, write_page
from commonground.billboard.signing import SigningKey, VerifyingKey
from commonground.billboard.statement import Statement, recorded_spend, spent_as_json
from commonground.data.features import check_features
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.data.users import Block
from commonground.errors import InputError
from commonground.heads.arithmetic import shared_scores
from commonground.heads.classes import ClassHead
from commonground.heads.kinds import HeadKind, RidgeHeads, head_kind_in
from commonground.heads.table import Head, HeadTable
from commonground.ledger import BookedLedger, Ledger


@dataclass(frozen=True, repr=False)
class Billboard:
    """The shared part of everybody's model: θ_j = mean + embedding · head_j, plus intercepts.

    Parameters
    ----------
    embedding : array of shape (d, k)
        Orthonormal columns.
    mean : array of shape (d,), or None
        The shared coefficients w₀.
    intercept : float
        Shared; a person's own intercept comes on top when ``fit_intercept``.
    fit_intercept : bool
        Whether each person has an intercept of her own.
    feature_names : tuple of str, or None
        In the order of the embedding's rows.
    statement : Statement
        What it cost everybody.
    head_kind : HeadKind, default=RidgeHeads()
        How heads are fitted on it.
    prior : array of shape (k, k), or None, default=None
        Ridge matrix for heads of people who have few rows; of boards written before ``spread`` was there.
    schema : Schema or None, default=None
        What a table's columns are, and how they become features; rows are then given as the table has them.
    spread : array of shape (q, q), or None, default=None
        Covariance of people's own parts: their intercepts first, where they have one, then their heads. None: not known.
    noise : float or None, default=None
        Variance of labels about a person's own model; known where ``spread`` is.
    class_scores : array of shape (d + 1, K - 1), or None, default=None
        Where labels are one of K > 2 classes: shared coefficients of their contrasts, intercepts last. There is then neither a
        mean nor an embedding, and ``spread`` is that of people's own contrasts.
    """

    embedding: np.ndarray
    mean: np.ndarray | None
    intercept: float
    fit_intercept: bool
    feature_names: tuple[str, ...] | None
    statement: Statement
    head_kind: HeadKind = field(default_factory=RidgeHeads)
    prior: np.ndarray | None = None
    schema: Schema | None = None
    spread: np.ndarray | None = None
    noise: float | None = None
    class_scores: np.ndarray | None = None

    def __repr__(self) -> str:
        told = self.statement
        return f"<Billboard: {told.algorithm}, {told.n_users:,} people, {self.size_in_words}, ε = {told.epsilon:g}>"

    @property
    def n_features(self) -> int:
        """How many features rows have (d)."""
        return int(self.embedding.shape[0])

    @property
    def rank(self) -> int:
        """How many directions are shared (k)."""
        return int(self.embedding.shape[1])

    @property
    def size_in_words(self) -> str:
        """How much is published, for people."""
        return f"{self.n_features} features, rank {self.rank}"

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """What several classes are called; None where labels are numbers, or yes and no."""
        return self.head_kind.class_names

    @property
    def head_size(self) -> int:
        """How many numbers a head has beside its intercept: on directions, or on contrasts of classes."""
        return self.rank if self.class_scores is None else int(self.class_scores.shape[1])

    def require_one_number(self, what: str) -> None:
        """Refuse, for what reads one number an answer.

        Parameters
        ----------
        what : str
            What is asked for.
        """
        if self.class_scores is not None:
            raise InputError(
                f"{what} is not there for boards of several classes yet, whose answers are a probability for each. Use predict "
                "and predict_proba; docs/limitations.md lists what there is."
            )

    @property
    def fingerprint(self) -> str:
        """Names this billboard's arrays: heads remember which billboard they belong to."""
        return hashlib.sha256(self._payload()).hexdigest()

    def predict(self, X: Any) -> np.ndarray:
        """The shared prediction: what can be said of a person nobody knows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows,)
            Of several classes: (n_rows, n_classes) logarithms of their probabilities.
        """
        if self.class_scores is not None:
            X = self.features_of(X)
            return HeadTable.nobody(self).predict(self, X, np.full(X.shape[0], -1))
        return self.in_label_range(shared_scores(self.features_of(X), self.mean, self.intercept))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of classes for a person nobody knows: no and yes, or ``classes``.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        X = self.features_of(X)
        return HeadTable.nobody(self).probabilities(self, X, np.full(X.shape[0], -1))

    def features_of(self, X: Any) -> np.ndarray:
        """Rows as this board's features: encoded by its schema where it has one, else checked.

        Parameters
        ----------
        X : table, or array of shape (n_rows, n_columns)

        Returns
        -------
        array of shape (n_rows, n_features)
        """
        return check_features(X, self.n_features, self.feature_names) if self.schema is None else self.schema.encode(X)

    def in_label_range(self, predictions: np.ndarray) -> np.ndarray:
        """Predictions, none beyond the public range of labels, where the schema has one.

        Parameters
        ----------
        predictions : array

        Returns
        -------
        array of the same shape
        """
        return predictions if self.schema is None or self.log_odds else self.schema.in_label_range(predictions)

    @property
    def log_odds(self) -> bool:
        """Whether predictions are log-odds, which have no range."""
        return self.head_kind.log_odds

    @property
    def answers_by_sign(self) -> bool:
        """Whether the sign of a prediction is the class, and its size says nothing."""
        return self.head_kind.answers_by_sign

    def described_by(self, schema: Schema | None) -> "Billboard":
        """The same board with the schema of its people's table; an intercept beyond the range of labels is brought into it.

        Parameters
        ----------
        schema : Schema or None
            Public.

        Returns
        -------
        Billboard
        """
        if schema is None:
            return self
        board = replace(self, schema=schema)
        if not (schema.bounded and self.statement.events):
            return board
        return replace(board, intercept=float(board.in_label_range(np.array(self.intercept))))

    def personalize(self, X: Any, y: Any) -> Head | ClassHead:
        """A head for one person from her own rows; for newcomers, too (P2 Corollary 11). Costs no budget.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,)

        Returns
        -------
        Head
            Hers alone; ``head.predict(X)`` answers her rows, and of several classes ``head.predict_proba(X)``.
        """
        X = self.features_of(X)
        y = self._labels(y)
        if len(y) != X.shape[0] or not len(y):
            raise InputError(
                f"personalize needs one label for each of one or more rows, got {X.shape[0]} rows, {len(y)} labels."
            )
        if not np.isfinite(y).all():
            raise InputError("personalize got a label that is NaN or infinite. Remove the row or fill in the label.")
        rows = X if sparse.issparse(X) else np.ascontiguousarray(X)
        block = Block(rows, y, np.array([0, len(y)]), first=0)
        head = self.head_kind.fit(block, self).head(self, 0)
        return replace(head, schema=self.schema, log_odds=self.log_odds, feature_names=self.feature_names)

    def _labels(self, y: Any) -> np.ndarray:
        if self.schema is not None:
            return self.schema.encode_labels(y)
        return self.head_kind.numbers_of(y)

    # ---- for people to look at -----------------------------------------------------------------------------------

    def report(self, path: str | os.PathLike[str], heldout: Population | None = None) -> Path:
        """Write one HTML page for whoever has to sign: the guarantee, where the budget went, what is published.

        Parameters
        ----------
        path : path
            The file.
        heldout : Population or None, default=None
            People with rows and labels, to show who gains. The report is then internal, **not private**, and readable by this
            account alone.

        Returns
        -------
        Path
            The file.
        """
        from commonground.report.board import report_of_board
        from commonground.report.gains import Gains

        gains = None if heldout is None else Gains.of(self, heldout)
        return write_page(path, report_of_board(self, gains), private=gains is not None)

    def page(self, path: str | os.PathLike[str], item: str | None = None) -> Path:
        """Write one HTML page on which a person makes her own head in her browser; nothing leaves it.

        Parameters
        ----------
        path : path
            The file.
        item : str or None, default=None
            Where rows are ratings of one-hot items: what the column of items is called. She may then choose from a list.

        Returns
        -------
        Path
            The file.
        """
        return write_page(path, self.page_text(item))

    def page_text(self, item: str | None = None) -> str:
        """The same as text.

        Parameters
        ----------
        item : str or None, default=None
            As in ``page``.

        Returns
        -------
        str
        """
        from commonground.page.build import page_of_board

        return page_of_board(self, self._payload(), item)

    # ---- files -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], sign: SigningKey | str | os.PathLike[str] | None = None) -> Path:
        """Write a folder with the arrays and the statement, in place of an older billboard there; nothing else is touched.

        Parameters
        ----------
        path : path
            The folder.
        sign : SigningKey or path, default=None
            A private key (``commonground keys new``), or its file; the statement, and with it the arrays, is signed.

        Returns
        -------
        Path
            The folder.
        """
        document = {
            "feature_names": self.feature_names,
            "fit_intercept": self.fit_intercept,
            "heads": self.head_kind.to_json(),
            "schema": None if self.schema is None else self.schema.to_json(),
            **self.statement.to_json(),
            "epsilon_spent": spent_as_json(self.statement.epsilon_spent),
        }
        return write_board(path, self._payload(), document, sign)

    def _payload(self) -> bytes:
        arrays = {"embedding": np.ascontiguousarray(self.embedding), "intercept": np.array([self.intercept])}
        if self.mean is not None:
            arrays["mean"] = np.ascontiguousarray(self.mean)
        if self.prior is not None:
            arrays["prior"] = np.ascontiguousarray(self.prior)
        if self.spread is not None:
            arrays |= {"spread": np.ascontiguousarray(self.spread), "noise": np.array([self.noise])}
        if self.class_scores is not None:
            arrays["class_scores"] = np.ascontiguousarray(self.class_scores)
        return bytes(save_arrays(arrays))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], public_key: VerifyingKey | str | os.PathLike[str] | None = None
    ) -> "Billboard":
        """Read and verify: a changed byte, a newer schema, a missing part or a claim that cannot be true is an error.

        Parameters
        ----------
        path : path
            The folder that ``save`` wrote.
        public_key : VerifyingKey or path, default=None
            The key or its file: only a board that was signed with the private key to it is read. Without, a board is checked
            against itself alone, and whoever may write to it can make it agree with itself.

        Returns
        -------
        Billboard
        """
        with reading_board(path, public_key) as (document, payload):
            arrays = load_arrays(payload)
            names, schema = document["feature_names"], document.get("schema")
            check_finite(arrays)
            board = cls(
                embedding=arrays["embedding"],
                mean=arrays.get("mean"),
                intercept=float(arrays["intercept"][0]),
                fit_intercept=bool(document["fit_intercept"]),
                feature_names=None if names is None else tuple(names),
                statement=Statement.from_json(document),
                head_kind=head_kind_in(document),
                prior=arrays.get("prior"),
                schema=None if schema is None else Schema.from_json(schema),
                spread=arrays.get("spread"),
                noise=float(arrays["noise"][0]) if "noise" in arrays else None,
                class_scores=arrays.get("class_scores"),
            )
            check_board(board, arrays, recorded_spend(document))
            return board


AnyBoard = TypeVar("AnyBoard", bound=Any)  # a dataclass with a statement and a fingerprint


def name_each_other(board: AnyBoard, book: Ledger | None) -> AnyBoard:
    """The board with the entry that paid for it, after the ledger was told the board's fingerprint."""
    if not isinstance(book, BookedLedger):
        return board
    book.published(board.fingerprint)
    return replace(board, statement=replace(board.statement, ledger=book.entry))
