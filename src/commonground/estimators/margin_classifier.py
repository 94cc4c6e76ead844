"""Personalised classification with a margin: project, then choose (P2, Algorithm 3)."""

import math
from typing import Any

import numpy as np

from commonground.accounting.budgets import PureBudget
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import EPSILON
from commonground.errors import InputError, check_count, check_parameters, check_size
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_rank
from commonground.estimators.class_answers import ClassAnswers
from commonground.gate import Gate
from commonground.heads.kinds import MarginHeads, SignHeads
from commonground.public_draws import public_generator, random_subspaces, sign_projection
from commonground.statistics.margins import MarginScores
from commonground.statistics.statistic import SharedModel
from commonground.steps.subspace_choice import choose_subspace

DEPARTURES = (
    "Candidates are random: √2 times matrices with orthonormal columns; printed: a cover of the ball of radius √(2k) in k' × k "
    "dimensions, which has more points than anybody can score. As private, without the theorem's promise.",
    'k\' = 8 unless projected_dim="theorem", which is above a thousand for margins of 0.1.',
    "The best head is exact for k = 1 and 2, and an upper bound beyond (a perceptron).",
    "Rows longer than the public r are shortened to it while the embedding is chosen; printed: ‖x‖ ≤ r is assumed.",
    "Heads have norm Γ exactly: a shorter one has no more rows beyond a margin.",
)
_FINEST = 0.2  # distance at which the zoom ends: a margin forgives the rest, and each stage costs


