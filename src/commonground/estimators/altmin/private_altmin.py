"""Private alternating minimisation: heads and embedding by turns, each at its best given the other (P1, Algorithms 1 to 3)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.billboard.board import Billboard
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Population
from commonground.defaults import ALTMIN_ROUNDS, DELTA, EPSILON, FIT_INTERCEPT, RANK, SHARED_MEAN
from commonground.denoise.shrinkage import signal_share
from commonground.errors import InputError, check_count
from commonground.estimators.altmin.paper import AltMinSettings, paper_embedding
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_rank
from commonground.estimators.fedrep.default import default_recipe
from commonground.estimators.fedrep.default_plan import FitSettings, levels_only
from commonground.estimators.fedrep.few_people import information, sharing_pays
from commonground.gate import Gate
from commonground.heads.kinds import ConvexHeads, HeadKind, PosteriorHeads, SecondHalfHeads
from commonground.losses import LOSSES
from commonground.progress import progress_bar
from commonground.statistics.convex_gradients import ConvexGradients, SignedLabels
from commonground.statistics.gradients import EmbeddingGradients
from commonground.statistics.residuals import ResidualGradients
from commonground.statistics.statistic import SharedModel
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.initial_embedding import release_initial_embedding
from commonground.steps.label_units import LabelUnit
from commonground.steps.moment_system import MomentSystem, release_moment_system
from commonground.steps.prior import LOOKS, release_prior
from commonground.steps.rounds import ClippedGradient, locate_sizes, release_clipped
from commonground.steps.shared_mean import shared_mean_rounds
from commonground.steps.square_releases import check_square_release

MEAN_ROUNDS = 5  # for a first w₀, before there is an embedding
MEAN_EVERY = 4  # later on, every fourth round goes to w₀
LARGEST_SYSTEM = 4000  # unknowns d k: the released matrix has (d k)²/2 numbers, each with noise of its own
# few_people.information, from which on the matrix is worth its price. Chosen on simulated people with levels of their own, the
# bank and the survey: below, rounds without it miss less, on correlated features too.
MATRIX_SEEN_FROM = 300.0
# Those of the mean are spent only with shared_mean=True, those of the prior only for losses that have one.
PLAN = Plan(
    (
        Share("mean scale", 0.01, "how large features are: one number"),
        Share("mean locate", 0.01, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.01, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.13, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share("init", 0.11, "a first embedding, from everybody's own direction"),
        Share("moment sizes", 0.01, "a histogram that chooses the clip of moments"),
        Share("moments", 0.12, "the dk × dk matrix of the linear system, once"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.06, "a histogram that chooses each round's clip", ALTMIN_ROUNDS),
        Share("rounds", 0.52, "clipped gradient sums for the embedding, every fourth for the mean", ALTMIN_ROUNDS),
        Share("prior spread", 0.004, "how far labels spread: one number"),
        Share("prior", 0.03, "looks at the prior of heads", LOOKS),
    )
)


class PrivateAltMin(PersonalModel):
    """Personalised models with a shared low-dimensional embedding, for features of any scales and correlations.

    Person j's model is θ_j = w₀ + U v_j plus an intercept of her own, as in ``PrivateFedRep``. Each round solves the linear
    system of the embedding's least-squares problem instead of taking a gradient step. So it also converges where features
    differ in scale or are correlated; the price is a matrix of dk × dk numbers to release.

    Parameters
    ----------
    rank : int
        k, the number of shared directions; fewer than the features.
    epsilon, delta : float
        The budget for everything that is published, per person.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody her own ε in place of one for all: a mapping from person to ε, or one ε for each person in the order of
        ``users.ids``. A person with 0 takes no part and still gets a head. None: those of the table, if it has them.
    loss : str, default="square"
        One of ``commonground.losses.LOSSES``: "logistic" for yes-or-no labels (above zero is a yes, predictions are log-odds);
        "huber" for labels with outliers, judged by each person's own spread; its heads have no prior, so people need about three
        rows for each of their rank + 1 numbers.
    recipe : {"default", "paper"}, default="default"
        "default" (below), or "paper" for P1's algorithms, with the departures listed in ``altmin.paper`` (square loss only).
    fit_intercept : bool
        Give each person an intercept of her own (local, free).
    shared_mean : bool
        Release a shared linear model w₀ first (paid for).
    n_rounds : int or None, default=None
        Rounds of the default recipe; None means 16.
    keep_heads : bool, default=True
        Fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    paper_settings : AltMinSettings or None, default=None
        Hyper-parameters of ``recipe="paper"``; None means those of P1's experiments.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    Follows P1 Algorithm 1 with these changes, measured in docs/private_altmin.md. Line 6 is solved for the *change* of U: with
    r the residual of everybody's best head, the best U + D has M vec(D) = b, M = Σ W Wᵀ and b = Σ r W. Then b shrinks with the
    error, its clip is chosen anew each round and its noise vanishes along with it, while M, which only has to point the right
    way, is released once and repaired by its known noise (``moment_system``). Lines 4 and 5: everybody, and all of her rows,
    in every round. Contributions are divided by ‖v_j‖², and a person's is clipped as a whole, not row by row. Algorithm 3 is
    replaced by the second moment of everybody's own direction, which needs no clip. For other losses b holds their gradients,
    and M times the loss's largest curvature bounds their second derivative from above. Log-odds with a shared
    mean and own intercepts, and models of so few people that noise would hide most of M (``few_people.information``), are
    learned as ``PrivateFedRep`` does, without M.

    **Guarantee.** Unit: one person with all her rows. Neighbours: her data replaced by any other; n is public. What reads data
    and reaches the billboard, each through the gate: the sum of u_j u_jᵀ (√2 in Frobenius norm, through its symmetric half);
    the histogram of sizes of people's moments (√2); the sum of moments clipped to Frobenius norm C (√2 C, as they are positive
    matrices; symmetric half); the histogram that locates gradient sizes (√2); per round the histogram of gradient sizes (√2)
    and the sum of gradients clipped to C (2C); and for w₀ the histogram of feature energies (√2), its own locating histogram,
    size histograms and clipped sums, with the same sensitivities. Their Gaussian costs μ are shares of the μ of (ε, δ)
    (``PLAN``) and compose exactly. With personal budgets these are the costs of the person with the largest; another's are
    μ_i/μ_max of them. What is learned as ``PrivateFedRep`` does has that recipe's guarantee (``fedrep.default``). Rank, rounds,
    quantiles and step sizes are constants or functions of releases.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=3000, n_features=20, seed=1)
    >>> model = cg.PrivateAltMin(rank=2, epsilon=2.0, fit_intercept=False, shared_mean=False, simulation_seed=1)
    >>> board = model.fit(users).billboard_
    >>> cg.metrics.population_mse(board, users, truth) < 1.2 * cg.metrics.population_mse(truth.embedding, users, truth)
    True
    """

    def __init__(
        self,
        rank: int = RANK,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        *,
        budgets: Any = None,
        loss: str = "square",
        recipe: str = "default",
        fit_intercept: bool = FIT_INTERCEPT,
        shared_mean: bool = SHARED_MEAN,
        n_rounds: int | None = None,
        keep_heads: bool = True,
        simulation_seed: int | None = None,
        verbose: bool = False,
        paper_settings: AltMinSettings | None = None,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.delta = delta
        self.budgets = budgets
        self.loss = loss
        self.recipe = recipe
        self.fit_intercept = fit_intercept
        self.shared_mean = shared_mean
        self.n_rounds = n_rounds
        self.keep_heads = keep_heads
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.paper_settings = paper_settings
        self.user = user

    @property
    def _variant(self) -> str:
        return "PrivateAltMin, recipe='paper'" if self.recipe == "paper" else "PrivateAltMin"

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        self._check_size(users)
        check_square_release(users.n_features, users.n_features * self.rank, "PrivateAltMin")
        budget, users = self._declared(users)
        pays: bool | None = None
        if self.recipe == "paper":  # has neither a mean nor intercepts
            head_kind: HeadKind = SecondHalfHeads()
            settings = self.paper_settings or AltMinSettings()
            model = SharedModel(paper_embedding(users, self.rank, budget, gate, settings))
            parameters: dict[str, Any] = {"schedule": settings.schedule, "rounds": settings.n_rounds}
        else:
            loss = LOSSES[self.loss]
            head_kind = PosteriorHeads(True, self.loss) if loss.has_prior else ConvexHeads(self.loss)
            if loss.has_prior:
                pays = sharing_pays(users, self.rank, budget)
            if self._without_matrix(users, budget):
                parameters, model = {}, default_recipe(users, self._settings(users), budget, gate, self.verbose)
            else:
                unit = LabelUnit()
                if not loss.log_odds:
                    unit = LabelUnit.of(users.label_range, with_level=bool(self.fit_intercept and self.shared_mean))
                model = unit.as_labels(self._default_recipe(unit.seen_by(users), budget, gate))
                parameters = {"rounds": self.n_rounds or ALTMIN_ROUNDS}
        parameters = {"rank": self.rank, "loss": self.loss, **parameters}
        statement = self._statement(gate, "Private AltMin", budget, users, **parameters)
        return self._board(users, model, replace(statement, sharing_pays=pays), head_kind)

    def _check_settings(self, people: Population) -> None:
        check_rank(self.rank, people.n_features, "PrivateAltMin")
        if self.loss not in LOSSES:
            raise InputError(f"loss of PrivateAltMin must be one of {', '.join(LOSSES)}, got {self.loss!r}.")
        if self.recipe == "paper" and self.loss != "square":
            raise InputError("recipe 'paper' knows the square loss only; use the default recipe.")
        if self.n_rounds is not None:
            check_count("n_rounds of PrivateAltMin", self.n_rounds)
        if self.recipe == "default" and self.loss != "logistic":
            LabelUnit.of(people.label_range)  # refuses what no grid holds
        self._check_size(people)

    def _check_size(self, users: Population) -> None:
        """Once more when values of categories are found, which are features, too."""
        unknowns = users.n_features * self.rank
        if unknowns > LARGEST_SYSTEM:
            raise InputError(
                f"{users.n_features} features times rank {self.rank} are {unknowns:,} unknowns, and PrivateAltMin releases a "
                f"matrix of their square; the most is {LARGEST_SYSTEM:,}. Use PrivateFedRep, which needs no such matrix."
            )

    def _settings(self, users: Population) -> FitSettings:
        """The same model, as ``PrivateFedRep``'s default recipe is asked for it."""
        log_odds = LOSSES[self.loss].log_odds
        return FitSettings(self.rank, log_odds=log_odds, label_range=users.label_range, n_rounds=self.n_rounds)

    def _without_matrix(self, users: Population, budget: Budget) -> bool:
        """Whether it is learned as ``PrivateFedRep`` does; from public numbers.

        Log-odds are, as a matrix of features as they are knows nothing of how rare answers are; and people of whom noise would
        hide most of the matrix.
        """
        if not (LOSSES[self.loss].has_prior and self.shared_mean and self.fit_intercept):
            return False
        if LOSSES[self.loss].log_odds:
            return True
        known = information(users.total_weight, users.n_features, self.rank, budget.mu)
        return known < MATRIX_SEEN_FROM or levels_only(users, self._settings(users), budget.mu)

    def _default_recipe(self, users: Population, budget: Budget, gate: Gate) -> SharedModel:
        loss, n_rounds, own_intercept = LOSSES[self.loss], self.n_rounds or ALTMIN_ROUNDS, self.fit_intercept
        plan = PLAN if self.shared_mean else PLAN.without("mean")
        if not loss.has_prior:
            plan = plan.without("prior")
        elif loss.log_odds:  # they spread by one, by definition
            plan = plan.without("prior spread")
        mu = plan.where("sizes", repeats=n_rounds).where("rounds", repeats=n_rounds).costs(budget)
        one_round = mu["sizes"], mu["rounds"]
        if loss.log_odds:
            users = users.seen_through(SignedLabels)
        with progress_bar("training", n_rounds + (MEAN_ROUNDS if self.shared_mean else 0), self.verbose) as advance:
            model, mean_edge = SharedModel(np.zeros((users.n_features, 0)), None, 0.0, own_intercept), 0
            if self.shared_mean:
                energy = release_feature_energy(users, own_intercept, gate, mu["mean scale"])
                for after in shared_mean_rounds(
                    users,
                    gate,
                    mu_locate=mu["mean locate"],
                    mu_size=mu["mean sizes"],
                    mu_sum=mu["mean rounds"],
                    n_rounds=MEAN_ROUNDS,
                    feature_energy=energy,
                    own_intercept=own_intercept,
                    constant=float(own_intercept),
                ):
                    model, mean_edge = after.model, after.edge
                    advance()
            model = replace(model, embedding=release_initial_embedding(users, self.rank, model, gate, mu["init"]))
            system = release_moment_system(users, model, gate, mu["moment sizes"], mu["moments"])
            if self.shared_mean and loss.log_odds:
                # Least squares has found the mean label's slope so far; for labels ±1 that of the log-odds is twice it.
                model = replace(model, coef=2 * model.slopes, intercept=2 * model.intercept)
            edge = locate_sizes(self._gradients(users, model), gate, mu["locate"], "embedding")
            for t in range(n_rounds):
                name, curvature = f"round {t + 1}", loss.curvature
                if self.shared_mean and t % MEAN_EVERY == MEAN_EVERY - 1:
                    sums_from = self._gradients(users, model, of_mean=True)
                    gradient = release_clipped(sums_from, mean_edge, gate, *one_round, f"{name}, shared mean")
                    model, mean_edge = _better_mean(model, system, gradient, curvature), gradient.edge
                else:
                    gradient = release_clipped(self._gradients(users, model), edge, gate, *one_round, name)
                    edge = gradient.edge
                    U = _better_embedding(model.embedding, system, gradient, curvature)
                    model = replace(model, embedding=U)
                advance()
            if loss.has_prior:
                model, U = replace(model, log_odds=loss.log_odds), model.embedding
                along = (U * np.linalg.solve(system.inverse_of_features, U)).sum(axis=0)
                model = release_prior(users, model, along, gate, mu.get("prior spread", 0.0), mu["prior"])
        return model

    def _gradients(self, users: Population, model: SharedModel, of_mean: bool = False) -> Callable[[int], BinnedSums]:
        """Everybody's gradient for U, or for w₀, as a function of where the window of sizes begins."""

        def sums_from(lowest: int) -> BinnedSums:
            if "convex" in LOSSES[self.loss].heads:
                return users.sum(ConvexGradients(model, self.loss, of_mean, lowest))
            return users.sum(ResidualGradients(model, lowest) if of_mean else EmbeddingGradients(model, lowest))

        return sums_from

    def predict_proba(self, X: Any, users: Any = None, *, strict: bool = False) -> np.ndarray:
        """Probabilities of no and yes; for loss="logistic".

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
        if not LOSSES[self.loss].log_odds:
            raise InputError(f"probabilities need loss='logistic', this model has loss={self.loss!r}. Use predict.")
        return self._probabilities(X, users, strict)


def _better_embedding(U: np.ndarray, system: MomentSystem, gradient: ClippedGradient, curvature: float) -> np.ndarray:
    """Alg. 2, lines 3 and 4, for the change of U. Along U nothing can be learned, as heads absorb it."""
    d, k = U.shape
    across = _across(U, gradient.value.T)
    share = signal_share(across, gradient.noise_std, (d - k) * k)
    change = system.solve(share / (gradient.people * curvature) * across)
    return np.ascontiguousarray(np.linalg.qr(U + _across(U, change))[0])


def _better_mean(model: SharedModel, system: MomentSystem, gradient: ClippedGradient, curvature: float) -> SharedModel:
    """The same for w₀, whose matrix is the features' own moment."""
    U = model.embedding
    d, k = U.shape
    across = _across(U, gradient.value[0])
    share = signal_share(across, gradient.noise_std, d - k)
    change = system.inverse_of_features @ (share / (gradient.people * curvature) * across)
    return replace(model, coef=model.slopes + _across(U, change))


def _across(U: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.asarray(values - U @ (U.T @ values))
