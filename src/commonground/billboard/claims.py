"""Whether what a board says can be true: asked of every board that is read.

Its releases have the noise that their cost needs; together they cost no more than was declared, and what was written down;
noise from a seed is called so; where nothing was released, nothing is published; every array is finite and has its shape.

A checksum is not a signature. Whoever may rewrite a board can make all of this agree with itself: a forger is found by a
signature (``signing.py``) and by the ledger that was charged (``in_ledger.py``).
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from commonground.accounting.events import Event
from commonground.accounting.sampled import ADD_OR_REMOVE, REPLACE
from commonground.errors import BudgetError, are_texts, is_number

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard
    from commonground.billboard.joint import JointStatement
    from commonground.billboard.statement import Statement

SLACK = 1e-6  # relative: another machine's last digits, of privacy loss distributions above all
SEEDED = "protects nobody"  # how ``gate/randomness.py`` describes noise from a seed, whatever it is drawn by


class UnbelievableError(ValueError):
    """Why a claim cannot be true; the reader of the file says of which board."""


def check_claim(claim: "Statement | JointStatement", recorded_spend: float | None) -> None:
    """Raise ``UnbelievableError`` unless the events support the statement.

    ``recorded_spend``: the ε that the writer says they cost; None in files from before that was written down.
    """
    if not claim.epsilon >= 0.0:
        raise UnbelievableError(f"it declares ε = {claim.epsilon!r}")
    if not (is_number(claim.delta) and 0.0 <= claim.delta < 1.0):
        raise UnbelievableError(f"it declares δ = {claim.delta!r}")
    if claim.relation not in (ADD_OR_REMOVE, REPLACE):
        raise UnbelievableError(f"it names the neighbours {claim.relation!r}, which nobody accounts for")
    if not (isinstance(claim.simulated, bool) and isinstance(claim.noise, str)):
        raise UnbelievableError("it does not say whether its noise is simulated")
    for event in claim.events:
        _check_event(event, claim)
    if not claim.simulated and (SEEDED in claim.noise or any(event.simulated for event in claim.events)):
        raise UnbelievableError("its noise comes from a known seed, and the statement hides it")
    if not claim.private:
        return
    if not claim.events and claim.epsilon:
        raise UnbelievableError(f"it declares ε = {claim.epsilon:g} and lists no release that would have cost anything")
    alone = max((event.cost.at_least(claim.delta) for event in claim.events), default=0.0)
    try:  # one release can tell enough, and is quicker than composing forged ones
        spent = alone if alone > claim.epsilon * (1.0 + SLACK) else claim.epsilon_spent
    except BudgetError as mixed:
        raise UnbelievableError(f"its releases do not add up ({mixed})") from None
    if not spent <= claim.epsilon * (1.0 + SLACK):
        raise UnbelievableError(
            f"its releases cost ε = {spent:.4g} at δ = {claim.delta:g}, and it declares {claim.epsilon:g}"
        )
    if recorded_spend is not None and not math.isclose(spent, recorded_spend, rel_tol=SLACK, abs_tol=1e-12):
        raise UnbelievableError(
            f"it was written with releases that cost ε = {recorded_spend:.6g}, and lists releases that cost {spent:.6g}: "
            "some are missing, or were changed"
        )


def check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in sorted(arrays.items()):
        if array.dtype.kind != "f":
            raise UnbelievableError(f"its array {name!r} is of type {array.dtype}, not of floating-point numbers")
        if not np.isfinite(array).all():
            raise UnbelievableError(f"its array {name!r} holds NaN or infinite numbers")


def check_shapes(arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Every array is one of these, in its shape."""
    for name, array in sorted(arrays.items()):
        if name not in shapes:
            raise UnbelievableError(f"it holds an array {name!r}, which no billboard has")
        if array.shape != shapes[name]:
            raise UnbelievableError(f"its array {name!r} has the shape {array.shape}, needed is {shapes[name]}")


