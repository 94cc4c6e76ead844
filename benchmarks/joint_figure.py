"""The tables and the figures of docs/joint_learning.md from measured cells.

python benchmarks/joint_figure.py [docs/measured/joint_cells.jsonl]
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from commonground.reproduce.p4 import (
    figure1_outcome,
    mean_and_error,
    table1_outcome,
    table2_outcome,
    table4_outcome,
)
from commonground.reproduce.p4_cells import Cell
from commonground.reproduce.results import Outcome

DOCS = Path(__file__).parents[1] / "docs"


def draw(outcome: Outcome, name: str, width: float, height: float = 3.6) -> None:
    assert outcome.draw is not None
    figure = Figure(figsize=(width, height), layout="constrained")
    outcome.draw(figure)
    figure.savefig(DOCS / "figures" / name, metadata={"Date": None})


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "measured" / "joint_cells.jsonl"
    cells = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def of(table: str) -> list[Cell]:
        return [cell for cell in cells if cell["table"] == table]

    outcomes = {
        "table 1": table1_outcome(of("table1")),
        "table 2": table2_outcome(of("table2")),
        "table 4": table4_outcome(of("table4")),
        "figure 1": figure1_outcome(of("figure1")),
    }
    draw(outcomes["table 1"], "joint_learning.svg", 9, 4.4)
    draw(outcomes["figure 1"], "joint_learning_epsilon.svg", 5.5)
    found = mean_and_error(of("table1"), "dataset", "method", "n")
    for dataset, method in sorted({(d, m) for d, m, _ in found}):
        numbers = " | ".join(
            f"{m:.3f} ± {e:.3f}" for (d, w, _), (m, e) in sorted(found.items()) if (d, w) == (dataset, method)
        )
        print(f"| {dataset} | {method} | {numbers} |")
    for name, outcome in outcomes.items():
        for row in outcome.rows if name != "table 1" else ():
            print(name, row.setting, f"{row.ours:.4f} ± {row.spread:.4f}", "printed", row.printed)
        for claim in outcome.claims:
            print(name, claim)


if __name__ == "__main__":
    main()
