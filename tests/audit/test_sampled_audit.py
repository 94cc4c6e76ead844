"""Training across owners under attack, by the best attack there is: one unit among others who contribute nothing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import commonground as cg
from commonground.audit.broken import BROKEN
from commonground.audit.joint import JOINT_RECIPES, joint_recipe_of
from commonground.audit.recipes import Claim
from commonground.audit.sampled import audit_sampled
from commonground.cli import app as cli
from commonground.deep import JointTrainer, PeopleTrainer, clipped
from commonground.deep.local import LocalSettings
from commonground.errors import InputError
from commonground.gate import SampledReleases
from commonground.reproduce.p4_baselines import per_silo

pytestmark = pytest.mark.slow

CLAIM = Claim(8.0, 1e-3)
each = pytest.mark.parametrize("recipe", JOINT_RECIPES)


@each
def test_the_best_attack_is_right_as_often_as_claimed_and_no_more(recipe: str) -> None:
    """Real noise and samples; a false alarm in 1,000 runs of the test on either side."""
    found = audit_sampled(JOINT_RECIPES[recipe].at(CLAIM), JOINT_RECIPES[recipe].direction, n_runs=100)
    assert not found.refuted, found
    assert 0.7 < found.claimed < 0.98
    assert found.accuracy > found.claimed - 0.12, "the attack is the best there is, so it comes close"


@pytest.mark.parametrize(
    ("recipe", "broken", "n_runs"),
    [("joint-sgd-users", "half-noise", 200), ("joint-sgd", "everybody-drawn", 300), ("joint-deep-users", "half-noise", 120),
     ("deep-people", "half-noise", 120)],
)  # fmt: skip
def test_a_fault_is_caught(recipe: str, broken: str, n_runs: int) -> None:
    with BROKEN[broken].variant():
        assert audit_sampled(JOINT_RECIPES[recipe].at(CLAIM), JOINT_RECIPES[recipe].direction, n_runs).refuted


def test_a_forgotten_clip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(contributions: torch.Tensor, clip_norm: float) -> torch.Tensor:
        return 10.0 * factors(contributions, clip_norm)

    factors = clipped.clip_factors
    monkeypatch.setattr(clipped, "clip_factors", generous)
    modest = Claim(
        4.0, 1e-6
    )  # an honest "missing" is still guessed wrong as often as allowed, which hides less when that is often
    recipe = JOINT_RECIPES["joint-deep-users"]
    assert audit_sampled(recipe.at(modest), recipe.direction, n_runs=120).refuted


def test_what_cannot_be_audited_is_said() -> None:
    statement = JOINT_RECIPES["joint-sgd"].at(CLAIM)(True, SampledReleases)
    other = replace(statement, events=(replace(statement.events[0], relation="replace-one"),))
    with pytest.raises(InputError, match="there or missing"):
        audit_sampled(lambda present, gate: other, JOINT_RECIPES["joint-sgd"].direction, n_runs=20)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ([], 0, "Not refuted"), (["--broken", "half-noise"], 1, "The claim is refuted"),
        (["--broken", "free-thresholds"], 2, "half-noise"), (["--person", "huge"], 2, "of its own"),
        (["--runs", "3"], 2, "at least 20"),
    ],
)  # fmt: skip
def test_command(
    options: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["joint-sgd-users", "--epsilon", "8", "--runs", "80", "--confidence", "0.999", *options]
    monkeypatch.setattr("sys.argv", ["commonground", "audit", *given])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == code
    out, err = capsys.readouterr()
    assert says in " ".join((out + err).split())


@pytest.mark.parametrize("unit", ["record", "user"])
def test_a_saved_board_is_audited_by_its_own_recipe_and_budget(unit: str, tmp_path: Path) -> None:
    rows = {"X": np.eye(8), "y": np.ones(8), "owners": np.arange(8) % 2, "users": np.arange(8) // 2}
    board = cg.JointSGDRegressor(3.0, 1e-3, unit=unit, steps=4).fit(**rows).billboard_
    name, claim = joint_recipe_of(board.save(tmp_path / "board"))
    assert name == {"record": "joint-sgd", "user": "joint-sgd-users"}[unit]
    assert (claim.epsilon, claim.delta) == (3.0, 1e-3)
    for changes in ({"relation": "replace-one"}, {"recipe": "paper"}):
        board = cg.JointSGDRegressor(3.0, 1e-3, steps=4, **changes).fit(**rows).billboard_
        with pytest.raises(InputError, match="cannot be audited"):
            joint_recipe_of(board.save(tmp_path / str(changes)))


def test_a_board_of_people_is_audited_as_such(tmp_path: Path) -> None:
    rows = {"X": np.eye(8, dtype=np.float32), "y": np.ones(8), "users": np.arange(8) // 2}
    board = PeopleTrainer(nn.Linear(8, 2), 3.0, 1e-3, steps=4).fit(**rows).billboard_
    name, claim = joint_recipe_of(board.save(tmp_path / "board"))
    assert (name, claim.epsilon, claim.delta) == ("deep-people", 3.0, 1e-3)


def test_a_board_on_which_nothing_is_released_cannot_be_audited(tmp_path: Path) -> None:
    rows = {"X": np.eye(8), "y": np.ones(8, dtype=int), "owners": np.arange(8) % 2}
    quick = LocalSettings(epochs=1, fewest_updates=1)
    board = per_silo(JointTrainer(nn.Linear(8, 2), local=quick)).fit(**rows).billboard_
    with pytest.raises(InputError, match="cannot be audited"):
        joint_recipe_of(board.save(tmp_path / "board"))


def test_command_for_machines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["commonground", "audit", "joint-sgd", "--runs", "20", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    document = json.loads(capsys.readouterr().out)
    assert document["recipe"] == "joint-sgd"
    assert document["at_least"] < document["accuracy"]
