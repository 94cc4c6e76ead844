"""What one person can move a sum of shares, or of distributions, is what it says; no more, and no less."""

import math
from itertools import product

import numpy as np
import pytest

from commonground.clipping.bounded import SCORE_UNIT
from commonground.clipping.shares import MassSums, ShareSums

CORNERS = [0.0, 1.0, 0.5, -1e300, 1e300, math.inf, -math.inf, math.nan, 5e-324, 1.0 + 1e-16, 1.7e308]


def others(rng: np.random.Generator, m: int) -> np.ndarray:
    return rng.random((30, m))


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("weight", [1.0, 0.25, 1e-20])
def test_nobody_moves_shares_by_more_than_is_said(m: int, weight: float) -> None:
    """Every pair of people with numbers at the corners, some of which are none at all; the bound is reached."""
    rng, weights = np.random.default_rng(m), np.append(np.ones(30), weight)
    rest = others(rng, m)
    people = [np.array(numbers) for numbers in product(CORNERS, repeat=m)]
    values = np.array([ShareSums.of(np.vstack([rest, one]), weights).bounded("x", 6).value for one in people])
    bound = ShareSums.of(np.vstack([rest, people[0]]), weights).bounded("x", 6).sensitivity
    apart = np.array([np.linalg.norm(values - one, axis=1).max() for one in values])
    assert apart.max() <= weight * bound + 2.0**-29
    assert bound == pytest.approx(math.sqrt(m), rel=1e-6)
    if weight == 1.0:
        assert apart.max() > 0.999 * bound


def test_who_takes_no_part_is_nearer_than_is_said() -> None:
    rest = np.full((5, 2), 0.3)
    without = ShareSums.of(np.vstack([rest, [[math.nan, 1.0]]]), np.ones(6))
    assert without.units[-1] == 5 * SCORE_UNIT
    with_her = ShareSums.of(np.vstack([rest, [[1.0, 0.0]]]), np.ones(6))
    apart = float(np.linalg.norm(with_her.bounded("x", 6).value - without.bounded("x", 6).value))
    assert apart == pytest.approx(math.sqrt(2.0), rel=1e-9)
    assert apart <= with_her.bounded("x", 6).sensitivity


def test_sums_do_not_depend_on_blocks() -> None:
    rng = np.random.default_rng(0)
    shares, weights = rng.random((1000, 3)), np.round(rng.random(1000) * 2**20) / 2**20
    whole = ShareSums.of(shares, weights)
    parts = ShareSums.of(shares[:137], weights[:137]) + ShareSums.of(shares[137:], weights[137:])
    np.testing.assert_array_equal(whole.units, parts.units)
    assert whole.units[0] / SCORE_UNIT == pytest.approx(((shares[:, 0] - 0.5) * weights).sum(), abs=1e-5)
    assert whole.units[-1] / SCORE_UNIT == pytest.approx(weights.sum(), abs=1e-5)
    assert "private" in repr(whole)


def test_nobody_moves_distributions_by_more_than_is_said() -> None:
    rng = np.random.default_rng(0)
    rest, weights = rng.random((20, 6)), np.ones(21)
    strange = [
        np.zeros(6),
        np.eye(6)[0],
        1e300 * np.eye(6)[1],
        np.full(6, math.inf),
        np.full(6, math.nan),
        np.full(6, 5e-324),
        np.full(6, -1.0),
        np.full(6, 1.7e308),
        *rng.random((200, 6)),
        *(rng.random((200, 6)) < 0.2).astype(float),
    ]
    with np.errstate(over="ignore"):
        values = np.array([MassSums.of(np.vstack([rest, one]), weights).bounded("x").value for one in strange])
    bound = MassSums.of(rest, weights[:20]).bounded("x").sensitivity
    apart = max(float(np.linalg.norm(values - one, axis=1).max()) for one in values)
    assert 0.999 * math.sqrt(2.0) < apart <= bound
    assert "private" in repr(MassSums.of(rest, weights[:20]))


def test_everybody_is_one_distribution() -> None:
    counts = np.array([[1.0, 3.0], [0.0, 0.0], [10.0, 10.0]])
    value = MassSums.of(counts, np.array([1.0, 1.0, 0.5])).bounded("x").value
    np.testing.assert_allclose(value, [0.25 + 0.25, 0.75 + 0.25], atol=1e-8)
