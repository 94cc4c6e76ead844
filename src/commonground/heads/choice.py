"""What to keep: a head on the shared part, the shared part alone, or a model of one's own rows alone.

Each person tries all three on rows that she leaves out in turn (cross-validation). It reads nobody's rows but her own, so it is
free of budget. Few rows make such a comparison noisy, so there is one that she keeps unless another is *clearly* better: the
head, or, where the billboard says that sharing does not pay, her own model. Time and memory grow with her rows, not with
their square.
"""

import math

import numpy as np

from commonground.compiled import kernel
from commonground.data.users import Block
from commonground.heads.arithmetic import rescale
from commonground.heads.ridge import (
    STRENGTHS,
    back_to_scale,
    in_coordinates_of,
    ridge_in_place,
    seen_by_the_shared_part,
)
from commonground.heads.table import OwnModels
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.statistic import SharedModel

FOLDS = 5  # row i is left out with every fifth row from it
FEWEST_ROWS = 5  # with fewer, differences have no standard error to speak of
CLEARLY = 8.0  # another must miss less by a factor of 1 + 8/√rows; see docs/real_data.md
# The same beside posterior heads, for people with at least that many rows, and twice as many as features. With fewer rows,
# people who are well served by the shared directions are switched by chance too often.
CLEARLY_WITH_MANY_ROWS, MANY_ROWS = 2.0, 40
DOUBTFUL = 10.0  # and by this factor more where sharing does not pay: what is shared is noise, and may fit by chance
HEAD, SHARED, OWN = 0, 1, 2


def keep_best(
    block: Block,
    model: SharedModel,
    prior: np.ndarray | None,
    usually: int,
    heads: np.ndarray,
    own_intercepts: np.ndarray,
    fewest_rows: int = FEWEST_ROWS,
    with_few: int | None = None,
    clearly: float = CLEARLY,
) -> tuple[OwnModels, np.ndarray]:
    """Let everybody keep what serves her best, in ``heads`` and ``own_intercepts`` and in the models of their own returned.

    ``with_few``: what people with fewer than ``fewest_rows`` keep; None: what is usual. ``clearly``: a person with ``MANY_ROWS``
    keeps another that misses less by a factor of 1 + clearly/√rows. Also (people,) the mean square of what the kept model
    misses on rows left out: NaN where that is a head, infinite where it is too large for floats.
    """
    kept, missed = choose(block, model, prior, usually, fewest_rows, with_few, clearly)
    alone = np.flatnonzero(kept == OWN)

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray]:
        first, last = np.searchsorted(alone, [some.first - block.first, some.first - block.first + some.n_users])
        here = alone[first:last] - (some.first - block.first)
        return _fit_own(some.X, some.y, some.offsets, here, int(model.own_intercept), STRENGTHS)

    coef, finite = over_chunks(block, of_chunk)
    # A person whose numbers are too large for a model of her own is left with what is shared.
    heads[kept != HEAD] = 0.0
    own_intercepts[kept != HEAD] = 0.0
    missed[alone[~finite]] = math.inf
    missed[kept == HEAD] = math.nan
    return OwnModels(alone[finite], coef[finite]), missed


@kernel(error_model="numpy")
def _own_model(X, y, local_intercept, strengths, coef):  # type: ignore[no-untyped-def]
    """Ridge on her own rows alone: coefficients and, last, the intercept; returns whether all is finite."""
    A, r, d = X.astype(np.float64), y.astype(np.float64), X.shape[1]
    rows_exponent, rows_finite = rescale(A)
    labels_exponent, labels_finite = rescale(r)
    if not (rows_finite and labels_finite) or len(r) == 0:
        return False
    intercept, _ = ridge_in_place(A, r, local_intercept, -1.0, False, 0, strengths, coef[:d])
    coef[d], finite = back_to_scale(coef[:d], intercept, rows_exponent, labels_exponent)
    return finite


@kernel(error_model="numpy")
def _fit_own(X, y, offsets, people, local_intercept, strengths):  # type: ignore[no-untyped-def]
    coef, finite = np.zeros((people.shape[0], X.shape[1] + 1)), np.zeros(people.shape[0], np.bool_)
    for at in range(people.shape[0]):
        mine = slice(offsets[people[at]], offsets[people[at] + 1])
        finite[at] = _own_model(X[mine], y[mine], local_intercept, strengths, coef[at])
    return coef, finite


