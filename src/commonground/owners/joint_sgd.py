"""P4's convex learners across owners: θ_j = u + x_j, u shared and private, x_j personal to owner j.

``recipe="default"``: u by noisy SGD over Poisson-sampled records or users with x_j at rest, projected onto a ball, iterates
averaged; then every owner fits x_j on its own rows. ``recipe="paper"`` is P4's Algorithm 1 in single steps, u and x_j together.
``aggregator="winsorised"`` is Algorithm 2: users' mean gradients are clipped to a small ball around the last released mean,
whose radius is found privately.
"""

import math
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from commonground.accounting.budgets import Budget
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE, SampledGaussianEvent, noise_multiplier_for
from commonground.billboard.board import name_each_other
from commonground.billboard.joint import JointStatement, SharedParameters, paying, refuse_unprotected
from commonground.clipping.sums import SampledSum
from commonground.data.features import as_floats
from commonground.errors import InputError, PrivacyWarning
from commonground.gate import SampledReleases, randomness_from
from commonground.ledger import Ledger, SharedLedger
from commonground.owners.gradients import (
    classification_errors,
    clipped_records,
    clipped_units,
    distance_counts,
    regression_errors,
    unit_means,
)
from commonground.owners.heads import cross_entropy, owner_scores, ridge_change

_COUNTS_NOISE = 3.0  # noise of the distance counts, in units of the gradients' multiplier: a tenth of the cost
_QUANTILE = 0.9  # of the units' distances from the centre, to which the ball reaches
_MOST_SINGLE_STEPS = 200_000


