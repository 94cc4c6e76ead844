"""What every estimator does once it is fitted: a row is answered by its person's own head, or by the shared part."""

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.board import Billboard
from commonground.data.columns import columns_of, text_names
from commonground.data.ids import mostly_unknown, plain_list, require_one_type
from commonground.data.population import Population
from commonground.errors import InputError, UnknownUserError, UnknownUserWarning
from commonground.estimators.user_column import without_user_column
from commonground.heads.table import HeadTable, OwnModels

MANY_ROWS = 20  # asked about at once: if most of them are nobody's, ids were perhaps written in another way


class Answers:
    """The part of an estimator that answers, from ``billboard_`` and ``heads_``."""

    billboard_: Billboard
    heads_: HeadTable | None
    n_features_in_: int
    user: Any
    _personal: PersonalBudgets | None

    def set_people(self, people: Population) -> None:
        """Whose heads these are.

        Parameters
        ----------
        people : Population
            In the order of ``heads_``.
        """
        self.user_ids_ = people.ids if people.rows_are_here else None
        self._place = _Places(self.user_ids_)

    def _whose(self, X: Any, users: Any, n_columns: int | None = None) -> tuple[Any, Any]:
        """X without people, and people: as they are given, or from the column that ``user`` names."""
        if self.user is None or isinstance(X, Population):
            return X, users
        if users is not None:
            raise InputError(
                f"people are given twice: users= and the column {self.user!r} of X (user=). Leave one out."
            )
        return without_user_column(X, self.user, type(self).__name__, n_columns)

    @property
    def own_intercepts_(self) -> np.ndarray | None:
        """(n,) everybody's intercept on top of the shared one; private, and None where ``heads_`` is."""
        return None if self.heads_ is None else self.heads_.intercepts

    @property
    def own_models_(self) -> OwnModels | None:
        """Of those who do better alone, where the billboard leaves them the choice; None where ``heads_`` is."""
        return None if self.heads_ is None else self.heads_.own

    def predict(self, X: Any, users: Any = None, *, strict: bool = False, return_std: bool = False) -> Any:
        """Answer each row by its person's own head; a person not in training by the shared part.

        Where people have heads, rows without people are an error: a scorer that forgets them would say how good the shared
        part is. ``billboard_.predict(X)`` asks the shared part.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row. Not with ``user=``, which finds them in X.
        strict : bool, default=False
            Raise ``UnknownUserError`` for a person who was not in training.
        return_std : bool, default=False
            Also the standard deviation of a fresh label about each prediction, where heads are posteriors.

        Returns
        -------
        array of shape (n_rows,), or two of them with ``return_std``
        """
        heads, X, position = self._asked(X, users, strict)
        board = self.billboard_
        if heads is None:
            return board.predict(X)
        answers = board.in_label_range(heads.predict(board, X, position))
        return (answers, heads.std(board, X, position)) if return_std else answers

    def _probabilities(self, X: Any, users: Any, strict: bool) -> np.ndarray:
        """(rows, classes), where answers are log-odds or classes; rows are asked about as in ``predict``."""
        heads, X, position = self._asked(X, users, strict)
        board = self.billboard_
        return board.predict_proba(X) if heads is None else heads.probabilities(board, X, position)

    def _asked(self, X: Any, users: Any, strict: bool) -> tuple[HeadTable | None, Any, np.ndarray]:
        """Heads, rows as features, and whose head answers each row; no heads, and rows as they are, where nobody has one."""
        check_is_fitted(self, "billboard_")
        if isinstance(X, Population):
            raise InputError(
                "predict and score take rows, not people: X, and users= with one id for each row. users.rows_of(id) has one "
                "person's; how good the model is on people, evaluate(users) tells."
            )
        board = self.billboard_
        X, users = self._whose(X, users, self.n_features_in_)
        if columns_of(X) is not None and text_names(X) is None:
            X = np.asarray(X)
        if users is None:
            if self.heads_ is not None and (board.rank > 0 or board.spread is not None):
                raise InputError(
                    "whose rows are these? People have heads of their own. Give users=ids with one id for each row, or name "
                    "their column in X when making the model: user='column', which also works in searches, scorers and "
                    "pipelines. For what the shared part says, ask billboard_.predict(X)."
                )
            return None, X, np.zeros(0)
        X, ids = board.features_of(X), plain_list(users)
        if len(ids) != X.shape[0]:
            raise InputError(f"got {X.shape[0]} rows but {len(ids)} user ids; give one id for each row.")
        if self.heads_ is None:
            raise InputError(
                "this model keeps no heads (keep_heads=False, or another engine has the rows); use billboard_.personalize "
                "with own rows."
            )
        position = self._positions(ids)
        unknown = position < 0
        if strict and unknown.any():
            raise UnknownUserError(
                f"user {ids[int(np.argmax(unknown))]!r} was not in training ({int(unknown.sum())} rows of unknown "
                "people). Use strict=False for the shared prediction, or billboard_.personalize for a head of her own."
            )
        if len(ids) >= MANY_ROWS and unknown.mean() > 0.5:
            warnings.warn(mostly_unknown(unknown), UnknownUserWarning, stacklevel=2)
        return self.heads_, X, position

    def score(self, X: Any, y: Any = None, users: Any = None, sample_weight: Any = None) -> float:
        """R² of the personal predictions, their accuracy where they are log-odds; an error without people where they have heads.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,), default=None
            Of each row; to be given.
        users : array of shape (n_rows,), default=None
            One id for each row.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts.

        Returns
        -------
        float
        """
        from sklearn.metrics import accuracy_score, r2_score

        answers = self.predict(X, users=users)
        require_labels(y)
        schema = self.billboard_.schema
        y = np.asarray(y) if schema is None else schema.encode_labels(y)
        if self.billboard_.log_odds and y.dtype.kind not in "biuf":
            raise InputError("labels are yes or no: give 0 and 1, or y == 'yes'.")
        if self.billboard_.log_odds:  # yes: labels and log-odds above zero
            return float(accuracy_score(np.asarray(y) > 0, answers > 0, sample_weight=sample_weight))
        return float(r2_score(y, answers, sample_weight=sample_weight))

    def _positions(self, ids: list[Any]) -> np.ndarray:
        return self._place.of(ids)

    def spent(self, user_id: Any) -> float:
        """The ε that ``fit`` has spent of this person's budget, at the δ of the statement.

        Parameters
        ----------
        user_id : object
            As it was given to ``fit``.

        Returns
        -------
        float
            At most her ε; infinite where the statement says *not private*.
        """
        check_is_fitted(self, "billboard_")
        position = int(self._positions([user_id])[0])
        if position < 0:
            raise UnknownUserError(f"user {user_id!r} was not in training, so nothing was spent on her.")
        statement, personal = self.billboard_.statement, self._personal
        return statement.epsilon_spent if personal is None else personal.spent(position, statement.events)


def require_labels(y: Any) -> None:
    """``y`` may be left out, so that whoever gives people in place of rows is told so; not so where rows are given."""
    if y is None:
        raise InputError("score needs y, the label of each row of X.")


class _Places:
    """Where people stand in ``heads_``: looked up in a table that is made when it is first needed."""

    def __init__(self, ids: np.ndarray | None) -> None:
        self._ids = ids
        self._table: dict[Any, int] | None = None

    def of(self, asked: list[Any]) -> np.ndarray:
        """Of those asked for; -1: nobody knows her. Ids of another type than everybody's are an error."""
        if self._ids is None:
            raise InputError("who was in training is known to another engine only; this model has no ids.")
        if self._table is None:
            self._table = {user: at for at, user in enumerate(plain_list(self._ids))}
        positions = np.fromiter((self._table.get(user, -1) for user in asked), dtype=np.int64, count=len(asked))
        if (positions < 0).all():
            require_one_type(self._table, asked)
        return positions
