"""Ridge regression in which everybody sets her own ε (P3), and a better way to the same guarantee."""

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from commonground.accounting.budgets import Budget, PureBudget
from commonground.accounting.costs import is_size
from commonground.accounting.personal import PersonalBudgets
from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.clipping.ridge import bounded_ridge
from commonground.clipping.sums import from_symmetric_half
from commonground.data.population import Population
from commonground.data.users import Users
from commonground.defaults import DELTA, FIT_INTERCEPT
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_budget
from commonground.estimators.own_budgets import personal_budgets
from commonground.gate import Gate
from commonground.statistics.moments import PublicScale, RowMoments
from commonground.statistics.row_gradients import RowGradients
from commonground.statistics.statistic import SharedModel

DEPARTURES = (
    "Features and labels are clipped to public bounds; printed: assumed to lie in them, and scaled by the data's own range.",
    "Theorem 2.3's bound B on the coefficients is enforced by solving inside that ball; printed: assumed of every data set.",
    "The sensitivity is tighter: both halves of a replaced person together, and the longest ridge solution itself "
    "(clipping/ridge.py, gradient_gap): from a quarter of the printed noise, 0.37 at d = 12 and λ = 1.",
    '"sample" divides by the expected number of people drawn, which is public; printed: by the number drawn, which the noise '
    "then tells (commonground reproduce p3-table13 shows both).",
    "A person may have several rows: her rows' mean counts as one.",
    "L2-Laplace noise comes from a floating-point sampler over the operating system's entropy, rounded to a grid.",
)
METHODS = ("reweight", "sample", "uniform", "statistics", "descent")
# "statistics": chosen on simulated populations by benchmarks/ridge_statistics.py, see docs/personal_budgets.md
CONSTANT = 0.5  # the coordinate of the intercept, beside features within ±1/2
LABEL_SCALE = 1.6  # of the label's coordinate, in units of the features' largest norm
RIDGE = 0.6  # in units of the noise's spectral norm, about √p standard deviations
INTERCEPT_RIDGE = 0.1  # of the others' ridge
# "descent": chosen on the same simulated populations
N_ROUNDS = 40
CLIP = 0.2  # of a person's gradient, in units of the features' largest norm; labels have a range of one


