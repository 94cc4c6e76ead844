"""The published artifact: what is written is what is read, and nothing else is accepted."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from commonground.accounting.events import GaussianEvent, PureEvent
from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.errors import BillboardError, InputError


@pytest.fixture
def board() -> Billboard:
    events = (GaussianEvent("a", 0.1, 2.0, 20.0, 10, False), GaussianEvent("b", 0.1, 2.0, 20.0, 10, False))
    return Billboard(
        embedding=np.linalg.qr(np.random.default_rng(0).standard_normal((4, 2)))[0],
        mean=np.arange(4.0),
        intercept=0.5,
        fit_intercept=True,
        feature_names=("age", "größe", "c", "d"),
        statement=Statement("Test", "default", 1.0, 1e-6, 100, 4, False, "OpenDP", events, parameters={"rank": 2}),
    )


def test_round_trip(board: Billboard, tmp_path: Path) -> None:
    again = Billboard.load(board.save(tmp_path / "deep" / "board"))
    assert again.statement == board.statement
    assert again.feature_names == board.feature_names
    assert again.fingerprint == board.fingerprint
    X = np.random.default_rng(1).standard_normal((5, 4))
    np.testing.assert_array_equal(again.predict(X), board.predict(X))
    np.testing.assert_allclose(again.predict(X), X @ np.arange(4.0) + 0.5, rtol=1e-14)
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["board"]


def test_saving_again_replaces_a_billboard_but_nothing_else(board: Billboard, tmp_path: Path) -> None:
    board.save(tmp_path / "b")
    board.save(tmp_path / "b")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("do not lose me")
    with pytest.raises(BillboardError, match="not a billboard"):
        board.save(tmp_path / "other")
    assert (tmp_path / "other" / "thesis.txt").exists()


@pytest.mark.parametrize("name", ["billboard.safetensors", "statement.json"])
def test_every_changed_byte_is_noticed(board: Billboard, tmp_path: Path, name: str) -> None:
    path = board.save(tmp_path / "b") / name
    original = path.read_bytes()
    for at in range(0, len(original), max(1, len(original) // 60)):
        changed = bytearray(original)
        changed[at] ^= 0x04
        path.write_bytes(changed)
        if name == "statement.json" and _same_json(original, bytes(changed)):
            continue  # white space between values
        with pytest.raises(BillboardError):
            Billboard.load(path.parent)
    for length in (0, 1, len(original) // 2, len(original) - 2):
        path.write_bytes(original[:length])
        with pytest.raises(BillboardError):
            Billboard.load(path.parent)


def _same_json(one: bytes, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_newer_and_missing(board: Billboard, tmp_path: Path) -> None:
    folder = board.save(tmp_path / "b")
    document = json.loads((folder / "statement.json").read_text())
    document["schema_version"] = 99
    (folder / "statement.json").write_text(json.dumps(document))
    with pytest.raises(BillboardError, match="newer"):
        Billboard.load(folder)
    with pytest.raises(BillboardError, match="not a readable billboard"):
        Billboard.load(tmp_path / "nowhere")


@pytest.mark.parametrize("written", [0, 1, 2], ids=["arrays", "their name", "statement"])
def test_nothing_is_left_behind_when_writing_fails(
    board: Billboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    steps = iter(range(10))

    def full_disk(handle: int) -> None:
        if next(steps) == written:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("commonground.files.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        board.save(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_statement_is_a_paragraph_to_sign(board: Billboard) -> None:
    text = str(board.statement)
    for part in ("ε = 1", "δ = 1e-06", "one person", "replaced", "100 people", "2 noisy releases", "OpenDP"):
        assert part in text
    assert "\n" not in text
    assert board.statement.epsilon_spent < 1.0


def test_statement_never_hides_what_is_not_private(board: Billboard) -> None:
    document = board.statement.to_json()
    simulated = Statement.from_json({**document, "simulated": True})
    assert str(simulated).startswith("SIMULATED, NOT PRIVATE")
    without = Statement.from_json({**document, "epsilon": "inf", "events": []})
    assert str(without).startswith("NOT PRIVATE")
    assert without.epsilon_spent == math.inf
    assert Statement.from_json(json.loads(json.dumps(without.to_json()))) == without


def test_personalize_checks_its_input(board: Billboard) -> None:
    X, y = np.ones((3, 4)), np.ones(3)
    assert board.personalize(X, y).predict(X).shape == (3,)
    for bad_X, bad_y in [
        (X, y[:2]),
        (X[:, :3], y),
        (X[:0], y[:0]),
        (X * np.nan, y),
        (X, y * np.nan),
        ([["a"] * 4] * 3, y),
    ]:
        with pytest.raises(InputError):
            board.personalize(bad_X, bad_y)


def test_statements_of_choices_and_of_mixtures(board: Billboard, tmp_path: Path) -> None:
    choice = PureEvent("choice", 0.25, 1.0, 8.0, 50, False)
    pure = replace(board.statement, epsilon=0.5, delta=0.0, events=(choice, choice))
    assert pure.epsilon_spent == pytest.approx(0.5, rel=1e-12)
    assert "(ε = 0.5, δ = 0)" in str(pure)
    assert "by addition" in str(pure)
    mixed = replace(board.statement, epsilon=2.0, events=(*board.statement.events, choice))
    assert mixed.epsilon_spent < board.statement.epsilon_spent + 0.25
    assert "privacy loss distributions" in str(mixed)
    for statement in (pure, mixed):
        again = Billboard.load(replace(board, statement=statement).save(tmp_path / "board"))
        assert again.statement == statement


def test_statements_from_before_events_had_kinds_still_load(board: Billboard) -> None:
    document = board.statement.to_json()
    for event in document["events"]:
        assert event.pop("kind") == "gaussian"
    assert Statement.from_json(document) == board.statement
