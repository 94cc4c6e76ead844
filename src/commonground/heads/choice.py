"""What to keep: a head on the shared part, the shared part alone, or a model of one's own rows alone.

Each person tries all three on rows that she leaves out in turn (cross-validation). It reads nobody's rows but her own, so it is
free of budget. Few rows make such a comparison noisy, so there is one that she keeps unless another is *clearly* better: the
head, or, where the billboard says that sharing does not pay, her own model.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numba import njit, prange

from commonground.contributions.directions import solve_in_place
from commonground.heads.ridge import STRENGTHS, fit_heads, leave_one_out_ridge
from commonground.users import Block

FOLDS = 5  # row i is left out with every fifth row from it
FEWEST_ROWS = 5  # with fewer, differences have no standard error to speak of
CLEARLY = 8.0  # another must miss less by a factor of 1 + 8/√rows; see docs/real_data.md
DOUBTFUL = 10.0  # and by this factor more where sharing does not pay: what is shared is noise, and may fit by chance
HEAD, SHARED, OWN = 0, 1, 2

# A block's (people, k) heads and (people,) own intercepts.
HeadFitter = Callable[[Block], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, repr=False)
class OwnModels:
    """The coefficients of those who keep a model of their own rows. Private: each belongs to that person alone."""

    people: np.ndarray  # (q,) rising positions
    # (q, d + 1) in place of all that is shared: adding to it would lose digits where it is large. Intercept last.
    coef: np.ndarray

    def __repr__(self) -> str:
        return "<OwnModels: private>"

    @classmethod
    def nobody(cls, n_features: int) -> "OwnModels":
        return cls(np.empty(0, np.int64), np.empty((0, n_features + 1)))

    @classmethod
    def of_blocks(cls, parts: list[tuple[int, "OwnModels"]]) -> "OwnModels":
        """Together, given the position of each block's first person."""
        return cls(
            np.concatenate([first + part.people for first, part in parts]),
            np.concatenate([part.coef for _, part in parts]),
        )

    def predict_into(self, prediction: np.ndarray, X: np.ndarray, position: np.ndarray) -> None:
        """Answer the rows of those who have a model of their own by it; ``position`` says whose each row is."""
        if len(self.people):
            at = np.minimum(np.searchsorted(self.people, position), len(self.people) - 1)
            rows = np.flatnonzero(self.people[at] == position)
            mine = self.coef[at[rows]]
            prediction[rows] = (X[rows] * mine[:, :-1]).sum(axis=1) + mine[:, -1]


def keep_best(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool,
    fit: HeadFitter, usually: int, heads: np.ndarray, own_intercepts: np.ndarray,
) -> OwnModels:  # fmt: skip
    """Let everybody keep what serves her best, in ``heads`` and ``own_intercepts`` and in the models of their own returned."""
    kept = choose(block, embedding, mean, intercept, local_intercept, fit, usually)
    heads[kept != HEAD] = 0.0
    own_intercepts[kept != HEAD] = 0.0
    alone = np.flatnonzero(kept == OWN)
    theirs = np.isin(np.repeat(np.arange(block.n_users), np.diff(block.offsets)), alone)
    if not len(alone):
        return OwnModels.nobody(block.X.shape[1])
    offsets = np.concatenate([[0], np.cumsum(np.diff(block.offsets)[alone])])
    rows = replace(block, X=block.X[theirs], y=block.y[theirs], offsets=offsets, weights=None)
    coef, intercepts = fit_own(rows, local_intercept)
    return OwnModels(alone, np.column_stack([coef, intercepts]))


