"""Estimators broken on purpose, to see that the auditor catches them. Nothing outside the audit may use this file.

Each is a context in which the package makes one mistake of the kind that real systems have made. What is fitted in it
protects nobody, whatever its statement says.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from commonground.accounting.events import GaussianEvent
from commonground.audit.gates import RecordingGate, ReplayingGate
from commonground.audit.neighbours import TARGET
from commonground.audit.replay import whole_models
from commonground.clipping.bounded import BoundedSum
from commonground.clipping.sums import ClippedSums, DirectionSums, ScoreSums, SymmetricSums
from commonground.data.population import Block
from commonground.estimators.base import PersonalModel
from commonground.gate import Gate, Release
from commonground.statistics.directions import Directions
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.margins import MarginScores
from commonground.statistics.paper.altmin import NormalisedPairs
from commonground.statistics.paper.fedrep import Pairs
from commonground.statistics.subspace_scores import SubspaceScores

_gate = importlib.import_module("commonground.gate.release")  # the package's attribute of this name is the function


@dataclass(frozen=True)
class Broken:
    name: str
    describe: str
    recipes: tuple[str, ...]  # those in which the mistake is possible
    pair: str | None  # the people who show it; None: those who are worst for the intact recipe
    variant: Callable[[], AbstractContextManager[None]]


@contextmanager
def _instead(owner: Any, name: str, broken: Any) -> Iterator[None]:
    """A module's function or a class's method, broken for a while."""
    intact = vars(owner)[name]
    setattr(owner, name, broken)
    try:
        yield
    finally:
        setattr(owner, name, intact)


@contextmanager
def half_noise() -> Iterator[None]:
    """The gate draws noise of half the stated standard deviation."""

    def too_little(draw: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        return lambda value, noise_std, *rest: draw(value, noise_std / 2, *rest)

    with (
        _instead(_gate, "add_gaussian_noise", too_little(_gate.add_gaussian_noise)),
        _instead(_gate, "add_rounded_gaussian_noise", too_little(_gate.add_rounded_gaussian_noise)),
    ):
        yield


@contextmanager
def everybody_drawn() -> Iterator[None]:
    """Nobody is left out of a step, which costs what a sample would."""
    with _instead(_gate, "draw_sample", lambda n_units, *_: np.arange(n_units)):
        yield


@contextmanager
def unclipped_init() -> Iterator[None]:
    """The initial embedding adds up people's own coefficients instead of unit vectors; the paper's pairs go unclipped."""
    of_pairs, of_normalised = Pairs.of, NormalisedPairs.of

    def raw_directions(asked: Directions, block: Block, coordinates: Coordinates) -> DirectionSums:
        X, people = coordinates.rows(block.X), zip(block.offsets[:-1], block.offsets[1:], strict=True)
        theta = [np.linalg.lstsq(X[lo:hi], block.y[lo:hi], rcond=None)[0] for lo, hi in people]
        return DirectionSums(np.transpose(theta) @ np.array(theta), 1.0, block.n_users)

    def raw_pairs(asked: Pairs, block: Block) -> ClippedSums:
        return replace(of_pairs(Pairs(1e300), block), clip_norm=asked.clip_norm)

    def raw_normalised_pairs(asked: NormalisedPairs, block: Block) -> SymmetricSums:
        bounded = of_normalised(asked, block)
        return replace(of_normalised(replace(asked, zeta=1e150), block), clip_norm=bounded.clip_norm)

    with (
        _instead(Directions, "of_coordinates", raw_directions),
        _instead(Pairs, "of", raw_pairs),
        _instead(NormalisedPairs, "of", raw_normalised_pairs),
    ):
        yield


@contextmanager
def free_thresholds() -> Iterator[None]:
    """Histograms of sizes and places, which choose clips, are read without noise and without a charge."""

    def free(pay: Callable[..., Release]) -> Callable[..., Release]:
        def release(gate: Gate, bounded_sum: BoundedSum, mu: float) -> Release:
            if not ("sizes" in bounded_sum.name or bounded_sum.name.endswith("where it lies")):
                return pay(gate, bounded_sum, mu)
            value = np.asarray(bounded_sum.value)
            return Release(value, GaussianEvent(bounded_sum.name, 0.0, bounded_sum.sensitivity, 0.0, value.size, True))

        return release

    with ExitStack() as gates:
        for gate in (Gate, RecordingGate, ReplayingGate):  # nobody watches what does not pass
            gates.enter_context(_instead(gate, "release", free(gate.release)))
        yield


@contextmanager
def leaked_head() -> Iterator[None]:
    """The published mean contains the coefficients of the target's own model."""
    fit = PersonalModel.fit

    def leaking(model: PersonalModel, *args: Any, **kwargs: Any) -> PersonalModel:
        fit(model, *args, **kwargs)
        board = model.billboard_
        mean = np.zeros(board.n_features) if board.mean is None else board.mean
        model.billboard_ = replace(board, mean=mean + whole_models(model)[TARGET, :-1])
        return model

    with _instead(PersonalModel, "fit", leaking):
        yield


@contextmanager
def unbounded_scores() -> Iterator[None]:
    """A person counts three times as much in the scores of candidates as the gate is told."""

    def triple(of: Callable[..., ScoreSums]) -> Callable[..., ScoreSums]:
        return lambda asked, block: ScoreSums(3 * of(asked, block).value)

    with (
        _instead(SubspaceScores, "of", triple(SubspaceScores.of)),
        _instead(MarginScores, "of", triple(MarginScores.of)),
    ):
        yield


_JOINT = ("joint-sgd", "joint-sgd-users", "joint-deep", "joint-deep-users", "deep-people")
_EMBEDDINGS = ("fedrep", "fedrep-no-mean", "fedrep-paper", "altmin", "altmin-paper")
# Heads of a few people by a prior that is mostly noise are next to nothing, and so is what leaks with them.
_UNSHRUNK = tuple(name for name in _EMBEDDINGS if name not in ("fedrep", "fedrep-no-mean"))
BROKEN = {
    broken.name: broken
    for broken in (
        Broken(
            "half-noise", "σ halved",
            (*_EMBEDDINGS, "fedrep-budgets", "fedrep-sparse", "classes", "logistic", "huber", "single-model", "ridge", "own-data",
             *_JOINT),
            None, half_noise,
        ),
        Broken("everybody-drawn", "no sampling", ("joint-sgd", "joint-deep"), None, everybody_drawn),
        Broken("unclipped-init", "initialisation not clipped", _EMBEDDINGS, None, unclipped_init),
        Broken(
            "free-thresholds", "thresholds not paid for",
            ("fedrep", "fedrep-no-mean", "fedrep-few", "altmin", "single-model", "own-data"), "huge", free_thresholds,
        ),
        Broken(
            "unbounded-scores", "scores larger than stated", ("exponential", "exponential-paper", "margin"), None,
            unbounded_scores,
        ),
        Broken("leaked-head", "target's head in the billboard", (*_UNSHRUNK, "own-data"), None, leaked_head),
    )
}  # fmt: skip
