"""What an attacker can gain: held against tests that are tried out, and against the accountant's own curve."""

import numpy as np
import pytest
from scipy.stats import norm

from commonground.accounting.events import PureEvent, epsilon_by_pld
from commonground.accounting.gaussian import gaussian_delta
from commonground.report.attack import GaussianCurve, LossCurve, PureCurve, chance_of_more, curve_of, suspicion
from made_boards import gaussian


@pytest.mark.parametrize("mu", [0.05, 0.24, 1.0, 3.0])
@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.001])
def test_the_gaussian_curve_is_that_of_the_likelihood_ratio_test(mu: float, fpr: float) -> None:
    threshold = norm.isf(fpr)  # of N(0, 1) against N(mu, 1), by Neyman and Pearson
    assert GaussianCurve(mu).power(fpr) == pytest.approx(norm.sf(threshold - mu), rel=1e-12)


def test_lines_of_the_exact_deltas_enclose_the_gaussian_curve_from_above_and_closely() -> None:
    epsilons = np.linspace(0.0, 12.0, 2001)
    lines = LossCurve(epsilons, np.array([gaussian_delta(0.7, epsilon) for epsilon in epsilons]))
    fprs = np.array([0.5, 0.1, 0.01, 0.001])
    exact = GaussianCurve(0.7).power(fprs)
    assert (lines.power(fprs) >= exact * (1 - 1e-12)).all()
    np.testing.assert_allclose(lines.power(fprs), exact, rtol=1e-5)


def test_a_mixture_is_bounded_by_the_accountants_curve() -> None:
    events = [gaussian("sum", 0.3), PureEvent("choice", 0.4, 1.0, 5.0, 3, False)]
    curve = curve_of(events)
    for fpr in (0.1, 0.01):
        line = min(delta + np.exp(epsilon_by_pld(events, delta)) * fpr for delta in (1e-2, 1e-3, 1e-4, 1e-6))
        assert fpr < curve.power(fpr) <= line * (1 + 1e-3)


def test_pure_releases_add_and_nothing_gives_nothing_away() -> None:
    choice = PureEvent("choice", 0.4, 1.0, 5.0, 3, False)
    assert curve_of([choice, choice]) == PureCurve(0.8)
    assert curve_of([]) == GaussianCurve(0.0)
    assert suspicion(PureCurve(0.8), 0.01) == pytest.approx(np.exp(0.8) / (1 + np.exp(0.8)))


@pytest.mark.parametrize("curve", [GaussianCurve(0.24), GaussianCurve(2.0)])
def test_the_chance_of_more_is_where_the_line_meets_the_curve(curve: GaussianCurve) -> None:
    for epsilon in (0.5, 1.0, 2.0):
        chance = chance_of_more(curve, epsilon)
        assert curve.power(chance * np.exp(-epsilon)) == pytest.approx(chance, rel=1e-9)
        # No smaller than what the odds themselves do: P(loss > ε) where she was there.
        assert chance >= norm.sf(epsilon / curve.mu - curve.mu / 2)
