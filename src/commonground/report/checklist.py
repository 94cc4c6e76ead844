"""The questions of NIST SP 800-226's pyramid, in our words: each answered from the board, or named as not answered here.

From the top of the pyramid (the claim's parameters) over its middle (is the mechanism right, and whom does it serve) to its foot
(who held the rows, and how they were come by).
"""

from typing import Any

from commonground.report.guarantee import REPLACED
from commonground.report.html import Html, element, joined, paragraph, prose, section, table

NOT_HERE = "Not answered by this software"


def answers(statement: Any, heldout: bool) -> list[tuple[str, str, str]]:
    """(level, question, answer)."""
    s = statement
    whole = {
        "person": "one person with all of her rows",
        "user": "one user with all of its records at one owner",
        "owner": "one owner with all of its records",
    }
    ledger = s.ledger
    released = s.private and bool(s.events)
    nothing = "Nothing that depends on data is published." if s.private else "No: this model is not private."
    public = ["the number of people" if s.unit == "person" else f"the number of {s.unit}s"] + (
        ["everybody's ε"] if s.budgets else []
    )
    return [
        (
            "top",
            "How strong is the guarantee (ε, δ)?",
            (
                f"ε = {s.epsilon:g}, δ = {s.delta:g}; {s.epsilon_spent:.4g} spent."
                if s.private
                else "There is none: not private."
            ),
        ),
        (
            "top",
            "Which definition, and which data sets are neighbours?",
            "(ε, δ)-differential privacy, neighbours by "
            + ("replacing one unit's whole data." if s.relation == REPLACED else "adding or removing one unit."),
        ),
        ("top", "What is the unit of privacy?", f"{whole.get(s.unit, f'one {s.unit}')}.".capitalize()),
        (
            "top",
            "What is not protected because it counts as public?",
            f"{', '.join(public)}, the columns' names, settings, and the schema where there is one.".capitalize(),
        ),
        (
            "top",
            "Do other releases on the same people add up to more?",
            (
                f"A ledger keeps the sum: population {ledger.population!r}, reservation {ledger.reservation}."
                if ledger
                else f"{NOT_HERE}: no ledger was asked."
            ),
        ),
        (
            "middle",
            "Is what one unit contributes bounded?",
            (
                "Yes: every release lists its sensitivity, which is made where contributions are clipped, and the cost is"
                " checked against it whenever the board is read."
                if released
                else nothing
            ),
        ),
        (
            "middle",
            "Is the noise drawn safely (floating point, randomness)?",
            f"Noise: {s.noise}." + (" SIMULATED: it protects nobody." if s.simulated else "") if released else nothing,
        ),
        (
            "middle",
            "Was anything tuned or scaled on the data for free?",
            (
                "Not by the training itself: what it reads off the data is among the releases. What people gave it as"
                f" settings, or chose after looking at rows: {NOT_HERE.lower()}."
                if released
                else nothing
            ),
        ),
        (
            "middle",
            "Was the implementation checked?",
            (
                "`commonground audit` attacks the claim from outside on made-up people; of this very training run"
                " there is no such proof."
            ),
        ),
        (
            "middle",
            "Is the result useful?",
            (
                "See Who gains (internal)."
                if heldout
                else (
                    f"{NOT_HERE} without held-out rows (`--heldout`). Whether sharing can be expected to pay stands"
                    " under What is published."
                )
            ),
        ),
        (
            "middle",
            "Are small groups served worse (bias)?",
            f"Noise and clipping cost small and unusual groups most. By group: {NOT_HERE.lower()}.",
        ),
        (
            "foot",
            "Who saw the rows (trust model)?",
            s.custody
            or (
                "Whoever ran the training saw gradients before the noise, and is trusted with them."
                if s.n_owners is not None
                else "One operator had all rows and is trusted with them."
            ),
        ),
        (
            "foot",
            "Are side channels closed?",
            f"Time, memory and traffic of a training run: {NOT_HERE.lower()}; train where others cannot watch.",
        ),
        (
            "foot",
            "Who may read rows, keys and drafts (security)?",
            (
                "Heads and predictions are written for their owner's eyes alone. Everything around them:"
                f" {NOT_HERE.lower()}."
            ),
        ),
        ("foot", "How were the data collected, and did people agree?", f"{NOT_HERE}."),
        ("foot", "How long are raw data kept?", f"{NOT_HERE}."),
    ]


def checklist(statement: Any, heldout: bool) -> Html:
    rows = [
        (question, element("strong", answer) if answer.startswith(NOT_HERE) else prose(answer))
        for _, question, answer in answers(statement, heldout)
    ]
    words = paragraph(
        "The questions of NIST SP 800-226's differential privacy pyramid in our own words, from the claim at its top"
        " to the collection of data at its foot. The guarantee stands on all of them."
    )
    return section(
        "checklist", "Checklist", joined([words, table("Questions and answers", ("question", "answer"), rows)])
    )
