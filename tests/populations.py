"""Small populations for tests, and the people a guarantee has to hold against."""

import numpy as np

from commonground.data.population import Block
from commonground.statistics.statistic import SharedModel


def ragged_block(
    seed: int, n_users: int = 40, d: int = 6, dtype: type = np.float64, low: int = 1, high: int = 12
) -> Block:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(low, high + 1, n_users)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.standard_normal((offsets[-1], d)).astype(dtype)
    y = (X @ rng.standard_normal(d) + rng.standard_normal(offsets[-1])).astype(dtype)
    return Block(X, y, offsets, first=0)


def replace_person(block: Block, person: int, X: np.ndarray, y: np.ndarray) -> Block:
    """The neighbouring block: one person's rows replaced by any others."""
    parts = [
        (X, y) if p == person else (block.X[lo:hi], block.y[lo:hi])
        for p, (lo, hi) in enumerate(zip(block.offsets[:-1], block.offsets[1:], strict=True))
    ]
    offsets = np.concatenate([[0], np.cumsum([len(labels) for _, labels in parts])])
    return Block(
        np.ascontiguousarray(np.concatenate([rows for rows, _ in parts]), dtype=block.X.dtype),
        np.concatenate([labels for _, labels in parts]).astype(block.y.dtype),
        offsets,
        first=0,
        weights=block.weights,
    )


def strange_people(d: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A huge one, an empty one (all zeros), one full of NaN, and others that break careless code."""
    rng = np.random.default_rng(99)
    rows = rng.standard_normal((8, d))
    return {
        "huge": (1e12 * rows, 1e12 * rng.standard_normal(8)),
        "overflowing": (np.full((8, d), 1e200), np.full(8, -1e200)),
        "zeros": (np.zeros((8, d)), np.zeros(8)),
        "tiny": (1e-200 * rows, 1e-200 * rng.standard_normal(8)),
        "NaN": (np.full((8, d), np.nan), np.full(8, np.nan)),
        "one NaN": (np.where(np.arange(8 * d).reshape(8, d) == 3, np.nan, rows), rng.standard_normal(8)),
        "infinite label": (rows, np.where(np.arange(8) == 2, np.inf, 1.0)),
        "one row": (rows[:1], np.array([5.0])),
        "collinear": (np.ones((8, 1)) * rows[:1], rng.standard_normal(8)),
        "many rows": (rng.standard_normal((500, d)), 100 * rng.standard_normal(500)),
        "one huge row": (1e12 * rows * (np.arange(8) == 1)[:, None], 1e12 * np.ones(8)),
        "orthogonal": (1e9 * np.eye(8, d), np.ones(8)),
        **{
            f"labels of 1e{power}": (rows, 10.0**power * rng.standard_normal(8))
            for power in (-170, -162, -81, -60, 60, 80.5, 81, 150)
        },
        **{
            f"features of 1e{power}": (10.0**power * rows, rng.standard_normal(8))
            for power in (-162, -150, -80, -30, 30, 80, 150)
        },
        "tiny features, tinier labels": (1e-9 * rows, 1e-152 * rng.standard_normal(8)),
        "huge labels": (rows, 1e30 * rng.standard_normal(8)),
        # A gradient whose square is denormal: a person with these rows once made her node's honest answer impossible.
        "two opposite rows, labels of 1e-162": (np.outer([2.0, -2.0], rows[0]), np.array([1e-162, -1e-162])),
        "six rows, labels of 1e-162": (np.concatenate([4 * rows[:3], -4 * rows[:3]]), 1e-162 * np.arange(-2.5, 3.0)),
        "one row of 1e-162": (1e-162 * rows[:1], np.array([1.0])),
        "the smallest numbers": (np.full((8, d), 5e-324), np.where(np.arange(8) % 2, 5e-324, -5e-324)),
        "smallest features": (np.where(rows > 0, 5e-324, -5e-324), rng.standard_normal(8)),
        "smallest labels": (rows, np.where(np.arange(8) % 2, 5e-324, -5e-324)),
        "denormal in 32 bits": (1e-40 * rows, 1e-42 * rng.standard_normal(8)),
        "the largest numbers": (np.where(rows > 0, 1.7e308, -1.7e308), np.where(np.arange(8) % 2, 1.7e308, -1.7e308)),
        "largest labels": (rows, np.where(np.arange(8) % 2, 1.7e308, -1.7e308)),
        "one largest number": (np.where(np.arange(8 * d).reshape(8, d) == 3, 1.7e308, rows), rng.standard_normal(8)),
        "largest and smallest": (np.where(rows > 0, 1.7e308, 5e-324), np.where(np.arange(8) % 2, 1.7e308, 5e-324)),
    }


def no_rows(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Somebody with nothing: only blocks can have her, as a table lists people by their rows."""
    return np.zeros((0, d)), np.zeros(0)


def random_person(rng: np.random.Generator, d: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """1 to 50 rows of any size from 5e-324 to 1.8e308: alike in all of them, or different for each row, or each number."""
    m = int(rng.choice([1, 2, 3, 4, 8, 50]))
    shape, label_shape = [((1, 1), 1), ((m, 1), m), ((1, d), 1), ((m, d), m)][rng.choice(4, p=[0.6, 0.1, 0.1, 0.2])]
    features, labels = rng.uniform(-324, 308.2, shape), rng.uniform(-324, 308.2, label_shape)
    kind = rng.random()
    if kind < 0.2:  # sizes that people have
        features, labels = rng.uniform(-3, 3, shape), rng.uniform(-3, 3, label_shape)
    elif kind < 0.5:  # a contribution about as small as squares can be
        features = rng.uniform(-5, 5, shape) if rng.random() < 0.5 else features
        labels = rng.uniform(-163, -154) - features.mean() + rng.uniform(-1, 1, label_shape)
    elif kind < 0.6:  # or features whose squares, or fourth powers, are
        features = rng.choice([-162.0, -81.0]) + rng.uniform(-1, 1, shape)
    X, y = rng.standard_normal((m, d)), rng.standard_normal(m)
    if rng.random() < 0.3:  # opposite rows with opposite labels: means vanish, and what is sent does not
        X, y = X - X[::-1], y - y[::-1]
    with np.errstate(over="ignore", under="ignore"):
        X, y = X * 10.0 ** np.clip(features, -323.6, 308.2), y * 10.0 ** np.clip(labels, -323.6, 308.2)
        largest = np.finfo(dtype).max
        return np.clip(X, -largest, largest).astype(dtype), np.clip(y, -largest, largest).astype(dtype)


def mean_model(coef: np.ndarray | None, intercept: float = 0.0, own_intercept: bool = False, d: int = 0) -> SharedModel:
    """A shared model without directions."""
    return SharedModel(np.zeros((d if coef is None else len(coef), 0)), coef, intercept, own_intercept)
