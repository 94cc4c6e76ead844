"""The guarantee: in words for everybody, in numbers, and as what an attacker can gain."""

import math
from typing import Any

import numpy as np

from commonground.accounting.gaussian import gaussian_mu
from commonground.report.attack import (
    FALSE_POSITIVES,
    Curve,
    GaussianCurve,
    PureCurve,
    chance_of_more,
    curve_of,
    suspicion,
)
from commonground.report.drawing import figure, tradeoff
from commonground.report.html import Html, element, joined, paragraph, percent, section, table

REPLACED = "replace-one"
OFTEN, RARELY = 0.01, "1 in 100"  # of the innocent accused: what the words speak of


def banner(statement: Any) -> Html:
    """What must be seen before anything else; empty for a board that protects people."""
    if not statement.private:
        return paragraph(
            "NOT PRIVATE: this model was trained without any protection. Do not publish it.", class_="warning"
        )
    if statement.simulated:
        words = (
            "SIMULATED, NOT PRIVATE: the noise comes from a known seed and protects nobody. Numbers below are what"
            " the same noise would guarantee if nobody knew the seed."
        )
        return paragraph(words, class_="warning")
    return Html("")


def guarantee(statement: Any, who: str) -> Html:
    """``who``: whose data was learned from, in words, such as "5,000 people"."""
    if not statement.private:
        return section(
            "guarantee",
            "The guarantee",
            paragraph("There is none. Whoever sees the numbers may learn anything about anybody in the table."),
        )
    if not statement.events:
        words = (
            "Nothing that depends on anybody's data is published, so nobody can learn anything about anybody from it."
        )
        return section("guarantee", "The guarantee", paragraph(words, class_="plain"))
    curve = curve_of(statement.events)
    parts: list[Html] = [
        paragraph(in_plain_words(statement, who, curve), class_="plain"),
        element("h3", "In numbers"),
        numbers(statement, curve),
        element("h3", "What an attacker can gain"),
        paragraph(
            f"The attacker knows everything but whose data was used: {_doubt(statement)}. She knows the algorithm,"
            f" the parameters and everybody else's data. The numbers are {curve.how}, and hold for every test that"
            " anybody will ever invent."
        ),
        gains(curve, statement),
        figure(
            tradeoff(
                [("this board", *_points(curve)), *_budget_lines(statement)][:4],
                "Trade-off between people found and innocent people accused",
            ),
            "The most that any test can find, for each share of innocent people that it accuses; the broken line is"
            " blind guessing. Both axes are logarithmic.",
        ),
    ]
    if statement.budgets is not None:
        parts += [element("h3", "By personal budget"), by_budget(statement)]
    parts += [element("h3", "The statement"), paragraph(str(statement))]
    return section("guarantee", "The guarantee", *parts)


def _doubt(statement: Any) -> str:
    if statement.relation == REPLACED:
        return f"one {statement.unit}'s whole data, or any other in its place"
    return f"one {statement.unit} was there, or was missing"


def in_plain_words(statement: Any, who: str, curve: Curve) -> str:
    found = float(curve.power(OFTEN))
    human = statement.unit in ("person", "user")
    whose = "your data" if human else f"one {statement.unit}'s data"
    other = "somebody else's in their place" if statement.relation == REPLACED else "none of them"
    about = "you" if human else f"one {statement.unit}"
    return (
        f"These numbers were learned from {who}. Random noise was added before anything was published, so that nobody"
        f" who looks at them can be sure whether {whose} were used or {other}. Suppose somebody tries, with all the"
        f" computers and all the other knowledge in the world, and is careful enough to be wrong about only {RARELY}"
        f" of those whose data were not used. Then she recognises at most {percent(found)} of those whose data were;"
        f" blind guessing would recognise {percent(OFTEN)}. If she held it for as likely as not before, then after"
        f" such an alarm she may be {percent(suspicion(curve, OFTEN))} sure. This is true for everything that the"
        f" publication says about {about}, today and later. A personal model is made from these numbers and own rows,"
        " and is not published."
    )


