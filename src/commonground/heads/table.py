"""Heads of one person and of many, and what they answer: one place that says whose a row of numbers is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from commonground.data.features import check_features
from commonground.data.population import Population
from commonground.data.schema import Schema
from commonground.errors import InputError
from commonground.heads.arithmetic import coefficients, row_scores, shared_scores
from commonground.heads.classes import ClassHead, class_log_probabilities
from commonground.heads.posterior import prediction_variances
from commonground.statistics.answers import averaged
from commonground.statistics.statistic import SharedModel

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard


@dataclass(frozen=True)
class Head:
    """One person's own model x → <coef, x> + intercept. Private: it belongs to that person alone."""

    coef: np.ndarray  # (d,) the shared mean plus embedding · own coefficients
    intercept: float
    weights: np.ndarray  # (k,) own coefficients on the embedding
    schema: Schema | None = None  # the board's: rows are then given as the table has them, and answers stay in range
    log_odds: bool = False  # these have no range
    feature_names: tuple[str, ...] | None = None  # the board's: by which columns of a frame are found
    std_of: Callable[[Any], np.ndarray] | None = None  # of fresh labels of rows; None where a head does not know

    def __repr__(self) -> str:
        return "<Head: private>"

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Her labels for rows X; with ``return_std`` also the standard deviation of each about its prediction."""
        X = self._features(X)
        answers = shared_scores(X, self.coef, self.intercept)
        if self.schema is not None and not self.log_odds:
            answers = self.schema.in_label_range(answers)
        if not return_std:
            return answers
        if self.std_of is None:
            raise InputError(
                "this head is not a posterior, and does not know how far off it may be. Leave return_std out."
            )
        return answers, self.std_of(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(rows, 2) probabilities of no and yes, where the head is about log-odds."""
        if not self.log_odds:
            raise InputError("this head predicts numbers, which have no probabilities. Use predict.")
        log_odds = self.predict(X)
        return probabilities(
            log_odds, np.zeros(len(log_odds)) if self.std_of is None else self.std_of(self._features(X))
        )

    def interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """(rows, 2) lower and upper ends between which a fresh label lies with this probability."""
        answers, std = self.predict(X, return_std=True)
        return interval_of(answers, std, level)

    def _features(self, X: Any) -> Any:
        if self.schema is not None:
            return self.schema.encode(X)
        return check_features(X, len(self.coef), self.feature_names)


def interval_of(answers: np.ndarray, std: np.ndarray, level: float) -> np.ndarray:
    """(rows, 2) ends of the interval in which a normal label of this mean and standard deviation lies with this probability.

    >>> interval_of(np.array([0.0]), np.array([1.0]), 0.9).round(3).tolist()
    [[-1.645, 1.645]]
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"the level of an interval must be between 0 and 1, got {level!r}.")
    reach = NormalDist().inv_cdf(0.5 + level / 2) * std
    return np.column_stack([answers - reach, answers + reach])


def probabilities(log_odds: np.ndarray, std: np.ndarray) -> np.ndarray:
    """(rows, 2) of no and yes, for log-odds of this mean and standard deviation (the average over them, to 1 %).

    >>> probabilities(np.array([2.0, 2.0]), np.array([0.0, 2.0])).round(3).tolist()
    [[0.119, 0.881], [0.223, 0.777]]
    """
    yes = 1.0 / (1.0 + np.exp(-np.clip(averaged(log_odds, std**2), -700, 700)))
    return np.column_stack([1.0 - yes, yes])


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

    def of(self, position: np.ndarray) -> np.ndarray:
        """For each person, given by her position, which of these models is hers; -1: none."""
        if not len(self.people):
            return np.full(len(position), -1)
        at = np.minimum(np.searchsorted(self.people, position), len(self.people) - 1)
        return np.where(self.people[at] == position, at, -1)


@dataclass(frozen=True, repr=False)
class Doubts:
    """What is not known of people's own parts: the covariances of their errors. Private, as they are."""

    # (n, q(q + 1)/2) lower halves, row by row; intercept first, where people have one. Zero for people who keep something else:
    # what is not known of that is in her noise.
    covariances: np.ndarray
    noises: np.ndarray  # (n,) variance of her labels about her model

    def __repr__(self) -> str:
        return "<Doubts: private>"

    @classmethod
    def of_blocks(cls, parts: "list[Doubts]") -> "Doubts":
        return cls(
            np.concatenate([part.covariances for part in parts]), np.concatenate([part.noises for part in parts])
        )