class PrivateMarginClassifier(ClassAnswers, PersonalModel):  # type: ignore[misc]  # predict answers with classes
    """Two classes, one linear classifier for each person on a shared embedding, ε-private with δ = 0.

    Whatever the number of features, the embedding is chosen after a random projection to a few dimensions: where people's
    classes are separated by a margin, the projection keeps them apart, and d drops out of the problem.

    Labels are -1 and 1, or 0 and 1. ``decision_function`` is the score x → <x, U v_j>, ``predict`` the class on its side.

    Parameters
    ----------
    rank : int, default=1
        k, the number of shared directions; at most the projected dimensions.
    epsilon : float
        The budget for everything that is published, per person; δ is 0.
    recipe : {"default", "paper"}, default="default"
        "default" (a zoom over several stages on all rows, ridge heads), or "paper" (one choice from the first half of each
        person's rows, heads of norm Γ with the fewest errors on the second half).
    margin : float, default=0.1
        ρ. A row counts as wrong unless y <x, U v> > ρ.
    feature_bound : float, default=1.0
        r, a *public* bound on ‖x‖. Longer rows are shortened to it while the embedding is chosen.
    head_bound : float, default=1.0
        Γ, the largest norm of a head.
    projected_dim : int or "theorem", default=8
        k'; nothing is projected where there are no more features than that. "theorem" takes r² Γ² log(n m / 0.05) / ρ², which
        asks for more candidates than anybody can score unless the margin is large.
    rows_per_person : int, default=10
        m in that formula; public, as people's numbers of rows are not.
    n_candidates : int, default=1024
        Subspaces to choose from in each stage. More cost time, and no budget.
    n_stages : int or None, default=None
        Stages of the zoom; None derives it from k', k and n_candidates. Each gets an equal part of ε.
    keep_heads : bool, default=True
        Fit and keep everybody's head at the end of ``fit``; False publishes the billboard only.
    candidate_seed : int, default=0
        Of the projection and the candidates, which are public.
    simulation_seed : int or None, default=None
        Repeatable choices for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two classes as the labels write them; stays with the model and is not published.

    Notes
    -----
    **Guarantee.** Unit: one person with all her rows. Neighbours: her data replaced by any other; n is public. The projection
    M and the candidates read nobody's data. What does, and reaches the billboard: in each stage, through the gate, which
    candidate was chosen, by scores Σ_j (share of person j's rows that her best head leaves wrong). Her share lies between 0 and
    1 however well that head is found, so replacing her moves each sum by at most 1 (P2: 1/n on the mean); a stage costs its ε,
    and these add up to ε.

    The best head is exact for k = 1 and 2 (a sweep over directions) and an upper bound beyond (a perceptron). P2's cover
    of the ball of radius √(2k) has more points than anybody can score, so candidates are random: √2 times matrices with
    orthonormal columns, which lie on that ball's sphere. (For each span this is no loss: a longer Ũ only widens the choice of
    heads.) What is lost is the theorem's promise that some candidate is near the best one.

    Examples
    --------
    >>> import commonground as cg
    >>> users = cg.datasets.make_margin_classes(n_users=1000, n_features=200, seed=1)
    >>> model = cg.PrivateMarginClassifier(rank=1, epsilon=2.0, simulation_seed=1).fit(users)
    >>> X, y = users.rows_of(7)
    >>> model.predict(X, users=[7] * len(X)).shape, model.billboard_.embedding.shape
    ((10,), (200, 1))
    """

    def __init__(
        self,
        rank: int = 1,
        epsilon: float = EPSILON,
        *,
        recipe: str = "default",
        margin: float = 0.1,
        feature_bound: float = 1.0,
        head_bound: float = 1.0,
        projected_dim: "int | str" = 8,
        rows_per_person: int = 10,
        n_candidates: int = 1024,
        n_stages: int | None = None,
        keep_heads: bool = True,
        candidate_seed: int = 0,
        simulation_seed: int | None = None,
        verbose: bool = False,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.recipe = recipe
        self.margin = margin
        self.feature_bound = feature_bound
        self.head_bound = head_bound
        self.projected_dim = projected_dim
        self.rows_per_person = rows_per_person
        self.n_candidates = n_candidates
        self.n_stages = n_stages
        self.keep_heads = keep_heads
        self.candidate_seed = candidate_seed
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.user = user

    def _budget(self) -> PureBudget:
        return PureBudget(self.epsilon)

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        budget, paper = self._budget(), self.recipe == "paper"
        self._check_parameters()
        self.classes_ = _classes(users)
        k, projected = self.rank, self._projected_dim(users)
        check_rank(k, projected + 1, type(self).__name__)
        rng = public_generator(self.candidate_seed, "margin classifier")
        d = users.n_features
        M = sign_projection(projected, d, rng) if projected < d else np.eye(d)  # Alg. 3, line 1
        scale = math.sqrt(2.0)
        bounds = float(self.head_bound), float(self.feature_bound)
        how = (M, paper, float(self.margin), *bounds)
        chosen, stages = choose_subspace(
            lambda candidates: users.sum(MarginScores(scale * candidates, *how)),
            random_subspaces(self.n_candidates, projected, k, rng),
            budget,
            gate,
            rng,
            1 if paper else self.n_stages,
            finest=_FINEST,
            verbose=self.verbose,
        )
        public = {
            "rank": int(k),
            "projected_dim": projected,
            "stages": stages,
            "n_candidates": int(self.n_candidates),
            "candidate_seed": int(self.candidate_seed),
            "margin": float(self.margin),
            "head_bound": bounds[0],
            "feature_bound": bounds[1],
        }
        model = SharedModel(np.ascontiguousarray(M.T @ (scale * chosen)))  # Alg. 3, line 5
        statement = self._statement(gate, "Private margin classifier", budget, users, **public)
        return self._board(users, model, statement, MarginHeads(*bounds) if paper else SignHeads(bounds[0]))  # line 6

    def _projected_dim(self, users: Population) -> int:
        if self.projected_dim != "theorem":
            return min(int(self.projected_dim), users.n_features)
        size = (self.feature_bound * self.head_bound / self.margin) ** 2
        return min(users.n_features, math.ceil(size * math.log(users.n_users * self.rows_per_person / 0.05)))

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_parameters(check_size, self, "margin", "feature_bound", "head_bound", of=name)
        check_count(f"n_candidates of {name}", self.n_candidates, least=2)
        check_count(f"rows_per_person of {name}", self.rows_per_person)
        if self.n_stages is not None:
            check_count(f"n_stages of {name}", self.n_stages)
        if self.projected_dim != "theorem":
            check_count(f"projected_dim of {name}", self.projected_dim)


def _classes(users: Population) -> np.ndarray:
    """[-1, 1] or [0, 1], as the labels are written; stays with the model and is not published."""
    found: set[float] = set()
    for block in users.blocks():
        found |= set(np.unique(block.y).tolist()[:4])
    if not (found <= {-1.0, 1.0} or found <= {0.0, 1.0}):
        raise InputError("labels must be -1 and 1, or 0 and 1, and there are others. Encode the classes so.")
    return np.array([0, 1]) if 0.0 in found else np.array([-1, 1])
