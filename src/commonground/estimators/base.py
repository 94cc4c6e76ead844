"""What all estimators share: how people come in, how a row is answered by its person's own head."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import Event
from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.board import Billboard, name_each_other
from commonground.data.features import check_features
from commonground.data.population import Population
from commonground.data.users import Users
from commonground.errors import BudgetError, InputError, PrivacyWarning, UnknownUserError
from commonground.estimators.capabilities import CAPABILITIES, asked_of, require
from commonground.estimators.own_budgets import personal_budgets
from commonground.gate import Gate, Randomness, randomness_from
from commonground.heads.table import HeadTable, OwnModels
from commonground.ledger import InMemoryLedger, Ledger, SharedLedger


class PersonalModel(BaseEstimator):
    """Base of the estimators: ``fit`` publishes ``billboard_`` and keeps everybody's head for ``predict``.

    A subclass implements ``_publish(users, gate) -> Billboard``.

    Attributes
    ----------
    billboard_ : Billboard
        All that is published: the shared part, and the statement of what it cost everybody.
    heads_ : HeadTable or None
        Private: row j belongs to person j alone. None with ``keep_heads=False`` or where another engine has the rows.
    own_intercepts_ : array of shape (n_users,), or None
        Everybody's intercept on top of the shared one; private, and None where ``heads_`` is.
    own_models_ : OwnModels or None
        Of those who do better alone, where the billboard leaves them the choice; None where ``heads_`` is.
    user_ids_ : array of shape (n_users,), or None
        In the order of ``heads_``; None where another engine has them.
    n_features_in_ : int
        How many features there are.
    """

    billboard_: Billboard
    user_ids_: np.ndarray | None  # in the order of heads_; None where another engine has them
    heads_: HeadTable | None  # private: row j belongs to person j alone; None with keep_heads=False or another engine
    _personal: PersonalBudgets | None = None  # everybody's own ε, where people have one

    def fit(
        self,
        X: Any,
        y: Any = None,
        users: Any = None,
        *,
        ledger: Ledger | SharedLedger | None = None,
        gate: Callable[[Ledger, Randomness], Gate] = Gate,
    ) -> Self:
        """Train on ``fit(users)`` with a ``Users``, or on ``fit(X, y, users=ids)`` with plain arrays.

        Parameters
        ----------
        X : Users or array of shape (n_rows, n_features)
        y : array of shape (n_rows,), default=None
            Labels, with plain arrays.
        users : array of shape (n_rows,), default=None
            One id for each row, with plain arrays.
        ledger : population of a ``DurableLedger``, default=None
            Pays for this fit. The declared budget is booked before training starts, each release is charged before its
            noise is drawn, and what was not used is given back at the end.
        gate : callable, default=Gate
            For audits: makes this fit's gate, one that watches what passes.

        Returns
        -------
        self
        """
        people = _as_users(X, y, users)
        if people.n_users < 2:
            raise InputError(
                "there is only one person; a guarantee for each among many needs at least two. Check the user ids."
            )
        asked = asked_of(people, getattr(self, "budgets", None), getattr(self, "device", "cpu"))
        require(self._variant, asked)
        if gate is not Gate and ledger is not None:
            raise InputError("gate= is for audits, which no ledger pays for. Fit without it.")
        self.n_features_in_ = people.n_features
        before = self._personal
        self._personal = self._budgets_of(people, in_order=isinstance(X, Population))
        try:
            with self._paid_from(ledger) as book:
                board = self._publish(people, gate(*self._behind_the_gate(book)))
            if gate is not Gate:  # somebody looked behind it
                board = replace(board, statement=replace(board.statement, simulated=True))
            self.billboard_ = name_each_other(board, book)
        except BaseException:
            self._personal = before  # what an earlier fit has spent stays known
            raise
        self.user_ids_ = people.ids if people.rows_are_here else None
        self._position_of: dict[Any, int] | None = None
        keep = getattr(self, "keep_heads", True) and people.rows_are_here
        self.heads_ = HeadTable.fit(self.billboard_, people) if keep else None
        return self

    def _paid_from(self, ledger: Ledger | SharedLedger | None) -> AbstractContextManager[Ledger | None]:
        name = type(self).__name__
        if ledger is not None and not hasattr(self, "epsilon") and self._personal is None:
            raise BudgetError(f"{name} declares no budget, so no ledger can account for it. Fit it without ledger=.")
        if not isinstance(ledger, SharedLedger):
            return nullcontext(ledger)
        if self._personal is not None and np.ptp(self._personal.epsilons) > 0:
            warnings.warn(
                "the ledger adds up what fits cost the person with the largest budget; that a person with a smaller one is "
                "kept to hers over several fits is for you to see to.",
                PrivacyWarning,
                stacklevel=4,
            )
        return ledger.reserve(self._budget(), name)

    def _behind_the_gate(self, book: Ledger | None) -> tuple[Ledger, Randomness]:
        if not hasattr(self, "epsilon") and self._personal is None:
            return _NothingToSpend(), Randomness()
        ledger = InMemoryLedger(self._budget()) if book is None else book
        return ledger, randomness_from(self.simulation_seed)

    def _budget(self) -> Budget | PureBudget:
        return Budget(self.epsilon, self.delta) if self._personal is None else self._personal.largest

    def _budgets_of(self, users: Population, in_order: bool) -> PersonalBudgets | None:
        if not hasattr(self, "budgets"):
            return None
        return personal_budgets(self.budgets, users, self.delta, in_order)

    def _declared(self, users: Population) -> tuple[Budget, Population]:
        """The budget that the noise is made for, and the people, each counting as much as her own budget allows."""
        if self._personal is None:
            return check_budget(self.epsilon, self.delta, users.n_users), users
        largest = self._personal.largest
        return check_budget(largest.epsilon, largest.delta, users.n_users), users.weighted(self._personal.weights)

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
        statement = self.billboard_.statement
        if self._personal is None:
            return statement.epsilon_spent
        return self._personal.spent(position, statement.events)

    @property
    def _variant(self) -> str:
        """Which line of ``capabilities`` it is: its own, or that of the class that it is made from."""
        names = [kind.__name__ for kind in type(self).__mro__]
        return next((name for name in names if name in CAPABILITIES), names[0])

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        raise NotImplementedError

    @property
    def own_intercepts_(self) -> np.ndarray | None:
        """(n,) everybody's intercept on top of the shared one; private, and None where ``heads_`` is."""
        return None if self.heads_ is None else self.heads_.intercepts

    @property
    def own_models_(self) -> OwnModels | None:
        """Of those who do better alone, where the billboard leaves them the choice; None where ``heads_`` is."""
        return None if self.heads_ is None else self.heads_.own

    def predict(self, X: Any, users: Any = None, *, strict: bool = False, return_std: bool = False) -> Any:
        """Answer each row by its person's own head; a person not in training, or ``users=None``, by the shared part.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            Raise ``UnknownUserError`` for a person who was not in training.
        return_std : bool, default=False
            Also the standard deviation of a fresh label about each prediction, where heads are posteriors.

        Returns
        -------
        array of shape (n_rows,), or two of them with ``return_std``
        """
        check_is_fitted(self, "billboard_")
        board = self.billboard_
        X = check_features(X, board.n_features, board.feature_names)
        if users is None:
            return (board.predict(X), self._std(X, np.full(X.shape[0], -1))) if return_std else board.predict(X)
        ids = _as_list(users)
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
        answers = self.heads_.predict(board, X, position)
        return (answers, self._std(X, position)) if return_std else answers

    def _std(self, X: Any, position: np.ndarray) -> np.ndarray:
        if self.heads_ is None:
            raise InputError("this model keeps no heads, which know how far off they may be. Leave return_std out.")
        return self.heads_.std(self.billboard_, X, position)

    def score(self, X: Any, y: Any, users: Any = None) -> float:
        """R² of the personal predictions.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        users : array of shape (n_rows,), default=None
            One id for each row.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, users=users)))

    def _positions(self, ids: list[Any]) -> np.ndarray:
        if self._position_of is None:
            if self.user_ids_ is None:
                raise InputError("who was in training is known to another engine only; this model has no ids.")
            self._position_of = {user: at for at, user in enumerate(_as_list(self.user_ids_))}
        return np.fromiter((self._position_of.get(user, -1) for user in ids), dtype=np.int64, count=len(ids))


class _NothingToSpend:
    """The ledger of a baseline that declares no budget: nothing of it may pass the gate."""

    def charge(self, event: Event) -> None:
        raise BudgetError(f"{event.name!r} cannot be paid for: this estimator declares no budget.")


def check_rank(rank: Any, n_features: int, name: str, least: int = 1) -> None:
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not least <= rank < max(n_features, 1):
        allowed = f"an integer from {least} to {n_features - 1}" if least < n_features else "smaller, and there is none"
        raise InputError(f"rank of {name} must be {allowed} (fewer than the {n_features} features), got {rank!r}.")


def check_budget(epsilon: float, delta: float, n_users: int) -> Budget:
    budget = Budget(epsilon, delta)
    if delta > 1 / n_users:
        warnings.warn(
            f"delta = {delta:g} is larger than 1/(number of people) = {1 / n_users:g}: the guarantee would allow one "
            "person's data to be published outright. Choose a delta well below that, for example 1e-6.",
            PrivacyWarning,
            stacklevel=5,
        )
    return budget


def _as_users(X: Any, y: Any, users: Any) -> Population:
    if isinstance(X, Population):
        if y is not None or users is not None:
            raise InputError(
                "fit got a Users object and also y or users=; give either fit(users) or fit(X, y, users=ids)."
            )
        return X
    if y is None or users is None:
        raise InputError("fit needs a Users object, or X, y and users=ids with one user id for each row.")
    names = getattr(X, "columns", None)
    return Users.from_arrays(X, y, users, feature_names=None if names is None else [str(name) for name in names])


def _as_list(ids: Any) -> list[Any]:
    return ids.tolist() if hasattr(ids, "tolist") else ids.to_pylist() if hasattr(ids, "to_pylist") else list(ids)
