"""What can be audited: every private estimator at a small size, made from one claim (ε, δ) and one noise seed."""

import functools
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from commonground.accounting.budgets import Budget
from commonground.audit.gates import Recorder
from commonground.audit.neighbours import TARGET
from commonground.billboard.board import Billboard
from commonground.data.users import Users
from commonground.datasets import make_shared_subspace
from commonground.errors import InputError, RecipeWarning
from commonground.estimators.altmin import PrivateAltMin
from commonground.estimators.altmin.paper import AltMinSettings
from commonground.estimators.altmin.private_altmin import MATRIX_SEEN_FROM
from commonground.estimators.base import PersonalModel
from commonground.estimators.exponential_subspace import ExponentialSubspace
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.fedrep.classifier import PrivateFedRepClassifier
from commonground.estimators.fedrep.default_plan import LEVELS_ONLY_BELOW
from commonground.estimators.margin_classifier import PrivateMarginClassifier
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.personal_ridge import PersonalBudgetRidge
from commonground.estimators.single_model import SingleModel
from commonground.tuning import tune

N_NODES = 2  # of a federation; the target is at the first
FEW_PEOPLE, MOST_PEOPLE = 24, 1_000  # that are audited on, if nobody says otherwise
ROUNDS_FROM = 1.3 * LEVELS_ONLY_BELOW  # n·μ, from which on more is learned than levels
# The same, from which on the matrix of alternating minimisation is, of one direction in two features.
MATRIX_FROM = 1.05 * (MATRIX_SEEN_FROM / 0.04) ** 0.5

# Trains on people with noise from a seed (None: real noise), everybody's head included, while somebody watches the gate.
Fit = Callable[[Users, int | None, Recorder], PersonalModel]


@dataclass(frozen=True)
class Claim:
    """What an estimator is asked to keep, and its public settings."""

    epsilon: float = 1.0
    delta: float = 1e-6
    rank: int = 1
    # Of the default recipes of PrivateFedRep and PrivateAltMin; the others have a fixed number.
    n_rounds: int | None = 3

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)  # refuses what is no budget


@dataclass(frozen=True)
class Recipe:
    name: str
    describe: str
    worst_pair: str  # of commonground.audit.neighbours.PAIRS: the one that comes closest to the claim
    # Of a claim, people, a seed (None: real noise), who watches the gate, and settings
    fit: Callable[..., PersonalModel]
    settings: dict[str, Any] = field(default_factory=dict)  # beyond the claim
    reach: float = 0.0  # n·μ, from which on it releases all that it ever does; 0: whatever the people

    def at(self, claim: Claim) -> Fit:
        return lambda users, seed, watch: self.fit(claim, users, seed, watch, **self.settings)


_PLAIN: dict[str, Any] = {"shared_mean": False, "fit_intercept": False}
_WITH_MEAN: dict[str, Any] = {"shared_mean": True, "fit_intercept": True}


def _fedrep(
    claim: Claim, users: Any, seed: int | None, watch: Recorder, start: Billboard | None = None, **settings: Any
) -> PersonalModel:
    """With heads for all: they tell more of the billboard than models of one's own."""
    settings = {"n_rounds": claim.n_rounds, "local_choice": False} | settings
    model = PrivateFedRep(claim.rank, claim.epsilon, claim.delta, simulation_seed=seed, **settings)
    return model.fit(users, gate=watch.gate, start=start)


