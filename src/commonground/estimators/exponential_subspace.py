"""The exponential mechanism over subspaces (P1, Algorithm 4), with a zoom that makes it feasible for a few features."""

import math
from typing import Any

import numpy as np

from commonground.accounting.budgets import PureBudget
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import EPSILON, FIT_INTERCEPT
from commonground.errors import InputError, check_count, check_parameters, check_size
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_rank
from commonground.gate import Gate
from commonground.heads.kinds import RidgeHeads, SecondHalfHeads
from commonground.public_draws import (
    PublicGenerator,
    public_generator,
    random_subspaces,
    subspace_net,
    subspaces_around,
)
from commonground.statistics.paper.exponential import LipschitzScores
from commonground.statistics.statistic import SharedModel
from commonground.statistics.subspace_scores import SubspaceScores
from commonground.steps.subspace_choice import choose_subspace

DEPARTURES = (
    "The exponent is ε/(2Δ) with the true sensitivity Δ of the sum of scores: ξ L_f C for a Lipschitz loss, B for the squared "
    "one. Printed: ε n/(8 L_f C ξ) times the *sum*, whose extra n spends up to n/4 times the declared ε; for the mean it would "
    "be valid, with four times the noise that is needed.",
    'The loss is Huber\'s (loss="huber") or the squared error cut off at a public bound B (loss="squared"); printed: any '
    "ξ-Lipschitz one.",
    "Candidates are random subspaces, or a net whose width is given; printed: a net of width 1/(εn), which nobody can score.",
    "The inner minimum of Huber's loss is found by 60 accelerated gradient steps, that of the squared one in closed form and "
    "without the bound C.",
    "Final heads (line 4) are plain least squares on the second half of a person's rows, without the bound C.",
)

_PUBLIC = " It is public: take what is known about such data in general, not the largest value in this table."
_AROUND_GIVEN = (1e-3, 1.0)  # distances of candidates around an earlier billboard's embedding


