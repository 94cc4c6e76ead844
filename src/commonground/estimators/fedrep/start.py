"""Where a refit begins: an earlier billboard, as the shared model of this fit. Public, so it costs nothing.

**Guarantee.** The earlier board is differentially private in the data that it was made of, whoever was in it; here it is a public
constant, chosen before this fit reads anybody's rows. So this fit's own releases are all that it costs, and for a person who was
in both, both costs add up (a ledger does that). A board that protects nobody is refused, unless this fit is a simulation, too.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.errors import InputError
from commonground.estimators.fedrep.default_plan import FitSettings
from commonground.statistics.statistic import SharedModel

_FLATTEST = 1e-9  # of a spread's largest eigenvalue: the smallest that is used


def start_from(board: Any, users: Population, simulated: bool) -> Billboard:
    """The earlier board, where these people have the features that it is about and it may be built on.

    ``simulated``: this fit's noise protects nobody anyway.
    """
    if not isinstance(board, Billboard):
        raise InputError(f"start= must be a Billboard (Billboard.load(folder)), got {type(board).__name__}.")
    statement = board.statement
    if (not statement.private or statement.simulated) and not simulated:
        raise InputError(
            "start= is a board that protects nobody (simulated, or not private): what is made from it would not be private, "
            "either. Start from a private board, or from none."
        )
    if statement.unit != "person":
        raise InputError(f"start= protects one {statement.unit}, and this fit one person: they do not add up.")
    if board.n_features != users.n_features:
        raise InputError(
            f"start= is about {board.n_features} features, and these people have {users.n_features}. Fit without start=."
        )
    names = board.feature_names, users.feature_names
    if all(names) and names[0] != names[1]:
        differing = sorted(set(names[0] or ()) ^ set(names[1] or ()))[:5]
        raise InputError(
            f"start= is about other features than these people have ({', '.join(differing) or 'in another order'}). Give the "
            "table the columns that it had then, or fit without start=."
        )
    return board


def model_of(board: Billboard, asked: FitSettings) -> SharedModel:
    """The shared model that an earlier board publishes, where it has the parts that this fit asks for; any rank for "auto"."""
    parts = {
        "rank": (board.rank, board.rank if asked.rank == "auto" else int(asked.rank)),
        "fit_intercept": (board.fit_intercept, asked.own_intercept),
        "shared_mean": (board.mean is not None, asked.shared_mean),
        "a logistic loss": (board.log_odds, asked.log_odds),
    }
    for name, (there, here) in parts.items():
        if there != here:
            raise InputError(
                f"start= has {name} = {there}, and this fit {here}. Fit with what the board has, or without start=."
            )
    model = SharedModel(
        np.ascontiguousarray(board.embedding, dtype=np.float64),
        None if board.mean is None else np.asarray(board.mean, dtype=np.float64),
        float(board.intercept),
        asked.own_intercept,
        log_odds=asked.log_odds,
    )
    if board.spread is None or board.noise is None:
        return model
    values, Q = np.linalg.eigh(np.asarray(board.spread, dtype=np.float64))
    values = np.maximum(values, max(_FLATTEST * values.max(initial=0.0), np.finfo(float).tiny))
    return replace(model, spread=(Q * values) @ Q.T, noise=float(board.noise))
