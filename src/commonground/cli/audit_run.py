"""What ``commonground audit`` does: a lower bound on ε beside the claim, from the outside. ``audit.py`` declares it."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from commonground import plots
from commonground.audit.broken import BROKEN
from commonground.audit.figure import draw_tradeoff
from commonground.audit.joint import JOINT_RECIPES, joint_recipe_of
from commonground.audit.neighbours import neighbours
from commonground.audit.one_run import OneRun, one_run_audit
from commonground.audit.recipes import RECIPES, Claim, enough_people, recipe_named, recipe_of, sees_all
from commonground.audit.run import Line, Report
from commonground.audit.run import audit as audit_estimator
from commonground.audit.sampled import SampledAudit, audit_sampled
from commonground.audit.survey import survey
from commonground.billboard.joint import is_shared_parameters
from commonground.cli.options import given, print_json
from commonground.errors import InputError
from commonground.progress import progress_bar


def audit(
    what: str | None, *, epsilon: float | None, delta: float | None, person: str | None, runs: int, people: int | None,
    features: int | None, rank: int, rounds: int | None, confidence: float, one_run: int, broken: str | None,
    real_noise: bool, seed: int, out: Path | None, as_json: bool,
) -> NoReturn:  # fmt: skip
    """One recipe or board, or all cheap ones. Ends with the exit code: 1 if the claim is refuted."""
    if what is None:
        of_one = {"--epsilon": epsilon, "--delta": delta, "--person": person, "--features": features}
        misplaced = given(
            {**of_one, "--rounds": rounds, "--one-run": one_run or None, "--broken": broken, "--out": out}
        )
        if misplaced:
            raise InputError(
                f"{', '.join(misplaced)} needs the name of a recipe; without one, all cheap audits run at settings of their own."
            )
        _audit_all(seed, as_json)
    claim = Claim(
        1.0 if epsilon is None else epsilon, 1e-6 if delta is None else delta, rank, 3 if rounds is None else rounds
    )
    if what not in RECIPES and is_shared_parameters(what):
        _refuse_a_budget(epsilon, delta)
        what, claim = joint_recipe_of(Path(what))
    if what in JOINT_RECIPES:
        if person or features or rounds or one_run or out:
            raise InputError(
                f"{what} is audited on one record or user of its own, by its own steps: give --epsilon, --delta, --runs, "
                "--confidence, --broken and --json only."
            )
        _audit_joint(what, claim, runs, confidence, broken, as_json)
    if what not in RECIPES and Path(what).is_dir():
        _refuse_a_budget(epsilon, delta)
        recipe, claim = recipe_of(Path(what), claim)
        claim = claim if rounds is None else replace(claim, n_rounds=rounds)
    else:
        recipe = recipe_named(what)
    if out is not None and out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--out must end in .png, .svg or .pdf, got {str(out)!r}.")
    if out is not None and out.suffix.lower() != ".svg":
        plots.needs_matplotlib(f"a figure that ends in {out.suffix}", "or a name that ends in .svg")
    people = enough_people(recipe, claim) if people is None else people
    if not sees_all(recipe, claim, people):
        typer.echo(
            f"{people} people are few at ε = {claim.epsilon:g}: noise hides nearly all from this recipe, it asks for little, and "
            "only that is audited. A larger --epsilon is audited with fewer people.",
            err=True,
        )
    if seed < 0:
        raise InputError(f"--seed must be an integer >= 0, got {seed}.")
    variant = _variant(recipe.name, broken)
    title = recipe.describe + ("" if broken is None else f", BROKEN: {BROKEN[broken].describe}")
    pair_name = person or (BROKEN[broken].pair if broken else None) or recipe.worst_pair

    if one_run:
        with variant, progress_bar("replaying", one_run, not as_json) as advance:
            asked = recipe, claim, people, one_run, pair_name
            single = one_run_audit(*asked, confidence=confidence, seed=seed, real_noise=real_noise, advance=advance)
        _show_one_run(single, title, as_json)
        raise typer.Exit(int(single.refuted))

    pair = neighbours(pair_name, people, features or rank + 1, rank, seed)
    with variant, progress_bar("training", 2 * runs, not as_json) as advance:
        noise_seed = None if real_noise else seed
        report = audit_estimator(recipe.at(claim), claim, pair, runs, confidence, noise_seed, advance)
    if out is not None:
        draw_tradeoff(report, out, title)
    if as_json:
        print_json(report_as_json(report, recipe.name, broken))
    else:
        print_report(report, title)
        if out is not None:
            typer.echo(f"Figure: {out}")
    raise typer.Exit(int(report.refuted))


def _audit_all(seed: int, as_json: bool) -> NoReturn:
    lines = []
    for line in survey(seed):
        lines.append(line)
        if not as_json:
            typer.echo(str(line))
    refuted = [line.name for line in lines if line.wrong]
    left_out = [line.name for line in lines if line.left_out]
    if as_json:
        print_json({"refuted": bool(refuted), "lines": [asdict(line) for line in lines]})
    else:
        typer.echo(
            "Power: what half of the noise would have shown; where it is not above the claim the line is weak. "
            + (
                f"REFUTED: {', '.join(refuted)}."
                if refuted
                else "No claim is refuted, as it should be; that proves none."
            )
            + (f" Not audited: {', '.join(left_out)}." if left_out else "")
        )
    raise typer.Exit(int(bool(refuted)))


def _refuse_a_budget(epsilon: float | None, delta: float | None) -> None:
    if epsilon is not None or delta is not None:
        raise InputError("a billboard states its own epsilon and delta; leave --epsilon and --delta out.")


def _audit_joint(what: str, claim: Claim, runs: int, confidence: float, broken: str | None, as_json: bool) -> NoReturn:
    """Learning across owners: the best attack on a Poisson-sampled training, with real noise and samples."""
    recipe, variant, title = JOINT_RECIPES[what], _variant(what, broken), JOINT_RECIPES[what].describe
    if broken is not None:
        title += f", BROKEN: {BROKEN[broken].describe}"
    with variant, progress_bar("training", 2 * runs, not as_json) as advance:
        found: SampledAudit = audit_sampled(recipe.at(claim), recipe.direction, runs, confidence, advance)
    if as_json:
        asked = {"recipe": what, "broken": broken, "epsilon": claim.epsilon, "delta": claim.delta, "runs": runs}
        print_json({**asked, "confidence": confidence, **asdict(found), "refuted": found.refuted})
    else:
        typer.echo(
            f"{title}: there or missing, {runs:,} runs a side, ε = {claim.epsilon:g}, δ = {claim.delta:g}, real noise and "
            f"samples. The best attack was right in {found.accuracy:.1%} of the guesses, so at least {found.at_least:.1%} with "
            f"{100 * confidence:g}% confidence; the accounting allows {found.claimed:.1%}. "
            f"{'The claim is refuted.' if found.refuted else 'Not refuted, as it should be; that proves nothing.'}"
        )
    raise typer.Exit(int(found.refuted))


def _variant(recipe: str, broken: str | None) -> AbstractContextManager[None]:
    if broken is None:
        return nullcontext()
    if broken not in BROKEN or recipe not in BROKEN[broken].recipes:
        possible = ", ".join(name for name, b in BROKEN.items() if recipe in b.recipes)
        raise InputError(f"--broken for {recipe} must be one of {possible}, got {broken!r}.")
    return BROKEN[broken].variant()


def print_report(report: Report, title: str) -> None:
    noise = "simulated noise" if report.simulated_noise else "real noise"
    table = Table(title=f"{title}: person {report.pair!r}, {report.n_runs:,} runs a side, δ = {report.claim.delta:g}")
    for heading in ("view", "claim ε", "audit ε ≥", "plain ε ≥", "right", "reach", ""):
        table.add_column(heading, justify="left" if heading == "view" else "right", no_wrap=heading != "view")
    for line in (report.whole, report.others, *report.releases):
        table.add_row(*_cells(line), end_section=line is report.others)
    console = Console()
    console.print(table)
    verdict = (
        "[red]The claim is refuted.[/]" if report.refuted else "No claim is refuted, as it should be; that proves none."
    )
    console.print(
        f"{verdict} Declared: ε = {report.claim.epsilon:g}. All bounds hold together with {report.confidence:.0%} "
        f"confidence ({noise}).\n'Audit' takes the Gaussian trade-off curve that every release claims; 'plain' is by the "
        "definition of (ε, δ) alone. White box: every release, the billboard and all other heads. Others' view: the "
        "billboard and all other heads. Right: guesses. Reach: how far the replaced person moved the sum, as a share of "
        "its sensitivity.",
        highlight=False,
        soft_wrap=True,
    )


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.what,
        f"{line.claimed_epsilon:.3f}",
        f"{line.bound.epsilon:.3f}",
        f"{line.bound.by_definition:.3f}",
        f"{line.bound.accuracy:.1%}",
        "" if line.reach is None else f"{line.reach:.2f}",
        "[red]refuted[/]" if line.refuted else "ok",
    )


def report_as_json(report: Report, recipe: str, broken: str | None = None) -> dict[str, Any]:
    def line(one: Line) -> dict[str, Any]:
        return {**asdict(one), "refuted": one.refuted}

    return {
        "recipe": recipe,
        "broken": broken,
        "person": report.pair,
        **asdict(report.claim),
        "runs": report.n_runs,
        "confidence": report.confidence,
        "simulated_noise": report.simulated_noise,
        "refuted": report.refuted,
        "whole_fit": line(report.whole),
        "view_of_others": line(report.others),
        "releases": [line(one) for one in report.releases],
    }


def _show_one_run(result: OneRun, title: str, as_json: bool) -> None:
    if as_json:
        bounds = {
            "epsilon": result.epsilon,
            "by_gaussian_curve": result.by_gaussian_curve,
            "by_definition": result.by_definition,
        }
        finite = {name: bound if math.isfinite(bound) else "inf" for name, bound in bounds.items()}
        print_json({**asdict(result), **finite, "refuted": result.refuted})
        return
    typer.echo(
        f"{title}, one run on {result.n_users:,} people with {result.canaries} canaries: {result.correct} of "
        f"{result.guesses} guesses right, so ε ≥ {result.by_gaussian_curve:.3f} by the Gaussian curve and ε ≥ "
        f"{result.by_definition:.3f} by the definition, with {result.confidence:.0%} confidence; claimed: ε = "
        f"{result.claimed_epsilon:g}. {'The claim is refuted.' if result.refuted else 'Not refuted.'}"
    )
