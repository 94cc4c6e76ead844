"""What people send in rounds with posterior heads: gradients of the likelihood of everybody's labels, and what heads vary by.

Person j's part is h_j = (b_j, v_j) ~ N(0, S), her labels y = w₀ᵀx + b_j + (Uᵀx)ᵀv_j + e with noise s². Whatever is shared is
improved by the gradient of the likelihood in which her part is averaged out: r v̂ᵀ for its posterior mean, less its posterior
covariance. Unlike the residual of a fitted head it is zero in the mean at the truth, also where people have few and noisy rows.
U is scaled so that coefficients have variance one.

Dense and sparse rows give the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground import ahead
from commonground.clipping.grid import N_BINS, clip_factors, squared_norms
from commonground.clipping.sums import BinnedSums, ConeSums
from commonground.data.population import Block
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.kernels.posterior_rounds import EMBEDDING, MEAN, MOMENTS, Question, chunk_sums
from commonground.statistics.kernels.posterior_sums import (
    LANES,
    NOISE_WEIGHT,
    dense_sums,
    posterior_factors,
    sparse_sums,
)
from commonground.statistics.kernels.products import chunk_products
from commonground.statistics.rows import credits_by_rows, shares_by_rows
from commonground.statistics.statistic import WINDOW, Flag, Number, SharedModel, Statistic, WindowStart
from commonground.threads import each

_CHUNKS_PER_SUM = 64  # sums of chunks, added up before their sum is added to others
_WILD = 1e8  # squared norm of moments
_PEOPLE = 256  # whose rows stay in the cache between two reads
Reader = Callable[[Block], tuple[np.ndarray, np.ndarray]]  # a chunk → factors of its rows, moments of its people


def _reader(model: SharedModel, of_mean: bool, coordinates: Coordinates, scaled: bool = True) -> Reader:
    """What gives the factors of a chunk's rows and the moments of its people."""
    assert model.spread is not None
    q, own = len(model.spread), int(model.own_intercept)
    columns, shift = coordinates.columns_for(np.column_stack([model.embedding, model.slopes]))
    L = prior_factor(model.spread)
    log_odds = 1 if model.log_odds else None
    how = own, float(model.intercept), L, float(model.noise), log_odds, bool(of_mean), bool(scaled)

    def read(some: Block) -> tuple[np.ndarray, np.ndarray]:
        factors = np.zeros((some.X.shape[0], 1 if of_mean else q - own))
        moments = np.zeros((some.n_users, 3 * (q * (q + 1) // 2) + q + 2))
        with np.errstate(over="ignore", invalid="ignore"):
            products = chunk_products(some.X, columns) - shift
        posterior_factors(products, some.y.astype(np.float64, copy=False), some.offsets, *how, factors, moments)
        return factors, moments

    return read


def _folded(parts: np.ndarray) -> np.ndarray:
    """Their sum, some of them at a time: what rounding may add grows with the number of additions in a row."""
    return np.asarray(np.add.reduceat(parts, np.arange(0, len(parts), _CHUNKS_PER_SUM)).sum(axis=0))


@dataclass(frozen=True, eq=False)
class PosteriorGradients(Statistic[BinnedSums]):
    """Person j sends X_jᵀ(r v̂ᵀ − Z_j Cov(h, v)) k/(dof_j E‖v‖²): the gradient for the embedding, by the posterior of her part.

    ``of_mean``: X_jᵀr/dof_j, that for the shared mean, in place of it; with a ``constant``, an entry Σr·constant/dof_j for
    the intercept. dof_j are her rows less what her own part takes of them. All of it times m_j/``full_rows``, at most one, as
    means of a few rows are noisy; and by that she is counted.
    """

    gives = BinnedSums
    takes_no_directions = True
    needs_spread = True
    sees_through_coordinates = True
    model: SharedModel
    of_mean: Flag
    constant: Number
    lowest: WindowStart
    full_rows: Number = 1.0

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> BinnedSums:
        full_rows = float(self.full_rows)
        if not (block.sparse or self.model.log_odds):
            return self._of_dense_labels(block, coordinates, full_rows)
        read, columns = _reader(self.model, self.of_mean, coordinates), 1 if self.of_mean else self.model.rank

        def read_by_rows(some: Block) -> tuple[np.ndarray, np.ndarray]:
            factors, moments = read(some)
            factors *= np.repeat(shares_by_rows(some, full_rows), np.diff(some.offsets))[:, None]
            return factors, moments

        return gradient_sums(block, read_by_rows, columns, float(self.constant), self.lowest, coordinates, full_rows)

    def _of_dense_labels(self, block: Block, coordinates: Coordinates, full_rows: float) -> BinnedSums:
        ahead.finish()
        asked, dtype = MEAN if self.of_mean else EMBEDDING, block.X.dtype
        question = Question.of(asked, self.model, coordinates, float(self.constant), 0.0, self.lowest, dtype)

        def sums(some: Block) -> tuple[np.ndarray, ...]:
            return chunk_sums(some, question, shares_by_rows(some, full_rows), credits_by_rows(some, full_rows))[:3]

        counts, raw, unit = (_folded(parts) for parts in over_chunks(block, sums, doubles=False, enlarge=False))
        return BinnedSums(counts[0], raw, unit, self.lowest, block.n_users, counts[1])


def gradient_sums(
    block: Block,
    read: Reader,
    columns: int,
    constant: float,
    lowest: int,
    coordinates: Coordinates,
    full_rows: float = 1.0,
) -> BinnedSums:
    """Sums by size of everybody's gradient Σ f xᵀ, for the factors f, (rows, columns), that ``read`` gives of a chunk.

    ``full_rows``: from so many rows on a person is credited with her whole weight.
    """
    sums = (
        _of_sparse(block, read, constant, lowest, full_rows)
        if block.sparse
        else _of_dense(block, read, columns, constant, lowest, coordinates, full_rows)
    )
    counts, raw, unit = (_folded(parts) for parts in sums)
    return BinnedSums(counts[0], raw, unit, lowest, block.n_users, counts[1])


def _of_dense(
    block: Block, read: Reader, columns: int, constant: float, lowest: int, coordinates: Coordinates, full_rows: float
) -> Any:
    d = block.X.shape[1]
    turn, shape = coordinates.for_kernels(d), (columns, d + (constant != 0.0))

    def sums(some: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        factors, _ = read(some)
        counts, raw, unit = np.zeros((1, 2, N_BINS)), np.zeros((1, WINDOW, *shape)), np.zeros((1, WINDOW, *shape))
        room = np.empty(shape), np.empty(shape)
        counted = some.person_weights, credits_by_rows(some, full_rows)
        how = some.offsets, factors, constant, *counted, lowest, *turn, *room
        dense_sums(some.X, *how, counts[0], raw[0], unit[0])
        return counts, raw, unit

    return over_chunks(block, sums, people=_PEOPLE, doubles=False, enlarge=False)


def _of_sparse(block: Block, read: Reader, constant: float, lowest: int, full_rows: float) -> Any:
    factors = over_chunks(block, lambda some: read(some)[0], people=_PEOPLE)
    X: Any = block.X.astype(np.float64, copy=False)
    rows = X.indptr, X.indices, X.data, X.shape[1], block.offsets
    how = factors, constant, block.person_weights, credits_by_rows(block, full_rows), lowest, WINDOW
    lanes = each(lambda lane: sparse_sums(lane, *rows, *how), range(LANES))
    counts, raw, unit = (np.stack(parts) for parts in zip(*lanes, strict=True))
    return counts, np.ascontiguousarray(raw.transpose(0, 1, 3, 2)), np.ascontiguousarray(unit.transpose(0, 1, 3, 2))


@dataclass(frozen=True, eq=False)
class PosteriorMoments(Statistic[ConeSums]):
    """Σ_j of ξξᵀ, H and H² (by halves), ξ, 2e and 2: how far people's parts are from what the prior says.

    ξ is the posterior mean of person j's part in coordinates in which the prior is the identity, 1 − H its posterior covariance,
    e the mean square of her residuals against the noise. If prior and noise are right, Σ ξξᵀ = Σ H, Σ ξ = 0 and Σ e = Σ 1.

    What two people send is never at more than a right angle: e is not negative, matrices are positive but for rounding, which
    takes at most 3 (``as_good_as_positive``), and of ξ and ζ it is (ξᵀζ)² + ξᵀζ ≥ −1/4; the product 2·2 of the last entries
    outweighs both. Whoever does not send this 2 sends zeros alone.
    """

    gives = ConeSums
    takes_no_directions = True
    needs_spread = True
    sees_through_coordinates = True
    model: SharedModel

    @staticmethod
    def reach(size: int) -> float:
        """The norm that what a person sends is clipped to; a constant, given the size of her part."""
        return size + 1.5

    def of_coordinates(self, block: Block, coordinates: Coordinates) -> ConeSums:
        assert self.model.spread is not None
        reach = self.reach(len(self.model.spread))
        if block.sparse or self.model.log_odds:
            return clipped_moments(block, _reader(self.model, True, coordinates), reach)
        ahead.finish()
        question = Question.of(MOMENTS, self.model, coordinates, 0.0, reach, 1, block.X.dtype)

        def sums(some: Block) -> np.ndarray:
            return chunk_sums(some, question, some.person_weights, some.person_weights)[3]

        return ConeSums(_folded(over_chunks(block, sums, doubles=False, enlarge=False)), reach, block.n_users)


def clipped_moments(block: Block, read: Reader, clip_norm: float) -> ConeSums:
    """The sum of everybody's moments, which ``read`` gives of a chunk, each clipped; see ``PosteriorMoments``."""

    def clipped(some: Block) -> np.ndarray:
        moments = read(some)[1]
        factors = clip_factors(squared_norms(moments), clip_norm) * some.person_weights
        return np.asarray(factors @ np.where(factors[:, None] > 0.0, moments, 0.0))[None]

    sums = over_chunks(block, clipped, people=_PEOPLE, doubles=False, enlarge=False)
    return ConeSums(_folded(sums), clip_norm, block.n_users)


@dataclass(frozen=True)
class LikelihoodSums:
    """What maximum likelihood needs of everybody, as it is: neither scaled nor clipped, and so of no use to private learners."""

    of_embedding: np.ndarray  # (1 + d, k) gradient times s², for a constant feature first
    of_mean: np.ndarray  # (1 + d,)
    moments: np.ndarray  # as PosteriorMoments gives them
    noise: float  # expected squares of noise, against s², of all rows
    n_rows: int

    def __add__(self, other: "LikelihoodSums") -> "LikelihoodSums":
        return LikelihoodSums(
            self.of_embedding + other.of_embedding,
            self.of_mean + other.of_mean,
            self.moments + other.moments,
            self.noise + other.noise,
            self.n_rows + other.n_rows,
        )


@dataclass(frozen=True, eq=False)
class Likelihood(Statistic[LikelihoodSums]):
    """Gradients of the likelihood of everybody's labels, for baselines without privacy."""

    gives = LikelihoodSums
    takes_no_directions = True
    model: SharedModel

    def of(self, block: Block) -> LikelihoodSums:
        factors, moments = over_chunks(block, _reader(self.model, False, Coordinates(), scaled=False))
        residuals, _ = over_chunks(block, _reader(self.model, True, Coordinates(), scaled=False))
        with np.errstate(over="ignore", invalid="ignore"):
            # A person of wild numbers would be all there is; and nothing times a NaN is no number.
            usual = (squared_norms(moments) < _WILD) & (moments[:, -1] > 0.0)
            rows = np.repeat(usual, np.diff(block.offsets))
            X, both = block.X[rows], np.column_stack([factors, residuals])[rows]
            sums = np.vstack([both.sum(axis=0), np.asarray(X.T @ both)])
            noise = float((moments[:, -2] / NOISE_WEIGHT * np.diff(block.offsets))[usual].sum())
        return LikelihoodSums(sums[:, :-1], sums[:, -1], moments[usual].sum(axis=0), noise, int(rows.sum()))
