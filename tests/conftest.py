"""Fixtures for all tests."""

import pytest


@pytest.fixture(params=range(3))
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)
