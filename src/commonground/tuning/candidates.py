"""A grid of settings, as groups that need a fit each, and what comes of a fit for free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from commonground.billboard.board import Billboard
from commonground.errors import InputError, is_whole
from commonground.estimators.fedrep import PrivateFedRep

# Of everybody's budget, or of what is computed where: not for a search to choose.
NOT_TO_CHOOSE = {
    "epsilon": "comparing values of ε on the same people costs each of them; decide on ε before, as a promise to people",
    "delta": "δ is part of the promise to people; decide on it before",
    "budgets": "everybody's own ε is hers to say",
    "simulation_seed": "the best of several noises is not private",
    "candidate_seed": "the best of several draws costs as much as several fits",
    "user": "whose row it is, is no setting",
    "keep_heads": "heads are always made for the winner",
    "verbose": "it changes nothing",
    "device": "it changes nothing that is released",
}
MOST_CANDIDATES = 1000


@dataclass(frozen=True)
class Group:
    """Settings that one fit serves."""

    settings: Mapping[str, Any]  # what is fitted
    members: tuple[int, ...]  # places of its candidates in the grid


def candidates_in(
    estimator: Any, grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
) -> list[dict[str, Any]]:
    """Every combination, in scikit-learn's order; what must not be searched for is an error."""
    grids = grid if isinstance(grid, list | tuple) else [grid]
    if not all(map(_is_grid, grids)):
        raise InputError(f"grid must map names of parameters to lists of values, at least one each; got {grid!r}.")
    found = []
    for one in grids:
        names = sorted(one)
        found += [dict(zip(names, values, strict=True)) for values in product(*(one[name] for name in names))]
    if not 2 <= len(found) <= MOST_CANDIDATES:
        raise InputError(
            f"the grid has {len(found)} candidates; give 2 to {MOST_CANDIDATES}. One alone needs no search: fit it."
        )
    known = estimator.get_params(deep=False)
    for name in {name for one in found for name in one}:
        if name not in known:
            raise InputError(
                f"{type(estimator).__name__} has no parameter {name!r}; it has {', '.join(sorted(known))}."
            )
        if name in NOT_TO_CHOOSE:
            raise InputError(f"{name!r} cannot be searched for: {NOT_TO_CHOOSE[name]}.")
    return found


def _is_grid(given: Any) -> bool:
    return isinstance(given, Mapping) and all(
        isinstance(name, str) and isinstance(values, list | tuple | range | np.ndarray) and len(values)
        for name, values in given.items()
    )


def groups_of(estimator: Any, candidates: list[dict[str, Any]]) -> list[Group]:
    """Candidates that differ in their rank alone share a fit of the largest, where lower ranks can be read off its spectrum."""
    members: dict[str, list[int]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for at, one in enumerate(candidates):
        rest = {name: value for name, value in one.items() if name != "rank" or not ranks_are_free(estimator, one)}
        key = repr(sorted(rest.items(), key=lambda item: item[0]))
        members.setdefault(key, []).append(at)
        settings.setdefault(key, rest)
    groups = []
    for key, places in members.items():
        ranks = [candidates[at]["rank"] for at in places if "rank" in candidates[at]]
        largest = {"rank": max(ranks)} if ranks else {}
        groups.append(Group({**settings[key], **largest}, tuple(places)))
    return groups


def ranks_are_free(estimator: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a board of a larger rank says, by its released spectrum, what one of this rank would be. A public rule."""
    model = clone(estimator).set_params(**settings)
    whole = isinstance(model, PrivateFedRep) and is_whole(model.rank)
    return whole and model.recipe == "default" and bool(model.shared_mean or model.fit_intercept)


def at_rank(board: Billboard, rank: int) -> Billboard:
    """A board of fewer directions: those along which people's own coefficients are spread most, by its ``spread``. Costs nothing.

    Heads are then posteriors in fewer directions. The board has a ``spread``, and at least this rank.
    """
    if rank == board.rank:
        return board
    assert board.spread is not None
    assert rank < board.rank
    first = int(board.fit_intercept)
    own = board.spread[first:, first:]
    kept = np.linalg.eigh((own + own.T) / 2)[1][:, ::-1][:, :rank]  # (k, rank)
    within = np.zeros((first + board.rank, first + rank))
    within[:first, :first] = np.eye(first)
    within[first:, first:] = kept
    statement = replace(board.statement, parameters={**board.statement.parameters, "rank": int(rank)})
    spread = within.T @ board.spread @ within
    return replace(
        board,
        embedding=np.ascontiguousarray(board.embedding @ kept),
        spread=(spread + spread.T) / 2,
        statement=statement,
    )
