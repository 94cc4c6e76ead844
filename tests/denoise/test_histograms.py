"""Where sizes lie, read off noisy histograms: right where people can be seen, harmless where they cannot."""

import numpy as np

import commonground as cg
from commonground.clipping.grid import N_BINS, bin_of
from commonground.denoise.histograms import LOCATING_WIDTH, densest_window


def test_noise_alone_is_taken_for_size_one() -> None:
    """Of 400 histograms of noise, 2 on average have a window elsewhere that is believed; more than 12 by a chance below 1e-6."""
    rng = np.random.default_rng(0)
    at_one = densest_window(np.zeros(N_BINS), 1.0)
    assert at_one <= bin_of(1.0) < at_one + LOCATING_WIDTH
    elsewhere = sum(abs(densest_window(rng.standard_normal(N_BINS), 1.0) - at_one) > LOCATING_WIDTH for _ in range(400))
    assert elsewhere <= 12


def test_people_are_found_wherever_they_are() -> None:
    """25 standard deviations of one bin, in one: beside the noise of eight bins and the preference for size one."""
    rng = np.random.default_rng(1)
    for place in (5, 60, 121, 200, 238):
        counts = rng.standard_normal(N_BINS)
        counts[place] += 25.0
        assert densest_window(counts, 1.0) <= place < densest_window(counts, 1.0) + LOCATING_WIDTH


def test_one_model_of_few_people_does_not_explode() -> None:
    """Of 139 people at ε = 1 little can be learned. Labels are of size one; steps in a wrong unit made errors of 10⁹."""
    users, _ = cg.datasets.make_shared_subspace(139, n_features=20, noise=0.5, seed=2)
    X, y = users.rows_of(users.ids[0])
    for seed in range(10):
        model = cg.SingleModel(1.0, simulation_seed=seed).fit(users)
        assert np.abs(model.predict(X, users=[users.ids[0]] * len(y))).max() < 100
