"""Private FedRep for yes-or-no labels and for several classes, with scikit-learn's habits of classifiers."""

from typing import Any, Literal, Self

import numpy as np

from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT, RANK, SHARED_MEAN
from commonground.errors import InputError, check_count
from commonground.estimators.class_answers import ClassAnswers
from commonground.estimators.fedrep.classes import class_recipe
from commonground.estimators.fedrep.private_fedrep import PrivateFedRep
from commonground.gate import Gate
from commonground.heads.kinds import ClassHeads
from commonground.steps.square_releases import check_square_release

YES_OR_NO = (0, 1)
SEVERAL = "PrivateFedRepClassifier, several classes"
MOST_CLASSES = 200  # what people send about their prior grows with the square, what it takes to make it with the cube


class PrivateFedRepClassifier(ClassAnswers, PrivateFedRep):  # type: ignore[misc]  # predict answers with classes
    """Personalised classes with a shared model and an own part for everybody, private for every person.

    Two classes: ``PrivateFedRep(loss="logistic")`` that knows their names. Person j's log-odds are those of a shared linear model
    plus (Uᵀx)ᵀv_j and an intercept of her own, and her part is the posterior mode given the released prior, by Laplace's
    approximation. Three classes and more: shared linear scores of all classes plus class intercepts of her own, of the same kind
    (``fedrep.classes``); directions of her own are for two classes only. Probabilities are averaged over what is not known of her
    part, so a person with few rows is not told more than is known.

    Parameters
    ----------
    rank : int, "auto" or None, default=None
        The number of shared directions; 0 for a shared model and own intercepts, which is all there is for three classes and
        more. None: that of ``PrivateFedRep`` for two classes, else 0.
    epsilon, delta : float
        The budget for everything that is published, per person.
    classes : tuple of two or more, default=(0, 1)
        What labels are called; of two, no first. Public: declared, never looked up in the data. The default gives way to the
        values that a schema lists for a label that is a category.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody her own ε in place of one for all, as in ``PrivateFedRep``.
    fit_intercept : bool
        Give each person an intercept of her own (local, free); one for each class where there are several, which need it.
    shared_mean : bool
        Release a shared linear model of log-odds, too (paid for); several classes need it.
    n_rounds : int or None, default=None
        Gradient rounds; None: from releases, as in ``PrivateFedRep``; 4 for three classes and more.
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
    classes_ : array of shape (n_classes,)
        No and yes, or all classes in the order in which they were declared.
    billboard_ : Billboard
        All that is published: the shared part, as log-odds or scores of classes, and the statement of what it cost everybody.
    own_intercepts_ : array of shape (n_users,), or None
        Everybody's intercept on top of the shared one; private, and None where ``heads_`` is. Of several classes they are
        ``heads_``.
    own_models_ : OwnModels or None
        Of nobody; None where ``heads_`` is.

    Notes
    -----
    **Guarantee.** Of two classes, that of ``PrivateFedRep``'s default recipe (``fedrep.default``), of labels that are read as yes
    (above zero) or no: the same releases with the same sensitivities, but for the spread of labels, which is known. Of several,
    that of ``fedrep.classes``: the unit is a person with all her rows, replaced by any other; what she sends for all classes
    together is one vector, clipped as a whole. The classes are declared, and cost nothing.

    Examples
    --------
    >>> import numpy as np, commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=2000, n_features=8, seed=1)
    >>> block = next(users.blocks())
    >>> ids, y = np.repeat(users.ids, np.diff(block.offsets)), np.where(block.y > 0, "yes", "no")
    >>> model = cg.PrivateFedRepClassifier(rank=2, epsilon=2.0, classes=("no", "yes"), simulation_seed=1)
    >>> model.fit(block.X, y, users=ids).score(block.X, y, users=ids) > 0.8
    True

    Three classes:

    >>> y = np.array(["low", "middle", "high"])[np.digitize(block.X[:, 0], [-0.5, 0.5])]
    >>> model = cg.PrivateFedRepClassifier(epsilon=2.0, classes=("low", "middle", "high"), simulation_seed=1)
    >>> p = model.fit(block.X, y, users=ids).predict_proba(block.X[:4], users=ids[:4])
    >>> p.shape, p.sum(axis=1).round(6).tolist(), model.score(block.X, y, users=ids) > 0.6
    ((4, 3), [1.0, 1.0, 1.0, 1.0], True)
    """

    def __init__(
        self,
        rank: int | Literal["auto"] | None = None,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        *,
        classes: Any = YES_OR_NO,
        budgets: Any = None,
        fit_intercept: bool = FIT_INTERCEPT,
        shared_mean: bool = SHARED_MEAN,
        n_rounds: int | None = None,
        keep_heads: bool = True,
        device: str = "cpu",
        simulation_seed: int | None = None,
        verbose: bool = False,
        user: Any = None,
    ) -> None:
        super().__init__(
            rank, epsilon, delta, budgets=budgets, fit_intercept=fit_intercept, shared_mean=shared_mean, loss="logistic",  # type: ignore[arg-type]
            n_rounds=n_rounds, local_choice=False, keep_heads=keep_heads, device=device, simulation_seed=simulation_seed,
            verbose=verbose, user=user,
        )  # fmt: skip
        self.classes = classes

    def fit(
        self, X: Any, y: Any = None, users: Any = None, *, ledger: Any = None, checkpoint: Any = None, start: Any = None,
        gate: Any = Gate,
    ) -> Self:  # fmt: skip
        """As ``PrivateFedRep.fit``; every label is one of the ``classes``.

        In a ``Users`` object, of two classes yes is above zero; of several, labels are their places: 0, 1, 2, …, as a schema
        writes the values of a category.

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
            An earlier billboard to go on from; not for several classes.
        gate : callable, default=Gate
            For audits.

        Returns
        -------
        self
        """
        self.classes_ = np.asarray(declared_classes(self.classes, X))
        if isinstance(X, Population):
            if self._several and X.rows_are_here and X.features_are_known:
                _require_places(X, len(self.classes_))
        elif y is not None:
            y = self._labels_in(y)
        if self._several:
            self._require_settings()
        return super().fit(X, y, users=users, ledger=ledger, checkpoint=checkpoint, start=start, gate=gate)

    @property
    def _several(self) -> bool:
        return len(getattr(self, "classes_", self.classes)) > 2

    @property
    def _variant(self) -> str:
        return SEVERAL if self._several else super()._variant

    def variant_for(self, users: Population) -> str:
        # The schema of these people may declare several classes.
        return SEVERAL if len(declared_classes(self.classes, users)) > 2 else self._variant

    @property
    def _rank(self) -> int | Literal["auto"]:
        return (0 if self._several else RANK) if self.rank is None else self.rank

    def _require_settings(self) -> None:
        """What several classes can be given, before anything is paid for."""
        if len(self.classes_) > MOST_CLASSES:
            raise InputError(
                f"there are {len(self.classes_)} classes, and at most {MOST_CLASSES} can be told apart. Merge some."
            )
        if self._rank not in (0, "auto") or not (self.fit_intercept and self.shared_mean):
            raise InputError(
                f"several classes have a shared model and own class intercepts, and no directions yet: rank must be 0 or None, "
                f"fit_intercept and shared_mean True; got {self.rank!r}, {self.fit_intercept!r} and {self.shared_mean!r}. One "
                "class against the rest has directions: classes=('other', 'this')."
            )
        if self.n_rounds is not None:
            check_count("n_rounds of PrivateFedRepClassifier", self.n_rounds)

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        return self._publish_classes(users, gate) if self._several else super()._publish(users, gate)

    def _publish_classes(self, users: Population, gate: Gate) -> Billboard:
        if not users.sparse:
            check_square_release(users.n_features, users.n_features, "PrivateFedRepClassifier")
        kind, (budget, users) = ClassHeads(tuple(self.classes_.tolist())), self._declared(users)
        model = class_recipe(users, len(self.classes_), self.n_rounds, budget, gate, self.verbose)
        public = {"rank": 0, "loss": "logistic", "classes": len(self.classes_)}
        statement = self._statement(gate, "Private FedRep", budget, users, **public)
        return Billboard(
            embedding=np.zeros((users.n_features, 0)),
            mean=None,
            intercept=0.0,
            fit_intercept=True,
            feature_names=users.feature_names,
            statement=statement,
            head_kind=kind,
            spread=model.spread,
            noise=1.0,
            class_scores=np.vstack([model.coef, model.intercept]),
        )

    def predict_proba(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """Probabilities of the classes, averaged over what is not known of a person's head.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        users : array of shape (n_rows,), default=None
            One id for each row.
        strict : bool, default=False
            As in ``predict``.

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        return self._probabilities(X, users, strict)

    def _labels_in(self, y: Any) -> np.ndarray:
        if self._several:
            return ClassHeads(tuple(self.classes_.tolist())).numbers_of(y)
        labels = np.asarray(y).ravel()
        yes, no = labels == self.classes_[1], labels == self.classes_[0]
        if not (yes | no).all():
            no_class, yes_class = self.classes_.tolist()
            raise InputError(
                f"labels must be one of the classes {no_class!r} (no) and {yes_class!r} (yes), and "
                f"{int((~(yes | no)).sum())} of {len(labels)} are not. Name yours: classes=('no', 'yes'), "
                "or all of several, classes=('a', 'b', 'c')."
            )
        return yes.astype(np.float64)


def declared_classes(classes: Any, X: Any) -> tuple[Any, ...]:
    """Two or more names: the estimator's or, where it leaves that open, those in the schema of the table to fit."""
    names = tuple(np.asarray(classes).ravel().tolist()) if not isinstance(classes, list | tuple) else tuple(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(f"classes of PrivateFedRepClassifier must be two or more different labels, got {classes!r}.")
    schema = X.schema if isinstance(X, Population) else None
    if schema is None or schema.label.kind != "category":
        return names
    listed = tuple(schema.label.values)
    if names == YES_OR_NO and len(listed) >= 2:
        return listed
    if names != listed:
        raise InputError(
            f"the schema lists the classes {', '.join(map(repr, listed))} of {schema.label.name!r}, and classes= others, or "
            "another order. Leave classes= out."
        )
    return names


def _require_places(people: Population, n_classes: int) -> None:
    """An error where a label is no place of a class, before anything is spent; the operator's own look at her rows."""
    for block in people.blocks():
        with np.errstate(invalid="ignore"):
            places = (block.y >= 0) & (block.y < n_classes) & (block.y == np.floor(block.y))
        if not places.all():
            raise InputError(
                f"labels of a Users object are places of the {n_classes} classes, 0 to {n_classes - 1}, and some are not. Give "
                "fit(X, y, users=ids) with labels by name, or a schema whose label is a category with these values."
            )
