"""Kinds of heads: how a person's head is made from the billboard and from her own rows.

Every board names its kind, in ``statement.json``, too. So a newcomer, and whoever loads the board elsewhere, gets the very head
that training would have given her.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from commonground.data.features import as_floats
from commonground.data.users import Block
from commonground.errors import InputError
from commonground.heads.arithmetic import shorten
from commonground.heads.choice import CLEARLY_WITH_MANY_ROWS, HEAD, OWN, keep_best
from commonground.heads.classes import fit_class_heads
from commonground.heads.convex import fit_convex_heads
from commonground.heads.halves import second_half_heads, second_half_margin_heads
from commonground.heads.posterior import doubt_without_heads, fit_posterior_heads
from commonground.heads.ridge import fit_heads
from commonground.heads.table import Doubts, HeadTable, OwnModels, model_on
from commonground.losses import LOSSES, losses_of

if TYPE_CHECKING:
    from commonground.billboard.board import Billboard

_NAMED_SINCE = 5  # the schema of ``statement.json``


@dataclass(frozen=True)
class HeadKind:
    """Base of the kinds. Their fields are public, and read from files: what cannot be used is refused."""

    name: ClassVar[str]
    needs_spread: ClassVar[bool] = False  # whether a board of this kind must publish a spread and a noise of labels
    answers_by_sign: ClassVar[bool] = False  # whether the sign of an answer is the class

    def __post_init__(self) -> None:
        for field, value in asdict(self).items():
            if field == "loss":
                losses = losses_of(self.name)
                usable, allowed = value in losses, f"one of {', '.join(losses)}"
            elif field == "local_choice":
                usable, allowed = isinstance(value, bool), "True or False"
            else:
                usable, allowed = isinstance(value, float) and 0 < value < math.inf, "a finite float > 0"
            if not usable:
                raise InputError(f"{field} of {type(self).__name__} must be {allowed}, got {value!r}.")

    @property
    def class_names(self) -> tuple[Any, ...] | None:
        """What several classes are called; None where labels are numbers, or yes and no."""
        return None

    def numbers_of(self, labels: Any) -> np.ndarray:
        """(rows,) what heads are fitted to, of labels as they are given."""
        if self.log_odds and np.asarray(labels).dtype.kind in "OUS" and isinstance(np.asarray(labels).ravel()[0], str):
            raise InputError(
                "labels are yes or no, and a board does not say what you call them: give 0 and 1, or y == 'yes'."
            )
        return as_floats(labels, "labels").ravel()

    def held_by_own_rows_alone(self, board: "Billboard") -> bool:
        """Whether nothing but a person's own rows says how large her head may be: few rows then make a wild one."""
        return False

    @property
    def log_odds(self) -> bool:
        """Whether heads answer with log-odds."""
        return LOSSES[asdict(self).get("loss", "square")].log_odds

    def fit(self, block: Block, board: "Billboard") -> HeadTable:
        """Heads on ``board`` for the people of a block, each from her own rows alone."""
        if block.sparse:
            raise InputError(f"heads of the kind {self.name!r} need dense rows. Pass X.toarray().")
        return HeadTable(*self._fit(block, board), OwnModels.nobody(board.n_features))

    def _fit(self, block: Block, board: "Billboard") -> tuple[np.ndarray, np.ndarray]:
        """(people, k) heads and (people,) own intercepts."""
        raise NotImplementedError

    @property
    def on_shared_part_only(self) -> "HeadKind":
        """The same kind, without models of people's own rows in place of heads."""
        return replace(self, local_choice=False) if "local_choice" in asdict(self) else self  # type: ignore[call-arg]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.name, **asdict(self)}


