"""Boards as witnesses of their ledger, and the ledger as the witness of its boards.

A statement holds the ledger's entry: population, reservation, and how far the chain had come, with its hash, when the last
release was charged. The ledger holds each charge, and the fingerprint of what was published. So

- a board that its ledger does not have was not booked, or the ledger is older than the board (a restored backup), or has
  another history (a copy that was spent from elsewhere);
- a statement that lists other releases than were charged for it, or another budget, was rewritten.

What remains unseen: spending of which no board is looked at here, and whoever rewrites ledger and boards together. Against
the latter: signed boards, and heads noted elsewhere (``ledger verify --head``).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from commonground.accounting.events import Event
from commonground.billboard.files import STATEMENT
from commonground.billboard.joint import load_any_board
from commonground.errors import BillboardError, BudgetError, LedgerError
from commonground.ledger import DurableLedger, LedgerEntry, Population
from commonground.ledger.releases import as_charged


def boards_in(folder: Path) -> Iterator[Path]:
    """The folder itself where it is a board, and the boards in it."""
    if (folder / STATEMENT).exists():
        yield folder
    elif folder.is_dir():
        yield from sorted(path.parent for path in folder.glob(f"*/{STATEMENT}"))


def refuse_older_than_boards(population: Population, boards: Path) -> None:
    """Before anything is spent: every board there that names this population must be in its chain.

    Boards are not verified here, and one that cannot be read is passed over: damage to it must not stop a training.
    """
    chain = None
    for folder in boards_in(boards):
        entry = entry_named_in(folder)
        if entry is not None and entry.population == population.name:
            chain = chain if chain is not None else population.events()
            if (why := _not_in(chain, entry)) is not None:
                raise LedgerError(
                    f"the ledger of population {population.name!r} does not have the entry of {folder}: {why}. Nothing was "
                    "released. Spending that this ledger does not know of has happened. Go on with the newest ledger there is; "
                    "`commonground ledger check` compares it with all boards. (If that board belongs to other people whose "
                    "ledger gave them the same name, keep it in another folder.)"
                )


def entry_named_in(folder: Path) -> LedgerEntry | None:
    try:
        return LedgerEntry.from_json(json.loads((folder / STATEMENT).read_text(encoding="utf-8"))["ledger"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def problem_with(folder: Path, ledger: DurableLedger) -> str | None:
    """Why a board and the ledger do not belong together; None where they do."""
    try:
        board = load_any_board(folder)
    except BillboardError as unreadable:
        return str(unreadable)
    statement = board.statement
    if not statement.private or statement.simulated:
        return "is not private, so no ledger has it; do not publish it"
    if not statement.events:
        return None  # nothing was released
    entry = statement.ledger
    if entry is None:
        return "names no entry of a ledger: what it cost was not booked"
    try:
        chain = ledger.population(entry.population).events()
    except LedgerError as unknown:
        return f"names an entry that is not there: {unknown}"
    if (why := _not_in(chain, entry)) is not None:
        return f"names an entry that this ledger does not have: {why}"
    return _differs(chain, entry, statement.epsilon, statement.delta, statement.events, board.fingerprint)


def _not_in(chain: list[tuple[str, str]], entry: LedgerEntry) -> str | None:
    if entry.sequence > len(chain):
        return (
            f"it ends at event {len(chain)}, and the board was published at event {entry.sequence}: it is an older copy"
        )
    if chain[entry.sequence - 1][1] != entry.head:
        return (
            f"its event {entry.sequence} is not the board's: it is another ledger, or a copy with a history of its own"
        )
    return None


def _differs(
    chain: list[tuple[str, str]],
    entry: LedgerEntry,
    epsilon: float,
    delta: float,
    releases: tuple[Event, ...],
    fingerprint: str,
) -> str | None:
    events = [
        event for event in map(json.loads, (body for body, _ in chain)) if event.get("reservation") == entry.reservation
    ]
    of_kind: dict[str, list[Any]] = {
        kind: [e for e in events if e["kind"] == kind] for kind in ("reserve", "charge", "board")
    }
    if [(event["epsilon"], event["delta"]) for event in of_kind["reserve"]] != [(epsilon, delta)]:
        return f"declares (ε = {epsilon:g}, δ = {delta:g}), and the ledger has booked another budget for it"
    try:
        claimed = [_without_noise(as_charged(event)) for event in releases]
    except BudgetError as unsupported:
        return str(unsupported)
    charged = [_without_noise(event["event"]) for event in of_kind["charge"]]
    if claimed != charged:
        return f"lists {len(claimed)} releases, and they are not the {len(charged)} that were charged for it"
    named = [event["board"] for event in of_kind["board"]]
    if fingerprint not in named:
        return f"is not the board that the ledger names ({', '.join(name[:12] for name in named) or 'none'}): other numbers"
    if len(set(named)) > 1:
        return f"is one of {len(set(named))} boards that were published for what was paid once: a run was resumed from a copy"
    return None


def _without_noise(release: dict[str, Any]) -> dict[str, Any]:
    """Nodes that noise their own part may have added more than was charged for."""
    return {name: value for name, value in release.items() if name != "noise_std"}
