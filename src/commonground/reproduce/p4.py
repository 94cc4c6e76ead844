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
WITHOUT_DP_EPOCHS = 20  # more records than any owner has: fewer passes
CANDIDATES = ("own", "shared", "personal", "blend")  # what table 1's owners choose from
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


# ---- what is run: one function a kind of cell, one number each ------------------------------------------------------------

Cell = dict[str, Any]  # what identifies a number, and the number as "accuracy"


def table1_cells(study: Study, dataset: str, seed: int) -> Iterable[Cell]:
    """All of P4's columns for one draw of the records."""
    yield from table1_joint_cells(study, dataset, seed)
    yield from table1_baseline_cells(study, dataset, seed)


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
        for method, candidate in methods.items():
            yield {
                "dataset": dataset,
                "seed": seed,
                "n": n,
                "method": method,
                "accuracy": accuracy(trainer, data, candidate),
            }


def table1_baseline_cells(study: Study, dataset: str, seed: int) -> Iterable[Cell]:
    """Everything shared, with and without protection, and P4's clip and rounds."""
    from commonground.deep.local import LocalSettings

    divided = {n: study.data(dataset, n, seed) for n in study.owners}
    some = divided[study.owners[0]]
    for method, settings, keep in (
        ("full_dp", {"collaboration": "full-dp"}, "shared"),
        ("paper", {"keep": ("personal",), **PAPER}, "personal"),
        (
            "collaboration_without_dp",
            {"collaboration": "without-dp", "local": LocalSettings(epochs=WITHOUT_DP_EPOCHS)},
            "shared",
        ),
    ):
        trainer = study.trainer(seed, **settings).fit(some.X, some.y, owners=some.owners)
        for n, data in divided.items():
            if method == "paper":
                trainer.fit_owners(data.X, data.y, data.owners)
            yield {
                "dataset": dataset,
                "seed": seed,
                "n": n,
                "method": method,
                "accuracy": accuracy(trainer, data, keep),
            }


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


# ---- beside the printed numbers -------------------------------------------------------------------------------------------


@functools.cache
def printed() -> dict[tuple[str, ...], tuple[float, float]]:
    """(mean, std) by table, data set, n, method, ε, records per user, personal layers."""
    text = (files("commonground.reproduce") / "printed" / "p4.csv").read_text(encoding="utf-8")
    keys = ("table", "dataset", "n", "method", "epsilon", "records_per_user", "personal")
    return {
        tuple(row[k] for k in keys): (float(row["printed"]), float(row["std"]))
        for row in csv.DictReader(text.splitlines())
    }


def _printed(
    table: int, n: int, method: str, epsilon: str, dataset: str = "mnist", k: str = "", personal: str = ""
) -> float | None:
    found = printed().get((str(table), dataset, str(n), method, epsilon, k, personal))
    return None if found is None else found[0]


