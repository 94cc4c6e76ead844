"""P4's tables and figure: learning across owners, beside the printed accuracies.

The printed settings leave out optimiser, rates, batches and accountant, so printed cells are shown and not judged.
"""

import csv
import functools
from collections import defaultdict
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.progress import progress_bar
from commonground.reproduce import p4_cells, p4_flaw, p4_smooth
from commonground.reproduce.p4_cells import Cell, Study
from commonground.reproduce.p4_fedavg import table1_fedavg_cells
from commonground.reproduce.results import Claim, Outcome, PaperResult, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    "per_silo": "alone (per silo)",
    "collaboration_without_dp": "together, no privacy",
    "full_dp": "full DP",
    "fedavg_without_dp": "FedAvg as printed, no privacy",
    "fedavg_full_dp": "FedAvg as printed, full DP of owners",
    "fedavg_joint_dp": "FedAvg as printed, joint DP of owners",
    "paper": "joint DP, paper's clip and rounds, our trainer",
    "shared": "joint DP, shared part",
    "personal": "joint DP, with personal part",
    "blend": "joint DP, blended with the own model",
    "joint_dp": "joint DP, owner's choice",
}
_COLUMNS = {
    "paper": "joint_dp",
    "fedavg_joint_dp": "joint_dp",
    "fedavg_full_dp": "full_dp",
    "fedavg_without_dp": "collaboration_without_dp",
}  # the printed column that a row of ours stands beside


def table1_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "dataset", "n", "method")
    rows = []
    for (dataset, n, method), (mean, error) in sorted(
        found.items(), key=lambda f: (f[0][0], f[0][1], list(_METHODS).index(f[0][2]))
    ):
        column = _COLUMNS.get(method, method)
        epsilon = "inf" if column in ("per_silo", "collaboration_without_dp") else "1.0"
        beside = _printed(1, n, column, epsilon, dataset)
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
        Claim(
            "Joint DP with the owner's choice is nowhere below training alone by more than one standard error",
            worst("joint_dp", "per_silo") >= -1.0 or lead >= 0.0,
            f"smallest lead {lead:+.4f}",
        ),
        Claim("Joint DP is above the printed joint-DP cell everywhere", not above, ", ".join(above) or "all cells"),
        Claim(
            "P4: joint DP is better than full DP at ε = 1",
            all(found[d, n, "joint_dp"][0] > found[d, n, "full_dp"][0] for d, n in pairs),
            f"smallest lead {min(found[d, n, 'joint_dp'][0] - found[d, n, 'full_dp'][0] for d, n in pairs):+.4f}",
        ),
    ]

    def draw(figure: "Figure") -> None:
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
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)

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
        Row({"owners": n, "records per user": k, "epsilon": epsilon,
             "user level by": level if k > 1 or level == "full" else "record"},
            mean, _printed(4, n, "full_dp" if level == "full" else "joint_dp", str(epsilon), k=str(k)), spread=error)
        for (n, k, epsilon, level), (mean, error) in sorted(found.items())
    ]  # fmt: skip
    ours = [r for r in rows if r.setting["user level by"] not in ("group", "full")]
    below = [r for r in ours if r.printed is not None and r.ours <= r.printed]
    grouped = [(n, k, e) for n, k, e, level in found if level == "group"]
    beside = [(n, k, e) for n, k, e, level in found if level == "full" and (n, k, e, "clip") in found]
    over_full = [found[n, k, e, "clip"][0] - found[n, k, e, "full"][0] for n, k, e in beside]
    ahead = [
        found[n, k, e, "clip"][0] - found[n, k, e, "group"][0] for n, k, e in grouped if (n, k, e, "clip") in found
    ]
    return Outcome(rows, [
        Claim("Clipping users is above the printed joint-DP cell everywhere", not below, f"{len(below)} cells below"),
        Claim("Clipping users is better than group privacy", bool(ahead) and min(ahead) > 0, f"{[round(a, 3) for a in ahead]}"),
        *([Claim("P4: joint DP is better than full DP whatever the records of a user", min(over_full) > 0,
                 f"smallest lead {min(over_full):+.4f}")] if over_full else []),
    ])  # fmt: skip


