"""P4's tables and figure: learning across owners, beside the printed accuracies.

The printed settings leave out optimiser, rates, batches and accountant, so printed cells are shown and not judged. Our rates
were chosen on training images 40,000 to 60,000, which no reported run trains or is tested on (benchmarks/joint_tuning.py).
"""

import csv
import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from commonground.datasets import OwnersData, across_owners, digits_across_owners, load
from commonground.progress import progress_bar
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

OWNERS = (4, 16, 64, 128, 256, 512)
LAYERS = tuple(tuple(part for part in parts if part) for parts in (
    ("", "", ""), ("conv1", "", ""), ("", "conv2", ""), ("conv1", "conv2", ""),
    ("", "", "fc1"), ("conv1", "", "fc1"), ("", "conv2", "fc1"), ("conv1", "conv2", "fc1"),
))  # table 2's rows  # fmt: skip
RECORDS_PER_USER = (1, 2, 5, 10, 20)
FEW_UNITS: dict[str, Any] = {"sampling_probability": 0.1, "steps": 150}  # fewer users than records: fewer steps
DELTA = 1e-4
N_RECORDS = 10_000
REPORTED = 40_000  # training images from which reported runs draw; the others chose the rates
PAPER: dict[str, Any] = {
    "clip_norm": 15.0, "sampling_probability": 1.0, "steps": 20, "learning_rate": 0.3, "momentum": 0.0, "average": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """What is run: everything, or a small version on scikit-learn's digits for CI."""

    fast: bool

    @property
    def seeds(self) -> range:
        return range(1 if self.fast else 5)

    @property
    def datasets(self) -> tuple[str, ...]:
        return ("digits",) if self.fast else ("mnist", "fashion-mnist")

    @property
    def owners(self) -> tuple[int, ...]:
        return (4, 16) if self.fast else OWNERS

    def data(self, name: str, n_owners: int, seed: int, records_per_user: int = 1) -> OwnersData:
        if name == "digits":
            return digits_across_owners(n_owners, records_per_user, seed)
        images = _images(name)
        return across_owners(
            images.X[:REPORTED], images.y[:REPORTED], images.test.X, images.test.y, n_owners=n_owners,
            n_records=N_RECORDS, records_per_user=records_per_user, seed=seed,
        )  # fmt: skip

    def trainer(self, seed: int, epsilon: float = 1.0, personal: tuple[str, ...] = ("fc1",), **settings: Any) -> Any:
        import torch

        from commonground.deep import JointTrainer, TwoBranchCNN

        device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.fast:  # few records of few pixels, fewer steps
            settings = {"sampling_probability": 0.2, "steps": 40, "learning_rate": 2.0, **settings}
        model = TwoBranchCNN(side=8 if self.fast else 28, seed=seed)
        return JointTrainer(model, personal, epsilon, DELTA, device=device, simulation_seed=seed, **settings)


@functools.cache
def _images(name: str) -> Any:
    return load(name)


def accuracy(trainer: Any, data: OwnersData, keep: str | None = None) -> float:
    score: float = trainer.score(data.test_X, data.test_y, data.test_owners, keep=keep)
    return score


# ---- what is run: one function a kind of cell, one number each ------------------------------------------------------------

Cell = dict[str, Any]  # what identifies a number, and the number as "accuracy"


def table1_cells(study: Study, dataset: str, seed: int) -> Iterable[Cell]:
    """All of P4's columns for one draw of the records; the shared part does not depend on how records are divided."""
    from commonground.deep.local import LocalSettings

    common = {"dataset": dataset, "seed": seed}
    divided = {n: study.data(dataset, n, seed) for n in study.owners}
    some = divided[study.owners[0]]
    trainers = {
        "joint_dp": study.trainer(seed, keep=("own", "shared", "personal")),
        "full_dp": study.trainer(seed, collaboration="full-dp"),
        "collaboration_without_dp": study.trainer(seed, collaboration="without-dp", local=LocalSettings(epochs=8)),
        "paper": study.trainer(seed, keep=("personal",), **PAPER),
    }
    for method, trainer in trainers.items():
        if method != "joint_dp":
            trainer.fit(some.X, some.y, owners=some.owners)
            for n, data in divided.items():
                keep = "shared"
                if method == "paper":
                    trainer.fit_owners(data.X, data.y, data.owners)
                    keep = "personal"
                yield {**common, "n": n, "method": method, "accuracy": accuracy(trainer, data, keep)}
            continue
        for n, data in divided.items():
            if n == study.owners[0]:
                trainer.fit(data.X, data.y, owners=data.owners)
            else:
                trainer.fit_owners(data.X, data.y, data.owners)
            for name, keep in (("per_silo", "own"), ("joint_dp", None), ("shared", "shared"), ("personal", "personal")):
                yield {**common, "n": n, "method": name, "accuracy": accuracy(trainer, data, keep)}


def table2_cells(study: Study, personal: tuple[str, ...], n: int, seed: int) -> Iterable[Cell]:
    """Which layers owners keep; before the local fit ("shared") and after it."""
    data = study.data(study.datasets[0], n, seed)
    trainer = study.trainer(seed, personal=personal, keep=("personal",)).fit(data.X, data.y, owners=data.owners)
    for method, keep in (("joint_dp", "personal"), ("shared", "shared")):
        yield {
            "n": n,
            "seed": seed,
            "personal": "+".join(personal),
            "method": method,
            "accuracy": accuracy(trainer, data, keep),
        }


def table4_cells(
    study: Study, records_per_user: int, epsilon: float, level: str, ns: tuple[int, ...], seed: int
) -> Iterable[Cell]:
    """User level: a user's mean gradient clipped ("clip"), or her records counted as a group ("group", P4's way)."""
    settings: dict[str, Any] = {}
    if records_per_user > 1:
        settings = {"unit": "user", "user_level": level, "records_per_user": records_per_user, **FEW_UNITS}
    for at, n in enumerate(ns):
        data = study.data(study.datasets[0], n, seed, records_per_user)
        if at == 0:
            trainer = study.trainer(seed, epsilon, keep=("personal",), **settings)
            trainer.fit(data.X, data.y, owners=data.owners, users=data.users)
        else:
            trainer.fit_owners(data.X, data.y, data.owners)
        yield {
            "n": n, "seed": seed, "records_per_user": records_per_user, "epsilon": epsilon, "level": level,
            "accuracy": accuracy(trainer, data, "personal"),
        }  # fmt: skip


def figure1_cells(study: Study, epsilon: float, seed: int) -> Iterable[Cell]:
    """Joint and full DP over ε, for every number of owners."""
    divided = {n: study.data(study.datasets[0], n, seed) for n in study.owners}
    some = divided[study.owners[0]]
    for method, settings in (("joint_dp", {"keep": ("personal",)}), ("full_dp", {"collaboration": "full-dp"})):
        trainer = study.trainer(seed, epsilon, **settings).fit(some.X, some.y, owners=some.owners)
        for n, data in divided.items():
            if method == "joint_dp":
                trainer.fit_owners(data.X, data.y, data.owners)
            keep = "personal" if method == "joint_dp" else "shared"
            yield {
                "n": n,
                "seed": seed,
                "epsilon": epsilon,
                "method": method,
                "accuracy": accuracy(trainer, data, keep),
            }
