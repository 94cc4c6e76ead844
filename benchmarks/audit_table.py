"""The auditor against every estimator: claimed ε beside the audited lower bound, and every deliberate fault.

    NUMBA_NUM_THREADS=1 python benchmarks/audit_table.py            # several minutes on one core
    NUMBA_NUM_THREADS=1 python benchmarks/audit_table.py --runs 200

Populations are tiny (24 people), so one thread is faster than two. Noise is simulated, so the table can be repeated. Prints two
tables, writes audit.csv and the trade-off curves of an intact and of a broken estimator. Exits with 1 if a claim is refuted
or a fault is missed.
"""

import argparse
import csv
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from commonground.accounting.gaussian import gaussian_mu
from commonground.audit.bounds import lower_bound
from commonground.audit.broken import BROKEN
from commonground.audit.figure import draw_tradeoff
from commonground.audit.neighbours import neighbours
from commonground.audit.one_run import one_run_audit
from commonground.audit.recipes import RECIPES, Claim
from commonground.audit.run import Report, audit
from commonground.clipping.sums import SizeCounts
from commonground.gate import randomness_from
from commonground.gate.release import release
from commonground.progress import progress_bar

HEADINGS = ("estimator", "declared", "claim ε", "runs", "audit ε ≥", "plain ε ≥", "others ≥", "reach", "verdict")

SLOW = ("fedrep-few", "federation-server", "federation-nodes")
# Choices and Laplace noise have no Gaussian sums; budgets are the target's own, and everybody is a canary; nodes draw real noise.
NOT_IN_ONE_RUN = (
    "exponential",
    "exponential-paper",
    "margin",
    "ridge-reweight",
    "ridge-pure",
    "ridge-sample",
    "fedrep-budgets",
    *SLOW,
)


class OpenLedger:
    def charge(self, event: object) -> None:
        """One release, again and again: no budget allows it, and none is meant."""


def one_release(runs: int) -> list[str]:
    """One histogram released at ε = 1 with the real sampler; all runs of a side in one call, entries are independent."""
    scores = []
    for counts in ([9, 1], [10, 0]):
        sums = SizeCounts(np.tile(counts, runs)).bounded("sizes")
        public = release(sums, gaussian_mu(1.0, 1e-6), OpenLedger(), randomness_from(None)).value
        scores.append((public.reshape(runs, 2) - [9.5, 0.5]) @ np.array([-1.0, 1.0]))
    bound = lower_bound(scores[0], scores[1], 1e-6, 0.05, threshold=0.0)
    verdict = "refuted" if bound.epsilon > 1 else "ok"
    numbers = f"{bound.epsilon:.3f}", f"{bound.by_definition:.3f}"
    return ["one release, real noise", "1", "1.000", f"{runs:,}", *numbers, "–", "1.00", verdict]


def run(recipe: str, claim: Claim, runs: int, broken: str | None = None) -> Report:
    pair = (BROKEN[broken].pair if broken else None) or RECIPES[recipe].worst_pair
    with (
        BROKEN[broken].variant() if broken else nullcontext(),
        progress_bar(f"{recipe}, {broken or 'intact'}", 2 * runs, enabled=True) as advance,
    ):
        return audit(RECIPES[recipe].at(claim), claim, neighbours(pair), runs, advance=advance)


def row(name: str, report: Report, verdict: str) -> list[str]:
    whole = report.whole
    moved = sum((line.reach * line.claimed_mu) ** 2 for line in report.releases if line.reach) ** 0.5 / whole.claimed_mu
    return [
        name,
        f"{report.claim.epsilon:g}",
        f"{whole.claimed_epsilon:.3f}",
        f"{report.n_runs:,}",
        f"{whole.bound.epsilon:.3f}",
        f"{whole.bound.by_definition:.3f}",
        f"{report.others.bound.epsilon:.3f}",
        f"{moved:.2f}" if moved < 100 else f"{moved:.0e}",
        verdict,
    ]


def table_of(title: str, rows: list[list[str]]) -> Table:
    table = Table(title=title)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in HEADINGS[:1] else "right", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1500, help="on each population, for intact estimators at ε = 1")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    intact, faults, failed = [one_release(50_000)], [], []

    for epsilon, runs in ((1.0, options.runs), (4.0, max(options.runs // 3, 20))):
        for recipe in RECIPES:
            report = run(recipe, Claim(epsilon), max(runs // 10, 20) if recipe in SLOW else runs)
            intact.append(row(recipe, report, "refuted" if report.refuted else "ok"))
            failed += [recipe] if report.refuted else []
            if recipe == "fedrep" and epsilon == 4.0:
                draw_tradeoff(report, options.out / "audit_fedrep.png", "PrivateFedRep, as it is")
    for broken, fault in BROKEN.items():
        for recipe in (name for name in fault.recipes if name in RECIPES):
            report = run(recipe, Claim(4.0), max(options.runs // (3 if broken == "half-noise" else 15), 20), broken)
            caught = report.whole.refuted
            failed += [] if caught else [f"{broken} in {recipe}"]
            faults.append(row(f"{recipe}: {fault.describe}", report, "caught" if caught else "MISSED"))
            if (recipe, broken) == ("fedrep", "half-noise"):
                draw_tradeoff(report, options.out / "audit_half_noise.png", "PrivateFedRep with half of the noise")

    console = Console(width=150)
    console.print(table_of("As they are: no bound may exceed its claim (δ = 1e-6, 95 % confidence)", intact))
    console.print(table_of("Broken on purpose: every bound must exceed its claim", faults))
    for recipe in (one for name, one in RECIPES.items() if name not in NOT_IN_ONE_RUN):
        for broken in (None, "unclipped-init"):
            if broken and recipe.name not in BROKEN[broken].recipes:
                continue
            with BROKEN[broken].variant() if broken else nullcontext():
                one = one_run_audit(recipe, Claim(4.0 if broken is None else 1.0), n_users=1000, canaries=50)
            failed += [f"one run, {recipe.name}"] if one.refuted != bool(broken) else []
            console.print(
                f"one run, {one.n_users} people, {one.canaries} canaries, {recipe.name}"
                f"{'' if broken is None else ', ' + BROKEN[broken].describe}: {one.correct}/{one.guesses} right, "
                f"ε ≥ {one.by_gaussian_curve:.2f} by the curve, {one.by_definition:.2f} by the definition, "
                f"claimed {one.claimed_epsilon:g}: {'refuted' if one.refuted else 'ok'}",
                highlight=False,
            )
    with open(options.out / "audit.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADINGS, *intact, *faults])
    console.print(f"{time.perf_counter() - started:.0f} s; audit.csv and figures in {options.out}", highlight=False)
    if failed:
        console.print(f"[red]wrong:[/] {'; '.join(failed)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
