"""What people send in rounds with posterior heads: gradients of the likelihood of everybody's labels, and what heads vary by.

Person j's part is h_j = (b_j, v_j) ~ N(0, S), her labels y = w₀ᵀx + b_j + (Uᵀx)ᵀv_j + e with noise s². Whatever is shared is
improved by the gradient of the likelihood in which her part is averaged out: r v̂ᵀ for its posterior mean, less its posterior
covariance. Unlike the residual of a fitted head it is zero in the mean at the truth, also where people have few and noisy rows.
U is scaled so that coefficients have variance one.

Dense and sparse rows give the same numbers.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange

from commonground.clipping.grid import CHUNK, N_BINS, bin_of, clip_factors, squared_norms
from commonground.clipping.sums import BinnedSums, ConeSums
from commonground.data.population import Block
from commonground.statistics.kernels.posterior import posterior_in_place, prior_factor
from commonground.statistics.kernels.products import row_products
from commonground.statistics.statistic import WINDOW, Flag, Number, SharedModel, Statistic, WindowStart

_FEWEST_FREE = 0.25  # rows' worth of residual that her own part must leave her, for what she sends to say anything
_WILD = 1e8  # squared norm of moments
NOISE_WEIGHT = 2.0  # of the two numbers about noise beside those about heads, so that the gate's noise hides them less
LANES = 4  # sums over sparse rows are kept in so many fixed parts, whatever the number of threads


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _posteriors(products, y, offsets, own, intercept, L, noise, of_mean, scaled):  # type: ignore[no-untyped-def]
    """For each row the factors f that its person's gradient Σ f xᵀ is made of; and everybody's moments.

    ``products``: X (U, w₀). Factors are (rows, k), or (rows, 1) ``of_mean``; all zero for a person who has nothing to say.
    ``scaled``: by her degrees of freedom and the size of her head, so that no person says more than another.
    Moments, (people, 3·q(q+1)/2 + 2): ξξᵀ, H and H² by their halves, her noise against the common one, and a one, these two
    times ``NOISE_WEIGHT``.
    """
    n, q = offsets.shape[0] - 1, L.shape[0]
    k, half = q - own, q * (q + 1) // 2
    factors = np.zeros((products.shape[0], 1 if of_mean else k))
    moments = np.zeros((n, 3 * half + 2))
    for j in prange(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        if m == 0:
            continue
        Z, W, r = np.empty((m, q)), np.zeros((m, q)), np.empty(m)
        for i in range(m):
            r[i] = y[lo + i] - (products[lo + i, k] + intercept)
            for b in range(q):
                Z[i, b] = 1.0 if b < own else products[lo + i, b - own]
                for c in range(b + 1):
                    W[i, c] += Z[i, b] * L[b, c]
        factor, inverse, xi = np.empty((q, q)), np.empty((q, q)), np.empty(q)
        if math.isnan(posterior_in_place(W, r, m, noise, 0.0, factor, inverse, xi)):
            continue
        used, squares = 0.0, 0.0
        for c in range(q):
            used += 1.0 - noise * inverse[c, c]
        for i in range(m):
            for c in range(q):
                r[i] -= W[i, c] * xi[c]
            squares += r[i] * r[i]
        _moments_in_place(xi, inverse, noise, moments[j])
        moments[j, 3 * half] = NOISE_WEIGHT * (squares / (m * noise) + used / m)
        moments[j, 3 * half + 1] = NOISE_WEIGHT
        free = m - used
        if not scaled:
            free = 1.0
        if not free > _FEWEST_FREE:
            continue
        if of_mean:
            for i in range(m):
                factors[lo + i, 0] = r[i] / free
            continue
        v, doubt, size = np.zeros(k), np.zeros((q, k)), 0.0
        for a in range(k):
            for c in range(own + a + 1):
                v[a] += L[own + a, c] * xi[c]
            for b in range(q):
                for c in range(b + 1):
                    for e in range(own + a + 1):
                        doubt[b, a] += noise * L[b, c] * inverse[c, e] * L[own + a, e]
            size += v[a] * v[a] + doubt[own + a, a]
        if not (size > 0.0 and size < math.inf):
            continue
        scale = k / (free * size) if scaled else 1.0
        for i in range(m):
            for a in range(k):
                total = r[i] * v[a]
                for b in range(q):
                    total -= Z[i, b] * doubt[b, a]
                factors[lo + i, a] = total * scale
    return factors, moments


@njit(cache=True, nogil=True, error_model="numpy")
def _moments_in_place(xi, inverse, noise, moments):  # type: ignore[no-untyped-def]
    """The halves, off-diagonals times √2, of ξξᵀ, H = 1 − s² (s² + WᵀW)⁻¹ and H²."""
    q = xi.shape[0]
    half, at = q * (q + 1) // 2, 0
    H = np.empty((q, q))
    for a in range(q):
        for b in range(q):
            H[a, b] = (1.0 if a == b else 0.0) - noise * inverse[a, b]
    for a in range(q):
        for b in range(a, q):
            root = 1.0 if a == b else math.sqrt(2.0)
            moments[at] = root * xi[a] * xi[b]
            moments[half + at] = root * H[a, b]
            for c in range(q):
                moments[2 * half + at] += root * H[a, c] * H[c, b]
            at += 1


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _dense_sums(X, offsets, factors, constant, weights, lowest, window):  # type: ignore[no-untyped-def]
    """Sums by size of everybody's (columns, d) gradient Σ f xᵀ, with an entry for the intercept when ``constant``."""
    n, d, columns = offsets.shape[0] - 1, X.shape[1], factors.shape[1]
    width, n_chunks = d + (constant != 0.0), (offsets.shape[0] - 1 + CHUNK - 1) // CHUNK
    counts = np.zeros((n_chunks, N_BINS))
    raw = np.zeros((n_chunks, window, columns, width))
    unit = np.zeros((n_chunks, window, columns, width))
    for chunk in prange(n_chunks):
        g = np.empty((columns, width))
        for j in range(chunk * CHUNK, min(n, (chunk + 1) * CHUNK)):
            g[:] = 0.0
            for i in range(offsets[j], offsets[j + 1]):
                for a in range(columns):
                    f = factors[i, a]
                    for c in range(d):
                        g[a, c] += f * X[i, c]
                    if constant != 0.0:
                        g[a, d] += f * constant
            squared = 0.0
            for a in range(columns):
                for c in range(width):
                    squared += g[a, c] * g[a, c]
            b = bin_of(squared)
            counts[chunk, b] += weights[j]
            if b > 0:
                at, inverse_norm = min(max(b - lowest, 0), window - 1), 1.0 / math.sqrt(squared)
                for a in range(columns):
                    for c in range(width):
                        value = weights[j] * g[a, c]
                        raw[chunk, at, a, c] += value
                        unit[chunk, at, a, c] += value * inverse_norm
    return counts, raw, unit


