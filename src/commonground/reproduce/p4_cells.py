"""What P4's tables and figure are made of: one function a kind of cell, one number each.

Our rates were chosen on training images 40,000 to 60,000, which no reported run trains or is tested on
(benchmarks/joint_tuning.py).
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from commonground.datasets import OwnersData, across_owners, digits_across_owners, load
from commonground.reproduce.p4_baselines import WithoutPrivacy, full_dp

Cell = dict[str, Any]  # what identifies a number, and the number as "accuracy"
OWNERS = (4, 16, 64, 128, 256, 512)
# Table 2's rows: which layers are personal.
LAYERS: tuple[tuple[str, ...], ...] = tuple(
    conv1 + conv2 + fc1 for fc1 in ((), ("fc1",)) for conv2 in ((), ("conv2",)) for conv1 in ((), ("conv1",))
)
RECORDS_PER_USER = (1, 2, 5, 10, 20)
TABLE_4_OWNERS = (256, 4)
FEW_UNITS: dict[str, Any] = {"sampling_probability": 0.1, "steps": 150}  # fewer users than records: fewer steps
DELTA = 1e-4
WITHOUT_DP_EPOCHS = 20  # more records than any owner has: fewer passes
CANDIDATES = ("own", "shared", "personal", "blend")  # what table 1's owners choose from
N_RECORDS = 10_000
REPORTED = 40_000  # training images from which reported runs draw; the others chose the rates
PAPER: dict[str, Any] = {
    "clip_norm": 15.0,
    "sampling_probability": 1.0,
    "steps": 20,
    "learning_rate": 0.3,
    "momentum": 0.0,
    "average": 0.0,
}


def table_3_rounds(n_owners: int) -> int:
    """T of P4's Table 3."""
    return 10 if n_owners <= 64 else 20


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
        rows = images.X[:REPORTED], images.y[:REPORTED], images.test.X, images.test.y
        return across_owners(
            *rows, n_owners=n_owners, n_records=N_RECORDS, records_per_user=records_per_user, seed=seed
        )

    def trainer(self, seed: int, epsilon: float = 1.0, personal: tuple[str, ...] = ("fc1",), **settings: Any) -> Any:
        import torch

        from commonground.deep import JointTrainer, TwoBranchCNN
        from commonground.deep.local import LocalSettings

        device = "cuda" if torch.cuda.is_available() else "cpu"
        if self.fast:  # few records of few pixels, fewer steps
            quick = LocalSettings(epochs=2, fewest_updates=10, personal_steps=30)
            settings = {"sampling_probability": 0.2, "steps": 20, **settings, "local": quick}
        model = TwoBranchCNN(side=8, channels=(4, 8), seed=seed) if self.fast else TwoBranchCNN(seed=seed)
        return JointTrainer(model, personal, epsilon, DELTA, device=device, simulation_seed=seed, **settings)


@functools.cache
def _images(name: str) -> Any:
    return load(name)


def accuracy(trainer: Any, data: OwnersData, keep: str | None = None) -> float:
    score: float = trainer.score(data.test_X, data.test_y, data.test_owners, keep=keep)
    return score


def table1_joint_cells(study: Study, dataset: str, seed: int) -> Iterable[Cell]:
    """The shared part is trained once, since it does not depend on how records are divided; then every owner's side."""
    methods: dict[str, str | None] = {{"own": "per_silo"}.get(name, name): name for name in CANDIDATES}
    methods["joint_dp"] = None  # the owner's choice
    trainer: Any = None
    for n in study.owners[::-1]:
        data = study.data(dataset, n, seed)
        if trainer is None:
            trainer = study.trainer(seed, keep=CANDIDATES).fit(data.X, data.y, owners=data.owners)
        else:
            trainer.fit_owners(data.X, data.y, data.owners)
        here = {"dataset": dataset, "seed": seed, "n": n}
        for method, candidate in methods.items():
            yield {**here, "method": method, "accuracy": accuracy(trainer, data, candidate)}


