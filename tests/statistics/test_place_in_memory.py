"""What a person sends does not depend on where arrays lie: how many rows others have decides that, and nobody may learn it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import commonground
from commonground.statistics.directions import _directions
from commonground.statistics.kernels.lanes import LANES

SOURCES = Path(commonground.__file__).parent


@pytest.mark.parametrize("d", [3, 4, 8])
def test_a_direction_keeps_its_bits_wherever_its_rows_are_copied_to(d: int) -> None:
    """The same numbers, with the room for a copy 0 to 64 numbers behind them."""
    rng, m, most = np.random.default_rng(d), 2, 3
    width, height = -(-d // LANES) * LANES, -(-(min(most, d) + 1) // 4) * 4
    for _ in range(100):
        rows, labels, slopes = rng.standard_normal((m, d)), rng.standard_normal(m), rng.standard_normal(d)
        found = set()
        for gap in (0, 1, 2, 4, 8, 16, 64):
            memory = np.zeros(4096)
            X, behind = memory[128 : 128 + m * d].reshape(m, d), 128 + m * d + gap
            R = memory[behind : behind + (most + 4) * width].reshape(most + 4, width)
            X[:] = rows
            room = R, np.empty(most), np.empty((height, height)), np.empty((1, width, width)), np.ones(1), np.empty(1)
            sent = np.zeros((1, d))
            _directions(X, labels, np.array([0, m]), slopes, 0.3, 0, *room, np.empty(d), sent)
            found.add(sent.tobytes())
        assert len(found) == 1


def reassociating_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Compiled functions that may add up in another order: those with fastmath."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and any(
                "fastmath" in ast.unparse(each) for each in node.decorator_list
            ):
                yield f"{path.relative_to(SOURCES)}: {node.name}", node


def adds_up_and_stores(loop: ast.For) -> bool:
    """Whether an innermost loop has a running sum and writes to an array that the sum's terms may lie in.

    Compiled code then asks at run time whether arrays overlap, and adds up in another order where they lie too close.
    """
    steps = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
    sums = stores = False
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and not isinstance(node.value, ast.Constant):  # a constant: a counter
            names = {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
            in_memory = isinstance(node.target, ast.Subscript)
            sums |= not in_memory or not names & steps
            stores |= in_memory
        elif isinstance(node, ast.Assign):
            stores |= any(isinstance(each, ast.Subscript) for each in node.targets)
    return sums and stores


def test_no_loop_that_may_be_reordered_both_adds_up_and_stores() -> None:
    functions, found = list(reassociating_functions()), []
    for name, function in functions:
        for loop in (node for node in ast.walk(function) if isinstance(node, ast.For)):
            innermost = not any(isinstance(node, ast.For) for node in ast.walk(loop) if node is not loop)
            if innermost and adds_up_and_stores(loop):
                found.append(f"{name}, line {loop.lineno}")
    assert len(functions) > 20
    assert not found, found