def fit_own(block: Block, local_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """(people, d) ridge coefficients and (people,) intercepts from each person's own rows alone."""
    return fit_heads(block, np.eye(block.X.shape[1]), None, 0.0, local_intercept)


@njit(parallel=True, cache=True, nogil=True)
def own_left_out(X, y, offsets, local_intercept, strengths):  # type: ignore[no-untyped-def]
    """What her own ridge model (of ``fit_own``'s strength) misses of rows it was not fitted on, fold by fold.

    Without refitting: with the hat matrix H, the rows F of a fold are missed by (I − H_FF)⁻¹ times their residuals.
    """
    missed = np.empty(y.shape[0])
    for j in prange(offsets.shape[0] - 1):
        lo, hi = offsets[j], offsets[j + 1]
        m, d = hi - lo, X.shape[1]
        A, r = X[lo:hi].astype(np.float64), y[lo:hi].astype(np.float64)
        if local_intercept:
            r -= r.mean()
            for c in range(d):
                A[:, c] -= A[:, c].mean()
        missed[lo:hi] = r
        dual = m <= d
        gram = A @ A.T if dual else A.T @ A
        mean_eigenvalue = np.trace(gram) / d
        if m - local_intercept < 2 or not (mean_eigenvalue > 0.0 and mean_eigenvalue < math.inf):
            continue
        eigenvalues, Q = np.linalg.eigh(gram)
        Q = np.ascontiguousarray(Q)
        eigenvalues = np.maximum(eigenvalues, 1e-13 * mean_eigenvalue)
        left = Q if dual else (A @ Q) / np.sqrt(eigenvalues)
        projected = left.T @ r
        dof = m - d - local_intercept
        if dof > 0:
            noise = max((r * r).sum() - (projected * projected).sum(), 0.0) / dof
            signal = (projected * projected / eigenvalues).sum()
            ridge = d * noise / signal if signal > 0.0 else mean_eigenvalue
        else:
            leverage = 1.0 / m if local_intercept else 0.0
            ridge = leave_one_out_ridge(left, eigenvalues, projected, r, leverage, strengths * mean_eigenvalue)
        kept = eigenvalues / (eigenvalues + ridge)
        r -= left @ (kept * projected)
        for out in range(min(FOLDS, m)):
            fold = left[out::FOLDS]
            size = fold.shape[0]
            remaining, solution = -((fold * kept) @ np.ascontiguousarray(fold.T)), r[out::FOLDS].copy()
            for i in range(size):
                remaining[i, i] += 1.0
                if local_intercept:
                    remaining[i] -= 1.0 / m
            if solve_in_place(remaining, solution):
                missed[lo + out : hi : FOLDS] = solution
    return missed


@np.errstate(over="ignore", invalid="ignore")  # who misses by an infinite or unknown amount keeps the usual
def choose(
    block: Block, embedding: np.ndarray, mean: np.ndarray | None, intercept: float, local_intercept: bool, fit: HeadFitter,
    usually: int,
) -> np.ndarray:  # fmt: skip
    """HEAD, SHARED or OWN for each person of the block; ``usually`` is what she keeps when nothing else is clearly better."""
    sizes = np.diff(block.offsets)
    person = np.repeat(np.arange(block.n_users), sizes)
    fold = (np.arange(block.n_rows) - block.offsets[person]) % FOLDS
    shared = intercept + (block.X @ mean if mean is not None else np.zeros(block.n_rows))
    missed = np.tile(block.y - shared, (3, 1)).astype(np.float64)
    missed[OWN] = own_left_out(block.X, block.y, block.offsets, int(local_intercept), STRENGTHS)
    for out in range(FOLDS):
        kept = fold != out
        n_kept = np.bincount(person[kept], minlength=block.n_users)
        fitted = n_kept > 0  # who has a single row keeps nothing of it
        offsets = np.concatenate([[0], np.cumsum(n_kept[fitted])])
        heads, own_intercepts = fit(replace(block, X=block.X[kept], y=block.y[kept], offsets=offsets, weights=None))
        asked = np.flatnonzero(~kept & fitted[person])
        who = (np.cumsum(fitted) - 1)[person[asked]]
        missed[HEAD, asked] -= ((block.X[asked] @ embedding) * heads[who]).sum(axis=1) + own_intercepts[who]
    errors = np.add.reduceat(missed**2, block.offsets[:-1], axis=1) / sizes  # (3, people)
    # The less, the fewer rows she judges by: the relative error of a mean square falls with their root.
    allowed = errors[usually] / (1.0 + CLEARLY / np.sqrt(sizes)) / (DOUBTFUL if usually == OWN else 1.0)
    errors[:, sizes < FEWEST_ROWS] = np.inf
    best = np.argmin(errors, axis=0)
    return np.where(errors[best, np.arange(block.n_users)] < allowed, best, usually)