@njit(error_model="numpy")
def _sparse_lane(rows, offsets, factors, constant, weights, lowest, lane, counts, raw, unit):  # type: ignore[no-untyped-def]
    indptr, indices, data = rows
    n, width, columns = offsets.shape[0] - 1, raw.shape[1], raw.shape[2]
    d = width - (constant != 0.0)
    most = 0
    for j in range(n):
        most = max(most, indptr[offsets[j + 1]] - indptr[offsets[j]])
    g, touched, last_seen_by = np.zeros((width, columns)), np.empty(most + 1, np.int64), np.full(width, -1)
    chunk_raw, chunk_unit = np.zeros_like(raw), np.zeros_like(unit)
    for first in range(lane * CHUNK, n, LANES * CHUNK):
        for j in range(first, min(n, first + CHUNK)):
            n_touched, squared = 0, 0.0
            if constant != 0.0:
                g[d], touched[0], n_touched = 0.0, d, 1
            for i in range(offsets[j], offsets[j + 1]):
                for at in range(indptr[i], indptr[i + 1]):
                    c = indices[at]
                    if last_seen_by[c] != j:
                        last_seen_by[c], touched[n_touched] = j, c
                        g[c] = 0.0
                        n_touched += 1
                    for a in range(columns):
                        g[c, a] += factors[i, a] * data[at]
                if constant != 0.0:
                    for a in range(columns):
                        g[d, a] += factors[i, a] * constant
            for t in range(n_touched):
                for a in range(columns):
                    squared += g[touched[t], a] * g[touched[t], a]
            b = bin_of(squared)
            counts[b] += weights[j]
            if b > 0:
                at, inverse_norm = min(max(b - lowest, 0), raw.shape[0] - 1), 1.0 / math.sqrt(squared)
                for t in range(n_touched):
                    for a in range(columns):
                        value = weights[j] * g[touched[t], a]
                        chunk_raw[at, touched[t], a] += value
                        chunk_unit[at, touched[t], a] += value * inverse_norm
        raw += chunk_raw
        unit += chunk_unit
        chunk_raw[:] = 0.0
        chunk_unit[:] = 0.0


@njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _sparse_sums(indptr, indices, data, d, offsets, factors, constant, weights, lowest, window):  # type: ignore[no-untyped-def]
    counts = np.zeros((LANES, N_BINS))
    raw = np.zeros((LANES, window, d + (constant != 0.0), factors.shape[1]))
    unit = np.zeros_like(raw)
    for lane in prange(LANES):
        rows = indptr, indices, data
        _sparse_lane(rows, offsets, factors, constant, weights, lowest, lane, counts[lane], raw[lane], unit[lane])
    return counts, raw, unit


