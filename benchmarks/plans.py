"""Write docs/plans.md: which share of the budget goes where, from the plans that estimators follow.

python benchmarks/plans.py
"""

from pathlib import Path

from commonground.accounting.plan import Plan
from commonground.estimators.altmin import private_altmin as altmin
from commonground.estimators.fedrep import classes, default_plan, few_people, many_people

PAGE = Path(__file__).parents[1] / "docs" / "plans.md"
PLANS = {
    "PrivateFedRep": default_plan.for_labels(default_plan.PLAN, log_odds=False),
    "PrivateFedRep, yes-or-no labels": default_plan.for_labels(default_plan.PLAN, log_odds=True),
    "PrivateFedRep, without mean and intercepts": many_people.PLAN,
    "PrivateFedRep, without mean and intercepts, few people": few_people.plan_for_few(information=12.0),
    "PrivateFedRepClassifier, three classes and more": classes.PLAN,
    "PrivateAltMin": altmin.PLAN,
}


def table(plan: Plan) -> str:
    fractions = plan.fractions()
    lines = ["| share | of μ² | releases | what is released |", "|---|---|---|---|"]
    lines += [f"| {s.name} | {fractions[s.name]:.1%} | {s.repeats:g} | {s.what} |" for s in plan]
    return "\n".join(lines)


def page() -> str:
    parts = [
        "# Where the budget goes",
        "Written by `python benchmarks/plans.py` from the plans that the estimators follow (`accounting/plan.py`); a test\n"
        "compares. A share is a part of μ², the square of the Gaussian cost that (ε, δ) allows; its releases cost the same\n"
        "each, and some steps (scales, correlations, a start in several looks, the prior) divide theirs further. Shares\n"
        "depend on public numbers only: moments of features get less, or nothing, where less is enough or noise would hide\n"
        "them (`steps/coordinates.py`), and where people are few the start gets the more, the fewer they are\n"
        "(`estimators/fedrep/few_people.py`; the table is for 1,000 people, ε = 1, 50 features, rank 2). Of several classes,\n"
        "how large features and gradients are and how often classes occur get up to 0.2 parts where people are few.\n"
        "`SingleModel` has the first plan, at rank 0; so has `PrivateAltMin`, where noise would hide most of its matrix.",
    ]
    for name, plan in PLANS.items():
        parts += [f"## {name}", table(plan)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