class _JointSGD(BaseEstimator):
    """Learning across owners; see JointSGDRegressor and JointSGDClassifier.

    Parameters
    ----------
    epsilon, delta : the budget of the shared coefficients.
    unit : "record", or "user" with all of her records at one owner (``users=`` of ``fit``; the same name at two owners is two
        users). The paper's recipe protects whole owners.
    user_level : "clip" clips a user's mean gradient; "group" clips records and counts ``records_per_user`` of them as a group.
    aggregator : "mean", or "winsorised" (P4 Algorithm 2; users only).
    collaboration : "joint-dp", or P4's baselines "full-dp" (no personal part), "per-silo" (every owner alone), "without-dp".
    clip_norm, radius : C of one gradient, and the radius of the ball for u. Features should have norms of about one.
    ridge : pulls an owner's x_j to zero, in units of one row's loss.

    Notes
    -----
    **Guarantee.** Unit record or user; neighbours differ in that its contribution is there or missing (``relation=
    "replace-one"``: is replaced by any other); numbers of owners and units are public. Each step releases the sum over a
    Poisson sample of gradients clipped to C (a unit moves it by C, replaced by 2C). A gradient depends on its own rows and on
    released values only: x_j rests at zero meanwhile. Winsorised: each step also releases, on a sample of its own, counts of
    users by distance from the centre (a user moves them by 1, replaced by 2), and then clips around the centre to the radius
    found; both kinds of release are composed together. All steps are charged before the first is drawn.

    **The paper's recipe protects owners.** Algorithm 1 moves x_j by the owner's records while u is trained, so one record
    steers all later gradients of its owner, and a step costs what one owner in n costs, not one record in mn as its noise
    assumes. Here owners are sampled with probability 1/n, each sends one clipped record gradient, and the cost is that of
    a whole owner: more noise than P4 prints, and a guarantee that holds. It takes ``steps`` steps, not P4's number, which
    would tell how many records there are; and at the end a fit on the owner's own rows takes the place of the last x_j.
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
        collaboration: str = "joint-dp",
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
        self.collaboration = collaboration
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
        self, X: Any, y: Any, owners: Any, users: Any = None, *, ledger: Ledger | SharedLedger | None = None
    ) -> Self:
        """Train u on all owners' rows, then every owner's x_j on its own."""
        self._validate()
        refuse_unprotected(ledger, self.collaboration)
        X, y = self._rows(X), self._labels(y)
        self.owner_ids_, owner = np.unique(np.asarray(owners), return_inverse=True)
        if not len(X) == len(y) == len(owner) > 0:
            raise InputError(f"X has {len(X)} rows, y {len(y)}, owners {len(owner)}. Give one of each per row.")
        self.n_features_in_ = X.shape[1] - int(self.fit_intercept)
        unit, n_units, rows, group = self._units(owner, users)
        if self.delta > 1 / n_units:
            message = f"delta = {self.delta:g} is larger than 1/(number of {self._protected}s) = {1 / n_units:g}."
            warnings.warn(message, PrivacyWarning, stacklevel=2)
        randomness = randomness_from(self.simulation_seed)
        run = _Run(self, randomness, ledger)
        personal = np.zeros((len(self.owner_ids_), self._n_outputs * X.shape[1]))
        shared = np.zeros(self._n_outputs * X.shape[1])
        if self.collaboration == "without-dp":
            shared = self._own_fit(X, y, np.zeros_like(shared), 1e-6)
        elif self.collaboration != "per-silo" and self.recipe == "paper":
            shared = run.single_steps(X, y, owner, personal)
        elif self.collaboration != "per-silo":
            shared = run.minibatches(X[rows], y[rows], unit, n_units, group)
        self.billboard_ = run.publish(shared, len(self.owner_ids_), n_units, X.shape[1])
        if self.collaboration != "full-dp":
            for j in range(len(self.owner_ids_)):  # each on its own side
                own = owner == j
                personal[j] = self._own_fit(X[own], y[own], shared, self.ridge) - shared
        self._shared, self._personal = shared, personal
        return self

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
        return owner_scores(X, self._shared.reshape(shape), self._personal.reshape(-1, *shape), owner_of)

    def _rows(self, X: Any) -> np.ndarray:
        matrix = as_floats(X, "features")
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise InputError(
                f"X must be a table of finite numbers, got shape {matrix.shape}. Fill in or drop what is missing."
            )
        return np.column_stack([matrix, np.ones(len(matrix))]) if self.fit_intercept else matrix

    def _units(self, owner: np.ndarray, users: Any) -> tuple[np.ndarray, int, np.ndarray, int]:
        """(unit of each row that takes part, how many units, those rows, draws that one person has)."""
        everybody = np.arange(len(owner))
        if self.recipe == "paper":
            return owner, len(self.owner_ids_), everybody, 1
        if self.unit == "record":
            return everybody, len(everybody), everybody, 1
        if users is None or len(users) != len(owner):
            raise InputError("unit='user' needs users= with one user for each row.")
        user = np.unique(
            np.stack([owner, np.unique(np.asarray(users), return_inverse=True)[1]]), axis=1, return_inverse=True
        )[1]
        n_users = int(user.max()) + 1
        if self.user_level == "clip":
            return user, n_users, everybody, 1
        if self.records_per_user is None or self.records_per_user < 1:
            raise InputError("user_level='group' needs records_per_user, a public bound on the records of one user.")
        order = np.argsort(user, kind="stable")
        counts = np.bincount(user)
        place = np.empty(len(user), dtype=np.int64)
        place[order] = np.arange(len(user)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = everybody[place < self.records_per_user]
        return np.arange(len(rows)), n_users, rows, self.records_per_user

    @property
    def _protected(self) -> str:
        return "owner" if self.recipe == "paper" else self.unit

    def _validate(self) -> None:
        Budget(self.epsilon, self.delta)
        choices = {
            "unit": ("record", "user"), "user_level": ("clip", "group"), "relation": (ADD_OR_REMOVE, REPLACE),
            "aggregator": ("mean", "winsorised"), "recipe": ("default", "paper"),
            "collaboration": ("joint-dp", "full-dp", "per-silo", "without-dp"),
        }  # fmt: skip
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        for name in ("clip_norm", "radius", "ridge"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a finite number > 0, got {getattr(self, name)!r}.")
        if not 0 < self.sampling_probability <= 1 or self.steps < 1:
            raise InputError("sampling_probability must lie in (0, 1] and steps must be at least 1.")
        if self.aggregator == "winsorised" and (self.unit, self.user_level) != ("user", "clip"):
            raise InputError("aggregator='winsorised' takes users' mean gradients: set unit='user', user_level='clip'.")

        if self.aggregator == "winsorised" and self.recipe == "paper":
            raise InputError(
                "recipe='paper' is Algorithm 1, which takes means: aggregator='winsorised' needs the default."
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

    def _labels(self, y: Any) -> np.ndarray:
        raise NotImplementedError

    def _errors(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _solve(self, X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
        """argmin of Σ losses + ridge/2 ‖θ − towards‖²; one owner's own business."""
        raise NotImplementedError


