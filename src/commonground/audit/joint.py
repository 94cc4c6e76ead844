"""What can be audited of training on samples: one record, user or person, there or missing among others who send nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from commonground.accounting.sampled import ADD_OR_REMOVE
from commonground.audit.recipes import Claim
from commonground.audit.sampled import OwnersFit, SampledFit, Watched
from commonground.billboard.joint import JointStatement, SharedParameters
from commonground.errors import InputError
from commonground.owners.joint_sgd import JointSGDClassifier, JointSGDRegressor

N_RECORDS, STEPS, HUGE = 12, 6, 1e6


@dataclass(frozen=True)
class JointRecipe:
    name: str
    describe: str
    unit: str
    q: float
    fit: Callable[[Claim, str, float, dict[str, Any]], JointStatement]  # the rows and the gate by name
    n_parameters: int = 2

    @property
    def direction(self) -> np.ndarray:
        """Where a huge label's clipped gradient points: against the first parameter."""
        return -np.eye(self.n_parameters)[0]

    def at(self, claim: Claim) -> SampledFit:
        return lambda present, gate: self.fit(claim, self.unit, self.q, {**_rows(self.unit, present), "gate": gate})


def _rows(unit: str, present: bool) -> dict[str, Any]:
    """Records of two owners, three a user; those of the first unit are huge, or zero, which contributes nothing."""
    X, y = np.zeros((N_RECORDS, 2)), np.zeros(N_RECORDS)
    if present:
        mine = slice(1 if unit == "record" else 3)
        X[mine, 0], y[mine] = 1.0, HUGE
    return {"X": X, "y": y, "owners": np.arange(N_RECORDS) // 6, "users": np.arange(N_RECORDS) // 3}


def _convex(claim: Claim, unit: str, q: float, rows: dict[str, Any]) -> JointStatement:
    model = JointSGDRegressor(
        claim.epsilon, claim.delta, unit=unit, sampling_probability=q, steps=STEPS, fit_intercept=False
    )
    return model.fit(**rows).billboard_.statement


def _torch() -> Any:
    """An extra, which the core does without."""
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError("a deep net needs torch: pip install 'commonground[deep]'.") from None
    return torch


def _deep(claim: Claim, unit: str, q: float, rows: dict[str, Any]) -> JointStatement:
    """A network of one layer, so that the direction of a huge record's gradient is known."""
    nn = _torch().nn
    from commonground.deep import JointTrainer

    network = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(network.weight)
    trainer = JointTrainer(
        network, [], claim.epsilon, claim.delta, unit=unit, sampling_probability=q, steps=STEPS, keep=("shared",),
        loss=lambda outputs, labels: (outputs[:, 0] - labels) ** 2, microbatch=N_RECORDS,
    )  # fmt: skip
    narrow = {"X": rows["X"].astype(np.float32), "y": rows["y"].astype(np.float32)}
    return trainer.fit(**{**rows, **narrow}).billboard_.statement


def _people(claim: Claim, unit: str, q: float, rows: dict[str, Any]) -> JointStatement:
    """A body of one layer that hardly moves: her own head, which a huge label makes huge, says where her gradient points."""
    nn = _torch().nn
    from commonground.deep import PeopleTrainer

    body = nn.Linear(2, 1, bias=False)
    nn.init.ones_(body.weight)
    trainer = PeopleTrainer(body, claim.epsilon, claim.delta, sampling_probability=q, steps=STEPS, learning_rate=1e-9)
    fitted = trainer.fit(rows["X"].astype(np.float32), rows["y"], rows["users"], gate=rows["gate"])
    return fitted.billboard_.statement


JOINT_RECIPES = {
    recipe.name: recipe
    for recipe in (
        JointRecipe("joint-sgd", "JointSGDRegressor, one record", "record", 0.5, _convex),
        JointRecipe("joint-sgd-users", "JointSGDRegressor, one user, all drawn", "user", 1.0, _convex),
        JointRecipe("joint-deep", "JointTrainer, one record", "record", 0.5, _deep),
        JointRecipe("joint-deep-users", "JointTrainer, one user, all drawn", "user", 1.0, _deep),
        JointRecipe("deep-people", "PeopleTrainer, one person, all drawn", "person", 1.0, _people, n_parameters=4),
    )
}


# ---- what other owners get --------------------------------------------------------------------------------------------

_OWNERS, _FEATURES, _CLASSES = 4, 5, (0, 1)
_FIRST_OWNER = (17, 90)  # its records: as many as others have, or so many more that they are padded otherwise


def _owners_rows(more: bool) -> tuple[dict[str, Any], np.ndarray]:
    """Four owners with users of several records; those of the first owner are others, and ``more``."""
    rng = np.random.default_rng(7)
    others = 3 * 17
    X, y = rng.standard_normal((others, _FEATURES)), rng.integers(0, 2, others)
    mine = rng.standard_normal((_FIRST_OWNER[more], _FEATURES)) * (3.0 if more else 1.0)
    owners = np.concatenate([np.zeros(len(mine), int), 1 + np.arange(others) % 3])
    users = np.concatenate([np.arange(len(mine)) % 4, np.arange(others) // 6])
    labels = np.concatenate([np.arange(len(mine)) % 2, y])
    rows = {"X": np.concatenate([mine, X]).astype(np.float32), "y": labels, "owners": owners, "users": users}
    return rows, owners > 0


def _seen_by_other_owners(model: Any, rows: dict[str, Any], others: np.ndarray) -> dict[str, bytes]:
    board = model.billboard_
    answers = getattr(model, "decision_function", None) or model._scores
    return {
        **{f"shared {name}": array.tobytes() for name, array in board.arrays.items()},
        "statement": str(board.statement).encode(),
        "predictions for other owners": np.asarray(answers(rows["X"], rows["owners"]))[others].tobytes(),
        "models of other owners": _own_parameters(model)[1:].tobytes(),
    }


def _own_parameters(model: Any) -> np.ndarray:
    """(owners, everything an owner keeps)."""
    if isinstance(model, JointSGDRegressor | JointSGDClassifier):
        return np.asarray(model._of_owners)
    kept = model.owners_models_
    stacked = [value for candidate in kept.candidates.values() for value in candidate.values()]
    stacked += [kept.weights] + ([] if kept.priors is None else [kept.priors])
    names = [*sorted(kept.candidates), "shared", "blend"]
    choices = np.array([[names.index(one)] for one in kept.choice])
    flat = [np.asarray(value.detach().cpu(), dtype=np.float64).reshape(_OWNERS, -1) for value in stacked]
    return np.concatenate([choices, *flat], axis=1)


def _convex_owners(make: Callable[..., Any]) -> OwnersFit:
    def fit(more: bool, gate: Watched) -> dict[str, bytes]:
        rows, others = _owners_rows(more)
        model = make(epsilon=8.0, delta=1e-3, unit="user", steps=STEPS, sampling_probability=0.5, simulation_seed=1)
        return _seen_by_other_owners(model.fit(**rows, gate=gate), rows, others)

    return fit


def _deep_owners(more: bool, gate: Watched) -> dict[str, bytes]:
    torch = _torch()
    nn = torch.nn
    from commonground.deep import JointTrainer
    from commonground.deep.local import LocalSettings

    rows, others = _owners_rows(more)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(_FEATURES, 16), nn.ReLU(), nn.Linear(16, len(_CLASSES)))
    trainer = JointTrainer(
        network, ["2"], 8.0, 1e-3, unit="user", steps=STEPS, sampling_probability=0.5, simulation_seed=1,
        local=LocalSettings(personal_steps=5),
    )  # fmt: skip
    return _seen_by_other_owners(trainer.fit(**rows, gate=gate), rows, others)


def _deep_people(more: bool, gate: Watched) -> dict[str, bytes]:
    """Every owner is a person: what the others see of the board, and their own heads and answers."""
    _torch()
    from commonground.deep import PeopleTrainer, TwoBranchCNN

    rows, others = _owners_rows(more)
    images = np.pad(rows["X"], ((0, 0), (0, 11))).reshape(-1, 1, 4, 4)
    trainer = PeopleTrainer(
        TwoBranchCNN(side=4, channels=(2, 3), classes=3),
        8.0,
        1e-3,
        classes=_CLASSES,
        steps=STEPS,
        sampling_probability=0.5,
        simulation_seed=1,
    )
    trainer.fit(images, rows["y"], rows["owners"], gate=gate)
    return {
        **{f"shared {name}": array.tobytes() for name, array in trainer.billboard_.arrays.items()},
        "statement": str(trainer.billboard_.statement).encode(),
        "predictions for other people": trainer.decision_function(images, rows["owners"])[others].tobytes(),
        "heads of other people": trainer.heads_.heads[1:].tobytes(),
    }


OWNERS_RECIPES: dict[str, OwnersFit] = {
    "owners-regression": _convex_owners(JointSGDRegressor),
    "owners-classes": _convex_owners(partial(JointSGDClassifier, _CLASSES)),
    "owners-deep": _deep_owners,
    "others-deep": _deep_people,
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
    if statement.unit == "person":
        return "deep-people", Claim(statement.epsilon, statement.delta)
    name = "joint-sgd" if statement.algorithm.startswith("JointSGD") else "joint-deep"
    return name + ("-users" if statement.unit == "user" else ""), Claim(statement.epsilon, statement.delta)
