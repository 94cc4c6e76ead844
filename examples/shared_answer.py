"""A complete estimator in one file: the same answer for everybody, learned privately from people's mean labels.

See docs/adding_an_estimator.md, which walks through it.
"""

from dataclasses import dataclass

import numpy as np

import commonground as cg
from commonground.accounting.plan import Plan, Share
from commonground.billboard.statement import Statement
from commonground.clipping.sums import BinnedSums
from commonground.data.population import Block, Population
from commonground.denoise.shrinkage import signal_share
from commonground.estimators.base import PersonalModel
from commonground.gate import Gate
from commonground.statistics.statistic import WINDOW, Statistic, WindowStart
from commonground.steps.rounds import locate_sizes, release_clipped

PLAN = Plan(
    (
        Share("locate", 0.1, "where the sizes of people's mean labels lie: one histogram"),
        Share("sizes", 0.1, "a histogram that chooses the clip"),
        Share("sum", 0.8, "the clipped sum of people's mean labels"),
    )
)


@dataclass(frozen=True, eq=False)
class MeanLabels(Statistic[BinnedSums]):
    """Person j sends the mean of her labels; who has no rows sends nothing."""

    gives = BinnedSums
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        sizes = np.diff(block.offsets)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is nobody's contribution
            means = np.bincount(block.person_of_row, block.y, minlength=block.n_users) / np.maximum(sizes, 1)
        return BinnedSums.of(means[:, None, None], block.person_weights, self.lowest, WINDOW)


class SharedAnswer(PersonalModel):
    """One number for everybody, private for every person.

    Notes
    -----
    **Guarantee.** Unit: a person with all of her rows, replaced by any other. Through the gate pass two histograms of the sizes
    of people's mean labels (√2 each) and the sum of these means, clipped to C (2C), at the shares of ``PLAN``. The answer is made
    of these and of the public number of people.
    """

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, *, simulation_seed: int | None = None) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.simulation_seed = simulation_seed

    def _publish(self, users: Population, gate: Gate) -> cg.Billboard:
        budget, users = self._declared(users)
        mu = PLAN.costs(budget)

        def sums_from(lowest: int) -> BinnedSums:
            return users.sum(MeanLabels(lowest))

        edge = locate_sizes(sums_from, gate, mu["locate"], "mean labels")
        total = release_clipped(sums_from, edge, gate, mu["sizes"], mu["sum"], "mean labels")
        answer = signal_share(total.value, total.noise_std, 1) * float(total.value[0, 0]) / total.people
        return cg.Billboard(
            embedding=np.zeros((users.n_features, 0)),
            mean=None,
            intercept=answer,
            fit_intercept=False,
            feature_names=users.feature_names,
            statement=Statement.of_fit(gate, "Shared answer", "default", budget, users),
        )


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(5_000), 8)
    X, y = rng.standard_normal((len(people), 3)), 7.0 + rng.standard_normal(len(people))
    model = SharedAnswer(epsilon=1.0, simulation_seed=1).fit(X, y, users=people)
    print(f"the answer: {model.billboard_.intercept:.2f} (true: 7)")
    print(model.billboard_.statement)
