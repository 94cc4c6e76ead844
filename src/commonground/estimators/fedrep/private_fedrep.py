"""Private FedRep: one shared embedding for everybody, one small head for each (P2, Algorithms 1 and 2)."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from commonground.accounting.budgets import Budget
from commonground.accounting.plan import Plan, Share
from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.clipping.sums import BinnedSums
from commonground.data.users import Users
from commonground.denoise.shrinkage import signal_share
from commonground.engines import sum_over_people
from commonground.engines.device import on_device
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel, check_rank
from commonground.estimators.fedrep import few_people
from commonground.estimators.fedrep.few_people import FEW, information
from commonground.estimators.fedrep.paper import PaperSettings, paper_embedding
from commonground.estimators.fedrep.sparse import sparse_recipe
from commonground.gate import Gate
from commonground.heads.kinds import RidgeHeads, SecondHalfHeads
from commonground.progress import progress_bar
from commonground.statistics.gradients import embedding_gradient_sums
from commonground.statistics.residuals import residual_gradient_sums
from commonground.steps.coordinates import (
    coefficients_for_features,
    release_coordinates,
    seen_in_coordinates,
    share_of_correlations,
)
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.head_prior import release_head_prior
from commonground.steps.initial_embedding import release_embedding_in_looks, release_initial_embedding
from commonground.steps.noisy_start import release_noisy_start
from commonground.steps.rounds import locate_sizes, release_clipped
from commonground.steps.shared_mean import SharedMean, shared_mean_rounds
from commonground.steps.square_releases import check_square_release

N_ROUNDS = 16
EXPECTED_RANK = 2  # by which the budget is divided where the rank is not known yet
MEAN_ROUNDS = 5  # for a first w₀, before there is an embedding
MEAN_EVERY = 4  # later on, every fourth round goes to w₀, whose residuals have shrunk with the embedding's error
# Those of the mean are spent only with shared_mean=True, those of correlations only where they can be seen.
PLAN = Plan(
    (
        Share("mean locate", 0.01, "where gradient sizes of the shared mean lie: one histogram"),
        Share("mean sizes", 0.01, "a histogram that chooses each round's clip", MEAN_ROUNDS),
        Share("mean rounds", 0.13, "clipped gradient sums for the shared mean", MEAN_ROUNDS),
        Share("scales", 0.008, "scales of features, against each other"),
        Share("correlations", 0.08, "moments of features; less where less is enough"),
        Share("scale", 0.01, "how large features are: one number"),
        Share("init", 0.11, "a first embedding, from everybody's own direction"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.06, "a histogram that chooses each round's clip", N_ROUNDS),
        Share("rounds", 0.65, "clipped gradient sums for the embedding, every fourth for the mean", N_ROUNDS),
        Share("prior", 0.006, "the prior of heads, for people with few rows"),
    )
)
INIT_WITH_MEAN = 0.3  # such labels are mostly noisy, and the start worth more than rounds; see docs/real_data.md


class PrivateFedRep(PersonalModel):
    """Personalised linear regression with a shared low-dimensional embedding, private for every person.

    Person j's model is θ_j = w₀ + U v_j plus an intercept of her own. The embedding U and the mean w₀ are learned from
    everybody and published; the head v_j is fitted at her side and shown to her alone.

    Parameters
    ----------
    rank : k, the number of shared directions; fewer than the features. "auto": as many, up to 20, as stand out of the known
        noise of the released start (free); ``billboard_.rank`` tells.
    epsilon, delta : the budget for everything that is published, per person.
    budgets : everybody her own ε in place of one for all: a mapping from person to ε, or one ε for each person in the order
        of ``users.ids``. Who has 0 takes no part and still gets a head. None: those of the table, if it has them.
    recipe : "default" (below), or "paper" for P2's algorithms line by line (see ``fedrep_paper``).
    fit_intercept : give each person an intercept of her own (local, free).
    shared_mean : release a shared linear model w₀ first (paid for).
    n_rounds : gradient rounds of the default recipe. None means 16, or 192 smaller ones where people are few
        (``few_people``; without a shared mean), which is decided from n, ε, δ, the features and the rank; 12 for sparse rows.
    local_choice : each person may keep the shared prediction, or a model of her own rows alone, in place of her head where it is
        clearly better on rows that she leaves out in turn (local, free; ``heads.choice``). Where people are too few for ε
        (``billboard_.statement.sharing_pays`` is then False, and ``fit`` warns), she keeps her own model unless another is.
    keep_heads : fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    device : "cpu", or "cuda" for a GPU that holds the rows and reads them in each round (extra ``gpu``).
    simulation_seed : repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : show a progress bar.
    paper_settings : hyper-parameters of ``recipe="paper"``; None means those of P2's experiments.

    Notes
    -----
    Follows P2 Algorithm 1 with these changes, all measured in docs/private_fedrep.md. Line 5: heads and gradients use
    all of a person's rows, not two small batches: at the true embedding the residual is orthogonal to the fitted
    directions, so the expected gradient is zero all the same. Line 8: contributions are divided by ‖v_j‖² and by the
    residual degrees of freedom. Line 10: the clip ψ is chosen anew each round from a released histogram, and the step
    is shrunk by the known noise; where people are few, rounds are many, small and followed more closely
    (``few_people``). Algorithm 2 is replaced by the second moment of everybody's own direction, which needs no clip
    (``noisy_start``). All of it happens in coordinates in which features vary alike, which are released first
    (``coordinates``); the billboard is in the features' own. Last, a prior for the heads of people with few rows is
    released (``head_prior``).

    **Guarantee.** Unit: one person with all her rows. Neighbours: her data replaced by any other; n is public. What
    reads data and reaches the billboard, each through the gate: three histograms of sizes (√2) and clipped sums (2C) of
    the scales of features, and twice the sum of their moments of Frobenius norm one (√2, as they are positive matrices;
    symmetric half), unless people are too few; the histogram of feature energies (√2); the sum of u_j u_jᵀ (√2 in
    Frobenius norm, released through its symmetric half); the histogram that locates gradient sizes (√2); per round the
    histogram of gradient sizes (√2) and the sum of gradients clipped to C (2C); and for w₀ its own locating histogram,
    size histograms and clipped sums, with the same sensitivities; for the prior, a histogram of noise against heads
    (√2) and the sum of v_j v_jᵀ/‖v_j‖² (√2). Where people are few, the start is three such sums of u_j u_jᵀ, rounds are
    those of ``few_people``, and features, heads and w₀ cost nothing. Their Gaussian costs μ are shares of the μ of
    (ε, δ) (``PLAN``) and compose exactly. With personal budgets these sensitivities and costs are those of the person
    with the largest; another's are μ_i/μ_max of them (``accounting.personal``). Sparse rows take the recipe of
    ``fedrep_sparse``, which releases the sum of people's feature shares (√2) besides, and a sum of normalised pairs (2)
    in place of u_j u_jᵀ. Rank, rounds, quantile, coordinates and step sizes are constants or functions of releases.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=3000, n_features=20, seed=1)
    >>> model = cg.PrivateFedRep(rank=2, epsilon=2.0, fit_intercept=False, shared_mean=False, simulation_seed=1)
    >>> board = model.fit(users).billboard_
    >>> cg.metrics.population_mse(board, users, truth) < 1.2 * cg.metrics.population_mse(truth.embedding, users, truth)
    True
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = 2,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        budgets: Any = None,
        recipe: str = "default",
        fit_intercept: bool = True,
        shared_mean: bool = True,
        n_rounds: int | None = None,
        local_choice: bool = True,
        keep_heads: bool = True,
        device: str = "cpu",
        simulation_seed: int | None = None,
        verbose: bool = False,
        paper_settings: PaperSettings | None = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.delta = delta
        self.budgets = budgets
        self.recipe = recipe
        self.fit_intercept = fit_intercept
        self.shared_mean = shared_mean
        self.n_rounds = n_rounds
        self.local_choice = local_choice
        self.keep_heads = keep_heads
        self.device = device
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.paper_settings = paper_settings

    @property
    def _takes_sparse(self) -> bool:
        return self.recipe == "default" and not self._finds_rank and self.device == "cpu"

    @property
    def _finds_rank(self) -> bool:
        return isinstance(self.rank, str) and self.rank == "auto"

    def _publish(self, users: Users, gate: Gate) -> Billboard:
        if not self._finds_rank or self.recipe == "paper":
            check_rank(self.rank, users.n_features, "PrivateFedRep")
        if not users.sparse:
            check_square_release(users.n_features, users.n_features, "PrivateFedRep")
        budget, users = self._declared(users)
        users = on_device(users, self.device)
        if self.recipe == "paper":  # has neither a mean nor intercepts
            if self._personal is not None:
                raise InputError("recipe 'paper' knows no personal budgets; use the default recipe, or one epsilon.")
            shared, local_intercept, prior = None, False, None
            embedding = paper_embedding(users, int(self.rank), budget, gate, self.paper_settings or PaperSettings())
        elif self.recipe == "default":
            local_intercept = self.fit_intercept
            shared, embedding, prior = self._default_recipe(users, budget, gate)
        else:
            raise InputError(f"recipe of PrivateFedRep must be 'default' or 'paper', got {self.recipe!r}.")
        pays = None if users.sparse else few_people.sharing_pays(users, embedding.shape[1], budget)
        statement = Statement.of_fit(
            gate,
            "Private FedRep",
            self.recipe,
            budget,
            users,
            budgets=self._personal,
            rank=embedding.shape[1],
        )
        return Billboard(
            embedding=embedding,
            mean=None if shared is None else shared.coef,
            intercept=0.0 if shared is None else shared.intercept,
            fit_intercept=local_intercept,
            feature_names=users.feature_names,
            statement=replace(statement, sharing_pays=pays),
            head_kind=SecondHalfHeads() if self.recipe == "paper" else RidgeHeads(bool(self.local_choice)),
            prior=prior,
        )

    def _default_recipe(
        self, users: Users, budget: Budget, gate: Gate
    ) -> tuple[SharedMean | None, np.ndarray, np.ndarray | None]:
        """w₀, U and the prior of heads."""
        if self.n_rounds is not None and (not isinstance(self.n_rounds, (int, np.integer)) or self.n_rounds < 1):
            raise InputError(f"n_rounds of PrivateFedRep must be None or an integer >= 1, got {self.n_rounds!r}.")
        if users.sparse:
            settings = int(self.rank), self.fit_intercept, self.shared_mean, self.n_rounds
            return *sparse_recipe(users, *settings, budget, gate, self.verbose), None
        people, d = users.total_weight, users.n_features
        k = EXPECTED_RANK if self._finds_rank else int(self.rank)
        few = self.n_rounds is None and not self.shared_mean
        few = few and information(people, d, k, budget.mu) < FEW
        n_rounds = self.n_rounds or (few_people.N_ROUNDS if few else N_ROUNDS)
        if few:
            mu = few_people.plan_for_few(information(people, d, k, budget.mu)).costs(budget)
        else:
            mu = _plan(self.shared_mean, n_rounds, people, d, budget.mu).costs(budget)
        with progress_bar("training", n_rounds + (MEAN_ROUNDS if self.shared_mean else 0), self.verbose) as advance:
            if few:
                U = self._few_people_start(users, gate, mu["init"])
                return None, few_people.rounds_for_few(users, U, self.fit_intercept, gate, mu, advance), None
            costs = mu["scales"], mu.get("correlations", 0.0)
            transform = release_coordinates(users, self.fit_intercept, gate, *costs)
            users = seen_in_coordinates(users, transform)
            energy = release_feature_energy(users, self.fit_intercept, gate, mu["scale"])
            shared = None
            if self.shared_mean:
                for shared in shared_mean_rounds(  # noqa: B007 (the last one stays)
                    users, gate, mu_locate=mu["mean locate"], mu_size=mu["mean sizes"], mu_sum=mu["mean rounds"],
                    n_rounds=MEAN_ROUNDS, feature_energy=energy, centred=self.fit_intercept,
                    constant=energy**0.5 if self.fit_intercept else 0.0,  # as large as the features, which vary alike here
                ):  # fmt: skip
                    advance()
            U = release_noisy_start(users, self.rank, shared, self.fit_intercept, gate, mu["init"])
            sums_from = partial(_gradient_sums, users, U, shared, self.fit_intercept)
            edge = locate_sizes(sums_from, gate, mu["locate"], "embedding")
            one_round = {"mu_size": mu["sizes"], "mu_sum": mu["rounds"]}
            for t in range(n_rounds):
                name = f"round {t + 1}"
                if shared is not None and t % MEAN_EVERY == MEAN_EVERY - 1:
                    shared = _refine_mean(users, U, shared, self.fit_intercept, energy, gate, name, **one_round)
                else:
                    sums_from = partial(_gradient_sums, users, U, shared, self.fit_intercept)
                    gradient = release_clipped(sums_from, edge, gate, name=name, **one_round)
                    edge = gradient.edge
                    U = _step(U, gradient.value.T, gradient.noise_std, gradient.people, energy)
                advance()
            prior = release_head_prior(users, U, shared, self.fit_intercept, gate, mu["prior"])
        if transform is not None:  # θ = Tᵀ U v = Q (R v): heads and their prior turn along
            U, R = np.linalg.qr(coefficients_for_features(transform, U))
            U, inverse = np.ascontiguousarray(U), np.linalg.inv(R)
            prior = inverse.T @ prior @ inverse
            shared = None if shared is None else replace(shared, coef=coefficients_for_features(transform, shared.coef))
        return shared, U, prior

    def _few_people_start(self, users: Users, gate: Gate, mu: float) -> np.ndarray:
        if self._finds_rank:  # a first look alone would have to tell it
            return release_initial_embedding(users, self.rank, None, self.fit_intercept, gate, mu)
        return release_embedding_in_looks(users, int(self.rank), self.fit_intercept, gate, mu)


