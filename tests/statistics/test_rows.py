"""How many rows people have, and what they count by that."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from commonground.clipping.grid import N_BINS, bin_of
from commonground.data.population import Block
from commonground.statistics.posterior import PosteriorGradients
from commonground.statistics.rows import RowCounts, credits_by_rows, shares_by_rows
from commonground.statistics.statistic import SharedModel
from populations import ragged_block

D = 4
MODEL = SharedModel(np.eye(D)[:, :2], np.ones(D), 0.1, True, spread=np.eye(3), noise=0.7)
LOWEST = 110


def test_rows_are_counted_by_their_size() -> None:
    block = Block(np.zeros((13, D)), np.zeros(13), np.array([0, 0, 3, 13]), 0, np.array([1.0, 0.5, 1.0]))
    counts = RowCounts().of(block).counts
    assert len(counts) == N_BINS
    assert {b: counts[b] for b in np.flatnonzero(counts)} == {0: 1.0, bin_of(9.0): 0.5, bin_of(100.0): 1.0}


def test_nobody_counts_for_more_than_her_weight() -> None:
    rng = np.random.default_rng(0)
    block = ragged_block(0, n_users=200, d=D, low=0, high=60)
    block = Block(block.X, block.y, block.offsets, 0, rng.integers(0, 2**20, 200) / 2.0**20)
    for full_rows in (0.0, 1.0, 7.3, 45.0, 1e9):
        shares, credits_ = shares_by_rows(block, full_rows), credits_by_rows(block, full_rows)
        assert ((shares >= 0.0) & (shares <= 1.0)).all()
        assert ((credits_ >= 0.0) & (credits_ <= block.person_weights)).all()
        assert (credits_ * 2.0**20 == np.rint(credits_ * 2.0**20)).all(), "adds up exactly"


def test_gradients_are_those_of_everybody_times_her_share() -> None:
    """Person by person: the same gradient, shorter; the histogram counts her share; dense and sparse rows alike."""
    block = ragged_block(2, n_users=30, d=D, low=2, high=20)
    for one in range(30):
        rows = slice(block.offsets[one], block.offsets[one + 1])
        alone = Block(block.X[rows], block.y[rows], np.array([0, rows.stop - rows.start]), 0)
        share = min(1.0, (rows.stop - rows.start) / 11.0)
        for of_mean in (False, True):
            plain = PosteriorGradients(MODEL, of_mean, 0.5 * of_mean, LOWEST).of(alone)
            for seen in (alone, replace(alone, X=sparse.csr_array(alone.X))):
                by_rows = PosteriorGradients(MODEL, of_mean, 0.5 * of_mean, LOWEST, 11.0).of(seen)
                np.testing.assert_allclose(
                    by_rows.raw.sum(axis=0), share * plain.raw.sum(axis=0), rtol=1e-9, atol=1e-12
                )
                assert by_rows.counts.sum() == 1.0
                assert by_rows.counted.sum() == np.floor(share * 2**20) / 2**20
