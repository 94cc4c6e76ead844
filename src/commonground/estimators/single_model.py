"""One private linear model for everybody: the baseline without personalisation, or with own levels only."""

from typing import Any

from commonground.billboard.board import Billboard
from commonground.data.population import Population
from commonground.defaults import DELTA, EPSILON, FIT_INTERCEPT
from commonground.errors import InputError
from commonground.estimators.base import PersonalModel
from commonground.estimators.fedrep.default import default_recipe
from commonground.estimators.fedrep.default_plan import FitSettings
from commonground.gate import Gate
from commonground.heads.kinds import HeadKind, PosteriorHeads, RidgeHeads
from commonground.statistics.statistic import SharedModel
from commonground.steps.label_units import LabelUnit


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
        far as her rows do not tell, by a released prior, as ``PrivateFedRep(rank=0)`` does.
    simulation_seed : int or None, default=None
        Repeatable noise for experiments. The statement then says *simulated, not private*.
    verbose : bool, default=False
        Show a progress bar.
    user : str or int, default=None
        The column of X that says whose row it is: then ``fit``, ``predict`` and ``score`` need no ``users=``.

    Notes
    -----
    **Guarantee.** Unit and neighbours as in ``PrivateFedRep``, whose default recipe this is, at rank 0: what passes the gate is
    listed in ``estimators/fedrep/default.py``. ``own_intercept`` changes what is published, not what is released.

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

    def _check_settings(self, people: Population) -> None:
        if self.own_intercept and not self.fit_intercept:
            raise InputError(
                "own_intercept=True of SingleModel needs fit_intercept=True: own levels differ from a shared one."
            )
        LabelUnit.of(people.label_range)  # refuses what no grid holds

    def _publish(self, users: Population, gate: Gate) -> Billboard:
        budget, users = self._declared(users)
        # Own levels are averaged out in training, and then left out: labels that differ by person tell slopes more precisely so.
        settings = FitSettings(rank=0, own_intercept=self.fit_intercept, label_range=users.label_range)
        model = default_recipe(users, settings, budget, gate, self.verbose)
        kind: HeadKind = PosteriorHeads()
        if not self.own_intercept:
            model, kind = SharedModel(model.embedding, model.coef, model.intercept), RidgeHeads()
        return self._board(users, model, self._statement(gate, "Single private model", budget, users), kind)