def numbers(statement: Any, curve: Curve) -> Html:
    spent = statement.epsilon_spent
    rows: list[tuple[str, str]] = [
        (
            "Who is protected (unit)",
            (
                f"one {statement.unit} with all of its rows"
                if statement.unit != "person"
                else "one person with all of her rows"
            ),
        ),
        (
            "Neighbouring data sets",
            (
                "differ in one unit's whole data, replaced by any other"
                if statement.relation == REPLACED
                else "differ in one unit, there or missing"
            ),
        ),
        ("ε declared", f"{statement.epsilon:g}"),
        ("δ declared", f"{statement.delta:g}"),
        ("ε spent at that δ", f"{spent:.4g}"),
    ]
    if curve.mu is not None:
        rows.append(("μ (Gaussian differential privacy)", f"{curve.mu:.4g}"))
    return table("The guarantee in numbers", ("quantity", "value"), rows, numbers=())


def gains(curve: Curve, statement: Any) -> Html:
    rows = [(percent(fpr), percent(float(curve.power(fpr))), percent(suspicion(curve, fpr))) for fpr in FALSE_POSITIVES]
    shown = table(
        "What the best test finds (true-positive rate), and how far a suspicion of 50 % rises when it raises the alarm",
        ("innocent accused (false positives)", "found at most", "50 % becomes at most"),
        rows,
        numbers=(1, 2),
    )
    epsilon = statement.epsilon
    ceiling, chance = 1.0 / (1.0 + math.exp(-epsilon)), chance_of_more(curve, epsilon)
    if chance == 0.0:
        words = (
            f"Whatever she sees, a suspicion of 50 % rises to {percent(ceiling)} at most (e^ε/(1 + e^ε), ε ="
            f" {epsilon:g})."
        )
    else:
        words = (
            "A rarer alarm is more certain: there is no ceiling that holds always, as δ > 0. A suspicion of 50 %"
            f" rises above {percent(ceiling)} (e^ε/(1 + e^ε), ε = {epsilon:g}) with a probability of at most"
            f" {chance:.2g}."
        )
    return joined([shown, paragraph(words)])


def by_budget(statement: Any) -> Html:
    """For each quantile of people's own ε, from their own budget, which bounds what they have spent."""
    budgets, rows = statement.budgets, []
    for share, epsilon in budgets["quantiles"].items():
        curve = curve_of_budget(epsilon, statement.delta)
        cost = "–" if curve.mu is None else f"{curve.mu:.4g}"
        rows.append(
            (
                _quantile(float(share)),
                f"{epsilon:g}",
                cost,
                percent(float(curve.power(OFTEN))),
                percent(suspicion(curve, OFTEN)),
            )
        )
    words = (
        f"{budgets['people']:,} people have an ε of their own, and {budgets['taking no part']:,} of them take no"
        " part. Everybody's ε is public."
    )
    shown = table(
        f"By personal budget, at most; an alarm is raised for {percent(OFTEN)} of the innocent",
        ("people", "own ε", "own μ", "found", "50 % becomes"),
        rows,
        numbers=(1, 2, 3, 4),
    )
    return joined([paragraph(words), shown])


def curve_of_budget(epsilon: float, delta: float) -> GaussianCurve | PureCurve:
    return GaussianCurve(gaussian_mu(epsilon, delta)) if delta else PureCurve(epsilon)


def _quantile(share: float) -> str:
    named = {0.0: "smallest budget", 0.5: "median", 1.0: "largest budget"}
    return named.get(share, f"{share:.0%} have at most")


def _budget_lines(statement: Any) -> list[tuple[str, np.ndarray, np.ndarray]]:
    budgets = statement.budgets
    if budgets is None:
        return []
    wanted = {"median budget": budgets["quantiles"]["0.5"], "smallest budget": budgets["quantiles"]["0"]}
    return [
        (name, *_points(curve_of_budget(epsilon, statement.delta)))
        for name, epsilon in wanted.items()
        if epsilon < statement.epsilon
    ]


def _points(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    fprs = np.logspace(-4, 0, 81)
    fprs[-1] = 1.0 - 1e-12
    return fprs, np.asarray(curve.power(fprs))
