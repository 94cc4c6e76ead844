"""Clip each person, add up: the only place where a private sum gets its sensitivity.

A person's contribution is a vector (or matrix) whose size is not known in advance. People are sorted into bins of half
an octave by the norm of their contribution, on a fixed public grid from 2⁻⁶⁰ to 2⁶⁰, and for each bin the sum is kept
twice: as it is (``raw``) and with every contribution scaled to norm one (``unit``). Who sends less than the grid begins with
sends nothing (``bin_of``). From that, the sum clipped at any bin edge C follows without reading the rows again:

    Σ_j min(1, C/‖g_j‖) g_j  =  Σ_{bins below C} raw  +  C · Σ_{bins above C} unit.

So one read of the rows serves both releases of a round: first the histogram of sizes, which (noised) chooses C, then the
sum clipped at that C.

A person may count less than others, w_j ≤ 1 (``Users.weighted``): her clipped contribution is multiplied by w_j in sums and
histograms alike, so replacing her moves each of them by w_j times the stated sensitivity, and she spends w_j times the
stated μ (``accounting.personal``).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numba import njit

N_BINS = 242  # bin 0: nothing to contribute; 1 … 241: squared norms by power of two
LOWEST_EXPONENT = -120  # of the squared norm
SQUARED_EDGES = 2.0 ** (LOWEST_EXPONENT + np.arange(N_BINS - 1))  # the squared norms at which bins 1 … 241 begin
_LEAST_SQUARE = float(SQUARED_EDGES[0])
SMALLEST, LARGEST = 1e-60, 1e60  # squares within these bounds can be multiplied in any order at full precision
CHUNK = 2048  # people added up together before their sum is added to the others'


@njit(inline="always")
def bin_of(squared_norm):  # type: ignore[no-untyped-def]
    """The bin of a squared norm, on the processor as on a device (``engines.device.size_bins``): the last edge not above it.

    Half an octave of the norm is an octave of its square: the exponent of a float, no logarithm needed. Below the first edge
    there is only bin 0: squares of very small numbers are denormal, so their sum may be a tenth of the true one, and what is
    divided by its root not of norm one but of three.
    """
    if not squared_norm >= _LEAST_SQUARE or squared_norm == math.inf:  # NaN, too, lands here
        return 0
    exponent = math.frexp(squared_norm)[1] - 1
    return min(exponent - LOWEST_EXPONENT, N_BINS - 2) + 1


@njit(cache=True)
def bins_of(squared_norms):  # type: ignore[no-untyped-def]
    bins = np.empty(squared_norms.shape[0], np.int64)
    for j in range(squared_norms.shape[0]):
        bins[j] = bin_of(squared_norms[j])
    return bins


def squared_norms(contributions: np.ndarray) -> np.ndarray:
    """‖g_j‖² of each of (people, …) contributions; inf or NaN where that is not a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.square(contributions).sum(axis=tuple(range(1, contributions.ndim)))