def _plan(with_mean: bool, n_rounds: int, n_people: float, d: int, mu: float) -> Plan:
    """What each release may cost, from public numbers."""
    plan = PLAN.where("init", part=INIT_WITH_MEAN) if with_mean else PLAN.without("mean")
    correlations = next(share.part for share in PLAN if share.name == "correlations")
    plan = plan.where("correlations", part=share_of_correlations(n_people, d, mu, correlations))
    return plan.where("sizes", repeats=n_rounds).where("rounds", repeats=n_rounds)


def _step(U: np.ndarray, gradient: np.ndarray, noise_std: float, people: float, energy: float) -> np.ndarray:
    """Alg. 1, line 10. The average signal of the scale-free gradients is energy/k times the error: hence the factor."""
    d, k = U.shape
    across = gradient - U @ (U.T @ gradient)  # along U nothing can be learned: heads absorb it
    share = signal_share(across, noise_std, (d - k) * k)
    return np.ascontiguousarray(np.linalg.qr(U + share * k / (people * energy) * across)[0])


def _refine_mean(
    users: Users, U: np.ndarray, shared: SharedMean, local_intercept: bool, energy: float, gate: Gate, name: str,
    mu_size: float, mu_sum: float,
) -> SharedMean:  # fmt: skip
    """One step on w₀ with everybody's head fitted: what the mean still misses outside the span of U."""

    def sums_from(lowest: int) -> BinnedSums:
        return sum_over_people(users, residual_gradient_sums, U, shared.coef, shared.intercept, local_intercept, lowest)

    gradient = release_clipped(sums_from, shared.edge, gate, mu_size, mu_sum, f"{name}, shared mean")
    across = gradient.value[0] - U @ (U.T @ gradient.value[0])  # along U heads absorb it
    share = signal_share(across, gradient.noise_std, U.shape[0] - U.shape[1])
    coef = shared.coef + share / (gradient.people * energy) * across
    return SharedMean(coef, shared.intercept, gradient.edge)


def _gradient_sums(
    users: Users, U: np.ndarray, shared: SharedMean | None, local_intercept: bool, lowest: int
) -> BinnedSums:
    mean, intercept = (None, 0.0) if shared is None else (shared.coef, shared.intercept)
    return sum_over_people(users, embedding_gradient_sums, U, mean, intercept, local_intercept, lowest)
