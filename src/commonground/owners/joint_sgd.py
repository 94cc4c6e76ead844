"""P4's convex learners across owners: θ_j = u + x_j, u shared and private, x_j personal to owner j.

How u is learned: ``minibatches`` (Algorithm 1 on samples, the default), ``winsorised`` (Algorithm 2),
``single_steps`` (Algorithm 1 with its single steps). Then every owner fits x_j on its own rows (``heads``), which costs nothing.
"""

import os
from collections.abc import Callable
from inspect import cleandoc
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from commonground.accounting.budgets import Budget, warn_of_a_large_delta
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE
from commonground.billboard.board import name_each_other
from commonground.billboard.joint import JointStatement, SharedParameters, refuse_ledger_with_gate
from commonground.data.features import as_floats
from commonground.errors import InputError, check_parameters, check_size
from commonground.gate import SampledReleases, randomness_from
from commonground.ledger import Ledger, SharedLedger
from commonground.owners.checkpoints import kept_in
from commonground.owners.descent import Descent, Trained
from commonground.owners.gradients import classification_errors, regression_errors
from commonground.owners.heads import cross_entropy_fit, owner_scores, ridge_fit
from commonground.owners.minibatches import minibatches
from commonground.owners.single_steps import single_steps
from commonground.owners.units import protected_units
from commonground.owners.winsorised import winsorised


