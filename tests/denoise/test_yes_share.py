"""How many answers are yes, by two noisy shares: right where they tell, careful where they do not."""

import numpy as np
import pytest

from commonground.denoise.yes_share import find_yes_share


@pytest.mark.parametrize("true", [0.002, 0.03, 0.4, 0.97])
@pytest.mark.parametrize("with_rows", [1.0, 0.6])
def test_without_noise_it_is_the_share_whoever_has_no_rows(true: float, with_rows: float) -> None:
    found = find_yes_share(with_rows * true, with_rows * (1 - true), 1e-6)
    assert found.mean == pytest.approx(true, rel=0.03)
    assert found.doubt < 0.03


def test_yes_and_no_are_treated_alike() -> None:
    one, other = find_yes_share(0.1, 0.85, 0.03), find_yes_share(0.85, 0.1, 0.03)
    assert one.mean == pytest.approx(1 - other.mean, rel=1e-9)
    assert one.doubt == pytest.approx(other.doubt, rel=1e-9)
    assert one.log_odds == pytest.approx(-other.log_odds, rel=1e-9)


def test_a_share_that_noise_hides_is_told_as_often_as_noise_would_hide_it() -> None:
    """Never as never: the mean told is within a noise's reach above the truth, and the worst one is not far below."""
    rng, noise, true = np.random.default_rng(0), 0.02, 0.005
    told = [
        find_yes_share(true + noise * e, 1 - true + noise * f, noise).mean for e, f in rng.standard_normal((500, 2))
    ]
    assert true < np.mean(told) < noise
    assert min(told) > 0.2 * true


def test_the_doubt_is_that_of_the_noise() -> None:
    """Of 2,000 shares; the mean square of errors against the doubt is 1 ± 0.03, so a false alarm is one in 10⁵ or so."""
    rng, noise = np.random.default_rng(1), 0.02
    true = rng.beta(0.5, 0.5, 2000)
    off = []
    for p in true:
        yes, no = np.array([p, 1 - p]) + noise * rng.standard_normal(2)
        found = find_yes_share(yes, no, noise)
        off.append((found.mean - p) / found.doubt)
    assert 0.85 < np.mean(np.square(off)) < 1.15
