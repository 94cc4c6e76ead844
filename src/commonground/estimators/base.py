"""What all estimators share: how people come in, how a row is answered by its person's own head."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.events import Event
from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.board import Billboard, name_each_other
from commonground.billboard.statement import Statement
from commonground.data.columns import text_names
from commonground.data.population import Population
from commonground.data.unencoded import Unencoded
from commonground.errors import BudgetError, InputError, PrivacyWarning, ScaleWarning, SharingWarning
from commonground.estimators.answers import Answers
from commonground.estimators.capabilities import CAPABILITIES, asked_of, require
from commonground.estimators.checkpoints import Checkpoint, description_of
from commonground.estimators.checks import as_users, check_budget, require_no_classes
from commonground.estimators.discovery import discovered, require_discoverable
from commonground.estimators.docstrings import completed
from commonground.estimators.evaluated import Evaluated
from commonground.estimators.own_budgets import booked_for_each, personal_budgets
from commonground.estimators.scales import (
    FIND_SCALES,
    LOCATE_LABELS,
    OWN_LEVELS,
    HiddenScale,
    advice,
    hidden_label,
    hidden_scales,
    too_few_for_a_shared_answer,
)
from commonground.gate import Gate, Randomness, randomness_from
from commonground.heads.kinds import HeadKind, RidgeHeads
from commonground.heads.table import HeadTable
from commonground.ledger import InMemoryLedger, Ledger, SharedLedger, keeps_accounts, require_ledger
from commonground.statistics.statistic import SharedModel
from commonground.tally import tally


class PersonalModel(Answers, Evaluated, RegressorMixin, BaseEstimator):
    """Base of the estimators: ``fit`` publishes ``billboard_`` and keeps everybody's head for ``predict``.

    A subclass implements ``_publish(users, gate) -> Billboard``. Its docstring gets the attributes below, and tells of others.

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
        How many columns X has: features and, with ``user=``, people.
    feature_names_in_ : array of shape (n_columns,)
        What they are called; only where X, or the table, has names.
    """

    billboard_: Billboard
    user_ids_: np.ndarray | None  # in the order of heads_; None where another engine has them
    heads_: HeadTable | None  # private: row j belongs to person j alone; None with keep_heads=False or another engine
    # What an estimator without such a parameter has in its place.
    epsilon: Any = None  # it declares no budget
    delta: Any = None
    budgets: Any = None
    recipe: str = "default"
    rank: Any = 0
    device: Any = "cpu"
    shared_mean: bool = True
    fit_intercept: bool = True
    keep_heads: bool = True
    user: Any = None
    simulation_seed: int | None = None

    _personal: PersonalBudgets | None = None  # everybody's own ε, where people have one
    _start: Billboard | None = None  # of a refit, while it is made
    _left: Budget | None = None  # of the declared budget, after values of categories were paid for

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = completed(cls, PersonalModel)

    def fit(
        self,
        X: Any,
        y: Any = None,
        users: Any = None,
        *,
        ledger: Ledger | SharedLedger | None = None,
        checkpoint: Any = None,
        start: Billboard | None = None,
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
        checkpoint : str or os.PathLike, default=None
            A file that keeps what was released. If the fit is interrupted, the same fit with the same file goes on from there,
            and pays for nothing twice; when it is done, the file is removed. For the operator's eyes.
        start : Billboard, default=None
            An earlier billboard to go on from, on the same features: public, so it costs nothing. First estimates are left out,
            and the budget goes to improving it. Who is in ``X`` may have changed, and so may the rows.
        gate : callable, default=Gate
            For audits: makes this fit's gate, one that watches what passes.

        Returns
        -------
        self
        """
        given, (X, users) = X, self._whose(X, users)
        people = as_users(X, y, users)
        self._refuse_before_charges(people, ledger, start, gate)
        with self._declaring(self._budgets_of(people, in_order=people is X), start):
            self._warn_of_scales(people)
            kept = self._kept_in(checkpoint, people, ledger, gate)
            with self._paid_from(ledger, people) if kept is None else kept as book:
                opened = gate(*self._behind_the_gate(book))
                opened = opened if kept is None else kept.gate(opened)
                if isinstance(people, Unencoded):
                    people, self._left = discovered(people, opened, self._budget())
                self._remember_columns(people, None if X is given else given)
                board = self._as_declared(self._publish(people, opened)).described_by(people.schema)
            if gate is not Gate:  # somebody looked behind it
                board = replace(board, statement=replace(board.statement, simulated=True))
            self.billboard_ = name_each_other(board, book)
            if kept is not None:
                kept.done()
        self.set_people(people)
        keep = self.keep_heads and people.rows_are_here
        self.heads_ = HeadTable.fit(self.billboard_, people) if keep else None
        if not self.billboard_.statement.simulated:
            cost = self.billboard_.statement
            tally.note_fit(people, cost.events, cost.delta, paid_by_ledger=ledger is not None)
        return self

    def _refuse_before_charges(self, people: Population, ledger: Any, start: Billboard | None, gate: Any) -> None:
        """Errors in what a fit is given, while nothing is charged and no label is read."""
        if people.n_users < 2:
            raise InputError(
                "there is only one person; a guarantee for each among many needs at least two. Check the user ids."
            )
        require_ledger(ledger)
        asked = asked_of(people, self.budgets, self.device)
        asked["budgets"] |= keeps_accounts(ledger)
        asked["start"] = start is not None
        require(self._variant, asked)
        if "classes" not in self.get_params(deep=False):
            require_no_classes(people, type(self).__name__)
        if self.recipe not in ("default", "paper"):
            raise InputError(f"recipe of {type(self).__name__} must be 'default' or 'paper', got {self.recipe!r}.")
        self.refuse_undiscoverable(people, own_budgets=asked["budgets"])
        if start is not None and not people.features_are_known:
            raise InputError(
                "values of some categories are not known yet, and start= says nothing about others. Read the table by its "
                "schema (start.schema), or fit without start=."
            )
        if gate is not Gate and ledger is not None:
            raise InputError("gate= is for audits, which no ledger pays for. Fit without it.")
        self._check_settings(people)

    def _check_settings(self, people: Population) -> None:
        """Errors in the parameters, given how many features are known: values of categories cost budget before ``_publish``."""

    @contextmanager
    def _declaring(self, budgets: PersonalBudgets | None, start: Billboard | None) -> Iterator[None]:
        """While a fit is made: everybody's own budget, and what it starts from. One that fails leaves those of the last."""
        before, self._personal, self._start = self._personal, budgets, start
        try:
            yield
        except BaseException:
            self._personal = before  # what an earlier fit has spent stays known
            raise
        finally:
            self._left = self._start = None

    def _remember_columns(self, people: Population, rows: Any) -> None:
        """The features of people or, where there are ``rows`` with a column that says whose they are, these rows' columns."""
        names: Sequence[str] | None
        if rows is None:
            names, self.n_features_in_ = people.feature_names, people.n_features
        else:
            names, self.n_features_in_ = text_names(rows), np.asarray(rows).shape[1]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        else:  # of an earlier fit
            self.__dict__.pop("feature_names_in_", None)

    def _kept_in(self, checkpoint: Any, people: Population, ledger: Any, gate: Any) -> Checkpoint | None:
        if checkpoint is None:
            return None
        if gate is not Gate:
            raise InputError("gate= is for audits, which nobody resumes. Fit without checkpoint=.")
        if keeps_accounts(ledger):
            raise InputError(
                "a fit that everybody pays for from an account of her own cannot be resumed: what people have left may be "
                "another then. Fit without checkpoint=."
            )
        if not self._has_budget:
            raise InputError(f"{type(self).__name__} releases nothing that a checkpoint could keep. Fit without it.")
        described = description_of(self, people, self._personal, self._budget())
        return Checkpoint(checkpoint, described, ledger, lambda: self._paid_from(ledger, people))

    def _paid_from(
        self, ledger: Ledger | SharedLedger | None, people: Population
    ) -> AbstractContextManager[Ledger | None]:
        name = type(self).__name__
        if ledger is not None and not self._has_budget:
            raise BudgetError(f"{name} declares no budget, so no ledger can account for it. Fit it without ledger=.")
        if keeps_accounts(ledger):
            booking = booked_for_each(ledger, people, self._personal or self._budget(), name)
            self._personal = booking.budgets  # what everybody has left, by her own account
            return booking
        if not isinstance(ledger, SharedLedger):
            return nullcontext(ledger)
        if self._personal is not None and np.ptp(self._personal.epsilons) > 0:
            warnings.warn(
                "the ledger adds up what fits cost the person with the largest budget; that a person with a smaller one is "
                "kept to hers over several fits is for you to see to, or for a population that keeps an account for everybody "
                "(open_population(people=...), docs/ledger.md).",
                PrivacyWarning,
                stacklevel=4,
            )
        return ledger.reserve(self._budget(), name)

    def _behind_the_gate(self, book: Ledger | None) -> tuple[Ledger, Randomness]:
        if not self._has_budget:
            return _NothingToSpend(), Randomness()
        ledger = InMemoryLedger(self._budget()) if book is None else book
        return ledger, randomness_from(self.simulation_seed)

    @property
    def _declares(self) -> bool:
        """Whether one budget for everybody is a parameter."""
        return self.epsilon is not None

    @property
    def _has_budget(self) -> bool:
        """Whether a fit declares any: one for everybody, or everybody's own."""
        return self._declares or self._personal is not None

    def _budget(self) -> Budget | PureBudget:
        return Budget(self.epsilon, self.delta) if self._personal is None else self._personal.largest

    def _budgets_of(self, users: Population, in_order: bool) -> PersonalBudgets | None:
        if "budgets" not in self.get_params(deep=False):
            return None
        return personal_budgets(self.budgets, users, self.delta, in_order)

    def _declared(self, users: Population) -> tuple[Budget, Population]:
        """The budget that the noise is made for, and the people, each counting as much as her own budget allows."""
        personal = self._personal
        if personal is None:
            budget = check_budget(self.epsilon, self.delta, users.n_users)
            return self._left or budget, users
        largest = personal.largest
        return check_budget(largest.epsilon, largest.delta, users.n_users), users.weighted(personal.weights)

    def _statement(
        self, gate: Gate, algorithm: str, budget: Budget | PureBudget, users: Population, **parameters: Any
    ) -> Statement:
        """What a fit guarantees that has passed ``gate``, with everybody's own budget and the public ``parameters``."""
        return Statement.of_fit(gate, algorithm, self.recipe, budget, users, budgets=self._personal, **parameters)

    def _board(
        self, users: Population, model: SharedModel, statement: Statement, head_kind: HeadKind | None = None
    ) -> Billboard:
        """What a fit publishes: its shared model, by the names of these people's features, and what that cost."""
        return Billboard(
            embedding=model.embedding,
            mean=model.coef,
            intercept=model.intercept,
            fit_intercept=model.own_intercept,
            feature_names=users.feature_names,
            statement=statement,
            head_kind=RidgeHeads() if head_kind is None else head_kind,
            spread=model.spread,
            noise=None if model.spread is None else model.noise,
        )

    def _as_declared(self, board: Billboard) -> Billboard:
        """What was set aside for the values of categories is part of what is declared."""
        if self._left is None:
            return board
        return replace(board, statement=replace(board.statement, epsilon=float(self.epsilon)))

    def _warn_of_scales(self, people: Population) -> None:
        """To the operator, before anything is spent; nothing of it reaches the billboard."""
        hidden = self.hidden_scales(people)
        if hidden:
            warnings.warn(advice(hidden, people.n_users), ScaleWarning, stacklevel=4)
        if far_from_one := self.hidden_label(people):
            warnings.warn(far_from_one, ScaleWarning, stacklevel=4)
        budget = self._budget() if self._declares and self.shared_mean else None
        if budget is not None and budget.mu and (few := too_few_for_a_shared_answer(people, budget.mu)):
            warnings.warn(few, SharingWarning, stacklevel=4)

    def refuse_undiscoverable(self, people: Population, *, own_budgets: bool = False) -> None:
        """An error where values of categories are to be discovered, and this estimator cannot.

        Parameters
        ----------
        people : Population
            Whom it would be fitted on.
        own_budgets : bool, default=False
            Whether everybody has an ε, or an account, of her own.
        """
        require_discoverable(people, self._budget() if self._declares else None, own_budgets, self._rank)

    def hidden_scales(self, people: Population) -> list[HiddenScale]:
        """Not private, for the operator alone: features whose size the noise of this fit would hide, by name.

        Parameters
        ----------
        people : Population
            Whom it would be fitted on.

        Returns
        -------
        list of HiddenScale
            Empty where all is well, or where every feature has a public range.
        """
        budget = self._budget() if self._declares and self.recipe == "default" else None
        if budget is None or not budget.mu:  # no Gaussian noise
            return []
        finds = self._variant.startswith(FIND_SCALES)
        return hidden_scales(people, budget.mu, finds_scales=finds, shared_mean=bool(self.shared_mean))

    def hidden_label(self, people: Population) -> str:
        """Not private, for the operator alone: what to do where noise would hide the size of labels.

        Parameters
        ----------
        people : Population
            Whom it would be fitted on.

        Returns
        -------
        str
            Empty where all is well.
        """
        budget = self._budget() if self._declares and self.recipe == "default" else None
        if budget is None or not budget.mu or not self._variant.startswith(LOCATE_LABELS):
            return ""
        own, level = self._variant.startswith(OWN_LEVELS), bool(self.fit_intercept and self.shared_mean)
        return hidden_label(people, budget.mu, own_levels=own, with_level=level)

    @property
    def _rank(self) -> Any:
        """How many directions are asked for, where an estimator has any."""
        return self.rank

    def variant_for(self, users: Population) -> str:
        """Which line of ``capabilities`` a fit on these people would be.

        Parameters
        ----------
        users : Population

        Returns
        -------
        str
        """
        return self._variant

    @property
    def _variant(self) -> str:
        """Which line of ``capabilities`` it is: its own, or that of the class that it is made from."""
        names = [kind.__name__ for kind in type(self).__mro__]
        return next((name for name in names if name in CAPABILITIES), names[0])

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        raise NotImplementedError


class _NothingToSpend:
    """The ledger of a baseline that declares no budget: nothing of it may pass the gate."""

    def charge(self, event: Event) -> None:
        raise BudgetError(f"{event.name!r} cannot be paid for: this estimator declares no budget.")
