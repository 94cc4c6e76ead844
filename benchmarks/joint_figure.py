"""The table and the figure of docs/joint_learning.md from measured cells.

python benchmarks/joint_figure.py [benchmarks/joint_cells.jsonl]
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure

from commonground.reproduce.p4 import mean_and_error, table1_outcome, table4_outcome

HERE = Path(__file__).parent


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "joint_cells.jsonl"
    cells = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first = [cell for cell in cells if cell["table"] == "table1"]
    outcome = table1_outcome(first)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    assert outcome.draw is not None
    outcome.draw(figure)
    figure.savefig(HERE.parent / "docs" / "figures" / "joint_learning.svg", metadata={"Date": None})
    found = mean_and_error(first, "dataset", "method", "n")
    for dataset, method in sorted({(d, m) for d, m, _ in found}):
        numbers = " | ".join(
            f"{m:.3f} ± {e:.3f}" for (d, w, _), (m, e) in sorted(found.items()) if (d, w) == (dataset, method)
        )
        print(f"| {dataset} | {method} | {numbers} |")
    for row in table4_outcome([cell for cell in cells if cell["table"] == "table4"]).rows:
        print(row.setting, row.ours, row.printed)
    for claim in outcome.claims:
        print(claim)


if __name__ == "__main__":
    main()
