"""`commonground train`: look first (place, table, scales, verdict, balance), then spend, then write."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from sklearn.base import clone

from commonground.accounting.budgets import Budget
from commonground.accounting.events import Event
from commonground.billboard.board import Billboard
from commonground.billboard.files import has_board, place_for_board
from commonground.cli.options import print_json
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.data.schema_column import Column
from commonground.data.users import Users
from commonground.errors import BillboardError, InputError, SharingWarning, UselessError
from commonground.estimators.checks import check_budget
from commonground.estimators.discovery import DISCOVERY_SHARE
from commonground.estimators.fedrep.few_people import SHARING_PAYS_FROM, information
from commonground.estimators.fedrep.private_fedrep import EXPECTED_RANK
from commonground.estimators.fedrep.start import start_from
from commonground.estimators.scales import advice
from commonground.gate.journal import Journal
from commonground.ledger import keeps_accounts
from commonground.report.spending import kinds

if TYPE_CHECKING:
    from commonground.ledger import Population as LedgerPopulation

STAND_INS = 200  # made-up people, for whom a dry run is fitted


@contextmanager
def free_place(out: Path, force: bool) -> Iterator[None]:
    """The folder for the board, tried before anything is read or spent; a board that is there stays, unless forced."""
    with place_for_board(out):
        if has_board(out) and not force:
            raise BillboardError(
                f"{out} holds a billboard already, and training again spends budget again. Choose another folder, or --force "
                "to put the new board in its place."
            )
        yield


@contextmanager
def journal_at(checkpoint: Path | None, out: Path, none: bool) -> Iterator[Journal | None]:
    """What an earlier run of the same command has released, and what this one will; it stays where there is more to come."""
    if none:
        yield None
        return
    beside = out if out.name else out.absolute()
    journal = Journal(checkpoint or beside.with_name(f"{beside.name}.checkpoint"))
    try:
        yield journal
    finally:
        journal.remove() if journal.description is None else journal.close()


def refuse_hidden_scales(model: Any, people: Population) -> None:
    """The operator's own look at her rows, before any budget is spent; it changes nothing that is published."""
    hidden = model.hidden_scales(people)
    told = [advice(hidden, people.n_users)] if hidden else []
    if far_from_one := model.hidden_label(people):
        told.append(far_from_one)
    if told:
        raise InputError(f"{' '.join(told)} To train all the same: --any-scales.")


def expected_to_pay(model: Any, people: Population) -> bool | None:
    """The verdict from public numbers alone, before training; None where there is no rule for this model."""
    if (
        type(model).__name__ != "PrivateFedRep"
        or model.recipe != "default"
        or people.sparse
        or not people.features_are_known
    ):
        return None
    rank = EXPECTED_RANK if model.rank == "auto" else int(model.rank)
    if not 1 <= rank < people.n_features:
        return None
    return (
        information(people.n_users, people.n_features, rank, Budget(model.epsilon, model.delta).mu) >= SHARING_PAYS_FROM
    )


def refuse_if_useless(verdict: bool | None, people: Population) -> None:
    if verdict is False:
        raise UselessError(
            f"sharing does not pay: {people.n_users:,} people are too few at this ε, and what would be published is mostly "
            "noise. Nothing was spent. More people, a larger ε, fewer features or a smaller rank would help."
        )


