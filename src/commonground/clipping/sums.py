"""Clip each person, add up: the only place where a private sum gets its sensitivity.

A person's contribution is a vector (or matrix) whose size is not known in advance. People are sorted into bins of half
an octave by the norm of their contribution, on a fixed public grid from 2⁻⁶⁰ to 2⁶⁰, and for each bin the sum is kept
twice: as it is (``raw``) and with every contribution scaled to norm one (``unit``). A person who sends less than the grid
begins with sends nothing (``bin_of``). From that, the sum clipped at any bin edge C follows without reading the rows again:

    Σ_j min(1, C/‖g_j‖) g_j  =  Σ_{bins below C} raw  +  C · Σ_{bins above C} unit.

So one read of the rows serves both releases of a round: first the histogram of sizes, which (noised) chooses C, then the
sum clipped at that C.

A person may count less than others, w_j ≤ 1 (``Users.weighted``): her clipped contribution is multiplied by w_j in sums and
histograms alike, so replacing her moves each of them by w_j times the stated sensitivity, and she spends w_j times the
stated μ (``accounting.personal``).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from commonground.clipping.bounded import SCORE_UNIT, BoundedScores, BoundedSum, rounding_margin
from commonground.clipping.grid import CHUNK, N_BINS, bins_of, checked_edge, clip_factors, squared_norms
from commonground.compiled import kernel


@kernel(error_model="numpy")
def _add_by_size(contributions, raw, unit, part, unit_part, squared, bins, weights, lowest):  # type: ignore[no-untyped-def]
    """Chunk by chunk, so that small sums are added to small ones."""
    for first in range(0, bins.shape[0], CHUNK):
        for at in range(raw.shape[0]):
            for c in range(raw.shape[1]):
                part[at, c], unit_part[at, c] = 0.0, 0.0
        for j in range(first, min(first + CHUNK, bins.shape[0])):
            if bins[j] > 0:
                at, norm = min(max(bins[j] - lowest, 0), raw.shape[0] - 1), math.sqrt(squared[j])
                for c in range(raw.shape[1]):
                    value = weights[j] * contributions[j, c]
                    part[at, c] += value
                    unit_part[at, c] += value / norm
        for at in range(raw.shape[0]):
            for c in range(raw.shape[1]):
                raw[at, c] += part[at, c]
                unit[at, c] += unit_part[at, c]


@kernel(error_model="numpy")
def _add_upper_squares(u, sums):  # type: ignore[no-untyped-def]
    """sums += the upper half of Σ u uᵀ, four people at a time; their number is a multiple of four.

    A library would do it on threads of its own, which get in the way of those that it is called from.
    """
    d = u.shape[1]
    for j in range(0, u.shape[0], 4):
        for a in range(d):
            u0, u1, u2, u3 = u[j, a], u[j + 1, a], u[j + 2, a], u[j + 3, a]
            for c in range(a, d):
                sums[a, c] += (u0 * u[j, c] + u1 * u[j + 1, c]) + (u2 * u[j + 2, c] + u3 * u[j + 3, c])


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

    @classmethod
    def of(cls, bins: np.ndarray, weights: np.ndarray, n_bins: int = N_BINS) -> "SizeCounts":
        """From each person's bin."""
        return cls(np.bincount(bins, weights, minlength=n_bins))

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
    credits: np.ndarray | None = None  # (N_BINS,) where people count by less than their weight; None: they count by it

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
            None if self.credits is None or other.credits is None else self.credits + other.credits,
        )

    @property
    def counted(self) -> np.ndarray:
        """(N_BINS,) what histograms of sizes show: people by their credits, which are at most their weights."""
        return self.counts if self.credits is None else self.credits

    @classmethod
    def of(cls, contributions: np.ndarray, weights: np.ndarray, lowest: int, window: int) -> "BinnedSums":
        """Bin and add up (people, k, d) contributions that are already at hand."""
        squared = squared_norms(contributions)  # what is not finite lands in bin 0
        bins = bins_of(squared)
        raw = np.zeros((window, *contributions.shape[1:]))
        unit = np.zeros_like(raw)
        room = np.empty_like(raw), np.empty_like(raw)
        flat = (values.reshape(len(values), -1) for values in (contributions, raw, unit, *room))
        _add_by_size(*flat, squared, bins, weights, lowest)
        return cls(np.bincount(bins, weights, minlength=N_BINS), raw, unit, lowest, len(bins))

    @classmethod
    def of_chunks(cls, parts: tuple[np.ndarray, np.ndarray, np.ndarray], lowest: int, n_users: int) -> "BinnedSums":
        """From counts, raw and unit sums of each chunk of people, one chunk behind the other along the first axis."""
        counts, raw, unit = (part.sum(axis=0) for part in parts)
        return cls(counts, raw, unit, lowest, n_users)

    @property
    def total_weight(self) -> float:
        """How many people in full all people together count; public, as budgets and n are."""
        return float(self.counts.sum())

    def whole_histogram(self, name: str) -> BoundedSum:
        """How many people send contributions of which size, over the whole grid."""
        return SizeCounts(self.counted).bounded(name)

    def histogram(self, name: str) -> BoundedSum:
        """The same for the bins of the window only; a person outside of it does not count. √2 all the more."""
        return SizeCounts(self.counted[self.lowest : self.lowest + len(self.raw)]).bounded(name)

    def clipped_at(self, edge: int, name: str) -> BoundedSum:
        """The sum of the contributions, each clipped to the lower edge of bin ``edge``; replacing one moves it by 2C."""
        clip_norm, cut = checked_edge(edge, self.lowest, len(self.raw)), edge - self.lowest
        value = self.raw[:cut].sum(axis=0) + clip_norm * self.unit[cut:].sum(axis=0)
        return BoundedSum(value, 2.0 * clip_norm * (1.0 + rounding_margin(self.n_users)), name)


