"""Where the budget went: every release, in the order in which they were made, and what cost nothing."""

import math
import re
from typing import Any

from commonground.accounting.costs import kind_of
from commonground.report.drawing import bar
from commonground.report.html import Html, Text, bullets, element, paragraph, percent, section, table


def shares(events: tuple[Any, ...]) -> list[float | None]:
    """Of what adds up, such as μ² of Gaussian releases; None in a mixture of kinds, or where nothing adds up."""
    total = math.fsum(event.cost.amount for event in events)
    if kind_of(events) is None or not total:
        return [None] * len(events)
    return [event.cost.amount / total for event in events]


def spending(statement: Any) -> Html:
    if not statement.private or not statement.events:
        return section("spending", "Where the budget went", paragraph("No budget was spent: nothing passed the gate."))
    events = statement.events
    rows: list[tuple[Text, ...]] = []
    for at, (event, share) in enumerate(zip(events, shares(events), strict=True)):
        count = f"1 of {event.entries:,}" if event.chooses else f"{event.entries:,}"
        told = percent(share) if share is not None else "–"
        rows.append(
            (
                f"{at + 1}. {event.name}",
                count,
                f"{event.sensitivity:.4g}",
                event.noise,
                str(event.cost),
                told,
                bar(share or 0.0, f"{told} of the budget"),
            )
        )
    kind = kind_of(events)
    measure = kind.measure if kind is not None and kind.measure else "the budget"
    shown = table(
        "Every release in the order in which it was made",
        ("release", "numbers", "sensitivity", "noise", "cost", f"share of {measure}", "drawn"),
        rows,
        numbers=(1, 2, 4, 5),
    )
    left = statement.epsilon - statement.epsilon_spent
    words = (
        f"{len(events)} releases passed the gate. Each was checked, charged and then got its noise, in this order."
        f" Together they cost ε = {statement.epsilon_spent:.4g} of {statement.epsilon:g} at δ = {statement.delta:g}"
        + (f"; ε = {left:.2g} was declared and not used." if left > 1e-3 * statement.epsilon else ".")
    )
    free = [
        "everybody's own model (head): made from the board and her own rows, shown to her alone;",
        (
            "whatever was computed from releases already made: eigenvectors, thresholds read off noisy histograms,"
            " the verdict on sharing;"
        ),
        "what is public by declaration: the numbers of people, rows' columns and directions, settings, the schema.",
    ]
    return section(
        "spending",
        "Where the budget went",
        paragraph(words),
        by_kind(events, measure),
        element("h3", "Every release"),
        shown,
        element("h3", "What was free"),
        bullets(free),
    )


def kinds(events: tuple[Any, ...]) -> dict[str, list[int]]:
    """Positions of releases by what they are: rounds of one kind are one."""
    found: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        found.setdefault(re.sub(r" \d+\b", "", event.name), []).append(at)
    return found


def by_kind(events: tuple[Any, ...], measure: str) -> Html:
    """The same in a few bars."""
    of = shares(events)
    rows: list[tuple[Text, ...]] = []
    for kind, places in kinds(events).items():
        share = None if of[0] is None else math.fsum(of[at] or 0.0 for at in places)
        told = percent(share) if share is not None else "–"
        rows.append((kind, str(len(places)), bar(share or 0.0, f"{told} of the budget"), told))
    return table("By kind of release", ("what", "times", "drawn", f"share of {measure}"), rows, numbers=(1, 3))


def hidden(statement: Any, n_units: int) -> Html:
    """What stands out of the noise: replacing 1/μ people, all in one direction, moves a release by one deviation."""
    events, rows = statement.events, []
    for kind, places in kinds(events).items():
        mus = [events[at].cost.mu for at in places if events[at].cost.mu]
        if not mus:
            continue
        fewest, most = 1.0 / max(mus), 1.0 / min(mus)
        people = f"{fewest:,.1f}" if most < 1.05 * fewest else f"{fewest:,.1f} to {most:,.1f}"
        rows.append((kind, people, percent(min(fewest / n_units, 1.0))))
    if not rows:
        return paragraph("What the noise hides is told for Gaussian releases of whole populations only.", class_="soft")
    return table(
        "So many people, replaced all in the same direction, move a release by one standard deviation of its noise",
        ("release", "people", "of all, at least"),
        rows,
        numbers=(1, 2),
    )
