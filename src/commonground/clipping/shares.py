"""Sums of numbers between 0 and 1 that everybody has, and of how many have them; sums of everybody's distribution.

Whole numbers of 2⁻³⁰ add up without rounding, in any order, so a sum does not depend on how people were cut into blocks.
"""

import math
from dataclasses import dataclass

import numpy as np

from commonground.clipping.bounded import SCORE_UNIT, BoundedSum, rounding_margin


@dataclass(frozen=True, repr=False)
class ShareSums:
    """Σ_j w_j (t_j − ½, …) over people who take part, for m numbers t_j from 0 to 1 each, and Σ_j w_j; private.

    Numbers are taken about ½: who takes part is then as near to somebody who does not as to the farthest who does, and their
    count costs nothing (``bounded``).
    """

    units: np.ndarray  # (m + 1,) int64: sums, and how many take part, in units of 2⁻³⁰
    n_users: int

    def __repr__(self) -> str:
        return "<ShareSums: private>"

    def __add__(self, other: "ShareSums") -> "ShareSums":
        return ShareSums(self.units + other.units, self.n_users + other.n_users)

    @classmethod
    def of(cls, shares: np.ndarray, weights: np.ndarray) -> "ShareSums":
        """Of (people, m) numbers, each brought between 0 and 1; a person with one that is no number takes no part."""
        part = np.where(np.isnan(shares).any(axis=1), 0.0, weights)
        inside = np.clip(np.nan_to_num(shares, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        about_half = np.trunc((inside - 0.5) * SCORE_UNIT * part[:, None]).astype(np.int64)
        counted = np.trunc(SCORE_UNIT * part).astype(np.int64)
        return cls(np.append(about_half.sum(axis=0), counted.sum()), len(shares))

    @property
    def count_factor(self) -> float:
        """What the count is multiplied by in ``bounded``: √(3m)/2."""
        return math.sqrt(3.0 * (len(self.units) - 1)) / 2.0

    def bounded(self, name: str, n_public: int) -> BoundedSum:
        """The sums, and the count times √(3m)/2; replacing a person moves them by at most √m.

        ``n_public``: how many people there may be. Not how many sent something: the sensitivity is published, and who has
        something to send may be private.

        Two who take part differ by at most 1 in each of m numbers, and not in the count: √m. Somebody who takes no part sends
        zeros, and others are at most √(m · ½² + 3m/4) = √m away from that.
        """
        m = len(self.units) - 1
        value = self.units / SCORE_UNIT
        value[-1] *= self.count_factor
        return BoundedSum(value, math.sqrt(m) * (1.0 + rounding_margin(max(n_public, 1))), name)


@dataclass(frozen=True, repr=False)
class MassSums:
    """Σ_j w_j p_j over people, each a distribution of her own over some public cells (or nothing at all); private."""

    units: np.ndarray  # (cells,) int64, in units of 2⁻³⁰

    def __repr__(self) -> str:
        return "<MassSums: private>"

    def __add__(self, other: "MassSums") -> "MassSums":
        return MassSums(self.units + other.units)

    @classmethod
    def of(cls, masses: np.ndarray, weights: np.ndarray) -> "MassSums":
        """Of (people, cells) numbers from 0 to 2⁵³, such as counts of rows; a person's are divided by their sum, rounded down.

        Somebody with any other number sends nothing.
        """
        sane = np.where(((masses >= 0.0) & (masses <= 2.0**53)).all(axis=1, keepdims=True), masses, 0.0)
        totals = sane.sum(axis=1)
        part = weights / np.maximum(totals, 1.0)
        # A hair less, so that no rounding of the quotient brings anybody's sum above one.
        return cls(np.floor(sane * (part * SCORE_UNIT * (1.0 - 1e-12))[:, None]).astype(np.int64).sum(axis=0))

    def bounded(self, name: str) -> BoundedSum:
        """‖p − q‖² ≤ ‖p‖² + ‖q‖² ≤ 2, as neither has an entry below zero and neither's sum is above one: √2."""
        return BoundedSum(self.units / SCORE_UNIT, math.sqrt(2.0) * (1.0 + 1e-9), name)