@dataclass(frozen=True)
class RidgeHeads(HeadKind):
    """Ridge on the embedding, by the board's prior where it has one (``ridge``).

    Parameters
    ----------
    local_choice : bool, default=False
        Each person may keep the shared prediction, or a model of her own rows, in place of a head (``choice``).
    """

    name: ClassVar[str] = "ridge"
    local_choice: bool = False

    def held_by_own_rows_alone(self, board: "Billboard") -> bool:
        return board.prior is None and board.rank < board.n_features

    def fit(self, block: Block, board: "Billboard") -> HeadTable:
        weights, intercepts = fit_heads(block, *_shared(board), board.prior)
        own = OwnModels.nobody(board.n_features)
        if self.local_choice and board.rank and not block.sparse:
            usually = OWN if board.statement.sharing_pays is False else HEAD
            own, _ = keep_best(block, model_on(board), board.prior, usually, weights, intercepts)
        return HeadTable(weights, intercepts, own)


@dataclass(frozen=True)
class PosteriorHeads(HeadKind):
    """The posterior mean of her own part, given the board's ``spread`` and ``noise`` (``posterior``).

    Parameters
    ----------
    local_choice : bool, default=False
        A person with rows enough for a model of all features, twice as many, may keep one of her own where it is clearly
        better on rows that she leaves out (``choice``). Not for log-odds.
    loss : {"square", "logistic"}, default="square"
        "logistic": the board is about log-odds, and so are heads, by Laplace's approximation.
    """

    name: ClassVar[str] = "posterior"
    needs_spread: ClassVar[bool] = True
    local_choice: bool = False
    loss: str = "square"

    def fit(self, block: Block, board: "Billboard") -> HeadTable:
        assert board.spread is not None
        assert board.noise is not None
        model = model_on(board)
        weights, intercepts, covariances, noises = fit_posterior_heads(block, model)
        own = OwnModels.nobody(board.n_features)
        enough, rows = 2 * (board.n_features + 1), np.diff(block.offsets)
        if self.local_choice and not (block.sparse or board.log_odds) and (rows >= enough).any():
            prior = ridge_matrix(board.spread, board.noise, board.rank)
            usually = OWN if board.statement.sharing_pays is False else HEAD
            own, missed = keep_best(
                block,
                model,
                prior,
                usually,
                weights,
                intercepts,
                fewest_rows=enough,
                with_few=HEAD,
                clearly=CLEARLY_WITH_MANY_ROWS,
            )
            doubt_without_heads(covariances, noises, missed, rows)
        return HeadTable(weights, intercepts, own, Doubts(covariances, noises))


@dataclass(frozen=True)
class ConvexHeads(HeadKind):
    """The least loss on the embedding, such as "logistic" (the head predicts log-odds) or "huber" (``convex``)."""

    name: ClassVar[str] = "convex"
    loss: str

    def held_by_own_rows_alone(self, board: "Billboard") -> bool:
        return not self.log_odds  # which have a ridge of their own

    def _fit(self, block: Block, board: "Billboard") -> tuple[np.ndarray, np.ndarray]:
        return fit_convex_heads(block, *_shared(board), self.loss)


@dataclass(frozen=True)
class SecondHalfHeads(HeadKind):
    """The papers': least squares on the second half of her rows, without an intercept (``halves``)."""

    name: ClassVar[str] = "second half"

    def _fit(self, block: Block, board: "Billboard") -> tuple[np.ndarray, np.ndarray]:
        U = np.ascontiguousarray(board.embedding)
        return second_half_heads(block, U), np.zeros(block.n_users)


@dataclass(frozen=True)
class SignHeads(HeadKind):
    """Ridge on which side of zero labels are; longer heads are brought to norm ``head_bound``, which changes no class."""

    name: ClassVar[str] = "signs"
    answers_by_sign: ClassVar[bool] = True
    head_bound: float

    def _fit(self, block: Block, board: "Billboard") -> tuple[np.ndarray, np.ndarray]:
        heads, intercepts = fit_heads(block.signed, *_shared(board), board.prior)
        shorten(heads, self.head_bound)
        return heads, intercepts