class PersonalBudgetRidge(PersonalModel):
    """One linear model for everybody, private for each person at her own ε.

    Parameters
    ----------
    method : {"statistics", "descent", "reweight", "sample", "uniform"}, default="statistics"
        "statistics" (ours): noisy second moments, each person's scaled to her budget; (ε_i, δ), or ε_i with ``delta=0``.
        "descent": gradient steps, each person's clipped gradient scaled to her budget; (ε_i, δ). The better one for a thousand
        people and more; for a hundred its noise drowns everything.
        "reweight" (PDP-OP): the ridge solution with weights ∝ ε_i plus L2-Laplace noise; ε_i, δ = 0.
        "sample" (Jorgensen et al.): people drawn with a probability that rises with ε_i, then the same at one level.
        "uniform": everybody at the smallest ε.
    alpha : float or None, default=None
        λ of the ridge loss mean (y − θᵀx)² + λ‖θ‖², features scaled to [0, 1] and labels to at most 1 in size. None lets
        "statistics" choose from the known noise and means none for "descent"; the other methods need one.
    feature_bounds, label_bounds : (low, high), default=None
        Public: numbers, or for features one each. Values outside are moved to them. Both are needed.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody's ε: a mapping from person to ε, one for each person in the order of ``users.ids`` (of the rows, where each row
        is a person), or one number. A person with 0 takes no part. None: those of the table.
    delta : float or None, default=None
        Of "statistics" and "descent"; None means that of ``PrivateFedRep``. 0 is pure ε with L2-Laplace noise, for
        "statistics". The other methods have δ = 0.
    threshold : {"max", "mean"} or float, default="max"
        Of "sample": "max" or "mean" of the budgets, or a number.
    coefficient_bound : float or None, default=None
        P3's B for "reweight", "sample" and "uniform": a public bound on ‖θ‖ in scaled units, kept to by solving within that
        ball. None: the length that no ridge solution exceeds.
    fit_intercept : bool
        Shared, as one more feature that is always 1.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments; not private.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    Follows P3 Algorithm 1. P3's Theorem 2.3 assumes ‖θ‖ ≤ B for every data set; here it is enforced, so nothing is assumed. In
    "sample" the loss is divided by the expected number of people drawn, which is public, where P3 divides by the number drawn.

    **Guarantee.** Unit: one person with all her rows (without ``users=`` each row is a person). Neighbours: her data replaced
    by any other; n and everybody's ε are public. One quantity reads data. "reweight", "uniform": θ, which moves by at most
    g/λ · w_i/Σw in L2 norm, g = ``clipping.ridge.gradient_gap`` (at most P3's 2√d(1 + √d·B)), w_i = ε_i/ε_max; noise of density
    ∝ exp(−η‖z‖) with η = ε_max over the largest of these. "sample": the same θ of those drawn, at level t; a person drawn with
    probability π = (e^ε_i − 1)/(e^t − 1) then has log(1 + π(e^t − 1)) = ε_i, since both replacing and leaving out one of those
    drawn moves θ by at most that much. "statistics": Σ w_i mean z zᵀ with w_i = μ_i/μ_max and ‖z‖² ≤ r² by the public bounds
    (√2 r² in Frobenius norm, through the symmetric half), Gaussian; with δ = 0 L2-Laplace and w_i = ε_i/ε_max. "descent": in each
    of 40 rounds Σ w_i clip(gradient at the released θ; C), which she moves by 2w_iC, Gaussian; the μ² of all rounds add up to
    that of the budget. Scaling, ridge, rates and repair use public or released numbers only.

    Examples
    --------
    >>> import commonground as cg
    >>> X = np.outer(np.arange(2000), [0.37, 0.61, 0.83]) % 1
    >>> y = X @ [0.5, 0.2, 0.0] + 0.1
    >>> wishes = cg.datasets.segmented_budgets(2000)
    >>> model = PersonalBudgetRidge("statistics", feature_bounds=(0, 1), label_bounds=(0, 1), budgets=wishes)
    >>> model = model.set_params(simulation_seed=1).fit(X, y)
    >>> round(float(np.mean((model.predict(X) - y) ** 2) / y.var()), 1)
    0.1
    >>> bool(model.spent(7) <= wishes[7])
    True
    """

    def __init__(
        self,
        method: str = "statistics",
        alpha: float | None = None,
        feature_bounds: Any = None,
        label_bounds: tuple[float, float] | None = None,
        budgets: Any = None,
        delta: float | None = None,
        *,
        threshold: str | float = "max",
        coefficient_bound: float | None = None,
        fit_intercept: bool = FIT_INTERCEPT,
        simulation_seed: int | None = None,
        user: Any = None,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.feature_bounds = feature_bounds
        self.label_bounds = label_bounds
        self.budgets = budgets
        self.delta = delta
        self.threshold = threshold
        self.coefficient_bound = coefficient_bound
        self.fit_intercept = fit_intercept
        self.simulation_seed = simulation_seed
        self.user = user

    def fit(self, X: Any, y: Any = None, users: Any = None, **kwargs: Any) -> Self:
        """As for every estimator; without ``users=`` each row is a person of her own, called by its number.

        Parameters
        ----------
        X : Users or array of shape (n_rows, n_features)
        y : array of shape (n_rows,), default=None
            Labels, with plain arrays.
        users : array of shape (n_rows,), default=None
            One id for each row, with plain arrays.
        **kwargs : Any
            ``ledger``, ``checkpoint`` and ``gate``, as for every estimator.

        Returns
        -------
        self
        """
        if y is not None and users is None and self.user is None and not isinstance(X, Population):
            X, y, users = Users.from_arrays(X, y, np.arange(len(y))), None, None
        return super().fit(X, y, users, **kwargs)

    def _budgets_of(self, users: Population, in_order: bool) -> PersonalBudgets:
        if self.method not in METHODS:
            raise InputError(f"method of PersonalBudgetRidge must be one of {', '.join(METHODS)}, got {self.method!r}.")
        gaussian = self.method in ("statistics", "descent")
        delta = 0.0 if not gaussian else DELTA if self.delta is None else self.delta
        if delta != 0.0 or self.method == "descent":
            check_budget(1.0, delta, users.n_users)
        found = personal_budgets(self.budgets, users, delta, in_order)
        if found is None:
            raise InputError(
                "PersonalBudgetRidge needs budgets=: an epsilon for each person, a mapping, or one number for all."
            )
        # Coefficients, not sums, are released: the solver's rounding, too (``clipping.bounded_ridge``).
        if not gaussian:
            found = replace(found, rounding_room=2.0 * found.rounding_room)
        if self.method == "uniform":
            smallest = found.epsilons[found.epsilons > 0].min()
            return replace(found, epsilons=np.where(found.epsilons > 0, smallest, 0.0))
        return found

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        budgets = self._personal
        assert budgets is not None
        low, high, label_low, label_high = self._bounds(users.n_features)
        if self.coefficient_bound is not None and not (
            math.isfinite(self.coefficient_bound) and self.coefficient_bound > 0
        ):
            raise InputError(
                f"coefficient_bound of PersonalBudgetRidge must be None or a finite number > 0, got {self.coefficient_bound!r}."
            )
        if self.alpha is not None and not (np.isfinite(self.alpha) and self.alpha > 0):
            raise InputError(f"alpha of PersonalBudgetRidge must be a finite number > 0, got {self.alpha!r}.")
        budget = self._budget()
        if self.method in ("statistics", "descent"):
            scale = centred_scale(low, high, label_low, label_high, self.fit_intercept)
            learned = _released_statistics if self.method == "statistics" else _descended
            theta = learned(users.weighted(budgets.weights), scale, self.alpha, budget, gate)
        else:
            if self.alpha is None:
                raise InputError(
                    f"method {self.method!r} needs alpha=, the weight of the penalty: it decides how much noise there is. "
                    "Only 'statistics' chooses by itself."
                )
            scale = unit_scale(low, high, label_low, label_high, self.fit_intercept)
            theta = self._output_perturbation(users, budgets, scale, gate)
        coef, intercept = scale.linear_model(theta)
        statement = Statement.of_fit(gate, "Ridge with personal budgets", self.method, budget, users, budgets)
        if budget.delta == 0:
            statement = replace(statement, noise=gate.randomness.floating_point_description)
        return self._board(users, SharedModel(np.zeros((users.n_features, 0)), coef, intercept), statement)

    def _output_perturbation(
        self, users: Population, budgets: PersonalBudgets, scale: PublicScale, gate: Gate
    ) -> np.ndarray:
        assert self.alpha is not None
        d = users.n_features + bool(self.fit_intercept)
        radius = coefficient_radius(self.alpha, d)
        if self.coefficient_bound is not None:
            radius = min(radius, self.coefficient_bound)
        if self.method == "sample":
            epsilon = self._level(budgets.epsilons)
            probabilities = sampling_probabilities(budgets.epsilons, epsilon)
            weights = gate.sample(probabilities).astype(np.float64)
            total = float(probabilities.sum())
        else:
            epsilon, weights = budgets.largest.epsilon, budgets.weights
            total = float(weights.sum())
        moments = users.weighted(weights).sum(RowMoments(scale))
        # Room for rounding as for all people: that for those drawn would tell, in the stated noise, how many these were.
        moments = replace(moments, n_users=users.n_users)
        solution = bounded_ridge(moments, self.alpha, total, radius, "ridge coefficients")
        return gate.perturb(solution, epsilon * (1 - 1e-9)).value

    def _level(self, epsilons: np.ndarray) -> float:
        part = epsilons[epsilons > 0]
        if self.threshold in ("max", "mean"):
            return float(part.max() if self.threshold == "max" else part.mean())
        if is_size(self.threshold):
            return min(float(self.threshold), float(part.max()))
        raise InputError(
            f"threshold of PersonalBudgetRidge must be 'max', 'mean' or a number > 0, got {self.threshold!r}."
        )

    def spent(self, user_id: Any) -> float:
        """The ε that ``fit`` has spent of this person's budget, at the δ of the statement.

        Parameters
        ----------
        user_id : object
            As it was given to ``fit``, or the number of her row.

        Returns
        -------
        float
            At most her ε.
        """
        whole = super().spent(user_id)
        statement = self.billboard_.statement
        if statement.recipe != "sample":
            return whole
        personal = self._personal
        assert personal is not None
        epsilon = float(personal.epsilons[int(self._positions([user_id])[0])])
        return min(epsilon, statement.epsilon_spent)  # drawn with a probability that makes the one of the other

    def _bounds(self, d: int) -> tuple[np.ndarray, np.ndarray, float, float]:
        for name, bounds in (("feature_bounds", self.feature_bounds), ("label_bounds", self.label_bounds)):
            if bounds is None:
                raise InputError(
                    f"PersonalBudgetRidge needs {name}=(low, high): how far one person can move the result is bounded by "
                    "them. They must be public knowledge; the smallest and largest values of the data are not."
                )
        try:
            low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), d) for bound in self.feature_bounds)
            label_low, label_high = (float(bound) for bound in self.label_bounds)  # type: ignore[union-attr]
        except (TypeError, ValueError):
            raise InputError(
                f"feature_bounds must be (low, high), each a number or one for each of the {d} features, and label_bounds "
                f"two numbers; got {self.feature_bounds!r:.60} and {self.label_bounds!r:.60}."
            ) from None
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all() and label_low < label_high):
            raise InputError("bounds must be finite numbers with low < high.")
        return np.ascontiguousarray(low), np.ascontiguousarray(high), label_low, label_high


