"""`commonground evaluate` as it is called: a board on held-out rows, privately; or models on a table, NOT private."""

from pathlib import Path
from typing import Annotated

import typer

from commonground.cli import options
from commonground.cli.options import rank_in
from commonground.defaults import DELTA, EPSILON, EVALUATION_EPSILON, MODEL
from commonground.errors import InputError


def evaluate(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[BOARD] TABLE", help="Folder of a billboard and a table of held-out rows; or a table alone."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Of a table alone: folder for the table and the figure; NOT private.")
    ] = None,
    heads: Annotated[
        Path | None, typer.Option(help="Heads written by `personalize` from other rows; without, shared predictions.")
    ] = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Exact numbers, for the operator's eyes only; NOT private.")
    ] = False,
    user: options.UserColumn = None,
    label: options.LabelColumn = None,
    features: options.Features = None,
    schema: options.SchemaFile = None,
    label_range: options.LabelRange = None,
    item: options.ItemColumn = None,
    model: options.Model = MODEL,
    rank: options.Rank = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help=f"Of a board: ε of this evaluation, {EVALUATION_EPSILON:g} by default. Else of the model, {EPSILON:g}."
        ),
    ] = None,
    delta: options.Delta = DELTA,
    held_out: Annotated[
        float, typer.Option(help="Of a table alone: share of each person's rows no model sees.")
    ] = 0.25,
    seed: Annotated[int, typer.Option(help="Which rows these are.")] = 0,
    metrics: Annotated[
        str | None, typer.Option(help="Comma-separated: rmse, mae, coverage, or log_loss, accuracy, auc.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Largest error of a person that counts; else read off a release.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of each interval.")] = 0.95,
    ledger: options.PayingLedger = None,
    population: options.PopulationName = None,
    as_json: options.AsJson = False,
) -> None:
    """Held-out errors: of a board, with noise and a small charge (BOARD TABLE); or, NOT private, of models on a table."""
    if len(places) > 2:
        raise InputError(f"give a board and a table, or a table alone; got {len(places)} places.")
    first, second = places[0], places[1] if len(places) > 1 else None
    if second is not None:
        from commonground.cli.evaluate_board import BoardAsked, evaluate_board

        misplaced = {"--out": out, "--features": features, "--schema": schema, "--rank": rank}
        asked = BoardAsked(
            board=Path(first),
            table=second,
            heads=heads,
            user=user,
            label=label,
            item=item,
            label_range=label_range,
            metrics=metrics,
            clip=clip,
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            internal=internal,
        )
        words = evaluate_board(asked, ledger, population, misplaced, as_json)
        if words:
            typer.echo(words)
        return
    from commonground.cli import app
    from commonground.cli.evaluate_board import refuse_options_of_boards
    from commonground.cli.evaluate_models import run_evaluation

    of_boards = {"--heads": heads, "--internal": internal or None, "--item": item, "--metrics": metrics, "--clip": clip}
    refuse_options_of_boards(first, {**of_boards, "--ledger": ledger, "--population": population}, out)
    assert out is not None
    people = {"user": user, "label": label, "features": features, "schema": schema, "label_range": label_range}
    how = model, rank_in(rank), EPSILON if epsilon is None else epsilon, delta, held_out, seed
    run_evaluation(first, out, people, *how, as_json, app.to_people)
