"""`commonground tune`: the best of several settings within one budget, as a billboard."""

from pathlib import Path
from typing import Annotated

import typer

from commonground.cli import options
from commonground.cli.lazy import loading
from commonground.cli.options import print_json
from commonground.defaults import DELTA, EPSILON, MODEL
from commonground.errors import InputError

OPTION = {
    "intercept": "fit_intercept",
    "rounds": "n_rounds",
}  # names of the command line; others are the parameters' own


def tune(
    table: options.AnyTable,
    out: Annotated[Path, typer.Option("--out", help="Folder for the winner's billboard.")],
    try_: Annotated[
        list[str],
        typer.Option(
            "--try", help="A parameter and its values, such as rank=0,1,2,3 or shared-mean=yes,no; may be given again."
        ),
    ],
    user: options.UserColumn = None,
    label: options.LabelColumn = None,
    features: options.Features = None,
    schema: options.SchemaFile = None,
    label_range: options.LabelRange = None,
    item: options.ItemColumn = None,
    items: options.Items = None,
    model: options.Model = MODEL,
    epsilon: options.Epsilon = EPSILON,
    delta: options.Delta = DELTA,
    refit: Annotated[
        bool | None, typer.Option(help="Fit the winner again with most of the budget; else what is better.")
    ] = None,
    simulation_seed: options.SimulationSeed = None,
    ledger: options.PayingLedger = None,
    population: options.PopulationName = None,
    force: options.ReplaceBoard = False,
    any_scales: options.AnyScales = False,
    as_json: options.AsJson = False,
) -> None:
    """Search for the best settings within one budget, by people's own held-out errors, and publish the winner."""
    with loading():
        from commonground.cli import train as training
        from commonground.cli.first_look import look_at_people
        from commonground.cli.ledger import population_for_training
        from commonground.cli.models import opened
        from commonground.cli.tables import people_of_table
        from commonground.tuning import tune as search

    grid = grid_in(try_)
    with training.free_place(out, force):
        payer = population_for_training(ledger, population, out)
        people = people_of_table(
            table,
            user=user,
            label=label,
            schema=schema,
            label_range=label_range,
            features=features,
            item=item,
            items=items,
        )
        if not people.features_are_known:
            raise InputError(
                'values = "discover" is for one fit, not for a search: give the values by name in the schema, or train once and '
                "take those that its board lists."
            )
        estimator = opened(model, people, {}, epsilon=epsilon, delta=delta)
        look_at_people(people, model, epsilon, estimator)
        if not any_scales:
            training.refuse_hidden_scales(estimator, people)
        asked = estimator, grid, people, epsilon, delta
        found = search(*asked, refit=refit, ledger=payer, simulation_seed=simulation_seed, verbose=not as_json)
        found.best.billboard_.save(out)
    if as_json:
        print_json({"billboard": str(out), **found.to_json()})
        return
    typer.echo(str(found))
    typer.echo(f"Billboard: {out}")
    if payer is not None:
        typer.echo(payer.left_in_words())


def grid_in(asked: list[str]) -> dict[str, list[object]]:
    """Names and values as they were written, by the parameters' own names.

    >>> grid_in(["rank=0,1", "shared-mean=yes,no"])
    {'rank': [0, 1], 'shared_mean': [True, False]}
    """
    grid: dict[str, list[object]] = {}
    for text in asked:
        name, equals, values = text.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not values or not name:
            raise InputError(f"--try must be a parameter and its values, such as rank=0,1,2; got {text!r}.")
        grid[OPTION.get(name, name)] = [_value(one.strip()) for one in values.split(",")]
    return grid


def _value(text: str) -> object:
    known = {"yes": True, "true": True, "no": False, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
