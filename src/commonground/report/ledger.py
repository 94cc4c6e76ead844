"""The report of a ledger: populations, limits, spending over time, refused fits, integrity. For those who run it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from commonground.report.drawing import bar
from commonground.report.html import Html, Text, document, element, joined, paragraph, percent, section, table

_MOST = 500  # events that are listed; the export has them all


def report_of_ledger(
    name: str, accounts: Sequence[Mapping[str, Any]], events: Mapping[str, Sequence[tuple[Mapping[str, Any], str]]]
) -> str:
    """``accounts``: summaries of verified populations; ``events``: of each the (event, hash) of its chain, in order."""
    sections: list[tuple[str, str, Html]] = [("populations", "Populations and limits", _populations(accounts))]
    for at, account in enumerate(accounts):
        title = f"Spending: {account['population']}"
        sections.append(
            (f"spending-{at}", title, _spending(f"spending-{at}", title, account, events[account["population"]]))
        )
    sections.append(("refused", "Refused fits", _refused(events)))
    sections.append(("integrity", "Integrity", _integrity(accounts)))
    lead = paragraph(
        f"{len(accounts)} populations. Every event of each was read from the first on and follows from the one"
        " before it."
    )
    foot = paragraph(
        "Made by commonground from the ledger alone. This page has no scripts and asks no other computer for"
        " anything. It names purposes and machines: for those who run the ledger."
    )
    return document(f"Ledger report: {name}", sections, lead, foot)


def _share(account: Mapping[str, Any], of: str) -> float:
    if account["rounds_booked"]:
        return float(account["rounds_booked"]) / account["rounds_limit"]
    if account["mu_squared_limit"]:
        return float(account[f"mu_squared_{of}"]) / account["mu_squared_limit"]
    return float(account[f"epsilon_{of}"]) / account["epsilon"] if account["epsilon"] else 0.0


def _populations(accounts: Sequence[Mapping[str, Any]]) -> Html:
    rows: list[tuple[Text, ...]] = []
    for account in accounts:
        share = _share(account, "booked")
        rows.append(
            (
                account["population"],
                f"{account['epsilon']:g}",
                f"{account['delta']:g}",
                f"{account['epsilon_charged']:.4f}",
                f"{account['epsilon_left']:.4f}",
                percent(share),
                bar(share, f"{percent(share)} of the budget is booked"),
                str(account["settled_fits"]),
                str(len(account["open_reservations"])),
            )
        )
    shown = table(
        "Everybody's limit, and what is left of it",
        ("population", "ε", "δ", "ε charged", "ε left", "booked", "drawn", "fits", "open"),
        rows,
        numbers=(1, 2, 3, 4, 5, 7, 8),
    )
    words = paragraph(
        "What is booked is counted by what adds up: μ² of Gaussian fits, ε of pure ones, rounds of sampled training."
        " ε of Gaussian fits do not subtract."
    )
    return section("populations", "Populations and limits", shown, words)


def _spending(
    identifier: str, title: str, account: Mapping[str, Any], events: Sequence[tuple[Mapping[str, Any], str]]
) -> Html:
    """Each fit with what it declared and charged, in the order of time."""
    fits = _fits_in([event for event, _ in events])
    rows = [
        (
            fit["at"][:19].replace("T", " "),
            fit["purpose"] or "unnamed",
            f"{fit['epsilon']:g}",
            str(fit["releases"]),
            fit["state"],
            fit["board"] or "–",
        )
        for fit in fits[-_MOST:]
    ]
    opened = next((event["at"][:10] for event, _ in events if event["kind"] == "open"), "")
    content: list[Html] = [
        paragraph(
            f"Opened on {opened} with ε = {account['epsilon']:g}, δ = {account['delta']:g}. {len(fits)} fits reserved a"
            f" budget.{_own_accounts_in_words(account)}"
        )
    ]
    if rows:
        content.append(
            table(
                f"Fits on {account['population']} in the order of time (UTC)",
                ("reserved", "for", "ε declared", "releases", "state", "board"),
                rows,
                numbers=(2, 3),
            )
        )
    for one in account["open_reservations"]:
        content.append(
            paragraph(
                f"Reservation {one['reservation']} is open since {one['at'][:19]} (by {one['by']}): it counts in full"
                " until it is settled.",
                class_="warning",
            )
        )
    return section(identifier, title, *content)


def _fits_in(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What became of each reservation, in the order of time."""
    fits: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["kind"] == "reserve":
            told = {name: event[name] for name in ("at", "purpose", "epsilon")}
            fits[event["reservation"]] = {**told, "releases": 0, "state": "open", "board": ""}
        elif event["kind"] == "charge":
            fits[event["reservation"]]["releases"] += 1
        elif event["kind"] == "settle":
            fits[event["reservation"]]["state"] = "settled"
        elif event["kind"] == "board" and event["reservation"] in fits:
            fits[event["reservation"]]["board"] = event["board"][:16] + "…"
    return list(fits.values())


def _own_accounts_in_words(account: Mapping[str, Any]) -> str:
    words = ""
    if account.get("accounts"):
        dry = account["accounts"]["run_dry"]
        words += f" {account['people']:,} people have accounts of their own; {dry:,} have run dry. What is charged is that of the"
        words += " person who has paid most, what is left that of the person who has most left."
    if account["personal_budgets"]:
        smaller = sum(one["people"] for one in account["personal_budgets"])
        words += (
            f" {smaller:,} people have a smaller ε of their own, from {account['personal_budgets'][0]['epsilon']:g};"
            " the smallest decides for all."
        )
    return words


def _refused(events: Mapping[str, Sequence[tuple[Mapping[str, Any], str]]]) -> Html:
    rows = [
        (
            event["at"][:19].replace("T", " "),
            population,
            event["purpose"] or "unnamed",
            f"{event['epsilon']:g}",
            event["why"],
        )
        for population, chain in events.items()
        for event, _ in chain
        if event["kind"] == "refused"
    ]
    if not rows:
        return section("refused", "Refused fits", paragraph("None was refused since refusals are written down."))
    return section(
        "refused",
        "Refused fits",
        table(
            "Fits that asked for more than was left, or for another kind",
            ("when (UTC)", "population", "for", "ε asked", "why"),
            rows,
            numbers=(3,),
        ),
    )


def _integrity(accounts: Sequence[Mapping[str, Any]]) -> Html:
    rows: list[tuple[Text, ...]] = [
        (account["population"], f"{account['n_events']:,}", element("code", account["head"])) for account in accounts
    ]
    shown = table("Where each chain ends", ("population", "events", "last hash (SHA-256)"), rows, numbers=(1,))
    words = paragraph(
        "Verified just now. Keep the last hashes elsewhere: `commonground ledger verify --head HASH --population"
        " NAME` then notices an older copy of this ledger, and `ledger check` compares it with published boards."
        " Whoever can rewrite the whole database can rewrite the chain; a hash kept elsewhere shows it."
    )
    return section("integrity", "Integrity", joined([shown, words]))
