"""What every estimator can be asked once it is fitted: how good it is on rows that it has not seen."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.board import Billboard
from commonground.data.ids import plain_list
from commonground.defaults import DELTA, EVALUATION_EPSILON
from commonground.estimators.capabilities import require
from commonground.estimators.checks import as_users
from commonground.evaluation import Evaluation, evaluate
from commonground.ledger import Ledger, SharedLedger


class Evaluated:
    """The part of an estimator that evaluates it."""

    billboard_: Billboard
    heads_: Any
    user_ids_: Any
    n_features_in_: int
    _personal: PersonalBudgets | None
    _variant: Any

    def evaluate(
        self,
        X: Any,
        y: Any = None,
        users: Any = None,
        *,
        epsilon: float = EVALUATION_EPSILON,
        delta: float = DELTA,
        ledger: Ledger | SharedLedger | None = None,
        internal: bool = False,
        confidence: float = 0.95,
        metrics: Any = None,
        label_range: tuple[float, float] | None = None,
        clip: float | None = None,
        simulation_seed: int | None = None,
    ) -> Evaluation:
        """How good the model is on held-out rows, everybody counting once: released with noise, at a charge of its own.

        Parameters
        ----------
        X : Users or array of shape (n_rows, n_features)
            Rows that were not trained on, of people who were; newcomers are given the shared prediction.
        y : array of shape (n_rows,), default=None
            Labels, with plain arrays.
        users : array of shape (n_rows,), default=None
            One id for each row, with plain arrays.
        epsilon, delta : float, default=0.1 and 1e-6
            For this evaluation alone, on top of what the fit cost; with budgets of their own people pay in proportion.
        ledger : population of a ``DurableLedger``, default=None
            Pays for it.
        internal : bool, default=False
            Exact numbers, NOT private; nothing is charged.
        confidence : float, default=0.95
            Of each interval.
        metrics : sequence of str, or None, default=None
            Of "rmse", "mae", "coverage", or "log_loss", "accuracy", "auc"; each further one adds noise to all.
        label_range : tuple of two floats, or None, default=None
            Public, where the schema has none: answers are kept within, and no row's error is larger.
        clip : float or None, default=None
            Public: the largest error of a person that counts, in the unit of labels. None: read off a release.
        simulation_seed : int or None, default=None
            Repeatable noise for experiments; the result is then not private.

        Returns
        -------
        Evaluation
        """
        check_is_fitted(self, "billboard_")
        require(self._variant, {"evaluation": True})
        X, users = self._whose(X, users, self.n_features_in_)
        people = as_users(X, None if y is None else self._labels_in(y), users)
        position = None if self.user_ids_ is None else self._positions(plain_list(people.ids))
        weights, personal = None, self._personal
        if personal is not None and position is not None:
            weights = np.where(position >= 0, personal.weights[position], 0.0)
        return evaluate(
            self.billboard_, people, self.heads_, position, epsilon=epsilon, delta=delta, ledger=ledger, internal=internal,
            confidence=confidence, metrics=metrics, label_range=label_range, clip=clip, weights=weights,
            simulation_seed=simulation_seed,
        )  # fmt: skip

    def _whose(self, X: Any, users: Any, n_columns: int | None = None) -> tuple[Any, Any]:
        raise NotImplementedError

    def _positions(self, ids: list[Any]) -> np.ndarray:
        raise NotImplementedError

    def _labels_in(self, y: Any) -> Any:
        """Labels as ``fit`` takes them."""
        return y