@dataclass(frozen=True, repr=False)
class ClippedSums:
    """A sum of contributions, each of norm at most ``clip_norm``; private.

    Those below differ in ``APART``, how far two contributions can be from each other in units of that norm, and in what is
    released: all numbers, or a symmetric matrix by its half.
    """

    value: np.ndarray
    clip_norm: float
    n_users: int
    APART: ClassVar[float] = 2.0  # replacing a contribution of norm at most C by another moves the sum by at most 2C
    SYMMETRIC: ClassVar[bool] = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __add__(self, other: Self) -> Self:
        assert self.clip_norm == other.clip_norm
        return type(self)(self.value + other.value, self.clip_norm, self.n_users + other.n_users)

    def bounded(self, name: str) -> BoundedSum:
        """The sum with what replacing a person can move it by: ``APART`` times the clip norm."""
        value = symmetric_half(self.value) if self.SYMMETRIC else self.value
        return BoundedSum(value, self.APART * self.clip_norm * (1.0 + rounding_margin(self.n_users)), name)


class SymmetricSums(ClippedSums):
    """Of symmetric matrices, by their Frobenius norm: their halves are as far apart as they are."""

    SYMMETRIC = True


class PositiveSums(SymmetricSums):
    """Of positive semi-definite matrices.

    ‖A − B‖² = ‖A‖² + ‖B‖² − 2 tr(AB) ≤ 2C², as tr(AB) ≥ 0 for positive A and B: √2·C instead of 2C. So between two z zᵀ with
    ‖z‖² ≤ C, and between two means of such matrices, too.
    """

    APART = math.sqrt(2.0)


class DirectionSums(PositiveSums):
    """Σ_j u_j u_jᵀ over people, for vectors of norm at most one: positive, and of trace at most one each."""

    @classmethod
    def of(cls, directions: np.ndarray, weights: np.ndarray) -> "DirectionSums":
        """Clip each row to norm one and add up the outer products, each times its person's weight."""
        factors = clip_factors(squared_norms(directions), 1.0)
        finite = np.where(factors[:, None] > 0.0, directions, 0.0)
        n, d = directions.shape
        inside, upper = np.zeros((-(-n // 4) * 4, d)), np.zeros((d, d))
        inside[:n] = finite * (factors * np.sqrt(weights))[:, None]
        for start in range(0, n, CHUNK):
            part = np.zeros((d, d))
            _add_upper_squares(inside[start : start + CHUNK], part)
            upper += part
        return cls(upper + np.triu(upper, 1).T, 1.0, n)


class ConeSums(ClippedSums):
    """Of vectors between any two of which the angle is at most a right one: ‖e − f‖² = ‖e‖² + ‖f‖² − 2⟨e,f⟩ ≤ 2C².

    So are vectors without negative entries, halves of positive matrices, and such vectors one behind the other.
    """

    APART = math.sqrt(2.0)


class FeatureShares(ConeSums):
    """Of vectors without negative entries."""

    @classmethod
    def of(cls, energies: Any, weights: np.ndarray) -> "FeatureShares":
        """Scale each row of a (people, d) csr_array of squares to norm one and add up, each times its person's weight."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            norms = np.sqrt(energies.power(2).sum(axis=1))
            factors = np.where((norms > 1e-100) & np.isfinite(norms), weights / norms, 0.0)
        energies.data[~np.isfinite(energies.data)] = 0.0
        chunks = (slice(start, start + CHUNK) for start in range(0, len(factors), CHUNK))
        return cls(sum(energies[some].T @ factors[some] for some in chunks), 1.0, len(factors))


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