def squared_norms_of_products(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """‖a_j b_jᵀ‖² = ‖a_j‖²‖b_j‖² of (people, …) a and b; NaN where a factor is too small or too large to be precise."""
    squares = squared_norms(one), squared_norms(other)
    proper = [(s > SMALLEST) & (s < LARGEST) for s in squares]
    return np.where(
        proper[0] & proper[1], np.where(proper[0], squares[0], 1.0) * np.where(proper[1], squares[1], 1.0), np.nan
    )


def lower_edge(bin_index: float) -> float:
    """The norm at which a bin begins: every contribution in the bins before has at most this norm.

    >>> lower_edge(121), lower_edge(123)
    (1.0, 2.0)
    """
    return 2.0 ** ((bin_index - 1 + LOWEST_EXPONENT) / 2)


@dataclass(frozen=True, repr=False)
class BoundedSum:
    """A private sum over people and the most that replacing one person can move it (L2).

    It may not be printed, logged or saved: only ``gate.release`` turns it into something public. ``relation`` is another one
    only in sums over a random sample, for ``gate.SampledReleases``.
    """

    value: np.ndarray
    sensitivity: float
    name: str
    relation: str = "replace-one"

    def __repr__(self) -> str:
        return f"<BoundedSum {self.name!r}: private, sensitivity {self.sensitivity:.6g}>"

    def in_units_of(self, unit: float) -> "BoundedSum":
        """The same sum, counted in a public unit."""
        return replace(self, value=self.value / unit, sensitivity=self.sensitivity / unit)


def rounding_margin(n_users: int) -> float:
    """Relative room for floating-point addition, which does not commute.

    Replacing one person can change the rounding of every partial sum after her. Sums are taken in chunks of CHUNK people,
    over the chunks of a block, over the blocks of a partition as a tree and over partitions as another one (``engines``), so an
    entry passes through at most CHUNK + n/CHUNK + 64 additions, each wrong by at most 2⁻⁵³ of a partial sum of norm at most
    n·C, for both neighbours, wherever people are. The 1e-9 covers the rounding inside one contribution.
    """
    return 1e-9 + 2.0**-52 * n_users * (CHUNK + n_users / CHUNK + 64)


SCORE_UNIT = 2**30  # what a score of one is counted as


@njit(inline="always")
def score_units(score, weight):  # type: ignore[no-untyped-def]
    """A score between 0 and 1 of a person who counts ``weight``, as a whole number.

    Larger scores and what is not a number count 1, negative ones 0; then the weight, rounded down.
    """
    units = SCORE_UNIT if not score < 1.0 else round(score * SCORE_UNIT) if score > 0.0 else 0  # NaN is not below 1
    return math.floor(units * weight)


@dataclass(frozen=True, repr=False)
class BoundedScores:
    """For each of some candidates the sum of people's losses, in whole units; the smallest is the best. Private.

    It may not be printed, logged or saved: only ``gate.select`` turns it into something public.
    """

    value: np.ndarray  # (candidates,) int64
    sensitivity: int  # the most by which replacing one person can move any entry
    name: str

    def __repr__(self) -> str:
        return f"<BoundedScores {self.name!r}: private, sensitivity {self.sensitivity}>"


@dataclass(frozen=True, repr=False)
class ScoreSums:
    """Σ_j score_j(candidate) over people, for scores between 0 and 1, in units of 2⁻³⁰; private.

    Whole numbers add without rounding, in any order: the sensitivity is exactly one score, and the sum does not depend
    on how people were cut into blocks. An int64 holds the scores of 2³³ people.
    """

    value: np.ndarray  # (candidates,) int64

    def __repr__(self) -> str:
        return "<ScoreSums: private>"

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(self.value + other.value)

    def bounded(self, name: str) -> BoundedScores:
        """A person adds 0 to 1 to each candidate, so her replacement moves each by at most 1."""
        return BoundedScores(self.value, SCORE_UNIT, name)


@dataclass(frozen=True, repr=False)
class SizeCounts:
    """How many people fall in each of some bins of the public grid, each counting her weight; private.

    Weights are multiples of 2⁻²⁰, so that adding them up is exact.
    """

    counts: np.ndarray  # (bins,)

    def __repr__(self) -> str:
        return "<SizeCounts: private>"

    def __add__(self, other: "SizeCounts") -> "SizeCounts":
        return SizeCounts(self.counts + other.counts)

    def bounded(self, name: str) -> BoundedSum:
        """Replacing a person takes one from a bin and adds one to another: √2."""
        return BoundedSum(np.asarray(self.counts, dtype=np.float64), math.sqrt(2.0), name)


@dataclass(frozen=True, repr=False)
class BinnedSums:
    """Sums over people kept apart by the size of the contribution; private, like the BoundedSums made from it."""

    counts: np.ndarray  # (N_BINS,) people per bin, each counting her weight
    raw: np.ndarray  # (window, k, d) sums of the contributions of the people in a bin of the window
    unit: np.ndarray  # (window, k, d) the same, every contribution scaled to norm one
    lowest: int  # first bin of the window; smaller contributions are in the window's first bin, larger in its last
    n_users: int

    def __repr__(self) -> str:
        return "<BinnedSums: private>"

    def __add__(self, other: "BinnedSums") -> "BinnedSums":
        assert self.lowest == other.lowest
        return BinnedSums(
            self.counts + other.counts,
            self.raw + other.raw,
            self.unit + other.unit,
            self.lowest,
            self.n_users + other.n_users,
        )

    @classmethod
    def of(cls, contributions: np.ndarray, weights: np.ndarray, lowest: int, window: int) -> "BinnedSums":
        """Bin and add up (people, k, d) contributions that are already at hand."""
        squared = squared_norms(contributions)  # what is not finite lands in bin 0
        bins = bins_of(squared)
        norms = np.sqrt(np.where(bins > 0, squared, 1.0))[:, None, None]
        raw = np.zeros((window, *contributions.shape[1:]))
        unit = np.zeros_like(raw)
        at = np.clip(bins - lowest, 0, window - 1)
        for start in range(0, len(bins), CHUNK):
            people = np.arange(start, min(start + CHUNK, len(bins)))
            people = people[bins[people] > 0]
            weighted = weights[people, None, None] * contributions[people]
            for to, values in ((raw, weighted), (unit, weighted / norms[people])):
                part = np.zeros_like(to)
                np.add.at(part, at[people], values)
                to += part
        return cls(np.bincount(bins, weights, minlength=N_BINS), raw, unit, lowest, len(bins))

    @property
    def total_weight(self) -> float:
        """How many people in full all people together count; public, as budgets and n are."""
        return float(self.counts.sum())

    def whole_histogram(self, name: str) -> BoundedSum:
        """How many people send contributions of which size, over the whole grid."""
        return SizeCounts(self.counts).bounded(name)

    def histogram(self, name: str) -> BoundedSum:
        """The same for the bins of the window only; a person outside of it does not count. √2 all the more."""
        return SizeCounts(self.counts[self.lowest : self.lowest + len(self.raw)]).bounded(name)

    def clipped_at(self, edge: int, name: str) -> BoundedSum:
        """The sum of the contributions, each clipped to the lower edge of bin ``edge``; replacing one moves it by 2C."""
        clip_norm, cut = checked_edge(edge, self.lowest, len(self.raw)), edge - self.lowest
        value = self.raw[:cut].sum(axis=0) + clip_norm * self.unit[cut:].sum(axis=0)
        return BoundedSum(value, 2.0 * clip_norm * (1.0 + rounding_margin(self.n_users)), name)


def checked_edge(edge: int, lowest: int, window: int) -> float:
    """The norm at bin ``edge``, to which sums can be clipped: one that the window of bins from ``lowest`` can tell apart.

    The last bin has no upper end, and so has a bin behind it: nothing is clipped to where the grid ends.
    """
    if not (lowest < edge < lowest + window and 1 <= edge < N_BINS):
        raise ValueError(
            f"edge {edge} is outside the window of {window} bins from {lowest} or of the grid of {N_BINS} bins"
        )
    return lower_edge(edge)


def clip_factors(squared_norms: np.ndarray, clip_norm: float) -> np.ndarray:
    """What each contribution is multiplied by so that its norm is at most ``clip_norm``; zero in bin 0: see ``bin_of``.

    >>> clip_factors(np.array([0.25, 16.0, 1e-300, np.inf, np.nan]), clip_norm=2.0).tolist()
    [1.0, 0.5, 0.0, 0.0, 0.0]
    """
    sends = bins_of(squared_norms) > 0
    return np.where(sends, np.minimum(1.0, clip_norm / np.sqrt(np.where(sends, squared_norms, 1.0))), 0.0)


@dataclass(frozen=True, repr=False)
class ClippedSums:
    """A sum of contributions that were multiplied by their ``clip_factors``; private."""

    value: np.ndarray
    clip_norm: float
    n_users: int

    def __repr__(self) -> str:
        return "<ClippedSums: private>"

    def __add__(self, other: "ClippedSums") -> "ClippedSums":
        assert self.clip_norm == other.clip_norm
        return ClippedSums(self.value + other.value, self.clip_norm, self.n_users + other.n_users)

    def bounded(self, name: str) -> BoundedSum:
        """Replacing a contribution of norm at most C by another moves the sum by at most 2C."""
        return BoundedSum(self.value, 2.0 * self.clip_norm * (1.0 + rounding_margin(self.n_users)), name)


@dataclass(frozen=True, repr=False)
class DirectionSums:
    """Σ_j u_j u_jᵀ over people, for vectors of norm at most one; private."""

    second_moment: np.ndarray  # (d, d)
    n_users: int

    def __repr__(self) -> str:
        return "<DirectionSums: private>"

    def __add__(self, other: "DirectionSums") -> "DirectionSums":
        return DirectionSums(self.second_moment + other.second_moment, self.n_users + other.n_users)

    @classmethod
    def of(cls, directions: np.ndarray, weights: np.ndarray) -> "DirectionSums":
        """Clip each row to norm one and add up the outer products, each times its person's weight."""
        factors = clip_factors(squared_norms(directions), 1.0)
        finite = np.where(factors[:, None] > 0.0, directions, 0.0)
        inside = finite * (factors * np.sqrt(weights))[:, None]
        chunks = (inside[start : start + CHUNK] for start in range(0, len(inside), CHUNK))
        return cls(sum(chunk.T @ chunk for chunk in chunks), len(inside))

    def bounded(self, name: str) -> BoundedSum:
        """‖uuᵀ − wwᵀ‖² = ‖u‖⁴ + ‖w‖⁴ − 2⟨u,w⟩² ≤ 2: replacing a person moves the sum by √2, whatever she sends."""
        return BoundedSum(
            symmetric_half(self.second_moment), math.sqrt(2.0) * (1.0 + rounding_margin(self.n_users)), name
        )


@dataclass(frozen=True, repr=False)
class FeatureShares:
    """Σ_j e_j over people, for vectors without negative entries and of norm at most one; private."""

    value: np.ndarray  # (d,)
    n_users: int

    def __repr__(self) -> str:
        return "<FeatureShares: private>"

    def __add__(self, other: "FeatureShares") -> "FeatureShares":
        return FeatureShares(self.value + other.value, self.n_users + other.n_users)

    @classmethod
    def of(cls, energies: Any, weights: np.ndarray) -> "FeatureShares":
        """Scale each row of a (people, d) csr_array of squares to norm one and add up, each times its person's weight."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            norms = np.sqrt(energies.power(2).sum(axis=1))
            factors = np.where((norms > 1e-100) & np.isfinite(norms), weights / norms, 0.0)
        energies.data[~np.isfinite(energies.data)] = 0.0
        chunks = (slice(start, start + CHUNK) for start in range(0, len(factors), CHUNK))
        return cls(sum(energies[some].T @ factors[some] for some in chunks), len(factors))

    def bounded(self, name: str) -> BoundedSum:
        """‖e − f‖² = ‖e‖² + ‖f‖² − 2⟨e,f⟩ ≤ 2, as ⟨e,f⟩ ≥ 0 where no entry is negative: √2, whatever she has."""
        return BoundedSum(self.value, math.sqrt(2.0) * (1.0 + rounding_margin(self.n_users)), name)


@dataclass(frozen=True, repr=False)
class SymmetricSums:
    """A sum of symmetric matrices, each of Frobenius norm at most ``clip_norm``; private."""

    value: np.ndarray  # (p, p)
    clip_norm: float
    n_users: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __add__(self, other: Self) -> Self:
        assert self.clip_norm == other.clip_norm
        return type(self)(self.value + other.value, self.clip_norm, self.n_users + other.n_users)

    def bounded(self, name: str) -> BoundedSum:
        """Replacing a matrix of norm at most C by another moves the sum by at most 2C, and so its symmetric half."""
        return BoundedSum(
            symmetric_half(self.value), 2.0 * self.clip_norm * (1.0 + rounding_margin(self.n_users)), name
        )


class PositiveSums(SymmetricSums):
    """The same for positive semi-definite matrices."""

    def bounded(self, name: str) -> BoundedSum:
        """‖A − B‖² = ‖A‖² + ‖B‖² − 2 tr(AB) ≤ 2C², as tr(AB) ≥ 0 for positive A and B: √2·C instead of 2C."""
        margin = 1.0 + rounding_margin(self.n_users)
        return BoundedSum(symmetric_half(self.value), math.sqrt(2.0) * self.clip_norm * margin, name)


@dataclass(frozen=True, repr=False)
class MomentSums:
    """Σ_j w_j · mean_i z_ij z_ijᵀ over people, for rows z with ‖z‖² at most ``squared_radius``; private."""

    value: np.ndarray  # (p, p)
    squared_radius: float
    n_users: int

    def __repr__(self) -> str:
        return "<MomentSums: private>"

    def __add__(self, other: "MomentSums") -> "MomentSums":
        assert self.squared_radius == other.squared_radius
        return MomentSums(self.value + other.value, self.squared_radius, self.n_users + other.n_users)

    def bounded(self, name: str) -> BoundedSum:
        """As for ``DirectionSums``: √2 r² between two z zᵀ with ‖z‖ ≤ r, so between two means of such matrices, too."""
        return BoundedSum(
            symmetric_half(self.value),
            math.sqrt(2.0) * self.squared_radius * (1.0 + rounding_margin(self.n_users)),
            name,
        )

    def bounded_ridge(self, alpha: float, total_weight: float, radius: float, name: str) -> BoundedSum:
        """The ridge coefficients themselves, z = (x, y) with x in [0, 1]^d and |y| ≤ 1 (P3, Theorems 2.1 and 2.3).

        θ minimises Σ_j w_j mean_i (y − θᵀx)² / total_weight + α‖θ‖² over ‖θ‖ ≤ radius. ``total_weight`` is public: it does not
        depend on who was drawn. A person's gradient at such a θ is at most 2√d(1 + √d·radius), hers is replaced by another's,
        and the objective is 2α-strongly convex: θ moves by at most 4√d(1 + √d·radius) / (2α·total_weight). Twice the margin:
        the solver's rounding, about 50 · 2⁻⁵³ · (1 + d/α) of θ, is below that of the sums.
        """
        assert radius > 0
        d = len(self.value) - 1
        theta = ridge_in_ball(self.value[:d, :d] / total_weight, self.value[:d, d] / total_weight, alpha, radius)
        sensitivity = ridge_sensitivity(d, alpha, total_weight, radius)
        return BoundedSum(theta, sensitivity * (1.0 + 2.0 * rounding_margin(self.n_users)), name)


def ridge_sensitivity(d: int, alpha: float, total_weight: float, radius: float) -> float:
    return 2.0 * math.sqrt(d) * (1.0 + math.sqrt(d) * radius) / (alpha * total_weight)


def ridge_in_ball(gram: np.ndarray, rhs: np.ndarray, alpha: float, radius: float) -> np.ndarray:
    """argmin θᵀ gram θ − 2 rhsᵀθ + α‖θ‖² over ‖θ‖ ≤ radius.

    >>> ridge_in_ball(np.eye(2), np.array([3.0, 4.0]), alpha=0.0, radius=1.0).round(6).tolist()
    [0.6, 0.8]
    """
    eigenvalues, vectors = np.linalg.eigh(gram)
    eigenvalues, along = np.maximum(eigenvalues, 0.0) + alpha, vectors.T @ rhs
    low, high = 0.0, float(np.linalg.norm(rhs)) / radius  # the constraint's multiplier
    if np.linalg.norm(along / eigenvalues) <= radius:
        high = 0.0
    while high - low > 1e-15 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if np.linalg.norm(along / (eigenvalues + middle)) > radius else (low, middle)
    return vectors @ (along / (eigenvalues + high))


def symmetric_half(matrix: np.ndarray) -> np.ndarray:
    """The upper triangle with off-diagonals × √2: a vector with the matrix's Frobenius norm.

    >>> float(np.linalg.norm(symmetric_half(np.array([[1.0, 2.0], [2.0, 3.0]])))) == float(np.sqrt(18.0))
    True
    """
    rows, columns = np.triu_indices(len(matrix))
    return matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0))


def from_symmetric_half(half: np.ndarray, d: int) -> np.ndarray:
    """The inverse of ``symmetric_half``."""
    rows, columns = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[rows, columns] = half / np.where(rows == columns, 1.0, math.sqrt(2.0))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


# Room for 32-bit arithmetic in the gradients of the *others*, whose last bits may change with their place in a batch when one
# more record is there: 2⁻¹⁰ of a clip norm for all of them together. Tests find no change at all.
SINGLE_PRECISION_MARGIN = 2.0**-10


@dataclass(frozen=True, repr=False)
class SampledSum:
    """The sum over a random sample of units, each contribution clipped to norm at most ``clip_norm``; private."""

    value: np.ndarray  # float64
    clip_norm: float

    def __repr__(self) -> str:
        return "<SampledSum: private>"

    @staticmethod
    def contribution(clip_norm: float) -> float:
        """The most that one unit's presence moves the sum; rounding included."""
        return clip_norm * (1.0 + SINGLE_PRECISION_MARGIN)

    def bounded(self, name: str, relation: str) -> BoundedSum:
        """A unit that is there or missing moves the sum by C, one replaced by another by 2C."""
        times = {"add-or-remove-one": 1.0, "replace-one": 2.0}[relation]
        return BoundedSum(self.value, times * self.contribution(self.clip_norm), name, relation)