def _check_event(event: Event, claim: "Statement | JointStatement") -> None:
    if not event.makes_sense:
        raise UnbelievableError(f"its release {event.name!r} makes no sense")
    if not event.supported:
        raise UnbelievableError(f"the noise of its release {event.name!r} does not support what it is said to cost")
    if (event.unit or claim.unit, event.relation) != (claim.unit, claim.relation):
        raise UnbelievableError(
            f"it claims to protect one {claim.unit} ({claim.relation}), and its release {event.name!r} protects one "
            f"{event.unit or claim.unit} ({event.relation})"
        )


def check_board(board: "Billboard", arrays: dict[str, np.ndarray], spend: float | None) -> None:
    """Raise ``UnbelievableError`` where arrays, statement and releases do not belong together."""
    claim, d, k = board.statement, board.statement.n_features, board.rank
    q = k + board.fit_intercept if board.classes is None else len(board.classes) - 1
    _check_classes(board)
    shapes = {
        "embedding": (d, k),
        "intercept": (1,),
        "mean": (d,),
        "prior": (k, k),
        "spread": (q, q),
        "noise": (1,),
        "class_scores": (d + 1, q),
    }
    check_shapes(arrays, shapes)
    _check_features(board)
    if claim.parameters.get("rank", k) != k:
        raise UnbelievableError(f"it claims the rank {claim.parameters['rank']}, and has {k} directions")
    _check_heads(board)
    if (claim.unit, claim.relation) != ("person", REPLACE):
        raise UnbelievableError(
            f"it claims to protect one {claim.unit} ({claim.relation}); a billboard protects a person"
        )
    check_claim(claim, spend)
    if claim.budgets is not None and not math.isclose(claim.budgets["quantiles"]["1"], claim.epsilon):
        raise UnbelievableError("the largest personal budget is not the ε that it declares")
    str(claim)  # what cannot be read out is damaged
    if claim.private and not claim.events:
        _check_unlearned(board)


def _check_classes(board: "Billboard") -> None:
    several = board.classes is not None
    complete = board.rank == 0 and board.mean is None and board.spread is not None
    if several != (board.class_scores is not None) or (several and not complete):
        raise UnbelievableError("it lacks a part of what its classes are told from, or has one too many")
    label = None if board.schema is None else board.schema.label
    if several and label is not None and label.kind == "category" and tuple(label.values) != board.classes:
        raise UnbelievableError("its classes are not those that its schema lists")


def _check_features(board: "Billboard") -> None:
    names, d = board.feature_names, board.statement.n_features
    if names is not None and (len(names) != d or not are_texts(names)):
        raise UnbelievableError(f"it names {len(names)} features, and has {d}")
    if board.schema is not None and (names != board.schema.feature_names or board.schema.undiscovered):
        raise UnbelievableError("its schema makes other features than those that it names")


def _check_heads(board: "Billboard") -> None:
    """Whether what heads are made from is all there, and can be: a prior, or a spread and the noise of labels."""
    if board.prior is not None and board.rank and not np.linalg.eigvalsh(board.prior)[0] > 0.0:
        raise UnbelievableError("its prior is not a positive definite matrix")
    if (board.spread is None) != (board.noise is None) or (board.head_kind.needs_spread and board.spread is None):
        raise UnbelievableError("it lacks a part of what its heads are made from")
    if board.noise is not None and not board.noise > 0.0:
        raise UnbelievableError("its noise of labels is not above zero")
    sizes = np.zeros(1) if board.spread is None or not len(board.spread) else np.linalg.eigvalsh(board.spread)
    if sizes[0] < -1e-9 * sizes[-1]:
        raise UnbelievableError("its spread of heads is not a covariance")


def _check_unlearned(board: "Billboard") -> None:
    """Whether a board that no release stands behind holds nothing that could have been learned from anybody."""
    shared = (board.intercept, *(() if board.mean is None else board.mean))
    learned = any(shared) or board.prior is not None or board.spread is not None or board.classes is not None
    if learned or not np.array_equal(board.embedding, np.eye(*board.embedding.shape)):
        raise UnbelievableError("it says that nothing depends on anybody's data, and publishes learned numbers")