def table1_baseline_cells(study: Study, dataset: str, seed: int) -> Iterable[Cell]:
    """Everything shared, with and without protection, and P4's clip and rounds."""
    from commonground.deep.local import LocalSettings

    divided = {n: study.data(dataset, n, seed) for n in study.owners}
    some = divided[study.owners[0]]
    protected = full_dp(study.trainer(seed)).fit(some.X, some.y, owners=some.owners)
    paper = {
        rounds: study.trainer(seed, keep=("personal",), **{**PAPER, "steps": rounds}).fit(
            some.X, some.y, owners=some.owners
        )
        for rounds in sorted({table_3_rounds(n) for n in study.owners})
    }
    open_ = study.trainer(seed, local=LocalSettings(epochs=WITHOUT_DP_EPOCHS))
    unprotected = WithoutPrivacy.fit(open_, some.X, some.y)
    for n, data in divided.items():
        here = {"dataset": dataset, "seed": seed, "n": n}
        yield {**here, "method": "full_dp", "accuracy": accuracy(protected, data, "shared")}
        its = paper[table_3_rounds(n)]
        its.fit_owners(data.X, data.y, data.owners)
        yield {**here, "method": "paper", "accuracy": accuracy(its, data, "personal")}
        alike = unprotected.score(data.test_X, data.test_y)
        yield {**here, "method": "collaboration_without_dp", "accuracy": alike}


def table2_cells(study: Study, personal: tuple[str, ...], n: int, seed: int) -> Iterable[Cell]:
    """Which layers owners keep; before the local fit ("shared") and after it."""
    data = study.data(study.datasets[0], n, seed)
    trainer = study.trainer(seed, personal=personal, keep=("personal",)).fit(data.X, data.y, owners=data.owners)
    here = {"n": n, "seed": seed, "personal": "+".join(personal)}
    for method, keep in (("joint_dp", "personal"), ("shared", "shared")):
        yield {**here, "method": method, "accuracy": accuracy(trainer, data, keep)}


def table4_cells(study: Study, records_per_user: int, epsilon: float, level: str, n: int, seed: int) -> Iterable[Cell]:
    """User level: a user's mean gradient clipped ("clip"), or her records counted as a group ("group", P4's way).

    "full": clipped, and every parameter shared. Users are made inside owners, so each number of owners is trained anew.
    """
    settings: dict[str, Any] = {}
    if records_per_user > 1:
        how = "clip" if level == "full" else level
        settings = {"unit": "user", "user_level": how, "records_per_user": records_per_user, **FEW_UNITS}
    data = study.data(study.datasets[0], n, seed, records_per_user)
    trainer = study.trainer(seed, epsilon, keep=("personal",), **settings)
    trainer = full_dp(trainer) if level == "full" else trainer
    trainer.fit(data.X, data.y, owners=data.owners, users=data.users)
    yield {
        "n": n,
        "seed": seed,
        "records_per_user": records_per_user,
        "epsilon": epsilon,
        "level": level,
        "accuracy": accuracy(trainer, data, "shared" if level == "full" else "personal"),
    }


def table4_levels(records_per_user: int, all_of_them: bool) -> tuple[str, ...]:
    """The levels of one row of table 4; a user of one record is that record, whether clipped or a group."""
    if not all_of_them:
        return ("clip",)
    return ("clip", "full", "group") if records_per_user > 1 else ("clip", "full")


def figure1_cells(study: Study, epsilon: float, seed: int) -> Iterable[Cell]:
    """Joint and full DP over ε, for every number of owners."""
    divided = {n: study.data(study.datasets[0], n, seed) for n in study.owners}
    some = divided[study.owners[0]]
    joint = study.trainer(seed, epsilon, keep=("personal",)).fit(some.X, some.y, owners=some.owners)
    full = full_dp(study.trainer(seed, epsilon)).fit(some.X, some.y, owners=some.owners)
    for n, data in divided.items():
        here = {"n": n, "seed": seed, "epsilon": epsilon}
        joint.fit_owners(data.X, data.y, data.owners)
        yield {**here, "method": "joint_dp", "accuracy": accuracy(joint, data, "personal")}
        yield {**here, "method": "full_dp", "accuracy": accuracy(full, data, "shared")}