# ---- the methods' formulas ------------------------------------------------------------------------------------------


def coefficient_radius(alpha: float, d: int) -> float:
    """The longest ridge solution on x in [0, 1]^d, |y| ≤ 1: the largest s/(s² + λ) for singular values s ≤ √d.

    At most half of P3's B(λ) = min(1/√λ, √d/λ) where λ ≤ d.
    """
    return 0.5 / math.sqrt(alpha) if alpha <= d else math.sqrt(d) / (d + alpha)


def sampling_probabilities(epsilons: np.ndarray, threshold: float) -> np.ndarray:
    """How likely each person is drawn so that a threshold-private mechanism on those drawn is ε_i-private for her."""
    part = np.minimum(epsilons, threshold)
    return np.exp(part - threshold) * np.expm1(-part) / np.expm1(-threshold)  # (e^ε − 1)/(e^t − 1) without overflow


def unit_scale(low: np.ndarray, high: np.ndarray, label_low: float, label_high: float, intercept: bool) -> PublicScale:
    """P3's: x in [0, 1]^d and |y| ≤ 1, the label not shifted."""
    unit = max(abs(label_low), abs(label_high))
    bounds = low, high, label_low, label_high, unit
    return PublicScale(*bounds, centre=0.0, label_centre=0.0, constant=float(intercept), label_scale=1.0)


