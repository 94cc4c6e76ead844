"""Write docs/estimators.md from the table that refusals are made from.

python benchmarks/capabilities.py
"""

from dataclasses import fields
from pathlib import Path

from commonground.estimators.capabilities import CAPABILITIES, Capabilities

PAGE = Path(__file__).parents[1] / "docs" / "estimators.md"
HEADINGS = {
    "sparse": "sparse rows", "budgets": "personal budgets", "device": "GPU", "ray": "Ray", "federation": "federation",
    "ledger": "ledger", "start": "refit", "evaluation": "evaluation, search",
}  # fmt: skip
INTRODUCTION = """# Which estimator takes what

Written by `python benchmarks/capabilities.py` from `estimators/capabilities.py`, which `fit` asks before anything is charged.
`tests/contracts/test_capabilities.py` tries every cell. Rows in memory or on disk, and one ε for everybody, are taken by all.
The joint learners (`JointSGDRegressor`, `JointSGDClassifier`, `deep.JointTrainer`) and `deep.PeopleTrainer` take
dense rows and a ledger.

"""


def written() -> str:
    names = [field.name for field in fields(Capabilities)]
    lines = ["| estimator | " + " | ".join(HEADINGS[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for estimator, can in CAPABILITIES.items():
        cells = ["yes" if getattr(can, name) else "" for name in names]
        lines.append(f"| {estimator} | " + " | ".join(cells) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
