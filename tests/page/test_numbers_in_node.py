"""The page's arithmetic without a browser: its modules, imported by Node, give the numbers that Python gives."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from commonground.heads.kinds import ConvexHeads
from commonground.losses import losses_of
from made_boards import a_board

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))
from boards_for_people import CASES, NAMES, Case, numbers, posterior

MODULES = Path(__file__).parents[2] / "src" / "commonground" / "page"
CLOSE = 1e-9
RUN = """
import { readFileSync } from "node:fs";
import { openBoard } from "./board.js";
import { personalize, predict } from "./heads.js";

const { document, rows, labels, asked } = JSON.parse(readFileSync(0, "utf8"));
const opened = openBoard(document);
const revived = ({ values, items, ...size }) => ({ ...size, ...(items ? { items } : { values: Float64Array.from(values) }) });
const model = personalize(opened, revived(rows), Float64Array.from(labels));
const { answers, std } = predict(opened, model, revived(asked), { range: null });
const { kept, coef, intercept } = model;
console.log(JSON.stringify({ kept, coef: [...coef], intercept, answers: [...answers], std: std && [...std] }));
"""


def in_node(case: Case, folder: Path, **heads: str) -> dict[str, Any]:
    """What Node makes of a case; ``heads``: what the board says of its heads instead."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no Node on this machine")
    for script in MODULES.glob("*.js"):
        shutil.copy(script, folder)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "run.js").write_text(RUN, encoding="utf-8")
    text = case.board.page_text(case.item)
    document = json.loads(text.split('id="board-data">')[1].split("</script>")[0])
    document["heads"] |= heads
    given = {
        "document": document,
        "rows": _rows(case.board.features_of(case.X)),
        "labels": np.asarray(case.board._labels(case.y)).tolist(),
        "asked": _rows(case.board.features_of(case.Z)),
    }
    done = subprocess.run(
        [node, str(folder / "run.js")], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def _rows(X: Any) -> dict[str, Any]:
    n, d = X.shape
    return {"n": n, "d": d, **({"items": X.indices.tolist()} if sparse.issparse(X) else {"values": X.ravel().tolist()})}


OTHERS = {
    "sharing does not pay": lambda: numbers(posterior(local_choice=True, sharing_pays=False), 60),
    "many rows, a model of her own a little better": lambda: numbers(posterior(local_choice=True), 60, noise=1.5),
    "a noise that the board does not know": lambda: numbers(replace(posterior(), noise=4e-4), 9),
    "a level that nobody expected": lambda: numbers(replace(posterior(), intercept=1e3), 9),
    "the shared prediction kept": lambda: numbers(
        replace(posterior(local_choice=True, sharing_pays=False), mean=np.arange(6.0)), 20
    ),
    "a ridge board": lambda: numbers(a_board(NAMES), 12),
    **{
        f"convex heads, {loss}": lambda loss=loss: numbers(replace(a_board(NAMES), head_kind=ConvexHeads(loss)), 12)  # type: ignore[misc]
        for loss in losses_of("convex")
    },
}
SLOW = {"50,000 rows"}


@pytest.mark.parametrize("name", [*(name for name in CASES if name not in SLOW), *OTHERS])
def test_models_and_intervals_are_pythons(name: str, tmp_path: Path) -> None:
    case = {**CASES, **OTHERS}[name]()
    found, head = in_node(case, tmp_path), case.board.personalize(case.X, case.y)
    for part in ("coef", "intercept"):
        np.testing.assert_allclose(found[part], getattr(head, part), rtol=CLOSE, atol=CLOSE)
    answers = replace(head, schema=None).predict(case.board.features_of(case.Z))
    np.testing.assert_allclose(found["answers"], answers, rtol=CLOSE, atol=CLOSE)
    assert (found["std"] is None) == (head.std_of is None)
    if head.std_of is not None:
        _, std = head.predict(case.Z, return_std=True)
        np.testing.assert_allclose(found["std"], std, rtol=CLOSE)


def test_whoever_is_asked_about_keeps_what_python_keeps(tmp_path: Path) -> None:
    """Where the board says that sharing does not pay, who has rows enough keeps her own model unless a head is far better."""
    assert in_node(OTHERS["sharing does not pay"](), tmp_path)["kept"] == "own"


def test_with_many_rows_a_little_better_is_enough(tmp_path: Path) -> None:
    """60 rows: her own model is better by more than 1 + 2/√60, and by less than 1 + 8/√60."""
    assert in_node(OTHERS["many rows, a model of her own a little better"](), tmp_path)["kept"] == "own"


@pytest.mark.parametrize("heads", [{"kind": "splines"}, {"loss": "toString"}])
def test_heads_that_the_page_does_not_know_are_refused(heads: dict[str, str], tmp_path: Path) -> None:
    """Not made by what is next to them."""
    with pytest.raises(AssertionError, match=f"“{next(iter(heads.values()))}”, which this page cannot make"):
        in_node(OTHERS["convex heads, huber"](), tmp_path, **heads)
