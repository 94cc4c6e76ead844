"""A board is believed only if its releases support what it says. Every forgery here has all of its checksums right."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commonground.accounting.events import GaussianEvent, PureEvent
from commonground.accounting.sampled import ADD_OR_REMOVE, SampledGaussianEvent
from commonground.billboard.board import Billboard
from commonground.billboard.joint import JointStatement, SharedParameters, is_shared_parameters
from commonground.billboard.statement import Statement
from commonground.errors import BillboardError
from commonground.gate import randomness_from
from commonground.heads.kinds import PosteriorHeads
from forgery import rewrite

# Two releases that cost ε = 1.02 at δ = 1e-6 together.
EVENTS = tuple(GaussianEvent(name, 0.17, 3.4, 20.0, 10, False) for name in ("mean", "embedding"))


@pytest.fixture
def board() -> Billboard:
    statement = Statement("Test", "default", 1.1, 1e-6, 100, 4, False, "OpenDP", EVENTS, parameters={"rank": 2})
    embedding = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 2)))[0]
    names = ("a", "b", "c", "d")
    return Billboard(embedding, np.arange(4.0), 0.5, True, names, statement, prior=np.eye(2))


def first_event(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["events"][0].update(changes)


def claiming(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.update(changes)


FORGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a small ε over releases that cost 1": (claiming(epsilon=0.01), r"cost ε = 0\.\d+ at δ = 1e-06, and it declares 0\.01"),
    "each release affordable, not both": (claiming(epsilon=0.8), r"cost ε = 1\.\d+ at δ = 1e-06, and it declares 0\.8"),
    "a smaller δ": (claiming(delta=1e-12), "and it declares 1.1"),
    "no δ at all": (claiming(delta=0.0), "cost ε = inf"),
    "ε that is no number": (claiming(epsilon="nan"), "declares ε = nan"),
    "a negative ε": (claiming(epsilon=-1.0), "declares ε = -1"),
    "δ above one": (claiming(delta=1.5), r"declares δ = 1\.5"),
    "simulated noise, flag cleared": (first_event(simulated=True), "known seed, and the statement hides it"),
    "seeded noise in the description": (claiming(noise=randomness_from(1).description), "known seed"),
    "a flag that is text": (claiming(simulated="no"), "does not say whether"),
    "all releases dropped": (claiming(events=[]), r"declares ε = 1\.1 and lists no release"),
    "one release dropped": (lambda d: d["events"].pop(), "some are missing, or were changed"),
    "nothing published, it says": (claiming(events=[], epsilon=0.0, epsilon_spent=0.0), "publishes learned numbers"),
    "a cheaper release": (first_event(mu=0.01), "does not support what it is said to cost"),
    "a cheaper release with its noise": (first_event(mu=0.01, noise_std=340.0), "some are missing, or were changed"),
    "a release of no cost": (first_event(mu=0.0), "makes no sense"),
    "a release of cost NaN": (first_event(mu=math.nan), "makes no sense"),
    "endless noise": (first_event(noise_std=math.inf), "makes no sense"),
    "half a release": (first_event(entries=0.5), "makes no sense"),
    "another unit": (claiming(unit="record"), "protects a person"),
    "another neighbour": (claiming(relation="add-or-remove-one"), "protects a person"),
    "another rank": (lambda d: d["parameters"].update(rank=1), "claims the rank 1, and has 2"),
    "too few names": (claiming(feature_names=["a", "b", "c"]), "names 3 features, and has 4"),
    "more features": (claiming(n_features=5, feature_names=None), r"'embedding' has the shape \(4, 2\), needed is \(5, 2\)"),
    "budgets below the declared": (
        claiming(budgets={"people": 2, "taking no part": 0, "quantiles": {"0": 0.1, "0.5": 0.1, "1": 0.1}}),
        "largest personal budget",
    ),
    "heads of a kind that nobody knows": (claiming(heads={"kind": "deep"}), "is damaged"),
    "heads without an end": (claiming(heads={"kind": "signs", "head_bound": math.inf}), "is damaged"),
    "heads of another loss": (claiming(heads={"kind": "convex", "loss": "hinge"}), "is damaged"),
    "a choice of sorts": (claiming(heads={"kind": "ridge", "local_choice": "maybe"}), "is damaged"),
    "heads of no kind": (lambda d: d.pop("heads"), "is damaged"),
    "people that cannot be counted": (claiming(n_users="many"), "is damaged"),
    "a ledger entry of nonsense": (claiming(ledger={"population": "p"}), "is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGED)
def test_a_claim_that_its_releases_do_not_support_is_refused(board: Billboard, tmp_path: Path, forgery: str) -> None:
    change, why = FORGED[forgery]
    folder = board.save(tmp_path / "board")
    assert Billboard.load(folder).statement == board.statement
    with pytest.raises(BillboardError, match=why):
        Billboard.load(rewrite(folder, change))


def _set(name: str, of: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, np.ndarray]], object]:
    return lambda arrays: arrays.update({name: np.ascontiguousarray(of(arrays[name]))})


WRONG_ARRAYS: dict[str, tuple[Callable[[dict[str, np.ndarray]], object], str]] = {
    "NaN": (_set("embedding", lambda a: a * np.nan), "'embedding' holds NaN"),
    "an infinite mean": (_set("mean", lambda a: a + np.inf), "'mean' holds NaN or infinite"),
    "a NaN intercept": (_set("intercept", lambda a: a * np.nan), "'intercept' holds NaN"),
    "transposed": (_set("embedding", lambda a: a.T), "has the shape"),
    "flat": (_set("embedding", lambda a: a[:, 0]), "is damaged"),
    "a short mean": (_set("mean", lambda a: a[:3]), r"'mean' has the shape \(3,\), needed is \(4,\)"),
    "two intercepts": (_set("intercept", lambda a: np.repeat(a, 2)), "'intercept' has the shape"),
    "a prior of another rank": (_set("prior", lambda a: np.eye(3)), "'prior' has the shape"),
    "a prior that is none": (_set("prior", lambda a: -a), "not a positive definite matrix"),
    "whole numbers": (_set("mean", lambda a: a.astype(np.int64)), "not of floating-point numbers"),
    "a stowaway": (lambda arrays: arrays.update(rows=np.ones((9, 9))), "an array 'rows', which no billboard has"),
    "no embedding": (lambda arrays: arrays.pop("embedding"), "is damaged"),
}


@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
def test_arrays_that_are_no_model_are_refused(board: Billboard, tmp_path: Path, wrong: str) -> None:
    change, why = WRONG_ARRAYS[wrong]
    with pytest.raises(BillboardError, match=why):
        Billboard.load(rewrite(board.save(tmp_path / "board"), arrays=change))


@pytest.fixture
def posterior_board(board: Billboard) -> Billboard:
    return replace(board, prior=None, head_kind=PosteriorHeads(True, "square"), spread=np.eye(3), noise=0.5)


WRONG_PRIORS: dict[str, tuple[Callable[[dict[str, np.ndarray]], object], str]] = {
    "a spread without intercepts": (_set("spread", lambda a: a[:2, :2]), "'spread' has the shape"),
    "a spread of nobody": (_set("spread", lambda a: a[:0, :0]), "'spread' has the shape"),
    "a NaN spread": (_set("spread", lambda a: a * np.nan), "'spread' holds NaN"),
    "a negative variance": (_set("spread", lambda a: np.diag([1.0, 1.0, -1e-3])), "not a covariance"),
    "no noise": (_set("noise", lambda a: 0.0 * a), "noise of labels is not above zero"),
    "negative noise": (_set("noise", lambda a: -a), "noise of labels is not above zero"),
    "NaN noise": (_set("noise", lambda a: a * np.nan), "'noise' holds NaN"),
    "two noises": (_set("noise", lambda a: np.repeat(a, 2)), "'noise' has the shape"),
    "noise left out": (lambda arrays: arrays.pop("noise"), "lacks a part"),
    "spread left out": (lambda arrays: arrays.pop("spread"), "lacks a part"),
    "both left out": (lambda arrays: (arrays.pop("spread"), arrays.pop("noise")), "lacks a part"),
}


@pytest.mark.parametrize("wrong", WRONG_PRIORS)
def test_priors_that_no_head_can_be_made_from_are_refused(
    posterior_board: Billboard, tmp_path: Path, wrong: str
) -> None:
    change, why = WRONG_PRIORS[wrong]
    folder = posterior_board.save(tmp_path / "board")
    np.testing.assert_array_equal(Billboard.load(folder).spread, np.eye(3))
    with pytest.raises(BillboardError, match=why):
        Billboard.load(rewrite(folder, arrays=change))


def test_a_spread_is_learned_from_somebody(posterior_board: Billboard, tmp_path: Path) -> None:
    nothing = replace(posterior_board.statement, epsilon=0.0, events=())
    board = replace(posterior_board, embedding=np.eye(4, 2), mean=None, intercept=0.0, statement=nothing)
    with pytest.raises(BillboardError, match="publishes learned numbers"):
        Billboard.load(board.save(tmp_path / "board"))


def test_a_rewritten_board_that_agrees_with_itself_loads_which_is_why_boards_are_signed(
    board: Billboard, tmp_path: Path
) -> None:
    """The limit of what a board can prove by itself: docs/ledger.md says so."""
    folder = rewrite(board.save(tmp_path / "board"), claiming(n_users=1_000_000))
    assert Billboard.load(folder).statement.n_users == 1_000_000


def test_boards_from_before_the_spend_was_written_down_still_load(board: Billboard, tmp_path: Path) -> None:
    def older(document: dict[str, Any]) -> None:
        document["schema_version"] = 3
        del document["epsilon_spent"], document["ledger"]

    folder = rewrite(board.save(tmp_path / "board"), older)
    assert Billboard.load(folder).statement == board.statement
    with pytest.raises(BillboardError, match=r"and it declares 0\.01"):
        Billboard.load(rewrite(folder, claiming(epsilon=0.01)))


@pytest.mark.parametrize(
    "nested", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"kind":' + "[" * 100_000]
)
def test_a_statement_of_any_depth_is_damage_not_a_traceback(board: Billboard, tmp_path: Path, nested: str) -> None:
    folder = board.save(tmp_path / "board")
    (folder / "statement.json").write_text(nested)
    assert not is_shared_parameters(folder)
    for kind in (Billboard, SharedParameters):
        with pytest.raises(BillboardError, match="is damaged"):
            kind.load(folder)


def test_a_deep_value_inside_a_good_statement_is_damage(board: Billboard, tmp_path: Path) -> None:
    folder = board.save(tmp_path / "board")
    document = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
    text = json.dumps({**document, "custody": "DEEP"}).replace('"DEEP"', "[" * 900 + "]" * 900)
    (folder / "statement.json").write_text(text)
    with pytest.raises(BillboardError):
        Billboard.load(folder)


STEPS = SampledGaussianEvent("steps", 0.01, 4.0, 100, ADD_OR_REMOVE, 1, 1.0, 4.001, 6, False, "user")


@pytest.fixture
def shared() -> SharedParameters:
    statement = JointStatement(
        "Test", "default", 0.5, 1e-6, "user", ADD_OR_REMOVE, 3, 90, 0.01, 4.0, 100, False, "Box-Muller", (STEPS,)
    )
    return SharedParameters({"coefficients": np.ones((1, 6))}, statement)


FORGED_SHARED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a small ε": (claiming(epsilon=0.01), "and it declares 0.01"),
    "simulated, flag cleared": (first_event(simulated=True), "known seed"),
    "releases dropped": (claiming(events=[]), "lists no release"),
    "nothing published, it says": (claiming(events=[], epsilon=0.0, epsilon_spent=0.0), "publishes learned numbers"),
    "fewer steps paid": (first_event(steps=50), "missing, or were changed"),
    "less noise than it costs": (first_event(noise_std=3.0), "does not support"),
    "another unit": (claiming(unit="owner"), "claims to protect one owner"),
    "replacement, it says": (claiming(relation="replace-one"), r"protects one user \(add-or-remove-one\)"),
    "more noise told": (claiming(noise_multiplier=40.0), "not those that its releases paid for"),
    "rarer samples told": (claiming(sampling_probability=1e-4), "not those that its releases paid for"),
    "more steps told": (claiming(steps=101), "not those that its releases paid for"),
}


@pytest.mark.parametrize("forgery", FORGED_SHARED)
def test_the_same_for_shared_parameters(shared: SharedParameters, tmp_path: Path, forgery: str) -> None:
    change, why = FORGED_SHARED[forgery]
    folder = shared.save(tmp_path / "board")
    assert SharedParameters.load(folder).statement == shared.statement
    with pytest.raises(BillboardError, match=why):
        SharedParameters.load(rewrite(folder, change))


def test_shared_parameters_of_nan_are_refused(shared: SharedParameters, tmp_path: Path) -> None:
    folder = shared.save(tmp_path / "board")
    with pytest.raises(BillboardError, match="holds NaN"):
        SharedParameters.load(rewrite(folder, arrays=_set("coefficients", lambda a: a * np.nan)))


def test_huge_forged_costs_are_refused_at_once(board: Billboard, tmp_path: Path) -> None:
    """Composing them by privacy loss distributions would take all memory; one of them alone is too much already."""
    for huge in (PureEvent("choice", 1e9, 1.0, 1.0, 9, False), GaussianEvent("sum", 1e9, 1.0, 1.0, 9, False)):
        small = PureEvent("small", 0.1, 1.0, 20.0, 9, False)
        folder = board.save(tmp_path / "board")
        events = [event.as_dict() for event in (small, huge)]
        with pytest.raises(BillboardError, match=r"and it declares 1\.1"):
            Billboard.load(rewrite(folder, claiming(events=events)))


def test_personal_boards_without_privacy_and_with_nothing_shared_load(board: Billboard, tmp_path: Path) -> None:
    open_ = replace(board, statement=replace(board.statement, epsilon=math.inf, events=(), noise="none"))
    nothing = Statement("Own data only", "zero", 0.0, 0.0, 100, 4, False, "none needed", ())
    silent = Billboard(np.eye(4), np.zeros(4), 0.0, True, None, nothing)
    for kind in (open_, silent):
        assert Billboard.load(kind.save(tmp_path / "board")).statement == kind.statement
