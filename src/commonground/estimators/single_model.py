"""One private linear model for everybody: the baseline without personalisation, or with own levels only."""

from typing import Any

import numpy as np

from commonground.accounting.plan import Plan, Share
from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep.default import default_recipe
from commonground.estimators.fedrep.default_plan import FitSettings
from commonground.gate import Gate
from commonground.heads.kinds import PosteriorHeads, RidgeHeads
from commonground.progress import progress_bar
from commonground.statistics.statistic import SharedModel
from commonground.steps.feature_energy import release_feature_energy
from commonground.steps.label_units import LabelUnit
from commonground.steps.shared_mean import release_feature_centre, shared_mean_rounds

N_ROUNDS = 12
PLAN = Plan(
    (
        Share("scale", 0.02, "how large features are: one number"),
        Share(
            "centre locate",
            0.01,
            "where features lie, so that slopes and intercept can be learned apart: one histogram",
        ),
        Share("centre sizes", 0.01, "a histogram that chooses the clip of the centre"),
        Share("centre", 0.04, "the clipped sum of people's mean rows"),
        Share("locate", 0.02, "where gradient sizes lie on the whole grid: one histogram"),
        Share("sizes", 0.06, "a histogram that chooses each round's clip", N_ROUNDS),
        Share("rounds", 0.84, "clipped gradient sums", N_ROUNDS),
    )
)


class SingleModel(PersonalModel):
    """Linear regression with the same coefficients for everybody, private for every person.

    Each person's mean gradient counts once, whatever her number of rows.

    Parameters
    ----------
    epsilon, delta : float
        The budget for everything that is published, per person.
    budgets : mapping, sequence of float, float or None, default=None
        Everybody her own ε in place of one for all: a mapping from person to ε, or one ε for each person in the order of
        ``users.ids``. A person with 0 takes no part. None: those of the table, if it has them.
    fit_intercept : bool
        Shared by everybody.
    own_intercept : bool, default=False
        Give everybody one of her own on top of it: the mean of what the shared model leaves of her labels, pulled to zero as
        far as her rows do not tell, by a released prior. The recipe and the releases are those of ``PrivateFedRep(rank=0)``.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    **Guarantee.** Unit and neighbours as in ``PrivateFedRep``. Through the gate pass the histogram of feature energies (√2),
    two histograms (√2) and a clipped sum (2C) of people's mean rows, the histogram that locates gradient sizes (√2), and per
    round the histogram of gradient sizes (√2) and the sum of per-person gradients clipped to C (2C). With own intercepts the
    releases are those of ``PrivateFedRep``'s default recipe (``estimators/fedrep/default.py``).

    Examples
    --------
    >>> import commonground as cg
    >>> users, truth = cg.datasets.make_shared_subspace(n_users=500, n_features=5, seed=1)
    >>> cg.SingleModel(epsilon=1.0, simulation_seed=1).fit(users).billboard_.rank
    0
    """

    def __init__(
        self,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        *,
        budgets: Any = None,
        fit_intercept: bool = FIT_INTERCEPT,
        own_intercept: bool = False,
        simulation_seed: int | None = None,
        verbose: bool = False,
        user: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.budgets = budgets
        self.fit_intercept = fit_intercept
        self.own_intercept = own_intercept
        self.simulation_seed = simulation_seed
        self.verbose = verbose
        self.user = user

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        if self.own_intercept and not self.fit_intercept:
            raise InputError(
                "own_intercept=True of SingleModel needs fit_intercept=True: own levels differ from a shared one."
            )
        budget, users = self._declared(users)
        if self.own_intercept:
            model = default_recipe(
                users, FitSettings(rank=0, label_range=users.label_range), budget, gate, self.verbose
            )
        else:
            unit, plan = LabelUnit.of(users.label_range), PLAN if self.fit_intercept else PLAN.without("centre")
            model = unit.as_labels(self._same_for_all(unit.seen_by(users), plan.costs(budget), gate))
        kind = PosteriorHeads() if model.own_intercept else RidgeHeads()
        return self._board(users, model, self._statement(gate, "Single private model", budget, users), kind)

    def _same_for_all(self, users: Population, mu: dict[str, float], gate: Gate) -> SharedModel:
        model = SharedModel(np.zeros((users.n_features, 0)), np.zeros(users.n_features))
        with progress_bar("training", N_ROUNDS, self.verbose) as advance:
            energy = release_feature_energy(users, False, gate, mu["scale"])
            centre = None
            if self.fit_intercept:
                centre = release_feature_centre(
                    users, gate, mu_locate=mu["centre locate"], mu_size=mu["centre sizes"], mu_sum=mu["centre"]
                ).value
            for after in shared_mean_rounds(
                users,
                gate,
                mu_locate=mu["locate"],
                mu_size=mu["sizes"],
                mu_sum=mu["rounds"],
                n_rounds=N_ROUNDS,
                feature_energy=energy,
                own_intercept=False,
                constant=float(self.fit_intercept),
                feature_centre=centre,
            ):
                model = after.model
                advance()
        return model
