"""`commonground ledger` where everybody has an account of her own: join | leave | person."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commonground.cli.options import AsJson, answer, print_json
from commonground.errors import InputError

if TYPE_CHECKING:  # loaded when a command runs
    import numpy as np

    from commonground.ledger.personal import PersonalPopulation

Ledger = Annotated[str, typer.Argument(help="A file such as budget.db, or postgresql://user@host/database.")]
Name = Annotated[str, typer.Option("--population", help="Name of the group of people.")]


def join(
    ledger: Ledger,
    population: Name,
    personal: Annotated[Path, typer.Option(help="Table of new people and their ε (columns user_id, epsilon).")],
    as_json: AsJson = False,
) -> None:
    """Open accounts for more people of a population in which everybody has one."""
    people = _people(ledger, population)
    people.add_people(*ids_and_budgets(personal))
    answer(f"Opened. {people.left_in_words()}", people.summary(), as_json)


def leave(
    ledger: Ledger,
    person: Annotated[list[str], typer.Argument(help="Who takes no part from the next fit on; one or more ids.")],
    population: Name,
    as_json: AsJson = False,
) -> None:
    """Leave people out from the next fit on. What was released with their rows stays released, and paid for."""
    people = _people(ledger, population)
    people.leave_out([_known_as(people, one) for one in person])
    answer(f"Left out from the next fit on. {people.left_in_words()}", people.summary(), as_json)


def person(
    ledger: Ledger,
    person: Annotated[str, typer.Argument(help="Her id, as it is in the tables.")],
    population: Name,
    as_json: AsJson = False,
) -> None:
    """One person's own account: her limit, each fit that she took part in, what it cost her, and what is left."""
    people = _people(ledger, population)
    account = people.person(_known_as(people, person))
    facts = account.summary()
    if as_json:
        print_json({"person": person, **facts})
        return
    table = Table(title=f"Account of {escape(person)} in {escape(population)}")
    for heading in ("when (UTC)", "fit", "share", "cost ε", "cost μ²", "state"):
        table.add_column(heading, justify="right" if heading in ("share", "cost ε", "cost μ²") else "left")
    for fit in facts["fits"]:
        table.add_row(
            fit["at"][:19],
            escape(fit["purpose"] or "unnamed"),
            f"{fit['share']:.2%}",
            f"{fit['epsilon']:.4f}",
            f"{fit['mu_squared']:.3g}",
            "booked in full" if fit["open"] else "paid",
        )
    Console().print(table)
    left = "she is left out of further fits" if account.left_out else f"ε = {facts['epsilon_left']:g} is left"
    typer.echo(
        f"Her limit is ε = {facts['epsilon']:g} at δ = {facts['delta']:g}; {len(facts['fits'])} fits have cost her ε = "
        f"{facts['epsilon_spent']:.4g} together (costs add as μ², so these ε do not add up); {left}."
    )


def ids_and_budgets(path: Path) -> "tuple[list[Any], np.ndarray]":
    """Everybody's id and ε."""
    from commonground.data.tables import read_rows

    ids, values = read_rows(path, "user_id", ["epsilon"])
    return ids.to_pylist(), values[:, 0].astype("float64")


def _people(ledger: str, population: str) -> "PersonalPopulation":
    from commonground.ledger import DurableLedger
    from commonground.ledger.personal import PersonalPopulation

    people = DurableLedger(ledger).population(population)
    if not isinstance(people, PersonalPopulation):
        raise InputError(
            f"population {population!r} keeps one budget for all, no account for everybody. Such a population is opened with "
            "`commonground ledger open --personal own.csv --each`."
        )
    return people


def _known_as(people: "PersonalPopulation", text: str) -> Any:
    """An id as it was declared: text, or the number that the text is, where nobody is called by the text."""
    from commonground.data.ids import is_whole_number

    return int(text) if is_whole_number(text) and not people.knows(text) else text