class _JointSGD(BaseEstimator):
    """Learning across owners; see JointSGDRegressor and JointSGDClassifier.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-5
        The budget of the shared coefficients.
    unit : {"record", "user"}, default="record"
        Whom it protects: a record, or a user with all of her records at one owner (``users=`` of ``fit``; the same name at two
        owners is two users). The paper's recipe protects whole owners.
    user_level : {"clip", "group"}, default="clip"
        "clip" clips a user's mean gradient; "group" clips records and counts ``records_per_user`` of them as a group.
    records_per_user : int, default=None
        A public bound, for "group"; a user's further records are left out.
    relation : {"add-or-remove-one", "replace-one"}, default="add-or-remove-one"
        What neighbours differ in.
    aggregator : {"mean", "winsorised"}, default="mean"
        Users only: "winsorised" is P4's Algorithm 2 over samples of users.
    recipe : {"default", "paper"}, default="default"
        "paper" takes Algorithm 1's single steps and protects owners.
    sampling_probability, steps : float, int, default=0.05 and 400
        How often a unit is drawn, and how many steps there are.
    clip_norm, radius : float, default=1.0 and 10.0
        C of one gradient, and the radius of the ball for u. Features should have norms of about one.
    learning_rate : float, default=None
        None follows from public numbers.
    ridge : float, default=1.0
        Pulls an owner's x_j to zero, in units of one row's loss.
    fit_intercept : bool, default=True
        A further feature of ones.
    simulation_seed : int, default=None
        Repeatable noise, which protects nobody; the statement says so.

    Attributes
    ----------
    billboard_ : SharedParameters
        u and the statement of what it cost: all that is published.
    owner_ids_ : ndarray
        The owners, in order. What each keeps is its own.
    n_features_in_ : int
        How many features there are, without the ones of the intercept.

    Notes
    -----
    **Guarantee.** Unit record or user (the paper's recipe: owner); neighbours differ in that its contribution is there or
    missing, or is replaced by any other; numbers of owners and units are public. What reads data before it is published stands
    in the file of each algorithm (``minibatches``, ``winsorised``, …), and all of it is charged before the first
    step is drawn. An owner's x_j is made of u and its own rows.

    Without ``owners``, ``predict`` answers by u alone: what P4 calls full DP. Its other baselines are in
    ``commonground.reproduce``.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        unit: str = "record",
        user_level: str = "clip",
        records_per_user: int | None = None,
        relation: str = ADD_OR_REMOVE,
        aggregator: str = "mean",
        recipe: str = "default",
        sampling_probability: float = 0.05,
        steps: int = 400,
        clip_norm: float = 1.0,
        radius: float = 10.0,
        learning_rate: float | None = None,
        ridge: float = 1.0,
        fit_intercept: bool = True,
        simulation_seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.user_level = user_level
        self.records_per_user = records_per_user
        self.relation = relation
        self.aggregator = aggregator
        self.recipe = recipe
        self.sampling_probability = sampling_probability
        self.steps = steps
        self.clip_norm = clip_norm
        self.radius = radius
        self.learning_rate = learning_rate
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.simulation_seed = simulation_seed

    # ---- learning ----------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, owners: Any, users: Any = None, *, ledger: Ledger | SharedLedger | None = None,
        checkpoint: str | os.PathLike[str] | None = None, gate: Callable[..., SampledReleases] = SampledReleases,
    ) -> Self:  # fmt: skip
        """Train u on all owners' rows, then every owner's x_j on its own.

        Parameters
        ----------
        X, y : array-like, (n, d) and (n,)
            Everybody's rows.
        owners : array-like, (n,)
            Each row's owner.
        users : array-like, (n,), default=None
            Each row's user inside its owner; needed for ``unit="user"``.
        ledger : Ledger or SharedLedger, default=None
            What all steps are charged to before the first is drawn.
        checkpoint : path, default=None
            A file that keeps every released step. If training is interrupted, the same ``fit`` goes on from it and pays nothing
            more; when it is done, the file is removed.
        gate : callable, default=SampledReleases
            For audits: makes this fit's releases, which somebody watches.

        Returns
        -------
        self
        """
        self._validate()
        refuse_ledger_with_gate(gate, ledger)
        if checkpoint is not None and gate is not SampledReleases:
            raise InputError("gate= is for audits, which nobody resumes. Fit without checkpoint=.")
        X, y = self._rows(X), self._labels(y)
        self.owner_ids_, owner = np.unique(np.asarray(owners), return_inverse=True)
        if not len(X) == len(y) == len(owner) > 0:
            raise InputError(f"X has {len(X)} rows, y {len(y)}, owners {len(owner)}. Give one of each per row.")
        self.n_features_in_, n_owners = X.shape[1] - int(self.fit_intercept), len(self.owner_ids_)
        paper = self.recipe == "paper"
        unit = "record" if paper else self.unit
        protected = protected_units(owner, users, unit, self.user_level, self.records_per_user)
        unit, n_units = ("owner", n_owners) if paper else (unit, protected.count)
        warn_of_a_large_delta(self.delta, n_units, unit)
        public = {"units": n_units, "owners": n_owners, "features": self.n_features_in_}
        with kept_in(checkpoint, self, {**public, "ledger": getattr(ledger, "name", None)}) as replay:
            descent = Descent(
                budget=Budget(self.epsilon, self.delta), unit=unit, relation=self.relation,
                sampling_probability=1 / n_owners if paper else self.sampling_probability,
                steps=self.steps, clip_norm=self.clip_norm, radius=self.radius, learning_rate=self.learning_rate,
                n_outputs=self._n_outputs, errors=self._errors,
                randomness=randomness_from(self.simulation_seed), ledger=ledger, gate=gate, replay=replay,
            )  # fmt: skip
            if paper:
                trained = single_steps(descent, X, y, owner, n_owners)
            else:
                rows = protected.rows
                learn = winsorised if self.aggregator == "winsorised" else minibatches
                trained = learn(descent, X[rows], y[rows], protected)
        self.billboard_ = self._publish(descent, trained, n_owners, n_units)
        shared = trained.shared
        personal = np.zeros((n_owners, len(shared)))
        for j in range(n_owners):  # each on its own side
            own = owner == j
            personal[j] = self._own_fit(X[own], y[own], shared, self.ridge) - shared
        self._shared, self._of_owners = shared, personal
        return self

    def _publish(self, descent: Descent, trained: Trained, n_owners: int, n_units: int) -> SharedParameters:
        statement = JointStatement(
            algorithm=type(self).__name__, recipe=self.recipe, epsilon=float(self.epsilon), delta=float(self.delta),
            unit=descent.unit, relation=self.relation, n_owners=n_owners, n_units=n_units,
            sampling_probability=float(descent.sampling_probability), noise_multiplier=trained.noise_multiplier,
            steps=sum(event.steps for event in trained.events),
            simulated=descent.randomness.simulated or descent.gate is not SampledReleases,
            noise=descent.randomness.fast_description, events=trained.events,
            parameters={"clip_norm": self.clip_norm, "radius": self.radius, "aggregator": self.aggregator},
        )  # fmt: skip
        arrays = {"coefficients": trained.shared.reshape(self._n_outputs, -1)}
        return name_each_other(SharedParameters(arrays, statement), trained.book)

    def _scores(self, X: Any, owners: Any) -> np.ndarray:
        check_is_fitted(self, "billboard_")
        X = self._rows(X)
        if X.shape[1] != self.n_features_in_ + int(self.fit_intercept):
            raise InputError(f"expected rows of {self.n_features_in_} features, got an array of shape {X.shape}.")
        owner_of = np.full(len(X), -1)
        if owners is not None:
            owners = np.asarray(owners)
            if len(owners) != len(X):
                raise InputError(f"got {len(X)} rows but {len(owners)} owners; give one owner for each row.")
            at = np.searchsorted(self.owner_ids_, owners).clip(max=len(self.owner_ids_) - 1)
            owner_of = np.where(self.owner_ids_[at] == owners, at, -1)
        shape = self._n_outputs, X.shape[1]
        return owner_scores(X, self._shared.reshape(shape), self._of_owners.reshape(-1, *shape), owner_of)

    def _rows(self, X: Any) -> np.ndarray:
        matrix = as_floats(X, "features")
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise InputError(
                f"X must be a table of finite numbers, got shape {matrix.shape}. Fill in or drop what is missing."
            )
        return np.column_stack([matrix, np.ones(len(matrix))]) if self.fit_intercept else matrix

    def _validate(self) -> None:
        Budget(self.epsilon, self.delta)
        choices = {
            "unit": ("record", "user"),
            "user_level": ("clip", "group"),
            "relation": (ADD_OR_REMOVE, REPLACE),
            "aggregator": ("mean", "winsorised"),
            "recipe": ("default", "paper"),
        }
        for name, allowed in choices.items():
            given = getattr(self, name)
            if given not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, got {given!r}.")
        check_parameters(check_size, self, "clip_norm", "radius", "ridge")
        if not 0 < self.sampling_probability <= 1 or self.steps < 1:
            raise InputError("sampling_probability must lie in (0, 1] and steps must be at least 1.")
        if self.aggregator != "mean" and (self.unit, self.user_level) != ("user", "clip"):
            raise InputError(
                f"aggregator={self.aggregator!r} takes users' mean gradients: set unit='user', user_level='clip'."
            )
        if self.aggregator != "mean" and self.recipe == "paper":
            raise InputError(
                f"recipe='paper' is Algorithm 1, which takes means: aggregator={self.aggregator!r} needs the default."
            )

    def _own_fit(self, X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
        """``_solve``; rows too large for it leave their owner with the shared coefficients, and stop nobody's fit."""
        with np.errstate(all="ignore"):
            try:
                found = self._solve(X, y, towards, ridge)
            except (np.linalg.LinAlgError, ValueError):
                return towards
        return found if np.isfinite(found).all() else towards

    # what a subclass says
    _n_outputs: int
    _errors: Callable[[np.ndarray, np.ndarray], np.ndarray]  # of scores and labels: d loss / d scores
    _solve: Callable[..., np.ndarray]  # argmin of Σ losses + ridge/2 ‖θ − towards‖²; one owner's own business

    def _labels(self, y: Any) -> np.ndarray:
        raise NotImplementedError