def mean_and_error(cells: Iterable[Cell], *keys: str) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Mean and standard error over seeds, by the given keys."""
    groups: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for cell in cells:
        groups[tuple(cell[key] for key in keys)].append(cell["accuracy"])
    return {
        key: (
            float(np.mean(found)),
            float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan"),
        )
        for key, found in groups.items()
    }


_METHODS = {
    "per_silo": "alone (per silo)", "collaboration_without_dp": "together, no privacy", "full_dp": "full DP",
    "paper": "joint DP, paper's clip and rounds", "shared": "joint DP, shared part", "personal": "joint DP, with personal part",
    "blend": "joint DP, blended with the own model", "joint_dp": "joint DP, owner's choice",
}  # fmt: skip


def table1_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "dataset", "n", "method")
    rows = []
    for (dataset, n, method), (mean, error) in sorted(
        found.items(), key=lambda f: (f[0][0], f[0][1], list(_METHODS).index(f[0][2]))
    ):
        epsilon = "inf" if method in ("per_silo", "collaboration_without_dp") else "1.0"
        beside = _printed(1, n, "joint_dp" if method == "paper" else method, epsilon, dataset)
        setting: dict[str, str | float] = {"data": dataset, "owners": n, "method": _METHODS[method]}
        rows.append(Row(setting, mean, beside, spread=error))
    pairs = [(d, n) for d, n, method in found if method == "joint_dp"]

    def worst(ahead: str, behind: str) -> float:
        """The smallest lead of one method over another, in standard errors of their difference."""
        return min(
            (found[d, n, ahead][0] - found[d, n, behind][0])
            / max(float(np.hypot(found[d, n, ahead][1], found[d, n, behind][1])), 1e-9)
            for d, n in pairs
        )

    lead = min(found[d, n, "joint_dp"][0] - found[d, n, "per_silo"][0] for d, n in pairs)
    above = [
        f"{d} n={n}"
        for d, n in pairs
        if (p := _printed(1, n, "joint_dp", "1.0", d)) is not None and found[d, n, "joint_dp"][0] <= p
    ]
    claims = [
        Claim("Joint DP with the owner's choice is nowhere below training alone by more than one standard error",
              worst("joint_dp", "per_silo") >= -1.0 or lead >= 0.0, f"smallest lead {lead:+.4f}"),
        Claim("Joint DP is above the printed joint-DP cell everywhere", not above, ", ".join(above) or "all cells"),
        Claim("P4: joint DP is better than full DP at ε = 1",
              all(found[d, n, "joint_dp"][0] > found[d, n, "full_dp"][0] for d, n in pairs),
              f"smallest lead {min(found[d, n, 'joint_dp'][0] - found[d, n, 'full_dp'][0] for d, n in pairs):+.4f}"),
    ]  # fmt: skip

    def draw(figure: Figure) -> None:
        datasets = sorted({d for d, _ in pairs})
        for at, dataset in enumerate(datasets):
            axes = figure.add_subplot(
                1, len(datasets), at + 1, title=dataset, xlabel="owners", ylabel="test accuracy", xscale="log"
            )
            ns = sorted(n for d, n in pairs if d == dataset)
            for method, label in _METHODS.items():
                if method in ("shared", "blend") or (dataset, ns[0], method) not in found:
                    continue
                means, errors = zip(*(found[dataset, n, method] for n in ns), strict=True)
                axes.errorbar(ns, means, np.nan_to_num(errors), label=label, marker="o", markersize=3)
            beside = [p for n in ns if (p := _printed(1, n, "joint_dp", "1.0", dataset)) is not None]
            if len(beside) == len(ns):
                axes.plot(ns, beside, "k:", label="joint DP as printed")
            axes.legend(fontsize=6)

    return Outcome(rows, claims, draw)


def table2_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "n", "personal", "method")
    rows = [
        Row({"owners": n, "personal": personal or "none", "after": "local fit" if method == "joint_dp" else "shared training"},
            mean, _printed(2, 128, "joint_dp", "1.0", personal=personal) if method == "joint_dp" else None, spread=error,
            note="print says n = 128; its cells are those of n = 256" if method == "joint_dp" else "")
        for (n, personal, method), (mean, error) in found.items()
    ]  # fmt: skip
    n = next(iter(found))[0]
    last, first = found[n, "fc1", "joint_dp"][0], found[n, "conv1+conv2", "joint_dp"][0]
    return Outcome(rows, [
        Claim("P4: personal layers before shared ones hurt", first < last, f"fc1 {last:.4f}, conv1 and conv2 {first:.4f}"),
        Claim("… down to guessing, as printed (0.19)", first < 0.3, f"{first:.4f}"),
    ])  # fmt: skip


def table4_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "n", "records_per_user", "epsilon", "level")
    rows = [
        Row({"owners": n, "records per user": k, "epsilon": epsilon, "user level by": level if k > 1 else "record"}, mean,
            _printed(4, n, "joint_dp", str(epsilon), k=str(k)), spread=error)
        for (n, k, epsilon, level), (mean, error) in sorted(found.items())
    ]  # fmt: skip
    below = [r for r in rows if r.setting["user level by"] != "group" and r.printed is not None and r.ours <= r.printed]
    grouped = [(n, k, e) for n, k, e, level in found if level == "group"]
    ahead = [
        found[n, k, e, "clip"][0] - found[n, k, e, "group"][0] for n, k, e in grouped if (n, k, e, "clip") in found
    ]
    return Outcome(rows, [
        Claim("Clipping users is above the printed joint-DP cell everywhere", not below, f"{len(below)} cells below"),
        Claim("Clipping users is better than group privacy", bool(ahead) and min(ahead) > 0, f"{[round(a, 3) for a in ahead]}"),
    ])  # fmt: skip


def figure1_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "n", "epsilon", "method")
    rows = [
        Row({"owners": n, "epsilon": epsilon, "method": _METHODS["personal" if method == "joint_dp" else method]},
            mean, spread=error)
        for (n, epsilon, method), (mean, error) in sorted(found.items())
    ]  # fmt: skip
    leads = [
        found[n, e, "joint_dp"][0] - found[n, e, "full_dp"][0]
        for n, e, method in found
        if method == "joint_dp" and e <= 10
    ]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot(xlabel="ε", ylabel="test accuracy", xscale="log")
        epsilons, owners = sorted({e for _, e, _ in found}), sorted({n for n, _, _ in found})
        for n in owners:
            axes.plot(epsilons, [found[n, e, "joint_dp"][0] for e in epsilons], label=f"joint DP, {n} owners")
        axes.plot(epsilons, [found[owners[0], e, "full_dp"][0] for e in epsilons], "k:", label="full DP, any number")
        axes.legend(fontsize=6)

    return Outcome(
        rows,
        [Claim("P4: joint DP is better than full DP for ε ≤ 10", min(leads) > 0, f"smallest lead {min(leads):+.4f}")],
        draw,
    )


def _collect(jobs: list[Iterable[Cell]], title: str, show: bool) -> list[Cell]:
    cells: list[Cell] = []
    with progress_bar(title, len(jobs), show) as advance:
        for job in jobs:
            cells += job
            advance()
    return cells


def run_table1(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    return table1_outcome(
        _collect([table1_cells(study, d, s) for d in study.datasets for s in study.seeds], "p4-table1", show)
    )


def run_table2(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    layers = ((), ("conv1", "conv2"), ("fc1",)) if fast else LAYERS
    n = 16 if fast else 256
    return table2_outcome(
        _collect([table2_cells(study, p, n, s) for p in layers for s in study.seeds], "p4-table2", show)
    )


def run_table4(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    ns, ks, epsilons = ((16,), (1, 5), (8.0,)) if fast else ((256, 4), RECORDS_PER_USER, (1.0, 3.0, 8.0))
    jobs = [
        table4_cells(study, k, epsilon, level, ns, seed)
        for k in ks for epsilon in epsilons for seed in study.seeds
        for level in (("clip", "group") if k > 1 and (fast or epsilon == 1.0) else ("clip",))
    ]  # fmt: skip
    return table4_outcome(_collect(jobs, "p4-table4", show))


def run_figure1(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    epsilons = (1.0, 10.0) if fast else (1.0, 2.0, 5.0, 10.0, 100.0)
    return figure1_outcome(
        _collect([figure1_cells(study, e, s) for e in epsilons for s in study.seeds], "p4-fig1", show)
    )


_COMMON = (
    "10,000 records divided evenly, 8 of 10 classes an owner, test records divided the same way; δ = 1e-4; conv1 1→16 and conv2 "
    "16→32, both 5 × 5, as the printed parameter counts imply, tanh; two linear layers averaged, fc1 personal. Optimiser, rates, "
    "batches and accountant are not printed: ours are q = 0.05, 600 steps, clip 0.1, neighbours by adding or removing. Five "
    "seeds; the fast version runs one, on scikit-learn's digits."
)  # fmt: skip
_RUNS = (
    ("p4-table1", "Learning across owners, by number of owners at ε = 1", "Record level.", run_table1),
    ("p4-table2", "Which layers owners train alone", "They rest until the shared part is published.", run_table2),
    ("p4-table4", "User level, by records per user", "Users: q = 0.1, 150 steps; clipped, or as a group.", run_table4),
    ("p4-fig1", "Joint and full DP by ε", "The figure's values are not printed.", run_figure1),
)
RESULTS = [PaperResult(name, title, f"{_COMMON} {own}", run) for name, title, own, run in _RUNS]