def _fedrep_refit(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """From an earlier board, which is public: made of people who are nobody."""
    return _fedrep(claim, users, seed, watch, start=_earlier_board(users.n_features, claim.rank))


@functools.lru_cache(maxsize=8)
def _earlier_board(n_features: int, rank: int) -> Billboard:
    people, _ = make_shared_subspace(60, rows_per_user=8, n_features=n_features, rank=rank, noise=0.5, seed=1)
    board = PrivateFedRep(rank, 50.0, n_rounds=2, keep_heads=False, simulation_seed=1).fit(people).billboard_
    # It protects those whom it is made of: none.
    return replace(board, statement=replace(board.statement, simulated=False))


def _fedrep_paper(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    model = PrivateFedRep(claim.rank, claim.epsilon, claim.delta, recipe="paper", simulation_seed=seed)
    # Its batches do not fit its own setting for rank > 1.
    with warnings.catch_warnings(action="ignore", category=RecipeWarning):
        return model.fit(users, gate=watch.gate)


def _with_budgets(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """The target has half of the others' ε, and counts less than they do in everything."""
    return _fedrep(claim, users, seed, watch, budgets=_half_for_the_target(claim, users), **_PLAIN)


def _half_for_the_target(claim: Claim, users: Users) -> np.ndarray:
    return np.where(np.arange(users.n_users) == TARGET, claim.epsilon / 2, claim.epsilon)


def _fedrep_sparse(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    X, y, people = _rows(users)
    return _fedrep(claim, Users.from_arrays(sparse.csr_array(X), y, people), seed, watch)


def _trusted_server(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    return _fedrep(claim, _federation("server", users, watch), seed, watch, keep_heads=False)


def _noise_at_nodes(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """Without a seed: a node's noise cannot be simulated."""
    people = _federation("nodes", users, watch)
    return _fedrep(claim, people, None, watch, keep_heads=False, shared_mean=False)


def _federation(trust: str, users: Users, watch: Recorder) -> Any:
    from commonground.audit.federation import federation_of

    X, y, people = _rows(users)
    halves = [people * N_NODES // users.n_users == node for node in range(N_NODES)]
    return federation_of([Users.from_arrays(X[here], y[here], people[here]) for here in halves], trust, watch.node_gate)


def _altmin(claim: Claim, users: Users, seed: int | None, watch: Recorder, **settings: Any) -> PersonalModel:
    settings = {"n_rounds": claim.n_rounds, "simulation_seed": seed} | _PLAIN | settings
    return PrivateAltMin(claim.rank, claim.epsilon, claim.delta, **settings).fit(users, gate=watch.gate)


def _altmin_paper(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    # One group holds everybody: what a person in it can show is what a person in any group can. Four rows each are used.
    settings = AltMinSettings(n_rounds=1, schedule="groups", rows_per_user=4)
    return PrivateAltMin(
        claim.rank, claim.epsilon, claim.delta, recipe="paper", simulation_seed=seed, paper_settings=settings
    ).fit(users, gate=watch.gate)


def _single_model(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    return SingleModel(claim.epsilon, claim.delta, simulation_seed=seed).fit(users, gate=watch.gate)


def _ridge(
    claim: Claim, users: Users, seed: int | None, watch: Recorder, method: str = "statistics", **settings: Any
) -> PersonalModel:
    """Everybody has the same budget, unless told otherwise: the audited person is then the one with the largest."""
    settings = {"budgets": claim.epsilon, "delta": claim.delta} | settings
    bounds: dict[str, Any] = {"feature_bounds": (-1.0, 1.0), "label_bounds": (-1.0, 1.0)}
    return PersonalBudgetRidge(method, simulation_seed=seed, **bounds, **settings).fit(users, gate=watch.gate)


def _pure_ridge(claim: Claim, users: Users, seed: int | None, watch: Recorder, method: str) -> PersonalModel:
    """L2-Laplace noise, δ = 0; the target has half of the others' ε. A ridge so strong that one label moves all of θ."""
    half = _half_for_the_target(claim, users)
    return _ridge(claim, users, seed, watch, method, alpha=1e3, budgets=half, delta=0.0, fit_intercept=False)


def _exponential(claim: Claim, users: Users, seed: int | None, watch: Recorder, **settings: Any) -> PersonalModel:
    settings = settings or {"n_stages": claim.n_rounds}
    model = ExponentialSubspace(claim.rank, claim.epsilon, n_candidates=16, simulation_seed=seed, **settings)
    return model.fit(users, gate=watch.gate)


# The squared error of a huge person of `neighbours`: a smaller bound would cut off every candidate alike.
_HUGE_LOSS = 1e17


def _margin(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """Its labels are the signs of the regression labels that audits are made with."""
    X, y, people = _rows(users)
    settings: dict[str, Any] = {
        "projected_dim": claim.rank + 1,
        "n_candidates": 16,
        "n_stages": claim.n_rounds,
        "margin": 0.5,
    }
    model = PrivateMarginClassifier(claim.rank, claim.epsilon, simulation_seed=seed, **settings)
    return model.fit(X, np.where(y > 0, 1.0, -1.0), users=people, gate=watch.gate)


def _classes(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """Three classes, of the regression labels that audits are made with: below −1, above 1, and between."""
    X, y, people = _rows(users)
    return PrivateFedRepClassifier(
        0, claim.epsilon, claim.delta, classes=("low", "middle", "high"), n_rounds=claim.n_rounds, simulation_seed=seed
    ).fit(Users.from_arrays(X, np.digitize(y, [-1.0, 1.0]).astype(float), people), gate=watch.gate)


def _rows(users: Users) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Everybody's rows, labels and positions."""
    block = next(users.blocks(max_bytes=2**30))
    return block.X, block.y, block.person_of_row


def _own_data(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    return OwnDataOnly(towards=_single_model(claim, users, seed, watch).billboard_).fit(users, gate=watch.gate)


def _tuned(claim: Claim, users: Users, seed: int | None, watch: Recorder) -> PersonalModel:
    """Two fits, the choice between them, and a last fit. In all runs the same number of releases, which audits compare."""
    model, grid = PrivateFedRep(claim.rank, n_rounds=claim.n_rounds), {"local_choice": [False, True]}
    found = tune(model, grid, users, claim.epsilon, claim.delta, simulation_seed=seed, gate=watch.gate)
    best: PersonalModel = found.best
    return best


_ALL = (
    Recipe("fedrep", "PrivateFedRep with shared mean and intercepts", "aligned", _fedrep, reach=ROUNDS_FROM),
    Recipe("fedrep-refit", "PrivateFedRep from an earlier board", "aligned", _fedrep_refit),
    Recipe(
        "fedrep-choice",
        "PrivateFedRep with everybody's choice of a model",
        "aligned",
        _fedrep,
        {"local_choice": True},
        ROUNDS_FROM,
    ),
    Recipe("fedrep-no-mean", "PrivateFedRep without shared mean", "aligned", _fedrep, _PLAIN),
    Recipe("fedrep-few", "PrivateFedRep's rounds for few people", "aligned", _fedrep, {"n_rounds": None, **_PLAIN}),
    Recipe("fedrep-paper", "PrivateFedRep, recipe='paper'", "mirrored", _fedrep_paper),
    Recipe("altmin", "PrivateAltMin without shared mean", "aligned", _altmin),
    Recipe("altmin-paper", "PrivateAltMin, recipe='paper', one group", "mirrored", _altmin_paper),
    Recipe("altmin-mean", "PrivateAltMin with shared mean and intercepts", "aligned", _altmin, _WITH_MEAN, MATRIX_FROM),
    Recipe("log-odds", "PrivateFedRep, loss='logistic'", "corners", _fedrep, {"loss": "logistic"}, ROUNDS_FROM),
    Recipe("single-model", "SingleModel", "huge", _single_model, reach=ROUNDS_FROM),
    Recipe("ridge", "PersonalBudgetRidge, method='statistics'", "corners", _ridge),
    Recipe("ridge-descent", "PersonalBudgetRidge, method='descent'", "labels", _ridge, {"method": "descent"}),
    Recipe("exponential", "ExponentialSubspace", "aligned", _exponential),
    Recipe(
        "exponential-paper",
        "ExponentialSubspace, recipe='paper'",
        "aligned",
        _exponential,
        {"recipe": "paper", "loss_bound": _HUGE_LOSS},
    ),
    Recipe("margin", "PrivateMarginClassifier on the signs of labels", "corners", _margin),
    Recipe("fedrep-budgets", "PrivateFedRep, the person with half of the others' ε", "aligned", _with_budgets),
    Recipe("fedrep-sparse", "PrivateFedRep on sparse rows", "aligned", _fedrep_sparse, reach=ROUNDS_FROM),
    Recipe("classes", "PrivateFedRepClassifier, three classes", "mirrored", _classes),
    Recipe("logistic", "PrivateAltMin, loss='logistic'", "aligned", _altmin, {"loss": "logistic"}),
    Recipe("huber", "PrivateAltMin, loss='huber'", "aligned", _altmin, {"loss": "huber"}),
    Recipe(
        "ridge-reweight",
        "PersonalBudgetRidge, method='reweight', half of the others' ε",
        "corners",
        _pure_ridge,
        {"method": "reweight"},
    ),
    Recipe(
        "ridge-pure",
        "PersonalBudgetRidge, δ = 0, half of the others' ε",
        "corners",
        _pure_ridge,
        {"method": "statistics"},
    ),
    Recipe(
        "ridge-sample",
        "PersonalBudgetRidge, method='sample', half of the others' ε",
        "corners",
        _pure_ridge,
        {"method": "sample"},
    ),
    Recipe(
        "federation-server",
        "PrivateFedRep over two nodes, trust='server'",
        "aligned",
        _trusted_server,
        reach=ROUNDS_FROM,
    ),
    Recipe("federation-nodes", "PrivateFedRep over two nodes, trust='nodes'", "aligned", _noise_at_nodes),
    Recipe(
        "tuned", "PrivateFedRep, the better of two settings within one budget", "aligned", _tuned, reach=2 * ROUNDS_FROM
    ),
    Recipe("own-data", "OwnDataOnly pulled towards a SingleModel", "huge", _own_data, reach=ROUNDS_FROM),
)
RECIPES = {recipe.name: recipe for recipe in _ALL}


def enough_people(recipe: Recipe, claim: Claim) -> int:
    """So many that noise hides nothing which the recipe would then not ask for, and the audit not see; or as many as may be."""
    return min(MOST_PEOPLE, max(FEW_PEOPLE, math.ceil(recipe.reach / Budget(claim.epsilon, claim.delta).mu)))


def sees_all(recipe: Recipe, claim: Claim, people: int) -> bool:
    """Whether so many people are enough for that."""
    return people * Budget(claim.epsilon, claim.delta).mu >= recipe.reach


def recipe_named(name: str) -> Recipe:
    if name not in RECIPES:
        raise InputError(
            f"there is no recipe {name!r} to audit. Give one of {', '.join(RECIPES)}, or a billboard's folder."
        )
    return RECIPES[name]


def recipe_of(billboard: Path, claim: Claim) -> tuple[Recipe, Claim]:
    """The recipe by which a saved billboard was made, with its ε, δ and rounds. Its people are not needed, nor read."""
    board = Billboard.load(billboard)
    statement = board.statement
    if not statement.private or not statement.events:
        raise InputError(f"{billboard} claims no privacy cost that could be audited: {statement}")
    names = [event.name for event in statement.events]
    if statement.algorithm == "Private FedRep":
        with_mean = board.mean is not None or "classes" in statement.parameters
        if statement.parameters.get("loss") == "logistic" and not with_mean:
            raise InputError(
                f"{billboard} is of log-odds without a shared mean, and no recipe is; 'log-odds' is with one."
            )
        name = "fedrep-paper" if statement.recipe == "paper" else "fedrep" if with_mean else "fedrep-no-mean"
        name = "log-odds" if with_mean and statement.parameters.get("loss") == "logistic" else name
        name = "classes" if "classes" in statement.parameters else name
    elif statement.algorithm == "Private AltMin":
        with_mean = board.mean is not None
        name = "altmin-paper" if statement.recipe == "paper" else "altmin-mean" if with_mean else "altmin"
        if statement.parameters.get("loss") != "square":
            raise InputError(
                f"{billboard} is Private AltMin with another loss than the square; recipes 'logistic' and 'huber' audit it "
                "without a shared mean. Audit one of them by name."
            )
    else:
        known = {
            "Ridge with personal budgets": "ridge",
            "Single private model": "single-model",
            "Own data only": "own-data",
            "Private margin classifier": "margin",
            "Exponential subspace": "exponential-paper" if statement.recipe == "paper" else "exponential",
        }
        if statement.algorithm not in known:
            raise InputError(
                f"{billboard} was made by {statement.algorithm!r}; recipes known here: {', '.join(RECIPES)}."
            )
        name = known[statement.algorithm]
        if name == "ridge" and statement.recipe != "statistics":
            raise InputError(
                f"{billboard} was made by ridge with method {statement.recipe!r}; only 'statistics' can be audited by replay."
            )
    if name == "fedrep-no-mean" and any(event.endswith("best guesses") for event in names):
        name = "fedrep-few"
    rounds = [int(found[1]) for found in (re.match(r"(?:round|stage) (\d+)", event) for event in names) if found]
    claim = replace(
        claim, epsilon=statement.epsilon, delta=statement.delta or claim.delta, n_rounds=max(rounds, default=None)
    )
    return RECIPES[name], claim
