"""Private FedRep for yes-or-no labels, with scikit-learn's habits of classifiers."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin

from commonground.data.population import Population
from commonground.errors import InputError
from commonground.estimators.fedrep.private_fedrep import PrivateFedRep
from commonground.gate import Gate
from commonground.heads.table import probabilities


class PrivateFedRepClassifier(ClassifierMixin, PrivateFedRep):
    """Personalised yes-or-no answers with a shared low-dimensional embedding, private for every person.

    ``PrivateFedRep(loss="logistic")`` that knows the names of its classes: person j's log-odds are those of a shared linear model
    plus (Uᵀx)ᵀv_j and an intercept of her own, and her part is the posterior mode given the released prior, by Laplace's
    approximation. Probabilities are averaged over what is not known of her part, so who has few rows is not told more than is
    known.

    Parameters
    ----------
    rank : int or "auto", default=2
        The number of shared directions; 0 for a shared model and own intercepts.
    epsilon, delta : float, default=1.0 and 1e-6
        The budget for everything that is published, per person.
    classes : tuple of two, default=(0, 1)
        What labels are called, no first. Public: declared, never looked up in the data.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody her own ε in place of one for all, as in ``PrivateFedRep``.
    fit_intercept : bool, default=True
        Give each person an intercept of her own (local, free).
    shared_mean : bool, default=True
        Release a shared linear model of log-odds, too (paid for).
    n_rounds : int or None, default=None
        Gradient rounds; None: from releases, 7 to 18.
    keep_heads : bool, default=True
        Fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    device : {"cpu", "cuda"}, default="cpu"
        Where rounds are read; a GPU is of no use to this loss yet.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Attributes
    ----------
    classes_ : array of shape (2,)
        No and yes.
    billboard_ : Billboard
        All that is published: the shared part, as log-odds, and the statement of what it cost everybody.
    heads_ : HeadTable or None
        Private: row j belongs to person j alone. None with ``keep_heads=False`` or where another engine has the rows.
    own_intercepts_ : array of shape (n_users,), or None
        Everybody's intercept on top of the shared one; private, and None where ``heads_`` is.
    own_models_ : OwnModels or None
        Of nobody; None where ``heads_`` is.
    user_ids_ : array of shape (n_users,), or None
        In the order of ``heads_``; None where another engine has them.
    n_features_in_ : int
        How many features there are.
    feature_names_in_ : array of shape (n_columns,)
        What they are called; only where X, or the table, has names.

    Notes
    -----
    **Guarantee.** That of ``PrivateFedRep``'s default recipe (``fedrep.default``), of labels that are read as yes (above zero) or
    no: the same releases with the same sensitivities, but for the spread of labels, which is known.

    Examples
    --------
    >>> import numpy as np, commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=2000, n_features=8, seed=1)
    >>> block = next(users.blocks())
    >>> ids, y = np.repeat(users.ids, np.diff(block.offsets)), np.where(block.y > 0, "yes", "no")
    >>> model = cg.PrivateFedRepClassifier(rank=2, epsilon=2.0, classes=("no", "yes"), simulation_seed=1)
    >>> model.fit(block.X, y, users=ids).score(block.X, y, users=ids) > 0.8
    True
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = 2,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        classes: Any = (0, 1),
        budgets: Any = None,
        fit_intercept: bool = True,
        shared_mean: bool = True,
        n_rounds: int | None = None,
        keep_heads: bool = True,
        device: str = "cpu",
        simulation_seed: int | None = None,
        verbose: bool = False,
        user: Any = None,
    ) -> None:
        super().__init__(
            rank, epsilon, delta, budgets=budgets, fit_intercept=fit_intercept, shared_mean=shared_mean, loss="logistic",
            n_rounds=n_rounds, local_choice=False, keep_heads=keep_heads, device=device, simulation_seed=simulation_seed,
            verbose=verbose, user=user,
        )  # fmt: skip
        self.classes = classes

    def fit(
        self, X: Any, y: Any = None, users: Any = None, *, ledger: Any = None, checkpoint: Any = None, start: Any = None,
        gate: Any = Gate,
    ) -> Self:  # fmt: skip
        """As ``PrivateFedRep.fit``; every label is one of the two ``classes``. In a ``Users`` object, yes is above zero.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), or Users
        y : array of shape (n_rows,), default=None
        users : array of shape (n_rows,), default=None
            One id for each row.
        ledger : population of a ``DurableLedger``, default=None
            Pays for this fit.
        checkpoint : str or os.PathLike, default=None
            A file from which an interrupted fit goes on.
        start : Billboard, default=None
            An earlier billboard to go on from.
        gate : callable, default=Gate
            For audits.

        Returns
        -------
        self
        """
        if len(self.classes) != 2 or self.classes[0] == self.classes[1]:
            raise InputError(f"classes of PrivateFedRepClassifier must be two different labels, got {self.classes!r}.")
        self.classes_ = np.asarray(self.classes)
        if y is not None and not isinstance(X, Population):
            y = self._labels_in(y)
        return super().fit(X, y, users=users, ledger=ledger, checkpoint=checkpoint, start=start, gate=gate)

    def predict(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:  # type: ignore[override]
        """The likelier class of each row, by its person's own head.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            Raise ``UnknownUserError`` for a person who was not in training.

        Returns
        -------
        array of shape (n_rows,)
        """
        return self.classes_[(self.decision_function(X, users, strict=strict) > 0.0).astype(int)]

    def decision_function(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """The log-odds of yes.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            As in ``predict``.

        Returns
        -------
        array of shape (n_rows,)
        """
        return np.asarray(super().predict(X, users, strict=strict))

    def predict_proba(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """Probabilities of no and yes, averaged over what is not known of a person's head.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            As in ``predict``.

        Returns
        -------
        array of shape (n_rows, 2)
        """
        return probabilities(*super().predict(X, users, strict=strict, return_std=True))

    def score(self, X: Any, y: Any, users: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose class is right.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        users : array of shape (n_rows,), default=None
            One id for each row.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts.

        Returns
        -------
        float
        """
        return float(np.average(self.predict(X, users=users) == np.asarray(y), weights=sample_weight))

    def _labels_in(self, y: Any) -> np.ndarray:
        labels = np.asarray(y).ravel()
        yes, no = labels == self.classes_[1], labels == self.classes_[0]
        if not (yes | no).all():
            raise InputError(
                f"labels must be one of the classes {self.classes_[0]!r} (no) and {self.classes_[1]!r} (yes), and "
                f"{int((~(yes | no)).sum())} of {len(labels)} are not. Name yours: classes=('no', 'yes')."
            )
        return yes.astype(np.float64)
