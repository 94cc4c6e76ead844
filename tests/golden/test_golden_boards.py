"""What every estimator published for fixed seeds before: a change of structure must not change a number.

    OPENBLAS_NUM_THREADS=1 GOLDEN=exact pytest tests/golden  # bit by bit, on the machine that wrote the file
    OPENBLAS_NUM_THREADS=1 GOLDEN=write pytest tests/golden  # after a change that is to change numbers: say why in the commit

Other processors add up in other orders, so without GOLDEN numbers may differ in their last digits.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.test_every_estimator import ESTIMATORS, fit, labels_for

FILE = Path(__file__).parent / "boards.json"
MODE = os.environ.get("GOLDEN", "close")


def population() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20)
    ids = np.repeat(np.arange(120), rng.integers(1, 16, 120))
    X = rng.standard_normal((len(ids), 8)) * np.linspace(0.5, 2.0, 8)
    heads = rng.standard_normal((120, 2))
    y = (X[:, :2] * heads[ids]).sum(axis=1) + X[:, 2] + 0.1 * rng.standard_normal(len(ids))
    return X, y, ids


def published(estimator: Any) -> dict[str, Any]:
    X, y, ids = population()
    board = fit(estimator, X, labels_for(estimator, y), users=ids).billboard_
    names = ("embedding", "mean", "intercept", "prior", "spread", "noise", "class_scores")
    arrays = {name: getattr(board, name) for name in names}
    return {name: _exactly(array) for name, array in arrays.items() if array is not None} | {
        "events": len(board.statement.events)
    }


def _exactly(array: Any) -> Any:
    return [float(x).hex() for x in np.asarray(array, dtype=np.float64).ravel()]


def _numbers(hexadecimal: Any) -> np.ndarray:
    return np.array([float.fromhex(x) for x in hexadecimal])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_board_is_the_one_it_was(name: str) -> None:
    golden = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    found = published(ESTIMATORS[name])
    if MODE == "write":
        golden[name] = found
        FILE.write_text(json.dumps(golden, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    expected = golden[name]
    assert found.keys() == expected.keys()
    assert found["events"] == expected["events"]
    for part in expected.keys() - {"events"}:
        if MODE == "exact":
            assert found[part] == expected[part], part
        else:
            np.testing.assert_allclose(_numbers(found[part]), _numbers(expected[part]), rtol=1e-6, atol=1e-9)
