"""Training across owners under attack, by the best attack there is: one unit among others who contribute nothing."""

import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import commonground as cg
from commonground.audit.sampled import SampledFit, audit_sampled
from commonground.deep import JointTrainer, clipped
from commonground.deep.local import LocalSettings
from commonground.errors import InputError
from commonground.gate import noise
from commonground.joint_board import JointStatement

GATE = importlib.import_module("commonground.gate.release")  # the package's attribute of this name is a function
N, FEATURES, HUGE = 12, 2, 1e6
DOWN = np.array([-1.0, 0.0])  # the gradient of a huge label along the first feature, clipped


def rows(present: bool) -> dict[str, Any]:
    """Twelve records of two owners, three a user; the first user's are huge, or zero, which contributes nothing."""
    X, y = np.zeros((N, FEATURES)), np.zeros(N)
    if present:
        X[:3, 0], y[:3] = 1.0, HUGE
    return {"X": X, "y": y, "owners": np.arange(N) // 6, "users": np.arange(N) // 3}


def convex(**settings: Any) -> SampledFit:
    def fit(present: bool) -> JointStatement:
        data = rows(present)
        if settings.get("unit") != "user":
            data["X"][1:], data["y"][1:] = 0.0, 0.0
        model = cg.JointSGDRegressor(4.0, 1e-2, steps=6, fit_intercept=False, **settings)
        return model.fit(**data).billboard_.statement

    return fit


def deep(**settings: Any) -> SampledFit:
    def fit(present: bool) -> JointStatement:
        data = rows(present)
        if settings.get("unit") != "user":
            data["X"][1:], data["y"][1:] = 0.0, 0.0
        data["X"], data["y"] = data["X"].astype(np.float32), data["y"].astype(np.float32)
        network = nn.Linear(FEATURES, 1, bias=False)
        nn.init.zeros_(network.weight)
        model = JointTrainer(
            network, [], 4.0, 1e-2, steps=6, loss=lambda outputs, labels: (outputs[:, 0] - labels) ** 2, keep=("shared",),
            local=LocalSettings(class_prior=False), microbatch=N, **settings,
        )  # fmt: skip
        return model.fit(**data).billboard_.statement

    return fit


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cg.errors.PrivacyWarning)  # 12 records and δ = 0.01
        yield


CASES = pytest.mark.parametrize("learner", [convex, deep])


@CASES
@pytest.mark.parametrize("settings", [{"sampling_probability": 0.5}, {"sampling_probability": 1.0, "unit": "user"}])
def test_the_best_attack_is_right_as_often_as_claimed_and_no_more(
    learner: Callable[..., SampledFit], settings: dict[str, Any]
) -> None:
    """Real noise and samples; a false alarm in 1,000 runs of the test on either side."""
    found = audit_sampled(learner(**settings), DOWN, n_runs=150)
    assert not found.refuted, found
    assert 0.7 < found.claimed < 0.95
    assert found.accuracy > found.claimed - 0.1, "the attack is the best there is, so it comes close"


def half_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GATE, "add_rounded_gaussian_noise", lambda v, s, r: noise.add_rounded_gaussian_noise(v, s / 2, r))


def everybody_drawn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GATE, "draw_sample", lambda n, q, r: np.arange(n))


@pytest.mark.parametrize(
    ("learner", "fault", "q", "n_runs"),
    [(convex, half_noise, 1.0, 200), (convex, everybody_drawn, 0.3, 300), (deep, half_noise, 1.0, 100)],
)
def test_a_fault_is_caught(
    learner: Callable[..., SampledFit],
    fault: Callable[[pytest.MonkeyPatch], None],
    q: float,
    n_runs: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    assert audit_sampled(learner(sampling_probability=q), DOWN, n_runs=n_runs).refuted


def test_a_forgotten_clip_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(contributions: torch.Tensor, clip_norm: float) -> torch.Tensor:
        return 10.0 * factors(contributions, clip_norm)

    factors = clipped.clip_factors
    monkeypatch.setattr(clipped, "clip_factors", generous)
    assert audit_sampled(deep(sampling_probability=1.0), DOWN, n_runs=150).refuted


def test_what_cannot_be_audited_is_said() -> None:
    statement = convex(sampling_probability=1.0)(True)
    other = replace(statement, events=(replace(statement.events[0], relation="replace-one"),))
    with pytest.raises(InputError, match="there or missing"):
        audit_sampled(lambda present: other, DOWN, n_runs=1)
