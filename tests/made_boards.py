"""Boards made by hand, for what is shown of them: no training, every kind of claim."""

from dataclasses import replace
from typing import Any

import numpy as np

from commonground.accounting.events import GaussianEvent, PureEvent
from commonground.accounting.sampled import ADD_OR_REMOVE, SampledGaussianEvent
from commonground.billboard.board import Billboard
from commonground.billboard.joint import JointStatement, SharedParameters
from commonground.billboard.statement import Statement

HOSTILE = ("<script>alert(1)</script>", "=cmd()", '"quoted", with comma', "größe")


def gaussian(name: str, mu: float = 0.1) -> GaussianEvent:
    return GaussianEvent(name, mu, 2.0, 2.0 / mu, 10, False)


def a_board(names: tuple[str, ...] = HOSTILE, rank: int = 2, seed: int = 0, **changes: Any) -> Billboard:
    """A board of people with two releases; ``changes`` go to the board, or to its statement where it has such a field."""
    d, draw = len(names), np.random.default_rng(seed)
    events = (gaussian("shared mean"), gaussian("round 1, <b>gradient</b>"))
    statement = Statement(
        "Test FedRep",
        "default",
        1.0,
        1e-6,
        5_000,
        d,
        False,
        "OpenDP's sampler",
        events,
        parameters={"rank": rank},
        label="stars",
    )
    told = {key: changes.pop(key) for key in list(changes) if hasattr(statement, key)}
    board = Billboard(
        embedding=np.linalg.qr(draw.standard_normal((d, rank)))[0] if rank else np.zeros((d, 0)),
        mean=draw.standard_normal(d),
        intercept=0.5,
        fit_intercept=True,
        feature_names=names,
        statement=replace(statement, **told),
        prior=np.diag([0.5, 2.0][:rank]) if rank else None,
    )
    return replace(board, **changes)


def shared_parameters() -> SharedParameters:
    steps = SampledGaussianEvent("steps", 0.1, 8.0, 20, ADD_OR_REMOVE, 1, 1.0, 8.0, 6, False, "record")
    statement = JointStatement(
        "Joint SGD", "default", 1.0, 1e-4, "record", ADD_OR_REMOVE, 4, 1000, 0.1, 8.0, 20, False, "ChaCha", (steps,)
    )
    return SharedParameters({"shared": np.arange(6.0)}, statement)


def pure_board() -> Billboard:
    chosen = PureEvent("subspace", epsilon=0.5, sensitivity=1.0, scale=4.0, entries=9, simulated=False)
    return a_board(events=(chosen,), delta=0.0, epsilon=0.5)
