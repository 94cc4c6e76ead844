"""People who rate items of very different popularity, with a known truth: for sparse rows and recommendation."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from commonground.data.users import Users


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings to learn from, ratings of the same people to test on, and what they were drawn from.

    Person j rates item a with item_means[a] + intercept_j + <embedding[a], v_j> + noise.

    Parameters
    ----------
    users : Users
        The ratings to learn from.
    test_X : scipy.sparse.csr_array of shape (n_test, d)
        The items to test on.
    test_y, test_ids : array of shape (n_test,)
        Their ratings, and who gave them.
    item_means : array of shape (d,)
        What an item is rated on average.
    embedding : array of shape (d, k)
        Independent standard normal; v_j has covariance taste² / k.
    popularity : array of shape (d,)
        Shares of all ratings.
    noise : float
        Standard deviation of what nobody can predict.
    """

    users: Users
    test_X: sparse.csr_array  # noqa: N815 (X as everywhere)
    test_y: np.ndarray
    test_ids: np.ndarray
    item_means: np.ndarray
    embedding: np.ndarray
    popularity: np.ndarray
    noise: float


def make_ratings(
    n_users: int = 50_000,
    n_items: int = 2_000,
    ratings_per_user: tuple[int, int] = (20, 40),
    rank: int = 3,
    *,
    taste: float = 0.4,
    spread: float = 0.3,
    noise: float = 0.3,
    zipf: float = 1.0,
    held_out: int = 5,
    seed: int = 0,
) -> Ratings:
    """Item a is chosen with probability ∝ a^−zipf; nobody rates an item twice.

    Parameters
    ----------
    n_users, n_items : int, default=50_000 and 2_000
        How many people and items there are.
    ratings_per_user : (int, int), default=(20, 40)
        The fewest and the most ratings of a person.
    rank : int, default=3
        k, the number of directions in which tastes differ.
    taste, spread, noise : float, default=0.4, 0.3 and 0.3
        The standard deviations of <embedding[a], v_j>, of item means and people's intercepts, and of what nobody can predict.
    zipf : float, default=1.0
        How much more popular the first items are.
    held_out : int, default=5
        So many of everybody's ratings are for testing.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    Ratings

    Examples
    --------
    >>> ratings = make_ratings(n_users=50, n_items=30, ratings_per_user=(10, 12), seed=1)
    >>> ratings.users, ratings.test_X.shape
    (Users(n_users=50, n_features=30), (250, 30))
    """
    rng = np.random.default_rng([seed, 0x2A7E])
    popularity = np.arange(1.0, n_items + 1) ** -zipf
    popularity /= popularity.sum()
    item_means, embedding = spread * rng.standard_normal(n_items), rng.standard_normal((n_items, rank))
    intercepts, heads = spread * rng.standard_normal(n_users), taste / rank**0.5 * rng.standard_normal((n_users, rank))
    person, item = _distinct_items(n_users, ratings_per_user, popularity, rng)
    y = item_means[item] + intercepts[person] + (embedding[item] * heads[person]).sum(axis=1)
    y += noise * rng.standard_normal(len(y))
    X = sparse.csr_array(
        (np.ones(len(item), np.float32), item.astype(np.int32), np.arange(len(item) + 1)), shape=(len(item), n_items)
    )
    # Within a person, items come in the order they were drawn: the last ones drawn would be the rare ones.
    place = rng.permutation(len(person))
    place = place[np.argsort(person[place], kind="stable")]
    X, y = X[place], y[place]
    test = np.arange(len(person)) - np.searchsorted(person, person) < held_out
    users = Users.from_arrays(X[~test], y[~test], person[~test])
    return Ratings(users, X[test], y[test], person[test], item_means, embedding, popularity, noise)


def _distinct_items(
    n_users: int, ratings_per_user: tuple[int, int], popularity: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Whose rating, of which item. Twice as many are drawn as are needed; what comes again is passed over."""
    sizes = rng.integers(ratings_per_user[0], ratings_per_user[1] + 1, n_users)
    person = np.repeat(np.arange(n_users), 2 * sizes)
    item = np.minimum(np.searchsorted(np.cumsum(popularity), rng.random(len(person))), len(popularity) - 1)
    first = np.sort(np.unique(person * len(popularity) + item, return_index=True)[1])
    person, item = person[first], item[first]
    kept = np.arange(len(person)) - np.searchsorted(person, person) < sizes[person]
    return person[kept], item[kept]
