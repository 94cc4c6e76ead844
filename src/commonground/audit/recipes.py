"""What can be audited: every private estimator at a small size, made from one claim (ε, δ) and one noise seed."""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from commonground.accounting.budgets import Budget
from commonground.billboard import Billboard
from commonground.errors import InputError, RecipeWarning
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep import PrivateFedRep
from commonground.estimators.own_data import OwnDataOnly
from commonground.estimators.personal_ridge import PersonalBudgetRidge
from commonground.estimators.single_model import SingleModel
from commonground.users import Users

# Trains on people with noise from a seed (None: real noise), everybody's head included.
Fit = Callable[[Users, int | None], PersonalModel]


@dataclass(frozen=True)
class Claim:
    """What an estimator is asked to keep, and its public settings."""

    epsilon: float = 1.0
    delta: float = 1e-6
    rank: int = 1
    n_rounds: int | None = 3  # of PrivateFedRep's default recipe; the others have a fixed number

    def __post_init__(self) -> None:
        Budget(self.epsilon, self.delta)  # refuses what is no budget


@dataclass(frozen=True)
class Recipe:
    name: str
    describe: str
    worst_pair: str  # of commonground.audit.neighbours.PAIRS: the one that comes closest to the claim
    fit: Callable[[Claim, Users, int | None], PersonalModel]

    def at(self, claim: Claim) -> Fit:
        return lambda users, seed: self.fit(claim, users, seed)


def _fedrep(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    return PrivateFedRep(
        claim.rank, claim.epsilon, claim.delta, n_rounds=claim.n_rounds, simulation_seed=seed
    ).fit(users)  # fmt: skip


def _fedrep_no_mean(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    return PrivateFedRep(
        claim.rank, claim.epsilon, claim.delta, n_rounds=claim.n_rounds, simulation_seed=seed, shared_mean=False,
        fit_intercept=False,
    ).fit(users)  # fmt: skip


def _fedrep_paper(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    model = PrivateFedRep(claim.rank, claim.epsilon, claim.delta, recipe="paper", simulation_seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecipeWarning)  # its batches do not fit its own setting for rank > 1
        return model.fit(users)


def _single_model(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    return SingleModel(claim.epsilon, claim.delta, simulation_seed=seed).fit(users)


def _personal_ridge(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    """Everybody has the same budget: the audited person is then the one with the largest."""
    return PersonalBudgetRidge(
        "statistics", feature_bounds=(-1.0, 1.0), label_bounds=(-1.0, 1.0), budgets=claim.epsilon, delta=claim.delta,
        simulation_seed=seed,
    ).fit(users)  # fmt: skip


def _own_data(claim: Claim, users: Users, seed: int | None) -> PersonalModel:
    return OwnDataOnly(towards=_single_model(claim, users, seed).billboard_).fit(users)


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("fedrep", "PrivateFedRep with shared mean and intercepts", "aligned", _fedrep),
        Recipe("fedrep-no-mean", "PrivateFedRep without shared mean", "aligned", _fedrep_no_mean),
        Recipe("fedrep-paper", "PrivateFedRep, recipe='paper'", "mirrored", _fedrep_paper),
        Recipe("single-model", "SingleModel", "mirrored", _single_model),
        Recipe("ridge", "PersonalBudgetRidge, method='statistics'", "corners", _personal_ridge),
        Recipe("own-data", "OwnDataOnly pulled towards a SingleModel", "mirrored", _own_data),
    )
}


def recipe_named(name: str) -> Recipe:
    if name not in RECIPES:
        raise InputError(
            f"there is no recipe {name!r} to audit. Give one of {', '.join(RECIPES)}, or a billboard's folder."
        )
    return RECIPES[name]


def recipe_of(billboard: Path, claim: Claim) -> tuple[Recipe, Claim]:
    """The recipe by which a saved billboard was made, with its ε, δ and rounds. Its people are not needed, nor read."""
    statement = Billboard.load(billboard).statement
    if not statement.private or not statement.events:
        raise InputError(f"{billboard} claims no privacy cost that could be audited: {statement}")
    names = [event.name for event in statement.events]
    if statement.algorithm == "Private FedRep":
        with_mean = any("shared mean" in name for name in names)
        name = "fedrep-paper" if statement.recipe == "paper" else "fedrep" if with_mean else "fedrep-no-mean"
    else:
        known = {
            "Ridge with personal budgets": "ridge",
            "Single private model": "single-model",
            "Own data only": "own-data",
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
    rounds = [int(found[1]) for found in (re.match(r"round (\d+)", event) for event in names) if found]
    claim = replace(claim, epsilon=statement.epsilon, delta=statement.delta, n_rounds=max(rounds, default=None))
    return RECIPES[name], claim