class JointSGDRegressor(RegressorMixin, _JointSGD):
    __doc__ = (_JointSGD.__doc__ or "").replace(
        "Learning across owners; see JointSGDRegressor and JointSGDClassifier.", "Least squares across owners (P4).", 1
    )
    _n_outputs, _errors, _solve = 1, staticmethod(regression_errors), staticmethod(ridge_fit)

    def predict(self, X: Any, owners: Any = None) -> np.ndarray:
        """By the row's owner's coefficients; rows of unknown owners, or without ``owners``, by the shared ones.

        Parameters
        ----------
        X : array-like, (n, d)
        owners : array-like, (n,), default=None
            Each row's owner.

        Returns
        -------
        ndarray, (n,)
        """
        return self._scores(X, owners)[:, 0]

    def score(self, X: Any, y: Any, owners: Any = None) -> float:
        """R².

        Parameters
        ----------
        X, y : array-like, (n, d) and (n,)
        owners : array-like, (n,), default=None
            Each row's owner.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, owners)))

    def _labels(self, y: Any) -> np.ndarray:
        labels = as_floats(y, "labels").ravel()
        if not np.isfinite(labels).all():
            raise InputError("y holds NaN or infinite values. Remove the rows or fill in the labels.")
        return labels


class JointSGDClassifier(ClassifierMixin, _JointSGD):
    __doc__ = (
        cleandoc(_JointSGD.__doc__ or "")
        .replace(
            "Learning across owners; see JointSGDRegressor and JointSGDClassifier.",
            "Logistic regression across owners (P4).",
            1,
        )
        .replace(
            "epsilon, delta :",
            "classes : sequence, default=(0, 1)\n    All classes there can be: which occur is private.\nepsilon, delta :",
            1,
        )
        .replace(
            "n_features_in_ : int",
            "classes_ : ndarray\n    The classes, in the order in which they were named.\nn_features_in_ : int",
            1,
        )
    )
    _errors, _solve = staticmethod(classification_errors), staticmethod(cross_entropy_fit)

    def __init__(self, classes: Any = (0, 1), epsilon: float = 1.0, delta: float = 1e-5, *, unit: str = "record",
                 user_level: str = "clip", records_per_user: int | None = None, relation: str = ADD_OR_REMOVE,
                 aggregator: str = "mean", recipe: str = "default", sampling_probability: float = 0.05, steps: int = 400,
                 clip_norm: float = 1.0, radius: float = 10.0, learning_rate: float | None = None, ridge: float = 1.0,
                 fit_intercept: bool = True, simulation_seed: int | None = None) -> None:  # fmt: skip
        super().__init__(
            epsilon, delta, unit=unit, user_level=user_level, records_per_user=records_per_user, relation=relation,
            aggregator=aggregator, recipe=recipe, sampling_probability=sampling_probability, steps=steps,
            clip_norm=clip_norm, radius=radius, learning_rate=learning_rate, ridge=ridge, fit_intercept=fit_intercept,
            simulation_seed=simulation_seed,
        )  # fmt: skip
        self.classes = classes

    @property
    def _n_outputs(self) -> int:  # type: ignore[override]
        return len(self.classes)

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order in which they were named."""
        return np.asarray(self.classes)

    def predict(self, X: Any, owners: Any = None) -> np.ndarray:
        """The likeliest class, by the row's owner's coefficients.

        Parameters
        ----------
        X : array-like, (n, d)
        owners : array-like, (n,), default=None
            Each row's owner.

        Returns
        -------
        ndarray, (n,)
        """
        return np.asarray(self.classes)[self._scores(X, owners).argmax(axis=1)]

    def score(self, X: Any, y: Any, owners: Any = None) -> float:
        """Accuracy.

        Parameters
        ----------
        X, y : array-like, (n, d) and (n,)
        owners : array-like, (n,), default=None
            Each row's owner.

        Returns
        -------
        float
        """
        return float((self.predict(X, owners) == np.asarray(y)).mean())

    def _labels(self, y: Any) -> np.ndarray:
        position = {label: at for at, label in enumerate(np.asarray(self.classes).tolist())}
        labels = np.asarray(y).ravel().tolist()
        unknown = next((label for label in labels if label not in position), None)
        if unknown is not None or len(position) < 2:
            raise InputError(
                f"label {unknown!r} is not among the classes {list(position)}. Name all of them, at least two."
            )
        return np.array([position[label] for label in labels])