@dataclass(frozen=True)
class DryRun:
    """What a training would do; from public numbers, but for the table that was read to count them."""

    model: Any
    people: Population
    out: Path
    payer: "LedgerPopulation | None"
    verdict: bool | None
    start: Billboard | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """Releases of the same fit on made-up people; what follows from releases may differ in number."""
        parameters = self.model.get_params(deep=False)
        if "simulation_seed" not in parameters or self.people.sparse:
            return ()
        from commonground.datasets import make_shared_subspace

        made_up, _ = make_shared_subspace(
            min(STAND_INS, self.people.n_users),
            rows_per_user=3,
            rank=1,
            n_features=max(self.people.n_features, 2),
            seed=0,
        )
        stand_in: Users = copy(made_up)
        # Shares of the budget depend on it, and what is released on a range of labels.
        stand_in.n_users = self.people.n_users
        if self.people.label_range is not None:
            label = Column("label", "label", range=self.people.label_range)
            stand_in.schema = Schema(
                (Column("person", "person"), label, *map(Column, map(str, range(made_up.n_features))))
            )
        if self.people.n_features == 1:  # directions need two
            stand_in = _with_first_feature(stand_in)
        off = {name: False for name in ("verbose", "keep_heads") if name in parameters}
        same = clone(self.model).set_params(simulation_seed=0, **off)
        if "classes" in parameters:
            from commonground.estimators.fedrep.classifier import declared_classes

            same.set_params(classes=declared_classes(same.classes, self.people))
            stand_in = _with_classes(stand_in, len(same.classes))
        elif type(same).__name__ == "PrivateMarginClassifier":  # refuses labels that are not two classes
            stand_in = _with_classes(stand_in, 2)
        with warnings.catch_warnings(action="ignore"):
            try:
                return same.fit(stand_in, start=self.start).billboard_.statement.events
            except InputError:
                raise
            except Exception:  # made-up people are no reason to fail; the list is then left out
                return ()

    @property
    def epsilon(self) -> float | None:
        """For everybody; None where nothing is declared, or everybody has her own."""
        if self.people.budgets is not None:
            return None
        declared = self.model.epsilon
        return self.model.budgets if declared is None else declared  # --model ridge: one number for all

    def to_json(self) -> dict[str, Any]:
        schema = self.people.schema
        return {
            "dry_run": True,
            "billboard": str(self.out),
            "model": type(self.model).__name__,
            "epsilon": self.epsilon,
            "own_budgets": self.people.budgets is not None,
            "delta": self.model.delta,
            "people": self.people.n_users,
            "features": list(self.people.feature_names or ()) or self.people.n_features,
            "categories_to_discover": [] if schema is None else [column.name for column in schema.undiscovered],
            "sharing_pays": self.verdict,
            "releases": [
                {"name": name, "times": times, "numbers": numbers} for name, times, numbers in self.releases()
            ],
            "ledger": None if self.payer is None else self.payer.left_in_words(),
        }

    def releases(self) -> list[tuple[str, int, int]]:
        """By kind: rounds of one kind are one line."""
        events = self.events
        return [(name, len(at), max(events[place].entries for place in at)) for name, at in kinds(events).items()]

    def show(self) -> None:
        told = self.to_json()
        typer.echo(f"DRY RUN: nothing is spent, nothing is written. {told['model']} on {told['people']:,} people.")
        typer.echo(f"Output: {self.out}")
        names = told["features"]
        typer.echo(
            f"Features: {', '.join(names[:20]) + (' …' if len(names) > 20 else '') if isinstance(names, list) else names}"
        )
        if told["categories_to_discover"]:
            found = ", ".join(told["categories_to_discover"])
            typer.echo(f"Values to be found privately, for {DISCOVERY_SHARE:.0%} of the budget: {found}")
        if told["own_budgets"]:
            typer.echo("Everybody pays her own ε, as the table says, for all releases together.")
        elif told["epsilon"] is None:
            typer.echo("This model declares no budget: it is NOT private, or shares nothing.")
        else:
            pays = f"ε = {told['epsilon']:g}, δ = {told['delta'] or 0.0:g}"  # 0: pure ε, of models without δ
            typer.echo(f"Everybody in the table pays: {pays} for all releases together.")
        verdict = {
            True: "can be expected to pay",
            False: "is not expected to pay",
            None: "is not judged before training, for this model or table",
        }[self.verdict]
        by = "" if self.verdict is None else ", by the numbers of people, features and directions and ε"
        typer.echo(f"Sharing {verdict}{by}.")
        typer.echo(
            "Ledger: none is asked; nobody adds up what fits cost."
            if self.payer is None
            else f"Ledger: {told['ledger']}"
        )
        if told["releases"]:
            table = RichTable(title="What would be released", width=78)
            table.add_column("what")
            for heading in ("times", "numbers each"):
                table.add_column(heading, justify="right", no_wrap=True)
            for one in told["releases"]:
                table.add_row(escape(one["name"]), str(one["times"]), f"{one['numbers']:,}")
            Console(width=80).print(table)


def _with_first_feature(people: Users) -> Users:
    """Made-up people of a single feature."""
    block = next(people.blocks(max_bytes=2**30))
    narrow = Users.from_arrays(block.X[:, :1], block.y, block.person_of_row)
    narrow.n_users = people.n_users
    narrow.schema = None if people.schema is None else Schema(people.schema.columns[:-1])
    return narrow


def _with_classes(people: Users, n_classes: int) -> Users:
    """Made-up people whose labels are classes, by their places, as often each."""
    block = next(people.blocks(max_bytes=2**30))
    ids = block.person_of_row
    labelled = Users.from_arrays(block.X, np.arange(len(ids)) % float(n_classes), ids)
    labelled.n_users = people.n_users
    return labelled


def look_first(
    model: Any,
    people: Population,
    out: Path,
    payer: "LedgerPopulation | None",
    start: Billboard | None = None,
    *,
    any_scales: bool,
    useless: bool,
) -> DryRun:
    """All that can be said before anything is spent; refusals are errors."""
    model.refuse_undiscoverable(people)
    if start is not None and people.features_are_known:
        start_from(start, people, model.simulation_seed is not None)
    if not any_scales:
        refuse_hidden_scales(model, people)
    verdict = expected_to_pay(model, people)
    if useless:
        refuse_if_useless(verdict, people)
    return DryRun(model, people, out, payer, verdict, start)


def fitted(
    model: Any,
    people: Population,
    payer: "LedgerPopulation | None",
    any_scales: bool,
    journal: Journal | None,
    start: Billboard | None,
) -> Any:
    resumable = journal is not None and model.epsilon is not None and not keeps_accounts(payer)
    kept = {"checkpoint": journal} if resumable else {}
    if journal is not None and journal.entries:
        typer.echo(f"Going on from {journal.path}: {len(journal.entries)} releases were made before.", err=True)
    with warnings.catch_warnings():
        if any_scales:
            from commonground.errors import ScaleWarning

            warnings.simplefilter("ignore", ScaleWarning)
        warnings.simplefilter("always", SharingWarning)
        return model.fit(people, ledger=payer, start=start, **kept).billboard_


def show_dry_run(dry: DryRun, as_json: bool) -> None:
    if dry.epsilon is not None and getattr(dry.model, "delta", None):
        check_budget(dry.epsilon, dry.model.delta, dry.people.n_users)  # which warns of what a fit would warn of
    print_json(dry.to_json()) if as_json else dry.show()
