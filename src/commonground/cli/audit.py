"""``commonground audit``: a lower bound on ε beside the claim, from the outside. Declared here; ``audit_run.py`` does it."""

from pathlib import Path
from typing import Annotated

import typer

from commonground.cli.lazy import loading
from commonground.cli.options import AsJson

# By name, so that help loads nothing; tests/cli/test_start.py holds them against what there is.
RECIPES = (
    "fedrep, fedrep-refit, fedrep-choice, fedrep-no-mean, fedrep-few, fedrep-paper, altmin, altmin-paper, altmin-mean, "
    "log-odds, single-model, ridge, ridge-descent, exponential, exponential-paper, margin, fedrep-budgets, fedrep-sparse, "
    "classes, logistic, huber, ridge-reweight, ridge-pure, ridge-sample, federation-server, federation-nodes, tuned, "
    "own-data, joint-sgd, joint-sgd-users, joint-deep, joint-deep-users, deep-people"
)
PEOPLE = "aligned, mirrored, labels, huge, empty, corners, subnormal, tiny, enormous, one-row, more-rows"
MISTAKES = "half-noise, everybody-drawn, unclipped-init, free-thresholds, unbounded-scores, leaked-head"


def audit(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[BILLBOARD-RECIPE]",
            help=f"One of {RECIPES}; or a billboard's folder. Without: all cheap ones, one line each.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Claimed ε; 1, or that of the billboard.")] = None,
    delta: Annotated[float | None, typer.Option(help="Claimed δ; 1e-6, or that of the billboard.")] = None,
    person: Annotated[
        str | None, typer.Option(help=f"Who is replaced: {PEOPLE}. By default the worst case for the recipe.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Fits on each of the two populations (and as many replays).")] = 1000,
    people: Annotated[
        int | None,
        typer.Option(help="Simulated people in each population; by default 24, or as many as rounds need at this ε."),
    ] = None,
    features: Annotated[
        int | None, typer.Option(help="Features; rank + 1 by default, where the worst case is.")
    ] = None,
    rank: Annotated[int, typer.Option(help="Number of shared directions.")] = 1,
    rounds: Annotated[int | None, typer.Option(help="Rounds of the default recipe; 3, or the billboard's.")] = None,
    confidence: Annotated[float, typer.Option(help="With which all printed bounds hold together.")] = 0.95,
    one_run: Annotated[
        int, typer.Option(help="Instead: train once, with this many canary people (use more --people).")
    ] = 0,
    broken: Annotated[str | None, typer.Option(help=f"Audit a variant broken on purpose: {MISTAKES}.")] = None,
    real_noise: Annotated[
        bool, typer.Option("--real-noise", help="Audit the sampler in use, not the seeded one; slower.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of simulated people and noise.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File for the figure of the trade-off curve (.png, .svg).")] = None,
    as_json: AsJson = False,
) -> None:
    """Try to tell two neighbouring populations apart, and print the ε this proves beside the claim.

    Exit code 1: the claim is refuted. Not refuting it proves nothing; the guarantee rests on docs/guarantee.md.
    """
    with loading():
        from commonground.cli.audit_run import audit as run

    run(
        what, epsilon=epsilon, delta=delta, person=person, runs=runs, people=people, features=features, rank=rank,
        rounds=rounds, confidence=confidence, one_run=one_run, broken=broken, real_noise=real_noise, seed=seed, out=out,
        as_json=as_json,
    )  # fmt: skip
