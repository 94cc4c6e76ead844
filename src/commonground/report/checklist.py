"""The questions of NIST SP 800-226's pyramid, in our words: each answered from the board, or named as not answered here.

From the top of the pyramid (the claim's parameters) over its middle (is the mechanism right, and whom does it serve) to its foot
(who held the rows, and how they were come by).
"""

from typing import Any

from commonground.report.guarantee import REPLACED
from commonground.report.html import Html, element, joined, paragraph, prose, section, table

NOT_HERE = "Not answered by this software"


def answers(statement: Any, heldout: bool) -> list[tuple[str, str]]:
    """(question, answer), from the top of the pyramid to its foot."""
    return [*_about_the_claim(statement), *_about_the_mechanism(statement, heldout), *_about_the_collection(statement)]


def _about_the_claim(s: Any) -> list[tuple[str, str]]:
    whole = {
        "person": "one person with all of her rows",
        "user": "one user with all of its records at one owner",
        "owner": "one owner with all of its records",
    }
    strength = f"ε = {s.epsilon:g}, δ = {s.delta:g}; {s.epsilon_spent:.4g} spent."
    replaced = "replacing one unit's whole data." if s.relation == REPLACED else "adding or removing one unit."
    people = "the number of people" if s.unit == "person" else f"the number of {s.unit}s"
    public = people + (", everybody's ε" if s.budgets else "")
    sums = f"{NOT_HERE}: no ledger was asked."
    if s.ledger:
        sums = f"A ledger keeps the sum: population {s.ledger.population!r}, reservation {s.ledger.reservation}."
    return [
        ("How strong is the guarantee (ε, δ)?", strength if s.private else "There is none: not private."),
        (
            "Which definition, and which data sets are neighbours?",
            f"(ε, δ)-differential privacy, neighbours by {replaced}",
        ),
        ("What is the unit of privacy?", f"{whole.get(s.unit, f'one {s.unit}')}.".capitalize()),
        (
            "What is not protected because it counts as public?",
            f"{public}, the columns' names, settings, and the schema where there is one.".capitalize(),
        ),
        ("Do other releases on the same people add up to more?", sums),
    ]


def _about_the_mechanism(s: Any, heldout: bool) -> list[tuple[str, str]]:
    nothing = "Nothing that depends on data is published." if s.private else "No: this model is not private."
    released = s.private and bool(s.events)
    bounded = (
        "Yes: every release lists its sensitivity, which is made where contributions are clipped, and the cost is checked "
        "against it whenever the board is read."
    )
    noise = f"Noise: {s.noise}." + (" SIMULATED: it protects nobody." if s.simulated else "")
    tuned = (
        "Not by the training itself: what it reads off the data is among the releases. What people gave it as settings, or "
        f"chose after looking at rows: {NOT_HERE.lower()}."
    )
    checked = (
        "`commonground audit` attacks the claim from outside on made-up people; of this very training run there is no such "
        "proof."
    )
    not_measured = (
        f"{NOT_HERE} without held-out rows (`--heldout`). Whether sharing can be expected to pay stands under What is "
        "published."
    )
    groups = f"Noise and clipping cost small and unusual groups most. By group: {NOT_HERE.lower()}."
    return [
        ("Is what one unit contributes bounded?", bounded if released else nothing),
        ("Is the noise drawn safely (floating point, randomness)?", noise if released else nothing),
        ("Was anything tuned or scaled on the data for free?", tuned if released else nothing),
        ("Was the implementation checked?", checked),
        ("Is the result useful?", "See Who gains (internal)." if heldout else not_measured),
        ("Are small groups served worse (bias)?", groups),
    ]


def _about_the_collection(s: Any) -> list[tuple[str, str]]:
    operator = "One operator had all rows and is trusted with them."
    if s.n_owners is not None:
        operator = "Whoever ran the training saw gradients before the noise, and is trusted with them."
    around = (
        f"Heads and predictions are written for their owner's eyes alone. Everything around them: {NOT_HERE.lower()}."
    )
    return [
        ("Who saw the rows (trust model)?", s.custody or operator),
        (
            "Are side channels closed?",
            f"Time, memory and traffic of a training run: {NOT_HERE.lower()}; train where others cannot watch.",
        ),
        ("Who may read rows, keys and drafts (security)?", around),
        ("How were the data collected, and did people agree?", f"{NOT_HERE}."),
        ("How long are raw data kept?", f"{NOT_HERE}."),
    ]


def checklist(statement: Any, heldout: bool) -> Html:
    rows = [
        (question, element("strong", answer) if answer.startswith(NOT_HERE) else prose(answer))
        for question, answer in answers(statement, heldout)
    ]
    words = paragraph(
        "The questions of NIST SP 800-226's differential privacy pyramid in our own words, from the claim at its top"
        " to the collection of data at its foot. The guarantee stands on all of them."
    )
    return section(
        "checklist", "Checklist", joined([words, table("Questions and answers", ("question", "answer"), rows)])
    )
