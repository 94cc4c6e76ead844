"""What can be audited of learning across owners: one record or user, there or missing among others who send nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from commonground.accounting.sampled import ADD_OR_REMOVE
from commonground.audit.recipes import Claim
from commonground.audit.sampled import SampledFit
from commonground.errors import InputError
from commonground.estimators.joint_sgd import JointSGDRegressor
from commonground.joint_board import JointStatement, SharedParameters

N_RECORDS, STEPS, HUGE = 12, 6, 1e6
DIRECTION = np.array([-1.0, 0.0])  # where the gradient of a huge label along the first feature points


@dataclass(frozen=True)
class JointRecipe:
    name: str
    describe: str
    unit: str
    q: float
    fit: Callable[[Claim, str, float, dict[str, Any]], JointStatement]

    def at(self, claim: Claim) -> SampledFit:
        return lambda present: self.fit(claim, self.unit, self.q, _rows(self.unit, present))


def _rows(unit: str, present: bool) -> dict[str, Any]:
    """Records of two owners, three a user; those of the first unit are huge, or zero, which contributes nothing."""
    X, y = np.zeros((N_RECORDS, 2)), np.zeros(N_RECORDS)
    if present:
        mine = slice(3 if unit == "user" else 1)
        X[mine, 0], y[mine] = 1.0, HUGE
    return {"X": X, "y": y, "owners": np.arange(N_RECORDS) // 6, "users": np.arange(N_RECORDS) // 3}


def _convex(claim: Claim, unit: str, q: float, rows: dict[str, Any]) -> JointStatement:
    model = JointSGDRegressor(
        claim.epsilon, claim.delta, unit=unit, sampling_probability=q, steps=STEPS, fit_intercept=False
    )
    return model.fit(**rows).billboard_.statement


def _deep(claim: Claim, unit: str, q: float, rows: dict[str, Any]) -> JointStatement:
    """A network of one layer, so that the direction of a huge record's gradient is known."""
    from torch import nn

    from commonground.deep import JointTrainer

    network = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(network.weight)
    trainer = JointTrainer(
        network, [], claim.epsilon, claim.delta, unit=unit, sampling_probability=q, steps=STEPS, keep=("shared",),
        loss=lambda outputs, labels: (outputs[:, 0] - labels) ** 2, microbatch=N_RECORDS,
    )  # fmt: skip
    narrow = {"X": rows["X"].astype(np.float32), "y": rows["y"].astype(np.float32)}
    return trainer.fit(**{**rows, **narrow}).billboard_.statement


JOINT_RECIPES = {
    recipe.name: recipe
    for recipe in (
        JointRecipe("joint-sgd", "JointSGDRegressor, one record", "record", 0.5, _convex),
        JointRecipe("joint-sgd-users", "JointSGDRegressor, one user, all drawn", "user", 1.0, _convex),
        JointRecipe("joint-deep", "JointTrainer, one record", "record", 0.5, _deep),
        JointRecipe("joint-deep-users", "JointTrainer, one user, all drawn", "user", 1.0, _deep),
    )
}


def joint_recipe_of(board: Path) -> tuple[str, Claim]:
    """By which recipe saved shared parameters were made, with their ε and δ. Nobody's rows are needed, nor read."""
    statement = SharedParameters.load(board).statement
    audited = [e for e in statement.events if e.relation == ADD_OR_REMOVE and e.group_size == 1 and e.unit != "owner"]
    if not statement.private or len(audited) != 1 or len(statement.events) != 1:
        raise InputError(
            f"{board} cannot be audited: only one kind of release, of records or users that are there or missing, each drawn as "
            f"one. It says: {statement}"
        )
    name = "joint-sgd" if statement.algorithm.startswith("JointSGD") else "joint-deep"
    return name + ("-users" if statement.unit == "user" else ""), Claim(statement.epsilon, statement.delta)