@dataclass(frozen=True, repr=False, eq=False)
class HeadTable:
    """Everybody's head on one billboard; row j belongs to person j alone.

    NumPy takes it for its ``weights``: ``np.asarray(table)``, ``len``, ``shape`` and indexing are those of the (n, k) array.

    Attributes
    ----------
    weights : ndarray of shape (n, k)
        Own coefficients on the embedding; zero for those who keep something else. Where there are several classes, own
        contrasts of them.
    intercepts : ndarray of shape (n,)
        On top of the shared intercept.
    own : OwnModels
        Of those who do better alone.
    doubts : Doubts or None, default=None
        What is not known of heads, where they are posteriors.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    own: OwnModels
    doubts: Doubts | None = None

    def __repr__(self) -> str:
        return "<HeadTable: private>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.weights, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, rows: Any) -> Any:
        return self.weights[rows]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @classmethod
    def fit(cls, board: "Billboard", users: Population) -> "HeadTable":
        """A head for each person from her own rows, or what serves her better, of the kind that the board names."""
        weights, intercepts = np.empty((users.n_users, board.head_size)), np.empty(users.n_users)
        alone, doubts = [], []
        # Also people who take no part.
        everybody = users if users.weights is None else users.weighted(np.ones(users.n_users))
        for block in everybody.blocks():
            here, heads = slice(block.first, block.first + block.n_users), board.head_kind.fit(block, board)
            weights[here], intercepts[here] = heads.weights, heads.intercepts
            alone.append((block.first, heads.own))
            if heads.doubts is not None:
                doubts.append(heads.doubts)
        return cls(weights, intercepts, OwnModels.of_blocks(alone), Doubts.of_blocks(doubts) if doubts else None)

    @classmethod
    def nobody(cls, board: "Billboard") -> "HeadTable":
        """Without anybody: all rows are answered by the shared part."""
        size = 0 if board.spread is None else len(board.spread)
        doubts = None if board.spread is None else Doubts(np.zeros((0, size * (size + 1) // 2)), np.zeros(0))
        return cls(np.zeros((0, board.head_size)), np.zeros(0), OwnModels.nobody(board.n_features), doubts)

    def predict(self, board: "Billboard", X: Any, position: np.ndarray) -> np.ndarray:
        """Each row by its person's own model, given her position; by the shared part where that is -1.

        Where there are several classes: (rows, classes) logarithms of their probabilities.
        """
        if board.class_scores is not None:
            assert self.doubts is not None
            assert board.spread is not None
            how = self.weights, self.doubts.covariances
            return class_log_probabilities(X, board.class_scores, board.spread, position, *how)
        own_of = self.own.of(position)
        scores = row_scores(X, board.mean, board.embedding, self.weights, position, self.own.coef[:, :-1], own_of)
        intercepts = np.full(len(scores), float(board.intercept))
        known, alone = position >= 0, own_of >= 0
        with np.errstate(over="ignore", invalid="ignore"):  # a huge row has a huge answer
            intercepts[known] += self.intercepts[position[known]]
            intercepts[alone] = self.own.coef[own_of[alone], -1]
            return np.asarray(scores + intercepts)

    def probabilities(self, board: "Billboard", X: Any, position: np.ndarray) -> np.ndarray:
        """(rows, classes) of no and yes, or of several classes: averaged over what is not known of heads, if that is known."""
        answers = self.predict(board, X, position)
        if board.class_scores is not None:
            return np.asarray(np.exp(answers))
        if not board.log_odds:
            raise InputError("this board is about numbers, which have no probabilities. Use predict.")
        return probabilities(answers, np.zeros(len(answers)) if self.doubts is None else self.std(board, X, position))

    def std(self, board: "Billboard", X: Any, position: np.ndarray) -> np.ndarray:
        """The standard deviation of a fresh label of each row, by its person's posterior; by the prior where that is -1."""
        if board.class_scores is not None:
            raise InputError("classes have no standard deviation; probabilities say how sure an answer is.")
        if self.doubts is None or board.spread is None or board.noise is None:
            raise InputError(
                f"heads of the kind {board.head_kind.name!r} do not know how far off they may be. Train with a recipe whose "
                "heads are posteriors (the default of PrivateFedRep)."
            )
        place, (covariances, noises) = np.asarray(position), (self.doubts.covariances, self.doubts.noises)
        return np.sqrt(prediction_variances(X, model_on(board), place, covariances, noises))

    def head(self, board: "Billboard", position: int) -> Head | ClassHead:
        """What is hers alone: shared and own parts put together, or the model of her own rows."""
        if board.classes is not None:
            answer = partial(self._of_one, board, position)
            return ClassHead(self.weights[position], board.classes, answer, board.n_features)
        weights, alone = self.weights[position], int(self.own.of(np.array([position]))[0])
        std_of = None if self.doubts is None else partial(self._std_of_one, board, position)
        if alone >= 0:
            return Head(self.own.coef[alone, :-1], float(self.own.coef[alone, -1]), weights, std_of=std_of)
        mean = np.zeros(board.n_features) if board.mean is None else board.mean
        coef = coefficients(mean, np.asarray(board.embedding, dtype=np.float64), weights)
        return Head(coef, board.intercept + float(self.intercepts[position]), weights, std_of=std_of)

    def _of_one(self, board: "Billboard", position: int, X: Any) -> np.ndarray:
        return self.predict(board, X, np.full(X.shape[0], position))

    def _std_of_one(self, board: "Billboard", position: int, X: Any) -> np.ndarray:
        return self.std(board, X, np.full(X.shape[0], position))


def model_on(board: "Billboard") -> SharedModel:
    """What a board publishes, as the model that heads are fitted on."""
    noise = 1.0 if board.noise is None else board.noise
    shared = board.embedding, board.mean, board.intercept, board.fit_intercept
    return SharedModel(*shared, board.spread, noise, board.log_odds)