def figure1_outcome(cells: list[Cell]) -> Outcome:
    found = mean_and_error(cells, "n", "epsilon", "method")
    rows = [
        Row(
            {"owners": n, "epsilon": epsilon, "method": _METHODS["personal" if method == "joint_dp" else method]},
            mean,
            spread=error,
        )
        for (n, epsilon, method), (mean, error) in sorted(found.items())
    ]
    leads = [
        found[n, e, "joint_dp"][0] - found[n, e, "full_dp"][0]
        for n, e, method in found
        if method == "joint_dp" and e <= 10
    ]

    def draw(figure: "Figure") -> None:
        axes = figure.add_subplot(xlabel="ε", ylabel="test accuracy", xscale="log")
        epsilons, owners = sorted({e for _, e, _ in found}), sorted({n for n, _, _ in found})
        for n in owners:
            axes.plot(epsilons, [found[n, e, "joint_dp"][0] for e in epsilons], label=f"joint DP, {n} owners")
        axes.plot(epsilons, [found[owners[0], e, "full_dp"][0] for e in epsilons], "k:", label="full DP, any number")
        axes.legend(fontsize=6)

    owners, epsilons = sorted({n for n, _, _ in found}), sorted({e for _, e, _ in found})

    def lead(n: int, epsilon: float) -> float:
        return found[n, epsilon, "joint_dp"][0] - found[n, epsilon, "full_dp"][0]

    strict, loose = epsilons[0], epsilons[-1]
    return Outcome(
        rows,
        [
            Claim("P4: joint DP is better than full DP for ε ≤ 10", min(leads) > 0, f"smallest lead {min(leads):+.4f}"),
            Claim(
                f"P4: with a large budget (ε = {loose:g}) full DP is the better one",
                all(lead(n, loose) < 0 for n in owners),
                f"lead of joint DP {min(lead(n, loose) for n in owners):+.4f} to {max(lead(n, loose) for n in owners):+.4f}",
            ),
            Claim(
                f"P4: where the budget is small (ε = {strict:g}), joint DP's lead grows with the number of owners",
                lead(owners[-1], strict) > lead(owners[0], strict),
                ", ".join(f"n = {n}: {lead(n, strict):+.4f}" for n in owners),
            ),
        ],
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
    columns = (p4_cells.table1_joint_cells, p4_cells.table1_baseline_cells)
    jobs = [cells(study, d, s) for d in study.datasets for s in study.seeds for cells in columns]
    jobs += [table1_fedavg_cells(study, n, study.datasets, study.seeds) for n in study.owners]
    return table1_outcome(_collect(jobs, "p4-table1", show))


def run_table2(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    layers = ((), ("conv1", "conv2"), ("fc1",)) if fast else p4_cells.LAYERS
    n = 16 if fast else 256
    jobs = [p4_cells.table2_cells(study, p, n, s) for p in layers for s in study.seeds]
    return table2_outcome(_collect(jobs, "p4-table2", show))


def run_table4(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    ns, ks, epsilons = (
        ((16,), (1, 5), (8.0,)) if fast else (p4_cells.TABLE_4_OWNERS, p4_cells.RECORDS_PER_USER, (1.0, 3.0, 8.0))
    )
    jobs = [
        p4_cells.table4_cells(study, k, epsilon, level, n, seed)
        for k in ks
        for epsilon in epsilons
        for n in ns
        for seed in study.seeds
        for level in p4_cells.table4_levels(k, fast or epsilon == 1.0)
    ]
    return table4_outcome(_collect(jobs, "p4-table4", show))


def run_figure1(fast: bool, show: bool) -> Outcome:
    study = Study(fast)
    epsilons = (1.0, 10.0) if fast else (1.0, 2.0, 5.0, 10.0, 100.0)
    jobs = [p4_cells.figure1_cells(study, e, s) for e in epsilons for s in study.seeds]
    return figure1_outcome(_collect(jobs, "p4-fig1", show))


_COMMON = (
    "10,000 records divided evenly, 8 of 10 classes an owner, test records divided the same way; δ = 1e-4; conv1 1→16 and conv2 "
    "16→32, both 5 × 5, as the printed parameter counts imply, tanh; two linear layers averaged, fc1 personal. Optimiser, rates, "
    "batches and accountant are not printed: ours are q = 0.05, 600 steps, clip 0.1, neighbours by adding or removing. Five "
    "seeds."
)
_RUNS = (
    ("p4-table1", "Learning across owners, by number of owners at ε = 1", "Record level.", run_table1),
    ("p4-table2", "Which layers owners train alone", "They rest until the shared part is published.", run_table2),
    ("p4-table4", "User level, by records per user", "Users: q = 0.1, 150 steps; clipped, or as a group.", run_table4),
    ("p4-fig1", "Joint and full DP by ε", "The figure's values are not printed.", run_figure1),
)
_FAST = "scikit-learn's digits (8 × 8 pixels) instead of MNIST, 4 and 16 owners, a smaller network, 20 steps, one seed"
RESULTS = [PaperResult(name, title, f"{_COMMON} {own}", run, _FAST) for name, title, own, run in _RUNS]
RESULTS += [p4_flaw.RESULT, p4_smooth.RESULT]
