"""`commonground ledger`: open | show | events | verify | check | export | report | settle, and `ledger_people.py`."""

import json
import warnings
from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from commonground.cli.lazy import loading
from commonground.cli.ledger_people import Ledger, Name, ids_and_budgets, join, leave, person
from commonground.cli.options import AsJson, answer, new_group, print_json
from commonground.defaults import DELTA
from commonground.errors import InputError, LedgerError, PrivacyWarning
from commonground.files import PRIVATE, replacing
from commonground.interrupts import before_the_end

if TYPE_CHECKING:  # loaded when a command runs
    from commonground.gate.journal import Journal
    from commonground.ledger import DurableLedger, Population

ledger_app = new_group("The durable budget: what may be spent on whom, what was, and what is left.")

AnyName = Annotated[str | None, typer.Option("--population", help="Only this group of people; all by default.")]


@ledger_app.command("open")
def open_(
    ledger: Ledger,
    population: Name,
    epsilon: Annotated[float, typer.Option(help="Everything that may ever be spent on these people.")],
    delta: Annotated[float, typer.Option(help="δ of that budget; well below 1 / number of people, or 0.")] = DELTA,
    personal: Annotated[
        Path | None,
        typer.Option(help="Table with a smaller ε of their own for some people (columns user_id, epsilon)."),
    ] = None,
    each: Annotated[
        bool, typer.Option(help="Keep an account for each person of --personal: fits take what she has left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Declare a population and its total budget; makes the ledger where there is none."""
    from commonground.accounting.budgets import budget_of

    budget = budget_of(epsilon, delta)
    if each and personal is None:
        raise InputError("--each keeps an account for each person of a table: name it with --personal own.csv.")
    ids, epsilons = ids_and_budgets(personal) if each and personal is not None else (None, None)
    budgets = None if each or personal is None else _personal_budgets(personal)
    people = _book_at(ledger, create=True).open_population(population, budget, budgets, people=ids, epsilons=epsilons)
    answer(f"Opened. {people.left_in_words()}", people.summary(), as_json)


@ledger_app.command()
def show(ledger: Ledger, population: AnyName = None, as_json: AsJson = False) -> None:
    """What each population has spent and has left, and which reservations are still open."""
    book = _book_at(ledger)
    names = book.populations() if population is None else [population]
    populations = [book.population(name) for name in names]
    accounts = [people.account() for people in populations]
    if as_json:
        print_json({"ledger": book.name, "populations": [people.summary() for people in populations]})
        return
    table = Table(title=f"Ledger {escape(book.name)}")
    for heading in (
        "population",
        "budget (ε, δ)",
        "charged ε",
        "booked ε",
        "left ε",
        "share of μ²",
        "fits",
        "open",
        "events",
    ):
        table.add_column(heading, justify="left" if heading == "population" else "right")
    for people in populations:
        table.add_row(*_cells(people))
    console = Console()
    console.print(table)
    console.print("Gaussian costs add as squares (μ²), so these ε do not add up by themselves.", highlight=False)
    for people, account in zip(populations, accounts, strict=True):
        if account.persons is not None:
            console.print(people.left_in_words(), markup=False, highlight=False, soft_wrap=True)
    for account in accounts:
        for booking in account.open.values():
            console.print(
                f"Open reservation {booking.id} of {account.population!r}: ε = {booking.epsilon:g} booked, {booking.charges} "
                f"releases charged, for {booking.purpose or 'an unnamed fit'} by {booking.by} since {booking.at}. If that "
                f"process is dead: commonground ledger settle {book.name} {booking.id} --population {account.population}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


@ledger_app.command()
def events(ledger: Ledger, population: Name, as_json: AsJson = False) -> None:
    """Every event of a population in order, after checking the chain."""
    rows = [(json.loads(body), hash_) for body, hash_ in _book_at(ledger).population(population).events()]
    if as_json:
        print_json({"population": population, "events": [{**event, "hash": hash_} for event, hash_ in rows]})
        return
    table = Table(title=f"Events of {escape(population)}")
    for heading in ("#", "when (UTC)", "what", "reservation", "μ", "details", "hash"):
        table.add_column(heading, justify="right" if heading in "#μ" else "left", no_wrap=heading in ("#", "what"))
    for event, hash_ in rows:
        release = event.get("event", event)
        cells = (
            str(event["seq"]),
            event["at"][:19],
            event["kind"],
            event.get("reservation", ""),
            f"{release['mu']:.4g}" if release.get("mu") else "",
            release.get("name") or event.get("purpose", ""),
            hash_[:12],
        )
        table.add_row(*map(escape, cells))
    Console().print(table)


@ledger_app.command()
def verify(
    ledger: Ledger,
    population: AnyName = None,
    head: Annotated[
        str | None, typer.Option(help="A hash noted earlier (show --json, export): must still be in the chain.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the database and the hash chain of every population from the first event on."""
    if head is not None and population is None:
        raise InputError("--head belongs to one population; add --population NAME.")
    book = _book_at(ledger)
    accounts = book.verify()
    if population is not None:
        people = book.population(population)
        if head is not None and not people.contains_head(head):
            raise LedgerError(
                f"the hash {head} is not in the chain of population {population!r}: this ledger is older than that hash, or "
                "another one. Spending that it does not know of may have happened; go back to a newer backup."
            )
        accounts = {population: people.account()}
    if as_json:
        print_json({"ledger": book.name, "verified": [book.population(name).summary() for name in accounts]})
        return
    for name, account in accounts.items():
        typer.echo(f"{name}: {account.count} events verified; last hash {account.head}")
    typer.echo(f"{book.name} is sound. Keep the last hashes elsewhere: `verify --head` then notices an older copy.")


@ledger_app.command()
def check(
    ledger: Ledger,
    boards: Annotated[
        Path, typer.Option(help="A board, or a folder of boards; all that was ever published, if you can.")
    ],
    as_json: AsJson = False,
) -> None:
    """Compare boards with the ledger: one that was not booked, or that this ledger is too old to know, is named."""
    from commonground.billboard.in_ledger import boards_in, problem_with

    book = _book_at(ledger)
    book.verify()
    found = {str(folder): problem_with(folder, book) for folder in boards_in(boards)}
    if not found:
        raise InputError(f"{boards} is no board and holds none. Give the folder that `commonground train --out` wrote.")
    problems = {folder: problem for folder, problem in found.items() if problem is not None}
    if as_json:
        print_json({"ledger": book.name, "boards": [{"board": b, "problem": p} for b, p in found.items()]})
    else:
        for folder, problem in found.items():
            typer.echo(f"{folder}: {'booked, and as the ledger has it' if problem is None else f'PROBLEM: {problem}'}")
    if problems:
        raise LedgerError(
            f"{len(problems)} of {len(found)} boards and the ledger {book.name} do not belong together. If this ledger is an "
            "older copy, spend nothing from it: go on with the newest there is."
        )


@ledger_app.command()
def export(
    ledger: Ledger,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; standard output by default.")] = None,
) -> None:
    """Everything as one JSON document, verified; the events exactly as they were hashed."""
    document = _book_at(ledger).export()
    if out is None:
        print_json(document)
        return
    with replacing(out, PRIVATE) as file:
        file.write(json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8"))
    typer.echo(f"Exported {len(document['populations'])} populations to {out}.")


@ledger_app.command()
def report(
    ledger: Ledger,
    out: Annotated[Path, typer.Option("--out", help="HTML file to write; names purposes and machines.")],
    population: AnyName = None,
    as_json: AsJson = False,
) -> None:
    """One page to look at: populations, limits, spending over time, refused fits, integrity; verified as it is made."""
    from commonground.ledger import DurableLedger
    from commonground.report.ledger import report_of_ledger

    book = DurableLedger(ledger)
    accounts = book.verify()
    if population is not None:
        accounts = {population: book.population(population).account()}
    events = {name: [(json.loads(body), hash_) for body, hash_ in book.population(name).events()] for name in accounts}
    text = report_of_ledger(book.name, [book.population(name).summary() for name in accounts], events)
    with replacing(out, PRIVATE) as file:
        file.write(text.encode("utf-8"))
    told = f"Wrote {out}: {len(accounts)} populations, verified."
    answer(told, {"report": str(out), "populations": list(accounts)}, as_json)


@ledger_app.command()
def settle(
    ledger: Ledger,
    reservation: Annotated[str, typer.Argument(help="The reservation that `ledger show` lists as open.")],
    population: Name,
    as_json: AsJson = False,
) -> None:
    """Give back what an abandoned reservation did not use. Safe: each release was charged before it was made."""
    people = _book_at(ledger).population(population)
    people.settle(reservation)
    answer(f"Settled {reservation} at what it had charged. {people.left_in_words()}", people.summary(), as_json)


for command in (join, leave, person):
    ledger_app.command()(command)


def population_for_training(
    ledger: str | None, population: str | None, out: Path, journal: "Journal | None" = None
) -> "Population | None":
    """The population that pays for `train`; no budget may be spent on a result that has no place to go."""
    if ledger is None or population is None:
        return population_in(ledger, population)  # nobody, or an error where one of the two is missing
    with loading():
        from commonground.billboard.files import place_for_board
        from commonground.billboard.in_ledger import refuse_older_than_boards

    with place_for_board(out):
        people = _book_at(ledger).population(population)
    refuse_older_than_boards(people, out)
    refuse_older_than_boards(people, out.absolute().parent)
    known = set(people.account().open)
    before_the_end(lambda: _settle_own(people, known, journal))
    return people


def population_in(ledger: str | None, population: str | None) -> "Population | None":
    """The population of a ledger that --ledger and --population name; None where neither is given."""
    if (ledger is None) != (population is None):
        raise InputError("--ledger and --population belong together: which ledger, and whose budget in it.")
    return None if ledger is None or population is None else _book_at(ledger).population(population)


def _settle_own(people: "Population", known: Set[str], journal: "Journal | None") -> None:
    """Give back what this process booked and did not charge, should an interruption have come in the way of it.

    Not what a journal with releases in it is to go on with.
    """
    kept = {journal.payer[1]} if journal is not None and journal.payer is not None and journal.entries else set()
    from commonground.ledger.population import this_process

    me = this_process()
    try:
        for booking in people.account().open.values():
            if booking.by == me and booking.id not in known | kept:
                people.settle(booking.id)
    except LedgerError as unsettled:
        warnings.warn(
            f"the reservation of this run stays booked until it is settled: {unsettled}", PrivacyWarning, stacklevel=1
        )


def _book_at(ledger: str, create: bool = False) -> "DurableLedger":
    from commonground.ledger import DurableLedger

    return DurableLedger(ledger, create=create)


def _cells(people: "Population") -> tuple[str, ...]:
    account, facts = people.account(), people.summary()
    budget = f"{facts['epsilon']:g}, {facts['delta']:g}"
    if account.personal:
        budget += f"; personal from {account.personal[0][0]:g}"
    if account.persons is not None:
        budget += f"; {account.persons.n:,} accounts"
    return (
        escape(account.population),
        budget,
        f"{facts['epsilon_charged']:.4f}",
        f"{facts['epsilon_booked']:.4f}",
        f"{facts['epsilon_left']:.4f}",
        f"{account.booked_rounds / account.most_rounds:.1%}"
        if account.booked_rounds
        else f"{facts['mu_squared_booked'] / facts['mu_squared_limit']:.1%}"
        if account.limit
        else "–",
        str(account.fits),
        str(len(account.open)),
        str(account.count),
    )


def _personal_budgets(path: Path) -> dict[float, int]:
    from commonground.data.tables import read_rows

    ids, values = read_rows(path, "user_id", ["epsilon"])
    if not len(ids) or len(set(ids.to_pylist())) != len(ids):
        raise InputError(f"{path} must name one ε for each person, each person once; it has a person twice, or nobody.")
    return dict(Counter(float(value) for value in values[:, 0]))
