"""Private FedRep: one shared embedding for everybody, one small head for each (P2, Algorithms 1 and 2)."""

from dataclasses import replace
from typing import Any, Literal

from commonground.accounting.budgets import Budget
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT, RANK, SHARED_MEAN
from commonground.engines.device import DeviceReader, on_device
from commonground.errors import InputError, check_count
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_rank
from commonground.estimators.fedrep.default import default_recipe
from commonground.estimators.fedrep.default_plan import FitSettings
from commonground.estimators.fedrep.few_people import MANY_PEOPLE_FROM, information, recipe_for_few, sharing_pays
from commonground.estimators.fedrep.many_people import recipe_for_many
from commonground.estimators.fedrep.paper import PaperSettings, paper_embedding
from commonground.estimators.fedrep.start import model_of, start_from
from commonground.gate import Gate
from commonground.heads.kinds import HeadKind, PosteriorHeads, RidgeHeads, SecondHalfHeads
from commonground.losses import losses_of
from commonground.statistics.statistic import SharedModel
from commonground.steps.label_units import LabelUnit
from commonground.steps.square_releases import check_square_release

EXPECTED_RANK = 2  # by which the budget is divided where the rank is not known yet


class PrivateFedRep(PersonalModel):
    """Personalised linear regression with a shared low-dimensional embedding, private for every person.

    Person j's model is θ_j = w₀ + U v_j plus an intercept of her own. The embedding U and the mean w₀ are learned from
    everybody and published; the head v_j is fitted at her side and shown to her alone.

    Parameters
    ----------
    rank : int or "auto"
        k, the number of shared directions; fewer than the features. 0: a shared model and own intercepts. "auto": as many, up
        to 20, as stand out of the known noise of the released start (free); ``billboard_.rank`` tells.
    epsilon, delta : float
        The budget for everything that is published, per person.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody her own ε in place of one for all: a mapping from person to ε, or one ε for each person in the order of
        ``users.ids``. A person with 0 takes no part and still gets a head. None: those of the table, if it has them.
    recipe : {"default", "paper"}, default="default"
        "default" (below), or "paper" for P2's algorithms, with the departures listed in ``fedrep.paper``.
    fit_intercept : bool
        Give each person an intercept of her own (local, free).
    shared_mean : bool
        Release a shared linear model w₀ first (paid for).
    loss : {"square", "logistic"}, default="square"
        "logistic": labels are yes (above zero) or no, and predictions log-odds; see ``PrivateFedRepClassifier``.
    n_rounds : int or None, default=None
        Gradient rounds. None means 7 to 18, by what the first four have found; without mean and intercepts 16, or 192 smaller
        ones where people are few, which is decided from n, ε, δ, the features and the rank.
    local_choice : bool, default=True
        A person with at least twice as many rows as features may keep the shared prediction, or a model of her own rows alone, in
        place of her head where it is clearly better on rows that she leaves out in turn (local, free; ``heads.choice``). Where
        people are too few for ε (``billboard_.statement.sharing_pays`` is then False, and ``fit`` warns), she keeps her own
        model unless another is.
    keep_heads : bool, default=True
        Fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    device : {"cpu", "cuda"}, default="cpu"
        "cuda" for a GPU that holds the rows and reads them in each round (extra ``gpu``).
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    paper_settings : PaperSettings or None, default=None
        Hyper-parameters of ``recipe="paper"``; None means those of P2's experiments, with Theorem 10's rate.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    Follows P2 Algorithm 1 with changes that are measured in docs/private_fedrep.md and docs/posterior_heads.md.
    With a shared mean, own intercepts, log-odds or sparse rows, ``fedrep.default``: rounds on the likelihood in which people's
    own parts are averaged out, and heads that are posteriors. Without (``many_people``, ``few_people``): heads and gradients
    use all of a person's rows, contributions are divided by ‖v_j‖² and by the residual degrees of freedom, the clip ψ is chosen
    anew each round from a released histogram, and the step is shrunk by the known noise; Algorithm 2 is replaced by the second
    moment of everybody's own direction, which needs no clip. All of it happens in coordinates in which features vary alike,
    which are released first; the billboard is in the features' own.

    **Guarantee.** Unit: one person with all her rows. Neighbours: her data replaced by any other; n is public. What reads data
    and reaches the billboard passes the gate, with the sensitivities told in ``fedrep.default``, ``many_people`` and
    ``few_people``. Their Gaussian costs μ are shares of the μ of (ε, δ) (each recipe's ``PLAN``; docs/plans.md) and compose
    exactly. With personal budgets these sensitivities and costs are those of the person with the largest; another's are
    μ_i/μ_max of them (``accounting.personal``). Rank, rounds, quantile, coordinates and step sizes are constants or functions
    of releases.

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
        rank: int | Literal["auto"] = RANK,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        *,
        budgets: Any = None,
        recipe: str = "default",
        fit_intercept: bool = FIT_INTERCEPT,
        shared_mean: bool = SHARED_MEAN,
        loss: str = "square",
        n_rounds: int | None = None,
        local_choice: bool = True,
        keep_heads: bool = True,
        device: str = "cpu",
        simulation_seed: int | None = None,
        verbose: bool = False,
        paper_settings: PaperSettings | None = None,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.delta = delta
        self.budgets = budgets
        self.recipe = recipe
        self.fit_intercept = fit_intercept
        self.shared_mean = shared_mean
        self.loss = loss
        self.n_rounds = n_rounds
        self.local_choice = local_choice
        self.keep_heads = keep_heads
        self.device = device
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.paper_settings = paper_settings
        self.user = user

    @property
    def _variant(self) -> str:
        if self.recipe == "paper":
            return "PrivateFedRep, recipe='paper'"
        if self.device != "cpu":
            return "PrivateFedRep, device='cuda'"
        return "PrivateFedRep, rank='auto'" if self._finds_rank else "PrivateFedRep"

    @property
    def _finds_rank(self) -> bool:
        return isinstance(self._rank, str) and self._rank == "auto"

    def _check_settings(self, people: Population) -> None:
        if self.loss not in losses_of(PosteriorHeads.name) or (self.loss == "logistic" and self.recipe == "paper"):
            raise InputError(
                f"loss of PrivateFedRep must be 'square', or 'logistic' with the default recipe, got {self.loss!r}."
            )
        least = 0 if self.recipe != "paper" and (self.shared_mean or self.fit_intercept) else 1
        # A rank that is to be found is one at least where nothing else is learned.
        rank = least if self._finds_rank and self.recipe != "paper" else self._rank
        check_rank(rank, people.n_features, "PrivateFedRep", least)
        if self.recipe == "default":
            if self.n_rounds is not None:
                check_count("n_rounds of PrivateFedRep", self.n_rounds)
            if self.loss == "square":
                LabelUnit.of(people.label_range)  # refuses what no grid holds
        if self.device != "cpu":
            DeviceReader(self.device)  # refuses what is not there

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        if not users.sparse:
            check_square_release(users.n_features, users.n_features, "PrivateFedRep")
        budget, users = self._declared(users)
        start = None if self._start is None else start_from(self._start, users, gate.randomness.simulated)
        users = on_device(users, self.device)
        # Before anything is paid, where the rank is known: whoever has warnings as errors has then lost nothing.
        pays = None if self._finds_rank else self._sharing_pays(users, int(self._rank), budget)
        model = self._recipe(users, budget, gate, start)
        pays = self._sharing_pays(users, model.rank, budget) if self._finds_rank else pays
        public = {"rank": model.rank, "loss": self.loss} | ({} if start is None else {"start": start.fingerprint})
        statement = self._statement(gate, "Private FedRep", budget, users, **public)
        return self._board(users, model, replace(statement, sharing_pays=pays), self._head_kind(model))

    def _sharing_pays(self, users: Population, rank: int, budget: Budget) -> bool | None:
        return None if users.sparse or not rank else sharing_pays(users, rank, budget)

    def _head_kind(self, model: SharedModel) -> HeadKind:
        if self.recipe == "paper":
            return SecondHalfHeads()
        if model.spread is None:  # too few people to release a prior from
            return RidgeHeads(bool(self.local_choice))
        return PosteriorHeads(bool(self.local_choice), self.loss)

    def _recipe(self, users: Population, budget: Budget, gate: Gate, start: Billboard | None) -> SharedModel:
        """Which of the recipes trains, from public numbers alone."""
        if self.recipe == "paper":  # has neither a mean nor intercepts
            settings = self.paper_settings or PaperSettings()
            return SharedModel(paper_embedding(users, int(self._rank), budget, gate, settings))
        logistic, how = self.loss == "logistic", (budget, gate, self.verbose)
        asked = FitSettings(
            rank=self._rank,
            own_intercept=self.fit_intercept,
            shared_mean=self.shared_mean,
            log_odds=logistic,
            label_range=users.label_range,
            n_rounds=self.n_rounds,
        )
        old = None if start is None else model_of(start, asked)
        if logistic or users.sparse or self.shared_mean or self.fit_intercept:
            if old is not None:
                if old.spread is None:
                    raise InputError(
                        "start= has no prior of heads, by which people's own parts are averaged out. Start from a board that "
                        "this estimator has made, or from none."
                    )
                asked = replace(asked, rank=old.rank, start=old)
            return default_recipe(users, asked, *how)
        if old is not None:
            return recipe_for_many(users, old.rank, self.n_rounds, *how, old)
        k = EXPECTED_RANK if self._finds_rank else int(self._rank)
        known = information(users.total_weight, users.n_features, k, budget.mu)
        if known < MANY_PEOPLE_FROM and self.n_rounds is None:
            return recipe_for_few(users, self._rank, known, *how)
        return recipe_for_many(users, self._rank, self.n_rounds, *how)
