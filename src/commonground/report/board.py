"""Reports of boards: of people, and of shared parameters across owners. One HTML file each, from what is public."""

from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.report.checklist import checklist
from commonground.report.gains import Gains
from commonground.report.guarantee import banner, guarantee
from commonground.report.html import Html, document, element, joined, paragraph, section, table
from commonground.report.provenance import provenance
from commonground.report.published import published
from commonground.report.spending import spending

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard
    from commonground.billboard.joint import SharedParameters

INTERNAL = "INTERNAL, NOT PRIVATE, DO NOT PUBLISH: the section Who gains is computed from people's rows as they are."
UNSIGNED = "not checked; only a signature says who published a board (`--verify`)"


def report_of_board(board: "Billboard", gains: Gains | None = None, checked: str = UNSIGNED) -> str:
    """The report of a billboard of people as one HTML document; with ``gains`` it is internal."""
    s = board.statement
    sections = [
        ("guarantee", "The guarantee", guarantee(s, f"{s.n_users:,} people")),
        ("spending", "Where the budget went", spending(s)),
        ("published", "What is published", published(board)),
    ]
    if gains is not None:
        sections.append(("gains", "Who gains (internal)", gains.section()))
    sections += [
        ("provenance", "Provenance", provenance(board, checked)),
        ("checklist", "Checklist", checklist(s, gains is not None)),
    ]
    predicted = f" to predict {s.label!r}" if s.label else ""
    lead = (
        f"{s.algorithm} on {s.n_users:,} people, {board.n_features:,} features, {board.rank} shared"
        f" directions{predicted}."
    )
    return _whole(f"Privacy report: {s.algorithm}", sections, lead, s, gains is not None)


def report_of_shared(board: "SharedParameters", checked: str = UNSIGNED) -> str:
    """The report of parameters that were learned across owners."""
    s = board.statement
    rows = [
        (name, " × ".join(map(str, array.shape)) or "1", f"{array.size:,}", _size(array))
        for name, array in sorted(board.arrays.items())
    ]
    total = sum(array.size for array in board.arrays.values())
    told = paragraph(
        f"{total:,} shared parameters in {len(rows)} arrays. Personal parameters stay with those whose they are, and are"
        " not among them."
    )
    arrays = table("Published arrays", ("array", "shape", "numbers", "root mean square"), rows, numbers=(1, 2, 3))
    steps = paragraph(
        f"Learned in {s.steps:,} steps; in each, every {s.unit} took part with probability"
        f" {s.sampling_probability:g}, and the sum of clipped gradients got Gaussian noise of"
        f" {s.noise_multiplier:.4g} times the clip norm."
    )
    people = s.unit == "person"
    who = f"{s.n_units:,} {s.units}" if people else f"{s.n_units:,} {s.units} at {s.n_owners:,} owners"
    sections = [
        ("guarantee", "The guarantee", guarantee(s, who)),
        ("spending", "Where the budget went", spending(s)),
        ("published", "What is published", section("published", "What is published", told, steps, arrays)),
        ("provenance", "Provenance", provenance(board, checked)),
        ("checklist", "Checklist", checklist(s, False)),
    ]
    lead = f"{s.algorithm} {s.whose}."
    return _whole(f"Privacy report: {s.algorithm}", sections, lead, s, False)


def _size(array: np.ndarray) -> str:
    return f"{float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))):.4g}" if array.size else "–"


def _whole(title: str, sections: list[tuple[str, str, Html]], lead: str, statement: Any, internal: bool) -> str:
    top = [paragraph(INTERNAL, class_="warning")] if internal else []
    top += [banner(statement), paragraph(lead)]
    foot = element(
        "p",
        "Made by commonground from the board's own files. This page has no scripts and asks no other computer for"
        " anything.",
    )
    return document(("INTERNAL: " if internal else "") + title, sections, joined(top), foot)
