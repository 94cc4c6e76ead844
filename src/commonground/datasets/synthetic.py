"""Populations with a known truth, for examples, tests and papers."""

from dataclasses import dataclass

import numpy as np

from commonground.data.users import Users
from commonground.errors import InputError


@dataclass(frozen=True)
class Truth:
    """What a simulated population was drawn from: y = <x, U v_j> + noise.

    Parameters
    ----------
    embedding : array of shape (d, k)
        U, orthonormal columns.
    heads : array of shape (n, k)
        v_j.
    noise : float
        Standard deviation of the label noise.
    """

    embedding: np.ndarray
    heads: np.ndarray
    noise: float


def make_shared_subspace(
    n_users: int = 20_000,
    rows_per_user: int | tuple[int, int] = 10,
    n_features: int = 50,
    rank: int = 2,
    noise: float = 0.01,
    seed: int = 0,
) -> tuple[Users, Truth]:
    """The papers' synthetic population: x ~ N(0, I), heads ~ N(0, I), one shared subspace (P1 §6, P2 §3.4).

    Parameters
    ----------
    n_users : int, default=20_000
        n, how many people there are.
    rows_per_user : int or (int, int), default=10
        (low, high) draws every person's number of rows uniformly from low to high.
    n_features, rank : int, default=50 and 2
        d, and k < d, the dimension of the subspace.
    noise : float, default=0.01
        Standard deviation of the label noise.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    users : Users
    truth : Truth
        What they were drawn from.

    Examples
    --------
    >>> users, truth = make_shared_subspace(n_users=100, rows_per_user=(1, 5), n_features=6, seed=3)
    >>> users
    Users(n_users=100, n_features=6)
    """
    if not 1 <= rank < n_features:
        raise InputError(f"rank must lie between 1 and n_features - 1 = {n_features - 1}, got {rank!r}.")
    rng = np.random.default_rng([seed, 0xDA7A])
    embedding = np.linalg.qr(rng.standard_normal((n_features, rank)))[0]
    heads = rng.standard_normal((n_users, rank))
    if isinstance(rows_per_user, tuple):
        sizes = rng.integers(rows_per_user[0], rows_per_user[1] + 1, size=n_users)
    else:
        sizes = np.full(n_users, rows_per_user)
    person = np.repeat(np.arange(n_users), sizes)
    X = rng.standard_normal((len(person), n_features), dtype=np.float32)
    y = ((X @ embedding) * heads[person]).sum(axis=1) + noise * rng.standard_normal(len(person))
    return Users.from_arrays(X, y, person), Truth(embedding, heads, noise)


def make_margin_classes(
    n_users: int = 2_000,
    rows_per_user: int = 10,
    n_features: int = 50,
    rank: int = 1,
    margin: float = 0.5,
    n_nuisance: int = 4,
    seed: int = 0,
) -> Users:
    """People whose classes ±1 are separated by a margin in a shared subspace: ‖x‖ = 1 and y <x, U v_j> ≥ margin, ‖v_j‖ = 1.

    <x, U v_j> is uniform from ±margin to ±1; the rest of a row lies in ``n_nuisance`` further directions, the same for
    everybody, which say nothing about the class. They mislead who has few rows and only her own.

    Parameters
    ----------
    n_users, rows_per_user : int, default=2_000 and 10
        How many people there are, and how many rows each has.
    n_features, rank : int, default=50 and 1
        d and k.
    margin : float, default=0.5
        Between 0 and 1.
    n_nuisance : int, default=4
        Directions that say nothing; with the rank at most d.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    Users

    Examples
    --------
    >>> X, y = make_margin_classes(n_users=5, n_features=20).rows_of(3)
    >>> X.shape, sorted(set(y.tolist()))
    ((10, 20), [-1.0, 1.0])
    """
    if not (rank >= 1 and n_nuisance >= 1 and rank + n_nuisance <= n_features and 0 < margin < 1):
        raise InputError(
            f"rank + n_nuisance must be at most n_features = {n_features} and margin between 0 and 1, got rank {rank!r}, "
            f"n_nuisance {n_nuisance!r}, margin {margin!r}."
        )
    rng = np.random.default_rng([seed, 0x3A261])
    basis = np.linalg.qr(rng.standard_normal((n_features, rank + n_nuisance)))[0]
    heads, person = rng.standard_normal((n_users, rank)), np.repeat(np.arange(n_users), rows_per_user)
    heads /= np.linalg.norm(heads, axis=1, keepdims=True)
    along = rng.uniform(margin, 1.0, len(person)) * rng.choice([-1.0, 1.0], len(person))
    rest = rng.standard_normal((len(person), n_nuisance))
    rest *= (np.sqrt(1 - along**2) / np.linalg.norm(rest, axis=1))[:, None]
    X = np.hstack([along[:, None] * heads[person], rest]) @ basis.T
    return Users.from_arrays(X.astype(np.float32), np.sign(along), person)


def segmented_budgets(
    n_users: int,
    fractions: tuple[float, float, float] = (0.34, 0.43, 0.23),
    epsilons: tuple[float, float, float] = (0.01, 0.2, 1.0),
    seed: int = 0,
) -> np.ndarray:
    """Everybody's own ε as P3 draws them, in random order.

    The conservative are uniform between the first two ``epsilons``, the pragmatists between the last two, the liberal have
    exactly the last. The defaults are P3's.

    Parameters
    ----------
    n_users : int
        How many people there are.
    fractions : (float, float, float), default=(0.34, 0.43, 0.23)
        How many people are which.
    epsilons : (float, float, float), default=(0.01, 0.2, 1.0)
        Rising.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    array of shape (n_users,)

    Examples
    --------
    >>> budgets = segmented_budgets(1000)
    >>> [int((budgets < 0.2).sum()), int((budgets == 1.0).sum())]
    [340, 230]
    """
    if abs(sum(fractions) - 1) > 1e-9 or min(fractions) < 0 or list(epsilons) != sorted(epsilons):
        raise InputError(
            f"fractions must be three shares that add up to 1 and epsilons must rise, got {fractions} and {epsilons}."
        )
    rng = np.random.default_rng([seed, 0xB0D6E7])
    conservative, liberal = round(fractions[0] * n_users), round(fractions[2] * n_users)
    pragmatist = n_users - conservative - liberal
    low, middle, high = epsilons
    parts = rng.uniform(low, middle, conservative), rng.uniform(middle, high, pragmatist), np.full(liberal, high)
    return rng.permutation(np.concatenate(parts))