@kernel(error_model="numpy")
def _left_out(A, r, local_intercept, given, has_prior, exponent, strengths, missed):  # type: ignore[no-untyped-def]
    """What ridge models on rows A miss of r, each row by a model fitted without its fold. ``given``: see ``ridge_in_place``."""
    m, k = A.shape
    kept_rows, kept_labels, v = np.empty((m, k)), np.empty(m), np.empty(k)
    for out in range(FOLDS):
        n_kept = 0
        for i in range(m):
            if i % FOLDS != out:
                kept_rows[n_kept] = A[i]
                kept_labels[n_kept] = r[i]
                n_kept += 1
        intercept, _ = ridge_in_place(
            kept_rows[:n_kept], kept_labels[:n_kept], local_intercept, given, has_prior, exponent, strengths, v
        )
        for i in range(out, m, FOLDS):
            missed[i] = r[i] - intercept
            for c in range(k):
                missed[i] -= A[i, c] * v[c]


@kernel(error_model="numpy")
def own_left_out(A, r, local_intercept, strengths, missed):  # type: ignore[no-untyped-def]
    """The same for her own model, at the strength that all of her rows give."""
    v = np.empty(A.shape[1])
    _, strength = ridge_in_place(A.copy(), r.copy(), local_intercept, -1.0, False, 0, strengths, v)
    _left_out(A, r, local_intercept, strength, False, 0, strengths, missed)


@kernel(error_model="numpy")
def _mean_square(values, exponent):  # type: ignore[no-untyped-def]
    """Of values · 2^exponent; infinite where it is not a number."""
    total = 0.0
    for i in range(values.shape[0]):
        x = math.ldexp(values[i], exponent) if exponent != 0 else values[i]
        total += x * x
    total /= values.shape[0]
    return total if total < math.inf else math.inf


@kernel(error_model="numpy")
def _choose_one(X, y, U, w, intercepts, has_prior, strengths, usually, fewest_rows, clearly):  # type: ignore[no-untyped-def]
    """What she keeps, and the mean square of what it misses on rows left out; infinite where she has too few to tell."""
    m, k = X.shape[0], U.shape[1]
    if m < fewest_rows:
        return usually, math.inf
    shared_intercept, local_intercept = intercepts
    A, r, missed, errors = np.zeros((m, k)), np.empty(m), np.empty(m), np.full(3, math.inf)
    seen_by_the_shared_part(X, y, U, w, shared_intercept, A, r)
    rows_exponent, rows_finite = rescale(A)
    exponent, labels_finite = rescale(r)  # all three are compared in these units
    if labels_finite:
        errors[SHARED] = _mean_square(r, 0)
        if rows_finite:
            _left_out(A, r, local_intercept, -1.0, has_prior, rows_exponent, strengths, missed)
            errors[HEAD] = _mean_square(missed, 0)
    A, r = X.astype(np.float64), y.astype(np.float64)
    _, rows_finite = rescale(A)
    own_exponent, labels_finite = rescale(r)
    if rows_finite and labels_finite:
        own_left_out(A, r, local_intercept, strengths, missed)
        errors[OWN] = _mean_square(missed, own_exponent - exponent)
    best = HEAD
    for other in (SHARED, OWN):
        if errors[other] < errors[best]:
            best = other
    # The less, the fewer rows she judges by: the relative error of a mean square falls with their root.
    factor = clearly if m >= MANY_ROWS else CLEARLY
    allowed = errors[usually] / (1.0 + factor / math.sqrt(m)) / (DOUBTFUL if usually == OWN else 1.0)
    kept = best if errors[best] < allowed else usually
    return kept, math.ldexp(errors[kept], 2 * exponent)


@kernel(error_model="numpy")
def _choose(X, y, offsets, U, w, intercepts, has_prior, strengths, usually, fewest_rows, clearly):  # type: ignore[no-untyped-def]
    kept, missed = np.empty(offsets.shape[0] - 1, np.int64), np.empty(offsets.shape[0] - 1)
    for j in range(kept.shape[0]):
        mine = slice(offsets[j], offsets[j + 1])
        how = intercepts, has_prior, strengths, usually, fewest_rows, clearly
        kept[j], missed[j] = _choose_one(X[mine], y[mine], U, w, *how)
    return kept, missed


def choose(
    block: Block,
    model: SharedModel,
    prior: np.ndarray | None,
    usually: int,
    fewest_rows: int = FEWEST_ROWS,
    with_few: int | None = None,
    clearly: float = CLEARLY,
) -> tuple[np.ndarray, np.ndarray]:
    """HEAD, SHARED or OWN for each person of the block, and the mean square of what it misses on rows that she leaves out.

    ``usually`` is what she keeps when nothing else is clearly better.
    """
    w = np.ascontiguousarray(model.slopes, dtype=np.float64)
    U, _ = in_coordinates_of(prior, model.embedding)  # what a head predicts is the same in all coordinates
    intercepts = float(model.intercept), int(model.own_intercept)
    how = U, w, intercepts, prior is not None, STRENGTHS, usually, fewest_rows, clearly
    kept, missed = over_chunks(block, lambda some: _choose(some.X, some.y, some.offsets, *how))
    return (kept if with_few is None else np.where(np.diff(block.offsets) < fewest_rows, with_few, kept)), missed
