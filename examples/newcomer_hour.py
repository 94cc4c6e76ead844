"""A newcomer's first hour: a messy table, from the first error to a prediction for somebody new.

The table has text, dates, gaps, ids with leading zeros, a huge column, an index and an id of something else. Every command is
shown with what it says. Run it in an empty folder: ``python examples/newcomer_hour.py``.
"""

import csv
import io
import math
import random
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from commonground.cli import main as run_command

PEOPLE, VISITS = 1000, 8
TOWNS = ("Oslo", "Bergen", "Tromsø")


def messy_table(path: Path, seed: int = 0) -> None:
    """Visits to a clinic; who is content depends on the town, on smoking, and on age in everybody's own way."""
    rng = random.Random(seed)
    rows = []
    for person in range(PEOPLE):
        own_mean, own_slope = rng.gauss(0, 0.5), rng.gauss(0.5, 0.3)
        for _ in range(VISITS):
            age, town, smokes = rng.randint(18, 89), rng.choice(TOWNS), rng.random() < 0.4
            stars = (
                3 + own_mean + own_slope * (age - 50) / 40 + 0.8 * (town == "Oslo") - 0.5 * smokes + rng.gauss(0, 0.3)
            )
            rows.append(
                {
                    "patient": f"{person:04d}",  # 0042 is not 42
                    "visit_id": rng.randint(10**6, 10**7),
                    "age": "" if rng.random() < 0.1 else age,
                    "town": "" if rng.random() < 0.05 else town,
                    "joined": f"{rng.randint(2010, 2023)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
                    "income": round(math.exp(rng.gauss(15, 1)), 2),  # millions, among ordinary numbers
                    "smokes": "yes" if smokes else "no",
                    "stars": round(min(5.0, max(1.0, stars)), 2),
                }
            )
    rng.shuffle(rows)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["row", *rows[0]])
        writer.writeheader()
        writer.writerows({"row": number, **row} for number, row in enumerate(rows))


def commonground(*arguments: str, expect: int = 0) -> str:
    """Run one command, in this process to be quick, show it with its answer, and check its exit code."""
    print(f"\n$ commonground {' '.join(arguments)}")
    sys.argv, said, code = ["commonground", *arguments], io.StringIO(), 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            run_command()
        except SystemExit as stop:
            code = int(stop.code or 0)
    print(said.getvalue().strip())
    assert code == expect, f"exit code {code}, expected {expect}"
    return said.getvalue()


def declared_by_the_operator(draft: str) -> str:
    """What a person does by hand: values and ranges that are known without the rows, then no longer a draft."""
    schema = draft.replace('values = "discover"', 'values = ["Oslo", "Bergen", "Tromsø"]', 1)
    for column, known in (("age", "[0, 120]"), ("income", "[0, 20000000]"), ("stars", "[1, 5]")):
        schema = re.sub(rf"(\[columns\.{column}\][^\[]*range = )\[[^\]]*\].*", rf"\g<1>{known}", schema)
    schema = schema.replace('origin = "2000-01-01"', 'origin = "2010-01-01"').replace("[0.0, 50.0]", "[0, 14]")
    return schema.replace("draft = true\n", "")


def main() -> None:
    messy_table(Path("visits.csv"))

    # The README's command: every trouble at once, nothing trained, nothing spent.
    said = commonground("train", "visits.csv", "--user", "patient", "--label", "stars", "--out", "board", expect=2)
    for column in ("row", "visit_id", "age", "town", "joined", "smokes"):
        assert f"'{column}'" in said, column

    # A draft to check; it is refused until somebody has.
    commonground("schema", "visits.csv", "--user", "patient", "--label", "stars", "--out", "schema.toml")
    commonground("train", "visits.csv", "--schema", "schema.toml", "--out", "board", expect=2)
    draft = Path("schema.toml").read_text(encoding="utf-8")
    Path("schema.toml").write_text(declared_by_the_operator(draft), encoding="utf-8")

    # Look before you spend, then train, with a ledger that adds up.
    commonground("ledger", "open", "budget.db", "--population", "patients", "--epsilon", "2.5")
    train = [
        "train",
        "visits.csv",
        "--schema",
        "schema.toml",
        "--out",
        "board",
        "--epsilon",
        "2",
        "--refuse-if-useless",
    ]
    train += ["--ledger", "budget.db", "--population", "patients"]
    commonground(*train, "--dry-run")
    said = commonground("evaluate", "visits.csv", "--schema", "schema.toml", "--epsilon", "2", "--out", "evaluation")
    assert "worse than the global mean" not in said
    commonground(*train)
    commonground(*train, expect=2)  # the board is there: nothing is overwritten, nothing spent again
    commonground(*train[:5], "other", *train[6:], expect=3)  # ε = 2 twice is more than 2.5

    # Everybody's own head, and answers for those who have one.
    commonground("personalize", "board", "visits.csv", "--out", "heads.parquet")
    commonground("predict", "board", "visits.csv", "--heads", "heads.parquet", "--out", "answers.csv", "--strict")

    # Somebody new, of whom the training knew nothing: four visits are enough for a head of her own.
    new = "patient,age,town,joined,income,smokes,stars\n"
    new += "".join(
        f"00042x,{age},Oslo,2024-02-29,1e6,no,{stars}\n" for age, stars in ((30, 4.6), (50, 4.5), (70, 4.9), ("", 4.4))
    )
    Path("new.csv").write_text(new, encoding="utf-8")
    commonground("personalize", "board", "new.csv", "--out", "new.parquet")
    Path("asked.csv").write_text("patient,age,town,joined,income,smokes\n00042x,60,Oslo,,9e99,no\n", encoding="utf-8")
    commonground("predict", "board", "asked.csv", "--heads", "new.parquet", "--out", "answer.csv", expect=2)  # no date
    Path("asked.csv").write_text(
        "patient,age,town,joined,income,smokes\n00042x,60,Oslo,2024-03-01,9e99,no\n", encoding="utf-8"
    )
    commonground("predict", "board", "asked.csv", "--heads", "new.parquet", "--out", "answer.csv", "--strict")
    with open("answer.csv", encoding="utf-8") as file:
        (answer,) = csv.DictReader(file)
    print(f"\nPatient {answer['patient']} at 60: {float(answer['prediction']):.2f} stars")
    assert answer["patient"] == "00042x"
    assert 3.5 < float(answer["prediction"]) <= 5.0


if __name__ == "__main__":
    main()
