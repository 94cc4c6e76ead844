"""What people answer yes to, and what the shared prediction tells them that they do."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from commonground.clipping.sums import BinnedSums, ConeSums
from commonground.data.population import Block
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.products import row_products
from commonground.statistics.statistic import WINDOW, Number, SharedModel, Statistic, WindowStart

Numbers = TypeVar("Numbers", float, np.ndarray)


def averaged(log_odds: Numbers, variance: Numbers) -> Numbers:
    """Log-odds of the mean probability, for log-odds that are normal with this mean and variance (to 1 %).

    >>> round(float(averaged(2.0, 4.0)), 3)
    1.247
    """
    return log_odds / np.sqrt(1.0 + np.pi / 8 * variance)


@dataclass(frozen=True, eq=False)
class AnswerShares(Statistic[ConeSums]):
    """Person j sends the shares of her labels that are yes, above zero, and that are not; nothing if she has none.

    Neither is negative and their sum is at most one, so the pair's norm is at most one, and two such pairs lie √2 apart at most.
    """

    gives = ConeSums

    def of(self, block: Block) -> ConeSums:
        m, person = np.diff(block.offsets), block.person_of_row
        yes = np.bincount(person, block.y > 0.0, minlength=block.n_users)
        parts = block.person_weights / np.maximum(m, 1)
        return ConeSums(np.array([(parts * yes).sum(), (parts * (m - yes)).sum()]), 1.0, block.n_users)


@dataclass(frozen=True, eq=False)
class ToldShares(Statistic[BinnedSums]):
    """Person j sends the mean, over her rows, of the chance of yes that the shared prediction tells, less a public ``middle``.

    Chances are averaged over what is not known of somebody: her own part by the prior.
    """

    gives = BinnedSums
    takes_no_directions = True
    needs_spread = True
    sees_through_coordinates = True
    model: SharedModel
    middle: Number
    lowest: WindowStart

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:
        assert self.model.spread is not None
        columns, shift = coordinates.columns_for(np.column_stack([self.model.embedding, self.model.slopes]))
        S, own = self.model.spread, int(self.model.own_intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            along = row_products(block.X, columns) - shift
            parts = [np.ones(len(along)), *along.T[:-1]] if own else list(along.T[:-1])
            variance = np.zeros(len(along))
            for a, left in enumerate(parts):
                for b, right in enumerate(parts):
                    variance += S[a, b] * left * right
            log_odds = averaged(along[:, -1] + self.model.intercept, np.maximum(variance, 0.0))
            beyond = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -700.0, 700.0))) - self.middle
        m, person = np.diff(block.offsets), block.person_of_row
        means = np.bincount(person, beyond, minlength=block.n_users) / np.maximum(m, 1)
        return BinnedSums.of(means[:, None, None], block.person_weights, self.lowest, WINDOW)