class ExponentialSubspace(PersonalModel):
    """Personalised linear regression whose shared embedding is *chosen*, ε-differentially private with δ = 0.

    For a handful of features (k(d − k) up to about 12), where a pure ε is wanted. With more, use ``PrivateFedRep``.

    Parameters
    ----------
    rank : int, default=1
        k, the number of shared directions; fewer than the features.
    epsilon : float
        The budget for everything that is published, per person; δ is 0.
    recipe : {"default", "paper"}, default="default"
        "default" (a zoom: several stages, each choosing among candidates around the last choice), or "paper" (one choice, from
        half of each person's rows, heads from the other half).
    candidates : {"random", "net"} or Billboard, default="random"
        "random" subspaces; "net" for P1's net of width ``net_width``, where it is small enough; or the ``Billboard`` of an
        earlier release, around whose embedding candidates are drawn. That billboard **is paid for separately**.
    n_candidates : int, default=1024
        Subspaces to choose from in each stage. More cost time, and no budget.
    n_stages : int or None, default=None
        Stages of the zoom; None derives it from n, d, k, n_candidates and ε. Each gets an equal part of ε.
    net_width : float, default=0.25
        φ, the Frobenius distance within which the net has a candidate for every subspace.
    loss : {"squared", "huber"}, default="squared"
        Of ``recipe="paper"``: the squared error, cut off at ``loss_bound``, or a Lipschitz loss as P1 asks for.
    loss_bound : float, default=1.0
        B, a *public* bound on a person's mean squared error, for ``loss="squared"``; larger errors count as B.
    feature_clip, head_bound, slope : float, default=10.0, 2.0 and 1.0
        L_f, C and ξ of ``loss="huber"``: projected features Uᵀx are clipped to L_f and heads bounded by C while the subspace is
        chosen; beyond ξ the loss grows by ξ for each unit. Public. The noise of the choice is proportional to ξ L_f C: values
        far above what labels and features need cost accuracy, and no labels, however large, cost privacy.
    fit_intercept : bool
        Give each person an intercept of her own (local, free; not with ``recipe="paper"``).
    keep_heads : bool, default=True
        Fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    candidate_seed : int, default=0
        Of the candidates. They are public, and the guarantee does not depend on it.
    simulation_seed : int or None, default=None
        Repeatable choices for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    **Guarantee.** Unit: one person with all her rows. Neighbours: her data replaced by any other; n is public. What reads
    data and reaches the billboard: in each stage, through the gate, which of the candidates was chosen, with probability
    ∝ exp(−ε_s Σ_j score_j / 2). The first stage's candidates are fixed in advance, later ones are functions of earlier choices.
    A person's score lies between 0 and 1 for each candidate, so replacing her moves no sum by more than 1, and a
    stage costs ε_s; their pure ε add up to ε (``PureBudget.split``).

    *P1's sensitivity.* With a ξ-Lipschitz loss, features clipped to L_f and heads of norm at most C, losses at different
    predictions differ by at most ξ L_f C, whatever the label: what does not depend on U, the loss without a head, cancels in
    the choice (``statistics/paper/exponential.py``). So ``loss="huber"`` uses ξ L_f C, the true sensitivity of the sum of scores.
    P1 prints exp(−εn/(8 L_f C ξ) · score) with score the *sum* over people: a sensitivity of 4 L_f C ξ/n, which fits their mean.
    With the sum it spends up to n/4 times the ε declared (at n = 10 more than 1.5 times, a test shows).
    The squared error is not Lipschitz: there the label does not cancel, so ``loss="squared"`` cuts each person's mean error off
    at a public bound and uses the bound. Privacy does not depend on how well the inner minimum is found in either.

    ``recipe="default"`` scores by the logarithm of the share of a person's labels that the best head on U leaves
    unexplained, between 10⁻⁶ and 1: no bound has to be given, units do not matter, and a halved error counts the same near the
    truth as far from it, so the zoom goes on where a plain error would drown in the noise of the choice.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=2000, n_features=4, rank=1, seed=1)
    >>> model = cg.ExponentialSubspace(rank=1, epsilon=2.0, fit_intercept=False, simulation_seed=1).fit(users)
    >>> cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < 0.02
    True
    >>> model.billboard_.statement.delta
    0.0
    """

    def __init__(
        self,
        rank: int = 1,
        epsilon: float = EPSILON,
        *,
        recipe: str = "default",
        candidates: "str | Billboard" = "random",
        n_candidates: int = 1024,
        n_stages: int | None = None,
        net_width: float = 0.25,
        loss: str = "squared",
        loss_bound: float = 1.0,
        feature_clip: float = 10.0,
        head_bound: float = 2.0,
        slope: float = 1.0,
        fit_intercept: bool = FIT_INTERCEPT,
        keep_heads: bool = True,
        candidate_seed: int = 0,
        simulation_seed: int | None = None,
        verbose: bool = False,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.recipe = recipe
        self.candidates = candidates
        self.n_candidates = n_candidates
        self.n_stages = n_stages
        self.net_width = net_width
        self.loss = loss
        self.loss_bound = loss_bound
        self.feature_clip = feature_clip
        self.head_bound = head_bound
        self.slope = slope
        self.fit_intercept = fit_intercept
        self.keep_heads = keep_heads
        self.candidate_seed = candidate_seed
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.user = user

    def _budget(self) -> PureBudget:
        return PureBudget(self.epsilon)

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        d, k, budget = users.n_features, self.rank, self._budget()
        check_rank(k, d, "ExponentialSubspace")
        self._check_parameters()
        paper = self.recipe == "paper"
        around = self._around
        rng = public_generator(self.candidate_seed, "candidate subspaces")
        embedding, stages = choose_subspace(
            lambda candidates: users.sum(self._scores(candidates)),  # Alg. 4, line 1
            self._first_candidates(d, k, rng, gate.randomness.simulated),
            budget,
            gate,
            rng,
            1 if paper else self.n_stages,
            self.n_candidates,
            reach=None if around is None else math.sqrt(_AROUND_GIVEN[0] * _AROUND_GIVEN[1]),
            people=users.n_users,
            verbose=self.verbose,
        )
        name = "Exponential subspace"
        if around is not None:
            cost = f"(ε = {around.statement.epsilon:g}, δ = {around.statement.delta:g})"
            name += f" around an earlier billboard, whose {cost} is a cost of its own and not part of this one"
        drawn = {"n_candidates": int(self.n_candidates), "candidate_seed": int(self.candidate_seed)}
        statement = self._statement(gate, name, budget, users, rank=int(k), stages=stages, **drawn)
        model = SharedModel(np.ascontiguousarray(embedding), own_intercept=self.fit_intercept and not paper)
        return self._board(users, model, statement, SecondHalfHeads() if paper else RidgeHeads())  # Alg. 4, line 4

    @property
    def _around(self) -> Billboard | None:
        """The earlier board whose embedding candidates are drawn around."""
        return self.candidates if isinstance(self.candidates, Billboard) else None

    def _scores(self, candidates: np.ndarray) -> SubspaceScores | LipschitzScores:
        paper = self.recipe == "paper"
        if paper and self.loss == "huber":
            return LipschitzScores(candidates, float(self.feature_clip), float(self.head_bound), float(self.slope))
        return SubspaceScores(
            candidates, paper, self.fit_intercept and not paper, float(self.loss_bound) if paper else 0.0
        )

    def _first_candidates(self, d: int, k: int, rng: PublicGenerator, simulated: bool) -> np.ndarray:
        if (given := self._around) is not None:
            if given.embedding.shape != (d, k):
                raise InputError(f"candidates has an embedding of shape {given.embedding.shape}, needed is ({d}, {k}).")
            if not given.statement.private or (given.statement.simulated and not simulated):
                raise InputError(
                    "candidates is a billboard that is not private, so nothing made from it would be. Give one whose "
                    "statement holds, or set simulation_seed for an experiment with a simulated one."
                )
            return subspaces_around(np.linalg.qr(given.embedding)[0], self.n_candidates, _AROUND_GIVEN, rng)
        if self.candidates == "net":
            return subspace_net(d, k, self.net_width)  # Alg. 4, line 2
        if self.candidates == "random":
            return random_subspaces(self.n_candidates, d, k, rng)
        raise InputError(
            f"candidates of ExponentialSubspace must be 'random', 'net' or a Billboard, got {self.candidates!r:.80}."
        )

    def _check_parameters(self) -> None:
        check_count("n_candidates of ExponentialSubspace", self.n_candidates, least=2)
        if self.n_stages is not None:
            check_count("n_stages of ExponentialSubspace", self.n_stages)
        if self.loss not in ("squared", "huber") or (self.loss == "huber" and self.recipe != "paper"):
            raise InputError(
                f"loss of ExponentialSubspace must be 'squared', or 'huber' with recipe='paper', got {self.loss!r} with "
                f"recipe={self.recipe!r}."
            )
        sizes = "loss_bound", "feature_clip", "head_bound", "slope"
        check_parameters(check_size, self, *sizes, of="ExponentialSubspace", advice=_PUBLIC)
