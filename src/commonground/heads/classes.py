"""Heads where labels are one of several classes: everybody's own class intercepts, and what she is told of each class.

An intercept for each contrast of classes (``statistics.classes``), the posterior mean given the board's spread: with no rows
it is nothing, and the shared scores answer; with many it is what her own labels say. A function of the billboard and of her own
rows, so it is free; a person with a label that is no class, or with numbers too large, keeps the shared scores. Of very many
rows her first are read (``statistics.classes.most_rows``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from commonground.compiled import kernel
from commonground.data.features import check_features
from commonground.data.schema import Schema
from commonground.data.users import Block
from commonground.statistics.classes import contrasts, first_rows
from commonground.statistics.kernels.chunks import over_chunks
from commonground.statistics.kernels.class_posterior import (
    are_classes,
    average_in_place,
    class_posterior_in_place,
    principal_root,
)
from commonground.statistics.kernels.posterior import prior_factor
from commonground.statistics.kernels.products import chunk_products, row_products

_PEOPLE = 2048  # that a thread takes at a time


@kernel(error_model="numpy")
def _fit(scores, y, offsets, B, L, parts, doubts):  # type: ignore[no-untyped-def]
    """Everybody's contrasts h = L ξ, and the lower half of their covariance row by row; the prior's without a usable row."""
    (n_classes, q), n, most = B.shape, offsets.shape[0] - 1, 0
    A = np.zeros((n_classes, q))
    for c in range(n_classes):
        for a in range(q):
            for b in range(a, q):
                A[c, a] += B[c, b] * L[b, a]
    for j in range(n):
        most = max(most, offsets[j + 1] - offsets[j])
    r, xi = np.empty((most, n_classes)), np.empty(q)
    factor, inverse = np.empty((q, q)), np.empty((q, q))
    for j in range(n):
        lo, m = offsets[j], offsets[j + 1] - offsets[j]
        mine = y[lo : lo + m]
        found = m > 0 and are_classes(mine, m, n_classes)
        if found:
            found = class_posterior_in_place(scores[lo : lo + m], mine, m, A, r, factor, inverse, xi)
            if found:
                average_in_place(scores[lo : lo + m], mine, m, A, inverse, xi, r)
        if not found:
            for a in range(q):
                xi[a] = 0.0
                for b in range(q):
                    inverse[a, b] = 1.0 if a == b else 0.0
        at = 0
        for a in range(q):
            parts[j, a] = 0.0
            for c in range(a + 1):
                parts[j, a] += L[a, c] * xi[c]
            for b in range(a + 1):
                doubts[j, at] = 0.0
                for c in range(a + 1):
                    for e in range(b + 1):
                        doubts[j, at] += L[a, c] * inverse[c, e] * L[b, e]
                at += 1


def fit_class_heads(block: Block, class_scores: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(people, K − 1) own contrasts, and (people, K(K − 1)/2) halves of their covariances."""
    B, L, q = contrasts(len(spread) + 1), prior_factor(spread), len(spread)
    columns, level = scores_by_class(class_scores)
    block = first_rows(block, q + 1)

    def of_chunk(some: Block) -> tuple[np.ndarray, np.ndarray]:
        found = np.empty((some.n_users, q)), np.empty((some.n_users, q * (q + 1) // 2))
        with np.errstate(over="ignore", invalid="ignore"):
            scores = chunk_products(some.X, columns) + level
        _fit(scores, some.y.astype(np.float64, copy=False), some.offsets, B, L, *found)
        return found

    parts, doubts = over_chunks(block, of_chunk, people=_PEOPLE, doubles=False, enlarge=False)
    return parts, doubts


@kernel(error_model="numpy")
def _log_probabilities(scores, position, parts, doubts, prior_doubt, B, answers):  # type: ignore[no-untyped-def]
    """Of each class, averaged over what is not known of her contrasts; by the prior where ``position`` is -1.

    The mean over 2 (K − 1) points that have the mean and the covariance of her contrasts (cubature of degree three): off by 0.02
    at most for strangers, where people differ much. Where scores are no numbers, all classes are alike.
    """
    n_classes, q = B.shape
    s, p, covariance, root = np.empty(n_classes), np.empty(n_classes), np.empty((q, q)), np.empty((q, q))
    last = -2
    for i in range(scores.shape[0]):
        j = position[i]
        if j != last:
            at = 0
            for a in range(q):
                for b in range(a + 1):
                    covariance[a, b] = prior_doubt[at] if j < 0 else doubts[j, at]
                    covariance[b, a] = covariance[a, b]
                    at += 1
            principal_root(covariance, root)
            last = j
        for c in range(n_classes):
            s[c], p[c] = scores[i, c], 0.0
            if j >= 0:
                for a in range(q):
                    s[c] += B[c, a] * parts[j, a]
        for point in range(2 * q):
            along, reach = point // 2, math.sqrt(float(q)) * (1.0 if point % 2 else -1.0)
            highest, total = -math.inf, 0.0
            for c in range(n_classes):
                answers[i, c] = s[c]
                for a in range(q):
                    answers[i, c] += reach * B[c, a] * root[a, along]
                highest = max(highest, answers[i, c])
            for c in range(n_classes):
                answers[i, c] = math.exp(answers[i, c] - highest)
                total += answers[i, c]
            for c in range(n_classes):
                p[c] += answers[i, c] / total / (2 * q)
        finite = True
        for c in range(n_classes):
            finite = finite and p[c] <= 2.0
        for c in range(n_classes):
            answers[i, c] = math.log(max(p[c], 1e-300)) if finite else -math.log(float(n_classes))


def class_log_probabilities(
    X: Any, class_scores: np.ndarray, spread: np.ndarray, position: np.ndarray, parts: np.ndarray, doubts: np.ndarray
) -> np.ndarray:
    """(rows, K) of each class, by each row's person, given her position; by the shared part where that is -1."""
    B = contrasts(len(spread) + 1)
    columns, level = scores_by_class(class_scores)
    with np.errstate(over="ignore", invalid="ignore"):
        scores = row_products(X, columns) + level
    answers, place = np.empty(scores.shape), np.ascontiguousarray(position, dtype=np.int64)
    half = np.ascontiguousarray(spread[np.tril_indices(len(spread))])
    _log_probabilities(scores, place, parts, doubts, half, B, answers)
    return answers


def scores_by_class(class_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(d, K) coefficients and (K,) intercepts of classes, of those of contrasts; both add up to nothing over classes."""
    B = contrasts(class_scores.shape[1] + 1)
    return class_scores[:-1] @ B.T, B @ class_scores[-1]


def spread_by_class(spread: np.ndarray) -> np.ndarray:
    """(K,) standard deviations of people's own intercepts of classes, given the covariance of contrasts."""
    B = contrasts(len(spread) + 1)
    return np.asarray(np.sqrt(np.maximum(np.diag(B @ spread @ B.T), 0.0)))


@dataclass(frozen=True)
class ClassHead:
    """One person's own model of several classes. Private: it belongs to that person alone."""

    weights: np.ndarray  # (K − 1,) own contrasts of classes
    classes: tuple[Any, ...]
    log_probabilities: Callable[[Any], np.ndarray]
    n_features: int
    schema: Schema | None = None  # the board's: rows are then given as the table has them
    intercept: float = 0.0  # of scores in common, which says nothing
    log_odds: bool = True
    feature_names: tuple[str, ...] | None = None  # the board's: by which columns of a frame are found

    def __repr__(self) -> str:
        return "<ClassHead: private>"

    def predict(self, X: Any) -> np.ndarray:
        """(rows, K) logarithms of each class's probability, by which ``classes`` compete."""
        X = check_features(X, self.n_features, self.feature_names) if self.schema is None else self.schema.encode(X)
        return self.log_probabilities(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(rows, K) probabilities of ``classes``."""
        return np.asarray(np.exp(self.predict(X)))
