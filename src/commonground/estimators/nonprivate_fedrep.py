"""FedRep without privacy, run to convergence: what sharing could bring if nobody needed protection."""

from typing import Any

import numpy as np

from commonground.billboard.board import Billboard
from commonground.billboard.statement import Statement
from commonground.data.population import Population
from commonground.estimators.base import PersonalModel, check_rank
from commonground.estimators.own_data import pooled_least_squares
from commonground.gate import Gate
from commonground.statistics.directions import Directions
from commonground.statistics.objective import loss_and_gradient
from commonground.statistics.statistic import SharedModel


class NonPrivateFedRep(PersonalModel):
    """The least-squares shared embedding, by variable projection: heads at their optimum, L-BFGS on the embedding.

    Parameters
    ----------
    rank : int, default=2
        k, the number of shared directions; fewer than the features.
    fit_intercept : bool, default=True
        Give each person an intercept of her own.
    shared_mean : bool, default=True
        Learn a shared linear model w₀, too.
    max_iterations : int, default=300
        Of L-BFGS.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Attributes
    ----------
    billboard_ : Billboard
        All that is published: the shared part, and the statement of what it cost everybody.
    heads_ : HeadTable or None
        Private: row j belongs to person j alone. None where another engine has the rows.
    own_intercepts_ : array of shape (n_users,), or None
        Everybody's intercept on top of the shared one; private, and None where ``heads_`` is.
    own_models_ : OwnModels or None
        Of those who do better alone, where the billboard leaves them the choice; None where ``heads_`` is.
    user_ids_ : array of shape (n_users,), or None
        In the order of ``heads_``; None where another engine has them.
    n_features_in_ : int
        How many features there are.
    feature_names_in_ : array of shape (n_columns,)
        What they are called; only where X, or the table, has names.

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
        rank: int = 2,
        *,
        fit_intercept: bool = True,
        shared_mean: bool = True,
        max_iterations: int = 300,
        user: Any = None,
    ) -> None:
        self.rank = rank
        self.fit_intercept = fit_intercept
        self.shared_mean = shared_mean
        self.max_iterations = max_iterations
        self.user = user

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        from scipy.optimize import minimize  # 20 MB that nobody else needs

        check_rank(self.rank, users.n_features, "NonPrivateFedRep")
        d, k = users.n_features, self.rank
        mean, intercept = pooled_least_squares(users, self.fit_intercept) if self.shared_mean else (np.zeros(d), 0.0)

        n_rows = sum(block.n_rows for block in users.blocks())

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            U, w = flat[d:].reshape(d, k), flat[:d]
            loss, along_U, along_w = 0.0, np.zeros((d, k)), np.zeros(d)
            for block in users.blocks():
                part = loss_and_gradient(block, U, w, self.fit_intercept)
                loss, along_U, along_w = loss + part[0], along_U + part[1], along_w + part[2]
            along_w = along_w if self.shared_mean else np.zeros(d)
            return loss / n_rows, np.concatenate([along_w, along_U.ravel()]) / n_rows

        moment = users.sum(Directions(SharedModel(np.zeros((d, 0)), mean, intercept, self.fit_intercept))).value
        U = np.linalg.eigh(moment)[1][:, -k:]
        options = {"maxiter": self.max_iterations, "ftol": 1e-14, "gtol": 1e-10}
        start = np.concatenate([mean, U.ravel()])
        with np.errstate(all="ignore"):  # one person's numbers may be too large to have a squared error
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
        found = found if np.isfinite(found).all() else start
        mean, U = found[:d], found[d:].reshape(d, k)
        return Billboard(
            embedding=np.ascontiguousarray(np.linalg.qr(U)[0]),
            mean=mean if self.shared_mean else None,
            intercept=intercept,
            fit_intercept=self.fit_intercept,
            feature_names=users.feature_names,
            statement=Statement(
                "FedRep", "non-private", np.inf, 0.0, users.n_users, d, False, "none", (), parameters={"rank": k}
            ),
        )
