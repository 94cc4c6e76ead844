"""Small populations for tests, and the people a guarantee has to hold against."""

import numpy as np

from commonground.users import Block


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
            for power in (-170, -81, -60, 60, 80.5, 81, 150)
        },
        **{
            f"features of 1e{power}": (10.0**power * rows, rng.standard_normal(8))
            for power in (-150, -80, -30, 30, 80, 150)
        },
        "tiny features, tinier labels": (1e-9 * rows, 1e-152 * rng.standard_normal(8)),
        "huge labels": (rows, 1e30 * rng.standard_normal(8)),
    }
