"""Fixtures for all tests."""

import os

import pytest

# Before NumPy and torch are imported: with arrays this small, threads of several tests at once wait for each other, for minutes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# No test starts a process that compiles beside it, but for those of that (tests/test_ahead.py).
os.environ.setdefault("COMMONGROUND_COMPILE_AHEAD", "0")


def pytest_configure(config: pytest.Config) -> None:
    """Tests that run side by side have one compiled thread each; a test that wants two says so. Results do not depend on it."""
    if "PYTEST_XDIST_WORKER" in os.environ or "ONE_THREAD" in os.environ:
        import numba

        from commonground.threads import set_num_threads

        numba.set_num_threads(1)
        set_num_threads(1)


@pytest.fixture(params=range(3))
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)
