"""Record what passes the gate on one population; replay it on the neighbour.

Every contribution is a function of a person's rows and of what was released before. So the same released values can be fed
to a fit on the *other* population, release by release, and the gate sees what that population's sums would have been at
that point. With both sums and the noise known, the log-likelihood ratio of the whole transcript is exact: no attack on
the releases has more power.

The replay also ends in a billboard and in heads. If these differ, something was published that is not a function of the
releases; if the replay asks the gate for another release than the one recorded (another noise level, say), something
steered it that was not released. Either tells the populations apart for certain.

Here values from before the noise leave the gate. That is why this lives in the audit and watches from outside, on simulated
people: no estimator can be asked to do it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
from scipy.special import log_softmax

from commonground.accounting.events import Event, PureEvent
from commonground.audit.recipes import Fit
from commonground.clipping import BoundedScores, BoundedSum
from commonground.estimators.base import PersonalModel
from commonground.gate import Randomness, Release, Selection
from commonground.ledger import Ledger
from commonground.steps import rounds
from commonground.users import Users

# What is published is compared to about this relative precision: rounding may differ, a leak would not be so small.
_SAME = 1e-9

Private = BoundedSum | BoundedScores
Public = Release | Selection
Gate = Callable[[Any, float, Ledger, Randomness], Any]  # release, or select


@dataclass(frozen=True, repr=False)
class Passage:
    """One release or choice, with the private sum or scores that it hides."""

    private: Private
    share: float  # of the budget: μ of a release, ε of a choice
    public: Public


@dataclass(frozen=True, repr=False)
class Transcript:
    passages: list[Passage]
    view: np.ndarray

    @property
    def events(self) -> list[Event]:
        return [passage.public.event for passage in self.passages]


@dataclass(frozen=True)
class Evidence:
    """How much one transcript speaks for the population it was made on, against the neighbour."""

    log_ratios: np.ndarray  # (releases,)
    # (releases,) distance between the two sums, in units of the stated sensitivity; of a choice, the largest exact
    # log-likelihood ratio of any candidate, chosen or not, in units of its ε
    moved: np.ndarray
    certain: bool  # the neighbour could not have published this


class ImpossibleError(Exception):
    """The neighbour would have asked for a different release at this point."""


def whole_models(model: PersonalModel) -> np.ndarray:
    """(n, d + 1) everybody's own coefficients, the intercept last."""
    assert model.heads_ is not None
    assert model.own_intercepts_ is not None
    assert model.own_models_ is not None
    board = model.billboard_
    shared = np.append(np.zeros(board.n_features) if board.mean is None else board.mean, board.intercept)
    models = shared + np.column_stack([model.heads_ @ board.embedding.T, model.own_intercepts_])
    models[model.own_models_.people] = model.own_models_.coef
    return models


def others_view(model: PersonalModel, target: int | None) -> np.ndarray:
    """All that the other people together see, as one vector: the billboard, its noise levels, and their own models.

    Without a target: what the public sees, which is the billboard alone.
    """
    board = model.billboard_
    mean = np.zeros(board.n_features) if board.mean is None else board.mean
    parts = [
        board.embedding,
        board.embedding @ board.embedding.T,  # the span, whatever the signs of its columns
        mean,
        [board.intercept],
        np.log([e.scale if isinstance(e, PureEvent) else e.noise_std for e in board.statement.events]),
    ]
    if target is not None and model.heads_ is not None:
        others = np.arange(len(model.heads_)) != target
        parts += [whole_models(model)[others]]
    return np.concatenate([np.ravel(part) for part in parts])


def record(fit: Fit, users: Users, seed: int | None, target: int | None) -> Transcript:
    """Train once, and keep what passed."""
    passages: list[Passage] = []

    def recording(door: Gate) -> Gate:
        def watched(private: Private, share: float, ledger: Ledger, randomness: Randomness) -> Public:
            public: Public = door(private, share, ledger, randomness)
            passages.append(Passage(private, share, public))
            return public

        return watched

    with _gate(recording(rounds.release), recording(rounds.select)):
        model = fit(users, seed)
    return Transcript(passages, others_view(model, target))


def replay(fit: Fit, users: Users, transcript: Transcript, target: int | None) -> tuple[list[Private], np.ndarray]:
    """Train on ``users`` with the recorded releases in place of new ones; their private sums, and what others would see."""
    sums: list[Private] = []

    def replaying(private: Private, share: float, ledger: Ledger, randomness: Randomness) -> Public:
        if len(sums) == len(transcript.passages):
            raise ImpossibleError
        passage = transcript.passages[len(sums)]
        if not _same_release(passage, private, share):
            raise ImpossibleError
        sums.append(private)
        return passage.public

    with _gate(replaying, replaying):
        try:
            view = others_view(fit(users, 0), target)
        except ImpossibleError:
            view = np.empty(0)
    return sums, view


def evidence(fit: Fit, transcript: Transcript, neighbour: Users, target: int) -> Evidence:
    """The exact log-likelihood ratio of a transcript, release by release."""
    sums, view = replay(fit, neighbour, transcript, target)
    log_ratios, moved = np.zeros(len(transcript.passages)), np.zeros(len(transcript.passages))
    for t, (passage, theirs) in enumerate(zip(transcript.passages, sums, strict=False)):
        ours, public = passage.private.value, passage.public
        difference = ours - theirs.value
        if isinstance(public, Selection):
            scale = public.event.scale
            likelihoods = log_softmax(-ours / scale) - log_softmax(-theirs.value / scale)
            log_ratios[t] = likelihoods[public.index]
            moved[t] = float(np.abs(likelihoods).max()) / public.event.epsilon
        else:
            # log N(r; ours, σ²) − log N(r; theirs, σ²), written so that large sums do not cancel
            noise_std = public.noise_std
            log_ratios[t] = float((difference * (public.value - (ours + theirs.value) / 2)).sum()) / noise_std**2
            moved[t] = float(np.linalg.norm(difference)) / passage.private.sensitivity
    if len(sums) < len(transcript.passages):
        log_ratios[len(sums)] = math.inf  # what it asked for there, noise level included, is public
        return Evidence(log_ratios, moved, certain=True)
    return Evidence(log_ratios, moved, certain=not same_view(view, transcript.view))


def _same_release(passage: Passage, private: Private, share: float) -> bool:
    recorded = passage.private
    return (
        type(recorded) is type(private)
        and recorded.name == private.name
        and np.shape(recorded.value) == np.shape(private.value)
        and math.isclose(recorded.sensitivity, private.sensitivity, rel_tol=_SAME)
        and math.isclose(passage.share, share, rel_tol=_SAME)
    )


def same_view(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=_SAME, atol=_SAME, equal_nan=True))


@contextmanager
def _gate(release: Gate, select: Gate) -> Iterator[None]:
    """Put a watcher in front of each door of the gate. One thread meanwhile: for a few dozen people more of them only wait."""
    threads = numba.get_num_threads()
    numba.set_num_threads(1)  # sums do not depend on it: chunks of people are fixed
    try:
        with patch.object(rounds, "release", release), patch.object(rounds, "select", select):
            yield
    finally:
        numba.set_num_threads(threads)
