"""Two populations that differ in one person, chosen so that she shows as much as she can.

A guarantee holds for the worst case, so an audit needs it. For sums that are clipped per person it is known: two people whose
contributions are both larger than any clip (so each counts with its full C), point in opposite directions (so replacing one
by the other moves the sum by the full 2C) and differ in size (so that both move the histogram of sizes).

The people here are simulated, never real: an audit looks at values from before the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from commonground.data.users import Users
from commonground.datasets import make_shared_subspace
from commonground.errors import InputError

TARGET = 0  # position of the person who is replaced

Person = tuple[np.ndarray, np.ndarray]  # rows and labels

# Far above any threshold that a histogram of ordinary people could lead to, far below the end of the grid of sizes (2⁶⁰).
_HUGE, _HUGER = 1e4, 1e6
_STEEP = 1e5  # slope of a huge person's labels: no shared model explains it away


@dataclass(frozen=True)
class Neighbours:
    """``with_target`` and ``without`` have the same people but for ``TARGET``."""

    name: str
    with_target: Users
    without: Users


def aligned(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """Huge people whose labels follow one direction each, at right angles: worst for an embedding.

    Their rows cover all directions evenly. A sum of u uᵀ moves by √2. With rank one in two dimensions their gradients for the
    embedding point in opposite directions whatever it is: −tan and cot of the same angle.
    """
    return _even_rows(direction, _HUGE), _even_rows(other, _HUGER)


def mirrored(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """One row outweighs all others of a person and is mirrored in her neighbour: worst for a mean or a plain gradient.

    The products of two of her rows, on which the paper's initialisation rests, change sign as well: the first row stays.
    """
    return _two_kinds_of_rows(direction, _HUGE), _two_kinds_of_rows(-direction, _HUGER, first=direction)


def labels(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """Adversarial labels: the same huge rows, every other label with the opposite sign."""
    X, y = _two_kinds_of_rows(direction, _HUGE)
    return (X, y), (X, np.where(np.arange(len(y)) % 2, -y, y))


def huge(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """A huge person in place of an ordinary one."""
    return _even_rows(direction, _HUGE), ordinary


def empty(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """A huge person in place of one who sends nothing: all of her rows are zero."""
    X, y = _even_rows(direction, _HUGE)
    return (X, y), (0.0 * X, 0.0 * y)


def corners(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """All rows at one corner of any public bounds; in her neighbour the label and half of the features are turned round.

    The two rows are then nearly at right angles, so their second moments are as far apart as they can be.
    """
    corner = np.full((4, len(direction)), _HUGE)
    turned = corner * np.where(np.arange(len(direction)) % 2, -1.0, 1.0)
    return (corner, np.full(4, _STEEP)), (turned, np.full(4, -_STEEP))


def subnormal(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """A person whose contributions are so small that the square of their size has hardly a digit left."""
    X = 1.5 * np.stack([direction, -direction])
    return (X, np.array([2e-162, -2e-162])), ordinary


def tiny(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """Features about as small as that, in place of an ordinary person."""
    X, y = ordinary
    return (1e-162 * X, y), ordinary


def enormous(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """As large as numbers get: sums and squares of her rows are infinite."""
    X, _ = _even_rows(direction, 1.0)
    return (1e200 * X, 1e308 * np.sign(X @ direction + 0.5 * X @ other)), ordinary


def one_row(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """An ordinary person with one row, in place of one with several: how many there are is private."""
    X, y = ordinary
    return (X[:1], y[:1]), ordinary


def more_rows(direction: np.ndarray, other: np.ndarray, ordinary: Person) -> tuple[Person, Person]:
    """The same rows and some more, an odd number, so that everybody's after her lie elsewhere in memory."""
    X, y = ordinary
    return (np.concatenate([X, X, 2 * X[:1]]), np.concatenate([y, -y, y[:1]])), ordinary


PAIRS: dict[str, Callable[[np.ndarray, np.ndarray, Person], tuple[Person, Person]]] = {
    "aligned": aligned,
    "mirrored": mirrored,
    "labels": labels,
    "huge": huge,
    "empty": empty,
    "corners": corners,
    "subnormal": subnormal,
    "tiny": tiny,
    "enormous": enormous,
    "one-row": one_row,
    "more-rows": more_rows,
}


def neighbours(pair: str, n_users: int = 24, n_features: int = 2, rank: int = 1, seed: int = 0) -> Neighbours:
    """A small population in which the first person is one of the two people of ``pair``."""
    if pair not in PAIRS:
        raise InputError(f"person must be one of {', '.join(PAIRS)}, got {pair!r}.")
    if n_users < 2:
        raise InputError(f"an audit needs at least 2 people, got {n_users!r}.")
    users, truth = make_shared_subspace(n_users, 6, n_features, rank, noise=0.1, seed=seed)
    direction = truth.embedding[:, 0]  # aligned with the embedding that the others share
    other = np.linalg.svd(direction[None])[2][1]
    with_target, without = PAIRS[pair](direction, other, users.rows_of(TARGET))
    return Neighbours(pair, replace_people(users, {TARGET: with_target}), replace_people(users, {TARGET: without}))


def replace_people(users: Users, replacements: dict[int, Person]) -> Users:
    """The same population with other rows for some people, who are given by position."""
    people = [replacements.get(j) or users.rows_of(one) for j, one in enumerate(users.ids.tolist())]
    return Users.from_arrays(
        np.concatenate([X for X, _ in people]).astype(np.float64),
        np.concatenate([y for _, y in people]).astype(np.float64),
        np.repeat(users.ids, [len(y) for _, y in people]),
    )


def _even_rows(slope: np.ndarray, scale: float) -> Person:
    """±scale along every axis, so XᵀX is a multiple of the identity and rows are centred; labels steep along ``slope``."""
    axes = scale * np.eye(len(slope))
    X = np.concatenate([axes, -axes])
    return X, _STEEP * X @ slope


def _two_kinds_of_rows(huge_row: np.ndarray, scale: float, first: np.ndarray | None = None) -> Person:
    """Small row, huge row, small row, huge row: where an algorithm splits a person's rows, each part has both."""
    small = huge_row if first is None else first
    X = np.stack([small, scale * huge_row] * 2)
    return X, np.array([1.0, _STEEP * _HUGER] * 2)
