"""Scales, moments and rows in other coordinates against slow versions, one person at a time."""

import numpy as np
import pytest

from commonground.data.users import Block
from commonground.statistics import coordinates
from commonground.statistics.coordinates import FeatureMoments, InCoordinates, ScaleProfiles
from commonground.statistics.gradients import WINDOW, EmbeddingGradients
from commonground.statistics.kernels.coordinates import Coordinates
from commonground.statistics.statistic import SharedModel
from populations import ragged_block

D, LOWEST = 6, 121 - WINDOW // 2


def people(block: Block) -> list[np.ndarray]:
    return [block.X[lo:hi].astype(float) for lo, hi in zip(block.offsets[:-1], block.offsets[1:], strict=True)]


@pytest.mark.parametrize("local_intercept", [False, True])
def test_profiles_are_logarithms_of_energies_against_the_persons_middle_one(local_intercept: bool, seed: int) -> None:
    block, guess = ragged_block(seed), np.arange(D) / 3
    block.X[: block.offsets[1], 2] = 0.0
    expected = np.zeros(D)
    for X in people(block):
        X = X - X.mean(axis=0) if local_intercept else X
        energy = (X**2).sum(axis=0)
        known = energy > 1e-12
        if known.any():
            octaves = np.log2(energy[known]) - guess[known]
            expected[known] += octaves - np.median(octaves)
    sums = ScaleProfiles(guess, local_intercept, LOWEST).of(block)
    np.testing.assert_allclose(sums.raw.sum(axis=0)[0], expected, atol=1e-9)


@pytest.mark.parametrize("local_intercept", [False, True])
def test_moments_have_norm_one(local_intercept: bool, seed: int) -> None:
    block = ragged_block(seed, dtype=np.float32)
    expected = np.zeros((D, D))
    for X in people(block):
        X = X - X.mean(axis=0) if local_intercept else X
        if np.abs(X).max() > 1e-9:
            expected += X.T @ X / np.linalg.norm(X.T @ X)
    sums = FeatureMoments(local_intercept).of(block)
    np.testing.assert_allclose(sums.value, expected, atol=1e-9)
    assert sums.bounded("m").sensitivity == pytest.approx(2**0.5)


@pytest.mark.parametrize("kind", ["scales", "matrix"])
def test_sums_in_coordinates_are_those_of_transformed_rows(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinates, "_PIECE", 7)
    block, rng = ragged_block(seed), np.random.default_rng(seed)
    block = Block(block.X, block.y, block.offsets, 0, weights=rng.choice([0.5, 1.0], block.n_users))
    T = rng.standard_normal((D, D)) if kind == "matrix" else rng.uniform(1, 3, D)
    Z = block.X @ T.T if kind == "matrix" else block.X * T
    asked = EmbeddingGradients(SharedModel(np.linalg.qr(rng.standard_normal((D, 2)))[0]), LOWEST)
    expected = asked.of(Block(Z, block.y, block.offsets, 0, block.weights))
    sums = InCoordinates(T, asked).of(block)
    np.testing.assert_allclose(sums.raw, expected.raw, atol=1e-9)
    np.testing.assert_array_equal(sums.counts, expected.counts)
    assert sums.n_users == block.n_users


def test_a_row_is_transformed_alike_wherever_it_stands() -> None:
    """To the last bit: else a person with more rows would move everybody after her."""
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((1001, 51)).astype(np.float32), rng.standard_normal((51, 51))
    for seen, expected in ((Coordinates(T, T[0]), (X - T[0]) @ T.T), (Coordinates(T[1], T[0]), (X - T[0]) * T[1])):
        whole = seen.rows(X)
        for start in (1, 3, 500, 1000):
            np.testing.assert_array_equal(seen.rows(X[start:]), whole[start:])
        np.testing.assert_allclose(whole, expected, atol=1e-4)