@dataclass(frozen=True)
class MarginHeads(HeadKind):
    """P2's: of norm ``head_bound``, with the fewest errors on the second half of her rows, none longer than ``feature_bound``."""

    name: ClassVar[str] = "margin"
    answers_by_sign: ClassVar[bool] = True
    head_bound: float
    feature_bound: float

    def _fit(self, block: Block, board: "Billboard") -> tuple[np.ndarray, np.ndarray]:
        P, bounds = np.ascontiguousarray(board.embedding.T), (self.head_bound, self.feature_bound)
        return second_half_margin_heads(block, P, *bounds), np.zeros(block.n_users)


@dataclass(frozen=True)
class ClassHeads(HeadKind):
    """Own intercepts of three classes or more, at their posterior mode given the board's ``spread`` (``heads.classes``).

    Parameters
    ----------
    classes : tuple of str, int, float or bool
        What labels are called; in files of rows they are written as their places here, 0, 1, …
    """

    name: ClassVar[str] = "classes"
    classes: tuple[Any, ...]

    def __post_init__(self) -> None:
        named = self.classes if isinstance(self.classes, list | tuple) else ()
        object.__setattr__(self, "classes", tuple(named))
        plain = all(isinstance(name, str | int) or (isinstance(name, float) and math.isfinite(name)) for name in named)
        if not (plain and len(named) >= 3 and len(set(named)) == len(named)):
            raise InputError(
                f"classes must be three or more different texts or numbers, got {self.classes!r}. Two are yes-or-no labels."
            )

    def fit(self, block: Block, board: "Billboard") -> HeadTable:
        assert board.class_scores is not None
        assert board.spread is not None
        parts, doubts = fit_class_heads(block, board.class_scores, board.spread)
        own, nothing = OwnModels.nobody(board.n_features), np.zeros(block.n_users)
        return HeadTable(parts, nothing, own, Doubts(doubts, np.zeros(block.n_users)))

    @property
    def class_names(self) -> tuple[Any, ...]:
        return self.classes

    def numbers_of(self, labels: Any) -> np.ndarray:
        """(rows,) the place of each label among the classes; an error where one is none of them."""
        given = np.asarray(labels).ravel()
        found = np.full(len(given), -1.0)
        for place, name in enumerate(self.classes):
            found[given == name] = place
        if (found < 0).any():
            raise InputError(
                f"labels must be one of the classes {', '.join(map(repr, self.classes))}, and {int((found < 0).sum())} of "
                f"{len(given)} are not. Name yours: classes=('a', 'b', 'c')."
            )
        return found


KINDS = {
    kind.name: kind
    for kind in (RidgeHeads, PosteriorHeads, ConvexHeads, SecondHalfHeads, SignHeads, MarginHeads, ClassHeads)
}


def head_kind_in(document: dict[str, Any]) -> HeadKind:
    """The kind that a ``statement.json`` names; where it is older than the names, the kind that its estimator used."""
    if document["schema_version"] >= _NAMED_SINCE:
        named = dict(document["heads"])
        return KINDS[named.pop("kind")](**named)
    loss, paper, public = document.get("loss", "square"), document["recipe"] == "paper", document.get("parameters", {})
    if loss != "square":
        return ConvexHeads(loss)
    if "head_bound" in public:
        return MarginHeads(public["head_bound"], public["feature_bound"]) if paper else SignHeads(public["head_bound"])
    return SecondHalfHeads() if paper else RidgeHeads(bool(document.get("local_choice", False)))


def ridge_matrix(spread: np.ndarray, noise: float, rank: int) -> np.ndarray | None:
    """Λ = s² S⁻¹ of heads, whose intercepts come first in S; None where there are no heads."""
    if rank == 0:
        return None
    values, Q = np.linalg.eigh(spread[len(spread) - rank :, len(spread) - rank :])
    return np.asarray(noise * (Q / np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ Q.T)


def _shared(board: "Billboard") -> tuple[np.ndarray, np.ndarray | None, float, bool]:
    return board.embedding, board.mean, board.intercept, board.fit_intercept
