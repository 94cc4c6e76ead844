"""Populations with a known truth, for examples, tests and papers."""

from dataclasses import dataclass

import numpy as np

from commonground.errors import InputError
from commonground.users import Users


@dataclass(frozen=True)
class Truth:
    """What a simulated population was drawn from: y = <x, U v_j> + noise."""

    embedding: np.ndarray  # U (d, k), orthonormal columns
    heads: np.ndarray  # v_j (n, k)
    noise: float  # standard deviation of the label noise


def make_shared_subspace(
    n_users: int = 20_000,
    rows_per_user: int | tuple[int, int] = 10,
    n_features: int = 50,
    rank: int = 2,
    noise: float = 0.01,
    seed: int = 0,
) -> tuple[Users, Truth]:
    """The papers' synthetic population: x ~ N(0, I), heads ~ N(0, I), one shared subspace (P1 §6, P2 §3.4).

    ``rows_per_user=(low, high)`` draws every person's number of rows uniformly from low to high.

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


def segmented_budgets(
    n_users: int,
    fractions: tuple[float, float, float] = (0.34, 0.43, 0.23),
    epsilons: tuple[float, float, float] = (0.01, 0.2, 1.0),
    seed: int = 0,
) -> np.ndarray:
    """Everybody's own ε as P3 draws them, in random order.

    The conservative are uniform between the first two ``epsilons``, the pragmatists between the last two, the liberal have
    exactly the last; ``fractions`` says how many people are which. The defaults are P3's.

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