def centred_scale(
    low: np.ndarray, high: np.ndarray, label_low: float, label_high: float, intercept: bool
) -> PublicScale:
    """For "statistics": everything centred by its bounds, which halves each coordinate's largest size.

    The label gets a larger share of the norm than one coordinate among many: the noise on Σ x y, relative to y, is
    proportional to (r² + s²/4)/s for features of norm r and a label coordinate of scale s, smallest at s = 2r; a little less
    leaves Σ x xᵀ less noisy.
    """
    constant = CONSTANT if intercept else 0.0
    bounds, middle = (low, high, label_low, label_high, label_high - label_low), (label_low + label_high) / 2
    label_scale = LABEL_SCALE * math.sqrt(len(low) / 4 + constant**2)
    return PublicScale(*bounds, centre=0.5, label_centre=middle, constant=constant, label_scale=label_scale)


def _released_statistics(
    users: Population, scale: PublicScale, alpha: float | None, budget: Budget | PureBudget, gate: Gate
) -> np.ndarray:
    """Ridge on the released second moment, repaired: what is known of it without noise put in, made positive."""
    moments = users.sum(RowMoments(scale))
    total = users.total_weight  # public, as budgets are
    private, size = moments.bounded("second moments"), len(moments.value)
    if budget.delta == 0:
        pure = gate.perturb(private, budget.epsilon * (1 - 1e-9))
        # Of an entry: E‖z‖² = p(p + 1)
        half, noise_std = (pure.value, pure.event.scale * math.sqrt(pure.event.entries + 1))
    else:
        gaussian = gate.release(private, budget.mu * (1 - 1e-9))
        half, noise_std = gaussian.value, gaussian.noise_std
    return ridge_from_statistics(from_symmetric_half(half, size) / total, noise_std / total, scale, alpha)


def _descended(
    users: Population, scale: PublicScale, alpha: float | None, budget: Budget | PureBudget, gate: Gate
) -> np.ndarray:
    """θ by gradient steps from zero, each gradient released; the mean of the last half of them."""
    scale = replace(scale, label_scale=1.0)
    squared_norm = len(scale.low) / 4 + scale.constant**2  # the largest of the features
    # No curvature exceeds 2/rate: steps cannot diverge
    clip_norm, rate = (CLIP * math.sqrt(squared_norm), 1.0 / squared_norm)
    mu = budget.mu * (1 - 1e-9) / math.sqrt(N_ROUNDS)
    theta, mean = np.zeros(len(scale.low) + bool(scale.constant)), np.zeros(len(scale.low) + bool(scale.constant))
    for t in range(N_ROUNDS):
        sums = users.sum(RowGradients(scale, theta, clip_norm))
        gradient = gate.release(sums.bounded(f"round {t + 1}: gradient"), mu).value / users.total_weight
        theta = (theta - rate * gradient) / (1.0 + 2.0 * rate * (alpha or 0.0))
        if t >= N_ROUNDS // 2:
            mean += (theta - mean) / (t + 1 - N_ROUNDS // 2)
    return mean


def ridge_from_statistics(
    moment: np.ndarray, noise_std: float, scale: PublicScale, alpha: float | None = None
) -> np.ndarray:
    """θ of y = θᵀx in scaled units, from a noisy mean of z zᵀ; post-processing."""
    d = len(moment) - 1
    moment = moment.copy()
    if scale.constant:
        moment[d - 1, d - 1] = scale.constant**2
    eigenvalues, vectors = np.linalg.eigh(moment)
    moment = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
    ridge = np.full(d, RIDGE * noise_std * math.sqrt(d + 1) if alpha is None else alpha)
    if scale.constant:
        ridge[d - 1] *= INTERCEPT_RIDGE
    return np.linalg.solve(moment[:d, :d] + np.diag(ridge), moment[:d, d] / scale.label_scale)
