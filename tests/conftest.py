"""Fixtures for all tests."""

import os

import pytest

# Before torch is imported: with tensors this small, threads of several tests at once wait for each other, for minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(params=range(3))
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)
