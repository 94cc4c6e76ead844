"""Training across owners under attack, by the best attack there is: one unit among others who contribute nothing."""

import json
from dataclasses import replace

import pytest
import torch

from commonground import cli
from commonground.audit.broken import BROKEN
from commonground.audit.joint import DIRECTION, JOINT_RECIPES
from commonground.audit.recipes import Claim
from commonground.audit.sampled import audit_sampled
from commonground.deep import clipped
from commonground.errors import InputError

CLAIM = Claim(8.0, 1e-3)
each = pytest.mark.parametrize("recipe", JOINT_RECIPES)


@each
def test_the_best_attack_is_right_as_often_as_claimed_and_no_more(recipe: str) -> None:
    """Real noise and samples; a false alarm in 1,000 runs of the test on either side."""
    found = audit_sampled(JOINT_RECIPES[recipe].at(CLAIM), DIRECTION, n_runs=100)
    assert not found.refuted, found
    assert 0.7 < found.claimed < 0.98
    assert found.accuracy > found.claimed - 0.12, "the attack is the best there is, so it comes close"


@pytest.mark.parametrize(
    ("recipe", "broken", "n_runs"),
    [("joint-sgd-users", "half-noise", 200), ("joint-sgd", "everybody-drawn", 300), ("joint-deep-users", "half-noise", 120)],
)  # fmt: skip
def test_a_fault_is_caught(recipe: str, broken: str, n_runs: int) -> None:
    with BROKEN[broken].variant():
        assert audit_sampled(JOINT_RECIPES[recipe].at(CLAIM), DIRECTION, n_runs).refuted


def test_a_forgotten_clip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(contributions: torch.Tensor, clip_norm: float) -> torch.Tensor:
        return 10.0 * factors(contributions, clip_norm)

    factors = clipped.clip_factors
    monkeypatch.setattr(clipped, "clip_factors", generous)
    assert audit_sampled(JOINT_RECIPES["joint-deep-users"].at(CLAIM), DIRECTION, n_runs=100).refuted


def test_what_cannot_be_audited_is_said() -> None:
    statement = JOINT_RECIPES["joint-sgd"].at(CLAIM)(True)
    other = replace(statement, events=(replace(statement.events[0], relation="replace-one"),))
    with pytest.raises(InputError, match="there or missing"):
        audit_sampled(lambda present: other, DIRECTION, n_runs=20)


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
    given = ["joint-sgd-users", "--epsilon", "8", "--runs", "60", *options]
    monkeypatch.setattr("sys.argv", ["commonground", "audit", *given])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == code
    out, err = capsys.readouterr()
    assert says in " ".join((out + err).split())


def test_command_for_machines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["commonground", "audit", "joint-sgd", "--runs", "20", "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    document = json.loads(capsys.readouterr().out)
    assert document["recipe"] == "joint-sgd"
    assert document["at_least"] < document["accuracy"]
