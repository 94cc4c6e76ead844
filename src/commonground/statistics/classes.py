"""What people send where labels are one of several classes: shares of classes, gradients of scores, what people vary by.

Class c of a row has the score s_c = (B (Wᵀx + a + h_j))_c and the probability exp(s_c)/Σ exp(s): W and a are shared, and
h_j ~ N(0, S) is person j's own, one number for each contrast of classes. The columns of B are orthonormal and add up to nothing
each, so no class is treated unlike another, whichever stands first, and noise on contrasts is as large on classes.

A person's part takes time in proportion to her rows times K³. So that nobody's rows hold up a fit that others have paid for, her
first ``most_rows`` enter it, a public number; in shares of classes all of them count.
"""

from dataclasses import dataclass, replace

import numpy as np

from commonground.clipping.shares import MassSums
from commonground.clipping.sums import BinnedSums, ConeSums
from commonground.data.population import Block
from commonground.statistics.kernels.class_posterior import class_factors
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.kernels.products import chunk_products
from commonground.statistics.posterior import PosteriorMoments, Reader, clipped_moments, gradient_sums
from commonground.statistics.statistic import Number, Statistic, WindowStart

# Rows times K³ of one person: with 50 classes and more about a minute of a core, each time that rows are read.
MOST_WORK = 2**32


def most_rows(n_classes: int) -> int:
    """How many of a person's rows, her first, say something about her own class intercepts and enter gradients.

    >>> most_rows(3), most_rows(20), most_rows(50), most_rows(200)
    (159072862, 536870, 34359, 536)
    """
    return MOST_WORK // n_classes**3


def first_rows(block: Block, n_classes: int) -> Block:
    """The same people with their first ``most_rows``; the very block, where nobody has more."""
    sizes, most = np.diff(block.offsets), most_rows(n_classes)
    if sizes.max(initial=0) <= most:
        return block
    kept = np.arange(block.n_rows) - np.repeat(block.offsets[:-1], sizes) < most
    offsets = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))])
    return replace(block, X=block.X[kept], y=block.y[kept], offsets=offsets)


def contrasts(n_classes: int) -> np.ndarray:
    """(K, K − 1) orthonormal columns, each of which adds up to nothing: what is left of K scores when only differences count.

    >>> contrasts(3).round(3).tolist()
    [[0.707, 0.408], [-0.707, 0.408], [0.0, -0.816]]
    """
    B = np.zeros((n_classes, n_classes - 1))
    for a in range(n_classes - 1):
        B[: a + 1, a], B[a + 1, a] = 1.0, -(a + 1.0)
        B[:, a] /= np.sqrt((a + 1.0) * (a + 2.0))
    return B


@dataclass(frozen=True, eq=False)
class ClassModel:
    """What rounds improve: shared scores of classes, by contrasts, and the prior of people's own."""

    coef: np.ndarray  # (n_features, K − 1): W
    intercept: np.ndarray  # (K − 1,): a
    spread: np.ndarray  # (K − 1, K − 1): S, the covariance of people's own class intercepts

    @property
    def n_classes(self) -> int:
        return len(self.intercept) + 1


def _reader(model: ClassModel, coordinates: Coordinates) -> Reader:
    """What gives the factors of a chunk's rows and the moments of its people."""
    B, L, q = contrasts(model.n_classes), prior_factor(model.spread), model.n_classes - 1
    columns, shift = coordinates.columns_for(model.coef @ B.T)
    level = B @ model.intercept - shift

    def read(some: Block) -> tuple[np.ndarray, np.ndarray]:
        factors, moments = np.zeros((some.X.shape[0], q)), np.zeros((some.n_users, 3 * (q * (q + 1) // 2) + q + 2))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = chunk_products(some.X, columns) + level
        class_factors(scores, some.y.astype(np.float64, copy=False), some.offsets, B, L, factors, moments)
        return factors, moments

    return read


@dataclass(frozen=True, eq=False)
class ClassShares(Statistic[MassSums]):
    """Person j sends which share of her labels each class has; nothing, if one of them is no class."""

    gives = MassSums
    n_classes: int

    def of(self, block: Block) -> MassSums:
        y, person = np.asarray(block.y, dtype=np.float64), block.person_of_row
        with np.errstate(invalid="ignore"):
            known = (y >= 0.0) & (y < self.n_classes) & (y == np.floor(y))
        place = np.where(known, y, 0.0).astype(np.int64)
        cells = block.n_users * self.n_classes
        counts = np.bincount(person * self.n_classes + place, known, cells).reshape(block.n_users, self.n_classes)
        astray = np.bincount(person[~known], minlength=block.n_users) > 0
        return MassSums.of(np.where(astray[:, None], 0.0, counts), block.person_weights)


@dataclass(frozen=True, eq=False)
class ClassGradients(Statistic[BinnedSums]):
    """Person j sends X_jᵀ R_j B/dof_j, R_j what her posterior leaves of her labels: the gradient for W, as one vector.

    With an entry Σ of R_j B · ``constant``/dof_j for the shared intercepts. dof_j are her rows less what her own part takes of
    them. It is clipped as a whole: how many classes there are makes no difference to its sensitivity.
    """

    gives = BinnedSums
    sees_through_coordinates = True
    model: ClassModel
    constant: Number
    lowest: WindowStart

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:
        read, columns = _reader(self.model, coordinates), self.model.n_classes - 1
        block = first_rows(block, self.model.n_classes)
        return gradient_sums(block, read, columns, float(self.constant), self.lowest, coordinates)


@dataclass(frozen=True, eq=False)
class ClassMoments(Statistic[ConeSums]):
    """What ``PosteriorMoments`` are, of people's own class intercepts: e is always 1. Bounded alike, for the same reasons."""

    gives = ConeSums
    sees_through_coordinates = True
    model: ClassModel

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> ConeSums:
        block = first_rows(block, self.model.n_classes)
        return clipped_moments(block, _reader(self.model, coordinates), PosteriorMoments.reach(len(self.model.spread)))