class _Run:
    """One private descent on u; all of its state is a function of released values."""

    def __init__(self, settings: _JointSGD, randomness: Any, ledger: Ledger | SharedLedger | None) -> None:
        self.s, self.randomness, self.ledger = settings, randomness, ledger
        self.events: tuple[SampledGaussianEvent, ...] = ()
        self.book: Ledger | None = None  # what they were charged to
        self.q, self.steps, self.multiplier = settings.sampling_probability, settings.steps, 0.0

    def minibatches(self, X: np.ndarray, y: np.ndarray, unit: np.ndarray, n_units: int, group: int) -> np.ndarray:
        s = self.s
        winsorised = s.aggregator == "winsorised"
        self.multiplier = noise_multiplier_for(
            s.epsilon, s.delta, self.q, self.steps, s.relation, group, beside=_COUNTS_NOISE if winsorised else None
        )
        n_drawn, size = int(unit.max()) + 1, s._n_outputs * X.shape[1]
        edges = s.clip_norm * 2.0 ** np.arange(-12, 2)  # distances from the centre: at most 2C
        planned = [self._event("clipped gradients", self.multiplier, 1.0, size, group)]
        if winsorised:
            planned.append(self._event("distances", _COUNTS_NOISE * self.multiplier, 1.0, len(edges), 1))
        gradients, *others = self._pay(planned)
        counts = others[0] if others else None
        expected = self.q * n_units * group  # a public number
        rate = self._rate(size, self.multiplier / expected)
        order = np.argsort(unit, kind="stable")
        starts = np.searchsorted(unit[order], np.arange(n_drawn + 1))
        u, mean, centre, reach = np.zeros(size), np.zeros(size), np.zeros(size), s.clip_norm
        by_user = s.unit == "user" and group == 1

        def drawn_rows(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sizes = starts[drawn + 1] - starts[drawn]
            within = np.arange(int(sizes.sum())) + np.repeat(starts[drawn] - (np.cumsum(sizes) - sizes), sizes)
            return order[within], np.repeat(np.arange(len(drawn)), sizes)

        def means_of(drawn: np.ndarray) -> np.ndarray:
            rows, place = drawn_rows(drawn)
            return unit_means(self._errors_at(u, X[rows], y[rows]), X[rows], place, len(drawn))

        for t in range(self.steps):
            if counts is not None:  # Alg. 2, line 6: the range first, privately …
                found = counts.release(
                    distance_counts(means_of(counts.sample(n_drawn)), centre, edges).bounded(
                        f"step {t + 1}: distances", s.relation
                    )
                )
                reach = _radius(found, edges)
            drawn = gradients.sample(n_drawn)
            if by_user:  # … then clipped to the ball found, and noised
                total = clipped_units(means_of(drawn), centre, reach)
            else:
                rows = drawn_rows(drawn)[0]
                total = clipped_records(self._errors_at(u, X[rows], y[rows]), X[rows], reach)
            scaled = SampledSum(total.value / reach, 1.0)  # the gate is paid for contributions of norm one
            slope = centre + reach * gradients.release(scaled.bounded(f"step {t + 1}: gradient", s.relation)) / expected
            if winsorised:
                centre = _inside(slope, s.clip_norm)
            u = _inside(u - rate * slope, s.radius)  # Alg. 1, line 6
            mean += (u - mean) / (t + 1)  # Alg. 1, line 8
        return mean

    def single_steps(self, X: np.ndarray, y: np.ndarray, owner: np.ndarray, personal: np.ndarray) -> np.ndarray:
        """Algorithm 1: one record a step (in expectation), u and x_j together; the unit is an owner."""
        s, n = self.s, len(personal)
        self.q = 1.0 / n
        if self.steps > _MOST_SINGLE_STEPS:
            raise InputError(f"recipe='paper' takes single steps; {self.steps:,} are too many. Use recipe='default'.")
        self.multiplier = noise_multiplier_for(s.epsilon, s.delta, self.q, self.steps, s.relation)
        (paid,) = self._pay([self._event("clipped gradients", self.multiplier, s.clip_norm, personal.shape[1], 1)])
        rate = self._rate(personal.shape[1], self.multiplier)
        rows_of = [np.flatnonzero(owner == j) for j in range(n)]
        u, mean = np.zeros(personal.shape[1]), np.zeros(personal.shape[1])
        for t in range(self.steps):
            total = SampledSum(np.zeros_like(u), s.clip_norm)
            for j in paid.sample(n):
                row = rows_of[j][[t % len(rows_of[j])]]
                one = clipped_records(self._errors_at(u + personal[j], X[row], y[row]), X[row], s.clip_norm)
                total = SampledSum(total.value + one.value, s.clip_norm)
                if s.collaboration != "full-dp":  # which has no personal part
                    personal[j] = _inside(personal[j] - rate * one.value, s.radius)
            u = _inside(u - rate * paid.release(total.bounded(f"step {t + 1}: gradient", s.relation)), s.radius)
            mean += (u - mean) / (t + 1)
        return mean

    def publish(self, shared: np.ndarray, n_owners: int, n_units: int, d: int) -> SharedParameters:
        s = self.s
        silent, open_ = s.collaboration == "per-silo", s.collaboration == "without-dp"
        statement = JointStatement(
            algorithm=type(s).__name__, recipe=s.recipe, epsilon=math.inf if open_ else 0.0 if silent else float(s.epsilon),
            delta=float(s.delta), unit=s._protected, relation=s.relation, n_owners=n_owners,
            n_units=n_units, sampling_probability=float(self.q), noise_multiplier=self.multiplier,
            steps=sum(event.steps for event in self.events), simulated=self.randomness.simulated,
            noise=self.randomness.fast_description, events=self.events,
            parameters={"clip_norm": s.clip_norm, "radius": s.radius, "aggregator": s.aggregator},
        )  # fmt: skip
        arrays = {} if silent else {"coefficients": shared.reshape(s._n_outputs, d)}
        return name_each_other(SharedParameters(arrays, statement), self.book)

    def _errors_at(self, u: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is clipped to zero
            return self.s._errors(X @ u.reshape(self.s._n_outputs, -1).T, y)

    def _rate(self, size: int, noise_share: float) -> float:
        """The rate of the averaged projected descent for gradients of this second moment (P4 §3.1.1)."""
        s = self.s
        if s.learning_rate is not None:
            return s.learning_rate
        return s.radius / (s.clip_norm * math.sqrt(self.steps * (1.0 + size * noise_share**2)))

    def _event(self, name: str, multiplier: float, clip_norm: float, entries: int, group: int) -> SampledGaussianEvent:
        s, contribution = self.s, SampledSum.contribution(clip_norm)
        noise_std = SampledReleases.noise_std(multiplier, contribution, entries)
        return SampledGaussianEvent(
            name, float(self.q), multiplier, self.steps, s.relation, group, contribution, noise_std, entries,
            self.randomness.simulated, s._protected,
        )  # fmt: skip

    def _pay(self, planned: list[SampledGaussianEvent]) -> list[SampledReleases]:
        """All steps, charged before the first is drawn."""
        with paying(self.ledger, Budget(self.s.epsilon, self.s.delta), planned) as book:
            paid = [SampledReleases(event, book, self.randomness) for event in planned]
        self.events, self.book = tuple(planned), book
        return paid


def _inside(vector: np.ndarray, radius: float) -> np.ndarray:
    """Projection onto the ball."""
    length = float(np.linalg.norm(vector))
    return vector if length <= radius else vector * (radius / length)


def _radius(counts: np.ndarray, edges: np.ndarray) -> float:
    """The distance within which most units lie, from noisy counts."""
    total = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[int(np.searchsorted(total, _QUANTILE * total[-1]))]) if total[-1] > 0 else float(edges[-1])


class JointSGDRegressor(_JointSGD):
    __doc__ = (_JointSGD.__doc__ or "").replace(
        "Learning across owners; see JointSGDRegressor and JointSGDClassifier.", "Least squares across owners (P4).", 1
    )
    _n_outputs = 1

    def predict(self, X: Any, owners: Any = None) -> np.ndarray:
        """By the row's owner's coefficients; rows of unknown owners, or without ``owners``, by the shared ones."""
        return self._scores(X, owners)[:, 0]

    def score(self, X: Any, y: Any, owners: Any = None) -> float:
        """R²."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, owners)))

    def _labels(self, y: Any) -> np.ndarray:
        labels = as_floats(y, "labels").ravel()
        if not np.isfinite(labels).all():
            raise InputError("y holds NaN or infinite values. Remove the rows or fill in the labels.")
        return labels

    def _errors(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        return regression_errors(scores, y)

    def _solve(self, X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
        return towards + ridge_change(X, y, towards, ridge)


class JointSGDClassifier(_JointSGD):
    __doc__ = (_JointSGD.__doc__ or "").replace(
        "Learning across owners; see JointSGDRegressor and JointSGDClassifier.",
        "Logistic regression across owners (P4). ``classes`` names all classes there can be: which occur is private.",
        1,
    )

    def __init__(self, classes: Any = (0, 1), epsilon: float = 1.0, delta: float = 1e-5, *, unit: str = "record",
                 user_level: str = "clip", records_per_user: int | None = None, relation: str = ADD_OR_REMOVE,
                 aggregator: str = "mean", recipe: str = "default", collaboration: str = "joint-dp",
                 sampling_probability: float = 0.05, steps: int = 400, clip_norm: float = 1.0, radius: float = 10.0,
                 learning_rate: float | None = None, ridge: float = 1.0, fit_intercept: bool = True,
                 simulation_seed: int | None = None) -> None:  # fmt: skip
        super().__init__(
            epsilon, delta, unit=unit, user_level=user_level, records_per_user=records_per_user, relation=relation,
            aggregator=aggregator, recipe=recipe, collaboration=collaboration, sampling_probability=sampling_probability,
            steps=steps, clip_norm=clip_norm, radius=radius, learning_rate=learning_rate, ridge=ridge,
            fit_intercept=fit_intercept, simulation_seed=simulation_seed,
        )  # fmt: skip
        self.classes = classes

    @property
    def _n_outputs(self) -> int:  # type: ignore[override]
        return len(self.classes)

    def predict(self, X: Any, owners: Any = None) -> np.ndarray:
        """The likeliest class, by the row's owner's coefficients."""
        return np.asarray(self.classes)[self._scores(X, owners).argmax(axis=1)]

    def score(self, X: Any, y: Any, owners: Any = None) -> float:
        """Accuracy."""
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

    def _errors(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        return classification_errors(scores, y)

    def _solve(self, X: np.ndarray, y: np.ndarray, towards: np.ndarray, ridge: float) -> np.ndarray:
        from scipy.optimize import minimize

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            loss, slope = cross_entropy(X, y, flat.reshape(self._n_outputs, -1))
            away = flat - towards
            return loss + ridge / 2 * float((away**2).sum()), slope.ravel() + ridge * away

        with np.errstate(all="ignore"):  # numbers too large for exp: then the owner keeps what is shared
            found = minimize(objective, towards, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
        return np.asarray(found) if np.isfinite(found).all() else towards.copy()
