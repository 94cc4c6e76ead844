"""Benchmarks do not run in CI, but what they import of the package is there: one that has rotted measures nothing."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))
NEEDS_A_GPU = {"commonground.statistics.kernels.cuda"}


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_it_imports_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "commonground":
            module = import_module(str(node.module))
            for name in (alias.name for alias in node.names):
                if f"{node.module}.{name}" not in NEEDS_A_GPU and not hasattr(module, name):
                    import_module(f"{node.module}.{name}")
