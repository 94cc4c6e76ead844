"""Where it comes from: versions, checksums, settings, the ledger's entry, and a line to sign on."""

import json
from typing import Any

from commonground.report.html import Html, Text, element, joined, paragraph, section, table


def provenance(board: Any, checked: str) -> Html:
    """``checked``: what is known of a signature, in words."""
    s = board.statement
    entry = s.ledger
    rows: list[tuple[Text, Text]] = [
        ("Algorithm", f"{s.algorithm}, recipe {s.recipe!r}"),
        ("Made on", s.date or "not written down"),
        ("Software", ", ".join(f"{name} {number}" for name, number in s.software.items())),
        ("SHA-256 of the arrays", element("code", board.fingerprint)),
        ("Signature", checked),
        (
            "Ledger",
            (
                "none was asked"
                if entry is None
                else (
                    f"population {entry.population!r}, reservation {entry.reservation}, event {entry.sequence}, hash"
                    f" {entry.head}"
                )
            ),
        ),
    ]
    settings: list[tuple[Text, Text]] = [
        (name, json.dumps(value, ensure_ascii=False)) for name, value in s.parameters.items()
    ]
    shown = [table("Where it comes from", ("what", "value"), rows)]
    if settings:
        shown.append(table("Public settings", ("setting", "value"), settings))
    again = paragraph(
        "Check it yourself: `commonground statement BOARD` reads the board again, composes every release anew and"
        " refuses a board in which a byte has changed; `--verify KEY` also says whose it is. A checksum alone is no"
        " signature."
    )
    line = element("div", joined([element("div", "Name, date"), element("div", "Signature")]), class_="signature")
    return section("provenance", "Provenance", *shown, again, line)
