"""Every example runs as it stands; the one that docs/adding_an_estimator.md is about is the one printed there."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone

import commonground as cg
from commonground.statistics.statistic import WINDOW
from populations import ragged_block, replace_person, strange_people

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FAST = ("shared_answer.py",)  # the others compile in a process of their own


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] if path.name not in FAST else [], id=path.name) for path in EXAMPLES],
)
def test_it_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared_answer", ROOT / "examples" / "shared_answer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_prints_the_example() -> None:
    page = (ROOT / "docs" / "adding_an_estimator.md").read_text(encoding="utf-8")
    printed = page.split("```python\n")[1].split("```")[0]
    assert printed == (ROOT / "examples" / "shared_answer.py").read_text(encoding="utf-8")


def test_the_example_keeps_its_sensitivity(example: ModuleType) -> None:
    block = ragged_block(0, n_users=20)
    asked = example.MeanLabels(121 - WINDOW // 2)
    before = asked.of(block).clipped_at(121, "m")
    for kind, (X, y) in strange_people(block.X.shape[1]).items():
        after = asked.of(replace_person(block, 3, X, y)).clipped_at(121, "m")
        assert np.linalg.norm(after.value - before.value) <= before.sensitivity, kind


def test_the_example_is_an_estimator_like_the_others(example: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(2_000), 6)
    X, y = rng.standard_normal((len(people), 3)), 5.0 + rng.standard_normal(len(people))
    model = clone(example.SharedAnswer(1.0, simulation_seed=2)).fit(X, y, users=people)
    board = model.billboard_
    assert abs(board.intercept - 5.0) < 0.7
    assert board.statement.epsilon_spent <= 1.0
    np.testing.assert_array_equal(model.predict(X[:3], users=people[:3]), board.intercept)
    assert cg.Billboard.load(board.save(tmp_path / "board")).intercept == board.intercept