def _read(block: Block, model: SharedModel, of_mean: bool, scaled: bool = True) -> tuple[np.ndarray, np.ndarray]:
    assert model.spread is not None
    products = row_products(block.X, np.column_stack([model.embedding, model.slopes]))
    labels = block.y.astype(np.float64, copy=False)
    L = prior_factor(model.spread)
    own = int(model.own_intercept)
    return _posteriors(products, labels, block.offsets, own, model.intercept, L, model.noise, of_mean, scaled)


@dataclass(frozen=True, eq=False)
class PosteriorGradients(Statistic[BinnedSums]):
    """Person j sends X_jᵀ(r v̂ᵀ − Z_j Cov(h, v)) k/(dof_j E‖v‖²): the gradient for the embedding, by the posterior of her part.

    ``of_mean``: X_jᵀr/dof_j, that for the shared mean, in place of it; with a ``constant``, an entry Σr·constant/dof_j for
    the intercept. dof_j are her rows less what her own part takes of them.
    """

    gives = BinnedSums
    takes_no_directions = True
    model: SharedModel
    of_mean: Flag
    constant: Number
    lowest: WindowStart

    def of(self, block: Block) -> BinnedSums:
        factors, _ = _read(block, self.model, self.of_mean)
        how = block.offsets, factors, float(self.constant), block.person_weights, self.lowest, WINDOW
        if block.sparse:
            X: Any = block.X.astype(np.float64, copy=False)
            counts, raw, unit = _sparse_sums(X.indptr, X.indices, X.data, X.shape[1], *how)
            raw, unit = (lanes.transpose(0, 1, 3, 2) for lanes in (raw, unit))
        else:
            counts, raw, unit = _dense_sums(block.X, *how)
        raw, unit = (np.ascontiguousarray(parts.sum(axis=0)) for parts in (raw, unit))
        return BinnedSums(counts.sum(axis=0), raw, unit, self.lowest, block.n_users)


@dataclass(frozen=True, eq=False)
class PosteriorMoments(Statistic[ConeSums]):
    """Σ_j of ξξᵀ, H and H² (by halves), 2e and 2: how far people's parts are from what the prior says.

    ξ is the posterior mean of person j's part in coordinates in which the prior is the identity, 1 − H its posterior covariance,
    e the mean square of her residuals against the noise. If prior and noise are right, Σ ξξᵀ = Σ H and Σ e = Σ 1.
    """

    gives = ConeSums
    takes_no_directions = True
    model: SharedModel

    @staticmethod
    def reach(size: int) -> float:
        """The norm that what a person sends is clipped to; a constant, given the size of her part."""
        return size + 1.5

    def of(self, block: Block) -> ConeSums:
        assert self.model.spread is not None
        moments, clip_norm = _read(block, self.model, True)[1], self.reach(len(self.model.spread))
        factors = clip_factors(squared_norms(moments), clip_norm) * block.person_weights
        finite = np.where(factors[:, None] > 0.0, moments, 0.0)
        chunks = (slice(start, start + CHUNK) for start in range(0, len(factors), CHUNK))
        return ConeSums(sum(factors[some] @ finite[some] for some in chunks), clip_norm, block.n_users)


@dataclass(frozen=True)
class LikelihoodSums:
    """What maximum likelihood needs of everybody, as it is: neither scaled nor clipped, and so of no use to private learners."""

    of_embedding: np.ndarray  # (d, k) gradient times s²
    of_mean: np.ndarray  # (d,)
    of_intercept: float
    moments: np.ndarray  # as PosteriorMoments gives them
    n_rows: int

    def __add__(self, other: "LikelihoodSums") -> "LikelihoodSums":
        return LikelihoodSums(
            self.of_embedding + other.of_embedding,
            self.of_mean + other.of_mean,
            self.of_intercept + other.of_intercept,
            self.moments + other.moments,
            self.n_rows + other.n_rows,
        )


@dataclass(frozen=True, eq=False)
class Likelihood(Statistic[LikelihoodSums]):
    """Gradients of the likelihood of everybody's labels, for baselines without privacy."""

    gives = LikelihoodSums
    takes_no_directions = True
    model: SharedModel

    def of(self, block: Block) -> LikelihoodSums:
        factors, moments = _read(block, self.model, False, scaled=False)
        residuals, _ = _read(block, self.model, True, scaled=False)
        with np.errstate(over="ignore", invalid="ignore"):
            usual = squared_norms(moments) < _WILD  # a person of wild numbers would be all there is
            rows = np.repeat(usual, np.diff(block.offsets))
            X, factors, residuals = block.X[rows], factors[rows], residuals[rows]
            sums = np.asarray(X.T @ factors), np.asarray(X.T @ residuals)[:, 0], float(residuals.sum())
        return LikelihoodSums(*sums, moments[usual].sum(axis=0), int(rows.sum()))
