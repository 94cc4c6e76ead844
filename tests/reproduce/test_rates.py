"""Exponents beside the theorems': the same people in both, and bounds that simulations can be held against."""

import pytest

from commonground.reproduce.rates import ALTMIN, FEDREP, GRID, RESULT, Point, bound_of, theorem_exponent


def test_theorems_are_compared_for_the_same_heads() -> None:
    """P1 prints k⁵d³ for heads ~ N(0, I), P2 Γ⁶kd²: beside each other only with one Γ in both. They differ by dk then."""
    for varied, apart in (("d", 1.0), ("k", 1.0), ("n", 0.0), ("epsilon", 0.0), ("m", 0.0)):
        altmin, fedrep = (theorem_exponent(method, varied, Point(), GRID[varied]) for method in (ALTMIN, FEDREP))
        assert altmin - fedrep == pytest.approx(apart, abs=1e-6)
    large = (400, 800, 1600)  # Γ² ≈ k: Theorem 1.1's k⁵, and k⁴
    base = Point(n=100, d=2_000)
    assert theorem_exponent(ALTMIN, "k", base, large) == pytest.approx(5.0, abs=0.4)
    assert theorem_exponent(FEDREP, "k", base, large) == pytest.approx(4.0, abs=0.4)


def test_bounds_fall_with_people_and_budget() -> None:
    for method in (ALTMIN, FEDREP):
        assert bound_of(method, Point(n=20_000)) < bound_of(method, Point())
        assert bound_of(method, Point(epsilon=16.0)) < bound_of(method, Point())


@pytest.mark.slow
def test_a_fast_run_judges_no_rate() -> None:
    outcome = RESULT.outcome(fast=True, show=False)
    assert outcome.rows
    assert not outcome.claims
