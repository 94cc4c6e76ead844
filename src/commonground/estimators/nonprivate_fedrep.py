"""FedRep without privacy, run to convergence: what sharing could bring if nobody needed protection."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.clipping.grid import lower_edge
from commonground.clipping.sums import SizeCounts
from commonground.data.population import Population
from commonground.defaults import FIT_INTERCEPT, RANK, SHARED_MEAN
from commonground.denoise.spectra import without_single_features
from commonground.estimators.base import PersonalModel
from commonground.estimators.checks import check_rank
from commonground.estimators.own_data import TOO_LARGE
from commonground.gate import Gate
from commonground.heads.kinds import PosteriorHeads
from commonground.statistics.coordinates import FeatureMoments
from commonground.statistics.directions import Directions, FeatureEnergies
from commonground.statistics.labels import LabelEnergies
from commonground.statistics.posterior import Likelihood
from commonground.statistics.sparse_features import FeatureFrequencies, SparseDirections
from commonground.statistics.statistic import SharedModel
from commonground.steps.coordinates import coefficients_for_features, seen_in_coordinates
from commonground.steps.prior import (
    better_prior,
    coefficients_of_variance_one,
    orthonormal,
    second_moment,
    with_directions,
    with_weak_prior,
)

FIRST_ITERATIONS = 5  # on the shared mean alone, and the fewest
AT_REST = 1e-6  # relative change of the noise
_NULL = 1e-9  # of the mean second moment
_MANY = 20_000_000  # numbers in the second moments of sparse rows, beyond which each feature is taken alone


class NonPrivateFedRep(PersonalModel):
    """A mixed model of rank k by maximum likelihood: what private learners are compared with.

    Parameters
    ----------
    rank : int
        k, the number of shared directions; fewer than the features. 0: a shared model and own intercepts.
    fit_intercept : bool
        Give each person an intercept of her own.
    shared_mean : bool
        Learn a shared linear model w₀, too.
    max_iterations : int, default=300
        Steps on the likelihood; it ends sooner when the noise rests.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    **Guarantee.** None. The statement says so; do not publish it.

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=300, n_features=8, seed=1)
    >>> model = cg.NonPrivateFedRep(rank=2, fit_intercept=False, shared_mean=False).fit(users)
    >>> cg.metrics.subspace_distance(model.billboard_.embedding, truth.embedding) < 0.01
    True
    """

    def __init__(
        self,
        rank: int = RANK,
        *,
        fit_intercept: bool = FIT_INTERCEPT,
        shared_mean: bool = SHARED_MEAN,
        max_iterations: int = 300,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.shared_mean = shared_mean
        self.max_iterations = max_iterations
        self.user = user

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        least = 0 if self.shared_mean or self.fit_intercept else 1
        check_rank(self.rank, users.n_features, "NonPrivateFedRep", least)
        model = mixed_model(users, self.rank, self.fit_intercept, self.shared_mean, self.max_iterations)
        statement = Statement(
            algorithm="FedRep",
            recipe="non-private",
            epsilon=np.inf,
            delta=0.0,
            n_users=users.n_users,
            n_features=users.n_features,
            simulated=False,
            noise="none",
            events=(),
            parameters={"rank": self.rank},
        )
        return self._board(users, model, statement, PosteriorHeads())


def mixed_model(
    users: Population, rank: int, own_intercept: bool, shared_mean: bool, max_iterations: int
) -> SharedModel:
    """Maximum likelihood for people's parts h ~ N(0, S), in coordinates in which features vary alike.

    Each iteration takes a step on U and w₀ and one of scoring on S and s²; it ends when the noise rests.
    """
    d = users.n_features
    seen, transform = _even(users, own_intercept)
    rows = _AllRows.of(seen if users.sparse else users, transform, own_intercept)
    energy = _middle(seen.sum(FeatureEnergies(own_intercept)))
    model = SharedModel(np.zeros((d, 0)), np.zeros(d) if shared_mean else None, 0.0, own_intercept)
    model = with_weak_prior(model, _middle(seen.sum(LabelEnergies(model))))
    model = _climb(seen, model, rows, max_iterations if rank == 0 else FIRST_ITERATIONS)
    if rank:
        bare = replace(model, spread=None)
        moment = seen.sum(SparseDirections(bare, np.arange(d)) if users.sparse else Directions(bare)).value
        moment = without_single_features(moment, rank, 0.0) if shared_mean or users.sparse else moment
        model = with_directions(model, np.linalg.eigh(moment)[1][:, -rank:], energy)
        model = _climb(seen, model, rows, max_iterations)
    coef = None if model.coef is None else coefficients_for_features(transform, model.coef)
    return orthonormal(replace(model, embedding=coefficients_for_features(transform, model.embedding), coef=coef))


def _climb(users: Population, model: SharedModel, rows: "_AllRows", max_iterations: int) -> SharedModel:
    """Expectation and maximisation, with steps of scoring for S and s² (``steps.prior``)."""
    noise, own = np.inf, int(model.own_intercept)
    for t in range(max_iterations):
        sums = users.sum(Likelihood(model))
        parts = np.zeros((1 + users.n_features, own + model.rank))  # of features, that people's own parts are about
        parts[:1, :own], parts[1:, own:] = 1.0, model.embedding
        steps = rows.step(np.column_stack([sums.of_embedding, sums.of_mean]), parts)
        if not (np.isfinite(steps).all() and np.isfinite(sums.moments).all()):
            break
        steps[:, :-1] = np.linalg.solve(second_moment(model, sums.moments)[own:, own:], steps[:, :-1].T).T
        rows_noise = model.noise * sums.noise / max(sums.n_rows, 1)  # by rows: private learners count people instead
        model = replace(better_prior(model, sums.moments, 0.0, users.n_users, 1.0), noise=max(rows_noise, 1e-300))
        model = coefficients_of_variance_one(_stepped(model, steps[:, :-1], steps[:, -1]))
        if t > FIRST_ITERATIONS and abs(model.noise / noise - 1.0) < AT_REST:
            break
        noise = model.noise
    return model


def _stepped(model: SharedModel, of_embedding: np.ndarray, of_mean: np.ndarray) -> SharedModel:
    assert model.spread is not None
    spread = model.spread
    if model.own_intercept:  # a step across own intercepts leaves them a multiple of her coefficients
        turn = np.eye(len(spread))
        turn[0, 1:] = of_embedding[0]
        spread = turn @ spread @ turn.T
    embedding = np.ascontiguousarray(model.embedding + of_embedding[1:])
    if model.coef is None:
        return replace(model, embedding=embedding, spread=spread)
    coef, intercept = model.coef + of_mean[1:], model.intercept + float(of_mean[0])
    return replace(model, embedding=embedding, spread=spread, coef=coef, intercept=intercept)


@dataclass(frozen=True)
class _AllRows:
    """Second moments of all rows, a constant feature first, which say how long a step may be."""

    moments: Any  # (1 + d, 1 + d), dense or sparse
    solve: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, users: Population, transform: np.ndarray | None, with_constant: bool) -> "_AllRows":
        """Of dense people seen through ``transform``; of sparse ones as they are."""
        d = users.n_features
        moments: Any = sparse.csc_array((d + 1, d + 1)) if users.sparse else np.zeros((d + 1, d + 1))
        for block in users.blocks():
            constant, X = np.full((block.n_rows, 1), float(with_constant)), block.X.astype(np.float64)
            rows = sparse.hstack([constant, X]).tocsr() if users.sparse else np.column_stack([constant, X])
            largest = abs(rows).max(axis=1)
            rows = rows[(largest.toarray() if users.sparse else largest).ravel() < TOO_LARGE]
            moments = moments + rows.T @ rows
        if transform is not None and not users.sparse:
            T = np.eye(d + 1)
            T[1:, 1:] = transform
            moments = T @ moments @ T.T
        least = _NULL * max(float(moments.diagonal().mean()), 1e-300)  # features that nobody has, or that say the same
        if not users.sparse:
            values, Q = np.linalg.eigh(moments)
            return cls(moments, lambda sums: Q @ ((Q.T @ sums) / np.maximum(values, least)[:, None]))
        if moments.nnz > _MANY:
            moments = sparse.diags_array(moments.diagonal()).tocsc()
        return cls(moments, splu((moments + least * sparse.eye_array(d + 1)).tocsc()).solve)

    def step(self, gradients: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Of least squares, across ``parts``: along these, ``better_prior`` knows better."""
        steps = self.solve(np.ascontiguousarray(gradients))
        return steps - parts @ np.linalg.lstsq(parts.T @ (self.moments @ parts), parts.T @ gradients, rcond=None)[0]


def _even(users: Population, own_intercept: bool) -> tuple[Population, np.ndarray | None]:
    """People in coordinates in which features vary alike, and these."""
    if users.sparse:
        shares = np.maximum(users.sum(FeatureFrequencies()).value, 1e-300)
        scales = 1.0 / np.sqrt(len(shares) * np.maximum(shares / shares.sum(), 1e-6 / len(shares)))
        return users.scaled(scales), scales
    values, Q = np.linalg.eigh(users.sum(FeatureMoments(own_intercept)).value)
    if not values[-1] > 0.0:
        return users, None
    values = np.maximum(values, 0.01 * values.mean())  # one-hot rows do not vary in one direction
    transform = np.ascontiguousarray((Q * np.sqrt(values.mean() / values)) @ Q.T)
    return seen_in_coordinates(users, transform), transform


def _middle(sizes: SizeCounts) -> float:
    """The median of what was counted by the bins of its square root; one where nobody has any."""
    below = np.cumsum(sizes.counts[1:])
    return lower_edge(1.5 + int(np.argmax(below >= below[-1] / 2))) ** 2 if below[-1] > 0 else 1.0
